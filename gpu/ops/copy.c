/*
 * copy: source 0 as it is.
 */
#include "gpu/worker/op.h"
#include "gpu/worker/vector.h"

HR_DEVICE void hr_op_copy_init(const void *args, void *state)
{
}

HR_DEVICE uint32_t hr_op_copy_tile(const void *args, void *state, const struct hr_op_tile *tile)
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

HR_DEVICE void hr_op_copy_finish(const struct hr_op_all *all)
{
}
