/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/args.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"

void hr_args_error(struct hr_args *args, unsigned line, const char *format, ...)
{
	char text[HR_LOG_LINE_MAX / 2];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	args->bad = true;
	args->complain(args->to, line, text);
}

static void complain_unknown(struct hr_args *args, const struct hr_op_arg *arg,
			     const char *const *names, uint32_t known)
{
	char list[HR_LOG_LINE_MAX / 4] = "none";
	size_t at = 0;

	for (uint32_t i = 0; i < known && at < sizeof list; i++)
		at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "",
				       names[i]);
	hr_args_error(args, arg->line, "there is no argument '%s'; expected %s", arg->name, list);
}

void hr_args_known(struct hr_args *args, const char *const *names, uint32_t known)
{
	for (uint32_t i = 0; i < args->count; i++) {
		const struct hr_op_arg *arg = &args->arg[i];
		bool found = false;

		for (uint32_t j = 0; j < known; j++)
			found |= strcmp(arg->name, names[j]) == 0;
		if (!found)
			complain_unknown(args, arg, names, known);
		for (uint32_t j = 0; found && j < i; j++)
			if (strcmp(arg->name, args->arg[j].name) == 0)
				hr_args_error(args, arg->line, "argument '%s' is given twice",
					      arg->name);
	}
}

const struct hr_op_arg *hr_args_need(struct hr_args *args, const char *name)
{
	for (uint32_t i = 0; i < args->count; i++)
		if (strcmp(args->arg[i].name, name) == 0)
			return &args->arg[i];
	hr_args_error(args, 0, "argument '%s' is missing", name);
	return NULL;
}

int32_t hr_args_int(struct hr_args *args, const char *name, int32_t min, int32_t max)
{
	const struct hr_op_arg *arg = hr_args_need(args, name);

	if (!arg)
		return 0;
	if (arg->type != HR_ARG_INT) {
		hr_args_error(args, arg->line, "%s: expected a whole number", name);
		return 0;
	}
	if (arg->integer < min || arg->integer > max) {
		hr_args_error(args, arg->line, "%s: %lld is outside of %d..%d", name,
			      (long long)arg->integer, min, max);
		return 0;
	}
	return (int32_t)arg->integer;
}

/* True when the argument is given. */
static bool given(const struct hr_args *args, const char *name)
{
	for (uint32_t i = 0; i < args->count; i++)
		if (strcmp(args->arg[i].name, name) == 0)
			return true;
	return false;
}

int32_t hr_args_int_or(struct hr_args *args, const char *name, int32_t min, int32_t max,
		       int32_t otherwise)
{
	return given(args, name) ? hr_args_int(args, name, min, max) : otherwise;
}

double hr_args_real_or(struct hr_args *args, const char *name, double min, double max,
		       double otherwise)
{
	return given(args, name) ? hr_args_real(args, name, min, max) : otherwise;
}

double hr_args_real(struct hr_args *args, const char *name, double min, double max)
{
	const struct hr_op_arg *arg = hr_args_need(args, name);
	double value;

	if (!arg)
		return 0;
	if (arg->type != HR_ARG_INT && arg->type != HR_ARG_FLOAT) {
		hr_args_error(args, arg->line, "%s: expected a number", name);
		return 0;
	}
	value = arg->type == HR_ARG_INT ? (double)arg->integer : arg->real;
	if (arg->type == HR_ARG_INT && !(value < 0x1p63 && (int64_t)value == arg->integer)) {
		hr_args_error(args, arg->line,
			      "%s: %lld is not exact as a floating point number: it would "
			      "become %.0f",
			      name, (long long)arg->integer, value);
		return 0;
	}
	if (!(value >= min && value <= max)) { /* rejects NaN, too */
		hr_args_error(args, arg->line, "%s: %g is outside of %g..%g", name, value, min,
			      max);
		return 0;
	}
	return value;
}

float hr_args_f32(struct hr_args *args, unsigned line, const char *name, double value)
{
	const float narrow = (float)value;

	if (!isfinite(narrow))
		hr_args_error(args, line, "%s: %g is not a finite f32", name, value);
	else if (narrow == 0 && value != 0)
		hr_args_error(args, line, "%s: %g is too small for f32", name, value);
	else if (trunc(value) == value && fabs(value) <= 0x1p53 && (double)narrow != value)
		hr_args_error(args, line, "%s: %.0f is not exact as f32: it would become %.0f",
			      name, value, (double)narrow);
	else
		return narrow;
	return 0;
}

float hr_args_float(struct hr_args *args, const char *name)
{
	const bool bad = args->bad;
	double value;

	args->bad = false;
	value = hr_args_real(args, name, -FLT_MAX, FLT_MAX);
	if (args->bad)
		return 0;
	args->bad = bad;
	for (uint32_t i = 0; i < args->count; i++)
		if (strcmp(args->arg[i].name, name) == 0)
			return hr_args_f32(args, args->arg[i].line, name, value);
	return 0;
}

/* Days since 1970-01-01. A year starts in March here, so that the leap day is its last day. */
static int32_t days_from_civil(int32_t year, int32_t month, int32_t day)
{
	const int32_t y = month <= 2 ? year - 1 : year, m = month <= 2 ? month + 9 : month - 3;
	const int32_t day_of_year = (153 * m + 2) / 5 + day - 1;

	return 365 * y + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

static int32_t days_in_month(int32_t year, int32_t month)
{
	static const int8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

static int32_t digits(const char *text, int count)
{
	int32_t value = 0;

	for (int i = 0; i < count; i++)
		value = value * 10 + (text[i] - '0');
	return value;
}

static bool date_parse(const char *text, int32_t *days)
{
	static const char shape[] = "dddd-dd-dd";
	int32_t year, month, day;

	if (strlen(text) != sizeof shape - 1)
		return false;
	for (size_t i = 0; i < sizeof shape - 1; i++)
		if (shape[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != '-')
			return false;
	year = digits(text, 4);
	month = digits(text + 5, 2);
	day = digits(text + 8, 2);
	if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
		return false;
	*days = days_from_civil(year, month, day);
	return true;
}

int32_t hr_args_date(struct hr_args *args, const char *name)
{
	const struct hr_op_arg *arg = hr_args_need(args, name);
	int32_t days = 0;

	if (!arg)
		return 0;
	if (arg->type == HR_ARG_INT)
		return hr_args_int(args, name, INT32_MIN, INT32_MAX);
	if (arg->type != HR_ARG_STRING || !date_parse(arg->string, &days))
		hr_args_error(args, arg->line,
			      "%s: expected a date \"YYYY-MM-DD\" or days since 1970-01-01", name);
	return days;
}
