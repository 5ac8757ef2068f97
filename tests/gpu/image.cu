/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of the tests that run on a GPU (gpu/cuda/README.md).
 */
#include "nvme/queue/worker.h"

/*
 * The functions of a queue pair, as in the worker image except for the clock, which a test can
 * control: queue_server sets the time.
 */
static __device__ volatile uint64_t server_now_ns;

HR_WORKER uint64_t server_clock_ns()
{
	return server_now_ns;
}

#define hr_clock_ns server_clock_ns
#include "nvme/queue/queue.h"
#undef hr_clock_ns

#include "tests/gpu/image.h"

#define GLOBAL extern "C" __global__ void

static __device__ uint64_t my_index()
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ uint64_t all_threads()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

GLOBAL fill(struct gpu_fill *a)
{
	for (uint64_t i = my_index(); i < a->words; i += all_threads())
		a->word[i] = i * a->factor + a->add;
}

GLOBAL sum(struct gpu_sum *a)
{
	unsigned long long total = 0, wrong = 0;

	for (uint64_t i = my_index(); i < a->words; i += all_threads()) {
		total += a->word[i];
		wrong += a->word[i] != i * a->factor + a->add;
	}
	atomicAdd(&a->sum, total);
	atomicAdd(&a->wrong, wrong);
}

GLOBAL spin(struct gpu_spin *a)
{
	const uint64_t end = hr_clock_ns() + a->limit_ns;
	uint32_t spins = 0;

	hr_release_sys_u32(&a->started, 1);
	while (hr_clock_ns() < end) {
		if (hr_acquire_sys_u32(&a->stop)) {
			hr_release_sys_u32(&a->stopped, 1);
			return;
		}
		hr_idle(&spins);
	}
}

GLOBAL meet(struct gpu_meet *a)
{
	extern __shared__ uint32_t shared[];
	const uint64_t end = hr_clock_ns() + GPU_ROUNDS_NS;

	for (uint32_t i = hr_thread(); i < a->shared_bytes / 4; i += hr_threads())
		shared[i] = i;
	hr_block_sync();
	if (hr_thread())
		return;
	atomicAdd(&a->arrived, 1);
	while (hr_acquire_u32(&a->arrived) < gridDim.x)
		if (hr_clock_ns() > end)
			return;
	for (uint32_t i = 0; i < a->shared_bytes / 4; i++)
		if (shared[i] != i)
			return;
	atomicAdd(&a->met, 1);
}

GLOBAL stray(struct gpu_stray *a)
{
	*(volatile uint64_t *)a->address = 1;
}

GLOBAL trap(void *)
{
	__trap();
}

GLOBAL lanes(struct gpu_lanes *a)
{
	const uint32_t t = hr_thread(), next = (hr_lane() + 1) % HR_LANES;

	a->lane[t] = hr_lane();
	a->warp[t] = hr_warp();
	a->ballot[t] = hr_ballot(a->in[t] & 1);
	a->next32[t] = hr_shfl_u32(a->in[t], next);
	a->next64[t] = hr_shfl_u64(a->in64[t], next);
	a->sum[t] = hr_lanes_sum_u64(a->in64[t]);
	a->real_sum[t] = hr_lanes_sum_f32(a->real[t]);
	a->block_xor[t] = hr_block_xor_u32(a->in[t]);
	if (t)
		return;
	a->warps = hr_warps();
	a->threads = hr_threads();
	a->lowest = hr_lowest_bit(a->in[0] | 1u << 31);
	a->bits = hr_count_bits(a->in[0]);
}

GLOBAL crc(struct gpu_crc *a)
{
	uint32_t crc = ~0u, at = 0;

	if (hr_thread())
		return;
	for (; at + 8 <= a->bytes; at += 8) {
		uint64_t word = 0;

		for (int i = 7; i >= 0; i--)
			word = word << 8 | a->data[at + i];
		crc = hr_crc32c_u64(crc, word);
	}
	for (; at < a->bytes; at++)
		crc = hr_crc32c_u8(crc, a->data[at]);
	a->crc = ~crc;
}

/* Wait until *word is `round`; false after the time limit. The whole warp waits. */
static __device__ bool wait_round(const uint32_t *word, uint32_t round)
{
	const uint64_t end = hr_clock_ns() + GPU_ROUNDS_NS;

	while (hr_acquire_u32(word) != round)
		if (hr_clock_ns() > end)
			return false;
	return true;
}

static __device__ void pass_on(struct gpu_pass *a, uint32_t round)
{
	for (uint32_t i = hr_lane(); i < GPU_PASS_WORDS; i += HR_LANES)
		a->data[i] = (uint64_t)round << 32 | i;
	hr_lanes_sync();
	if (hr_lane() == 0)
		hr_release_u32(&a->full, round);
}

static __device__ void take(struct gpu_pass *a, uint32_t round)
{
	uint64_t wrong = 0;

	for (uint32_t i = hr_lane(); i < GPU_PASS_WORDS; i += HR_LANES)
		wrong += a->data[i] != ((uint64_t)round << 32 | i);
	wrong = hr_lanes_sum_u64(wrong);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		a->wrong += wrong;
		hr_release_u32(&a->taken, round);
	}
}

/* Two blocks of one warp. */
GLOBAL pass(struct gpu_pass *a)
{
	for (uint32_t round = 1; round <= a->rounds; round++) {
		if (blockIdx.x == 0) {
			if (!wait_round(&a->taken, round - 1))
				return;
			pass_on(a, round);
		} else {
			if (!wait_round(&a->full, round))
				return;
			take(a, round);
		}
	}
	if (hr_lane() == 0)
		a->done[blockIdx.x] = 1;
}

static __device__ bool wait_answer(const struct gpu_door *a, uint32_t round)
{
	const uint64_t end = hr_clock_ns() + GPU_ROUNDS_NS;

	while (hr_shfl_u32(hr_acquire_sys_u32(&a->answered), 0) != round)
		if (hr_ballot(hr_clock_ns() > end))
			return false;
	return true;
}

/* One warp. */
GLOBAL door(struct gpu_door *a)
{
	for (uint32_t round = 1; round <= a->rounds; round++) {
		struct gpu_entry *e = &a->entry[hr_lane()];
		uint64_t wrong;

		e->round = round;
		for (uint32_t i = 0; i < 15; i++)
			e->words[i] = round * 31 + hr_lane() * 15 + i;
		hr_lanes_sync();
		if (hr_lane() == 0) {
			hr_release_sys();
			hr_mmio_write32(&a->doorbell, round);
		}
		if (!wait_answer(a, round))
			return;
		wrong = hr_lanes_sum_u64(hr_lane() < 16 &&
					 a->answer[hr_lane()] != (uint64_t)round * 16 + hr_lane());
		if (hr_lane() == 0)
			a->wrong += wrong;
	}
	if (hr_lane() == 0)
		hr_release_sys_u32(&a->done, 1);
}

/* One thread. */
GLOBAL clocks(struct gpu_clock *a)
{
	uint64_t last = hr_clock_ns();

	a->first = last;
	for (uint64_t i = 0; i < a->readings; i++) {
		const uint64_t now = hr_clock_ns();

		a->backwards += now < last;
		last = now;
	}
	a->last = last;
}

static __device__ void serve(struct gpu_queue_call *call)
{
	struct hr_sqe sqe = call->sqe;
	struct hr_completion done = {};
	int32_t result = 0;
	uint32_t lanes = 0;

	switch (call->what) {
	case GPU_QUEUE_PUSH:
		result = hr_qp_push(call->qp, hr_lane() == 0 && call->want, &sqe, call->token);
		break;
	case GPU_QUEUE_RING:
		hr_qp_publish(call->qp);
		break;
	case GPU_QUEUE_REAP:
		lanes = hr_qp_reap(call->qp, &done);
		break;
	default:
		result = hr_qp_find_expired(call->qp, call->now_ns, &done);
		break;
	}
	call->done[hr_lane()] = done;
	if (hr_lane() == 0) {
		call->result = result;
		call->lanes = lanes;
	}
}

/* One warp. */
GLOBAL queue_server(struct gpu_queue_call *call)
{
	for (uint32_t number = 1;; number++) {
		const uint64_t end = hr_clock_ns() + 10 * GPU_ROUNDS_NS;

		while (hr_shfl_u32(hr_acquire_sys_u32(&call->ask), 0) != number)
			if (hr_ballot(hr_clock_ns() > end))
				return;
		hr_lanes_sync();
		if (call->what == GPU_QUEUE_STOP)
			return;
		if (hr_lane() == 0)
			server_now_ns = call->clock_ns;
		hr_lanes_sync();
		serve(call);
		hr_lanes_sync();
		if (hr_lane() == 0)
			hr_release_sys_u32(&call->answer, number);
	}
}
