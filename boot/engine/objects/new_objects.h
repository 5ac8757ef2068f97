/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/objects/new_objects.h - objects that access operators write: created like sinks,
 * incomplete until their run has succeeded, and removed when it fails. Also the search for the
 * pipeline that makes an object which a later pipeline reads.
 */
#ifndef BOOT_ENGINE_OBJECTS_NEW_OBJECTS_H
#define BOOT_ENGINE_OBJECTS_NEW_OBJECTS_H

#include "boot/engine/engine.h"

/* Index of the pipeline before pipeline i that creates the object; -1: none creates it. */
int hr_run_creator_of(const struct hr_engine *engine, uint32_t i,
		      const struct hr_config_object *object);

/* Refuse an object with the name of a sink or new object that is not of this run. why: "", or ": " and
 * a reason. Returns -EEXIST, in engine->error with file and line. */
int hr_new_object_refuse(struct hr_engine *engine, const struct hr_config_object *object,
			 bool pending, const char *why);

/* Create an incomplete object for a sink or new object, with this tag, a shard unless NULL. *id: its
 * id. 0, or the error of hr_store_create_shard(), in engine->error with file and line. */
int hr_new_object_create(struct hr_engine *engine, const struct hr_config_object *object,
			 struct hr_store *store, uint64_t bytes, uint64_t tag, bool replace,
			 const struct hr_store_shard *shard, uint64_t *id);

/*
 * Make the new objects of an access operator, in the store of each ssd or in rehearsals of them. The
 * fingerprint of the run is set. Sets its outcome when all of them exist and are complete. 0, or the
 * error of the store, in engine->error with file and line.
 */
int hr_new_objects_create(struct hr_engine *engine, struct hr_run *run,
			  struct hr_store *const store[HR_SSDS_MAX]);

/*
 * Write zeros over the objects that hr_new_objects_create() has created, because pages that
 * the operator never writes would hold old data of the disk. 0; -EINTR: a signal requests a
 * stop; or the error of the disk, -ENOMEM, in engine->error.
 */
int hr_new_objects_zero(struct hr_engine *engine, struct hr_run *run);

/* Before the workers start: drop the checksums of the objects that they change. 0, or the error of the
 * store. */
int hr_written_begin(struct hr_engine *engine, struct hr_run *run, struct hr_error *e);

/* After a successful run: mark the new objects as complete, and store the checksums of all written
 * objects that have one. 0, or the error of the store. */
int hr_new_objects_commit(struct hr_engine *engine, struct hr_run *run, struct hr_error *e);

/* Remove the new objects of a run that has failed or was not launched; a warning names each object
 * that cannot be removed. */
void hr_new_objects_remove(struct hr_engine *engine, struct hr_run *run);

/*
 * With engine->collect_ns: remove older incomplete objects on all ssds, except sinks that a pipeline
 * of the configuration may resume. Logs the removed objects. After `objects`.
 */
int hr_incomplete_collect(struct hr_engine *engine);

/*
 * Tag of the sink of a run with this fingerprint; never 0, and different with and without
 * `checksum`. With it, crc of the incomplete object is the CRC of its durable prefix. Versions
 * without such checksums write the tag without `checksum`, so they do not resume objects whose crc
 * they would not update.
 */
uint64_t hr_sink_tag(uint64_t fingerprint, bool checksum);

/* True when an interrupted run resumes after the durable prefix of its sink. */
bool hr_run_resumes(const struct hr_run *run);

#endif
