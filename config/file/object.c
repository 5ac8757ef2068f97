/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <string.h>

#include "config/base/text.h"

/* An object as the file describes it: its ssd by name. */
struct written_object {
	char ssd[HR_NAME_MAX];
	struct hr_config_object object;
};

#define OBJECT_FIELDS                                                                              \
	{ "ssd", HR_FIELD_NAME, .offset = offsetof(struct written_object, ssd),                    \
	  .max = HR_NAME_MAX },                                                                    \
	{                                                                                          \
		"object", HR_FIELD_NAME, .required = true,                                         \
					 .offset = offsetof(struct written_object, object.object), \
					 .max = HR_NAME_MAX,                                       \
					 .example = "object = \"lineitem.discount\";"              \
	}

static const struct hr_field source_fields[] = { OBJECT_FIELDS };

static const struct hr_field sink_fields[] = {
	OBJECT_FIELDS,
	{ "replace", HR_FIELD_BOOL, .offset = offsetof(struct written_object, object.replace) },
	{ "checksum", HR_FIELD_BOOL, .offset = offsetof(struct written_object, object.checksum) },
	{ "keep", HR_FIELD_U32, .offset = offsetof(struct written_object, object.keep), .min = 1,
	  .max = HR_VERSIONS_MAX },
};

static const struct hr_field access_fields[] = {
	OBJECT_FIELDS,
	{ "bytes", HR_FIELD_SIZE, .offset = offsetof(struct written_object, object.bytes), .min = 1,
	  .max = INT64_MAX },
	{ "replace", HR_FIELD_BOOL, .offset = offsetof(struct written_object, object.replace) },
	{ "checksum", HR_FIELD_BOOL, .offset = offsetof(struct written_object, object.checksum) },
};

#define TABLE(fields)                                     \
	{                                                 \
		fields, sizeof(fields) / sizeof *(fields) \
	}

static const struct {
	const struct hr_field *field;
	size_t count;
} table[] = {
	[HR_OBJECT_SOURCE] = TABLE(source_fields),
	[HR_OBJECT_SINK] = TABLE(sink_fields),
	[HR_OBJECT_ACCESS] = TABLE(access_fields),
};

int hr_config_find_name(const struct hr_group *group, const char *key, const char *name,
			const void *array, unsigned count, size_t stride, const char *what)
{
	const char *known[HR_SSDS_MAX + HR_GPUS_MAX] = { NULL };
	const char *near;

	if (!name[0]) {
		/* A member that is present but wrong has been reported before. */
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

bool hr_config_object_read(const struct hr_config *config, const struct hr_group *group,
			   enum hr_object_keys keys, struct hr_config_object *object)
{
	struct written_object written = { .object.line = hr_group_line(group, "object"),
					  .object.checksum = keys != HR_OBJECT_SOURCE };
	int ssd;

	hr_group_read(group, table[keys].field, table[keys].count, &written);
	*object = written.object;
	object->replace |= object->keep != 0;
	ssd = hr_config_find_name(group, "ssd", written.ssd, config->ssd, config->ssds,
				  sizeof *config->ssd, "ssd");
	object->ssd = ssd < 0 ? 0 : (uint32_t)ssd;
	return ssd >= 0 && object->object[0];
}
