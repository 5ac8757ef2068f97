/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liar: copies source 0, or breaks the operator interface in the way that the argument `lie` names.
 */
#include <stddef.h>
#ifndef HR_DEVICE_CODE
#include <stdlib.h>
#endif

#include "gpu/ops/operator.h"

#define BIG (64u << 20)
#define AFTER 3u /* tiles that are copied before tile() breaks the interface */

enum liar_lie {
	LIE_NONE,
	LIE_ARGS,	/* parse: more bytes than fit */
	LIE_SILENT,	/* parse: refuses without a message */
	LIE_ROW_NONE,	/* rows of 0 bytes */
	LIE_ROW_LONG,	/* rows longer than a tile can be */
	LIE_STATE_LONG, /* a state beyond the limit */
	LIE_STATE_ODD,	/* states that would not be aligned */
	LIE_STATE_BIG,	/* a state within the limit */
	LIE_MORE,	/* tile: one byte more than fits */
	LIE_LESS,	/* tile: one byte less than announced */
	LIE_ADDRESS,	/* tile: writes to an unmapped address */
	LIE_TRAP,	/* tile: an instruction that stops the block */
	LIE_LOOP,	/* tile: does not return */
	LIE_EXIT,	/* tile, on the host backend: ends the process */
	LIE_REPORT,	/* report: writes to an unmapped address */
};

struct liar_args {
	uint32_t lie;
};

HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
}

HR_WORKER void liar_harm(uint32_t lie, const struct hr_op_tile *tile)
{
	if (lie == LIE_ADDRESS && hr_thread() == 0)
		*(volatile uint32_t *)((uintptr_t)tile->index * 8) = 1;
#ifdef HR_DEVICE_CODE
	if (lie == LIE_TRAP)
		__trap();
#else
	if (lie == LIE_TRAP)
		__builtin_trap();
	if (lie == LIE_EXIT)
		exit(5);
#endif
	while (lie == LIE_LOOP && *(volatile const uint32_t *)&tile->in_bytes[0])
		;
}

/* The value of thread 0, passed through block memory, which worker code and operator share. */
HR_WORKER uint32_t liar_agree(uint32_t bytes)
{
	uint32_t *said = (uint32_t *)hr_block_memory();

	if (hr_thread() == 0)
		*said = bytes;
	hr_block_sync();
	return *said;
}

HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t lie = ((const struct liar_args *)args)->lie;
	const uint32_t bytes = tile->in_bytes[0];
	uint32_t i;

	for (i = hr_thread(); i < bytes && i < tile->out_capacity; i += hr_threads())
		tile->out[i] = tile->in[0][i];
	if (tile->index < AFTER)
		return liar_agree(bytes);
	liar_harm(lie, tile);
	if (lie == LIE_MORE)
		return liar_agree(tile->out_capacity + 1);
	return liar_agree(lie == LIE_LESS ? bytes - 1 : bytes);
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	if (hr_thread() == 0)
		*(uint64_t *)all->result = all->tiles;
}

#ifdef HR_OP_CPU

#include <errno.h>
#include <math.h>
#include <string.h>

#include "gpu/ops/args.h"

static const char *const lies[] = {
	[LIE_NONE] = "none",	       [LIE_ARGS] = "args",
	[LIE_SILENT] = "silent",       [LIE_ROW_NONE] = "row none",
	[LIE_ROW_LONG] = "row long",   [LIE_STATE_LONG] = "state long",
	[LIE_STATE_ODD] = "state odd", [LIE_STATE_BIG] = "state big",
	[LIE_MORE] = "more",	       [LIE_LESS] = "less",
	[LIE_ADDRESS] = "address",     [LIE_TRAP] = "trap",
	[LIE_LOOP] = "loop",	       [LIE_EXIT] = "exit",
	[LIE_REPORT] = "report",
};

#define LIES (sizeof lies / sizeof *lies)

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "lie" };
	struct hr_args given = { arg, count, complain, to, false };
	const struct hr_op_arg *lie = hr_args_need(&given, "lie");
	struct liar_args *a = args;

	hr_args_known(&given, names, 1);
	if (!lie || lie->type != HR_ARG_STRING)
		return -EINVAL;
	for (a->lie = 0; a->lie < LIES && strcmp(lies[a->lie], lie->string) != 0;)
		a->lie++;
	if (a->lie == LIES)
		hr_args_error(&given, lie->line, "lie: there is no '%s'", lie->string);
	if (given.bad || a->lie == LIE_SILENT)
		return -EINVAL;
	return a->lie == LIE_ARGS ? (int)HR_OP_ARGS_MAX + 1 : (int)sizeof *a;
}

static uint32_t row_bytes(const void *args, uint32_t source)
{
	const uint32_t lie = ((const struct liar_args *)args)->lie;

	if (lie == LIE_ROW_LONG)
		return BIG + 1;
	return lie == LIE_ROW_NONE ? 0 : 1;
}

static uint32_t state_bytes(const void *args)
{
	switch (((const struct liar_args *)args)->lie) {
	case LIE_STATE_LONG:
		return HR_OP_STATE_MAX + 8;
	case LIE_STATE_ODD:
		return 12;
	case LIE_STATE_BIG:
		return HR_OP_STATE_MAX;
	default:
		return 0;
	}
}

static void report_item(const struct hr_op_all *all, uint64_t i, const struct hr_op_report *to)
{
	to->u64(to, NULL, i);
}

static void report_row(const struct hr_op_all *all, uint64_t i, const struct hr_op_report *to)
{
	to->u64(to, "row", i);
	to->text(to, "of", "a\nb");
	to->list(to, "items", all, i, report_item);
}

/* One value of every kind. */
static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	static const uint64_t many[] = { 1, 2, 3, 4, 5, 6, 7, 8, UINT64_MAX };
	const double reals[] = { 0.5, -INFINITY, (double)NAN };

	if (all->args && ((const struct liar_args *)all->args)->lie == LIE_REPORT)
		*(volatile uint32_t *)(uintptr_t)(8 * all->tiles) = 1;
	to->u64(to, "tiles", *(const uint64_t *)all->result);
	to->i64(to, "least", INT64_MIN);
	to->real(to, "half", 0.5);
	to->real(to, "infinity", (double)INFINITY);
	to->text(to, "text", "a\033[31m\nb");
	to->u64s(to, "many", many, sizeof many / sizeof *many);
	to->reals(to, "reals", reals, 3);
	to->list(to, "numbers", all, 2, report_item);
	to->list(to, "rows", all, 2, report_row);
}

HR_OPERATOR(.name = "liar", .help = "One source, copied to the sink. Argument: lie.",
	    .reads_once = true, .output = HR_OUT_DATA, .out_num = 1, .out_den = 1, .parse = parse,
	    .row_bytes = row_bytes, .state_bytes = state_bytes, .report = report);

#endif
