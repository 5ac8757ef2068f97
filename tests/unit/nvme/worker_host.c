/* Pauses of threads on the host: none at first, then longer and longer ones, up to a limit. */
#include "nvme/worker.h"

#include <criterion/criterion.h>
#include <string.h>

#include "config/clock.h"
#include "nvme/wait.h"
#include "tests/fakes/clock.h"

TestSuite(worker_host, .timeout = 60);

static uint64_t pause_of(uint32_t *spins)
{
	const uint64_t before = hr_now_ns();

	hr_idle(spins);
	return hr_now_ns() - before;
}

/* The pauses after the first ones: a step of a wait sleeps longer and longer, up to a limit. */
static void expect_sleeps(uint64_t (*step)(uint32_t *), uint32_t *steps)
{
	static const uint64_t sleep_us[] = { 5, 10, 20, 40, 80, 160, 320, 640, 1280, 1280 };

	for (size_t k = 0; k < sizeof sleep_us / sizeof *sleep_us; k++)
		for (uint32_t i = 0; i < 4; i++)
			cr_assert_eq(step(steps), sleep_us[k] * 1000, "%zu, round %u", k, i);
	*steps = UINT32_MAX - 1;
	cr_expect_eq(step(steps), 1280000u);
}

/* A worker that sleeps too soon delays each command; one that never sleeps takes a core. */
Test(worker_host, idle_workers_yield_first_and_then_sleep_longer)
{
	uint32_t spins = 0;

	fake_clock_start(1, NULL, NULL);
	for (uint32_t n = 1; n < HR_IDLE_YIELDS; n++)
		cr_assert_eq(pause_of(&spins), 0, "round %u", n);
	expect_sleeps(pause_of, &spins);
	spins = 0; /* after progress */
	cr_expect_eq(pause_of(&spins), 0);
	cr_expect_eq(spins, 1u);
	fake_clock_stop();
}

static uint64_t step_of(uint32_t *steps)
{
	const uint64_t before = hr_now_ns();

	hr_wait_step(steps);
	return hr_now_ns() - before;
}

Test(worker_host, threads_that_wait_for_a_controller_spin_first_and_then_sleep_longer)
{
	uint32_t steps = 0;

	fake_clock_start(1, NULL, NULL);
	for (uint32_t n = 1; n < HR_WAIT_SPINS; n++)
		cr_assert_eq(step_of(&steps), 0, "round %u", n);
	expect_sleeps(step_of, &steps);
	fake_clock_stop();
}

/* A worker of the host is one lane: each word that names or joins lanes has the value of that lane. */
Test(worker_host, a_worker_is_one_lane)
{
	cr_expect_eq(hr_lane(), 0u);
	cr_expect_eq(hr_warp(), 0u);
	cr_expect_eq(hr_warps(), 1u);
	cr_expect_eq(hr_thread(), 0u);
	cr_expect_eq(hr_threads(), 1u);
	cr_expect_eq(HR_LANES, 1u);
	cr_expect_eq(hr_ballot(true), 1u);
	cr_expect_eq(hr_ballot(false), 0u);
	cr_expect_eq(hr_shfl_u32(77, 0), 77u);
	cr_expect_eq(hr_shfl_u64(1ull << 40, 0), 1ull << 40);
	cr_expect_eq(hr_match_u32(5), 1u);
	cr_expect_eq(hr_lanes_sum_u64(1ull << 40 | 3), 1ull << 40 | 3);
	cr_expect_eq(hr_lanes_sum_f32(1.5f), 1.5f);
	cr_expect_eq(hr_block_xor_u32(0x1234), 0x1234u);
	cr_expect_null(hr_launch_memory());
	cr_expect_eq((uintptr_t)hr_block_memory() % 16, 0u);
	memset(hr_block_memory(), 1, HR_BLOCK_MEMORY);
	cr_expect_eq(hr_host_block_memory(), hr_block_memory());
	cr_expect_eq(hr_cycles(), 0u);
}

Test(worker_host, bits_are_counted_and_found)
{
	static const struct {
		hr_mask mask;
		uint32_t count, lowest;
	} row[] = { { 1, 1, 0 },
		    { 3, 2, 0 },
		    { 0x80000000u, 1, 31 },
		    { 0xf0, 4, 4 },
		    { 0xffffffffu, 32, 0 },
		    { 0xa4, 3, 2 } };

	cr_expect_eq(hr_count_bits(0), 0u);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(hr_count_bits(row[i].mask), row[i].count, "%zu", i);
		cr_expect_eq(hr_lowest_bit(row[i].mask), row[i].lowest, "%zu", i);
	}
	for (uint32_t bit = 0; bit < 64; bit++)
		cr_expect_eq(hr_highest_bit_u64(1ull << bit | 1), bit);
}

/* Each word of memory by itself: what it returns, and what it leaves. */
Test(worker_host, words_of_memory_are_loaded_stored_and_changed)
{
	uint32_t w = 5, eight[8], got[8], other[8];
	uint64_t q = 1ull << 40;
	uint8_t from[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, to[10] = { 0 };

	cr_expect(hr_acquire_u32(&w) == 5 && hr_acquire_sys_u32(&w) == 5 && hr_poll_u32(&w) == 5);
	cr_expect(hr_poll_sys_u32(&w) == 5 && hr_fresh_u32(&w) == 5 && hr_fresh_once_u32(&w) == 5);
	cr_expect_eq(hr_fresh_sys_u32(&w), 5u);
	cr_expect(hr_acquire_u64(&q) == q && hr_acquire_sys_u64(&q) == q && hr_poll_u64(&q) == q);
	cr_expect(hr_poll_sys_u64(&q) == q && hr_fresh_u64(&q) == q && hr_fresh_once_u64(&q) == q);
	cr_expect_eq(hr_fresh_sys_u64(&q), q);
	for (uint32_t i = 0; i < 8; i++)
		eight[i] = 10 + i;
	hr_poll_u32x8(eight, got);
	cr_expect_eq(memcmp(got, eight, sizeof got), 0);
	hr_poll_keep_u32x8(eight, other);
	cr_expect_eq(memcmp(other, eight, sizeof got), 0);
	memset(got, 0, sizeof got);
	hr_poll_sys_u32x8(eight, got);
	cr_expect_eq(memcmp(got, eight, sizeof got), 0);
	hr_release_u32(&w, 6);
	cr_expect_eq(w, 6u);
	hr_release_sys_u32(&w, 7);
	cr_expect_eq(w, 7u);
	hr_relaxed_u32(&w, 8);
	cr_expect_eq(w, 8u);
	hr_relaxed_sys_u32(&w, 9);
	cr_expect_eq(w, 9u);
	hr_mmio_write32(&w, 10);
	cr_expect_eq(w, 10u);
	cr_expect(!hr_replace_u32(&w, 9, 1) && w == 10);
	cr_expect(hr_replace_u32(&w, 10, 11) && w == 11);
	cr_expect(hr_fetch_or_u32(&w, 4) == 11 && w == 15);
	cr_expect(hr_fetch_max_u32(&w, 14) == 15 && w == 15);
	cr_expect(hr_fetch_max_u32(&w, 15) == 15 && w == 15);
	cr_expect(hr_fetch_max_u32(&w, 16) == 15 && w == 16);
	hr_release_u64(&q, 6);
	cr_expect_eq(q, 6u);
	hr_release_sys_u64(&q, 7);
	cr_expect_eq(q, 7u);
	hr_relaxed_u64(&q, 8);
	cr_expect_eq(q, 8u);
	hr_relaxed_sys_u64(&q, 9);
	cr_expect_eq(q, 9u);
	hr_fenced_sys_u64(&q, 10);
	cr_expect_eq(q, 10u);
	hr_count_up_u64(&q);
	cr_expect_eq(q, 11u);
	cr_expect(hr_fetch_add_u64(&q, 5) == 11 && q == 16);
	cr_expect(hr_arrive_u64(&q, 1) == 16 && hr_arrive_sys_u64(&q, 2) == 17 && q == 19);
	{
		uint64_t pair[3] = { 0, 0, 7 };

		hr_write_u64x2(pair, 1, 2);
		cr_expect(pair[0] == 1 && pair[1] == 2 && pair[2] == 7);
	}
	hr_copy_bytes(to, from, 9);
	cr_expect(memcmp(to, from, 9) == 0 && to[9] == 0);
	hr_zero_bytes(to, 8);
	cr_expect(to[7] == 0 && to[8] == 9);
	for (uint32_t bytes = 0; bytes <= 9; bytes++) {
		void (*const copy[])(void *, const void *,
				     uint32_t) = { hr_read_shared, hr_read_sys, hr_write_shared };

		for (size_t i = 0; i < sizeof copy / sizeof *copy; i++) {
			memset(to, 0xee, sizeof to);
			copy[i](to, from, bytes);
			cr_expect_eq(memcmp(to, from, bytes), 0, "%u", bytes);
			cr_expect_eq(to[bytes], 0xee, "%u", bytes);
		}
	}
}

Test(worker_host, checksums_and_calls_for_operators)
{
	const struct hr_worker_calls *calls = hr_worker_calls();
	uint32_t crc = ~0u, spins = 3;
	static const char text[] = "123456789"; /* its CRC-32C is e3069283 */
	uint64_t eight;

	for (const char *c = text; *c; c++)
		crc = hr_crc32c_u8(crc, (uint8_t)*c);
	cr_expect_eq(~crc, 0xe3069283u);
	memcpy(&eight, text, sizeof eight);
	cr_expect_eq(~hr_crc32c_u8(hr_crc32c_u64(~0u, eight), '9'), 0xe3069283u);
	fake_clock_start(1000, NULL, NULL);
	cr_expect_eq(hr_clock_ns(), 1000u);
	cr_expect_eq(hr_clock_by(calls), 1000u);
	hr_idle_by(calls, &spins);
	cr_expect_eq(spins, 4u);
	fake_clock_stop();
}

/* A guarded copy is the data itself but in builds with the address sanitizer; whole sectors. */
Test(worker_host, a_guarded_copy_has_the_same_bytes)
{
	static uint8_t data[192];
	const uint8_t *one, *two;
	void *list = NULL;

	for (uint32_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i + 1);
	one = hr_guarded(&list, data, 64);
	two = hr_guarded(&list, data + 64, 128);
	cr_expect_eq(memcmp(one, data, 64), 0);
	cr_expect_eq(memcmp(two, data + 64, 128), 0);
	hr_guarded_end(&list);
	cr_expect_null(list);
}
