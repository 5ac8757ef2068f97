/*
 * boot/engine/objects/access_shards.h - the objects of an access operator whose run is divided
 * over several processes (ranks). Each of them is whole on every rank, or a shard on every
 * rank: the operator's description says which ones may be shards.
 */
#ifndef BOOT_ENGINE_OBJECTS_ACCESS_SHARDS_H
#define BOOT_ENGINE_OBJECTS_ACCESS_SHARDS_H

#include "boot/engine/engine.h"

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
void hr_run_object_take(struct hr_run_object *to, const struct hr_store_object *object);

/* The same from the run that makes it: its sink, or its new object of that name. */
void hr_run_object_take_made(struct hr_run_object *to, const struct hr_run *maker,
			     const struct hr_config_object *object);

/*
 * After all objects of a run are found: give each new object the rows of this rank, and check that the
 * operator can divide what is divided: columns of one table, in whole rows, the same rows of each. An
 * object that the operator writes is divided. A run that is not divided has no shards. 0, or -EINVAL
 * in app->error, with file and line.
 */
int hr_access_divide(struct hr_appliance *app, struct hr_run *run);

/* The identity of the data of object k, the same on all ranks. Those of the runs before are known. */
uint64_t hr_run_object_set(const struct hr_appliance *app, const struct hr_run *run, uint32_t k);

#endif
