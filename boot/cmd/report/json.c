#include "boot/cmd/report/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/log.h"

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

#define FORM (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE)

int hr_json_print(struct json_object *object)
{
	const char *text = json_object_to_json_string_ext(object, FORM);
	int error = 0;

	if (!text || puts(text) < 0 || fflush(stdout) != 0) {
		hr_error("standard output: cannot write the report");
		error = -EIO;
	}
	json_object_put(object);
	return error;
}

/* ---- a document in pieces */

/* Line ends in a value are those of its form: strings have theirs escaped. */
static void put_indented(struct hr_json_stream *s, struct json_object *value, const char *indent)
{
	const char *text = json_object_to_json_string_ext(value, FORM), *end;

	if (!text) {
		must(NULL);
		return;
	}
	for (; (end = strchr(text, '\n')) != NULL; text = end + 1) {
		fwrite(text, 1, (size_t)(end - text + 1), stdout);
		fputs(indent, stdout);
	}
	s->failed |= fputs(text, stdout) < 0 || ferror(stdout);
}

void hr_json_begin(struct hr_json_stream *s)
{
	*s = (struct hr_json_stream){ .failed = putchar('{') < 0 };
}

static void put_key(struct hr_json_stream *s, const char *key)
{
	printf("%s\n  \"%s\": ", s->members ? "," : "", key);
	s->members = true;
}

void hr_json_members(struct hr_json_stream *s, struct json_object *object)
{
	json_object_object_foreach(object, key, value)
	{
		put_key(s, key);
		put_indented(s, value, "  ");
	}
	json_object_put(object);
}

void hr_json_list(struct hr_json_stream *s, const char *key)
{
	put_key(s, key);
	putchar('[');
	s->items = false;
}

void hr_json_item(struct hr_json_stream *s, struct json_object *item)
{
	fputs(s->items ? ",\n    " : "\n    ", stdout);
	put_indented(s, item, "    ");
	s->items = true;
	json_object_put(item);
}

void hr_json_list_end(struct hr_json_stream *s)
{
	fputs("\n  ]", stdout);
}

int hr_json_end(struct hr_json_stream *s)
{
	if (puts("\n}") >= 0 && fflush(stdout) == 0 && !s->failed)
		return 0;
	hr_error("standard output: cannot write the report");
	return -EIO;
}
