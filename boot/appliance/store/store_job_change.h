/*
 * boot/appliance/store/store_job_change.h - the steps of store-rm, store-mv and store-cp
 * (boot/appliance/store/job.h). An object that a run uses, or that another client makes, is refused.
 */
#ifndef BOOT_APPLIANCE_STORE_STORE_JOB_CHANGE_H
#define BOOT_APPLIANCE_STORE_STORE_JOB_CHANGE_H

#include "boot/appliance/store/job.h"

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
