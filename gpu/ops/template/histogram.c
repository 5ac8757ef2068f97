/*
 * histogram: how many numbers of an object lie in each of `bins` equal parts of from <= x < to, how
 * many outside, and the least and the greatest of all. A user operator to start from: copy this
 * file, give it another name, and build it with `make op OP=path/to/NAME.c`.
 *
 * Both compilers see the first half, worker code. A block runs tile() on one tile after another; it
 * has hr_warps() workers of HR_LANES lanes each (one of one on the host backend). Numbers are dealt
 * out to threads; counts go to the state of the worker, which no one else touches; what is known of
 * a tile as a whole goes to its record. At the end one block puts all of it together in finish().
 */
#include <math.h>
#include <string.h>

#include "gpu/ops/operator.h"

#define BINS_MAX 256u
#define NO_COUNTER 0xffffffffu /* of a lane without a number */

/* The arguments, as parse() leaves them for the worker code. */
struct histogram_args {
	float from, to;
	float scale; /* bins per unit */
	uint32_t bins;
};

/* Counters: one per bin, then these. */
enum histogram_outside { BELOW, ABOVE, NOT_A_NUMBER, OUTSIDE };

/* The state of a worker: bins + OUTSIDE counters of what it has seen. It starts as zeroes. */
struct histogram_state {
	uint64_t count[BINS_MAX + OUTSIDE];
};

/* The record of a tile. Without numbers in it, least is greater than greatest. */
struct histogram_range {
	float least, greatest;
};

/* The result, at most HR_OP_RESULT_MAX bytes. */
struct histogram_result {
	uint64_t count[BINS_MAX + OUTSIDE];
	struct histogram_range range;
};

/* The counter that a number belongs to. */
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
 * Count one number per lane. All lanes see each lane's counter in turn, and the one lane that owns
 * it (every HR_LANES-th is its own) adds: no atomics. Collective.
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

/* The words of nvme/worker.h move integers. */
HR_WORKER uint32_t histogram_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

HR_WORKER float histogram_float(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/* From the range of each thread to that of the block: over lanes, then workers. Block-collective. */
HR_WORKER void histogram_gather(struct histogram_range *range)
{
	uint32_t i, least, greatest;

	for (i = 0; i < HR_LANES; i++) {
		least = hr_shfl_u32(histogram_bits(range->least), i);
		greatest = hr_shfl_u32(histogram_bits(range->greatest), i);
		histogram_widen(range, histogram_float(least), histogram_float(greatest));
	}
	for (i = 0; i < hr_warps(); i++) {
		const bool mine = hr_warp() == i && hr_lane() == 0;

		least = hr_block_xor_u32(mine ? histogram_bits(range->least) : 0);
		greatest = hr_block_xor_u32(mine ? histogram_bits(range->greatest) : 0);
		histogram_widen(range, histogram_float(least), histogram_float(greatest));
	}
}

/* Before the first tile; states are zeroed already. */
HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
}

/* One tile. There is no output, so it returns 0. */
HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const struct histogram_args *a = (const struct histogram_args *)args;
	const float *number = (const float *)(const void *)tile->in[0];
	const uint32_t numbers = tile->in_bytes[0] / 4;
	struct histogram_range range = { INFINITY, -INFINITY };
	uint32_t i;

	/* All lanes of a worker go round together, because they count together. */
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

/* Once, in one block, after the last tile: all states and records into the result. */
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

#ifdef HR_OP_CPU /* from here on: the description, for the CPU */

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
	/* Line 0: the complaint is about the arguments as a whole. */
	if (!given.bad && !(a->from < a->to && isfinite(a->to - a->from) && isfinite(a->scale)))
		hr_args_complain(&given, 0, "from %g to %g is no range of f32", (double)a->from,
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
		    "Result:\n  how many numbers lie in each of the bins, equal parts of from <= x "
		    "< to, how many below, above\n  and NaN; the least and the greatest.",
	    .sources_min = 1, .sources_max = 1, .output = HR_OUT_NONE,
	    .tile_record_bytes = sizeof(struct histogram_range), .reads_once = true, .parse = parse,
	    .row_bytes = row_bytes, .state_bytes = state_bytes, .report = report);

#endif
