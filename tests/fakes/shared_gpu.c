/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/shared_gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake_shared_gpu fake_shared_gpu;

static struct hr_gpu_facts facts;
static int object = -1;
static size_t object_at, object_bytes;
static uint8_t *worker; /* of the region */

static int refuse(int err, struct hr_error *e)
{
	return hr_fail(e, HR_ERROR_MISSING, err, "fake GPU: %s", strerror(-err));
}

static int reserve_shared(struct hr_backend *b, size_t bytes, struct hr_region *region,
			  struct hr_error *e)
{
	if (fake_shared_gpu.reserve)
		return refuse(fake_shared_gpu.reserve, e);
	worker = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (worker == MAP_FAILED)
		abort();
	*region = (struct hr_region){ .kind = HR_REGION_GPU, .worker = worker, .bytes = bytes };
	fake_shared_gpu.regions++;
	return 0;
}

static void drop_object(void)
{
	if (object < 0)
		return;
	munmap(fake_shared_gpu.memory, object_bytes);
	close(object);
	object = -1;
	fake_shared_gpu.memory = NULL;
}

static int make_shared(struct hr_backend *b, const struct hr_region *region, size_t offset,
		       size_t bytes, size_t *made, int *fd, struct hr_error *e)
{
	if (fake_shared_gpu.make)
		return refuse(fake_shared_gpu.make, e);
	drop_object();
	object = memfd_create("fake GPU", MFD_CLOEXEC);
	if (object < 0 || ftruncate(object, (off_t)bytes) != 0)
		abort();
	fake_shared_gpu.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
	object_at = offset;
	object_bytes = *made = bytes;
	*fd = dup(object);
	return 0;
}

static int export_shared(struct hr_backend *b, const struct hr_region *region, size_t offset,
			 int *fd, struct hr_error *e)
{
	if (fake_shared_gpu.export)
		return refuse(fake_shared_gpu.export, e);
	if (object < 0 || region->worker != worker || offset != object_at)
		return refuse(-EINVAL, e);
	*fd = dup(object);
	return 0;
}

static int flush_shared(struct hr_backend *b)
{
	fake_shared_gpu.flushes++;
	return fake_shared_gpu.flush;
}

/* Where the test has a byte of the object. */
static uint8_t *find(const void *at, size_t bytes)
{
	const size_t from = (size_t)((const uint8_t *)at - worker) - object_at;

	if (object < 0 || from > object_bytes || bytes > object_bytes - from)
		abort();
	return fake_shared_gpu.memory + from;
}

static int upload(struct hr_backend *b, void *to, const void *cpu, size_t bytes, struct hr_error *e)
{
	if (fake_shared_gpu.upload)
		return refuse(fake_shared_gpu.upload, e);
	memcpy(find(to, bytes), cpu, bytes);
	return 0;
}

static int download(struct hr_backend *b, void *cpu, const void *from, size_t bytes,
		    struct hr_error *e)
{
	if (fake_shared_gpu.download)
		return refuse(fake_shared_gpu.download, e);
	memcpy(cpu, find(from, bytes), bytes);
	return 0;
}

static void free_region(struct hr_backend *b, struct hr_region *region)
{
	drop_object();
	munmap(region->worker, region->bytes);
	memset(region, 0, sizeof *region);
	fake_shared_gpu.regions--;
}

void fake_shared_gpu_open(struct hr_backend *backend, bool ordered)
{
	static const struct hr_backend_ops ops = {
		.reserve_shared = reserve_shared,
		.make_shared = make_shared,
		.export_shared = export_shared,
		.flush_shared = flush_shared,
		.upload = upload,
		.download = download,
		.free = free_region,
	};

	drop_object();
	memset(&fake_shared_gpu, 0, sizeof fake_shared_gpu);
	memset(backend, 0, sizeof *backend);
	backend->ops = &ops;
	backend->lanes = 32;
	backend->facts = &facts;
	facts.ordered_for_owner = ordered;
}
