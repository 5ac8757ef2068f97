/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cast_f32_bf16: IEEE 754 binary32 to bfloat16, round to nearest, ties to even. bfloat16 is the
 * upper half of binary32. Adding just under half a unit of the last kept bit (and the last half
 * unit when that bit is odd) rounds by carry, to infinity where required. This could round a NaN to
 * infinity, so a NaN is truncated and made quiet instead.
 */
#include "gpu/ops/operator.h"
#include "gpu/worker/vector.h"

/* vectors that a thread stores at a time; it loads twice as many */
#define CAST_VECTORS 4u

HR_WORKER uint16_t cast_one(uint32_t bits)
{
	const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
	const uint32_t quiet = bits >> 16 | 0x40u;

	return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

HR_WORKER uint32_t cast_two(uint32_t low, uint32_t high)
{
	return cast_one(low) | (uint32_t)cast_one(high) << 16;
}

/* Convert eight numbers. */
HR_WORKER struct hr_vector cast_vector(const struct hr_vector *a, const struct hr_vector *b)
{
	struct hr_vector v;

	v.word[0] = cast_two(a->word[0], a->word[1]);
	v.word[1] = cast_two(a->word[2], a->word[3]);
	v.word[2] = cast_two(b->word[0], b->word[1]);
	v.word[3] = cast_two(b->word[2], b->word[3]);
	return v;
}

/* Convert all whole vectors of the output. */
HR_WORKER void cast_vectors(struct hr_vector *to, const struct hr_vector *from, uint32_t count)
{
	const uint32_t threads = hr_threads(), step = CAST_VECTORS * threads;
	struct hr_vector v[2 * CAST_VECTORS];
	uint32_t i = hr_thread(), j;

	for (; i + step - threads < count; i += step) {
		for (j = 0; j < CAST_VECTORS; j++) {
			v[2 * j] = from[2 * (i + j * threads)];
			v[2 * j + 1] = from[2 * (i + j * threads) + 1];
		}
		for (j = 0; j < CAST_VECTORS; j++)
			to[i + j * threads] = cast_vector(&v[2 * j], &v[2 * j + 1]);
	}
	for (; i < count; i += threads)
		to[i] = cast_vector(&from[2 * i], &from[2 * i + 1]);
}

HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
}

HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t *__restrict__ from = (const uint32_t *)(const void *)tile->in[0];
	uint16_t *__restrict__ to = (uint16_t *)(void *)tile->out;
	const uint32_t have = tile->in_bytes[0] / 4, room = tile->out_capacity / 2;
	const uint32_t count = have < room ? have : room;
	uint32_t i = 0;

	if (HR_LANES > 1) { /* with one lane, the compiler vectorizes the loop */
		i = count / 8 * 8;
		cast_vectors((struct hr_vector *)(void *)to,
			     (const struct hr_vector *)(const void *)from, i / 8);
	}
	for (i += hr_thread(); i < count; i += hr_threads())
		to[i] = cast_one(from[i]);
	return count * 2;
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

static uint32_t row_bytes(const void *args, uint32_t source)
{
	return sizeof(float);
}

HR_OPERATOR(.name = "cast_f32_bf16",
	    .help = "One source: little-endian f32. No arguments. The sink holds the same "
		    "numbers "
		    "as bf16,\n  half as long: rounded to nearest, ties to even; a NaN stays a "
		    "(quiet) NaN.",
	    .sources_min = 1, .sources_max = 1, .output = HR_OUT_DATA, .out_num = 1, .out_den = 2,
	    .reads_once = true, .row_bytes = row_bytes);

#endif
