/*
 * copy: source 0 as it is.
 */
#include "gpu/op.h"

HR_DEVICE void hr_op_copy_init(const void *args, void *state)
{
	(void)args;
	(void)state;
}

HR_DEVICE uint32_t hr_op_copy_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t bytes =
		tile->in_bytes[0] < tile->out_capacity ? tile->in_bytes[0] : tile->out_capacity;
	const uint64_t *__restrict__ from = (const uint64_t *)(const void *)tile->in[0];
	uint64_t *__restrict__ to = (uint64_t *)(void *)tile->out;
	const uint32_t words = bytes / 8;
	uint32_t i;

	(void)args;
	(void)state;
	for (i = hr_thread(); i < words; i += hr_threads())
		to[i] = from[i];
	for (i = words * 8 + hr_thread(); i < bytes; i += hr_threads())
		tile->out[i] = tile->in[0][i];
	return bytes;
}

HR_DEVICE void hr_op_copy_finish(const struct hr_op_all *all)
{
	(void)all;
}
