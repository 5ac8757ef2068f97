/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of nvme/queue/worker.h on a GPU, compared with results of the CPU. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "cache/crc32c.h"
#include "config/base/clock.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/image.h"

#define WARP 32u

TestSuite(words, .timeout = 60);

static struct gpu_rig rig;

static void check_lane(const struct gpu_lanes *a, uint32_t t, uint32_t block_xor)
{
	const uint32_t first = t / WARP * WARP, next = first + (t + 1) % WARP;
	uint32_t ballot = 0;
	uint64_t sum = 0;
	double real = 0;

	for (uint32_t i = 0; i < WARP; i++) {
		ballot |= (a->in[first + i] & 1) << i;
		sum += a->in64[first + i];
		real += (double)a->real[first + i];
	}
	cr_expect_eq(a->lane[t], t % WARP);
	cr_expect_eq(a->warp[t], t / WARP);
	cr_expect_eq(a->ballot[t], ballot);
	cr_expect_eq(a->next32[t], a->in[next]);
	cr_expect_eq(a->next64[t], a->in64[next]);
	cr_expect_eq(a->sum[t], sum);
	cr_expect(fabs((double)a->real_sum[t] - real) < 1e-4 * WARP, "%f, %f",
		  (double)a->real_sum[t], real);
	cr_expect_eq(memcmp(&a->real_sum[t], &a->real_sum[first], 4), 0, "not the same bits");
	cr_expect_eq(a->block_xor[t], block_xor);
}

Test(words, collective_functions_of_lanes_agree_with_the_cpu)
{
	struct gpu_lanes *a;
	uint32_t block_xor = 0;

	gpu_up(&rig);
	a = gpu_shared(&rig, sizeof *a);
	gpu_random(a, offsetof(struct gpu_lanes, lane));
	for (uint32_t t = 0; t < GPU_LANES_THREADS; t++) {
		a->real[t] = (float)(a->in[t] % 20001) / 10000.0f - 1.0f;
		block_xor ^= a->in[t];
	}
	gpu_run(&rig, "lanes", a, 1, GPU_LANES_THREADS);
	for (uint32_t t = 0; t < GPU_LANES_THREADS; t++)
		check_lane(a, t, block_xor);
	cr_expect_eq(a->warps, GPU_LANES_THREADS / WARP);
	cr_expect_eq(a->threads, GPU_LANES_THREADS);
	cr_expect_eq(a->lowest, (uint32_t)__builtin_ctz(a->in[0] | 1u << 31));
	cr_expect_eq(a->bits, (uint32_t)__builtin_popcount(a->in[0]));
	gpu_down(&rig);
}

Test(words, crc32c_of_any_length_agrees_with_the_cpu)
{
	const uint32_t most = 4099;
	struct gpu_crc *a;
	uint8_t *data;

	gpu_up(&rig);
	a = gpu_shared(&rig, sizeof *a);
	data = gpu_shared(&rig, most);
	gpu_random(data, most);
	for (uint32_t bytes = 0; bytes <= most; bytes = bytes < 18 ? bytes + 1 : bytes * 3 + 1) {
		a->data = data;
		a->bytes = bytes;
		a->crc = 0;
		gpu_run(&rig, "crc", a, 1, WARP);
		cr_expect_eq(a->crc, hr_crc32c(0, data, bytes), "%u bytes", bytes);
	}
	gpu_down(&rig);
}

Test(words, release_and_acquire_hand_data_from_block_to_block)
{
	struct hr_cuda_arena arena;
	struct gpu_pass pass = { .rounds = 200000 };

	gpu_up(&rig);
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, sizeof pass, 0, false), 0);
	cr_assert_eq(hr_cuda_upload(&rig.gpu, &rig.host, (void *)arena.base, &pass, sizeof pass),
		     0);
	gpu_run(&rig, "pass", (void *)arena.base, 2, WARP);
	cr_assert_eq(hr_cuda_download(&rig.gpu, &rig.host, &pass, (void *)arena.base, sizeof pass),
		     0);
	cr_expect(pass.done[0] && pass.done[1], "stopped at round %u, %u", pass.full, pass.taken);
	cr_expect_eq(pass.wrong, 0);
	gpu_down(&rig);
}

/* Wait for the doorbell of a round; false when the launch has ended instead. */
static bool await_doorbell(const struct gpu_door *a, uint32_t round)
{
	while (__atomic_load_n(&a->doorbell, __ATOMIC_ACQUIRE) != round)
		if (hr_cuda_launch_poll(&rig.gpu, &rig.launch) != 0)
			return false;
	return true;
}

static uint32_t wrong_words(const struct gpu_door *a, uint32_t round)
{
	uint32_t wrong = 0;

	for (uint32_t lane = 0; lane < WARP; lane++) {
		const struct gpu_entry *e = &a->entry[lane];

		wrong += e->round != round;
		for (uint32_t i = 0; i < 15; i++)
			wrong += e->words[i] != round * 31 + lane * 15 + i;
	}
	return wrong;
}

Test(words, a_doorbell_comes_after_the_entries_of_all_lanes)
{
	struct gpu_door *a;
	uint32_t wrong = 0, round;
	uint64_t began;

	gpu_up(&rig);
	a = gpu_shared(&rig, sizeof *a);
	a->rounds = 100000;
	gpu_start(&rig, "door", a, 1, WARP, 0);
	began = hr_now_ns();
	for (round = 1; round <= a->rounds && await_doorbell(a, round); round++) {
		wrong += wrong_words(a, round);
		for (uint32_t i = 0; i < 16; i++)
			a->answer[i] = (uint64_t)round * 16 + i;
		__atomic_store_n(&a->answered, round, __ATOMIC_RELEASE);
	}
	gpu_wait(&rig);
	fprintf(stderr, "%u rounds, %llu ns each\n", round - 1,
		(unsigned long long)((hr_now_ns() - began) / round));
	cr_expect_eq(a->done, 1, "stopped at round %u", round);
	cr_expect_eq(wrong, 0, "%u words of entries came after the doorbell", wrong);
	cr_expect_eq(a->wrong, 0, "answers came after their flag");
	gpu_down(&rig);
}

Test(words, the_clock_counts_nanoseconds_and_never_goes_back)
{
	struct gpu_clock *a;
	uint64_t began, took;

	gpu_up(&rig);
	a = gpu_shared(&rig, sizeof *a);
	a->readings = 1000000;
	began = hr_now_ns();
	gpu_run(&rig, "clocks", a, 1, WARP);
	took = hr_now_ns() - began;
	fprintf(stderr, "%llu ns on the GPU, %llu ns on the CPU\n",
		(unsigned long long)(a->last - a->first), (unsigned long long)took);
	cr_expect_eq(a->backwards, 0);
	cr_expect(a->last - a->first > took / 4 && a->last - a->first <= took + 10 * HR_NS_PER_MS);
	gpu_down(&rig);
}
