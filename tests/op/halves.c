/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halves: an access operator that reads single-precision numbers. Element i (u32) of `out` becomes
 * twice element i (f32) of `in`; the result is the sum of all of them.
 */
#include "gpu/ops/operator.h"

enum halves_object { IN, OUT };

HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects)
{
	const struct hr_object *in = hr_get_object_map(objects, IN);
	const struct hr_object *out = hr_get_object_map(objects, OUT);
	const uint64_t end = in->bytes / 4;
	uint64_t sum = 0, i;
	uint32_t lane;

	for (i = (uint64_t)objects->worker * HR_LANES; i < end && !objects->error;
	     i += (uint64_t)objects->workers * HR_LANES) {
		const uint64_t mine = i + hr_lane() < end ? i + hr_lane() : HR_NO_INDEX;
		const uint32_t twice = (uint32_t)(2 * hr_get_f32(objects, in, mine));

		hr_set_u32(objects, out, mine, twice);
		sum += mine == HR_NO_INDEX ? 0 : twice;
	}
	for (lane = 0; lane < HR_LANES; lane++) {
		const uint64_t of_lane = hr_shfl_u64(sum, lane);

		if (hr_lane() == 0)
			*(uint64_t *)state += of_lane;
	}
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	uint32_t w;

	for (w = 0; hr_thread() == 0 && w < all->workers; w++)
		*(uint64_t *)all->result +=
			*(const uint64_t *)(const void *)(all->states +
							  (uint64_t)w * all->state_bytes);
}

#ifdef HR_OP_CPU

static const struct hr_op_object objects[] = {
	{ .name = "in", .help = "f32: the numbers" },
	{ .name = "out", .help = "u32: twice each number", .writes = true },
};

static uint32_t state_bytes(const void *args)
{
	return sizeof(uint64_t);
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	to->u64(to, "sum", *(const uint64_t *)all->result);
}

HR_ACCESS_OPERATOR(.name = "halves", .help = "Twice the numbers of `in`.", .object = objects,
		   .objects = 2, .state_bytes = state_bytes, .report = report);

#endif
