/*
 * gpu/ops/operators.h - the operators of this process: the built-in ones, in one list, and those of
 * files (gpu/ops/user.h).
 */
#ifndef GPU_OPS_OPERATORS_H
#define GPU_OPS_OPERATORS_H

#include "config/operator.h"

/* The built-in operators, in the order in which they are listed: gpu/ops/NAME.c of each. */
#define HR_OPERATORS(X) X(copy) X(crc32c) X(cast_f32_bf16) X(filter_sum) X(topk_dot)

/* How a pipeline names its operator to worker code. HR_OP_COUNT and up: operators of files. */
enum hr_op_id {
#define HR_OP_ENUM(name) HR_OP_##name,
	HR_OPERATORS(HR_OP_ENUM)
#undef HR_OP_ENUM
		HR_OP_COUNT
};

/* The built-in operator of that name; the operator, built in or loaded, of that id. NULL: none. */
const struct hr_operator *hr_op_find(const char *name);
const struct hr_operator *hr_op_get(uint32_t id);

/* The id of an operator that is built in or loaded; UINT32_MAX of any other. */
uint32_t hr_op_id_of(const struct hr_operator *op);

#endif
