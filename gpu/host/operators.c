/*
 * Worker code of operators on the host backend: built-in and user operators are called through
 * their descriptions. gpu/cuda/operators.cu, gpu/cuda/image_user.cu and gpu/cuda/image_access.cu are
 * the counterparts for a GPU.
 */
#include "gpu/ops/operators.h"
#include "gpu/worker/access.h"
#include "gpu/worker/role.h"

void hr_op_init(uint32_t op, const void *args, void *state)
{
	hr_op_get(op)->init(args, state);
}

uint32_t hr_op_tile(uint32_t op, const void *args, void *state, const struct hr_op_tile *tile)
{
	return hr_op_get(op)->tile(args, state, tile);
}

void hr_op_run(uint32_t op, const void *args, void *state, struct hr_objects *objects)
{
	hr_op_get(op)->run(args, state, objects);
}

void hr_op_finish(uint32_t op, const struct hr_op_all *all)
{
	hr_op_get(op)->finish(all);
}
