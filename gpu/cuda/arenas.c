/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/state.h"

#include <errno.h>
#include <string.h>

int hr_cuda_name_error(const struct hr_backend *b, int err, struct hr_error *e)
{
	const struct hr_cuda *cuda = b->impl;
	const struct hr_error *own = &cuda->gpu.cu.error;

	return err ? hr_fail(e, own->kind, err, "%s: %s", b->name, own->text) : 0;
}

static int refuse_arena(struct hr_cuda *cuda)
{
	return hr_cuda_fail(&cuda->gpu.cu, -ENOMEM, "at most %u pieces of GPU memory can be in use",
			    HR_CUDA_ARENAS_MAX);
}

int hr_cuda_alloc(struct hr_backend *b, size_t bytes, struct hr_region *region, struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;
	struct hr_cuda_arena *arena = hr_cuda_arena_find(cuda->arena, HR_CUDA_ARENAS_MAX, 0);
	int err;

	if (!arena)
		return hr_cuda_name_error(b, refuse_arena(cuda), e);
	err = hr_cuda_arena_open(&cuda->gpu, arena, bytes, cuda->gpu.facts.memory_bytes,
				 cuda->compressible);
	if (err)
		return hr_cuda_name_error(b, err, e);
	hr_cuda_arena_report(arena, b->name);
	memset(region, 0, sizeof *region);
	region->kind = HR_REGION_GPU;
	region->worker = (void *)(uintptr_t)arena->base;
	region->bytes = arena->bytes;
	return 0;
}

void hr_cuda_free(struct hr_backend *b, struct hr_region *region)
{
	struct hr_cuda *cuda = b->impl;
	struct hr_cuda_arena *arena =
		hr_cuda_arena_find(cuda->arena, HR_CUDA_ARENAS_MAX, (CUdeviceptr)region->worker);

	if (region->worker && arena)
		hr_cuda_arena_close(&cuda->gpu, arena);
	memset(region, 0, sizeof *region);
}

int hr_cuda_reserve_shared(struct hr_backend *b, size_t bytes, struct hr_region *region,
			   struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;
	struct hr_cuda_arena *arena = hr_cuda_arena_find(cuda->arena, HR_CUDA_ARENAS_MAX, 0);
	int err;

	if (!arena)
		return hr_cuda_name_error(b, refuse_arena(cuda), e);
	err = hr_cuda_arena_reserve(&cuda->gpu, arena, bytes);
	if (err)
		return hr_cuda_name_error(b, err, e);
	memset(region, 0, sizeof *region);
	region->kind = HR_REGION_GPU;
	region->worker = (void *)(uintptr_t)arena->base;
	region->bytes = arena->reserved;
	return 0;
}

/* The chunk at `offset`; the number of chunks: none. */
static unsigned find_chunk(const struct hr_cuda_arena *arena, size_t offset)
{
	unsigned i = 0;

	while (i < arena->chunks && arena->chunk[i].at != offset)
		i++;
	return i;
}

/* The chunk at `offset`, made by *err: a new one behind all others, or other memory for an
 * earlier one. */
static unsigned make_chunk(struct hr_cuda *cuda, struct hr_cuda_arena *arena, size_t offset,
			   size_t bytes, int *err)
{
	const unsigned i = find_chunk(arena, offset);

	if (i < arena->chunks && bytes <= arena->chunk[i].bytes)
		*err = hr_cuda_arena_renew(&cuda->gpu, arena, i);
	else if (offset == arena->bytes)
		*err = hr_cuda_arena_grow(&cuda->gpu, arena, bytes);
	else
		*err = hr_cuda_fail(&cuda->gpu.cu, -EINVAL,
				    "memory to share begins at %zu, not behind the last one",
				    offset);
	return i;
}

int hr_cuda_make_shared(struct hr_backend *b, const struct hr_region *region, size_t offset,
			size_t bytes, size_t *object, int *fd, struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;
	struct hr_cuda_arena *arena =
		hr_cuda_arena_find(cuda->arena, HR_CUDA_ARENAS_MAX, (CUdeviceptr)region->worker);
	int err = -EINVAL;
	const unsigned i = make_chunk(cuda, arena, offset, bytes, &err);

	if (!err)
		err = hr_cuda_arena_export(&cuda->gpu, arena, i, fd);
	if (err)
		return hr_cuda_name_error(b, err, e);
	*object = arena->chunk[i].bytes;
	return 0;
}

int hr_cuda_export_shared(struct hr_backend *b, const struct hr_region *region, size_t offset,
			  int *fd, struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;
	struct hr_cuda_arena *arena =
		hr_cuda_arena_find(cuda->arena, HR_CUDA_ARENAS_MAX, (CUdeviceptr)region->worker);

	return hr_cuda_name_error(
		b, hr_cuda_arena_export_dmabuf(&cuda->gpu, arena, find_chunk(arena, offset), fd),
		e);
}

int hr_cuda_flush_shared(struct hr_backend *b)
{
	struct hr_cuda *cuda = b->impl;

	return hr_cuda_flush_writes(&cuda->gpu);
}

int hr_cuda_share(struct hr_backend *b, const struct hr_region *region, struct hr_backend *other,
		  struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;
	const int ordinal = ((const struct hr_cuda *)other->impl)->gpu.ordinal;
	struct hr_cuda_arena *arena = region && region->worker
					      ? hr_cuda_arena_find(cuda->arena, HR_CUDA_ARENAS_MAX,
								   (CUdeviceptr)region->worker)
					      : NULL;

	return hr_cuda_name_error(b,
				  arena ? hr_cuda_arena_share(&cuda->gpu, arena, ordinal)
					: hr_cuda_can_share(&cuda->gpu, ordinal),
				  e);
}
