/*
 * gpu/ops/topk_dot.h - arguments, state and result of the operator topk_dot.
 */
#ifndef GPU_OPS_TOPK_DOT_H
#define GPU_OPS_TOPK_DOT_H

#include <stdint.h>

#define HR_TOPK_MAX 128u	 /* rows that can be asked for: they are kept sorted, per worker */
#define HR_TOPK_DIMENSIONS 2048u /* floats in a row */

struct hr_topk_args {
	uint32_t k; /* 1..HR_TOPK_MAX */
	uint32_t dimensions;
	float query[HR_TOPK_DIMENSIONS]; /* [dimensions] */
};

/* A row: while running, tile << 32 | row in the tile; in the result, its number. */
struct hr_topk_row {
	uint64_t row;
	float score;
	uint32_t unused;
};

/* State of a worker (k rows long), and the result: best first; of equal scores the lower row. */
struct hr_topk {
	uint64_t count;
	struct hr_topk_row best[HR_TOPK_MAX];
};

#endif
