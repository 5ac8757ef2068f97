/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/operator.h - the contract of an operator, the compute of a pipeline: the arguments of its
 * worker code, and its description. Built-in operators and operators loaded from a file have the
 * same description. The source of an operator includes gpu/ops/operator.h.
 *
 * A stream operator has init() and tile(), and gets the tiles of its sources. An access operator has
 * run(), which reads and writes objects itself through a page cache (cache/objects/objects.h).
 *
 * State: each worker has its own state_bytes, zeroed, so tiles need no locks. The block that
 * computes a tile writes the tile_record_bytes of that tile. finish() reduces states and records,
 * once, in one block. The assignment and the order of tiles differ between runs. For a result that
 * must be the same in every run, use whole numbers in the states, or use records.
 */
#ifndef CONFIG_OPERATOR_H
#define CONFIG_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"

#define HR_OP_STATE_MAX (16u << 20) /* bytes of the state of one worker */
#define HR_OP_RECORD_MAX 65536u	    /* record of one tile */
#define HR_OP_RATIO_MAX 4096u	    /* out_num, out_den */
#define HR_OP_HELP_MAX 4096u	    /* help text, with its NUL */

/* One tile, as the argument of tile(). */
struct hr_op_tile {
	uint64_t index;			   /* 0 .. tiles - 1 */
	const uint8_t *in[HR_SOURCES_MAX]; /* page aligned */
	uint32_t in_bytes[HR_SOURCES_MAX]; /* of this tile; the last may be short */
	uint8_t *out;			   /* page aligned, or NULL */
	uint32_t out_capacity;
	void *record; /* tile_record_bytes of this tile, or NULL */
};

/* All tiles, as the argument of finish() and report(). For an access operator tiles is 0. */
struct hr_op_all {
	const void *args;
	uint64_t tiles;
	uint64_t bytes;	      /* length of source 0, or of object 0 */
	uint32_t tile_bytes;  /* of source 0 */
	uint32_t workers;     /* number of states */
	uint32_t state_bytes; /* stride of states */
	const uint8_t *states;
	uint32_t record_bytes;
	const uint8_t *records; /* [tiles] */
	void *result;		/* HR_OP_RESULT_MAX bytes, zeroed */
	/* Of an access operator: as run() left it (finish() only; NULL with several ranks), and the
	 * lengths of its objects, of the whole data set when ranks divide it; an optional object that
	 * the configuration leaves out has 0. */
	uint8_t *scratch;
	uint64_t object_bytes[HR_OBJECTS_MAX];
};

/* An object of an access operator, in the order of hr_get_object_map(). The configuration names an
 * object of an ssd for each. */
struct hr_op_object {
	const char *name; /* [a-z][a-z0-9_]*, shorter than HR_NAME_MAX; "edges" */
	const char *help; /* contents: a phrase */
	bool writes;	  /* the operator writes it; false: it only reads it */
	bool optional;
	/*
	 * With several ranks: 0: every rank has the whole object, so the operator only reads it. Else
	 * ranks may divide it by rows of row_bytes(). Objects with the same number are columns of one
	 * table: a rank has the same rows of all that are divided. In one run only objects of one
	 * number are divided.
	 */
	uint32_t columns;
};

/* One argument from the configuration file. */
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
 * Receiver of the values of a result from report(): printed as lines, or with --json as members of
 * an object. Names are words without blanks, each used once. All arguments are copied.
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
	/*
	 * A list: item() is called for each i below count, once or twice with the same i. It
	 * reports to item_to either one value without a name (NULL), or the named values of an
	 * object.
	 */
	void (*list)(const struct hr_op_report *to, const char *name, const struct hr_op_all *all,
		     uint64_t count,
		     void (*item)(const struct hr_op_all *all, uint64_t i,
				  const struct hr_op_report *item_to));
	/*
	 * One line of text output, printf-like. An operator that prints its own lines calls this
	 * before it reports values: after the first line, values appear in the JSON object only.
	 */
	void (*line)(const struct hr_op_report *to, const char *format, ...)
		__attribute__((format(printf, 2, 3)));
};

enum hr_op_output {
	HR_OUT_NONE, /* a result record only; a sink object is an error */
	HR_OUT_DATA, /* out_num / out_den bytes per input byte of source 0; needs a sink object */
};

struct hr_objects; /* cache/objects/objects.h */

/* Description of an operator. HR_OPERATOR() or HR_ACCESS_OPERATOR() makes it and fills the first
 * group of members. */
struct hr_operator {
	uint32_t abi;	/* HR_OP_ABI */
	uint32_t bytes; /* sizeof(struct hr_operator) */
	/* Worker code for the CPU; gpu/ops/operator.h has its contract. init and tile of an access
	 * operator are NULL, and run of a stream operator. */
	void (*init)(const void *args, void *state);
	uint32_t (*tile)(const void *args, void *state, const struct hr_op_tile *tile);
	void (*run)(const void *args, void *state, struct hr_objects *objects);
	void (*finish)(const struct hr_op_all *all);
	/*
	 * Worker code for the GPU in an operator file: a relocatable fatbin; gpu == gpu_end: the
	 * file has none. NULL: a built-in operator, whose code is in the worker image.
	 */
	const uint8_t *gpu, *gpu_end;
	/*
	 * In an operator file: hr_op_user_load() stores there the function that returns the calling
	 * block's memory on the host (hr_block_memory() of nvme/queue/worker.h). NULL: a
	 * built-in operator.
	 */
	void *(**block_memory)(void);

	/* [a-z][a-z0-9_]*, shorter than HR_NAME_MAX; in an operator file: no built-in name. */
	const char *name;
	const char *help; /* one paragraph: sources, arguments, result; under HR_OP_HELP_MAX */
	uint32_t sources_min, sources_max; /* 1..HR_SOURCES_MAX; both 0: one source */
	enum hr_op_output output;
	uint32_t out_num, out_den;  /* with HR_OUT_DATA: each 1..HR_OP_RATIO_MAX */
	uint32_t tile_record_bytes; /* up to HR_OP_RECORD_MAX */
	/*
	 * The operator reads each byte of a tile about once, so a GPU reads tiles in host memory in
	 * place. False: a block first copies the tile to GPU memory.
	 */
	bool reads_once;
	/*
	 * The record of a tile is the CRC-32C of source 0's tile, so a checksum of that source is
	 * not computed a second time.
	 */
	bool records_checksum;
	/*
	 * Check the arguments and store them in args (at most HR_OP_ARGS_MAX bytes), in the form
	 * that the worker code reads. Calls `complain` once per mistake with its line (0: none).
	 * Returns the number of bytes used, or -EINVAL after at least one mistake. NULL: the
	 * operator takes no arguments.
	 */
	int (*parse)(const struct hr_op_arg *arg, uint32_t count, void *args,
		     void (*complain)(void *to, unsigned line, const char *text), void *to);
	/*
	 * Bytes of one row in a source, up to HR_TILE_MAX; NULL: 1. All sources hold the same
	 * number of rows, and a tile is a whole number of rows. Of an access operator: in an
	 * object with `columns`.
	 */
	uint32_t (*row_bytes)(const void *args, uint32_t source);
	/* Bytes of the state of one worker, up to HR_OP_STATE_MAX, a multiple of 8; NULL: 0. */
	uint32_t (*state_bytes)(const void *args);
	/*
	 * Make the state `into` that of two workers, with the state `from` of another one, such that
	 * finish() has the same result from the merged states of all workers as from their own. Runs
	 * on the CPU, for states of both backends. Ranks then send one state each, merged pairwise
	 * on the way, where otherwise rank 0 has memory for all. NULL: finish() gets all states.
	 */
	void (*merge)(const void *args, void *into, const void *from);
	/*
	 * Access operators: the objects; a check of their lengths (0: left out) against the
	 * arguments, which calls `complain` once per mistake and returns -EINVAL then, else 0
	 * (NULL: every length is right); and the bytes of memory, zeroed before run(), that all
	 * workers of the run share (NULL: none).
	 */
	const struct hr_op_object *object;
	uint32_t objects; /* 1..HR_OBJECTS_MAX; 0: a stream operator */
	int (*check)(const void *args, const uint64_t *object_bytes,
		     void (*complain)(void *to, unsigned object, const char *text), void *to);
	uint64_t (*scratch_bytes)(const void *args, const uint64_t *object_bytes);
	/*
	 * The access operator can run on several gpus at the same time: its workers divide the work by
	 * objects->worker and objects->workers, which count over all gpus, and share data through
	 * objects only. A run with scratch_bytes uses one gpu.
	 */
	bool several_gpus;
	/*
	 * The access operator can run on several ranks: each of them does the items that
	 * cache/objects/ranks.h gives it, and finish() has the result of all from the states of all,
	 * without scratch. False: a run on ranks is refused.
	 */
	bool several_ranks;
	/*
	 * Report the result, value by value, after finish(), from arguments, result and records
	 * (states may be NULL). NULL: the operator reports nothing. With report(), an interrupted
	 * run starts over when it is called again. Without it, the run continues after the durable
	 * part of the sink.
	 */
	void (*report)(const struct hr_op_all *all, const struct hr_op_report *to);
};

/* True for an access operator. */
static inline bool hr_op_accesses(const struct hr_operator *op)
{
	return op->objects > 0;
}

/* Members of a description, with defaults for those that are 0 or NULL. */
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

#endif
