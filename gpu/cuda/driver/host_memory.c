/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/driver/host_memory.h"

#include <errno.h>
#include <string.h>

#include "config/base/process.h"
#include "config/base/limits.h"

/* The driver registers a range once in a process, for all GPUs. Ranges that are registered, with the
 * number of GPUs that have them attached. */
static struct {
	void *cpu;
	size_t bytes;
	bool io;
	unsigned gpus; /* 0: not in use */
} registered[HR_GPUS_MAX * HR_CUDA_ATTACHED_MAX];

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Index of a registered range, or of one that is not in use. Each GPU has at most HR_CUDA_ATTACHED_MAX
 * ranges, so there is one. */
static unsigned place_of(const void *cpu, size_t bytes, bool io)
{
	unsigned unused = 0;

	for (unsigned i = 0; i < sizeof registered / sizeof *registered; i++) {
		if (registered[i].gpus == 0)
			unused = i;
		else if (registered[i].cpu == cpu && registered[i].bytes == bytes &&
			 registered[i].io == io)
			return i;
	}
	return unused;
}

static int register_range(struct hr_cuda_gpu *gpu, void *cpu, size_t bytes, bool io)
{
	const unsigned at = place_of(cpu, bytes, io);
	const unsigned flags = CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE |
			       (io ? CU_MEMHOSTREGISTER_IOMEMORY : 0);
	const int err =
		registered[at].gpus ? 0 : HR_CU(&gpu->cu, MemHostRegister, cpu, bytes, flags);

	if (err)
		return err;
	registered[at].cpu = cpu;
	registered[at].bytes = bytes;
	registered[at].io = io;
	registered[at].gpus++;
	return 0;
}

/* The range is forgotten also when the driver refuses, because its GPU may have failed. */
static int unregister_range(struct hr_cuda_gpu *gpu, const struct hr_cuda_attached *range)
{
	const unsigned at = place_of(range->cpu, range->bytes, range->io);

	if (--registered[at].gpus)
		return 0;
	return HR_CU(&gpu->cu, MemHostUnregister, range->cpu);
}

int hr_cuda_host_open(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host)
{
	int err;

	memset(host, 0, sizeof *host);
	err = hr_cuda_gpu_enter(gpu);
	for (int half = 0; !err && half < 2; half++) {
		err = HR_CU(&gpu->cu, MemHostAlloc, &host->staging[half], HR_CUDA_STAGING,
			    CU_MEMHOSTALLOC_PORTABLE);
		if (!err)
			hr_not_dumped(host->staging[half], HR_CUDA_STAGING);
		if (!err)
			err = HR_CU(&gpu->cu, EventCreate, &host->copied[half],
				    CU_EVENT_DISABLE_TIMING);
	}
	if (err)
		hr_cuda_host_close(gpu, host);
	return err;
}

void hr_cuda_host_close(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host)
{
	gpu->cu.CtxSetCurrent(gpu->context);
	while (host->count)
		(void)unregister_range(gpu, &host->attached[--host->count]);
	for (int half = 0; half < 2; half++) {
		if (host->copied[half])
			gpu->cu.EventDestroy(host->copied[half]);
		if (host->staging[half])
			gpu->cu.MemFreeHost(host->staging[half]);
	}
	memset(host, 0, sizeof *host);
}

static int refuse_overlap(struct hr_cuda_gpu *gpu, const struct hr_cuda_host *host,
			  const uint8_t *cpu, size_t bytes)
{
	for (unsigned i = 0; i < host->count; i++) {
		const uint8_t *other = host->attached[i].cpu;

		if (cpu < other + host->attached[i].bytes && other < cpu + bytes)
			return hr_cuda_fail(&gpu->cu, -EEXIST,
					    "host memory %p, %zu bytes: already attached, as %p, "
					    "%zu bytes",
					    (const void *)cpu, bytes, (const void *)other,
					    host->attached[i].bytes);
	}
	return 0;
}

static int check_range(struct hr_cuda_gpu *gpu, const struct hr_cuda_host *host, const void *cpu,
		       size_t bytes)
{
	if (!cpu || bytes == 0 || ((uintptr_t)cpu | bytes) % HR_PAGE ||
	    bytes > SIZE_MAX - (uintptr_t)cpu)
		return hr_cuda_fail(&gpu->cu, -EINVAL,
				    "host memory %p, %zu bytes: not whole pages of %u bytes", cpu,
				    bytes, HR_PAGE);
	if (host->count == HR_CUDA_ATTACHED_MAX)
		return hr_cuda_fail(&gpu->cu, -ENOSPC,
				    "at most %u ranges of host memory can be attached",
				    HR_CUDA_ATTACHED_MAX);
	return refuse_overlap(gpu, host, cpu, bytes);
}

int hr_cuda_attach(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, void *cpu, size_t bytes,
		   bool io, void **worker)
{
	const struct hr_cuda_attached range = { cpu, bytes, io };
	CUdeviceptr at = 0;
	int err = check_range(gpu, host, cpu, bytes);

	if (!err)
		err = hr_cuda_gpu_enter(gpu);
	if (!err)
		err = register_range(gpu, cpu, bytes, io);
	if (err)
		return err;
	err = HR_CU(&gpu->cu, MemHostGetDevicePointer, &at, cpu, 0);
	if (err) {
		(void)unregister_range(gpu, &range);
		return err;
	}
	host->attached[host->count++] = range;
	*worker = (void *)(uintptr_t)at;
	return 0;
}

int hr_cuda_detach(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, void *cpu)
{
	int err = hr_cuda_gpu_enter(gpu);

	for (unsigned i = 0; i < host->count; i++) {
		const struct hr_cuda_attached range = host->attached[i];
		int failed;

		if (range.cpu != cpu)
			continue;
		host->attached[i] = host->attached[--host->count];
		failed = unregister_range(gpu, &range);
		return err ? err : failed;
	}
	return hr_cuda_fail(&gpu->cu, -ENOENT, "host memory %p is not attached", cpu);
}

static int start_copy(struct hr_cuda_gpu *gpu, CUevent copied, CUdeviceptr to, CUdeviceptr from,
		      size_t bytes)
{
	int err = HR_CU(&gpu->cu, MemcpyAsync, to, from, bytes, gpu->stream);

	return err ? err : HR_CU(&gpu->cu, EventRecord, copied, gpu->stream);
}

int hr_cuda_upload(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, void *worker,
		   const void *cpu, size_t bytes)
{
	const uint8_t *from = cpu;
	int err = hr_cuda_gpu_enter(gpu);
	bool used[2] = { false, false };
	unsigned half = 0;

	for (size_t at = 0, n; !err && at < bytes; at += n, half ^= 1) {
		n = min_size(bytes - at, HR_CUDA_STAGING);
		if (used[half])
			err = hr_cuda_gpu_wait(gpu, host->copied[half]);
		if (err)
			return err;
		memcpy(host->staging[half], from + at, n);
		used[half] = true;
		err = start_copy(gpu, host->copied[half], (CUdeviceptr)worker + at,
				 (CUdeviceptr)host->staging[half], n);
	}
	for (unsigned i = 0; !err && i < 2; i++, half ^= 1)
		if (used[half])
			err = hr_cuda_gpu_wait(gpu, host->copied[half]);
	return err;
}

/* Wait until the piece at `at` has arrived in its half of the pinned memory, and copy it from
 * there. */
static int copy_arrived_piece(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, unsigned half,
			      uint8_t *to, size_t bytes)
{
	int err = hr_cuda_gpu_wait(gpu, host->copied[half]);

	if (!err)
		memcpy(to, host->staging[half], bytes);
	return err;
}

int hr_cuda_download(struct hr_cuda_gpu *gpu, struct hr_cuda_host *host, void *cpu,
		     const void *worker, size_t bytes)
{
	uint8_t *to = cpu;
	int err = hr_cuda_gpu_enter(gpu);
	unsigned half = 0;
	size_t at, n;

	for (at = 0; !err && at < bytes; at += n, half ^= 1) {
		n = min_size(bytes - at, HR_CUDA_STAGING);
		err = start_copy(gpu, host->copied[half], (CUdeviceptr)host->staging[half],
				 (CUdeviceptr)worker + at, n);
		if (!err && at)
			err = copy_arrived_piece(gpu, host, half ^ 1, to + at - HR_CUDA_STAGING,
						 HR_CUDA_STAGING);
	}
	if (!err && bytes) {
		const size_t last = (bytes - 1) / HR_CUDA_STAGING * HR_CUDA_STAGING;

		err = copy_arrived_piece(gpu, host, half ^ 1, to + last, bytes - last);
	}
	return err;
}
