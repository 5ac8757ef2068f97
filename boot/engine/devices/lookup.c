/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/devices/lookup.h"

#include "boot/engine/devices/devices.h"
#include "gpu/ops/operators.h"
#include "gpu/ops/user.h"

_Static_assert(HR_OP_COUNT <= HR_OPERATORS_BUILT_IN_MAX, "a list of operators has no room for all");

static const struct hr_operator *operator_at(uint32_t i)
{
	return i < HR_OP_COUNT ? hr_op_get(i) : NULL;
}

const struct hr_config_lookup hr_lookup = {
	.ssd_check = hr_transport_check,
	.gpu_check = hr_backend_check,
	.ssd_namespaces = hr_transport_namespaces,
	.operator_at = operator_at,
	.operator_load = hr_op_user_load,
	.operator_checksum = hr_op_user_checksum,
};
