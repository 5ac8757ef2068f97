/*
 * gpu/worker/op.h - operators: the compute of a pipeline.
 *
 * An operator is two things: worker code (init, tile, finish; gpu/ops/NAME.c, compiled for host and
 * GPU), and a description that the CPU reads (arguments, shapes, how to print the result; struct
 * hr_op_desc in gpu/ops/NAME_desc.c, host only). A new built-in one is those two files and a line
 * in HR_OPS.
 *
 * State: each worker has state_bytes of its own, zeroed, so tiles need no locks; tile_record_bytes
 * per tile are written by whoever computes that tile; finish() reduces both, once, in one block.
 * Which tiles come to a worker, and in what order, differs from run to run: a result that must not
 * differ is made of whole numbers, or of records.
 */
#ifndef GPU_WORKER_OP_H
#define GPU_WORKER_OP_H

#include <stdint.h>

#include "config/limits.h"
#include "nvme/worker.h"

#define HR_OPS(X) X(copy) X(crc32c) X(cast_f32_bf16) X(filter_sum) X(topk_dot)

enum hr_op_id {
#define HR_OP_ENUM(name) HR_OP_##name,
	HR_OPS(HR_OP_ENUM)
#undef HR_OP_ENUM
		HR_OP_COUNT
};

/* One tile, as tile() gets it. */
struct hr_op_tile {
	uint64_t index;			   /* 0 .. tiles - 1 */
	const uint8_t *in[HR_SOURCES_MAX]; /* page aligned */
	uint32_t in_bytes[HR_SOURCES_MAX]; /* of this tile; the last may be short */
	uint8_t *out;			   /* page aligned, or NULL */
	uint32_t out_capacity;
	void *record; /* tile_record_bytes of this tile, or NULL */
};

/* What finish() sees. */
struct hr_op_all {
	const void *args;
	uint64_t tiles;
	uint64_t bytes;	      /* length of source 0 */
	uint32_t tile_bytes;  /* of source 0 */
	uint32_t workers;     /* number of states */
	uint32_t state_bytes; /* stride of states */
	const uint8_t *states;
	uint32_t record_bytes;
	const uint8_t *records; /* [tiles] */
	void *result;		/* HR_OP_RESULT_MAX bytes, zeroed */
};

/*
 * Worker code of operator NAME, block-collective. args: parsed arguments, read only. state: of the
 * calling worker. tile returns the bytes written to out.
 *	HR_DEVICE void hr_op_NAME_init(const void *args, void *state);
 *	HR_DEVICE uint32_t hr_op_NAME_tile(const void *args, void *state,
 *					   const struct hr_op_tile *tile);
 *	HR_DEVICE void hr_op_NAME_finish(const struct hr_op_all *all);
 */
#define HR_OP_DECLARE(name)                                                    \
	HR_DEVICE void hr_op_##name##_init(const void *args, void *state);     \
	HR_DEVICE uint32_t hr_op_##name##_tile(const void *args, void *state,  \
					       const struct hr_op_tile *tile); \
	HR_DEVICE void hr_op_##name##_finish(const struct hr_op_all *all);
HR_OPS(HR_OP_DECLARE)
#undef HR_OP_DECLARE

/* Dispatch by id; in gpu/ops/dispatch.c. */
HR_DEVICE void hr_op_init(uint32_t op, const void *args, void *state);
HR_DEVICE uint32_t hr_op_tile(uint32_t op, const void *args, void *state,
			      const struct hr_op_tile *tile);
HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *all);

#ifndef __CUDACC__

#include <stdio.h>

#include "config/operator.h"

/* The built-in operator of that name; the operator, built in or loaded, of that id. NULL: none. */
const struct hr_op_desc *hr_op_find(const char *name);
const struct hr_op_desc *hr_op_get(enum hr_op_id id);

/* The result of any operator, through its description. */
void hr_op_print(const struct hr_op_desc *op, const struct hr_op_all *all, FILE *out);
void hr_op_json(const struct hr_op_desc *op, const struct hr_op_all *all, void *json_object);

#endif
#endif
