/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/file/file.h"
#include "config/base/log.h"
#include "config/operator.h"

/* Receiver of the mistakes that an operator's parse() reports. */
struct complaint {
	const struct hr_group *group;
	const char *path;
};

static void report_arg_mistake(void *to, unsigned line, const char *text)
{
	const struct complaint *c = to;

	hr_mistake(c->group->mistakes, line ? line : hr_group_line(c->group, "args"), "%s: %s",
		   c->path, text);
}

static bool is_number(const config_setting_t *setting)
{
	int type = config_setting_type(setting);

	return type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64 || type == CONFIG_TYPE_FLOAT;
}

/* The setting that a value of args comes from, for messages about mistakes. */
struct argument {
	const struct hr_group *group;
	const char *name;
};

/* Element i of an array of numbers. False after a mistake was reported. */
static bool read_number(const struct argument *argument, const config_setting_t *element,
			unsigned i, double *value)
{
	int64_t whole;

	if (!is_number(element))
		return false;
	if (config_setting_type(element) == CONFIG_TYPE_FLOAT) {
		*value = config_setting_get_float(element);
		return true;
	}
	whole = config_setting_get_int64(element);
	*value = (double)whole;
	if (*value < 0x1p63 && (int64_t)*value == whole)
		return true;
	hr_mistake(argument->group->mistakes, config_setting_source_line(element),
		   "%s.args.%s[%u]: %lld is not exact as a floating point number: it would become "
		   "%.0f",
		   argument->group->path, argument->name, i, (long long)whole, *value);
	return false;
}

/* Read an array of numbers to *reals, and advance *reals past them. */
static bool read_floats(const struct argument *argument, const config_setting_t *setting,
			struct hr_op_arg *arg, double **reals)
{
	unsigned count = (unsigned)config_setting_length(setting);

	arg->type = HR_ARG_FLOATS;
	arg->reals = *reals;
	arg->count = count;
	for (unsigned i = 0; i < count; i++)
		if (!read_number(argument, config_setting_get_elem(setting, i), i, (*reals)++))
			return false;
	return true;
}

static bool read_arg(const struct hr_group *group, const config_setting_t *setting,
		     struct hr_op_arg *arg, double **reals)
{
	const struct argument argument = { group, config_setting_name(setting) };

	arg->name = config_setting_name(setting);
	arg->line = config_setting_source_line(setting);
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		arg->type = HR_ARG_INT;
		arg->integer = config_setting_get_int64(setting);
		return true;
	case CONFIG_TYPE_FLOAT:
		arg->type = HR_ARG_FLOAT;
		arg->real = config_setting_get_float(setting);
		return true;
	case CONFIG_TYPE_STRING:
		arg->type = HR_ARG_STRING;
		arg->string = config_setting_get_string(setting);
		return true;
	case CONFIG_TYPE_ARRAY:
	case CONFIG_TYPE_LIST:
		return read_floats(&argument, setting, arg, reals);
	default:
		return false;
	}
}

static size_t count_floats(const config_setting_t *args, unsigned count)
{
	size_t floats = 0;

	for (unsigned i = 0; i < count; i++) {
		const config_setting_t *setting = config_setting_get_elem(args, i);

		if (config_setting_is_aggregate(setting))
			floats += (size_t)config_setting_length(setting);
	}
	return floats;
}

/* Check the row and state sizes that a user operator computes from its arguments. */
static bool check_sizes(const struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	const struct hr_operator *op = pipeline->op;
	const uint32_t state = hr_op_state_bytes(op, pipeline->op_args);

	for (uint32_t s = 0; s < pipeline->sources && s < hr_op_sources_max(op); s++) {
		const uint32_t row = hr_op_row_bytes(op, pipeline->op_args, s);

		if (row < 1 || row > HR_TILE_MAX) {
			hr_group_mistake(group, "operator",
					 "%s has rows of %u bytes in source %u, expected 1 to %u",
					 op->name, row, s, HR_TILE_MAX);
			return false;
		}
	}
	for (uint32_t k = 0; k < pipeline->objects; k++) {
		const uint32_t row = hr_op_row_bytes(op, pipeline->op_args, k);

		if (op->object[k].columns && (row < 1 || row > HR_TILE_MAX)) {
			hr_group_mistake(group, "operator",
					 "%s has rows of %u bytes in object '%s', expected 1 to %u",
					 op->name, row, op->object[k].name, HR_TILE_MAX);
			return false;
		}
	}
	if (state > HR_OP_STATE_MAX || state % sizeof(uint64_t)) {
		hr_group_mistake(
			group, "operator",
			"%s has a state of %u bytes, expected at most %u and a multiple of %zu",
			op->name, state, HR_OP_STATE_MAX, sizeof(uint64_t));
		return false;
	}
	return true;
}

int hr_op_parse(const struct hr_operator *op, const struct hr_op_arg *arg, uint32_t count,
		void *args, void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	char text[HR_LOG_LINE_MAX / 2];

	if (op->parse)
		return op->parse(arg, count, args, complain, to);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(text, sizeof text, "there is no argument '%s'; expected none",
			 arg[i].name);
		complain(to, arg[i].line, text);
	}
	return count ? -EINVAL : 0;
}

static bool parse_op_args(struct hr_config_pipeline *pipeline, const struct hr_group *group,
			  const struct hr_op_arg *arg, unsigned count)
{
	char path[sizeof group->path + 8];
	struct complaint to = { group, path };
	uint32_t before = group->mistakes->count;
	int bytes;

	snprintf(path, sizeof path, "%s.args", group->path);
	bytes = hr_op_parse(pipeline->op, arg, count, pipeline->op_args, report_arg_mistake, &to);
	if (bytes < 0 && group->mistakes->count == before)
		hr_group_mistake(group, "args", "operator %s does not accept them",
				 pipeline->op->name);
	if (bytes < 0)
		return false;
	if ((uint32_t)bytes > HR_OP_ARGS_MAX) {
		hr_group_mistake(group, "args",
				 "operator %s stores them in %d bytes, expected at most %u",
				 pipeline->op->name, bytes, HR_OP_ARGS_MAX);
		return false;
	}
	pipeline->op_args_bytes = (uint32_t)bytes;
	return check_sizes(pipeline, group);
}

static bool read_all(struct hr_config_pipeline *pipeline, const struct hr_group *group,
		     const config_setting_t *args, unsigned count, struct hr_op_arg *arg,
		     double *reals)
{
	bool good = true;

	for (unsigned i = 0; i < count; i++) {
		const config_setting_t *setting = config_setting_get_elem(args, i);
		const uint32_t before = group->mistakes->count;

		if (read_arg(group, setting, &arg[i], &reals))
			continue;
		good = false;
		if (group->mistakes->count == before)
			hr_mistake(
				group->mistakes, config_setting_source_line(setting),
				"%s.args.%s: expected a number, a string, or an array of numbers",
				group->path, config_setting_name(setting));
	}
	return good && parse_op_args(pipeline, group, arg, count);
}

bool hr_config_args_read(struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	config_setting_t *args = config_setting_get_member(group->setting, "args");
	bool given = args && config_setting_is_group(args);
	unsigned count = given ? (unsigned)config_setting_length(args) : 0;
	struct hr_op_arg *arg;
	double *reals;
	bool good = false;

	if (args && !given)
		return false;
	arg = calloc(count + 1, sizeof *arg);
	reals = calloc((given ? count_floats(args, count) : 0) + 1, sizeof *reals);
	if (arg && reals)
		good = read_all(pipeline, group, args, count, arg, reals);
	else
		hr_group_mistake(group, "args", "out of memory");
	free(arg);
	free(reals);
	return good;
}
