/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/json.h - the only writer of JSON (RFC 8259): reports of commands and the answer
 * to `status`.
 *
 * A document is one object. Each call writes its part at once: the writer allocates no memory, and
 * its size does not grow with the document. Members are in the order of the calls. The caller closes
 * each object and array that it opens, gives a key to each member of an object and NULL to each
 * element of an array, and uses each key once per object.
 *
 * Strings and keys: `"`, `\` and bytes below 0x20 are escaped. Valid UTF-8 (RFC 3629) is written as
 * it is. Each byte that is not part of a valid sequence becomes \ufffd, so that the document is valid
 * for any text of a device or file. Numbers do not depend on the locale.
 *
 * The first error stays: nothing is written after it, and hr_json_done() returns it.
 */
#ifndef CONFIG_BASE_JSON_H
#define CONFIG_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HR_JSON_DEPTH 16u /* objects and arrays inside one another, with the document itself */

enum hr_json_form {
	HR_JSON_INDENTED, /* one member per line, indented by two spaces per level */
	HR_JSON_LINE,	  /* all in one line */
};

/* Fields are private except `error`: a loop may end early when it is set. */
struct hr_json {
	FILE *out; /* NULL: to text */
	char *text;
	size_t room, length;
	enum hr_json_form form;
	uint32_t depth;		 /* number of open objects and arrays */
	uint32_t arrays, filled; /* one bit per level: is an array; is not empty */
	int error;		 /* negative errno, or 0 */
};

/* Begin a document. text always ends with a NUL; the caller owns out. */
void hr_json_to_file(struct hr_json *j, enum hr_json_form form, FILE *out);
void hr_json_to_text(struct hr_json *j, enum hr_json_form form, char *text, size_t bytes);

/*
 * End the document with a newline, and flush the file. 0; -ENOBUFS: the text is too short; -EINVAL:
 * an object or array is open, closed twice or too deep, or a key is missing or superfluous; or the
 * error of the write to the file (-ENOSPC, -EPIPE, ...).
 */
int hr_json_done(struct hr_json *j);

/* The first members of a document: `schema`, such as "headrace.run", and `version`, which changes when
 * a member is removed or changes its meaning. */
void hr_json_schema(struct hr_json *j, const char *name, uint32_t version);

/* Open an object or array; close the one opened last. */
void hr_json_object(struct hr_json *j, const char *key);
void hr_json_array(struct hr_json *j, const char *key);
void hr_json_close(struct hr_json *j);

/* value NULL: null. */
void hr_json_string(struct hr_json *j, const char *key, const char *value);
void hr_json_u64(struct hr_json *j, const char *key, uint64_t value);
void hr_json_i64(struct hr_json *j, const char *key, int64_t value);
/* With `digits` decimals. NaN and infinities are null. */
void hr_json_fixed(struct hr_json *j, const char *key, double value, int digits);
/* With enough digits to differ from every other double. NaN and infinities are null. */
void hr_json_real(struct hr_json *j, const char *key, double value);
/* A value that is JSON in one line already; the caller has checked it. */
void hr_json_raw(struct hr_json *j, const char *key, const char *text);
void hr_json_bool(struct hr_json *j, const char *key, bool value);
void hr_json_null(struct hr_json *j, const char *key);

/* ---- checks a JSON value that another program, or a disk, has delivered as text */

#define HR_JSON_TEXT_DEPTH 16u /* objects and arrays inside one another */

/*
 * True when the text is one object (RFC 8259) in one line, nested at most HR_JSON_TEXT_DEPTH deep.
 * Bytes that are not UTF-8 (RFC 3629), and characters below 0x20, are refused. Keys may be double.
 */
bool hr_json_text_is_object(const char *text);

#endif
