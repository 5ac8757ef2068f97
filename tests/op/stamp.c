/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp: an access operator that writes. Element i (u64) of `out` becomes its former value + i + 1.
 * `times` repeats that addition, with a flush between two repetitions. `twin` (optional) gets the same
 * values. `first` and `count` select a part of the elements.
 */
#include "gpu/ops/operator.h"

enum stamp_object { OUT, TWIN };

struct stamp_args {
	uint64_t times, first, count;
};

HR_WORKER void stamp_once(struct hr_objects *objects, const struct hr_object *out,
			  const struct stamp_args *args)
{
	const uint64_t all = out->bytes / 8;
	const uint64_t end = args->count < all && args->first < all - args->count
				     ? args->first + args->count
				     : all;
	uint64_t i;

	for (i = args->first + (uint64_t)objects->worker * HR_LANES; i < end && !objects->error;
	     i += (uint64_t)objects->workers * HR_LANES) {
		const uint64_t mine = i + hr_lane() < end ? i + hr_lane() : HR_NO_INDEX;

		hr_set_u64(objects, out, mine, hr_get_u64(objects, out, mine) + mine + 1);
	}
}

HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects)
{
	const struct stamp_args *a = (const struct stamp_args *)args;
	const uint64_t times = a->times;
	const struct hr_object *twin = hr_get_object_map(objects, TWIN);
	uint64_t t;

	for (t = 0; t < times && !objects->error; t++) {
		stamp_once(objects, hr_get_object_map(objects, OUT), a);
		if (twin)
			stamp_once(objects, twin, a);
		if (t + 1 < times)
			(void)hr_flush(objects);
	}
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	if (hr_thread() == 0)
		*(uint64_t *)all->result = all->object_bytes[OUT] + all->object_bytes[TWIN];
}

#ifdef HR_OP_CPU

#include <errno.h>

#include "gpu/ops/args.h"

static const struct hr_op_object objects[] = {
	{ .name = "out", .help = "u64: what is written", .writes = true },
	{ .name = "twin", .help = "the same, if given", .writes = true, .optional = true },
};

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "times", "first", "count" };
	struct hr_args given = { arg, count, complain, to, false };
	struct stamp_args *a = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	a->times = (uint64_t)hr_args_int(&given, "times", 1, 1000000000);
	a->first = (uint64_t)hr_args_int_or(&given, "first", 0, INT32_MAX, 0);
	a->count = (uint64_t)hr_args_int_or(&given, "count", 1, INT32_MAX, INT32_MAX);
	return given.bad ? -EINVAL : (int)sizeof *a;
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	to->u64(to, "bytes", *(const uint64_t *)all->result);
}

HR_ACCESS_OPERATOR(.name = "stamp",
		   .help = "Writes. Arguments: times (1 to 1000000000); a part: first, count.",
		   .object = objects, .objects = 2, .parse = parse, .report = report);

#endif
