/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/dma/hostmem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/process.h"
#include "config/base/log.h"
#include "config/base/limits.h"
#include "config/base/tick.h"

#define HUGE_SHIFT 21u
#define HUGE_PAGE ((size_t)1 << HUGE_SHIFT)
#define PAGE_SHIFT 12u
#define PIECE ((size_t)64 << 20)  /* whole huge pages, mapped or unmapped between two ticks */
#define PIN_MAX ((size_t)1 << 30) /* bytes of one io_uring buffer */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_PFN ((1ull << 55) - 1)
#define MEMFD_2MB (HUGE_SHIFT << 26) /* MFD_HUGE_2MB, which glibc does not have */
#define FREE_PAGES "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

/* Resources of a region of physical memory besides its pages; a descriptor is -1 when not open. */
struct taken {
	void *cpu; /* NULL: free entry */
	struct hr_bus *granule;
	int file; /* of huge pages */
	int ring; /* io_uring that pins the pages */
};

static enum hr_hostmem_kind chosen;
static struct taken taken[HR_HOSTMEM_MAX];
static unsigned in_use;

int hr_hostmem_set_kind(enum hr_hostmem_kind kind, struct hr_error *e)
{
	if (kind != chosen && in_use)
		return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
			       "host memory: %u regions with %s addresses are in use already",
			       in_use, chosen == HR_HOSTMEM_PHYSICAL ? "physical" : "translated");
	chosen = kind;
	return 0;
}

enum hr_hostmem_kind hr_hostmem_kind(void)
{
	return chosen;
}

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) & ~(to - 1);
}

static size_t piece_of(size_t left)
{
	return left < PIECE ? left : PIECE;
}

static void touch_pages(uint8_t *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += HR_PAGE)
		*(volatile uint8_t *)(memory + at) = 0;
}

/*
 * Take all page faults now, so that a running pipeline has none. When memory is short, the kernel
 * returns an error to a call for many pages. Touching page after page would instead end the
 * process.
 */
static bool populate_pages(uint8_t *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PIECE) {
		if (madvise(memory + at, piece_of(bytes - at), MADV_POPULATE_WRITE) != 0) {
			if (errno != EINVAL) /* EINVAL: Linux before 5.14 */
				return false;
			touch_pages(memory + at, piece_of(bytes - at));
		}
		hr_tick();
	}
	return true;
}

static void unmap_pages(uint8_t *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PIECE) {
		munmap(memory + at, piece_of(bytes - at));
		hr_tick();
	}
}

/* Anonymous memory, aligned for huge pages; NULL and errno. */
static uint8_t *map_aligned(size_t bytes)
{
	const size_t all = bytes + HUGE_PAGE - HR_PAGE;
	uint8_t *memory, *start, *end;

	if (all < bytes) {
		errno = ENOMEM;
		return NULL;
	}
	memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	hr_not_dumped(memory, all);
	start = (uint8_t *)round_up((uintptr_t)memory, HUGE_PAGE);
	end = start + bytes;
	if (start > memory)
		munmap(memory, (size_t)(start - memory));
	if (memory + all > end)
		munmap(end, (size_t)(memory + all - end));
	return start;
}

static uint8_t *map_small(size_t bytes, size_t huge_from)
{
	uint8_t *memory = map_aligned(bytes);

	if (!memory)
		return NULL;
	/* Fewer TLB misses on tiles. Small regions do not use huge pages, so that resident
	 * memory does not exceed the memory in use. */
	if (bytes >= huge_from)
		madvise(memory, bytes, MADV_HUGEPAGE);
	if (!populate_pages(memory, bytes)) {
		const int err = errno;

		unmap_pages(memory, bytes);
		errno = err;
		return NULL;
	}
	madvise(memory, bytes, MADV_DONTFORK);
	return memory;
}

/* ---- physical memory */

static unsigned long free_huge_pages(void)
{
	unsigned long count = 0;
	FILE *file = fopen(FREE_PAGES, "re");

	if (!file)
		return 0;
	if (fscanf(file, "%lu", &count) != 1)
		count = 0;
	fclose(file);
	return count;
}

/* A file, because a process that inherits the descriptor keeps the pages when this process ends. */
static uint8_t *map_huge(struct taken *t, size_t bytes)
{
	uint8_t *memory;

	t->file = memfd_create("headrace", MFD_CLOEXEC | MFD_HUGETLB | MEMFD_2MB);
	if (t->file < 0)
		return NULL;
	if (ftruncate(t->file, (off_t)bytes) == 0) {
		/* This mmap() reserves the pages, so that no later access lacks one. */
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->file, 0);
		if (memory != MAP_FAILED && populate_pages(memory, bytes)) {
			madvise(memory, bytes, MADV_DONTFORK);
			return hr_not_dumped(memory, bytes);
		}
		if (memory != MAP_FAILED)
			unmap_pages(memory, bytes);
	}
	close(t->file);
	t->file = -1;
	return NULL;
}

static int register_buffers(int ring, uint8_t *memory, size_t bytes)
{
	const unsigned count = (unsigned)((bytes + PIN_MAX - 1) / PIN_MAX);
	struct iovec *vec = calloc(count, sizeof(*vec));
	long err;

	if (!vec)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		const size_t at = i * PIN_MAX, left = bytes - at;

		vec[i].iov_base = memory + at;
		vec[i].iov_len = left < PIN_MAX ? left : PIN_MAX;
	}
	err = syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, vec, count);
	err = err < 0 ? -errno : 0;
	free(vec);
	return (int)err;
}

/*
 * mlock() keeps pages in memory, but the kernel may still move them. The kernel does not move
 * memory that is pinned for long-term DMA. Registered buffers of an io_uring are pinned in that
 * way, and need no driver.
 */
static int pin(struct taken *t, uint8_t *memory, size_t bytes)
{
	struct io_uring_params params = { 0 };
	long ring = syscall(SYS_io_uring_setup, 1, &params);
	int err;

	if (ring < 0)
		return -errno;
	fcntl((int)ring, F_SETFD, FD_CLOEXEC);
	err = register_buffers((int)ring, memory, bytes);
	if (err)
		close((int)ring);
	else
		t->ring = (int)ring;
	return err;
}

static int hidden(const char *name, struct hr_error *e)
{
	return hr_fail(e, HR_ERROR_MISSING, -EACCES,
		       "host memory '%s': physical addresses are hidden from this user; run as "
		       "root (CAP_SYS_ADMIN), or use vfio:BDF",
		       name);
}

/* Documentation/admin-guide/mm/pagemap.rst. Only the first small page of each granule is read. */
static int find_addresses(struct taken *t, const struct hr_region *region, struct hr_error *e)
{
	const size_t count = region->bytes >> region->granule_shift;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return hidden(region->name, e);
	t->granule = calloc(count, sizeof(*t->granule));
	if (!t->granule)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < count; i++) {
		const uintptr_t at = (uintptr_t)region->cpu + (i << region->granule_shift);
		uint64_t entry = 0;

		if (pread(fd, &entry, sizeof(entry), (off_t)(at / HR_PAGE * sizeof(entry))) !=
			    (ssize_t)sizeof(entry) ||
		    (entry & PAGEMAP_PRESENT && !(entry & PAGEMAP_PFN)))
			err = hidden(region->name, e);
		else if (!(entry & PAGEMAP_PRESENT))
			err = -ENOMEM;
		t->granule[i].addr = (entry & PAGEMAP_PFN) * HR_PAGE;
		hr_tick();
	}
	close(fd);
	if (err == -ENOMEM)
		hr_fail(e, HR_ERROR_MISSING, err,
			"host memory '%s': cannot get %zu bytes: the kernel has no page for part "
			"of it",
			region->name, region->bytes);
	return err;
}

static void release_region(struct taken *t, size_t bytes)
{
	if (t->ring >= 0)
		close(t->ring);
	unmap_pages(t->cpu, bytes);
	if (t->file >= 0)
		close(t->file);
	free(t->granule);
	memset(t, 0, sizeof(*t));
}

static struct taken *free_entry(void)
{
	for (unsigned i = 0; i < HR_HOSTMEM_MAX; i++)
		if (!taken[i].cpu)
			return &taken[i];
	return NULL;
}

/* Use small pages when huge pages are short. Log it, because queues may not fit in small pages. */
static uint8_t *fall_back(const char *name, size_t bytes)
{
	const unsigned long wanted = (unsigned long)(round_up(bytes, HUGE_PAGE) >> HUGE_SHIFT);

	hr_warn("host memory '%s': %lu huge pages of 2 MiB wanted, %lu free: using pages of 4 KiB; "
		"more huge pages: echo N > /proc/sys/vm/nr_hugepages",
		name, wanted, free_huge_pages());
	return map_small(round_up(bytes, HR_PAGE), HUGE_PAGE);
}

static int describe_region(struct taken *t, struct hr_region *region, struct hr_error *e)
{
	const bool huge = t->file >= 0;
	int err = pin(t, region->cpu, region->bytes);

	if (err && huge) {
		/* In a running kernel only memory hot-unplug moves huge pages. */
		hr_info("host memory '%s': huge pages are not pinned (io_uring: %s)", region->name,
			strerror(-err));
	} else if (err) {
		return hr_fail(
			e, HR_ERROR_MISSING, -ENOTSUP,
			"host memory '%s': pages of 4 KiB cannot be pinned (io_uring: %s), and "
			"there are not enough huge pages; echo N > /proc/sys/vm/nr_hugepages",
			region->name, strerror(-err));
	}
	err = find_addresses(t, region, e);
	region->granule_bus = t->granule;
	return err;
}

static int allocate_physical(struct hr_region *region, const char *name, size_t bytes,
			     struct hr_error *e)
{
	struct taken *t = free_entry();
	size_t all = round_up(bytes, HUGE_PAGE);
	int err;

	if (!t)
		return hr_fail(e, HR_ERROR_MISSING, -ENOSPC, "host memory '%s': over %u regions",
			       name, HR_HOSTMEM_MAX);
	*t = (struct taken){ .file = -1, .ring = -1 };
	t->cpu = map_huge(t, all);
	if (!t->cpu) {
		all = round_up(bytes, HR_PAGE);
		t->cpu = fall_back(name, bytes);
	}
	if (!t->cpu)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "host memory '%s': cannot get %zu bytes: %s", name, all,
			       strerror(errno));
	*region = (struct hr_region){ .name = name,
				      .kind = HR_REGION_HOST,
				      .cpu = t->cpu,
				      .worker = t->cpu,
				      .bytes = all,
				      .granule_shift = t->file >= 0 ? HUGE_SHIFT : PAGE_SHIFT };
	err = describe_region(t, region, e);
	if (err) {
		release_region(t, all);
		memset(region, 0, sizeof(*region));
		return err;
	}
	region->bus = region->granule_bus[0];
	return 0;
}

/* ---- assigned I/O addresses */

static int allocate_private(struct hr_region *region, const char *name, size_t bytes,
			    struct hr_error *e)
{
	const size_t all = round_up(bytes, HR_PAGE);
	uint8_t *memory = map_small(all, 4 * HUGE_PAGE);
	int err;

	if (!memory)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "host memory '%s': cannot get %zu bytes: %s", name, all,
			       strerror(errno));
	err = hr_region_init_host(region, name, memory, all);
	if (err) {
		hr_fail(e, HR_ERROR_MISSING, err,
			"host memory '%s': no I/O addresses left for %zu bytes", name, all);
		munmap(memory, all);
	}
	return err;
}

int hr_hostmem_alloc(struct hr_region *region, const char *name, size_t bytes, struct hr_error *e)
{
	int err;

	memset(region, 0, sizeof(*region));
	if (bytes == 0)
		return -EINVAL;
	if (bytes > SIZE_MAX / 2) /* round_up() would overflow to 0 */
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "host memory '%s': cannot get %zu bytes", name, bytes);
	err = chosen == HR_HOSTMEM_PHYSICAL ? allocate_physical(region, name, bytes, e)
					    : allocate_private(region, name, bytes, e);
	in_use += !err;
	return err;
}

void hr_hostmem_free(struct hr_region *region)
{
	struct taken *found = NULL;

	if (!region->cpu)
		return;
	for (unsigned i = 0; i < HR_HOSTMEM_MAX; i++)
		if (taken[i].cpu == region->cpu)
			found = &taken[i];
	if (found) {
		release_region(found, region->bytes);
	} else {
		unmap_pages(region->cpu, region->bytes);
		hr_region_unassign_bus();
	}
	in_use--;
	memset(region, 0, sizeof(*region));
}
