/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/group.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/base/text.h"

#define KEYS_MAX 24u

unsigned hr_group_line(const struct hr_group *group, const char *key)
{
	config_setting_t *member = key ? config_setting_get_member(group->setting, key) : NULL;

	return config_setting_source_line(member ? member : group->setting);
}

void hr_group_mistake(const struct hr_group *group, const char *key, const char *format, ...)
{
	char text[HR_MISTAKE_BYTES];
	const char *dot = key && group->path[0] ? "." : "";
	const char *colon = key || group->path[0] ? ": " : "";
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	hr_mistake(group->mistakes, hr_group_line(group, key), "%s%s%s%s%s", group->path, dot,
		   key ? key : "", colon, text);
}

static const char *type_name(const config_setting_t *setting)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_GROUP:
		return "a group";
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return "an integer";
	case CONFIG_TYPE_FLOAT:
		return "a floating point number";
	case CONFIG_TYPE_STRING:
		return "a string";
	case CONFIG_TYPE_BOOL:
		return "a boolean";
	case CONFIG_TYPE_ARRAY:
		return "an array";
	case CONFIG_TYPE_LIST:
		return "a list";
	default:
		return "something else";
	}
}

static void wrong_type(const struct hr_group *group, const char *key,
		       const config_setting_t *setting, const char *expected)
{
	hr_group_mistake(group, key, "is %s, expected %s", type_name(setting), expected);
}

static bool is_integer(const config_setting_t *setting)
{
	int type = config_setting_type(setting);

	return type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64;
}

/* Read an integer of min .. max from a setting into *value; report any other value. */
static bool read_integer(const struct hr_group *group, const struct hr_field *field,
			 const config_setting_t *setting, uint64_t *value)
{
	char expected[96];
	long long got;

	snprintf(expected, sizeof expected, "expected an integer from %llu to %llu",
		 (unsigned long long)field->min, (unsigned long long)field->max);
	if (!is_integer(setting)) {
		wrong_type(group, field->key, setting, expected + strlen("expected "));
		return false;
	}
	got = config_setting_get_int64(setting);
	if (got < 0 || (uint64_t)got < field->min || (uint64_t)got > field->max) {
		hr_group_mistake(group, field->key, "is %lld, %s", got, expected);
		return false;
	}
	*value = (uint64_t)got;
	return true;
}

static void format_size(char *text, size_t bytes, uint64_t size)
{
	static const char units[] = "KMGT";
	unsigned unit = 0;

	for (; unit < 4 && size && size % 1024 == 0; unit++)
		size /= 1024;
	if (unit)
		snprintf(text, bytes, "%llu%c", (unsigned long long)size, units[unit - 1]);
	else
		snprintf(text, bytes, "%llu", (unsigned long long)size);
}

static bool read_size(const struct hr_group *group, const struct hr_field *field,
		      const config_setting_t *setting, uint64_t *value)
{
	const char *text = config_setting_get_string(setting);
	long long got = is_integer(setting) ? config_setting_get_int64(setting) : -1;
	char low[32], high[32];
	uint64_t size = (uint64_t)got;
	int err;

	if (!text && !is_integer(setting)) {
		wrong_type(group, field->key, setting, "a size: an integer, or like \"64M\"");
		return false;
	}
	err = text ? hr_size_parse(text, &size) : 0;
	if (err) {
		hr_group_mistake(group, field->key,
				 err == -ERANGE ? "'%s' is too large, expected at most "
						  "9223372036854775807"
						: "'%s' is not a size; expected digits and K, M, G "
						  "or T",
				 text);
		return false;
	}
	if ((!text && got < 0) || size < field->min || size > field->max) {
		format_size(low, sizeof low, field->min);
		format_size(high, sizeof high, field->max);
		if (text)
			hr_group_mistake(group, field->key, "is %s, expected %s to %s", text, low,
					 high);
		else
			hr_group_mistake(group, field->key, "is %lld, expected %s to %s", got, low,
					 high);
		return false;
	}
	*value = size;
	return true;
}

static bool read_duration(const struct hr_group *group, const struct hr_field *field,
			  const config_setting_t *setting, uint64_t *value)
{
	const char *text = config_setting_get_string(setting);
	int err;

	if (is_integer(setting) && config_setting_get_int64(setting) == 0) {
		*value = 0;
		return true;
	}
	if (!text) {
		wrong_type(group, field->key, setting, "a duration like \"5s\" or \"500ms\", or 0");
		return false;
	}
	err = hr_duration_parse(text, value);
	if (err) {
		hr_group_mistake(group, field->key,
				 err == -ERANGE ? "'%s' is too large, expected at most 292 years"
						: "'%s' is not a duration; expected digits and ms, "
						  "s, m, h or d",
				 text);
		return false;
	}
	return true;
}

static void read_string(const struct hr_group *group, const struct hr_field *field,
			const config_setting_t *setting, char *out)
{
	const char *text = config_setting_get_string(setting);
	size_t length = text ? strlen(text) : 0;

	if (!text) {
		wrong_type(group, field->key, setting, "a string");
		return;
	}
	if (length == 0 || length >= field->max) {
		hr_group_mistake(group, field->key, "has %zu characters, expected 1 to %llu",
				 length, (unsigned long long)field->max - 1);
		return;
	}
	for (const char *c = text; *c; c++) {
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~') {
			hr_group_mistake(group, field->key,
					 "has byte 0x%02x, expected printable ASCII",
					 (unsigned char)*c);
			return;
		}
		if (field->type == HR_FIELD_NAME && *c == '/') {
			hr_group_mistake(group, field->key, "'%s' has a '/', expected a name",
					 text);
			return;
		}
	}
	memcpy(out, text, length + 1);
}

static void read_choice(const struct hr_group *group, const struct hr_field *field,
			const config_setting_t *setting, unsigned *out)
{
	const char *text = config_setting_get_string(setting);
	char list[128] = "";
	size_t used = 0;

	for (unsigned i = 0; field->choices[i]; i++) {
		int n;

		if (text && strcmp(text, field->choices[i]) == 0) {
			*out = i;
			return;
		}
		n = snprintf(list + used, sizeof list - used, "%s\"%s\"", i ? " or " : "",
			     field->choices[i]);
		if (n > 0 && (size_t)n < sizeof list - used)
			used += (size_t)n;
	}
	if (text)
		hr_group_mistake(group, field->key, "is \"%s\", expected %s", text, list);
	else
		wrong_type(group, field->key, setting, list);
}

/* A list member: report every element that is not a group. */
static void check_list(const struct hr_group *group, const struct hr_field *field,
		       const config_setting_t *setting)
{
	bool may_be_group = field->type == HR_FIELD_GROUPS;
	const char *expected = may_be_group ? "a group { ... } or a list of groups ( { ... } )"
					    : "a list of groups ( { ... } )";

	if (may_be_group && config_setting_is_group(setting))
		return;
	if (!config_setting_is_list(setting)) {
		wrong_type(group, field->key, setting, expected);
		return;
	}
	for (unsigned i = 0; i < (unsigned)config_setting_length(setting); i++) {
		const config_setting_t *element = config_setting_get_elem(setting, i);

		if (!config_setting_is_group(element))
			hr_mistake(group->mistakes, config_setting_source_line(element),
				   "%s%s%s[%u]: is %s, expected a group { ... }", group->path,
				   group->path[0] ? "." : "", field->key, i, type_name(element));
	}
	if ((unsigned)config_setting_length(setting) > field->max)
		hr_group_mistake(group, field->key, "has %d elements, expected at most %llu",
				 config_setting_length(setting), (unsigned long long)field->max);
}

bool hr_group_is_names(const config_setting_t *setting, uint64_t max)
{
	const unsigned count = (unsigned)config_setting_length(setting);

	return config_setting_is_array(setting) && count <= max &&
	       (count == 0 || config_setting_get_string_elem(setting, 0));
}

static void check_names(const struct hr_group *group, const struct hr_field *field,
			const config_setting_t *setting)
{
	if (!hr_group_is_names(setting, UINT64_MAX))
		wrong_type(group, field->key, setting,
			   "an array of names [ \"first\", \"second\" ]");
	else if (!hr_group_is_names(setting, field->max))
		hr_group_mistake(group, field->key, "has %d names, expected at most %llu",
				 config_setting_length(setting), (unsigned long long)field->max);
}

static void read_field(const struct hr_group *group, const struct hr_field *field,
		       const config_setting_t *setting, void *out)
{
	uint64_t value;

	switch (field->type) {
	case HR_FIELD_STRING:
	case HR_FIELD_NAME:
		read_string(group, field, setting, out);
		break;
	case HR_FIELD_U32:
		if (read_integer(group, field, setting, &value))
			*(uint32_t *)out = (uint32_t)value;
		break;
	case HR_FIELD_SIZE:
		if (read_size(group, field, setting, &value))
			*(uint64_t *)out = value;
		break;
	case HR_FIELD_SIZE32:
		if (read_size(group, field, setting, &value))
			*(uint32_t *)out = (uint32_t)value;
		break;
	case HR_FIELD_DURATION:
		if (read_duration(group, field, setting, &value))
			*(uint64_t *)out = value;
		break;
	case HR_FIELD_MS:
		if (read_integer(group, field, setting, &value))
			*(uint64_t *)out = value * 1000000;
		break;
	case HR_FIELD_BOOL:
		if (config_setting_type(setting) == CONFIG_TYPE_BOOL)
			*(bool *)out = config_setting_get_bool(setting) != 0;
		else
			wrong_type(group, field->key, setting, "true or false");
		break;
	case HR_FIELD_CHOICE:
		read_choice(group, field, setting, out);
		break;
	case HR_FIELD_GROUP:
		if (!config_setting_is_group(setting))
			wrong_type(group, field->key, setting, "a group { ... }");
		break;
	case HR_FIELD_LIST:
	case HR_FIELD_GROUPS:
		check_list(group, field, setting);
		break;
	case HR_FIELD_NAMES:
		check_names(group, field, setting);
		break;
	}
}

static const struct hr_field *find_field(const struct hr_field *field, size_t count,
					 const char *key)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(field[i].key, key) == 0)
			return &field[i];
	return NULL;
}

static void unknown_key(const struct hr_group *group, const struct hr_field *field, size_t count,
			const char *key)
{
	const char *known[KEYS_MAX], *near;
	char list[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < count && i < KEYS_MAX; i++) {
		int n = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
				 field[i].key);

		if (n > 0 && (size_t)n < sizeof list - used)
			used += (size_t)n;
		known[i] = field[i].key;
	}
	near = hr_nearest(key, known, count < KEYS_MAX ? count : KEYS_MAX);
	if (near)
		hr_group_mistake(group, key, "unknown key; did you mean '%s'?", near);
	else
		hr_group_mistake(group, key, "unknown key; expected one of: %s", list);
}

void hr_group_read(const struct hr_group *group, const struct hr_field *field, size_t count,
		   void *out)
{
	unsigned length = (unsigned)config_setting_length(group->setting);

	for (unsigned i = 0; i < length; i++) {
		const config_setting_t *setting = config_setting_get_elem(group->setting, i);
		const char *key = config_setting_name(setting);
		const struct hr_field *known = find_field(field, count, key);

		if (known)
			read_field(group, known, setting, (char *)out + known->offset);
		else
			unknown_key(group, field, count, key);
	}
	for (size_t i = 0; i < count; i++) {
		if (!field[i].required || config_setting_get_member(group->setting, field[i].key))
			continue;
		hr_group_mistake(group, NULL, "key '%s' is missing; expected for example: %s",
				 field[i].key, field[i].example);
	}
}

bool hr_group_member(const struct hr_group *group, const char *key, struct hr_group *member)
{
	config_setting_t *setting = config_setting_get_member(group->setting, key);

	if (!setting || !config_setting_is_group(setting))
		return false;
	member->mistakes = group->mistakes;
	member->setting = setting;
	snprintf(member->path, sizeof member->path, "%.60s%s%s", group->path,
		 group->path[0] ? "." : "", key);
	return true;
}

unsigned hr_group_list(const struct hr_group *group, const char *key)
{
	config_setting_t *setting = config_setting_get_member(group->setting, key);

	return setting && config_setting_is_list(setting) ? (unsigned)config_setting_length(setting)
							  : 0;
}

unsigned hr_group_elements(const struct hr_group *group, const char *key)
{
	config_setting_t *setting = config_setting_get_member(group->setting, key);

	return setting && config_setting_is_group(setting) ? 1 : hr_group_list(group, key);
}

bool hr_group_element(const struct hr_group *group, const char *key, unsigned i,
		      struct hr_group *element)
{
	config_setting_t *setting = config_setting_get_member(group->setting, key);

	if (!setting)
		return false;
	if (config_setting_is_group(setting))
		return i == 0 && hr_group_member(group, key, element);
	setting = config_setting_get_elem(setting, i);
	if (!setting || !config_setting_is_group(setting))
		return false;
	element->mistakes = group->mistakes;
	element->setting = setting;
	snprintf(element->path, sizeof element->path, "%.60s%s%s[%u]", group->path,
		 group->path[0] ? "." : "", key, i);
	return true;
}

const char *hr_group_string(const struct hr_group *group, const char *key, unsigned i)
{
	const config_setting_t *setting = config_setting_get_member(group->setting, key);

	if (!setting || !config_setting_is_array(setting) ||
	    i >= (unsigned)config_setting_length(setting))
		return NULL;
	return config_setting_get_string_elem(setting, (int)i);
}
