/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <string.h>

#include "config/tile.h"
#include "config/derived.h"

struct written_tap {
	struct hr_config_tap tap;
	char group[HR_NAME_MAX];
};

static const char *const delivers[] = { "one", "each", NULL };
static const char *const lags[] = { "block", "drop", NULL };

static const char *const shares[] = { "auto", "mps", "park", "slice", NULL };

static const struct hr_field fields[] = {
	{ "tap", HR_FIELD_NAME, .required = true, .offset = offsetof(struct written_tap, tap.name),
	  .max = HR_NAME_MAX, .example = "tap = \"train\";" },
	{ "deliver", HR_FIELD_CHOICE, .offset = offsetof(struct written_tap, tap.deliver),
	  .choices = delivers },
	{ "lag", HR_FIELD_CHOICE, .offset = offsetof(struct written_tap, tap.lag),
	  .choices = lags },
	{ "share", HR_FIELD_CHOICE, .offset = offsetof(struct written_tap, tap.share),
	  .choices = shares },
	{ "credits", HR_FIELD_U32, .offset = offsetof(struct written_tap, tap.credits), .min = 1,
	  .max = HR_SLOTS_MAX },
	{ "consumers", HR_FIELD_U32, .offset = offsetof(struct written_tap, tap.consumers),
	  .min = 1, .max = HR_TAP_CONSUMERS_MAX },
	{ "tries", HR_FIELD_U32, .offset = offsetof(struct written_tap, tap.tries), .min = 1,
	  .max = HR_TAP_TRIES_MAX },
	{ "lease", HR_FIELD_DURATION, .offset = offsetof(struct written_tap, tap.lease_ns) },
	{ "group", HR_FIELD_NAME, .offset = offsetof(struct written_tap, group),
	  .max = HR_NAME_MAX },
	{ "dtype", HR_FIELD_STRING, .offset = offsetof(struct written_tap, tap.dtype), .max = 8 },
	{ "columns", HR_FIELD_U32, .offset = offsetof(struct written_tap, tap.columns), .min = 1,
	  .max = HR_TILE_MAX },
};

static const struct {
	const char *name;
	uint32_t bytes;
} dtypes[] = { { "u8", 1 },  { "i8", 1 },  { "u16", 2 }, { "i16", 2 }, { "f16", 2 }, { "bf16", 2 },
	       { "u32", 4 }, { "i32", 4 }, { "f32", 4 }, { "u64", 8 }, { "i64", 8 }, { "f64", 8 } };

uint32_t hr_config_dtype_bytes(const char *dtype)
{
	for (size_t i = 0; i < HR_COUNT(dtypes); i++)
		if (strcmp(dtypes[i].name, dtype) == 0)
			return dtypes[i].bytes;
	return 0;
}

void hr_config_dtype_check(const struct hr_group *group, const char *dtype, uint32_t columns)
{
	if (*dtype && !hr_config_dtype_bytes(dtype))
		hr_group_mistake(group, "dtype",
				 "is \"%s\", expected u8, i8, u16, i16, f16, bf16, u32, i32, f32, "
				 "u64, i64 or f64",
				 dtype);
	else if (columns && !*dtype)
		hr_group_mistake(group, "columns", "needs dtype, the type of the elements");
}

void hr_config_tap_read(struct hr_config_tap *tap, const struct hr_group *sink)
{
	struct written_tap written = { .tap = { .consumers = 1,
						.tries = HR_TAP_TRIES_DEFAULT,
						.group = HR_CONTROL_NO_GROUP,
						.line = hr_group_line(sink, "tap") } };

	hr_group_read(sink, fields, HR_COUNT(fields), &written);
	*tap = written.tap;
	if (*written.group)
		hr_config_control_group(&tap->group, sink, written.group);
	hr_config_dtype_check(sink, tap->dtype, tap->columns);
}

void hr_config_tap_check(const struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	const struct hr_config_tap *tap = &pipeline->tap;
	const uint32_t row = hr_config_dtype_bytes(tap->dtype) * (tap->columns ? tap->columns : 1);
	const uint32_t bytes = hr_config_sink_tile_bytes(pipeline);
	struct hr_group sink;

	if (!hr_group_member(group, "sink", &sink))
		return;
	if (row && bytes % row)
		hr_group_mistake(&sink, tap->columns ? "columns" : "dtype",
				 "makes rows of %u bytes, but a tile has %u bytes of output, "
				 "expected whole rows",
				 row, bytes);
	if (pipeline->slots && tap->credits > pipeline->slots)
		hr_group_mistake(&sink, "credits", "is %u, expected at most the %u slots",
				 tap->credits, pipeline->slots);
}

void hr_config_taps_check(const struct hr_config *config, struct hr_mistakes *mistakes)
{
	for (unsigned i = 0; i < config->pipelines; i++)
		for (unsigned j = 0; hr_config_has_tap(&config->pipeline[i]) && j < i; j++)
			if (!hr_config_sends(&config->pipeline[i]) &&
			    !hr_config_sends(&config->pipeline[j]) &&
			    strcmp(config->pipeline[i].tap.name, config->pipeline[j].tap.name) == 0)
				hr_mistake(mistakes, config->pipeline[i].tap.line,
					   "pipelines[%u].sink: '%s' is already the tap of "
					   "pipelines[%u] on line %u",
					   i, config->pipeline[i].tap.name, j,
					   config->pipeline[j].tap.line);
}
