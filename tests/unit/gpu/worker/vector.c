/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/vector.h: copies by several threads equal those of memcpy(), and no other byte is
 * written.
 */
#include "tests/fakes/lanes.h"

#include "gpu/worker/vector.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define WARPS 2u
#define VECTORS (3 * HR_VECTOR_LOADS * WARPS * HR_LANES)
#define BYTES (VECTORS * sizeof(struct hr_vector))

TestSuite(vector, .timeout = 60);

static struct {
	_Alignas(16) uint8_t from[2][BYTES], to[2][BYTES];
	uint32_t count;
} t;

static void fill(struct fake_random *random)
{
	for (size_t i = 0; i < BYTES; i++) {
		t.from[0][i] = (uint8_t)fake_random_below(random, 256);
		t.from[1][i] = (uint8_t)fake_random_below(random, 256);
	}
	memset(t.to, 0x5a, sizeof t.to);
}

static void expect_copied(uint32_t pieces)
{
	const size_t bytes = t.count * sizeof(struct hr_vector);

	for (uint32_t i = 0; i < 2; i++) {
		const size_t copied = i < pieces ? bytes : 0;

		cr_expect_eq(memcmp(t.to[i], t.from[i], copied), 0, "%u vectors", t.count);
		for (size_t at = copied; at < BYTES; at++)
			cr_assert_eq(t.to[i][at], 0x5a, "%u vectors: byte %zu", t.count, at);
	}
}

static void copy_one(void)
{
	hr_copy_vectors((struct hr_vector *)(void *)t.to[0],
			(const struct hr_vector *)(const void *)t.from[0], t.count);
}

static void copy_two(void)
{
	uint8_t *const to[2] = { t.to[0], t.to[1] };
	const uint8_t *const from[2] = { t.from[0], t.from[1] };

	hr_copy_two(to, from, t.count * (uint32_t)sizeof(struct hr_vector));
}

/* Around one vector, one round, and the rounds that load several vectors first. */
Test(vector, copies_end_at_their_last_byte)
{
	static const uint32_t count[] = {
		0,   1,	  7,   8,   9,	 16,  17,  63,	64,  65,  72,
		127, 128, 129, 143, 144, 191, 192, 193, 256, 257, VECTORS
	};
	struct fake_random random = { 1 };

	for (size_t i = 0; i < ROWS(count); i++) {
		t.count = count[i];
		fill(&random);
		cr_assert(fake_blocks_run(copy_one, 1, WARPS));
		expect_copied(1);
		fill(&random);
		cr_assert(fake_lanes_run(copy_two));
		expect_copied(2);
	}
}

static void copy_stream(void)
{
	const uint32_t bytes = t.count * (uint32_t)sizeof(struct hr_vector);
	struct hr_stream stream;

	hr_stream_begin(&stream);
	hr_stream_copy(&stream, t.to[0], t.from[0], bytes);
	hr_stream_copy(&stream, t.to[1], t.from[1], bytes);
	hr_stream_end(&stream);
}

/* None, one piece of each, and several. */
Test(vector, a_stream_stores_its_last_piece)
{
	static const uint32_t pieces[] = { 0, 1, 2, BYTES / HR_STREAM_BYTES };
	struct fake_random random = { 2 };

	for (size_t i = 0; i < ROWS(pieces); i++) {
		t.count = pieces[i] * HR_STREAM_BYTES / (uint32_t)sizeof(struct hr_vector);
		fill(&random);
		cr_assert(fake_lanes_run(copy_stream));
		expect_copied(2);
	}
}
