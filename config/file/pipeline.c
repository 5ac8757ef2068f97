/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <stdio.h>
#include <string.h>

#include "config/base/text.h"

#define OPERATOR_S_MAX 86400u

/* A pipeline as the file describes it: gpu and operator by name. */
struct written_pipeline {
	struct hr_config_pipeline pipeline;
	char gpu[HR_NAME_MAX];
	char op[HR_NAME_MAX];
	struct hr_when_keys when;
};

static const char *const bounces[] = { "auto", "in-place", "copy", NULL };
static const char *const verifies[] = { "auto", "on", "off", "before", NULL };
static const char *const shards[] = { "none", "tiles", "objects", NULL };

static const struct hr_field pipeline_fields[] = {
	{ "name", HR_FIELD_NAME, .required = true,
	  .offset = offsetof(struct written_pipeline, pipeline.name), .max = HR_NAME_MAX,
	  .example = "name = \"checksum\";" },
	{ "gpu", HR_FIELD_NAME, .offset = offsetof(struct written_pipeline, gpu),
	  .max = HR_NAME_MAX },
	{ "gpus", .type = HR_FIELD_NAMES, .max = HR_GPUS_MAX },
	{ "source", .type = HR_FIELD_GROUPS, .max = HR_SOURCES_MAX },
	{ "operator", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct written_pipeline, op), .max = HR_NAME_MAX,
	  .example = "operator = \"crc32c\";" },
	{ "args", .type = HR_FIELD_GROUP },
	{ "objects", .type = HR_FIELD_GROUP },
	{ "cache", .type = HR_FIELD_GROUP },
	{ "io", HR_FIELD_U32, .offset = offsetof(struct written_pipeline, pipeline.io_blocks),
	  .min = 1, .max = HR_BLOCKS_MAX },
	{ "compute", HR_FIELD_U32,
	  .offset = offsetof(struct written_pipeline, pipeline.compute_blocks), .min = 1,
	  .max = HR_BLOCKS_MAX },
	{ "threads", HR_FIELD_U32, .offset = offsetof(struct written_pipeline, pipeline.threads),
	  .min = 32, .max = HR_THREADS_MAX },
	{ "sink", .type = HR_FIELD_GROUP },
	{ "tile", HR_FIELD_SIZE32, .offset = offsetof(struct written_pipeline, pipeline.tile_bytes),
	  .min = 512, .max = HR_TILE_MAX },
	{ "slots", HR_FIELD_U32, .offset = offsetof(struct written_pipeline, pipeline.slots),
	  .min = 1, .max = HR_SLOTS_MAX },
	{ "blocks", .type = HR_FIELD_GROUP },
	{ "bounce", HR_FIELD_CHOICE, .offset = offsetof(struct written_pipeline, pipeline.bounce),
	  .choices = bounces },
	{ "verify", HR_FIELD_CHOICE, .offset = offsetof(struct written_pipeline, pipeline.verify),
	  .choices = verifies },
	{ "shard", HR_FIELD_CHOICE, .offset = offsetof(struct written_pipeline, pipeline.shard),
	  .choices = shards },
	{ "operator_s", HR_FIELD_U32,
	  .offset = offsetof(struct written_pipeline, pipeline.operator_s), .min = 1,
	  .max = OPERATOR_S_MAX },
	{ "every", HR_FIELD_DURATION, .offset = offsetof(struct written_pipeline, when.every_ns) },
	{ "at", HR_FIELD_STRING, .offset = offsetof(struct written_pipeline, when.at),
	  .max = HR_NAME_MAX },
	{ "after", HR_FIELD_STRING, .offset = offsetof(struct written_pipeline, when.after),
	  .max = HR_NAME_MAX },
	{ "on", HR_FIELD_STRING, .offset = offsetof(struct written_pipeline, when.on),
	  .max = sizeof((struct hr_when_keys *)0)->on },
	{ "forever", HR_FIELD_BOOL, .offset = offsetof(struct written_pipeline, when.forever) },
	{ "missed", HR_FIELD_CHOICE, .offset = offsetof(struct written_pipeline, when.missed),
	  .choices = hr_when_missed },
};

static const struct hr_field block_fields[] = {
	{ "prefetch", HR_FIELD_U32, .offset = offsetof(struct hr_config_pipeline, prefetch_blocks),
	  .min = 1, .max = HR_BLOCKS_MAX },
	{ "compute", HR_FIELD_U32, .offset = offsetof(struct hr_config_pipeline, compute_blocks),
	  .min = 1, .max = HR_BLOCKS_MAX },
	{ "writeback", HR_FIELD_U32,
	  .offset = offsetof(struct hr_config_pipeline, writeback_blocks), .min = 0,
	  .max = HR_BLOCKS_MAX },
	{ "threads", HR_FIELD_U32, .offset = offsetof(struct hr_config_pipeline, threads),
	  .min = 32, .max = HR_THREADS_MAX },
};

static bool read_sources(const struct hr_config *config, const struct hr_group *group,
			 struct hr_config_pipeline *pipeline)
{
	const config_setting_t *source = config_setting_get_member(group->setting, "source");
	unsigned count = hr_group_elements(group, "source");
	bool good = count > 0 && count <= HR_SOURCES_MAX;
	struct hr_group element;

	if (source && config_setting_is_list(source) && count == 0)
		hr_group_mistake(group, "source", "is empty, expected at least one");
	for (unsigned i = 0; i < count && i < HR_SOURCES_MAX; i++) {
		if (!hr_group_element(group, "source", i, &element) ||
		    !hr_config_object_read(config, &element, HR_OBJECT_SOURCE,
					   &pipeline->source[i]))
			good = false;
		pipeline->sources = i + 1;
	}
	return good;
}

/* Names of all operators, built-in and of the configuration, in known; "a, b, c" in text. */
static unsigned list_operators(const struct hr_config *config, const char **known, char *text,
			       size_t bytes)
{
	const struct hr_operator *op;
	unsigned count = 0;
	size_t at = 0;

	while ((op = config->names->operator_at(count)) != NULL)
		known[count++] = op->name;
	for (unsigned i = 0; i < config->ops; i++)
		if (config->op[i].name[0])
			known[count++] = config->op[i].name;
	for (unsigned i = 0; i < count && at < bytes; i++)
		at += (size_t)snprintf(text + at, bytes - at, "%s%s", i ? ", " : "", known[i]);
	return count;
}

static bool find_operator(const struct hr_config *config, const struct hr_group *group,
			  const char *name, struct hr_config_pipeline *pipeline)
{
	const char *known[HR_OPERATORS_BUILT_IN_MAX + HR_OPERATORS_MAX] = { NULL }, *near;
	char list[HR_MISTAKE_BYTES / 2];
	unsigned count;

	if (!name[0])
		return false;
	pipeline->op = hr_config_operator_find(config, name);
	for (unsigned i = 0; i < config->ops && !pipeline->op; i++) {
		if (strcmp(config->op[i].name, name) == 0) {
			/* NULL: its mistake has been reported. */
			pipeline->op = config->op[i].op;
			pipeline->user_op = i + 1;
			return pipeline->op != NULL;
		}
	}
	if (pipeline->op)
		return true;
	count = list_operators(config, known, list, sizeof list);
	near = hr_nearest(name, known, count);
	hr_group_mistake(group, "operator", "there is no operator '%s'%s%s%s", name,
			 near ? "; did you mean '" : "; expected one of: ", near ? near : list,
			 near ? "'?" : "");
	return false;
}

static void check_name(const struct hr_config *config, const struct hr_group *group, unsigned i)
{
	const char *name = config->pipeline[i].name;

	for (unsigned j = 0; name[0] && j < i; j++)
		if (strcmp(config->pipeline[j].name, name) == 0)
			hr_group_mistake(group, "name",
					 "'%s' is already the name of pipelines[%u] on line %u",
					 name, j, config->pipeline[j].line);
}

/* The sink is an object, a tap, or a stream to another appliance. */
static void read_sink_kind(const struct hr_group *group, struct hr_config_pipeline *pipeline)
{
	const config_setting_t *setting = config_setting_get_member(group->setting, "sink");
	struct hr_group sink;

	pipeline->has_sink = setting != NULL;
	if (!setting || !config_setting_is_group(setting) || !hr_group_member(group, "sink", &sink))
		return;
	if (config_setting_get_member(setting, "tap"))
		hr_config_tap_read(&pipeline->tap, &sink);
	else if (config_setting_get_member(setting, "remote"))
		hr_config_remote_sink_read(pipeline, &sink);
	else
		return;
	pipeline->has_sink = false;
}

/* Set defaults, then read the group. */
static bool read_fields(const struct hr_group *group, struct written_pipeline *written)
{
	struct hr_config_pipeline *pipeline = &written->pipeline;
	uint32_t before = group->mistakes->count;
	struct hr_group blocks;

	memset(written, 0, sizeof *written);
	pipeline->line = hr_group_line(group, NULL);
	pipeline->tile_line = hr_group_line(group, "tile");
	read_sink_kind(group, pipeline);
	hr_group_read(group, pipeline_fields, HR_COUNT(pipeline_fields), written);
	if (hr_group_member(group, "blocks", &blocks))
		hr_group_read(&blocks, block_fields, HR_COUNT(block_fields), pipeline);
	hr_config_when_read(&pipeline->when, &written->when, group);
	return group->mistakes->count == before;
}

/* The keys that only pipelines with operators of the other shape have. */
static bool check_keys(const struct hr_group *group, const struct hr_operator *op)
{
	static const char *const stream[] = { "source", "sink",	  "tile", "slots",
					      "blocks", "bounce", NULL };
	static const char *const access[] = {
		"objects", "cache", "io", "compute", "threads", NULL
	};
	const bool accesses = hr_op_accesses(op);
	const uint32_t before = group->mistakes->count;

	for (const char *const *key = accesses ? stream : access; *key; key++)
		if (config_setting_get_member(group->setting, *key))
			hr_group_mistake(
				group, *key, "operator %s %s", op->name,
				accesses
					? "accesses objects; expected objects, cache, io, compute, "
					  "threads or verify"
					: "reads tiles of sources; expected source, sink, tile, "
					  "slots, blocks, bounce, verify or shard");
	return group->mistakes->count == before;
}

/* The source is a feed, a stream of another appliance, or objects. */
static bool read_source(const struct hr_config *config, const struct hr_group *group,
			struct hr_config_pipeline *pipeline)
{
	if (hr_config_remote_is_source(group)) {
		pipeline->sources = 1;
		return hr_config_remote_source_read(pipeline, group);
	}
	if (!hr_config_feed_is_source(group))
		return read_sources(config, group, pipeline);
	pipeline->sources = 1;
	return hr_config_feed_read(&pipeline->feed, group);
}

/* What a stream operator reads and writes. */
static bool read_stream(const struct hr_config *config, const struct hr_group *group,
			struct hr_config_pipeline *pipeline)
{
	struct hr_group sink;
	bool good = true;

	if (!config_setting_get_member(group->setting, "source"))
		hr_group_mistake(group, NULL,
				 "key 'source' is missing; expected for example: source = { ssd = "
				 "\"ssd0\"; object = \"data\"; };");
	if (pipeline->has_sink && hr_group_member(group, "sink", &sink))
		good &= hr_config_object_read(config, &sink, HR_OBJECT_SINK, &pipeline->sink);
	return read_source(config, group, pipeline) && good;
}

/* The shape of an unknown operator is that of the file: `objects` means an access operator. */
static bool read_objects(const struct hr_config *config, const struct hr_group *group,
			 struct hr_config_pipeline *pipeline)
{
	if (!pipeline->op)
		return !config_setting_get_member(group->setting, "objects") &&
		       read_stream(config, group, pipeline);
	if (!check_keys(group, pipeline->op))
		return false;
	return hr_op_accesses(pipeline->op) ? hr_config_access_read(config, group, pipeline)
					    : read_stream(config, group, pipeline);
}

static bool find_gpu(const struct hr_config *config, const struct hr_group *group, const char *key,
		     const char *name, uint32_t *gpu)
{
	const int found = hr_config_find_name(group, key, name, config->gpu, config->gpus,
					      sizeof *config->gpu, "gpu");

	*gpu = found < 0 ? 0 : (uint32_t)found;
	return found >= 0;
}

/* The gpus of `gpus`, in their order: two or more, all different. */
static bool read_gpus(const struct hr_config *config, const struct hr_group *group,
		      struct hr_config_pipeline *pipeline)
{
	const uint32_t before = group->mistakes->count;
	const char *name;
	uint32_t count = 0, named = 0, gpu;

	for (; (name = hr_group_string(group, "gpus", count)) != NULL; count++) {
		if (!name[0]) /* find_gpu() takes it for a key that is missing */
			hr_group_mistake(group, "gpus", "name %u is empty", count + 1);
		if (!find_gpu(config, group, "gpus", name, &gpu))
			continue;
		if (named >> gpu & 1)
			hr_group_mistake(group, "gpus", "names '%s' twice, expected different gpus",
					 name);
		else if (named)
			pipeline->other_gpu[pipeline->other_gpus++] = gpu;
		else
			pipeline->gpu = gpu;
		named |= 1u << gpu;
	}
	if (count < 2)
		hr_group_mistake(group, "gpus",
				 "has %u name%s, expected 2 to %u; gpu = \"NAME\" is for one gpu",
				 count, count == 1 ? "" : "s", HR_GPUS_MAX);
	return group->mistakes->count == before;
}

/* `gpu` or `gpus`; the first of them has been read into `name`. */
static bool read_gpu(const struct hr_config *config, const struct hr_group *group, const char *name,
		     struct hr_config_pipeline *pipeline)
{
	const config_setting_t *gpus = config_setting_get_member(group->setting, "gpus");

	if (!gpus)
		return find_gpu(config, group, "gpu", name, &pipeline->gpu);
	if (config_setting_get_member(group->setting, "gpu")) {
		hr_group_mistake(group, "gpus", "is beside gpu, expected one of the two");
		return false;
	}
	return hr_group_is_names(gpus, HR_GPUS_MAX) && read_gpus(config, group, pipeline);
}

static bool check_gpus(const struct hr_group *group, const struct hr_config_pipeline *pipeline)
{
	if (!pipeline->op || !pipeline->other_gpus || pipeline->op->several_gpus)
		return true;
	hr_group_mistake(group, "gpus",
			 "operator %s runs on one gpu; expected gpu = \"NAME\" in place of gpus",
			 pipeline->op->name);
	return false;
}

/* Consumers of a tap, and the producer of a feed, have the tiles of one process. */
static bool check_shard(const struct hr_group *group, const struct hr_config_pipeline *pipeline)
{
	const struct hr_operator *op = pipeline->op;

	if (pipeline->shard == HR_SHARD_NONE)
		return true;
	if (op && hr_op_accesses(op) && !op->several_ranks)
		hr_group_mistake(
			group, "shard",
			"operator %s does not divide its work over ranks, expected no shard",
			op->name);
	else if (op && hr_op_accesses(op) && pipeline->shard == HR_SHARD_TILES)
		hr_group_mistake(group, "shard", "operator %s has no tiles, expected \"objects\"",
				 op->name);
	else if (pipeline->tap.name[0])
		hr_group_mistake(group, "shard", "is not possible with a %s, expected an object",
				 pipeline->to.address[0] ? "remote sink" : "tap");
	else if (pipeline->feed.name[0])
		hr_group_mistake(group, "shard",
				 "is not possible with a %s, expected objects as sources",
				 pipeline->from.address[0] ? "remote source" : "feed");
	else
		return true;
	return false;
}

bool hr_config_pipeline_read(struct hr_config *config, const struct hr_group *group, unsigned i)
{
	struct hr_config_pipeline *pipeline = &config->pipeline[i];
	struct written_pipeline written;
	bool good = read_fields(group, &written);

	*pipeline = written.pipeline;
	check_name(config, group, i);
	good &= read_gpu(config, group, written.gpu, pipeline);
	good &= find_operator(config, group, written.op, pipeline);
	good &= check_gpus(group, pipeline);
	good &= read_objects(config, group, pipeline);
	good &= check_shard(group, pipeline);
	if (pipeline->op)
		good &= hr_config_args_read(pipeline, group);
	return good;
}
