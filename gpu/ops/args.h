/*
 * gpu/ops/args.h - for the parse() of operators: arguments looked up and range-checked. Host only.
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
	bool bad; /* there was a complaint */
};

/* A complaint about the line; printf-like. */
void hr_args_complain(struct hr_args *args, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Complain about every argument whose name is not in names[0..known), and about repeated ones. */
void hr_args_known(struct hr_args *args, const char *const *names, uint32_t known);

/* The argument, or NULL with a complaint that it is missing. */
const struct hr_op_arg *hr_args_need(struct hr_args *args, const char *name);

/* A required whole number in min..max; 0 with a complaint when it is none. */
int32_t hr_args_int(struct hr_args *args, const char *name, int32_t min, int32_t max);

/* A required number, whole or not, in min..max; 0 with a complaint when it is none, or a whole number
 * that a double does not hold. */
double hr_args_real(struct hr_args *args, const char *name, double min, double max);

/*
 * A number that the operator keeps as f32; 0 with a complaint, which calls the number by `name`, when
 * it is beyond f32, becomes 0, or is a whole number up to 2^53 that f32 does not hold. Others are
 * rounded.
 */
float hr_args_f32(struct hr_args *args, unsigned line, const char *name, double value);

/* The same of a required argument, whole or not. */
float hr_args_float(struct hr_args *args, const char *name);

/* A required date: "YYYY-MM-DD" (years 1..9999, proleptic Gregorian), or days since 1970-01-01. */
int32_t hr_args_date(struct hr_args *args, const char *name);

#endif
