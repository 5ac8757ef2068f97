/*
 * config/operator.h - an operator as the configuration and the CPU see it: arguments, shapes, how to
 * print the result. The worker code of operators is declared in gpu/worker/op.h.
 */
#ifndef CONFIG_OPERATOR_H
#define CONFIG_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define HR_OP_STATE_MAX (16u << 20) /* bytes of the state of one worker */

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
struct hr_op_all;

struct hr_op_desc {
	const char *name;
	const char *help; /* one paragraph: sources, arguments, result */
	uint32_t id;	  /* enum hr_op_id (gpu/worker/op.h); HR_OP_COUNT and up: a user operator */
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

#endif
