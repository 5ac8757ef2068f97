/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker code of operators on the host backend: built-in and user operators are called through
 * their descriptions. gpu/cuda/image/operators.cu, gpu/cuda/image/image_user.cu and
 * gpu/cuda/image/image_access.cu are the counterparts for a GPU.
 */
#include "config/base/work.h"
#include "gpu/ops/operators.h"
#include "gpu/worker/io/access.h"
#include "gpu/worker/role.h"

void hr_op_init(uint32_t op, const void *args, void *state)
{
	hr_work_begin(HR_WORK_INIT, 0);
	hr_op_get(op)->init(args, state);
	hr_work_end();
}

uint32_t hr_op_tile(uint32_t op, const void *args, void *state, const struct hr_op_tile *tile)
{
	uint32_t bytes;

	hr_work_begin(HR_WORK_TILE, tile->index);
	bytes = hr_op_get(op)->tile(args, state, tile);
	hr_work_end();
	return bytes;
}

void hr_op_run(uint32_t op, const void *args, void *state, struct hr_objects *objects)
{
	hr_work_begin(HR_WORK_RUN, 0);
	hr_op_get(op)->run(args, state, objects);
	hr_work_end();
}

void hr_op_finish(uint32_t op, const struct hr_op_all *all)
{
	hr_work_begin(HR_WORK_FINISH, 0);
	hr_op_get(op)->finish(all);
	hr_work_end();
}
