/*
 * boot/appliance/store/store_job_put.h - the steps of a put (boot/appliance/store/job.h): its
 * incomplete object, the items that the client sends, and the commit.
 */
#ifndef BOOT_APPLIANCE_STORE_STORE_JOB_PUT_H
#define BOOT_APPLIANCE_STORE_STORE_JOB_PUT_H

#include "boot/appliance/store/job.h"

/* Create the incomplete object, and permit the client to send its data. */
void hr_store_job_begin_put(struct hr_store_service *service, struct hr_store_job *job);

/* HR_STORE_JOB_RECEIVES: receive from the client. HR_STORE_JOB_FREE afterwards: the client has
 * gone, and all is undone. */
void hr_store_job_receive(struct hr_store_service *service, struct hr_store_job *job);

/* 0, or -ESTALE with job->e: the incomplete object is not there any more. */
int hr_store_job_check_made(struct hr_store_service *service, struct hr_store_job *job);

/* HR_STORE_JOB_FINISHES: make the object of a put or a copy a whole one. */
void hr_store_job_finish(struct hr_store_service *service, struct hr_store_job *job);

#endif
