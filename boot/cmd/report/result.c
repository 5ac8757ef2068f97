#include "boot/cmd/report/result.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "boot/cmd/report/json.h"

#define PER_LINE 8u /* numbers of an array */

/* Each kind of report begins with the interface, by which the functions find it again. */
struct printer {
	struct hr_op_report report;
	FILE *out;
	const char *before; /* of a value: what parts it from the value before */
	bool lines;	    /* the operator has lines of its own */
	bool items;	    /* values are parts of an item of a list: they share a line */
};

struct jsoner {
	struct hr_op_report report;
	struct json_object *object; /* NULL: an item without a named value so far */
	struct json_object *value;  /* of an item without a name */
	bool item;
};

/* The interface lets no operator write to it. */
static struct printer *printer_of(const struct hr_op_report *to)
{
	return (struct printer *)(uintptr_t)to;
}

static struct jsoner *jsoner_of(const struct hr_op_report *to)
{
	return (struct jsoner *)(uintptr_t)to;
}

/* Where the value of that name goes, after its name; NULL: it is not for people. */
static FILE *begin(const struct hr_op_report *to, const char *name)
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
	FILE *out = begin(to, name);

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
	FILE *out = begin(to, name);

	if (out)
		fprintf(out, " %lld", (long long)value);
}

static void print_reals(const struct hr_op_report *to, const char *name, const double *value,
			uint32_t count)
{
	FILE *out = begin(to, name);

	for (uint32_t i = 0; out && i < count; i++)
		fprintf(out, "%s%.9g", i && i % PER_LINE == 0 ? "\n  " : " ", value[i]);
}

static void print_real(const struct hr_op_report *to, const char *name, double value)
{
	print_reals(to, name, &value, 1);
}

/* Neither the terminal nor the layout is the operator's to change. */
static void put_plain(const char *text, FILE *out)
{
	for (; *text; text++)
		fputc((uint8_t)*text < ' ' || *text == 0x7f ? '?' : *text, out);
}

static void print_text(const struct hr_op_report *to, const char *name, const char *value)
{
	FILE *out = begin(to, name);

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
	FILE *out = begin(to, name);
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
	begin(to, NULL);
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

static void put(const struct hr_op_report *to, const char *name, struct json_object *value)
{
	struct jsoner *j = jsoner_of(to);

	if (!name && j->item) {
		json_object_put(j->value);
		j->value = value;
		return;
	}
	if (!j->object)
		j->object = hr_json_new();
	json_object_object_add(j->object, name ? name : "value", value);
}

/* JSON has neither infinities nor NaN: they are strings there. */
static struct json_object *number(double value)
{
	if (isnan(value))
		return json_object_new_string("nan");
	if (isinf(value))
		return json_object_new_string(value > 0 ? "inf" : "-inf");
	return json_object_new_double(value); /* 17 digits: exact */
}

static void json_u64(const struct hr_op_report *to, const char *name, uint64_t value)
{
	put(to, name, json_object_new_uint64(value));
}

static void json_i64(const struct hr_op_report *to, const char *name, int64_t value)
{
	put(to, name, json_object_new_int64(value));
}

static void json_real(const struct hr_op_report *to, const char *name, double value)
{
	put(to, name, number(value));
}

static void json_text(const struct hr_op_report *to, const char *name, const char *value)
{
	put(to, name, json_object_new_string(value));
}

static void json_u64s(const struct hr_op_report *to, const char *name, const uint64_t *value,
		      uint32_t count)
{
	struct json_object *array = json_object_new_array();

	for (uint32_t i = 0; i < count; i++)
		json_object_array_add(array, json_object_new_uint64(value[i]));
	put(to, name, array);
}

static void json_reals(const struct hr_op_report *to, const char *name, const double *value,
		       uint32_t count)
{
	struct json_object *array = json_object_new_array();

	for (uint32_t i = 0; i < count; i++)
		json_object_array_add(array, number(value[i]));
	put(to, name, array);
}

static void json_list(const struct hr_op_report *to, const char *name, const struct hr_op_all *all,
		      uint64_t count,
		      void (*item)(const struct hr_op_all *all, uint64_t i,
				   const struct hr_op_report *item_to))
{
	struct json_object *array = json_object_new_array();

	for (uint64_t i = 0; i < count; i++) {
		struct jsoner j = { .report = *to, .item = true };

		item(all, i, &j.report);
		if (j.object && j.value)
			json_object_object_add(j.object, "value", j.value);
		json_object_array_add(array, j.object ? j.object : j.value);
	}
	put(to, name, array);
}

static void json_line(const struct hr_op_report *to, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* For people only. */
static void json_line(const struct hr_op_report *to, const char *format, ...)
{
}

void hr_result_json(const struct hr_operator *op, const struct hr_op_all *all,
		    struct json_object *object)
{
	struct jsoner j = { .report = { json_u64, json_i64, json_real, json_text, json_u64s,
					json_reals, json_list, json_line },
			    .object = object };

	if (op->report)
		op->report(all, &j.report);
}
