/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy: source 0 unchanged.
 */
#include "gpu/ops/operator.h"
#include "gpu/worker/vector.h"

HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
}

HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t bytes =
		tile->in_bytes[0] < tile->out_capacity ? tile->in_bytes[0] : tile->out_capacity;
	const uint32_t vectors = bytes / sizeof(struct hr_vector);
	uint32_t i;

	hr_copy_vectors((struct hr_vector *)(void *)tile->out,
			(const struct hr_vector *)(const void *)tile->in[0], vectors);
	for (i = vectors * (uint32_t)sizeof(struct hr_vector) + hr_thread(); i < bytes;
	     i += hr_threads())
		tile->out[i] = tile->in[0][i];
	return bytes;
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

HR_OPERATOR(.name = "copy", .help = "One source. No arguments. The sink becomes a copy of it.",
	    .sources_min = 1, .sources_max = 1, .output = HR_OUT_DATA, .out_num = 1, .out_den = 1,
	    .reads_once = true);

#endif
