/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/objects.h - the model of all objects of a world: which contents an object may have.
 *
 * A source has versions, put one after another. A put that was acknowledged is the least version from
 * then on; one that was not may have happened or not. The sink of a pipeline has a version of its
 * source, whole, or does not exist.
 */
#ifndef TESTS_SIM_OBJECTS_H
#define TESTS_SIM_OBJECTS_H

#include "tests/sim/plan.h"

#define SIM_VERSIONS 64u

struct sim_versions {
	unsigned count;	       /* versions that were put, or begun */
	unsigned acknowledged; /* the oldest one that it may still have; SIM_VERSIONS: none */
	uint64_t seed[SIM_VERSIONS];
	size_t bytes[SIM_VERSIONS];
};

/* Tiles of the newest run of a tap that consumers have had. */
struct sim_delivered {
	uint64_t epoch, tiles, had;
	bool tile[SIM_BYTES_MAX / 4096 + 1];
};

/* In memory that the processes of the world share. */
struct sim_objects {
	const struct sim_plan *plan;
	struct sim_versions versions[SIM_OBJECTS]; /* of sources */
	struct sim_delivered delivered[SIM_PIPELINES];
};

void sim_objects_open(struct sim_objects *objects, const struct sim_plan *plan);

/* The bytes of the version with that number. data: some bytes longer. */
void sim_objects_fill(const struct sim_plan *plan, unsigned object, uint8_t *data, uint64_t number,
		      size_t bytes);

/* The only version of an object that a producer feeds. */
void sim_objects_feed(struct sim_objects *objects, unsigned object, uint64_t number);

/* Begin another version of a source: its bytes are in `file`. */
void sim_objects_begin(struct sim_objects *objects, unsigned object, uint64_t number,
		       const char *file);
/* The newest version was acknowledged. */
void sim_objects_acknowledge(struct sim_objects *objects, unsigned object);

/* A run of a gather has ended without a failure: its object `rows` is in the file. */
void sim_objects_check_rows(const struct sim_objects *objects, unsigned pipeline, const char *file);

/* The source that an object follows from, through any number of pipelines. */
unsigned sim_objects_source(const struct sim_plan *plan, unsigned object);

/* The oldest version that an object may have from now on; SIM_VERSIONS: any. */
unsigned sim_objects_least(const struct sim_objects *objects, unsigned object);

/*
 * The version of `object` that a file or data have, or a fault of the world: the bytes are none of its
 * versions, or of an older one than `least`.
 */
unsigned sim_objects_check(const struct sim_objects *objects, unsigned object, const char *file,
			   unsigned least);
unsigned sim_objects_check_data(const struct sim_objects *objects, unsigned object,
				const void *data, size_t bytes, unsigned least);

/* True when the bytes are the begin of a version of `object`. */
bool sim_objects_begins(const struct sim_objects *objects, unsigned object, const void *data,
			size_t bytes);

#endif
