/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callback: an access operator of a test. run() and finish() call the functions that the arguments
 * name. On the host only.
 */
#include "gpu/ops/operator.h"
#include "tests/op/callback.h"

HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects)
{
	((const struct callback_args *)args)->run(objects);
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	const struct callback_args *args = (const struct callback_args *)all->args;

	if (args->finish)
		args->finish(all);
}

#ifdef HR_OP_CPU

static const struct hr_op_object objects[] = { { .name = "object", .help = "any object" } };

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
}

HR_ACCESS_OPERATOR(.name = "callback", .help = "Functions of a test.", .object = objects,
		   .objects = 1, .report = report);

#endif
