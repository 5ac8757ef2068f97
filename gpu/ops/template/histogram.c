/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram: counts the numbers of an object in each of `bins` equal parts of from <= x < to, and
 * outside, and finds the smallest and the largest number. Start a user operator from this file:
 * copy it, change its name, and build it with `make op OP=path/to/NAME.c`.
 *
 * Both compilers compile the first half, the worker code. A block runs tile() on one tile after
 * another; it has hr_warps() workers of HR_LANES lanes each (one worker with one lane on the host
 * backend). The threads share the numbers of a tile. Counts go to the state of the worker, which no
 * other worker accesses. Results for a whole tile go to its record. At the end one block combines
 * all states and records in finish().
 */
#include <math.h>

#include "gpu/ops/operator.h"

#define BINS_MAX 256u
#define NO_COUNTER 0xffffffffu /* for a lane without a number */

/* The arguments, converted by parse() for the worker code. */
struct histogram_args {
	float from, to;
	float scale; /* bins per unit */
	uint32_t bins;
};

/* Counters: one per bin, then these. */
enum histogram_outside { BELOW, ABOVE, NOT_A_NUMBER, OUTSIDE };

/* The state of a worker: bins + OUTSIDE counters of its numbers. Initially zero. */
struct histogram_state {
	uint64_t count[BINS_MAX + OUTSIDE];
};

/* The record of a tile. In a tile without numbers, least is greater than greatest. */
struct histogram_range {
	float least, greatest;
};

/* The result, at most HR_OP_RESULT_MAX bytes. */
struct histogram_result {
	uint64_t count[BINS_MAX + OUTSIDE];
	struct histogram_range range;
};

/* Index of the counter for a number. */
HR_WORKER uint32_t histogram_counter(const struct histogram_args *args, float x)
{
	uint32_t bin;

	if (x != x)
		return args->bins + NOT_A_NUMBER;
	if (x < args->from)
		return args->bins + BELOW;
	if (x >= args->to)
		return args->bins + ABOVE;
	bin = (uint32_t)((x - args->from) * args->scale);
	return bin < args->bins ? bin : args->bins - 1; /* the product may have been rounded up */
}

/*
 * Count one number per lane. All lanes read the counter index of one lane after another, and the
 * one lane that owns this counter (each lane owns every HR_LANES-th) adds to it: no atomics.
 * Collective.
 */
HR_WORKER void histogram_count(struct histogram_state *state, uint32_t counter)
{
	uint32_t lane;

	for (lane = 0; lane < HR_LANES; lane++) {
		const uint32_t c = hr_shfl_u32(counter, lane);

		if (c != NO_COUNTER && c % HR_LANES == hr_lane())
			state->count[c]++;
	}
}

HR_WORKER void histogram_widen(struct histogram_range *range, float least, float greatest)
{
	range->least = least < range->least ? least : range->least;
	range->greatest = greatest > range->greatest ? greatest : range->greatest;
}

/* Combine the ranges of all threads into that of the block: over lanes, then workers.
 * Block-collective. */
HR_WORKER void histogram_gather(struct histogram_range *range)
{
	uint32_t i, least, greatest;

	for (i = 0; i < HR_LANES; i++) {
		least = hr_shfl_u32(hr_f32_bits(range->least), i);
		greatest = hr_shfl_u32(hr_f32_bits(range->greatest), i);
		histogram_widen(range, hr_f32_of_bits(least), hr_f32_of_bits(greatest));
	}
	for (i = 0; i < hr_warps(); i++) {
		const bool mine = hr_warp() == i && hr_lane() == 0;

		least = hr_block_xor_u32(mine ? hr_f32_bits(range->least) : 0);
		greatest = hr_block_xor_u32(mine ? hr_f32_bits(range->greatest) : 0);
		histogram_widen(range, hr_f32_of_bits(least), hr_f32_of_bits(greatest));
	}
}

/* Called before the first tile. States are already zero. */
HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
}

/* Called for each tile. There is no output, so it returns 0. */
HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const struct histogram_args *a = (const struct histogram_args *)args;
	const float *number = (const float *)(const void *)tile->in[0];
	const uint32_t numbers = tile->in_bytes[0] / 4;
	struct histogram_range range = { INFINITY, -INFINITY };
	uint32_t i;

	/* All lanes of a worker run each iteration, because counting is collective. */
	for (i = hr_warp() * HR_LANES; i < numbers; i += hr_threads()) {
		uint32_t counter = NO_COUNTER;

		if (i + hr_lane() < numbers) {
			const float x = number[i + hr_lane()];

			counter = histogram_counter(a, x);
			histogram_widen(&range, x, x);
		}
		histogram_count((struct histogram_state *)state, counter);
	}
	histogram_gather(&range);
	if (hr_thread() == 0)
		*(struct histogram_range *)tile->record = range;
	return 0;
}

/* Called once, in one block, after the last tile: combine all states and records into the
 * result. */
HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	const struct histogram_args *a = (const struct histogram_args *)all->args;
	const struct histogram_range *range =
		(const struct histogram_range *)(const void *)all->records;
	struct histogram_result *result = (struct histogram_result *)all->result;
	uint64_t i;
	uint32_t c, w;

	for (c = hr_thread(); c < a->bins + OUTSIDE; c += hr_threads()) {
		for (w = 0; w < all->workers; w++) {
			const uint8_t *state = all->states + (uint64_t)w * all->state_bytes;

			result->count[c] +=
				((const struct histogram_state *)(const void *)state)->count[c];
		}
	}
	if (hr_thread() != 0)
		return;
	result->range.least = INFINITY;
	result->range.greatest = -INFINITY;
	for (i = 0; i < all->tiles; i++)
		histogram_widen(&result->range, range[i].least, range[i].greatest);
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <errno.h>

#include "gpu/ops/args.h"

_Static_assert(sizeof(struct histogram_args) <= HR_OP_ARGS_MAX, "too many arguments");
_Static_assert(sizeof(struct histogram_result) <= HR_OP_RESULT_MAX, "too long a result");

/* args = { from = 0.0; to = 1.0; bins = 10; } of the configuration. */
static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "from", "to", "bins" };
	struct hr_args given = { arg, count, complain, to, false };
	struct histogram_args *a = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	a->from = hr_args_float(&given, "from");
	a->to = hr_args_float(&given, "to");
	a->bins = (uint32_t)hr_args_int(&given, "bins", 1, BINS_MAX);
	a->scale = (float)a->bins / (a->to - a->from);
	/* Line 0: the error concerns the arguments as a whole. */
	if (!given.bad && !(a->from < a->to && isfinite(a->to - a->from) && isfinite(a->scale)))
		hr_args_error(&given, 0, "from %g to %g is not a range of f32", (double)a->from,
			      (double)a->to);
	return given.bad ? -EINVAL : (int)sizeof *a;
}

/* A row is one number: tiles end between numbers. */
static uint32_t row_bytes(const void *args, uint32_t source)
{
	return sizeof(float);
}

static uint32_t state_bytes(const void *args)
{
	return (((const struct histogram_args *)args)->bins + OUTSIDE) * (uint32_t)sizeof(uint64_t);
}

/* Optional: two states as one. With several ranks, each sends one state. */
static void merge(const void *args, void *into, const void *from)
{
	const struct histogram_args *a = args;
	struct histogram_state *to = into;
	const struct histogram_state *other = from;

	for (uint32_t c = 0; c < a->bins + OUTSIDE; c++)
		to->count[c] += other->count[c];
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct histogram_args *a = all->args;
	const struct histogram_result *result = all->result;

	to->u64s(to, "bins", result->count, a->bins);
	to->u64(to, "below", result->count[a->bins + BELOW]);
	to->u64(to, "above", result->count[a->bins + ABOVE]);
	to->u64(to, "nan", result->count[a->bins + NOT_A_NUMBER]);
	if (result->range.least > result->range.greatest)
		return;
	to->real(to, "least", (double)result->range.least);
	to->real(to, "greatest", (double)result->range.greatest);
}

HR_OPERATOR(.name = "histogram",
	    .help = "One source: little-endian f32. Arguments: from, to (numbers), bins (1 to "
		    "256). "
		    "Result:\n  the count of numbers in each bin (equal parts of from <= x < to), "
		    "below, "
		    "above and NaN;\n  the least and the greatest number.",
	    .sources_min = 1, .sources_max = 1, .output = HR_OUT_NONE,
	    .tile_record_bytes = sizeof(struct histogram_range), .reads_once = true, .parse = parse,
	    .row_bytes = row_bytes, .state_bytes = state_bytes, .merge = merge, .report = report);

#endif
