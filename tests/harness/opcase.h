/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/opcase.h - runs an operator over whole objects, tile by tile, like a pipeline but
 * without one. Tiles are copied to page-aligned memory of exactly their length. Worker t mod
 * workers computes tile t. Tiles may come in reverse order.
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
	/* Results; opcase_free() frees them. */
	struct hr_op_all all;
	uint8_t *out; /* of all tiles, in order */
	uint64_t out_bytes;
};

/* Run the operator. Ends the test when memory is exhausted. */
void opcase_run(struct opcase *c);
void opcase_free(struct opcase *c);

#endif
