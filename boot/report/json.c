#include "boot/report/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot/log.h"

static struct json_object *must(struct json_object *object)
{
	if (!object) {
		hr_error("out of memory while writing a report");
		exit(1);
	}
	return object;
}

static struct json_object *put(struct json_object *in, const char *key, struct json_object *value)
{
	if (json_object_object_add(in, key, must(value)) != 0)
		must(NULL);
	return value;
}

struct json_object *hr_json_new(void)
{
	return must(json_object_new_object());
}

struct json_object *hr_json_object(struct json_object *in, const char *key)
{
	return put(in, key, json_object_new_object());
}

struct json_object *hr_json_array(struct json_object *in, const char *key)
{
	return put(in, key, json_object_new_array());
}

struct json_object *hr_json_append(struct json_object *array)
{
	struct json_object *object = hr_json_new();

	if (json_object_array_add(array, object) != 0)
		must(NULL);
	return object;
}

void hr_json_string(struct json_object *in, const char *key, const char *value)
{
	put(in, key, json_object_new_string(value));
}

void hr_json_u64(struct json_object *in, const char *key, uint64_t value)
{
	put(in, key, json_object_new_uint64(value));
}

void hr_json_i64(struct json_object *in, const char *key, int64_t value)
{
	put(in, key, json_object_new_int64(value));
}

void hr_json_double(struct json_object *in, const char *key, double value, int digits)
{
	char text[64];

	if (!isfinite(value)) {
		if (json_object_object_add(in, key, NULL) != 0)
			must(NULL);
		return;
	}
	if (snprintf(text, sizeof text, "%.*f", digits, value) >= (int)sizeof text)
		snprintf(text, sizeof text, "%.17g", value);
	put(in, key, json_object_new_double_s(value, text));
}

void hr_json_bool(struct json_object *in, const char *key, bool value)
{
	put(in, key, json_object_new_boolean(value));
}

int hr_json_print(struct json_object *object)
{
	const char *text = json_object_to_json_string_ext(
		object,
		JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	int error = 0;

	if (!text || puts(text) < 0 || fflush(stdout) != 0) {
		hr_error("standard output: cannot write the report");
		error = -EIO;
	}
	json_object_put(object);
	return error;
}
