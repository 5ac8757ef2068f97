/*
 * boot/cmd/report/json.h - what commands print with --json: one object, fields stable, units in names.
 *
 * Thin over json-c. An allocation that fails ends the process with a message: reports are made
 * before the appliance is sealed or after it is down.
 */
#ifndef BOOT_CMD_REPORT_JSON_H
#define BOOT_CMD_REPORT_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* A new object; a new object or array that is member `key` of `in`, which then owns it. */
struct json_object *hr_json_new(void);
struct json_object *hr_json_object(struct json_object *in, const char *key);
struct json_object *hr_json_array(struct json_object *in, const char *key);
/* A new object at the end of an array. */
struct json_object *hr_json_append(struct json_object *array);

void hr_json_string(struct json_object *in, const char *key, const char *value);
void hr_json_u64(struct json_object *in, const char *key, uint64_t value);
void hr_json_i64(struct json_object *in, const char *key, int64_t value);
/* Printed with `digits` decimals; NaN and infinities become null. */
void hr_json_double(struct json_object *in, const char *key, double value, int digits);
void hr_json_bool(struct json_object *in, const char *key, bool value);

/* Print to stdout with a newline, and free. 0, or -EIO when stdout does not take it. */
int hr_json_print(struct json_object *object);

/*
 * A document that is printed while it is made, so that memory does not grow with its lists: to
 * stdout, in the form that hr_json_print() has. Members stand in the order of the calls.
 */
struct hr_json_stream {
	bool members, items; /* something stands before the next one */
	bool failed;	     /* stdout does not take it: the rest need not be made */
};

void hr_json_begin(struct hr_json_stream *s);
/* All members of an object, and free it. */
void hr_json_members(struct hr_json_stream *s, struct json_object *object);
/* A list and its items, each freed when printed; lists do not nest. */
void hr_json_list(struct hr_json_stream *s, const char *key);
void hr_json_item(struct hr_json_stream *s, struct json_object *item);
void hr_json_list_end(struct hr_json_stream *s);
/* 0, or -EIO when stdout has not taken all. */
int hr_json_end(struct hr_json_stream *s);

#endif
