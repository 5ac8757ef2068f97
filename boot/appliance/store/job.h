/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/store/job.h - a request of the store in steps: put, rm, mv, cp.
 */
#ifndef BOOT_APPLIANCE_STORE_JOB_H
#define BOOT_APPLIANCE_STORE_JOB_H

#include "boot/appliance/store/service.h"

/* ---- the steps of a request of the store. The service
 * (boot/appliance/store/service.h) calls these when client, ssd and rate permit.
 */

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

/* ---- the steps of a put: its
 * incomplete object, the items that the client sends, and the commit.
 */

/* Create the incomplete object, and permit the client to send its data. */
void hr_store_job_begin_put(struct hr_store_service *service, struct hr_store_job *job);

/* HR_STORE_JOB_RECEIVES: receive from the client. HR_STORE_JOB_FREE afterwards: the client has
 * gone, and all is undone. */
void hr_store_job_receive(struct hr_store_service *service, struct hr_store_job *job);

/* 0, or -ESTALE with job->e: the incomplete object is not there any more. */
int hr_store_job_check_made(struct hr_store_service *service, struct hr_store_job *job);

/* HR_STORE_JOB_FINISHES: make the object of a put or a copy a whole one. */
void hr_store_job_finish(struct hr_store_service *service, struct hr_store_job *job);

/* ---- the steps of store-rm, store-mv and store-cp. An object that a run uses, or that
 * another client makes, is refused.
 */

/* Remove or rename objects, and reply. */
void hr_store_job_remove(struct hr_store_service *service, struct hr_store_job *job);
void hr_store_job_rename(struct hr_store_service *service, struct hr_store_job *job);

/*
 * Pin the object job->from, and create its incomplete copy, job->object. Then data go from one to
 * the other in pieces: the service reads a piece (job->write false) and writes it, and copied()
 * follows the end of each of these commands.
 */
void hr_store_job_begin_copy(struct hr_store_service *service, struct hr_store_job *job);
void hr_store_job_copied(struct hr_store_service *service, struct hr_store_job *job);

/* The client has the newest progress: the next piece, or the end of the copy. */
void hr_store_job_copy_on(struct hr_store_service *service, struct hr_store_job *job);

#endif
