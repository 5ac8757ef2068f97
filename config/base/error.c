/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef hr_fail /* for the analyzer: these are the bodies */
#undef hr_fail_known
#undef hr_error_add

static const char cut[] = "...";

/*
 * Shortages of this moment, and the kinds that they are not: neither does the user have to correct a
 * command or configuration, nor the machine lack something, and a later attempt can succeed.
 */
static const struct {
	int err;
	bool not_missing; /* also no missing requirement; no memory may be one */
} shortage[] = {
	{ EAGAIN, true }, { EMFILE, true }, { ENFILE, true }, { ENOBUFS, true }, { ENOMEM, false },
};

bool hr_error_is_shortage(int code)
{
	for (size_t i = 0; i < sizeof shortage / sizeof *shortage; i++)
		if (code == -shortage[i].err)
			return true;
	return false;
}

static enum hr_error_kind kind_of(enum hr_error_kind kind, int code)
{
	for (size_t i = 0; i < sizeof shortage / sizeof *shortage; i++)
		if (code == -shortage[i].err &&
		    (kind == HR_ERROR_USAGE ||
		     (kind == HR_ERROR_MISSING && shortage[i].not_missing)))
			return HR_ERROR_FAILED;
	return kind;
}

/* Texts quote files and devices: nothing of them may steer a terminal. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static void mark_cut(struct hr_error *e)
{
	memcpy(e->text + sizeof e->text - sizeof cut, cut, sizeof cut);
}

/* False: the text is cut off. */
static bool print_error_text(char *at, size_t bytes, const char *format, va_list args)
{
	const int length = vsnprintf(at, bytes, format, args);

	make_printable(at);
	return length >= 0 && (size_t)length < bytes;
}

static void set_error(struct hr_error *e, enum hr_error_kind kind, const char *format, va_list args)
{
	e->kind = kind;
	if (!print_error_text(e->text, sizeof e->text, format, args))
		mark_cut(e);
}

int hr_fail(struct hr_error *e, enum hr_error_kind kind, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (e && !e->kind)
		set_error(e, kind_of(kind, code), format, args);
	va_end(args);
	return code;
}

int hr_fail_known(struct hr_error *e, enum hr_error_kind kind, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (e && !e->kind) {
		set_error(e, kind_of(kind, code), format, args);
		e->printed = true;
	}
	va_end(args);
	return code;
}

static void append_error(struct hr_error *e, const char *format, va_list args)
{
	const size_t used = strlen(e->text);
	char *end = e->text + used;

	if (!e->left_out && used + 2 < sizeof e->text &&
	    print_error_text(end + 1, sizeof e->text - used - 1, format, args)) {
		*end = '\n';
		return;
	}
	*end = '\0';
	e->left_out++;
}

int hr_error_add(struct hr_error *e, enum hr_error_kind kind, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (e && e->kind)
		append_error(e, format, args);
	else if (e)
		set_error(e, kind_of(kind, code), format, args);
	va_end(args);
	return code;
}

void hr_error_context(struct hr_error *e, const char *format, ...)
{
	char context[1024];
	size_t length, used, room;
	va_list args;

	if (!e || !e->kind)
		return;
	va_start(args, format);
	print_error_text(context, sizeof context - 2, format, args);
	va_end(args);
	length = strlen(context);
	memcpy(context + length, ": ", sizeof ": ");
	length += 2;
	used = strlen(e->text) + 1;
	room = sizeof e->text - length;
	memmove(e->text + length, e->text, used < room ? used : room);
	memcpy(e->text, context, length);
	if (used > room)
		mark_cut(e);
}

void hr_error_append(struct hr_error *e, const char *format, ...)
{
	va_list args;
	size_t used;

	if (!e || !e->kind)
		return;
	used = strlen(e->text);
	va_start(args, format);
	if (!print_error_text(e->text + used, sizeof e->text - used, format, args))
		mark_cut(e);
	va_end(args);
}

void hr_error_clear(struct hr_error *e)
{
	if (e) {
		e->kind = HR_ERROR_NONE;
		e->printed = false;
		e->left_out = 0;
		e->text[0] = '\0';
	}
}

void hr_error_log(struct hr_error *e, enum hr_log_level level)
{
	if (!e || !e->kind || e->printed)
		return;
	e->printed = true;
	for (const char *line = e->text; line;) {
		const char *end = strchr(line, '\n');

		hr_log(level, "%.*s", end ? (int)(end - line) : (int)strlen(line), line);
		line = end ? end + 1 : NULL;
	}
	if (e->left_out)
		hr_log(level, "and %u more", e->left_out);
}

int hr_error_report(struct hr_error *e, int code)
{
	if (code == 0)
		return HR_ERROR_NONE;
	if (e && e->kind) {
		hr_error_log(e, HR_LOG_ERROR);
		return (int)e->kind;
	}
	if (code > 0)
		hr_error("NVMe status %03x", (unsigned)code);
	else if (code != -EINTR)
		hr_error("%s", strerror(-code));
	return HR_ERROR_FAILED;
}
