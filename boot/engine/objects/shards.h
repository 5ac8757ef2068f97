/*
 * boot/engine/objects/shards.h - the objects of a run that is divided over several processes (ranks).
 *
 * Such a run counts tiles, rows and bytes in the whole data set; this process has the tiles
 * hr_run_begin() .. hr_run_end() - 1. A shard holds the bytes of some tiles, and the sink of this
 * process holds those of its own tiles.
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
void hr_run_take_object(struct hr_run *run, uint32_t s, const struct hr_store_object *object);

/* The same from the run that makes the object. */
void hr_run_take_made(struct hr_run *run, uint32_t s, const struct hr_run *maker);

/*
 * Refuse source s when its object is a shard, and the run is not divided. (When it is, the ranks check
 * their shards together.) 0, or -EINVAL in app->error, with file and line.
 */
int hr_run_check_shard(struct hr_appliance *app, const struct hr_run *run, uint32_t s);

/* Add "is shard R of N ..." of an object that no process alone can read. Returns -EINVAL. */
int hr_shard_refuse(struct hr_appliance *app, const struct hr_config_object *object,
		    const struct hr_store_shard *shard, uint64_t bytes);

/* Set the tiles of this process, after their number in the data set is known. */
void hr_run_take_tiles(struct hr_run *run);

/* Length and id of an object that this run creates, a sink or a new object. With ranks the length is
 * that of the shard. */
uint64_t hr_run_made_bytes(const struct hr_run *run, const struct hr_config_object *object);

uint64_t hr_run_made_id(const struct hr_run *run, const struct hr_config_object *object);

/* When that object is a shard: true, and *shard; its set is not known before the stage `sinks`. */
bool hr_run_made_shard(const struct hr_run *run, const struct hr_config_object *object,
		       struct hr_store_shard *shard);

#endif
