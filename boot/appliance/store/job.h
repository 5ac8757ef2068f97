/*
 * boot/appliance/store/job.h - the steps of a request of the store. The service
 * (boot/appliance/store/service.h) calls these when client, ssd and rate permit.
 */
#ifndef BOOT_APPLIANCE_STORE_JOB_H
#define BOOT_APPLIANCE_STORE_JOB_H

#include "boot/appliance/store/service.h"

#define HR_STORE_JOB_BUFFER ((2u << 20) + (64u << 10)) /* a whole map, and the reply behind it */

/* HR_STORE_JOB_BEGINS: check the request, and begin it. */
void hr_store_job_begin(struct hr_store_service *service, struct hr_store_job *job);

/* HR_STORE_JOB_SENDS: the buffer is sent, and more data follow. */
void hr_store_job_sent(struct hr_store_service *service, struct hr_store_job *job);

/* HR_STORE_JOB_READY: begin the next command. */
void hr_store_job_use_disk(struct hr_store_service *service, struct hr_store_job *job);

/* HR_STORE_JOB_ON_DISK: the command has ended with err. */
void hr_store_job_used_disk(struct hr_store_service *service, struct hr_store_job *job, int err);

/* The request has failed: the reply is job->e. Undoes its steps. */
void hr_store_job_fail(struct hr_store_service *service, struct hr_store_job *job);

/* The client disconnected, or is dropped: undo the steps of the request. */
void hr_store_job_undo(struct hr_store_service *service, struct hr_store_job *job);

/* ---- for boot/appliance/store/put.c and change.c */

/* True for the kinds that make job->object. */
bool hr_store_job_makes(const struct hr_store_job *job);

/* Pin an object that is read from now on, from its first byte. 0, or -ENFILE with job->e. */
int hr_store_job_pin(struct hr_store_service *service, struct hr_store_job *job,
		     const struct hr_store_object *object);

/* 0, or -ESTALE with job->e: the piece that was read may belong to another version. */
int hr_store_job_check_read(const struct hr_store_service *service, struct hr_store_job *job);

struct hr_store *hr_store_job_store(const struct hr_store_service *service,
				    const struct hr_store_job *job);

/* Add an item to the buffer (body NULL: it is there, or follows); begin to send the buffer; add the
 * reply, with job->e when it has a text, and send it. */
void hr_store_job_add(struct hr_store_job *job, enum hr_message_kind kind, const void *body,
		      uint32_t bytes);
void hr_store_job_send(struct hr_store_job *job);
void hr_store_job_reply(const struct hr_store_service *service, struct hr_store_job *job,
			uint32_t code);

/* 0, or -EBUSY with job->e: a run changes object `id` in place (hr_run_changing()). */
int hr_store_job_check_changing(const struct hr_store_service *service, struct hr_store_job *job,
				uint64_t id, bool running);

/* 0, or -EBUSY with job->e: the appliance itself makes the objects of that name. */
int hr_store_job_check_own(struct hr_store_job *job, const char *name);

/* Bytes of a piece of an object, which ends with the object. */
uint32_t hr_store_service_piece(const struct hr_store_service *service,
				const struct hr_store_job *job);

#endif
