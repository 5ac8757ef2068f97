/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pick_sum: adds up chosen numbers of an object. Start a user operator that accesses objects from
 * this file: copy it, change its name, and build it with `make op OP=path/to/NAME.c`.
 *
 * All threads of all compute blocks call run() once. The workers divide the work among themselves:
 * a worker has HR_LANES lanes (one on the host backend), which call the functions of
 * cache/objects/objects.h together, each with its own index. Sums go to the state of the
 * worker, which no other worker accesses. At the end one block combines all states in finish().
 *
 * With several ranks (boot/ranks/README.md) each rank takes its own picks: those that its object has
 * when ranks divide it (`columns` in the description), else a share of all. finish() gets the states of
 * all.
 */
#include "gpu/ops/operator.h"

/* Indices of the objects, in the order of the description. */
enum pick_sum_object { PICKS, VALUES };

/* The state of a worker, initially zero. */
struct pick_sum_state {
	uint64_t sum, picks;
};

struct pick_sum_result {
	uint64_t sum, picks;
};

/* Called once. Each round takes one pick per lane; lanes of different workers take others. */
HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects)
{
	const struct hr_object *picks = hr_get_object_map(objects, PICKS);
	const struct hr_object *values = hr_get_object_map(objects, VALUES);
	struct pick_sum_state *s = (struct pick_sum_state *)state;
	const struct hr_items items = hr_rank_items(objects, picks, 8, hr_all_bytes(picks) / 8);
	const uint64_t end = items.end - picks->at / 8; /* in the object of this rank */
	uint64_t i = items.first - picks->at / 8 + (uint64_t)objects->worker * HR_LANES, sum = 0;
	uint32_t lane;

	/* All lanes run each iteration, because the calls are collective. An error ends the loop;
	 * headrace reports it. */
	for (; i < end && !objects->error; i += (uint64_t)objects->workers * HR_LANES) {
		const uint64_t mine = i + hr_lane() < end ? i + hr_lane() : HR_NO_INDEX;
		const uint64_t pick = hr_get_u64(objects, picks, mine);

		sum += hr_get_u64(objects, values, mine == HR_NO_INDEX ? HR_NO_INDEX : pick);
		if (hr_lane() == 0)
			s->picks += end - i < HR_LANES ? end - i : HR_LANES;
	}
	for (lane = 0; lane < HR_LANES; lane++) {
		const uint64_t of_lane = hr_shfl_u64(sum, lane);

		if (hr_lane() == 0)
			s->sum += of_lane;
	}
}

/* Called once, in one block, after all workers have ended run() without an error. */
HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	struct pick_sum_result *result = (struct pick_sum_result *)all->result;
	uint32_t w;

	if (hr_thread() != 0)
		return;
	for (w = 0; w < all->workers; w++) {
		const uint8_t *at = all->states + (uint64_t)w * all->state_bytes;
		const struct pick_sum_state *s = (const struct pick_sum_state *)(const void *)at;

		result->sum += s->sum;
		result->picks += s->picks;
	}
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <errno.h>

static const struct hr_op_object objects[] = {
	{ .name = "picks",
	  .help = "little-endian u64: indices of the numbers to add",
	  .columns = 1 },
	{ .name = "values", .help = "little-endian u64: the numbers" },
};

/* Bytes of a row of an object that ranks divide. */
static uint32_t row_bytes(const void *args, uint32_t object)
{
	return 8;
}

/* Whether objects of these lengths can be used. */
static int check(const void *args, const uint64_t *object_bytes,
		 void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	int err = 0;

	for (unsigned i = PICKS; i <= VALUES; i++) {
		if (object_bytes[i] && object_bytes[i] % 8 == 0)
			continue;
		complain(to, i, "expected one number of 8 bytes or more, and whole ones");
		err = -EINVAL;
	}
	return err;
}

static uint32_t state_bytes(const void *args)
{
	return sizeof(struct pick_sum_state);
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct pick_sum_result *result = all->result;

	to->u64(to, "sum", result->sum);
	to->u64(to, "picks", result->picks);
}

HR_ACCESS_OPERATOR(.name = "pick_sum",
		   .help = "Adds the numbers that `picks` chooses from `values`. No arguments. "
			   "Result: the sum (modulo\n  2^64) and the number of picks.",
		   .object = objects, .objects = 2, .several_ranks = true, .row_bytes = row_bytes,
		   .check = check, .state_bytes = state_bytes, .report = report);

#endif
