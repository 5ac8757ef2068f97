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

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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

/* An argument as the configuration file has it. */
struct hr_op_arg {
	const char *name;
	enum { HR_ARG_INT, HR_ARG_FLOAT, HR_ARG_STRING, HR_ARG_FLOATS } type;
	int64_t integer;
	double real;
	const char *string;
	const double *reals; /* [count] */
	uint32_t count;
	unsigned line; /* in the configuration file */
};

enum hr_op_output {
	HR_OUT_NONE, /* a result record only; a sink object is a mistake */
	HR_OUT_DATA, /* out_num / out_den bytes per input byte of source 0; needs a sink object */
};

struct hr_op_user;

struct hr_op_desc {
	const char *name;
	const char *help; /* one paragraph: sources, arguments, result */
	enum hr_op_id id; /* HR_OP_COUNT and up: a user operator */
	uint32_t sources_min, sources_max;
	enum hr_op_output output;
	uint32_t out_num, out_den;
	uint32_t tile_record_bytes;
	/* Each byte of a tile is read once (or nearly): a GPU reads tiles in host memory where they
	 * are. Otherwise its block copies a tile to its own memory first. */
	bool reads_once;
	/* The record of a tile is the CRC-32C of source 0's: where that is wanted, it is not computed
	 * a second time. */
	bool records_checksum;
	/*
	 * Check the arguments and store them as the worker code wants them, in args (at most
	 * HR_OP_ARGS_MAX). `complain` is called once per mistake with the line it is on (0: none).
	 * Returns the bytes used, or -EINVAL after at least one complaint.
	 */
	int (*parse)(const struct hr_op_arg *arg, uint32_t count, void *args,
		     void (*complain)(void *to, unsigned line, const char *text), void *to);
	/* Bytes of one row in source i; 1 when the operator does not care. All sources hold the
	 * same number of rows, and a tile is whole rows. */
	uint32_t (*row_bytes)(const void *args, uint32_t source);
	/* State of one worker. */
	uint32_t (*state_bytes)(const void *args);
	/* Result for people (a few lines, no newline at the end) ... */
	void (*print)(const struct hr_op_all *all, FILE *out);
	/* ... and for programs: members added to a json_object. */
	void (*json)(const struct hr_op_all *all, void *json_object);
	/* Of a user operator: its file's description and CRC-32C; print and json are NULL. */
	const struct hr_op_user *user;
	uint32_t checksum;
};

/* The built-in operator of that name; the operator, built in or loaded, of that id. NULL: none. */
const struct hr_op_desc *hr_op_find(const char *name);
const struct hr_op_desc *hr_op_get(enum hr_op_id id);

/* The result of any operator, through its description. */
void hr_op_print(const struct hr_op_desc *op, const struct hr_op_all *all, FILE *out);
void hr_op_json(const struct hr_op_desc *op, const struct hr_op_all *all, void *json_object);

#endif
#endif
