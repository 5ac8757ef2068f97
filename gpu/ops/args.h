/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/ops/args.h - look up and range-check arguments, for parse() of an operator. Host only.
 */
#ifndef GPU_OPS_ARGS_H
#define GPU_OPS_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/operator.h"

/* The arguments of one operator, while they are parsed. */
struct hr_args {
	const struct hr_op_arg *arg;
	uint32_t count;
	void (*complain)(void *to, unsigned line, const char *text);
	void *to;
	bool bad; /* an error has been reported */
};

/* Report an error about the line; printf-like. */
void hr_args_error(struct hr_args *args, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Report every argument whose name is not in names[0..known), and every repeated one. */
void hr_args_known(struct hr_args *args, const char *const *names, uint32_t known);

/* The argument, or NULL after reporting that it is missing. */
const struct hr_op_arg *hr_args_need(struct hr_args *args, const char *name);

/* A required whole number in min..max; otherwise reports an error and returns 0. */
int32_t hr_args_int(struct hr_args *args, const char *name, int32_t min, int32_t max);

/* The same for an optional argument: `otherwise` when it is not given. */
int32_t hr_args_int_or(struct hr_args *args, const char *name, int32_t min, int32_t max,
		       int32_t otherwise);

/* A required number, whole or not, in min..max; otherwise, or for a whole number that double
 * cannot represent, reports an error and returns 0. */
double hr_args_real(struct hr_args *args, const char *name, double min, double max);

/* The same for an optional argument. */
double hr_args_real_or(struct hr_args *args, const char *name, double min, double max,
		       double otherwise);

/*
 * Convert a number that the operator keeps as f32. Reports an error, which names the number `name`,
 * and returns 0 when the value is beyond f32, becomes 0, or is a whole number up to 2^53 that f32
 * cannot represent. Other values are rounded.
 */
float hr_args_f32(struct hr_args *args, unsigned line, const char *name, double value);

/* The same for a required argument, whole or not. */
float hr_args_float(struct hr_args *args, const char *name);

/* A required date: "YYYY-MM-DD" (years 1..9999, proleptic Gregorian), or days since 1970-01-01. */
int32_t hr_args_date(struct hr_args *args, const char *name);

#endif
