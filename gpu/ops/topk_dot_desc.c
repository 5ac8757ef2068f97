#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <json-c/json.h>

#include "gpu/ops/args.h"
#include "gpu/ops/desc.h"
#include "gpu/ops/topk_dot.h"

static void parse_query(struct hr_args *given, struct hr_topk_args *topk)
{
	const struct hr_op_arg *query = hr_args_need(given, "query");
	char name[32];

	if (!query)
		return;
	if (query->type != HR_ARG_FLOATS || query->count < 1 || query->count > HR_TOPK_DIMENSIONS) {
		hr_args_complain(given, query->line, "query: expected 1 to %u numbers",
				 HR_TOPK_DIMENSIONS);
		return;
	}
	topk->dimensions = query->count;
	for (uint32_t i = 0; i < query->count; i++) {
		snprintf(name, sizeof name, "query[%u]", i);
		topk->query[i] = hr_args_f32(given, query->line, name, query->reals[i]);
	}
}

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "query", "k" };
	struct hr_args given = { arg, count, complain, to, false };
	struct hr_topk_args *topk = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	topk->k = (uint32_t)hr_args_int(&given, "k", 1, HR_TOPK_MAX);
	parse_query(&given, topk);
	if (given.bad)
		return -EINVAL;
	return (int)(offsetof(struct hr_topk_args, query) + topk->dimensions * sizeof(float));
}

static uint32_t row_bytes(const void *args, uint32_t source)
{
	return ((const struct hr_topk_args *)args)->dimensions * (uint32_t)sizeof(float);
}

static uint32_t state_bytes(const void *args)
{
	return (uint32_t)(offsetof(struct hr_topk, best) +
			  ((const struct hr_topk_args *)args)->k * sizeof(struct hr_topk_row));
}

static void print(const struct hr_op_all *all, FILE *out)
{
	const struct hr_topk *top = all->result;

	fprintf(out, "%llu best rows", (unsigned long long)top->count);
	for (uint64_t i = 0; i < top->count; i++)
		fprintf(out, "\n%4llu. row %llu, score %.9g", (unsigned long long)i + 1,
			(unsigned long long)top->best[i].row, (double)top->best[i].score);
}

/* JSON has no infinity: there the score is a string. */
static struct json_object *score(float value)
{
	if (!isfinite(value))
		return json_object_new_string(value > 0 ? "inf" : "-inf");
	return json_object_new_double((double)value); /* 17 digits: exact */
}

static void json(const struct hr_op_all *all, void *json_object)
{
	const struct hr_topk *top = all->result;
	struct json_object *best = json_object_new_array();

	for (uint64_t i = 0; i < top->count; i++) {
		struct json_object *row = json_object_new_object();

		json_object_object_add(row, "row", json_object_new_uint64(top->best[i].row));
		json_object_object_add(row, "score", score(top->best[i].score));
		json_object_array_add(best, row);
	}
	json_object_object_add(json_object, "best", best);
}

const struct hr_op_desc hr_op_topk_dot_desc = {
	.name = "topk_dot",
	.help = "One source: a matrix of little-endian f32, row by row. Arguments: query (as many "
		"numbers\n  as a row has, at most 2048), k (1 to 128). Result: the k rows with the "
		"largest dot product with\n  the query, best first; of equal ones the lower row, "
		"NaN never.",
	.id = HR_OP_topk_dot,
	.sources_min = 1,
	.sources_max = 1,
	.output = HR_OUT_NONE,
	.out_den = 1,
	.reads_once = true,
	.parse = parse,
	.row_bytes = row_bytes,
	.state_bytes = state_bytes,
	.print = print,
	.json = json,
};
