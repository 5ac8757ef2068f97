/*
 * The result of a user operator: it names values, and they become lines or members of an object.
 */
#include <json-c/json.h>
#include <math.h>
#include <string.h>

#include "gpu/ops/user.h"

#define PER_LINE 8u /* numbers of an array */

/* What an operator is given to report to: the interface, and where it leads. */
struct printer {
	struct hr_op_report report;
	FILE *out;
	bool more; /* a line was written before */
};

struct jsoner {
	struct hr_op_report report;
	struct json_object *object;
};

static FILE *line(const struct hr_op_report *to, const char *name)
{
	/* The report is the first member; the interface lets no operator write to it. */
	struct printer *p = (struct printer *)(uintptr_t)to;

	fprintf(p->out, "%s%s", p->more ? "\n" : "", name);
	p->more = true;
	return p->out;
}

static void print_u64(const struct hr_op_report *to, const char *name, uint64_t value)
{
	fprintf(line(to, name), " %llu", (unsigned long long)value);
}

static void print_i64(const struct hr_op_report *to, const char *name, int64_t value)
{
	fprintf(line(to, name), " %lld", (long long)value);
}

static void print_real(const struct hr_op_report *to, const char *name, double value)
{
	fprintf(line(to, name), " %.9g", value);
}

/* Neither the terminal nor the layout is the operator's to change. */
static void print_text(const struct hr_op_report *to, const char *name, const char *value)
{
	FILE *out = line(to, name);

	fputc(' ', out);
	for (; *value; value++)
		fputc((uint8_t)*value < ' ' || *value == 0x7f ? '?' : *value, out);
}

static void print_u64s(const struct hr_op_report *to, const char *name, const uint64_t *value,
		       uint32_t count)
{
	FILE *out = line(to, name);

	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s%llu", i && i % PER_LINE == 0 ? "\n  " : " ",
			(unsigned long long)value[i]);
}

static void print_reals(const struct hr_op_report *to, const char *name, const double *value,
			uint32_t count)
{
	FILE *out = line(to, name);

	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s%.9g", i && i % PER_LINE == 0 ? "\n  " : " ", value[i]);
}

static void put(const struct hr_op_report *to, const char *name, struct json_object *value)
{
	json_object_object_add(((const struct jsoner *)(const void *)to)->object, name, value);
}

/* JSON has neither infinities nor NaN: they are strings there. */
static struct json_object *number(double value)
{
	if (isnan(value))
		return json_object_new_string("nan");
	if (isinf(value))
		return json_object_new_string(value > 0 ? "inf" : "-inf");
	return json_object_new_double(value);
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

void hr_op_user_print(const struct hr_op_user *user, const struct hr_op_all *all, FILE *out)
{
	struct printer p = { .report = { print_u64, print_i64, print_real, print_text, print_u64s,
					 print_reals },
			     .out = out };

	if (user->report)
		user->report(all, &p.report);
}

void hr_op_user_json(const struct hr_op_user *user, const struct hr_op_all *all, void *json_object)
{
	struct jsoner j = { .report = { json_u64, json_i64, json_real, json_text, json_u64s,
					json_reals },
			    .object = json_object };

	if (user->report)
		user->report(all, &j.report);
}
