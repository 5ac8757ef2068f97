#include "config/parts.h"

#include <stdio.h>
#include <string.h>

#include "config/nearest.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* An object as it is written: its ssd by name. */
struct written_object {
	char ssd[HR_NAME_MAX];
	struct hr_config_object object;
};

/* A pipeline as it is written: gpu and operator by name. */
struct written_pipeline {
	struct hr_config_pipeline pipeline;
	char gpu[HR_NAME_MAX];
	char op[HR_NAME_MAX];
};

static const struct hr_field object_fields[] = {
	{ "ssd", HR_FIELD_NAME, .offset = offsetof(struct written_object, ssd),
	  .max = HR_NAME_MAX },
	{ "object", HR_FIELD_NAME, .required = true,
	  .offset = offsetof(struct written_object, object.object), .max = HR_NAME_MAX,
	  .example = "object = \"lineitem.discount\";" },
	/* From here: sinks only. */
	{ "replace", HR_FIELD_BOOL, .offset = offsetof(struct written_object, object.replace) },
	{ "checksum", HR_FIELD_BOOL, .offset = offsetof(struct written_object, object.checksum) },
};

#define SOURCE_FIELDS 2u /* of object_fields */

static const char *const bounces[] = { "auto", "in-place", "copy", NULL };
static const char *const verifies[] = { "auto", "on", "off", NULL };

static const struct hr_field pipeline_fields[] = {
	{ "name", HR_FIELD_NAME, .required = true,
	  .offset = offsetof(struct written_pipeline, pipeline.name), .max = HR_NAME_MAX,
	  .example = "name = \"checksum\";" },
	{ "gpu", HR_FIELD_NAME, .offset = offsetof(struct written_pipeline, gpu),
	  .max = HR_NAME_MAX },
	{ "source", .type = HR_FIELD_GROUPS, .required = true, .max = HR_SOURCES_MAX,
	  .example = "source = { ssd = \"ssd0\"; object = \"data\"; };" },
	{ "operator", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct written_pipeline, op), .max = HR_NAME_MAX,
	  .example = "operator = \"crc32c\";" },
	{ "args", .type = HR_FIELD_GROUP },
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

/*
 * Index of the name in an array of `count` structs that begin with it. Without a name the only one
 * is meant. -1 after a mistake.
 */
static int find_name(const struct hr_group *group, const char *key, const char *name,
		     const void *array, unsigned count, size_t stride, const char *what)
{
	const char *known[HR_SSDS_MAX + HR_GPUS_MAX] = { NULL };
	const char *near;

	if (!name[0]) {
		/* Present but wrong has been reported. */
		if (config_setting_get_member(group->setting, key))
			return -1;
		if (count == 1)
			return 0;
		if (count > 1)
			hr_group_mistake(
				group, NULL,
				"key '%s' is missing; expected the name of one of the %u %ss", key,
				count, what);
		return -1;
	}
	for (unsigned i = 0; i < count; i++) {
		known[i] = (const char *)array + i * stride;
		if (strcmp(known[i], name) == 0)
			return (int)i;
	}
	near = hr_nearest(name, known, count);
	hr_group_mistake(group, key, "there is no %s '%s'%s%s%s", what, name,
			 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return -1;
}

static bool read_object(const struct hr_config *config, const struct hr_group *group, bool sink,
			struct hr_config_object *object)
{
	struct written_object written = { .object.line = hr_group_line(group, "object"),
					  .object.checksum = sink };
	int ssd;

	hr_group_read(group, object_fields, sink ? COUNT(object_fields) : SOURCE_FIELDS, &written);
	*object = written.object;
	ssd = find_name(group, "ssd", written.ssd, config->ssd, config->ssds, sizeof *config->ssd,
			"ssd");
	object->ssd = ssd < 0 ? 0 : (uint32_t)ssd;
	return ssd >= 0 && object->object[0];
}

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
		    !read_object(config, &element, false, &pipeline->source[i]))
			good = false;
		pipeline->sources = i + 1;
	}
	return good;
}

/* Names of all operators, built in and of the configuration; "a, b, c" in text. */
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
			/* NULL: what is wrong with it has been reported. */
			pipeline->op = config->op[i].op;
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

/* Defaults, then what the group says. */
static bool read_fields(const struct hr_group *group, struct written_pipeline *written)
{
	struct hr_config_pipeline *pipeline = &written->pipeline;
	uint32_t before = group->mistakes->count;
	struct hr_group blocks;

	memset(written, 0, sizeof *written);
	pipeline->line = hr_group_line(group, NULL);
	pipeline->tile_line = hr_group_line(group, "tile");
	pipeline->has_sink = config_setting_get_member(group->setting, "sink") != NULL;
	hr_group_read(group, pipeline_fields, COUNT(pipeline_fields), written);
	if (hr_group_member(group, "blocks", &blocks))
		hr_group_read(&blocks, block_fields, COUNT(block_fields), pipeline);
	return group->mistakes->count == before;
}

bool hr_config_pipeline_read(struct hr_config *config, const struct hr_group *group, unsigned i)
{
	struct hr_config_pipeline *pipeline = &config->pipeline[i];
	struct written_pipeline written;
	bool good = read_fields(group, &written);
	struct hr_group sink;
	int gpu;

	*pipeline = written.pipeline;
	check_name(config, group, i);
	if (hr_group_member(group, "sink", &sink))
		good &= read_object(config, &sink, true, &pipeline->sink);
	good &= read_sources(config, group, pipeline);
	gpu = find_name(group, "gpu", written.gpu, config->gpu, config->gpus, sizeof *config->gpu,
			"gpu");
	pipeline->gpu = gpu < 0 ? 0 : (uint32_t)gpu;
	good &= gpu >= 0;
	good &= find_operator(config, group, written.op, pipeline);
	if (pipeline->op)
		good &= hr_config_args_read(pipeline, group);
	return good;
}
