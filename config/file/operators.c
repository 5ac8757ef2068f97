/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"
#include "config/file/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct hr_field operator_fields[] = {
	{ "name", HR_FIELD_NAME, .required = true,
	  .offset = offsetof(struct hr_config_operator, name), .max = HR_NAME_MAX,
	  .example = "name = \"histogram\";" },
	{ "file", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct hr_config_operator, file), .max = HR_FILE_MAX,
	  .example = "file = \"histogram.op\";" },
};

const struct hr_operator *hr_config_operator_find(const struct hr_config *config, const char *name)
{
	const struct hr_operator *op;

	for (uint32_t i = 0; (op = config->names->operator_at(i)) != NULL; i++)
		if (strcmp(op->name, name) == 0)
			return op;
	return NULL;
}

/* Resolve an operator file against the configuration's folder. False: the path is too long. */
static bool find_file(const struct hr_config *config, const char *file, char path[HR_FILE_MAX])
{
	const int folder = (int)config->folder;
	int n;

	if (file[0] == '/')
		n = snprintf(path, HR_FILE_MAX, "%s", file);
	else if (folder || strchr(file, '/'))
		n = snprintf(path, HR_FILE_MAX, "%.*s%s", folder, config->file, file);
	else /* without a '/' dlopen() would search its own folders */
		n = snprintf(path, HR_FILE_MAX, "./%s", file);
	return n > 0 && n < (int)HR_FILE_MAX;
}

static void load_operator_file(const struct hr_config *config, const struct hr_group *group,
			       struct hr_config_operator *op)
{
	char path[HR_FILE_MAX] = ""; /* padded with zeros: configurations are compared */
	struct hr_error e = { 0 };
	const struct hr_operator *loaded = NULL;
	int err;

	if (!find_file(config, op->file, path)) {
		hr_group_mistake(group, "file",
				 "'%.200s' is too long a path, expected under %u "
				 "bytes with the folder of the configuration",
				 op->file, HR_FILE_MAX);
		return;
	}
	memcpy(op->file, path, sizeof path);
	err = config->names->operator_load(path, &loaded, &e);
	if (err) {
		hr_group_mistake(group, "file", "'%s' %s", path, e.text);
		group->mistakes->failed += hr_error_is_shortage(err);
		return;
	}
	if (strcmp(loaded->name, op->name) != 0) {
		hr_group_mistake(group, "name", "is '%s', but the operator in '%s' is called '%s'",
				 op->name, path, loaded->name);
		return;
	}
	op->op = loaded;
	op->checksum = config->names->operator_checksum(loaded);
}

static bool name_is_free(const struct hr_config *config, const struct hr_group *group, unsigned i)
{
	const char *name = config->op[i].name;

	if (hr_config_operator_find(config, name)) {
		hr_group_mistake(group, "name",
				 "'%s' is the name of a built-in operator, expected another", name);
		return false;
	}
	for (unsigned j = 0; j < i; j++) {
		if (strcmp(config->op[j].name, name) == 0) {
			hr_group_mistake(group, "name",
					 "'%s' is already the name of operators[%u] on line %u",
					 name, j, config->op[j].line);
			return false;
		}
	}
	return true;
}

void hr_config_operator_read(struct hr_config *config, const struct hr_group *group, unsigned i)
{
	struct hr_config_operator *op = &config->op[i];

	op->line = hr_group_line(group, NULL);
	hr_group_read(group, operator_fields, HR_COUNT(operator_fields), op);
	if (op->name[0] && op->file[0] && name_is_free(config, group, i))
		load_operator_file(config, group, op);
}

static void use(struct hr_config *config, uint32_t i, const struct hr_operator *loaded)
{
	config->op[i].op = loaded;
	for (uint32_t p = 0; p < config->pipelines; p++)
		if (config->pipeline[p].user_op == i + 1)
			config->pipeline[p].op = loaded;
}

void hr_config_operators_forget(struct hr_config *config)
{
	for (uint32_t i = 0; i < config->ops; i++)
		use(config, i, NULL);
}

int hr_config_operators_load(struct hr_config *config, struct hr_error *e)
{
	for (uint32_t i = 0; i < config->ops; i++) {
		const struct hr_config_operator *op = &config->op[i];
		const struct hr_operator *loaded;
		struct hr_error why = { 0 };
		int err = config->names->operator_load(op->file, &loaded, &why);

		if (!err && config->names->operator_checksum(loaded) != op->checksum)
			err = hr_fail(&why, HR_ERROR_USAGE, -EINVAL,
				      "has changed since the configuration was read");
		if (err)
			return hr_fail(e, why.kind, err, "%s:%u: operator '%s': '%s' %s",
				       config->file, op->line, op->name, op->file, why.text);
		use(config, i, loaded);
	}
	return 0;
}
