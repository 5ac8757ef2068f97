/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/remote/stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int load_gpu_tile(void *to, uint64_t at, void *data, size_t bytes)
{
	const struct hr_remote_gpu_tiles *gpu = to;

	return gpu->backend->ops->download(gpu->backend, data, gpu->tiles + at, bytes, NULL);
}

static int store(void *to, uint64_t at, const void *data, size_t bytes)
{
	const struct hr_remote_gpu_tiles *gpu = to;

	return gpu->backend->ops->upload(gpu->backend, gpu->tiles + at, data, bytes, NULL);
}

static int flush_gpu_tiles(void *to)
{
	const struct hr_remote_gpu_tiles *gpu = to;

	return gpu->backend->ops->flush_shared(gpu->backend);
}

int hr_remote_gpu_open(struct hr_remote_gpu_tiles *gpu, struct hr_backend *backend,
		       const struct hr_region *tap, uint64_t offset, struct hr_rdma_memory *memory,
		       struct hr_error *e)
{
	const bool ordered = backend->facts && backend->facts->ordered_for_owner;
	int dmabuf, err;

	memset(gpu, 0, sizeof *gpu);
	err = backend->ops->export_shared(backend, tap, offset, &dmabuf, e);
	if (err) {
		hr_error_context(e, "no dma-buf of the tiles");
		return err;
	}
	gpu->backend = backend;
	gpu->tiles = (uint8_t *)tap->worker + offset;
	gpu->dmabuf = memory->dmabuf = dmabuf;
	memory->base = gpu->tiles;
	memory->load = load_gpu_tile;
	memory->store = store;
	memory->flush = ordered ? NULL : flush_gpu_tiles;
	memory->to = gpu;
	return 0;
}

static int reserve_gpu_tiles(struct hr_backend *b, struct hr_region *region, uint64_t bytes,
			     struct hr_error *e)
{
	size_t object;
	int fd = -1, err = b->ops->reserve_shared(b, bytes, region, e);

	if (err)
		return err;
	err = b->ops->make_shared(b, region, 0, bytes, &object, &fd, e);
	if (err)
		b->ops->free(b, region);
	else
		close(fd);
	return err;
}

int hr_remote_gpu_take(struct hr_remote_gpu_tiles *gpu, struct hr_backend *backend, uint32_t slots,
		       uint32_t slot_bytes, struct hr_rdma_memory *memory, struct hr_error *e)
{
	const uint64_t bytes = (uint64_t)slots * slot_bytes;
	struct hr_region region = { 0 };
	int err = reserve_gpu_tiles(backend, &region, bytes, e);

	if (err)
		return err;
	*memory = (struct hr_rdma_memory){ .bytes = bytes, .slots = slots, .stride = slot_bytes };
	err = hr_remote_gpu_open(gpu, backend, &region, 0, memory, e);
	if (err)
		backend->ops->free(backend, &region);
	else
		gpu->region = region;
	return err;
}

void hr_remote_gpu_close(struct hr_remote_gpu_tiles *gpu)
{
	if (!gpu->backend)
		return;
	close(gpu->dmabuf);
	if (gpu->region.bytes)
		gpu->backend->ops->free(gpu->backend, &gpu->region);
	memset(gpu, 0, sizeof *gpu);
}
