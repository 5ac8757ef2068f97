/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known answers of the operators: worker code runs over a few rows in two tiles, the second one
 * short, and its results are compared with results computed by hand.
 */
#include "boot/cmd/post/step.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/result.h"
#include "config/file/file.h"
#include "config/base/json.h"
#include "gpu/ops/operators.h"

#define TILES 2u
#define OUT_BYTES 256u
#define COUNT(array) (uint32_t)(sizeof(array) / sizeof *(array))

struct known {
	const struct hr_op_arg *arg;
	uint32_t args, sources;
	uint32_t rows, tile_rows;
	const void *in[HR_SOURCES_MAX];
	const void *out; /* complete output of tile(), or NULL */
	uint32_t out_bytes;
	const char *result; /* part of the result as JSON, or NULL */
};

/* All memory that an operator uses, aligned as in a pipeline. */
struct rig {
	_Alignas(HR_PAGE) uint8_t in[HR_SOURCES_MAX][HR_PAGE];
	_Alignas(HR_PAGE) uint8_t out[HR_PAGE];
	_Alignas(64) uint8_t args[HR_OP_ARGS_MAX];
	_Alignas(64) uint8_t result[HR_OP_RESULT_MAX];
	uint8_t written[OUT_BYTES];
	uint32_t written_bytes;
};

static const char digits[] = "123456789";

/*
 * 1; -2.5; two ties, rounded to even down and up; the largest number, which rounds to infinity; 0.
 */
static const uint32_t f32[] = { 0x3f800000, 0xc0200000, 0x3f808000,
				0x3f818000, 0x7f7fffff, 0x00000000 };
static const uint16_t bf16[] = { 0x3f80, 0xc020, 0x3f80, 0x3f82, 0x7f80, 0x0000 };

/*
 * Rows 0 and 2 pass; row 1 is one day late, row 3 has too large a discount, row 4 too many pieces.
 */
static const int32_t shipdate[] = { 8766, 9131, 9130, 8800, 8800 };
static const int32_t discount[] = { 5, 6, 7, 8, 6 };
static const int32_t quantity[] = { 23, 1, 10, 1, 24 };
static const int64_t price[] = { 1000, 5000, 300, 700, 900 };
static const struct hr_op_arg filter[] = {
	{ .name = "shipdate_from", .type = HR_ARG_INT, .integer = 8766 },
	{ .name = "shipdate_before", .type = HR_ARG_INT, .integer = 9131 },
	{ .name = "discount_from", .type = HR_ARG_INT, .integer = 5 },
	{ .name = "discount_to", .type = HR_ARG_INT, .integer = 7 },
	{ .name = "quantity_below", .type = HR_ARG_INT, .integer = 24 },
};

/* Dot products with (1, 2): 1, 6, 3, -1. */
static const float matrix[][2] = { { 1, 0 }, { 0, 3 }, { 1, 1 }, { -1, 0 } };
static const double query[] = { 1, 2 };
static const struct hr_op_arg nearest[] = {
	{ .name = "k", .type = HR_ARG_INT, .integer = 2 },
	{ .name = "query", .type = HR_ARG_FLOATS, .reals = query, .count = 2 },
};

static const struct known known[HR_OP_COUNT] = {
	[HR_OP_copy] = { .sources = 1,
			 .rows = 9,
			 .tile_rows = 5,
			 .in = { digits },
			 .out = digits,
			 .out_bytes = 9 },
	[HR_OP_crc32c] = { .sources = 1,
			   .rows = 9,
			   .tile_rows = 5,
			   .in = { digits },
			   .result = "\"e3069283\"" },
	[HR_OP_cast_f32_bf16] = { .sources = 1,
				  .rows = COUNT(f32),
				  .tile_rows = 4,
				  .in = { f32 },
				  .out = bf16,
				  .out_bytes = sizeof bf16 },
	[HR_OP_filter_sum] = { .arg = filter,
			       .args = COUNT(filter),
			       .sources = 4,
			       .rows = COUNT(price),
			       .tile_rows = 3,
			       .in = { shipdate, discount, quantity, price },
			       .result = "\"revenue_cents\": \"71.00\", \"rows\": 2" },
	[HR_OP_topk_dot] = { .arg = nearest,
			     .args = COUNT(nearest),
			     .sources = 1,
			     .rows = COUNT(matrix),
			     .tile_rows = 3,
			     .in = { matrix },
			     .result =
				     "[{\"row\": 1, \"score\": 6.0}, {\"row\": 2, \"score\": 3.0}]" },
};

static void note_args_mistake(void *to, unsigned line, const char *text)
{
	snprintf(to, HR_POST_DETAIL, "it does not accept its arguments: %s", text);
}

static void run_tile(const struct hr_operator *op, const struct known *k, struct rig *b,
		     uint32_t index, void *state, uint8_t *records)
{
	uint32_t first = index * k->tile_rows, rows = k->rows - first;
	struct hr_op_tile tile = { .index = index, .out = b->out, .out_capacity = HR_PAGE };
	uint32_t bytes;

	if (rows > k->tile_rows)
		rows = k->tile_rows;
	for (uint32_t s = 0; s < k->sources; s++) {
		uint32_t row = hr_op_row_bytes(op, b->args, s);

		memcpy(b->in[s], (const uint8_t *)k->in[s] + first * row, rows * row);
		tile.in[s] = b->in[s];
		tile.in_bytes[s] = rows * row;
	}
	tile.record = op->tile_record_bytes ? records + index * op->tile_record_bytes : NULL;
	bytes = op->tile(b->args, state, &tile);
	if (op->output == HR_OUT_DATA && bytes <= OUT_BYTES - b->written_bytes) {
		memcpy(b->written + b->written_bytes, b->out, bytes);
		b->written_bytes += bytes;
	}
}

static int compare_operator(const struct hr_operator *op, const struct known *k,
			    const struct rig *b, const struct hr_op_all *all, struct hr_error *e)
{
	char text[512];
	struct hr_json result;

	if (k->out &&
	    (b->written_bytes != k->out_bytes || memcmp(b->written, k->out, k->out_bytes) != 0))
		return hr_fail(e, HR_ERROR_DEVICE, -EPROTO,
			       "its %u bytes of output differ from the %u expected",
			       b->written_bytes, k->out_bytes);
	if (!k->result)
		return 0;
	hr_json_to_text(&result, HR_JSON_LINE, text, sizeof text);
	hr_result_json(op, all, true, &result);
	if (hr_json_done(&result) == 0 && strstr(text, k->result))
		return 0;
	return hr_fail(e, HR_ERROR_DEVICE, -EPROTO, "its result is %.100s, expected %.100s", text,
		       k->result);
}

static int no_memory(struct hr_error *e)
{
	return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "out of memory for the known answer");
}

static int run_operator(const struct hr_operator *op, const struct known *k, struct rig *b,
			struct hr_error *e)
{
	uint32_t state_bytes = hr_op_state_bytes(op, b->args);
	uint8_t *state = calloc(1, state_bytes + 1u);
	uint8_t *records = calloc(TILES, op->tile_record_bytes + 1u);
	struct hr_op_all all = { .args = b->args,
				 .tiles = TILES,
				 .bytes = (uint64_t)k->rows * hr_op_row_bytes(op, b->args, 0),
				 .tile_bytes = k->tile_rows * hr_op_row_bytes(op, b->args, 0),
				 .workers = 1,
				 .state_bytes = state_bytes,
				 .states = state,
				 .record_bytes = op->tile_record_bytes,
				 .records = records,
				 .result = b->result };
	int err;

	if (!state || !records) {
		err = no_memory(e);
	} else {
		op->init(b->args, state);
		for (uint32_t t = 0; t < TILES; t++)
			run_tile(op, k, b, t, state, records);
		op->finish(&all);
		err = compare_operator(op, k, b, &all, e);
	}
	free(state);
	free(records);
	return err;
}

int hr_post_operator(uint32_t id, char *detail, struct hr_error *e)
{
	const struct hr_operator *op = hr_op_get(id);
	const struct known *k = &known[id];
	struct rig *b = aligned_alloc(HR_PAGE, (sizeof *b + HR_PAGE - 1) / HR_PAGE * HR_PAGE);
	int err;

	if (!b)
		return no_memory(e);
	memset(b, 0, sizeof *b);
	if (hr_op_parse(op, k->arg, k->args, b->args, note_args_mistake, detail) < 0)
		err = hr_fail(e, HR_ERROR_DEVICE, -EPROTO, "%s", detail);
	else
		err = run_operator(op, k, b, e);
	free(b);
	if (!err)
		snprintf(detail, HR_POST_DETAIL, "%u rows in %u tiles give the known answer",
			 k->rows, TILES);
	return err;
}
