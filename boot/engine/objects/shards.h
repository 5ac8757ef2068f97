/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/objects/shards.h - the objects of a run that is divided over several processes (ranks).
 *
 * Such a run counts tiles, rows and bytes in the whole data set; this process has the tiles
 * hr_run_first_tile() .. hr_run_end_tile() - 1. A shard holds the bytes of some tiles, and the
 * sink of this process holds those of its own tiles.
 */
#ifndef BOOT_ENGINE_OBJECTS_SHARDS_H
#define BOOT_ENGINE_OBJECTS_SHARDS_H

#include "boot/engine/engine.h"

/* True when other processes have other tiles of the run. */
static inline bool hr_run_is_divided(const struct hr_run *run)
{
	return run->parts > 1;
}

/* Where the sink of this process begins in the whole output, and its length. All of it, when the run is
 * not divided. */
uint64_t hr_run_sink_at(const struct hr_run *run);
uint64_t hr_run_sink_held(const struct hr_run *run);

/* The sink of this process as a shard; the run is divided. */
void hr_run_sink_shard(const struct hr_run *run, struct hr_store_shard *shard);

/* Bytes of the sink of this process in the tiles before `tiles`. */
uint64_t hr_run_sink_prefix(const struct hr_run *run, uint64_t tiles);

/* Take place and length of source s from its object. */
void hr_run_set_source(struct hr_run *run, uint32_t s, const struct hr_store_object *object);

/* The same from the run that makes the object. */
void hr_run_set_source_of(struct hr_run *run, uint32_t s, const struct hr_run *maker);

/*
 * Refuse source s when its object is a shard, and the run is not divided. (When it is, the ranks check
 * their shards together.) 0, or -EINVAL in engine->error, with file and line.
 */
int hr_run_check_shard(struct hr_engine *engine, const struct hr_run *run, uint32_t s);

/* Add "is shard R of N ..." of an object that no process alone can read. Returns -EINVAL. */
int hr_shard_refuse(struct hr_engine *engine, const struct hr_config_object *object,
		    const struct hr_store_shard *shard, uint64_t bytes);

/* Set the tiles of this process, after their number in the data set is known. */
void hr_run_set_tiles(struct hr_run *run);

/* Length and id of an object that this run creates, a sink or a new object. With ranks the length is
 * that of the shard. */
uint64_t hr_new_object_bytes(const struct hr_run *run, const struct hr_config_object *object);

uint64_t hr_new_object_id(const struct hr_run *run, const struct hr_config_object *object);

/* When that object is a shard: true, and *shard; its set is not known before the stage `sinks`. */
bool hr_new_object_shard(const struct hr_run *run, const struct hr_config_object *object,
			 struct hr_store_shard *shard);

/* ---- the objects of an access operator whose run is divided
 * over several processes (ranks). Each of them is whole on every rank, or a shard on every
 * rank: the operator's description says which ones may be shards.
 */

/* Where the data of an object begin in the data set, and the length of that. 0 and its own length for a
 * whole object. */
static inline uint64_t hr_run_object_at(const struct hr_run_object *object)
{
	return object->is_shard ? object->shard.first_row * object->shard.row_bytes : 0;
}
static inline uint64_t hr_run_object_all(const struct hr_run_object *object)
{
	return object->is_shard ? object->shard.rows * object->shard.row_bytes : object->bytes;
}

/* Take length and shard of an object from the object map. */
void hr_run_object_set(struct hr_run_object *to, const struct hr_store_object *object);

/* The same from the run that makes it: its sink, or its new object of that name. */
void hr_run_object_set_of(struct hr_run_object *to, const struct hr_run *maker,
			  const struct hr_config_object *object);

/*
 * After all objects of a run are found: give each new object the rows of this rank, and check that the
 * operator can divide what is divided: columns of one table, in whole rows, the same rows of each. An
 * object that the operator writes is divided. A run that is not divided has no shards. 0, or -EINVAL
 * in engine->error, with file and line.
 */
int hr_access_divide(struct hr_engine *engine, struct hr_run *run);

/* The identity of the data of object k, the same on all ranks. Those of the runs before are known. */
uint64_t hr_run_object_data_set(const struct hr_engine *engine, const struct hr_run *run,
				uint32_t k);

#endif
