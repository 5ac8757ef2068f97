/*
 * boot/cmd/bench/objects.h - `headrace bench`: objects of the bench on an ssd, and pipelines over
 * them.
 */
#ifndef BOOT_CMD_BENCH_OBJECTS_H
#define BOOT_CMD_BENCH_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/cmd/bench/bench.h"

/* Bytes of an object for that ssd: the requested size, or a size such that a second object fits. */
uint64_t hr_bench_object_bytes(const struct hr_bench_run *run, uint32_t d);

/* Size of a source, whole MiB, such that a sink of the same size fits, too; 0: none does. */
uint64_t hr_bench_source_bytes(const struct hr_bench_run *run, uint32_t d);

/* Contents of an object: piece() fills `bytes` bytes, which lie at offset `at` of the object. */
struct hr_bench_fill {
	void (*piece)(void *piece, uint64_t at, uint32_t bytes, uint64_t argument);
	uint64_t argument;
	bool same; /* every piece is as the first */
};

/* Create an object with these contents. 0; -EINTR: a signal requested a stop; or an error in e. */
int hr_bench_make(struct hr_ssd *ssd, const char *name, uint64_t bytes,
		  const struct hr_bench_fill *fill, struct hr_error *e);

/* Remove the finished and the incomplete object of that name, if there are any. */
int hr_bench_drop(struct hr_ssd *ssd, const char *name, struct hr_error *e);

/* Returns err, with the object named in e. */
int hr_bench_complain(const struct hr_ssd *ssd, const char *object, int err, struct hr_error *e);

/* Make a copy of this the only pipeline of the appliance, in place of those of its configuration.
 * Returns the copy. */
struct hr_config_pipeline *hr_bench_only_pipeline(struct hr_appliance *app,
						  const struct hr_config_pipeline *p);

#endif
