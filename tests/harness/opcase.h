/*
 * tests/harness/opcase.h - an operator over whole objects, tile by tile, as the pipeline runs it but
 * without one: tiles are copied to page-aligned memory that is not longer than they are, tile t is
 * computed by worker t mod workers, and tiles may come backwards.
 */
#ifndef TESTS_HARNESS_OPCASE_H
#define TESTS_HARNESS_OPCASE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ops/operators.h"

struct opcase {
	enum hr_op_id op;
	const void *args;
	uint32_t sources;
	const void *in[HR_SOURCES_MAX];
	uint64_t bytes[HR_SOURCES_MAX];
	uint32_t tile_bytes[HR_SOURCES_MAX];
	uint32_t workers;
	bool backwards;
	/* What comes out; freed by opcase_free(). */
	struct hr_op_all all;
	uint8_t *out; /* of all tiles, in order */
	uint64_t out_bytes;
};

/* Run it. Stops the test when memory runs out. */
void opcase_run(struct opcase *c);
void opcase_free(struct opcase *c);

#endif
