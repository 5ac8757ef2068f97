/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/measure/measure.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "gpu/cuda/image/link_rates_job.h"
#include "nvme/queue/worker.h"
#include "nvme/dma/hostmem.h"

#define BYTES (1ull << 30)
#define THREADS (HR_LIMIT_BLOCK_WARPS * 32)
/* the stages of four warps fit into the shared memory of an SM */
#define BULK_THREADS 128u
#define BULK_SHARED (BULK_THREADS / 32 * (128 + HR_LIMIT_STAGES * HR_PAGE))
#define BULK_BLOCKS 4u
#define PAGES (1u << 17) /* pages for single-page measurements: 512 MiB */
#define ROUNDS 5000u
/* polls for an answer between two polls for the end of the launch; a poll for the end takes 2 us */
#define ECHO_LOOKS 4096u
#define GPU_BYTES (BYTES + 4096)

struct bench {
	struct hr_backend *b;
	struct hr_cuda_gpu *gpu;
	struct hr_cuda_launch *launch;
	struct hr_cuda_entry entry;
	CUevent done[2]; /* one per direction of the copy engine */
	struct hr_region host, shared, memory;
	struct hr_region peer; /* memory of the other GPU, in place of host */
	struct hr_backend *other;
	struct hr_limit_job *job; /* shared.cpu */
	uint32_t *unsound;	  /* behind *job */
	uint32_t times;
	int err;
};

static double median(double *value, uint32_t count)
{
	assert(count > 0);
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t j = i; j > 0 && value[j] < value[j - 1]; j--) {
			const double larger = value[j - 1];

			value[j - 1] = value[j];
			value[j] = larger;
		}
	return value[count / 2];
}

/* The CPU's part of a round trip; also checks whether the launch has ended. */
static int wait_launch(struct bench *m)
{
	const uint64_t limit = hr_now_ns() + HR_CUDA_WAIT_NS;
	uint32_t seen = 0, look = 0;
	int state = 0;

	while (state == 0) {
		const uint32_t ping = hr_acquire_sys_u32(&m->job->ping);

		if (ping != seen) {
			seen = ping;
			hr_release_sys_u32(&m->job->pong, ping);
			look = 0;
		} else if (++look % ECHO_LOOKS == 0 || m->job->kind != HR_LIMIT_ECHO) {
			state = hr_cuda_launch_poll(m->gpu, m->launch);
			if (state == 0 && hr_now_ns() > limit)
				state = hr_cuda_fail(&m->gpu->cu, -ETIMEDOUT,
						     "the launch that measures does not end");
		}
	}
	return state < 0 ? state : 0;
}

static void start_entry(struct bench *m, enum hr_limit_kind kind, uint32_t each, uint32_t blocks,
			uint32_t threads, uint32_t shared)
{
	m->job->kind = kind;
	m->job->each = each;
	m->job->ping = m->job->pong = *m->unsound = 0;
	m->err = hr_cuda_launch_start(m->gpu, m->launch, &m->entry, m->shared.worker, blocks,
				      threads, shared);
}

/* Nanoseconds of one launch, the median; 0 when the GPU cannot run it. */
static double time_entry(struct bench *m, enum hr_limit_kind kind, uint32_t each, uint32_t blocks,
			 uint32_t threads, uint32_t shared)
{
	double ns[HR_LIMIT_TIMES_MAX];

	for (uint32_t i = 0; !m->err && i <= m->times; i++) {
		const uint64_t began = hr_now_ns();

		start_entry(m, kind, each, blocks, threads, shared);
		if (!m->err)
			m->err = wait_launch(m);
		if (i > 0) /* the first launch is a warm-up */
			ns[i - 1] = (double)(hr_now_ns() - began);
		if (!m->err && *m->unsound)
			return 0;
	}
	return m->err ? 0 : median(ns, m->times);
}

/* Number of blocks that load with all processors. */
static uint32_t all_blocks(const struct bench *m)
{
	return m->gpu->facts.processors & ~1u;
}

/* Nanoseconds until each of two GPUs has read all memory of the other one, the median. */
static double time_both(struct bench m[2])
{
	double ns[HR_LIMIT_TIMES_MAX] = { 0 };

	for (uint32_t i = 0; !m[0].err && !m[1].err && i <= m[0].times; i++) {
		const uint64_t began = hr_now_ns();

		for (int k = 0; k < 2; k++)
			start_entry(&m[k], HR_LIMIT_READ, 0, all_blocks(&m[k]), THREADS, 0);
		for (int k = 0; k < 2; k++)
			m[k].err = m[k].err ? m[k].err : wait_launch(&m[k]);
		if (i > 0)
			ns[i - 1] = (double)(hr_now_ns() - began);
	}
	return m[0].err || m[1].err ? 0 : median(ns, m[0].times);
}

/* Start a copy of `bytes` in one direction, on a separate stream. */
static void start_copy(struct bench *m, bool in, uint64_t at, uint64_t bytes)
{
	const CUdeviceptr host = (CUdeviceptr)m->host.worker + at;
	const CUdeviceptr memory = (CUdeviceptr)m->memory.worker + at;
	CUstream stream = in ? m->gpu->stream : m->launch->stream;

	if (!m->err)
		m->err = HR_CU(&m->gpu->cu, MemcpyAsync, in ? memory : host, in ? host : memory,
			       bytes, stream);
	if (!m->err)
		m->err = HR_CU(&m->gpu->cu, EventRecord, m->done[in], stream);
}

static void wait_copy(struct bench *m, bool in)
{
	const uint64_t limit = hr_now_ns() + HR_CUDA_WAIT_NS;
	CUresult result = CUDA_ERROR_NOT_READY;

	while (!m->err && result == CUDA_ERROR_NOT_READY) {
		result = m->gpu->cu.EventQuery(m->done[in]);
		if (result != CUDA_ERROR_NOT_READY)
			m->err = hr_cuda_check(&m->gpu->cu, "cuEventQuery (copy)", result);
		else if (hr_now_ns() > limit)
			m->err = hr_cuda_fail(&m->gpu->cu, -ETIMEDOUT, "a copy does not end");
	}
}

/* Bytes a second of each direction. */
static double copy_rate(struct bench *m, bool in, bool out)
{
	const uint64_t bytes = in && out ? BYTES / 2 : BYTES;
	double ns[HR_LIMIT_TIMES_MAX];

	for (uint32_t i = 0; !m->err && i <= m->times; i++) {
		const uint64_t began = hr_now_ns();

		if (in)
			start_copy(m, true, 0, bytes);
		if (out)
			start_copy(m, false, BYTES - bytes, bytes);
		if (in)
			wait_copy(m, true);
		if (out)
			wait_copy(m, false);
		if (i > 0)
			ns[i - 1] = (double)(hr_now_ns() - began);
	}
	return m->err ? 0 : (double)bytes / median(ns, m->times) * 1e9;
}

static double rate(double bytes, double ns)
{
	return ns > 0 ? bytes / ns * 1e9 : 0;
}

static void measure_link_rates(struct bench *m, struct hr_gpu_link_rates *l)
{
	const uint32_t all = all_blocks(m), bulk = BULK_BLOCKS * BULK_THREADS / 32;

	l->copy_in = copy_rate(m, true, false);
	l->copy_out = copy_rate(m, false, true);
	l->copy_both = copy_rate(m, true, true);
	l->load = rate((double)BYTES, time_entry(m, HR_LIMIT_READ, 0, all, THREADS, 0));
	l->store = rate((double)BYTES, time_entry(m, HR_LIMIT_WRITE, 0, all, THREADS, 0));
	l->load_store =
		rate((double)BYTES / 2, time_entry(m, HR_LIMIT_READ_WRITE, 0, all, THREADS, 0));
	for (uint32_t i = 0; i < HR_LIMIT_WARPS; i++)
		l->page[i] = rate((double)PAGES * HR_PAGE,
				  time_entry(m, HR_LIMIT_PAGES, PAGES / hr_limit_warps(i),
					     hr_limit_warps(i) * 32 / THREADS, THREADS, 0));
	if (m->gpu->facts.capability >= 90)
		l->bulk = rate((double)PAGES * HR_PAGE,
			       time_entry(m, HR_LIMIT_BULK, PAGES / bulk, BULK_BLOCKS, BULK_THREADS,
					  BULK_SHARED));
	l->round_trip_ns = time_entry(m, HR_LIMIT_ECHO, ROUNDS, 1, 32, 0) / ROUNDS;
}

static int allocate_link_host(struct hr_region *region, size_t bytes, struct hr_error *e)
{
	return hr_hostmem_alloc(region, "limits", bytes, e);
}

/* The memory that is read: of the host, or of another GPU. *from: its address for workers. */
static int allocate_link_source(struct bench *m, uint8_t **from, struct hr_error *e)
{
	int err;

	if (m->other) {
		err = m->other->ops->alloc(m->other, BYTES, &m->peer, e);
		if (!err)
			err = m->other->ops->share(m->other, &m->peer, m->b, e);
		*from = m->peer.worker;
		return err;
	}
	err = allocate_link_host(&m->host, BYTES, e);
	if (!err)
		err = m->b->ops->attach(m->b, m->host.cpu, m->host.bytes, false, &m->host.worker,
					e);
	*from = m->host.worker;
	return err;
}

static int prepare_link_bench(struct bench *m, struct hr_cuda_image *image, struct hr_error *e)
{
	const struct hr_backend_ops *ops = m->b->ops;
	int err = hr_cuda_entry_find(m->gpu, image, &m->entry, "hr_entry_limit");
	uint8_t *from = NULL;

	for (int i = 0; !err && i < 2; i++)
		err = HR_CU(&m->gpu->cu, EventCreate, &m->done[i], CU_EVENT_DISABLE_TIMING);
	if (!err)
		err = allocate_link_source(m, &from, e);
	if (!err)
		err = allocate_link_host(&m->shared, HR_PAGE, e);
	if (!err)
		err = ops->attach(m->b, m->shared.cpu, m->shared.bytes, false, &m->shared.worker,
				  e);
	if (!err)
		err = ops->alloc(m->b, GPU_BYTES, &m->memory, e);
	if (err)
		return err;
	m->job = m->shared.cpu;
	m->unsound = (uint32_t *)(void *)(m->job + 1);
	m->job->bytes = BYTES;
	m->job->host = from;
	m->job->gpu = m->memory.worker;
	m->job->fold = (uint32_t *)(void *)((uint8_t *)m->memory.worker + BYTES);
	m->job->unsound = (uint32_t *)(void *)((struct hr_limit_job *)m->shared.worker + 1);
	return 0;
}

static void release_link_bench(struct bench *m)
{
	struct hr_region *host[] = { &m->host, &m->shared };

	for (int i = 0; i < 2; i++) {
		if (m->done[i])
			m->gpu->cu.EventDestroy(m->done[i]);
		if (host[i]->worker && host[i]->cpu)
			m->b->ops->detach(m->b, host[i]->cpu);
		hr_hostmem_free(host[i]);
	}
	if (m->memory.worker)
		m->b->ops->free(m->b, &m->memory);
	if (m->peer.worker)
		m->other->ops->free(m->other, &m->peer);
}

int hr_cuda_link_rates(struct hr_backend *b, struct hr_cuda_gpu *gpu, struct hr_cuda_image *image,
		       struct hr_cuda_launch *launch, uint32_t times,
		       struct hr_gpu_link_rates *limits, struct hr_error *e)
{
	struct bench m = { .b = b, .gpu = gpu, .launch = launch, .times = times };

	memset(limits, 0, sizeof *limits);
	m.err = hr_cuda_gpu_enter(gpu);
	if (!m.err)
		m.err = prepare_link_bench(&m, image, e);
	if (!m.err)
		measure_link_rates(&m, limits);
	release_link_bench(&m);
	return m.err;
}

static void measure_peer(struct bench m[2], uint32_t warps, struct hr_peer_rates *rates)
{
	const uint32_t each = PAGES / warps & ~1u; /* two at a time */

	rates->load =
		rate((double)BYTES, time_entry(m, HR_LIMIT_READ, 0, all_blocks(m), THREADS, 0));
	rates->page =
		rate((double)each * warps * HR_PAGE,
		     time_entry(m, HR_LIMIT_PAGES, each, warps / HR_LIMIT_BLOCK_WARPS, THREADS, 0));
	if (!m->err)
		rates->load_both = rate((double)BYTES, time_both(m));
}

int hr_cuda_peer_rates(const struct hr_cuda_side side[2], uint32_t warps, uint32_t times,
		       struct hr_peer_rates *rates, uint32_t *failed, struct hr_error *e)
{
	struct bench m[2] = { 0 };
	int err = 0;

	*failed = 0;
	memset(rates, 0, sizeof *rates);
	for (int k = 0; !err && k < 2; k++) {
		m[k] = (struct bench){ .b = side[k].b,
				       .gpu = side[k].gpu,
				       .launch = side[k].launch,
				       .other = side[1 - k].b,
				       .times = times };
		*failed = (uint32_t)k;
		err = hr_cuda_gpu_enter(side[k].gpu);
		if (!err)
			err = prepare_link_bench(&m[k], side[k].image, e);
	}
	if (!err) {
		measure_peer(m, warps, rates);
		*failed = !m[0].err;
		err = m[*failed].err;
	}
	for (int k = 0; k < 2; k++)
		if (m[k].b && !hr_cuda_gpu_enter(m[k].gpu))
			release_link_bench(&m[k]);
	return err;
}
