/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the JSON writer: bytes and numbers of RFC 8259, nesting, and sinks that fail. */
#include "config/base/json.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <float.h>
#include <json-c/json.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(json, .timeout = 60);

/*
 * True: vsnprintf() below, which replaces that of libc in the whole program, writes a decimal mark of
 * two bytes, as some locales do.
 */
static bool foreign;

int vsnprintf(char *text, size_t bytes, const char *format, va_list list)
{
	static int (*real)(char *, size_t, const char *, va_list);
	char *point;
	int n;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "vsnprintf");
	n = real(text, bytes, format, list);
	point = foreign && n > 0 && (size_t)n + 2 < bytes ? strchr(text, '.') : NULL;
	if (!point)
		return n;
	memmove(point + 2, point + 1, strlen(point + 1) + 1);
	memcpy(point, "\xd9\xab", 2);
	return n + 1;
}

static char text[4096];
static struct hr_json j;

static void begin(void)
{
	hr_json_to_text(&j, HR_JSON_LINE, text, sizeof text);
}

static void expect(const char *want)
{
	cr_expect_eq(hr_json_done(&j), 0);
	cr_expect_str_eq(text, want, "%s", text);
	cr_expect_eq(j.length, strlen(want));
}

Test(json, a_document_in_both_forms)
{
	static const char line[] = "{\"list\": [{\"x\": 1}, [], {}], \"yes\": true, "
				   "\"none\": null, \"inner\": {\"y\": -2}}\n";
	static const char lines[] = "{\n  \"list\": [\n    {\n      \"x\": 1\n    },\n    [],\n"
				    "    {}\n  ],\n  \"yes\": true,\n  \"none\": null,\n"
				    "  \"inner\": {\n    \"y\": -2\n  }\n}\n";

	for (int form = 0; form < 2; form++) {
		hr_json_to_text(&j, form ? HR_JSON_LINE : HR_JSON_INDENTED, text, sizeof text);
		hr_json_array(&j, "list");
		hr_json_object(&j, NULL);
		hr_json_u64(&j, "x", 1);
		hr_json_close(&j);
		hr_json_array(&j, NULL);
		hr_json_close(&j);
		hr_json_object(&j, NULL);
		hr_json_close(&j);
		hr_json_close(&j);
		hr_json_bool(&j, "yes", true);
		hr_json_null(&j, "none");
		hr_json_object(&j, "inner");
		hr_json_i64(&j, "y", -2);
		hr_json_close(&j);
		expect(form ? line : lines);
	}
	begin();
	expect("{}\n");
}

/* Compares strings with those that an independent parser reads back. */
Test(json, every_byte_is_read_back_or_replaced)
{
	for (int byte = 1; byte < 256; byte++) {
		const char value[] = { 'a', (char)byte, 'b', 0 }, *read;
		struct json_object *document;
		char want[8];

		begin();
		hr_json_string(&j, value, value);
		cr_assert_eq(hr_json_done(&j), 0);
		document = json_tokener_parse(text);
		cr_assert_not_null(document, "byte %d: %s", byte, text);
		snprintf(want, sizeof want, byte < 0x80 ? "%s" : "a\xef\xbf\xbd%s",
			 byte < 0x80 ? value : "b");
		read = json_object_get_string(json_object_object_get(document, want));
		cr_expect_str_eq(read, want, "byte %d: %s", byte, text);
		json_object_put(document);
	}
}

Test(json, utf8_stays_and_each_other_byte_is_replaced)
{
#define FFFD "\\ufffd"
	static const struct {
		const char *value, *want;
	} row[] = {
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
		{ "\xc2\x80\xdf\xbf", "\xc2\x80\xdf\xbf" },
		{ "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
		  "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf" },
		{ "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
		{ "\xe9t\xe9", FFFD "t" FFFD }, /* Latin-1 */
		{ "\x80\xbf", FFFD FFFD },	/* continuation bytes without a first byte */
		{ "\xc0\x80\xc1\xbf", FFFD FFFD FFFD FFFD }, /* overlong */
		{ "\xe0\x9f\xbf", FFFD FFFD FFFD },	     /* overlong, three bytes */
		{ "\xf0\x8f\xbf\xbf", FFFD FFFD FFFD FFFD }, /* overlong, four bytes */
		{ "\xed\xa0\x80", FFFD FFFD FFFD },	     /* a surrogate */
		{ "\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD }, /* above U+10FFFF */
		{ "\xf5\x80\x80\x80", FFFD FFFD FFFD FFFD }, /* a byte that UTF-8 never has */
		{ "\xe2\x82", FFFD FFFD },		     /* cut at the end of the text */
		{ "\xf0\x9f\x98x", FFFD FFFD FFFD "x" },     /* cut by an ASCII character */
		{ "\xe2\x82\"\xac", FFFD FFFD "\\\"" FFFD }, /* cut by a quote */
		{ "\x01\x1f\x7f\"\\/\b\f\n\r\t",
		  "\\u0001\\u001f\x7f\\\"\\\\/\\b\\f\\n\\r\\t" }, /* short escapes */
	};
	char want[256];

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		hr_json_string(&j, "v", row[i].value);
		snprintf(want, sizeof want, "{\"v\": \"%s\"}\n", row[i].want);
		expect(want);
	}
	begin();
	hr_json_string(&j, "v", NULL);
	expect("{\"v\": null}\n");
}

Test(json, whole_numbers_are_whole)
{
	begin();
	hr_json_array(&j, "v");
	hr_json_u64(&j, NULL, 0);
	hr_json_u64(&j, NULL, UINT64_MAX);
	hr_json_i64(&j, NULL, 0);
	hr_json_i64(&j, NULL, INT64_MAX);
	hr_json_i64(&j, NULL, INT64_MIN);
	hr_json_close(&j);
	expect("{\"v\": [0, 18446744073709551615, 0, 9223372036854775807, "
	       "-9223372036854775808]}\n");
}

Test(json, decimals_have_a_point_whatever_the_locale)
{
	for (int other = 0; other < 2; other++) {
		foreign = other;
		begin();
		hr_json_array(&j, "v");
		hr_json_fixed(&j, NULL, 3.14159, 2);
		hr_json_fixed(&j, NULL, -0.0004, 3);
		hr_json_fixed(&j, NULL, 1234567.5, 0);
		hr_json_fixed(&j, NULL, 1e300, 3);
		hr_json_real(&j, NULL, 0.1);
		hr_json_real(&j, NULL, 6);
		hr_json_real(&j, NULL, -1e-300);
		hr_json_real(&j, NULL, 1e22);
		hr_json_fixed(&j, NULL, NAN, 3);
		hr_json_fixed(&j, NULL, -INFINITY, 3);
		hr_json_real(&j, NULL, INFINITY);
		hr_json_close(&j);
		foreign = false;
		expect("{\"v\": [3.14, -0.000, 1234568, 1.0000000000000001e+300, "
		       "0.10000000000000001, 6.0, -1e-300, 1e+22, null, null, null]}\n");
	}
}

Test(json, real_numbers_are_read_back_exactly)
{
	static const double row[] = { 0.1, 1.0 / 3, DBL_MAX, DBL_MIN, 5e-324, -2.5e17, 123456789 };

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		hr_json_real(&j, "v", row[i]);
		cr_assert_eq(hr_json_done(&j), 0);
		cr_expect_eq(strtod(text + strlen("{\"v\": "), NULL), row[i], "%s", text);
	}
}

/* Mistakes of a caller: no write outside the buffer, and the error is returned. */
enum wrong { UNCLOSED, CLOSED_TWICE, NO_KEY, KEY_IN_ARRAY, TOO_DEEP, DONE_TWICE, WRONGS };

static void do_wrong(enum wrong what)
{
	if (what == UNCLOSED)
		hr_json_object(&j, "o");
	if (what == CLOSED_TWICE)
		hr_json_close(&j);
	if (what == NO_KEY)
		hr_json_u64(&j, NULL, 1);
	if (what == KEY_IN_ARRAY) {
		hr_json_array(&j, "a");
		hr_json_u64(&j, "key", 1);
		hr_json_close(&j);
	}
	for (unsigned i = 0; what == TOO_DEEP && i < HR_JSON_DEPTH; i++)
		hr_json_object(&j, "o");
	for (unsigned i = 0; what == TOO_DEEP && i < HR_JSON_DEPTH; i++)
		hr_json_close(&j);
	if (what == DONE_TWICE)
		hr_json_done(&j);
}

Test(json, wrong_nesting_is_an_error_that_stays)
{
	for (enum wrong what = 0; what < WRONGS; what++) {
		begin();
		do_wrong(what);
		hr_json_u64(&j, "after", 1);
		cr_expect_eq(hr_json_done(&j), -EINVAL, "row %d", what);
		cr_expect_eq(hr_json_done(&j), -EINVAL, "row %d", what);
	}
	begin();
	for (unsigned i = 1; i < HR_JSON_DEPTH; i++)
		hr_json_object(&j, "o");
	for (unsigned i = 1; i < HR_JSON_DEPTH; i++)
		hr_json_close(&j);
	cr_expect_eq(hr_json_done(&j), 0, "as deep as it may be");
}

/* Buffers of every length, each with guard bytes behind it. */
Test(json, short_text_is_never_overrun)
{
	static const char want[] = "{\"text\": \"a\\u0001\\ufffd\", \"n\": [12345]}\n";

	for (size_t room = 1; room <= sizeof want; room++) {
		memset(text, '#', sizeof text);
		hr_json_to_text(&j, HR_JSON_LINE, text, room);
		hr_json_string(&j, "text", "a\x01\xff");
		hr_json_array(&j, "n");
		hr_json_u64(&j, NULL, 12345);
		hr_json_close(&j);
		cr_expect_eq(hr_json_done(&j), room < sizeof want ? -ENOBUFS : 0, "%zu", room);
		cr_expect_not_null(memchr(text, '\0', room), "%zu", room);
		cr_expect_eq(text[room], '#');
		cr_expect_eq(strncmp(text, want, strlen(text)), 0, "a beginning of it: %s", text);
	}
	cr_expect_str_eq(text, want);
}

Test(json, a_full_file_is_an_error_that_stays)
{
	static const struct {
		size_t buffer;
		int items;
	} row[] = { { 4096, 1 }, { 64, 1000 }, { 1 << 20, 1 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		char *const buffer = malloc(row[i].buffer);
		FILE *full = fopen("/dev/full", "w");

		cr_assert(full && buffer);
		setvbuf(full, buffer, _IOFBF, row[i].buffer);
		hr_json_to_file(&j, HR_JSON_INDENTED, full);
		hr_json_array(&j, "items");
		for (int k = 0; k < row[i].items; k++)
			hr_json_string(&j, NULL, "an item");
		cr_expect_eq(j.error != 0, row[i].items > 1, "row %zu: it is seen early", i);
		hr_json_close(&j);
		cr_expect_eq(hr_json_done(&j), -ENOSPC, "row %zu", i);
		fclose(full);
		free(buffer);
	}
}

Test(json, a_file_at_its_limit_has_the_errors_name)
{
	const struct rlimit small = { 100, 100 };
	FILE *file = tmpfile();

	cr_assert_not_null(file);
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	hr_json_to_file(&j, HR_JSON_LINE, file);
	for (int i = 0; i < 20; i++)
		hr_json_string(&j, "key", "value");
	cr_expect_eq(hr_json_done(&j), -EFBIG);
	fclose(file);
}

/* An independent parser reads a million random bytes. */
Test(json, random_strings_are_always_valid)
{
	uint32_t random = 1;

	for (int round = 0; round < 2000; round++) {
		struct json_tokener *parser = json_tokener_new();
		struct json_object *document;
		char value[256];
		size_t n = 0;

		while (n < 200 + (size_t)(round % 50)) {
			random = random * 1664525u + 1013904223u;
			value[n++] = (char)(random >> 24 ? random >> 24 : 'x');
		}
		value[n] = '\0';
		hr_json_to_text(&j, round % 2 ? HR_JSON_LINE : HR_JSON_INDENTED, text, sizeof text);
		hr_json_string(&j, value, value);
		cr_assert_eq(hr_json_done(&j), 0);
		json_tokener_set_flags(parser, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
		document = json_tokener_parse_ex(parser, text, (int)j.length - 1);
		cr_assert_not_null(document, "%s", text);
		json_object_put(document);
		json_tokener_free(parser);
	}
}
