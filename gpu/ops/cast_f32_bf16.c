/*
 * cast_f32_bf16: IEEE 754 binary32 to bfloat16, round to nearest, ties to even. bfloat16 is the upper
 * half of binary32, so adding just under half a unit of the last place that stays (and the last half
 * unit when that place is odd) makes the carry do the rounding, to infinity where it must. A NaN
 * could be rounded to infinity that way: it is cut and made quiet instead.
 */
#include "gpu/op.h"

HR_WORKER uint16_t cast_one(uint32_t bits)
{
	const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
	const uint32_t quiet = bits >> 16 | 0x40u;

	return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

HR_DEVICE void hr_op_cast_f32_bf16_init(const void *args, void *state)
{
	(void)args;
	(void)state;
}

HR_DEVICE uint32_t hr_op_cast_f32_bf16_tile(const void *args, void *state,
					    const struct hr_op_tile *tile)
{
	const uint32_t *__restrict__ from = (const uint32_t *)(const void *)tile->in[0];
	uint16_t *__restrict__ to = (uint16_t *)(void *)tile->out;
	const uint32_t have = tile->in_bytes[0] / 4, room = tile->out_capacity / 2;
	const uint32_t count = have < room ? have : room;
	uint32_t i;

	(void)args;
	(void)state;
	for (i = hr_thread(); i < count; i += hr_threads())
		to[i] = cast_one(from[i]);
	return count * 2;
}

HR_DEVICE void hr_op_cast_f32_bf16_finish(const struct hr_op_all *all)
{
	(void)all;
}
