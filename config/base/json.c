/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "config/base/text.h"

static void fail_json(struct hr_json *j, int error)
{
	if (!j->error)
		j->error = error;
}

static void append_json(struct hr_json *j, const char *bytes, size_t n)
{
	if (j->error)
		return;
	if (j->out) {
		errno = 0;
		if (fwrite(bytes, 1, n, j->out) != n)
			fail_json(j, errno ? -errno : -EIO);
		return;
	}
	if (n >= j->room - j->length) {
		fail_json(j, -ENOBUFS);
		return;
	}
	memcpy(j->text + j->length, bytes, n);
	j->length += n;
	j->text[j->length] = '\0';
}

static void put_words(struct hr_json *j, const char *words)
{
	append_json(j, words, strlen(words));
}

/* ---- strings */

static void put_escaped(struct hr_json *j, unsigned char byte)
{
	static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: byte, letter */
	char text[] = "\\u0000";

	for (size_t i = 0; i < sizeof named - 1; i += 2)
		if ((unsigned char)named[i] == byte) {
			text[1] = named[i + 1];
			append_json(j, text, 2);
			return;
		}
	text[4] = "0123456789abcdef"[byte >> 4];
	text[5] = "0123456789abcdef"[byte & 15];
	put_words(j, byte < ' ' ? text : "\\ufffd");
}

static void put_string(struct hr_json *j, const char *value)
{
	const unsigned char *at = (const unsigned char *)value;

	append_json(j, "\"", 1);
	while (*at && !j->error) {
		const unsigned char *from = at;
		size_t n = 0;

		while (*at >= ' ' && *at != '"' && *at != '\\' && (n = hr_utf8_bytes(at)) > 0)
			at += n;
		append_json(j, (const char *)from, (size_t)(at - from));
		if (*at)
			put_escaped(j, *at++);
	}
	append_json(j, "\"", 1);
}

/* ---- nesting */

static uint32_t level(const struct hr_json *j)
{
	return 1u << (j->depth - 1);
}

static void indent(struct hr_json *j)
{
	static const char blanks[] = "                                ";

	_Static_assert(sizeof blanks > 2 * HR_JSON_DEPTH, "blanks for the deepest level");
	append_json(j, "\n", 1);
	append_json(j, blanks, (size_t)2 * j->depth);
}

/* Write the comma, the indent and the key before a value. */
static void begin_value(struct hr_json *j, const char *key)
{
	const bool lines = j->form == HR_JSON_INDENTED;

	if (j->depth == 0 || !key != ((j->arrays & level(j)) != 0)) {
		fail_json(j, -EINVAL);
		return;
	}
	if (j->filled & level(j))
		put_words(j, lines ? "," : ", ");
	j->filled |= level(j);
	if (lines)
		indent(j);
	if (!key)
		return;
	put_string(j, key);
	append_json(j, ": ", 2);
}

static void open(struct hr_json *j, bool array)
{
	if (j->depth == HR_JSON_DEPTH) {
		fail_json(j, -EINVAL);
		return;
	}
	append_json(j, array ? "[" : "{", 1);
	j->depth++;
	j->filled &= ~level(j);
	j->arrays = array ? j->arrays | level(j) : j->arrays & ~level(j);
}

void hr_json_object(struct hr_json *j, const char *key)
{
	begin_value(j, key);
	open(j, false);
}

void hr_json_array(struct hr_json *j, const char *key)
{
	begin_value(j, key);
	open(j, true);
}

static void shut(struct hr_json *j)
{
	const bool array = (j->arrays & level(j)) != 0, filled = (j->filled & level(j)) != 0;

	j->depth--;
	if (filled && j->form == HR_JSON_INDENTED)
		indent(j);
	append_json(j, array ? "]" : "}", 1);
}

void hr_json_close(struct hr_json *j)
{
	if (j->depth > 1)
		shut(j);
	else
		fail_json(j, -EINVAL);
}

void hr_json_to_file(struct hr_json *j, enum hr_json_form form, FILE *out)
{
	*j = (struct hr_json){ .out = out, .form = form };
	open(j, false);
}

void hr_json_to_text(struct hr_json *j, enum hr_json_form form, char *text, size_t bytes)
{
	*j = (struct hr_json){ .text = text, .room = bytes, .form = form };
	text[0] = '\0';
	open(j, false);
}

int hr_json_done(struct hr_json *j)
{
	if (j->depth != 1)
		fail_json(j, -EINVAL);
	if (j->error == 0)
		shut(j);
	append_json(j, "\n", 1);
	errno = 0;
	if (j->out && !j->error && fflush(j->out) != 0)
		fail_json(j, errno ? -errno : -EIO);
	return j->error;
}

/* ---- values */

void hr_json_string(struct hr_json *j, const char *key, const char *value)
{
	begin_value(j, key);
	if (value)
		put_string(j, value);
	else
		put_words(j, "null");
}

static void put_u64(struct hr_json *j, uint64_t value)
{
	char text[20], *at = text + sizeof text;

	do
		*--at = (char)('0' + value % 10);
	while ((value /= 10) != 0);
	append_json(j, at, (size_t)(text + sizeof text - at));
}

void hr_json_u64(struct hr_json *j, const char *key, uint64_t value)
{
	begin_value(j, key);
	put_u64(j, value);
}

void hr_json_i64(struct hr_json *j, const char *key, int64_t value)
{
	begin_value(j, key);
	if (value < 0)
		append_json(j, "-", 1);
	put_u64(j, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* As printf(), but with a decimal point in every locale. Returns the length; 0: it does not fit. */
static size_t format_number(char *text, size_t bytes, const char *form, ...)
	__attribute__((format(printf, 3, 4)));

static size_t format_number(char *text, size_t bytes, const char *form, ...)
{
	va_list list;
	int n;

	va_start(list, form);
	n = vsnprintf(text, bytes, form, list);
	va_end(list);
	if (n < 0 || (size_t)n >= bytes)
		return 0;
	for (char *at = text; (at += strspn(at, "+-0123456789e")) < text + n;)
		if (*at != '.') {
			const size_t point = strcspn(
				at, "0123456789"); /* a decimal mark may have several bytes */

			memmove(at + 1, at + point, strlen(at + point) + 1);
			*at = '.';
			n -= (int)point - 1;
		} else {
			at++;
		}
	return (size_t)n;
}

void hr_json_fixed(struct hr_json *j, const char *key, double value, int digits)
{
	char text[64];
	size_t n;

	if (!isfinite(value)) {
		hr_json_null(j, key);
		return;
	}
	n = format_number(text, sizeof text, "%.*f", digits, value);
	if (n == 0)
		n = format_number(text, sizeof text, "%.17g", value);
	begin_value(j, key);
	append_json(j, text, n);
}

void hr_json_real(struct hr_json *j, const char *key, double value)
{
	char text[64];
	size_t n;

	if (!isfinite(value)) {
		hr_json_null(j, key);
		return;
	}
	n = format_number(text, sizeof text, "%.17g", value);
	begin_value(j, key);
	append_json(j, text, n);
	if (!memchr(text, '.', n) && !memchr(text, 'e', n))
		append_json(j, ".0", 2); /* it stays a real number where it is read */
}

void hr_json_raw(struct hr_json *j, const char *key, const char *text)
{
	begin_value(j, key);
	put_words(j, text);
}

void hr_json_bool(struct hr_json *j, const char *key, bool value)
{
	begin_value(j, key);
	put_words(j, value ? "true" : "false");
}

void hr_json_null(struct hr_json *j, const char *key)
{
	begin_value(j, key);
	put_words(j, "null");
}

void hr_json_schema(struct hr_json *j, const char *name, uint32_t version)
{
	hr_json_string(j, "schema", name);
	hr_json_u64(j, "version", version);
}

/* ---- checking JSON text */

/* Each function returns the text behind what it has read; NULL: it is not there, or not valid. */
static const char *skip_json_value(const char *at, unsigned depth);

static const char *blanks(const char *at)
{
	return at + strspn(at, " ");
}

/* Behind the backslash. */
static const char *escape(const char *at)
{
	if (*at == 'u')
		return strspn(at + 1, "0123456789abcdefABCDEF") >= 4 ? at + 5 : NULL;
	return *at && strchr("\"\\/bfnrt", *at) ? at + 1 : NULL;
}

static const char *string(const char *at)
{
	if (*at++ != '"')
		return NULL;
	while (at && *at != '"') {
		const size_t n = hr_utf8_bytes((const unsigned char *)at);

		if (n == 0 || (unsigned char)*at < ' ')
			return NULL;
		at = *at == '\\' ? escape(at + 1) : at + n;
	}
	return at ? at + 1 : NULL;
}

static const char *skip_json_digits(const char *at)
{
	const size_t n = strspn(at, "0123456789");

	return n ? at + n : NULL;
}

static const char *skip_json_number(const char *at)
{
	at += *at == '-';
	if (*at == '0')
		at++;
	else
		at = skip_json_digits(at);
	if (at && *at == '.')
		at = skip_json_digits(at + 1);
	if (at && (*at == 'e' || *at == 'E')) {
		at++;
		at = skip_json_digits(at + (*at == '+' || *at == '-'));
	}
	return at;
}

static const char *word(const char *at)
{
	static const char *const words[] = { "true", "false", "null" };

	for (unsigned i = 0; i < 3; i++)
		if (strncmp(at, words[i], strlen(words[i])) == 0)
			return at + strlen(words[i]);
	return NULL;
}

static const char *skip_json_member(const char *at, bool named, unsigned depth)
{
	if (named) {
		at = string(at);
		at = at ? blanks(at) : NULL;
		at = at && *at == ':' ? blanks(at + 1) : NULL;
	}
	return at ? skip_json_value(at, depth) : NULL;
}

/* An object or an array, behind its first character. */
static const char *nest(const char *at, char end, unsigned depth)
{
	if (depth == 0)
		return NULL;
	at = blanks(at);
	if (*at == end)
		return at + 1;
	for (;;) {
		at = skip_json_member(blanks(at), end == '}', depth - 1);
		at = at ? blanks(at) : NULL;
		if (!at || *at != ',')
			break;
		at++;
	}
	return at && *at == end ? at + 1 : NULL;
}

static const char *skip_json_value(const char *at, unsigned depth)
{
	switch (*at) {
	case '{':
		return nest(at + 1, '}', depth);
	case '[':
		return nest(at + 1, ']', depth);
	case '"':
		return string(at);
	case 't':
	case 'f':
	case 'n':
		return word(at);
	default:
		return skip_json_number(at);
	}
}

bool hr_json_text_is_object(const char *text)
{
	const char *end = *text == '{' ? skip_json_value(text, HR_JSON_TEXT_DEPTH) : NULL;

	return end && *end == '\0';
}
