/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker code of the built-in operators, for a worker image that is one unit. A switch selects the
 * operator: its calls are direct, so that the compiler can inline them, unlike calls through the
 * function pointers of the descriptions.
 */
#define HR_OP_WORKER_CODE

#include "gpu/ops/operators.h"
#include "gpu/worker/io/access.h"
#include "gpu/worker/role.h"

#define HR_OP_NAME copy
#include "gpu/ops/copy.c"
#undef HR_OP_NAME
#define HR_OP_NAME crc32c
#include "gpu/ops/crc32c.c"
#undef HR_OP_NAME
#define HR_OP_NAME cast_f32_bf16
#include "gpu/ops/cast_f32_bf16.c"
#undef HR_OP_NAME
#define HR_OP_NAME filter_sum
#include "gpu/ops/filter_sum.c"
#undef HR_OP_NAME
#define HR_OP_NAME topk_dot
#include "gpu/ops/topk_dot.c"
#undef HR_OP_NAME
#define HR_OP_NAME chase
#include "gpu/ops/chase.c"
#undef HR_OP_NAME
#define HR_OP_NAME gather
#include "gpu/ops/gather.c"
#undef HR_OP_NAME
#define HR_OP_NAME join
#include "gpu/ops/join.c"
#undef HR_OP_NAME
#define HR_OP_NAME bfs
#include "gpu/ops/bfs.c"
#undef HR_OP_NAME

HR_DEVICE void hr_op_init(uint32_t op, const void *args, void *state)
{
	switch (op) {
#define HR_OP_CASE(name)                          \
	case HR_OP_##name:                        \
		hr_op_##name##_init(args, state); \
		return;
		HR_STREAM_OPERATORS(HR_OP_CASE)
#undef HR_OP_CASE
	}
}

HR_DEVICE uint32_t hr_op_tile(uint32_t op, const void *args, void *state,
			      const struct hr_op_tile *tile)
{
	switch (op) {
#define HR_OP_CASE(name)   \
	case HR_OP_##name: \
		return hr_op_##name##_tile(args, state, tile);
		HR_STREAM_OPERATORS(HR_OP_CASE)
#undef HR_OP_CASE
	}
	return 0;
}

/* Not inline: one function with all operators would spill more registers than each of them does. */
#define HR_OP_ALONE(name)                                                \
	HR_WORKER_SLOW void op_run_##name(const void *args, void *state, \
					  struct hr_objects *objects)    \
	{                                                                \
		hr_op_##name##_run(args, state, objects);                \
	}
HR_ACCESS_OPERATORS(HR_OP_ALONE)
#undef HR_OP_ALONE

HR_DEVICE void hr_op_run(uint32_t op, const void *args, void *state, struct hr_objects *objects)
{
	switch (op) {
#define HR_OP_CASE(name)                             \
	case HR_OP_##name:                           \
		op_run_##name(args, state, objects); \
		return;
		HR_ACCESS_OPERATORS(HR_OP_CASE)
#undef HR_OP_CASE
	}
}

HR_DEVICE void hr_op_finish(uint32_t op, const struct hr_op_all *all)
{
	switch (op) {
#define HR_OP_CASE(name)                    \
	case HR_OP_##name:                  \
		hr_op_##name##_finish(all); \
		return;
		HR_OPERATORS(HR_OP_CASE)
#undef HR_OP_CASE
	}
}
