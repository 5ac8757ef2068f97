/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer at its limits: errors that stay, calls in a wrong order, files that fail late,
 * room that ends in each part of a document, and what is written before an error.
 */
#include "config/base/json.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(json_limits, .timeout = 60);

static char text[4096];
static struct hr_json j;

static void begin(void)
{
	hr_json_to_text(&j, HR_JSON_LINE, text, sizeof text);
}

/* Sixteen levels, the document among them; each has its own kind and its own comma. */
Test(json_limits, each_level_knows_its_kind_and_its_elements)
{
	char want[1024] = "{";
	size_t at = 1;

	begin();
	for (unsigned i = 1; i < HR_JSON_DEPTH; i++) {
		const char *key = i % 3 == 1 ? "k" : NULL; /* levels: { [ [ { [ [ ... */

		if (i % 3 == 0)
			hr_json_object(&j, key);
		else
			hr_json_array(&j, key);
		at += (size_t)sprintf(want + at, "%s%c", key ? "\"k\": " : "", i % 3 ? '[' : '{');
		cr_assert_eq(j.error, 0, "level %u", i);
	}
	cr_assert_eq(j.depth, HR_JSON_DEPTH);
	for (unsigned i = HR_JSON_DEPTH; i-- > 1;) {
		const bool in_object = i % 3 == 0;

		if (i + 1 < HR_JSON_DEPTH) /* one more element behind the closed one */
			at += (size_t)sprintf(want + at, ", ");
		hr_json_bool(&j, in_object ? "b" : NULL, true);
		hr_json_bool(&j, in_object ? "c" : NULL, false);
		at += (size_t)sprintf(want + at, "%strue, %sfalse%c", in_object ? "\"b\": " : "",
				      in_object ? "\"c\": " : "", in_object ? '}' : ']');
		hr_json_close(&j);
	}
	sprintf(want + at, "}\n");
	cr_expect_eq(hr_json_done(&j), 0);
	cr_expect_str_eq(text, want, "%s", text);
}

/* Indented by two blanks for each level. */
Test(json_limits, the_deepest_line_is_indented)
{
	char want[64];

	hr_json_to_text(&j, HR_JSON_INDENTED, text, sizeof text);
	for (unsigned i = 1; i < HR_JSON_DEPTH; i++)
		hr_json_object(&j, "o");
	hr_json_null(&j, "n");
	snprintf(want, sizeof want, "\n%*s\"n\": null", 2 * (int)HR_JSON_DEPTH, "");
	cr_expect_not_null(strstr(text, want), "%s", text);
	for (unsigned i = 1; i < HR_JSON_DEPTH; i++)
		hr_json_close(&j);
	cr_expect_eq(hr_json_done(&j), 0);
	cr_expect_not_null(strstr(text, "\n  }\n}\n"), "%s", text);
}

/* What each wrong call leaves: the text before it, and the error. */
Test(json_limits, a_wrong_call_writes_nothing_more)
{
	enum { NO_KEY, KEY, CLOSE, DEEP, DEEP_ARRAY, AFTER_DONE, OPEN_AT_END, WRONGS };
	static const char *const want[] = {
		"{\"a\": 1", "{\"a\": 1, \"l\": [", "{\"a\": 1",	  NULL,
		NULL,	     "{\"a\": 1}\n",	    "{\"a\": 1, \"o\": {"
	};
	size_t length;

	for (int what = 0; what < WRONGS; what++) {
		begin();
		hr_json_u64(&j, "a", 1);
		if (what == NO_KEY)
			hr_json_string(&j, NULL, "x");
		if (what == KEY) {
			hr_json_array(&j, "l");
			hr_json_null(&j, "k");
		}
		if (what == CLOSE)
			hr_json_close(&j);
		for (unsigned i = 1; what == DEEP && i < HR_JSON_DEPTH; i++)
			hr_json_object(&j, "o");
		for (unsigned i = 1; what == DEEP_ARRAY && i < HR_JSON_DEPTH; i++)
			hr_json_array(&j, i == 1 ? "l" : NULL);
		length = j.length;
		if (what == DEEP)
			hr_json_object(&j, "o");
		if (what == DEEP_ARRAY)
			hr_json_array(&j, NULL);
		if (what == AFTER_DONE) {
			cr_expect_eq(hr_json_done(&j), 0);
			hr_json_u64(&j, "z", 2);
		}
		if (what == OPEN_AT_END)
			hr_json_object(&j, "o");
		else
			cr_expect_eq(j.error, -EINVAL, "%d", what);
		if (what == DEEP || what == DEEP_ARRAY)
			cr_expect(j.depth == HR_JSON_DEPTH && j.length <= length + 6, "%d", what);
		length = j.length;
		hr_json_object(&j, "later");
		hr_json_close(&j);
		if (what != OPEN_AT_END)
			cr_expect_eq(j.length, length, "%d: %s", what, text);
		cr_expect_eq(hr_json_done(&j), -EINVAL, "%d", what);
		if (want[what] && what != OPEN_AT_END)
			cr_expect_str_eq(text, want[what], "%d: %s", what, text);
	}
}

static unsigned writes, fail_from;
static int fail_errno;

/* errno is that of the call before it, when the stream has no number. */
static ssize_t take(void *cookie, const char *bytes, size_t n)
{
	if (++writes < fail_from)
		return (ssize_t)n;
	errno = fail_errno ? fail_errno : errno;
	return 0;
}

/* A stream that fails in its n-th write, with or without a number for it. */
Test(json_limits, a_file_that_fails_has_its_error_or_eio)
{
	static const struct {
		unsigned from;
		int error, want;
		bool whole; /* buffered: the first write is that of the end */
	} row[] = {
		{ 1, ENOSPC, -ENOSPC, false }, { 2, EPIPE, -EPIPE, false }, { 1, 0, -EIO, false },
		{ 1, ENOSPC, -ENOSPC, true },  { 1, 0, -EIO, true },	    { 999, 0, 0, false },
		{ 999, 0, 0, true },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		FILE *file = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = take });

		cr_assert_not_null(file);
		setvbuf(file, NULL, row[i].whole ? _IOFBF : _IONBF, 4096);
		writes = 0;
		fail_from = row[i].from;
		fail_errno = row[i].error;
		errno = EDOM; /* of an earlier call: not that of the stream */
		hr_json_to_file(&j, HR_JSON_LINE, file);
		hr_json_string(&j, "a", "b");
		errno = EDOM;
		cr_expect_eq(hr_json_done(&j), row[i].want, "row %zu: %d", i, j.error);
		cr_expect_eq(hr_json_done(&j), row[i].want ? row[i].want : -EINVAL, "row %zu", i);
		if (row[i].want)
			cr_expect_eq(writes, row[i].from, "row %zu: nothing after the error", i);
		fail_from = 999;
		fclose(file);
	}
}

/* A document of every kind of value in a room of each size: a beginning of it, or all. */
static void values(size_t room)
{
	memset(text, '#', sizeof text);
	hr_json_to_text(&j, HR_JSON_INDENTED, text, room);
	hr_json_string(&j, "s\n", "\"\x7f\xc3\xa9\x80");
	hr_json_string(&j, "none", NULL);
	hr_json_i64(&j, "i", -10);
	hr_json_u64(&j, "u", 9999999999);
	hr_json_fixed(&j, "f", -0.5, 1);
	hr_json_fixed(&j, "many", 1e60, 5); /* 67 characters do not fit: in the short form */
	hr_json_real(&j, "r", 2);
	hr_json_real(&j, "e", 1e100);
	hr_json_real(&j, "h", 0.5);
	hr_json_array(&j, "l");
	hr_json_bool(&j, NULL, false);
	hr_json_close(&j);
}

Test(json_limits, a_room_of_each_size_has_a_beginning)
{
	static const char want[] =
		"{\n  \"s\\n\": \"\\\"\x7f\xc3\xa9\\ufffd\",\n  \"none\": null,\n  \"i\": -10,\n"
		"  \"u\": 9999999999,\n  \"f\": -0.5,\n  \"many\": 9.9999999999999995e+59,\n"
		"  \"r\": 2.0,\n  \"e\": 1e+100,\n  \"h\": 0.5,\n  \"l\": [\n    false\n  ]\n}\n";

	for (size_t room = 1; room <= sizeof want + 1; room++) {
		int err;

		values(room);
		err = hr_json_done(&j);
		cr_expect_eq(err, room < sizeof want ? -ENOBUFS : 0, "%zu: %d", room, err);
		cr_expect_eq(text[j.length], '\0');
		cr_expect_eq(strncmp(text, want, j.length), 0, "%zu: %s", room, text);
		cr_expect_eq(text[room], '#', "%zu", room);
		if (room >= sizeof want)
			cr_expect_str_eq(text, want, "%s", text);
	}
}

/* The longest number with decimals that is written as such has 63 characters. */
Test(json_limits, numbers_that_are_too_long_are_shortened)
{
	static const struct {
		double value;
		int digits;
		size_t length;
	} row[] = { { 1e58, 4, 63 }, { 1e59, 4, 22 }, { 1e62, 0, 63 }, { 1e63, 0, 22 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		hr_json_fixed(&j, "v", row[i].value, row[i].digits);
		cr_expect_eq(j.length, strlen("{\"v\": ") + row[i].length, "row %zu: %s", i, text);
		cr_expect_eq(strtod(text + 6, NULL), row[i].value, "row %zu: %s", i, text);
	}
}
