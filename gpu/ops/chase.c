/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chase: pointer chase. Each lane follows a chain of its own: the element that it has read is the
 * index of the next one. With one chain the time of a step is the latency of one element.
 */
#include "gpu/ops/access_op.h"
#include "gpu/ops/operator.h"
#include "gpu/ops/random.h"

struct hr_chase_args {
	uint64_t seed;
	uint32_t hops, chains, warm;
};

/* A bin of the histogram: an eighth of a power of two; the first eight are one tick wide. */
#define CHASE_BIN_SHIFT 3u
#define CHASE_BINS 320u

/* State of a worker, and the sum of all, the result. */
struct hr_chase {
	uint64_t checksum; /* sum of a hash of each chain's number and last index */
	uint64_t hops;
	uint64_t steps;		      /* a step is one hop of all lanes of a worker */
	uint64_t step_ns, step_ticks; /* of all steps */
	uint64_t run_ns;
	uint64_t bin[CHASE_BINS]; /* steps by ticks */
};

#define CHASE_WORDS (sizeof(struct hr_chase) / sizeof(uint64_t))

HR_STATIC_ASSERT(sizeof(struct hr_chase) <= HR_OP_RESULT_MAX, "the result has room");

/* Time of one step: cycles on a GPU, whose nanosecond clock has coarse steps. */
HR_WORKER uint64_t chase_ticks(void)
{
	return HR_LANES > 1 ? hr_cycles() : hr_clock_ns();
}

HR_BOTH uint32_t chase_bin(uint64_t ticks)
{
	uint32_t shift, bin;

	if (ticks < 2u << CHASE_BIN_SHIFT)
		return (uint32_t)ticks;
	shift = hr_highest_bit_u64(ticks) - CHASE_BIN_SHIFT;
	bin = (shift << CHASE_BIN_SHIFT) + (uint32_t)(ticks >> shift);
	return bin < CHASE_BINS ? bin : CHASE_BINS - 1;
}

/* The smallest number of ticks of a bin. */
HR_BOTH uint64_t chase_bin_least(uint32_t bin)
{
	const uint32_t eighths = 1u << CHASE_BIN_SHIFT;

	if (bin < 2 * eighths)
		return bin;
	return (uint64_t)(bin % eighths + eighths) << (bin / eighths - 1);
}

/* Per lane: follow a chain from index `at` (HR_NO_INDEX: none). Returns the last index. False after
 * an error. Collective. */
HR_WORKER bool chase_follow(const struct hr_chase_args *args, struct hr_objects *objects,
			    const struct hr_object *next, struct hr_chase *state, uint64_t *at)
{
	const uint64_t count = next->bytes / sizeof(uint64_t);
	const bool active = *at != HR_NO_INDEX;
	const uint32_t hops = args->hops;
	uint64_t before = chase_ticks();
	uint32_t hop;

	for (hop = 0; hop < hops; hop++) {
		const uint64_t to = hr_get_u64(objects, next, *at);
		uint64_t now;

		if (hr_access_refuse(objects, next, active && to >= count ? *at : HR_NO_INDEX))
			return false;
		*at = active ? to : HR_NO_INDEX;
		now = chase_ticks();
		/* the next step does not wait for this */
		if (hr_lane() == 0)
			hr_count_up_u64(&state->bin[chase_bin(now - before)]);
		before = now;
	}
	return true;
}

/* The chains of this lane: of those of this rank, a worker has worker, worker + workers, ... */
HR_WORKER void chase_chains(const struct hr_chase_args *args, struct hr_objects *objects,
			    const struct hr_object *next, struct hr_chase *state)
{
	const uint64_t count = next->bytes / sizeof(uint64_t);
	const uint64_t step = (uint64_t)objects->workers * HR_LANES;
	const struct hr_items items = hr_rank_share(objects, args->chains);
	uint64_t first, checksum = 0, hops = 0;

	for (first = items.first + objects->worker; first < items.end; first += step) {
		const uint64_t chain = first + (uint64_t)hr_lane() * objects->workers;
		const uint64_t ns = hr_clock_ns(), ticks = chase_ticks();
		uint64_t at = HR_NO_INDEX;

		if (chain < items.end)
			at = hr_high_u64(hr_random_u64(args->seed, chain), count);
		if (!chase_follow(args, objects, next, state, &at))
			return;
		if (chain < items.end) {
			checksum += hr_mix_u64(hr_mix_u64(chain) + at);
			hops += args->hops;
		}
		if (hr_lane() == 0) {
			state->steps += args->hops;
			state->step_ns += hr_clock_ns() - ns;
			state->step_ticks += chase_ticks() - ticks;
		}
	}
	checksum = hr_lanes_sum_u64(checksum);
	hops = hr_lanes_sum_u64(hops);
	if (hr_lane() == 0) {
		state->checksum = checksum;
		state->hops = hops;
	}
}

HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects)
{
	const struct hr_chase_args *a = (const struct hr_chase_args *)args;
	const struct hr_object *next = hr_get_object_map(objects, 0);
	struct hr_chase *s = (struct hr_chase *)state;
	uint64_t start, ns;

	if (a->warm)
		hr_access_warm(objects, next);
	start = hr_access_begin(objects);
	chase_chains(a, objects, next, s);
	ns = hr_access_end(objects, start);
	if (hr_lane() == 0)
		s->run_ns = ns;
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	hr_access_sum(all, CHASE_WORDS);
	hr_access_longest(all, offsetof(struct hr_chase, run_ns) / sizeof(uint64_t));
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <errno.h>

#include "gpu/ops/args.h"

static const struct hr_op_object object[] = {
	{ .name = "next", .help = "u64: element i is the index of the element after i" },
};

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "hops", "chains", "seed", "warm" };
	struct hr_args given = { arg, count, complain, to, false };
	struct hr_chase_args *chase = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	chase->hops = (uint32_t)hr_args_int(&given, "hops", 1, INT32_MAX);
	chase->chains = (uint32_t)hr_args_int_or(&given, "chains", 1, 1 << 24, 1);
	chase->seed = (uint64_t)hr_args_int_or(&given, "seed", 0, INT32_MAX, 1);
	chase->warm = (uint32_t)hr_args_int_or(&given, "warm", 0, 1, 0);
	return given.bad ? -EINVAL : (int)sizeof *chase;
}

static int check(const void *args, const uint64_t *object_bytes,
		 void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	if (object_bytes[0] && object_bytes[0] % sizeof(uint64_t) == 0)
		return 0;
	complain(to, 0, "expected one u64 or more: a multiple of 8 bytes");
	return -EINVAL;
}

static uint32_t state_bytes(const void *args)
{
	return sizeof(struct hr_chase);
}

/* The nanoseconds that `share` of the steps did not exceed, if the steps of a bin are spread evenly
 * over its width, an eighth. */
static double chase_percentile(const struct hr_chase *chase, double share)
{
	const double ns_per_tick =
		chase->step_ticks ? (double)chase->step_ns / (double)chase->step_ticks : 0;
	const double wanted = (double)chase->steps * share;
	double below = 0, part = 0;
	uint32_t bin;

	for (bin = 0; bin < CHASE_BINS - 1; bin++) {
		const double here = (double)chase->bin[bin];

		if (here > 0 && below + here >= wanted) {
			part = (wanted - below) / here;
			break;
		}
		below += here;
	}
	return ((double)chase_bin_least(bin) * (1 - part) +
		(double)chase_bin_least(bin + 1) * part) *
	       ns_per_tick;
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct hr_chase *chase = all->result;

	to->u64(to, "checksum", chase->checksum);
	to->u64(to, "hops", chase->hops);
	to->u64(to, "run_ns", chase->run_ns);
	to->real(to, "ns_per_hop",
		 chase->steps ? (double)chase->step_ns / (double)chase->steps : 0);
	to->real(to, "p50_ns", chase_percentile(chase, 0.5));
	to->real(to, "p99_ns", chase_percentile(chase, 0.99));
}

HR_ACCESS_OPERATOR(.name = "chase",
		   .help = "Pointer chase, for latency. Object: next (u64; element i is the index "
			   "of the element after i).\n  Arguments: hops (of each chain), chains "
			   "(followed at the same time, one by each lane of a worker;\n  1), seed "
			   "(of the chains' random starts; 1), warm (1: read the object into the "
			   "cache before the\n  time is taken; 0). Result: checksum of the last "
			   "indices, hops, nanoseconds of one hop (mean,\n  median and 99th "
			   "percentile, of the lanes of a worker together).",
		   .output = HR_OUT_NONE, .parse = parse, .state_bytes = state_bytes,
		   .several_gpus = true, .several_ranks = true, .object = object,
		   .objects = sizeof object / sizeof *object, .check = check, .report = report);

#endif
