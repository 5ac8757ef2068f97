/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU code of gpu/measuring.h. It is not worker code: it drives no queue. Included by image_tools.cu.
 */
#include <stdint.h>

#include "config/base/limits.h"
#include "gpu/cuda/image/link_rates_job.h"
#include "gpu/worker/vector.h"
#include "nvme/queue/worker.h"

#define LIMIT_LOADS 8
#define LIMIT_WAIT_NS 1000000000ull

HR_WORKER uint64_t limit_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

HR_WORKER void limit_load(const struct hr_limit_job *job, uint64_t count, uint64_t at,
			  uint64_t stride)
{
	const uint4 *const from = (const uint4 *)job->host;
	uint32_t all = 0;

	for (; at + (LIMIT_LOADS - 1) * stride < count; at += LIMIT_LOADS * stride) {
		uint4 v[LIMIT_LOADS];

#pragma unroll
		for (int i = 0; i < LIMIT_LOADS; i++)
			v[i] = from[at + i * stride];
#pragma unroll
		for (int i = 0; i < LIMIT_LOADS; i++)
			all ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
	}
	if (all == 0x5eed5eed)
		atomicXor(job->fold, all);
}

HR_WORKER void limit_store(const struct hr_limit_job *job, uint64_t first, uint64_t count,
			   uint64_t at, uint64_t stride)
{
	uint4 *const to = (uint4 *)job->host + first;

	for (; at < count; at += stride)
		to[at] = make_uint4((uint32_t)at, 1, 2, 3);
}

/* Two pages in flight, as in a worker. */
HR_WORKER void limit_pages(const struct hr_limit_job *job, uint32_t warp)
{
	uint64_t state = (warp + 1) * 0x9e3779b97f4a7c15ull;
	const uint64_t mask = job->bytes / HR_PAGE - 1;
	uint8_t *const own = job->gpu + (uint64_t)warp * 64 * HR_PAGE;

	for (uint32_t i = 0; i < job->each; i += 2) {
		const uint8_t *const from[2] = {
			job->host + (limit_random(&state) & mask) * HR_PAGE,
			job->host + (limit_random(&state) & mask) * HR_PAGE
		};
		uint8_t *const to[2] = { own + i % 64 * HR_PAGE, own + (i % 64 + 1) * HR_PAGE };

		hr_copy_two(to, from, HR_PAGE);
	}
}

/* "Data Movement and Conversion Instructions: cp.async.bulk": from host memory to shared memory,
 * with an mbarrier per page, and on to GPU memory. One lane drives the stages of a warp. */
HR_WORKER void limit_bulk(const struct hr_limit_job *job, uint32_t warp)
{
#if __CUDA_ARCH__ >= 900
	extern __shared__ __align__(128) uint8_t limit_shared[];
	const uint64_t mask = job->bytes / HR_PAGE - 1;
	const uint32_t own = (uint32_t)__cvta_generic_to_shared(limit_shared) + hr_warp() * 128;
	const uint32_t data = (uint32_t)__cvta_generic_to_shared(limit_shared) + hr_warps() * 128 +
			      hr_warp() * HR_LIMIT_STAGES * HR_PAGE;
	uint64_t state = (warp + 1) * 0x9e3779b97f4a7c15ull;

	if (hr_lane() != 0)
		return;
	for (uint32_t s = 0; s < HR_LIMIT_STAGES; s++)
		asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(own + s * 8));
	asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
	for (uint32_t i = 0; i < job->each + HR_LIMIT_STAGES; i++) {
		const uint32_t s = i % HR_LIMIT_STAGES, page = data + s * HR_PAGE;

		if (i >= HR_LIMIT_STAGES) {
			const uint32_t parity = (i / HR_LIMIT_STAGES - 1) & 1;
			uint8_t *to = job->gpu + ((uint64_t)warp * 64 + i % 64) * HR_PAGE;
			uint32_t there = 0;

			while (!there)
				asm volatile("{ .reg .pred p;\n"
					     "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
					     "selp.u32 %0, 1, 0, p; }"
					     : "=r"(there)
					     : "r"(own + s * 8), "r"(parity)
					     : "memory");
			asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
				     "cp.async.bulk.commit_group;\n"
				     "cp.async.bulk.wait_group.read 0;"
				     :
				     : "l"(__cvta_generic_to_global(to)), "r"(page), "r"(HR_PAGE)
				     : "memory");
		}
		if (i < job->each) {
			const uint8_t *from = job->host + (limit_random(&state) & mask) * HR_PAGE;

			asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
				     :
				     : "r"(own + s * 8), "r"(HR_PAGE)
				     : "memory");
			asm volatile("cp.async.bulk.shared::cluster.global"
				     ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
				     :
				     : "r"(page), "l"(__cvta_generic_to_global(from)), "r"(HR_PAGE),
				       "r"(own + s * 8)
				     : "memory");
		}
	}
	asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
#else
	*job->unsound = 1;
#endif
}

HR_WORKER void limit_echo(struct hr_limit_job *job)
{
	const uint64_t end = hr_clock_ns() + LIMIT_WAIT_NS;

	for (uint32_t i = 1; i <= job->each; i++) {
		hr_release_sys_u32(&job->ping, i);
		while (hr_acquire_sys_u32(&job->pong) != i)
			if (hr_clock_ns() > end) {
				*job->unsound = 1;
				return;
			}
	}
}

extern "C" __global__ void __launch_bounds__(512) hr_entry_limit(struct hr_limit_job *job)
{
	const uint64_t count = job->bytes / sizeof(uint4), half = count / 2;
	const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
	const uint64_t at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	const uint64_t pair = (uint64_t)(blockIdx.x / 2) * blockDim.x + threadIdx.x;
	const uint32_t warp = blockIdx.x * hr_warps() + hr_warp();

	switch (job->kind) {
	case HR_LIMIT_READ:
		limit_load(job, count, at, stride);
		break;
	case HR_LIMIT_WRITE:
		limit_store(job, 0, count, at, stride);
		break;
	case HR_LIMIT_READ_WRITE:
		if (blockIdx.x % 2)
			limit_load(job, half, pair, stride / 2);
		else
			limit_store(job, half, half, pair, stride / 2);
		break;
	case HR_LIMIT_PAGES:
		limit_pages(job, warp);
		break;
	case HR_LIMIT_BULK:
		limit_bulk(job, warp);
		break;
	default:
		limit_echo(job);
	}
}
