/*
 * config/operator.h - the contract of an operator, the compute of a pipeline: what its worker code is
 * given, and the one description of it, whether it is built in or loaded from a file.
 * The source of an operator includes gpu/ops/operator.h.
 *
 * State: each worker has state_bytes of its own, zeroed, so tiles need no locks. The block that
 * computes a tile writes the tile_record_bytes of that tile. finish() reduces states and records,
 * once, in one block. Which tiles come to a worker, and in which order, differs from run to run: a
 * result that must not differ is made of whole numbers, or of records.
 */
#ifndef CONFIG_OPERATOR_H
#define CONFIG_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "config/limits.h"

#define HR_OP_STATE_MAX (16u << 20) /* bytes of the state of one worker */
#define HR_OP_RECORD_MAX 65536u	    /* record of one tile */
#define HR_OP_RATIO_MAX 4096u	    /* out_num, out_den */
#define HR_OP_HELP_MAX 4096u	    /* help text, with its NUL */

/* One tile, as tile() gets it. */
struct hr_op_tile {
	uint64_t index;			   /* 0 .. tiles - 1 */
	const uint8_t *in[HR_SOURCES_MAX]; /* page aligned */
	uint32_t in_bytes[HR_SOURCES_MAX]; /* of this tile; the last may be short */
	uint8_t *out;			   /* page aligned, or NULL */
	uint32_t out_capacity;
	void *record; /* tile_record_bytes of this tile, or NULL */
};

/* All tiles, as finish() and report() get them. */
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

/*
 * Where report() sends the values of a result: lines for people, members of an object with --json.
 * Names are words without blanks. Everything is copied.
 */
struct hr_op_report {
	void (*u64)(const struct hr_op_report *to, const char *name, uint64_t value);
	void (*i64)(const struct hr_op_report *to, const char *name, int64_t value);
	void (*real)(const struct hr_op_report *to, const char *name, double value);
	void (*text)(const struct hr_op_report *to, const char *name, const char *value);
	void (*u64s)(const struct hr_op_report *to, const char *name, const uint64_t *value,
		     uint32_t count);
	void (*reals)(const struct hr_op_report *to, const char *name, const double *value,
		      uint32_t count);
	/* A list: item() is called for each i below count and reports to item_to, either one value
	 * without a name (NULL) or the named values of an object. */
	void (*list)(const struct hr_op_report *to, const char *name, const struct hr_op_all *all,
		     uint64_t count,
		     void (*item)(const struct hr_op_all *all, uint64_t i,
				  const struct hr_op_report *item_to));
	/* A line for people, printf-like. An operator that has lines of its own calls this first:
	 * from the first line on, values are members of the object only. */
	void (*line)(const struct hr_op_report *to, const char *format, ...)
		__attribute__((format(printf, 2, 3)));
};

enum hr_op_output {
	HR_OUT_NONE, /* a result record only; a sink object is a mistake */
	HR_OUT_DATA, /* out_num / out_den bytes per input byte of source 0; needs a sink object */
};

/* The description of an operator. HR_OPERATOR() makes it and fills the first group. */
struct hr_operator {
	uint32_t abi;	/* HR_OP_ABI */
	uint32_t bytes; /* sizeof(struct hr_operator) */
	/* Worker code for the CPU; gpu/ops/operator.h has its contract. */
	void (*init)(const void *args, void *state);
	uint32_t (*tile)(const void *args, void *state, const struct hr_op_tile *tile);
	void (*finish)(const struct hr_op_all *all);
	/* Worker code for the GPU of an operator file: a relocatable fatbin; equal: the file has none.
	 * NULL: built in, and in the worker image. */
	const uint8_t *gpu, *gpu_end;

	const char
		*name; /* [a-z][a-z0-9_]*, shorter than HR_NAME_MAX; of a file: no built-in one's */
	const char *help; /* one paragraph: sources, arguments, result; under HR_OP_HELP_MAX */
	uint32_t sources_min, sources_max; /* 1..HR_SOURCES_MAX; 0, 0: one */
	enum hr_op_output output;
	uint32_t out_num, out_den;  /* with HR_OUT_DATA: each 1..HR_OP_RATIO_MAX */
	uint32_t tile_record_bytes; /* up to HR_OP_RECORD_MAX */
	/* Each byte of a tile is read once (or nearly): a GPU reads tiles in host memory where they
	 * are. Otherwise its block copies a tile to its own memory first. */
	bool reads_once;
	/* The record of a tile is the CRC-32C of source 0's: where that is wanted, it is not computed
	 * a second time. */
	bool records_checksum;
	/*
	 * Check the arguments and store them as the worker code wants them, in args (at most
	 * HR_OP_ARGS_MAX). `complain` is called once per mistake with the line it is on (0: none).
	 * Returns the bytes used, or -EINVAL after at least one complaint. NULL: no arguments.
	 */
	int (*parse)(const struct hr_op_arg *arg, uint32_t count, void *args,
		     void (*complain)(void *to, unsigned line, const char *text), void *to);
	/* Bytes of one row in a source, up to HR_TILE_MAX; NULL: 1. All sources hold the same number
	 * of rows, and a tile is whole rows. */
	uint32_t (*row_bytes)(const void *args, uint32_t source);
	/* State of one worker, up to HR_OP_STATE_MAX, a multiple of 8; NULL: 0. */
	uint32_t (*state_bytes)(const void *args);
	/* The result, value by value, after finish(), from its arguments, result and records (states
	 * may be NULL). NULL: none. With a report, an interrupted run that is called again starts over
	 * instead of going on after what is durable of the sink. */
	void (*report)(const struct hr_op_all *all, const struct hr_op_report *to);
};

/* What a description says, with the values that it may leave out. */
static inline bool hr_op_built_in(const struct hr_operator *op)
{
	return !op->gpu;
}

static inline uint32_t hr_op_sources_min(const struct hr_operator *op)
{
	return op->sources_min ? op->sources_min : 1;
}

static inline uint32_t hr_op_sources_max(const struct hr_operator *op)
{
	return op->sources_max ? op->sources_max : 1;
}

static inline uint32_t hr_op_row_bytes(const struct hr_operator *op, const void *args,
				       uint32_t source)
{
	return op->row_bytes ? op->row_bytes(args, source) : 1;
}

static inline uint32_t hr_op_state_bytes(const struct hr_operator *op, const void *args)
{
	return op->state_bytes ? op->state_bytes(args) : 0;
}

/* op->parse(); every argument of an operator that has none is a mistake. */
int hr_op_parse(const struct hr_operator *op, const struct hr_op_arg *arg, uint32_t count,
		void *args, void (*complain)(void *to, unsigned line, const char *text), void *to);

#endif
