/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/ops/operators.h - the operators of this process: the built-in ones, in one list, and the user
 * operators (gpu/ops/user.h).
 */
#ifndef GPU_OPS_OPERATORS_H
#define GPU_OPS_OPERATORS_H

#include "config/operator.h"

/* The built-in operators of each shape, in the order of listings; each is a file gpu/ops/NAME.c. */
#define HR_STREAM_OPERATORS(X) X(copy) X(crc32c) X(cast_f32_bf16) X(filter_sum) X(topk_dot)
#define HR_ACCESS_OPERATORS(X) X(chase) X(gather) X(join) X(bfs)
#define HR_OPERATORS(X) HR_STREAM_OPERATORS(X) HR_ACCESS_OPERATORS(X)

/* Identifies the operator of a pipeline for worker code. HR_OP_COUNT and above: user operators. */
enum hr_op_id {
#define HR_OP_ENUM(name) HR_OP_##name,
	HR_OPERATORS(HR_OP_ENUM)
#undef HR_OP_ENUM
		HR_OP_COUNT
};

/* Find a built-in operator by name; find a built-in or loaded operator by id. NULL: none. */
const struct hr_operator *hr_op_find(const char *name);
const struct hr_operator *hr_op_get(uint32_t id);

/* The id of a built-in or loaded operator; UINT32_MAX for any other. */
uint32_t hr_op_id_of(const struct hr_operator *op);

#endif
