/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/report/result.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define PER_LINE 8u /* numbers of an array */

/* Each kind of report begins with the interface, by which the functions find it again. */
struct printer {
	struct hr_op_report report;
	FILE *out;
	const char *before; /* separator in front of the next value */
	bool lines;	    /* the operator has lines of its own */
	bool items;	    /* values are parts of an item of a list: they share a line */
};

struct jsoner {
	struct hr_op_report report;
	struct hr_json *out;	 /* NULL: values are only counted */
	uint32_t named, unnamed; /* values */
	bool bare;		 /* an item that is one value without a name */
	bool single;		 /* arrays and lists are left out */
};

/* The interface lets no operator write to it. */
static struct printer *printer_of(const struct hr_op_report *to)
{
	return (struct printer *)(uintptr_t)to;
}

/* Write the name, and return the stream for its value; NULL: the text has no such value. */
static FILE *begin_value_text(const struct hr_op_report *to, const char *name)
{
	struct printer *p = printer_of(to);

	if (p->lines)
		return NULL;
	fprintf(p->out, "%s%s%s", p->before, p->items && name ? " " : "", name ? name : "");
	p->before = p->items ? "" : "\n";
	return p->out;
}

static void print_u64s(const struct hr_op_report *to, const char *name, const uint64_t *value,
		       uint32_t count)
{
	FILE *out = begin_value_text(to, name);

	for (uint32_t i = 0; out && i < count; i++)
		fprintf(out, "%s%llu", i && i % PER_LINE == 0 ? "\n  " : " ",
			(unsigned long long)value[i]);
}

static void print_u64(const struct hr_op_report *to, const char *name, uint64_t value)
{
	print_u64s(to, name, &value, 1);
}

static void print_i64(const struct hr_op_report *to, const char *name, int64_t value)
{
	FILE *out = begin_value_text(to, name);

	if (out)
		fprintf(out, " %lld", (long long)value);
}

/* All digits that are needed to read the same number again; a number of single precision is read as
 * such. */
static void put_digits(FILE *out, double value)
{
	char text[32];
	int digits = (double)(float)value == value ? 6 : 9;

	do
		snprintf(text, sizeof text, "%.*g", digits, value);
	while (digits++ < 17 && ((double)(float)value == value ? strtof(text, NULL) != (float)value
							       : strtod(text, NULL) != value));
	fputs(text, out);
}

static void print_reals(const struct hr_op_report *to, const char *name, const double *value,
			uint32_t count)
{
	FILE *out = begin_value_text(to, name);

	for (uint32_t i = 0; out && i < count; i++) {
		fputs(i && i % PER_LINE == 0 ? "\n  " : " ", out);
		put_digits(out, value[i]);
	}
}

static void print_real(const struct hr_op_report *to, const char *name, double value)
{
	print_reals(to, name, &value, 1);
}

/* The text of an operator must not change the terminal or the layout. */
static void put_plain(const char *text, FILE *out)
{
	for (; *text; text++)
		fputc((uint8_t)*text < ' ' || *text == 0x7f ? '?' : *text, out);
}

static void print_text(const struct hr_op_report *to, const char *name, const char *value)
{
	FILE *out = begin_value_text(to, name);

	if (!out)
		return;
	fputc(' ', out);
	put_plain(value, out);
}

static void print_list(const struct hr_op_report *to, const char *name, const struct hr_op_all *all,
		       uint64_t count,
		       void (*item)(const struct hr_op_all *all, uint64_t i,
				    const struct hr_op_report *item_to))
{
	FILE *out = begin_value_text(to, name);
	struct printer p = *printer_of(to);

	p.items = true;
	for (uint64_t i = 0; out && i < count; i++) {
		p.before = "\n ";
		item(all, i, &p.report);
	}
}

static void print_line(const struct hr_op_report *to, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void print_line(const struct hr_op_report *to, const char *format, ...)
{
	struct printer *p = printer_of(to);
	char *text = NULL;
	va_list list;

	va_start(list, format);
	if (vasprintf(&text, format, list) < 0)
		text = NULL;
	va_end(list);
	p->lines = false;
	begin_value_text(to, NULL);
	p->lines = true;
	put_plain(text ? text : "out of memory", p->out);
	free(text);
}

void hr_result_print(const struct hr_operator *op, const struct hr_op_all *all, FILE *out)
{
	struct printer p = { .report = { print_u64, print_i64, print_real, print_text, print_u64s,
					 print_reals, print_list, print_line },
			     .out = out,
			     .before = "" };

	if (op->report)
		op->report(all, &p.report);
}

/* ---- JSON */

static struct jsoner *jsoner_of(const struct hr_op_report *to)
{
	return (struct jsoner *)(uintptr_t)to;
}

/* Whether that value is to be written, and with which key. */
static bool wanted(struct jsoner *j, const char *name, const char **key)
{
	*key = name ? name : j->bare ? NULL : "value";
	if (!j->out)
		*(name ? &j->named : &j->unnamed) += 1;
	return j->out != NULL;
}

/* JSON has neither infinities nor NaN: they are strings there. */
static void put_real(struct hr_json *out, const char *key, double value)
{
	if (isfinite(value))
		hr_json_real(out, key, value);
	else
		hr_json_string(out, key, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

#define JSON_VALUE(function, type, put_value)                                             \
	static void function(const struct hr_op_report *to, const char *name, type value) \
	{                                                                                 \
		struct jsoner *j = jsoner_of(to);                                         \
                                                                                          \
		if (wanted(j, name, &name))                                               \
			put_value(j->out, name, value);                                   \
	}

JSON_VALUE(json_u64, uint64_t, hr_json_u64)
JSON_VALUE(json_i64, int64_t, hr_json_i64)
JSON_VALUE(json_real, double, put_real)
JSON_VALUE(json_text, const char *, hr_json_string)

#define JSON_VALUES(function, type, put_value)                                                   \
	static void function(const struct hr_op_report *to, const char *name, const type *value, \
			     uint32_t count)                                                     \
	{                                                                                        \
		struct jsoner *j = jsoner_of(to);                                                \
                                                                                                 \
		if (j->single || !wanted(j, name, &name))                                        \
			return;                                                                  \
		hr_json_array(j->out, name);                                                     \
		for (uint32_t i = 0; i < count; i++)                                             \
			put_value(j->out, NULL, value[i]);                                       \
		hr_json_close(j->out);                                                           \
	}

JSON_VALUES(json_u64s, uint64_t, hr_json_u64)
JSON_VALUES(json_reals, double, put_real)

typedef void item_of(const struct hr_op_all *all, uint64_t i, const struct hr_op_report *item_to);

/* Call item() twice: an item is an object only when it has a value with a name. */
static void json_item(struct hr_json *out, const struct hr_op_report *report,
		      const struct hr_op_all *all, uint64_t i, item_of *item)
{
	struct jsoner j = { .report = *report };

	item(all, i, &j.report);
	j.out = out;
	j.bare = j.named == 0;
	if (!j.bare)
		hr_json_object(out, NULL);
	else if (!j.unnamed)
		hr_json_null(out, NULL);
	item(all, i, &j.report);
	if (!j.bare)
		hr_json_close(out);
}

static void json_list(const struct hr_op_report *to, const char *name, const struct hr_op_all *all,
		      uint64_t count, item_of *item)
{
	struct jsoner *j = jsoner_of(to);

	if (j->single || !wanted(j, name, &name))
		return;
	hr_json_array(j->out, name);
	for (uint64_t i = 0; i < count && !j->out->error; i++)
		json_item(j->out, to, all, i, item);
	hr_json_close(j->out);
}

static void json_line(const struct hr_op_report *to, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* For people only. */
static void json_line(const struct hr_op_report *to, const char *format, ...)
{
}

void hr_result_json(const struct hr_operator *op, const struct hr_op_all *all, bool lists,
		    struct hr_json *object)
{
	struct jsoner j = { .report = { json_u64, json_i64, json_real, json_text, json_u64s,
					json_reals, json_list, json_line },
			    .out = object,
			    .single = !lists };

	if (op->report)
		op->report(all, &j.report);
}
