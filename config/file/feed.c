/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <string.h>

#include "config/tile.h"
#include "config/derived.h"

struct written_feed {
	struct hr_config_feed feed;
	char group[HR_NAME_MAX];
};

static const struct hr_field fields[] = {
	{ "feed", HR_FIELD_NAME, .required = true,
	  .offset = offsetof(struct written_feed, feed.name), .max = HR_NAME_MAX,
	  .example = "feed = \"camera\";" },
	{ "bytes", HR_FIELD_SIZE, .required = true,
	  .offset = offsetof(struct written_feed, feed.bytes), .min = 1, .max = INT64_MAX,
	  .example = "bytes = \"64M\";" },
	{ "credits", HR_FIELD_U32, .offset = offsetof(struct written_feed, feed.credits), .min = 1,
	  .max = HR_SLOTS_MAX },
	{ "lease", HR_FIELD_DURATION, .offset = offsetof(struct written_feed, feed.lease_ns) },
	{ "group", HR_FIELD_NAME, .offset = offsetof(struct written_feed, group),
	  .max = HR_NAME_MAX },
	{ "dtype", HR_FIELD_STRING, .offset = offsetof(struct written_feed, feed.dtype), .max = 8 },
	{ "columns", HR_FIELD_U32, .offset = offsetof(struct written_feed, feed.columns), .min = 1,
	  .max = HR_TILE_MAX },
};

bool hr_config_feed_is_source(const struct hr_group *pipeline)
{
	config_setting_t *source = config_setting_get_member(pipeline->setting, "source"), *first;

	if (!source || (!config_setting_is_group(source) && !config_setting_is_list(source)))
		return false;
	first = config_setting_is_list(source) ? config_setting_get_elem(source, 0) : source;
	return first && config_setting_is_group(first) && config_setting_get_member(first, "feed");
}

bool hr_config_feed_read(struct hr_config_feed *feed, const struct hr_group *pipeline)
{
	const uint32_t before = pipeline->mistakes->count;
	struct written_feed written = { .feed.group = HR_CONTROL_NO_GROUP };
	struct hr_group source;

	if (hr_group_elements(pipeline, "source") > 1) {
		hr_group_mistake(pipeline, "source",
				 "has a feed and other sources, expected the feed alone");
		return false;
	}
	if (!hr_group_element(pipeline, "source", 0, &source))
		return false;
	written.feed.line = hr_group_line(&source, "feed");
	hr_group_read(&source, fields, HR_COUNT(fields), &written);
	*feed = written.feed;
	if (*written.group)
		hr_config_control_group(&feed->group, &source, written.group);
	hr_config_dtype_check(&source, feed->dtype, feed->columns);
	return pipeline->mistakes->count == before;
}

static void check_rows(const struct hr_config_pipeline *pipeline, const struct hr_group *source)
{
	const struct hr_config_feed *feed = &pipeline->feed;
	const uint32_t tile = hr_config_tile_bytes(pipeline, 0);
	const uint32_t row = tile / hr_config_tile_rows(pipeline);
	const uint32_t shaped =
		hr_config_dtype_bytes(feed->dtype) * (feed->columns ? feed->columns : 1);

	if (feed->bytes % row)
		hr_group_mistake(source, "bytes",
				 "is %llu, expected whole rows of %u bytes for operator %s",
				 (unsigned long long)feed->bytes, row, pipeline->op->name);
	if (shaped && tile % shaped)
		hr_group_mistake(source, feed->columns ? "columns" : "dtype",
				 "makes rows of %u bytes, but a tile has %u bytes, expected whole "
				 "rows",
				 shaped, tile);
}

void hr_config_feed_check(const struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	struct hr_group source, blocks;

	if (!hr_group_element(group, "source", 0, &source))
		return;
	check_rows(pipeline, &source);
	if (pipeline->slots && pipeline->feed.credits > pipeline->slots)
		hr_group_mistake(&source, "credits", "is %u, expected at most the %u slots",
				 pipeline->feed.credits, pipeline->slots);
	if (pipeline->verify == HR_VERIFY_ON || pipeline->verify == HR_VERIFY_BEFORE)
		hr_group_mistake(group, "verify",
				 "is \"%s\", expected \"auto\" or \"off\": a %s has no checksum",
				 pipeline->verify == HR_VERIFY_ON ? "on" : "before",
				 hr_config_receives(pipeline) ? "remote source" : "feed");
	if (hr_group_member(group, "blocks", &blocks) &&
	    config_setting_get_member(blocks.setting, "prefetch"))
		hr_group_mistake(&blocks, "prefetch",
				 "is %u, expected no such key: a %s has one worker",
				 pipeline->prefetch_blocks,
				 hr_config_receives(pipeline) ? "remote source" : "feed");
}

void hr_config_feeds_check(const struct hr_config *config, struct hr_mistakes *mistakes)
{
	for (unsigned i = 0; i < config->pipelines; i++)
		for (unsigned j = 0; hr_config_has_feed(&config->pipeline[i]) && j < i; j++)
			if (!hr_config_receives(&config->pipeline[i]) &&
			    !hr_config_receives(&config->pipeline[j]) &&
			    strcmp(config->pipeline[i].feed.name, config->pipeline[j].feed.name) ==
				    0)
				hr_mistake(mistakes, config->pipeline[i].feed.line,
					   "pipelines[%u].source: '%s' is already the feed of "
					   "pipelines[%u] on line %u",
					   i, config->pipeline[i].feed.name, j,
					   config->pipeline[j].feed.line);
}
