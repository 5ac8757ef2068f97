/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/operators.h"

#include <string.h>

#include "gpu/ops/user.h"

#define HR_OP_EXTERN(name) extern const struct hr_operator hr_op_##name;
HR_OPERATORS(HR_OP_EXTERN)
#undef HR_OP_EXTERN

static const struct hr_operator *const built_in[HR_OP_COUNT] = {
#define HR_OP_ENTRY(name) &hr_op_##name,
	HR_OPERATORS(HR_OP_ENTRY)
#undef HR_OP_ENTRY
};

const struct hr_operator *hr_op_get(uint32_t id)
{
	return id < HR_OP_COUNT ? built_in[id] : hr_op_user_get(id - HR_OP_COUNT);
}

const struct hr_operator *hr_op_find(const char *name)
{
	for (uint32_t id = 0; id < HR_OP_COUNT; id++)
		if (strcmp(built_in[id]->name, name) == 0)
			return built_in[id];
	return NULL;
}

uint32_t hr_op_id_of(const struct hr_operator *op)
{
	const struct hr_operator *other;

	for (uint32_t id = 0; (other = hr_op_get(id)) != NULL; id++)
		if (other == op)
			return id;
	return UINT32_MAX;
}
