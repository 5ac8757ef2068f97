/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Media in memory. Other threads see the write of a block by one command completely or not at all,
 * as on any ssd (Base: atomic write unit). Readers take no lock: the memory is divided into
 * stripes, each with a version that is odd during a write. A reader copies the data, and copies it
 * again when the version has changed meanwhile.
 */
#include <emmintrin.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/process.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "nvme/queue/worker.h"
#include "nvme/soft/internal.h"

/* number of versions; stripes with equal index modulo STRIPES share one */
#define STRIPES 4096u
#define STRIPE_BYTES ((size_t)64 << 10)
#define HUGE_PAGE ((size_t)2 << 20)
#define POPULATE_BYTES (32 * HUGE_PAGE) /* populated between two checks of *stop */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Thread sanitizer cannot know that data read during a race is discarded. */
#ifdef __SANITIZE_THREAD__
#define TRIES 0u
#else
#define TRIES 8u
#endif

/* Anonymous memory aligned to a huge page. */
static uint8_t *map_aligned(size_t bytes)
{
	const size_t room = bytes + HUGE_PAGE;
	uint8_t *whole = mmap(NULL, room, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (whole == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)whole & (HUGE_PAGE - 1);
	if (before)
		munmap(whole, before);
	munmap(whole + before + bytes, room - before - bytes);
	return hr_not_dumped(whole + before, bytes);
}

/* The kernel's estimate of the memory available without swapping; 0: unknown. */
static uint64_t available(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return (uint64_t)kib << 10;
}

/* Without this check the kernel would end a process instead of refusing the allocation. */
static int check_room(const struct soft_media *m, uint64_t bytes, struct hr_error *e)
{
	const uint64_t room = available();

	if (!room || bytes <= room)
		return 0;
	return hr_fail(
		e, HR_ERROR_MISSING, -ENOMEM,
		"soft:%s: size=%llu cannot be populated: %llu bytes of memory are available; "
		"take a smaller size, or populate=0",
		m->path ? m->path : "memory", (unsigned long long)bytes, (unsigned long long)room);
}

static int open_memory(struct soft_media *m, uint64_t bytes, bool populate)
{
	const size_t whole = (bytes + HR_PAGE - 1) & ~(uint64_t)(HR_PAGE - 1);

	if (whole > SIZE_MAX / 2)
		return -ENOMEM;
	m->version = calloc(STRIPES, sizeof(*m->version));
	m->memory = m->version ? map_aligned(whole) : NULL;
	if (!m->memory)
		return -ENOMEM;
	m->bytes = bytes;
	m->grain = populate ? HUGE_PAGE : HR_PAGE;
	/* otherwise the write of a single block would allocate a huge page */
	if (populate)
		madvise(m->memory, whole, MADV_HUGEPAGE);
	pthread_mutex_init(&m->wide, NULL);
	return 0;
}

int soft_memory_open(struct soft_media *m, uint64_t bytes, bool populate, struct hr_error *e)
{
	int err = populate ? check_room(m, bytes, e) : 0;

	if (err)
		return err;
	err = open_memory(m, bytes, populate);
	return err ? hr_fail(e, HR_ERROR_MISSING, err,
			     "soft:%s: size=%llu: cannot reserve that much address space",
			     m->path ? m->path : "memory", (unsigned long long)bytes)
		   : 0;
}

void soft_memory_close(struct soft_media *m)
{
	if (m->memory) {
		munmap(m->memory, (m->bytes + HR_PAGE - 1) & ~(uint64_t)(HR_PAGE - 1));
		pthread_mutex_destroy(&m->wide);
	}
	free(m->version);
	m->memory = NULL;
	m->version = NULL;
}

/* Read a piece of the image. */
static int load_media_piece(struct soft_media *m, uint64_t offset, size_t bytes)
{
	while (bytes) {
		struct iovec piece = { m->memory + offset, bytes };
		const ssize_t n = hr_file_read(m->fd, &piece, 1, offset);

		if (n == -EINTR)
			continue;
		if (n <= 0) /* 0: another process has truncated the file */
			return n ? (int)n : -EIO;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Allocate a piece. */
static int allocate(struct soft_media *m, uint64_t at, size_t n)
{
	if (madvise(m->memory + at, n, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL) /* before Linux 5.14: touch each page */
		return -errno;
	for (size_t i = 0; i < n; i += HR_PAGE)
		__atomic_store_n(&m->memory[at + i], 0, __ATOMIC_RELAXED);
	return 0;
}

int soft_memory_populate(struct soft_media *m, uint32_t part, uint32_t parts, const uint32_t *stop)
{
	const uint64_t pages = (m->bytes + HUGE_PAGE - 1) / HUGE_PAGE;
	const uint64_t end = (part + 1) * pages / parts * HUGE_PAGE;
	uint64_t at = part * pages / parts * HUGE_PAGE;

	for (; at < end && at < m->bytes && !__atomic_load_n(stop, __ATOMIC_ACQUIRE);
	     at += POPULATE_BYTES) {
		const uint64_t last = end < m->bytes ? end : m->bytes;
		const size_t n = last - at < POPULATE_BYTES ? last - at : POPULATE_BYTES;

		int err = allocate(m, at, n);

		if (!err && m->path)
			err = load_media_piece(m, at, n);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Write to the media with non-temporal stores. The data is not read again soon, and memory need not
 * load the cache lines that are about to be overwritten. With 14 threads this has twice the rate of
 * memcpy() for writes of 128 KiB, and 1.3 times for 4 KiB. Only for present pages: a page that the
 * kernel has just zeroed is in the caches. Reads use memcpy(): their result is read at once, and
 * prefetching the next command's page brings no gain.
 */
__attribute__((noinline)) static void stream(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 64) {
		const __m128i *source = (const __m128i *)(const void *)(from + at);
		__m128i *line = (__m128i *)(void *)(to + at);
		const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
		const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);

		_mm_stream_si128(line, a);
		_mm_stream_si128(line + 1, b);
		_mm_stream_si128(line + 2, c);
		_mm_stream_si128(line + 3, d);
	}
	_mm_sfence(); /* before the completion is posted */
}

static uint32_t *version_of(const struct soft_media *m, uint64_t offset)
{
	return &m->version[offset / STRIPE_BYTES % STRIPES];
}

static void lock(uint32_t *version)
{
	uint32_t idle = 0, now = __atomic_load_n(version, __ATOMIC_RELAXED);

	while (now & 1 || !__atomic_compare_exchange_n(version, &now, now + 1, false,
						       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		hr_idle(&idle);
		now = __atomic_load_n(version, __ATOMIC_RELAXED);
	}
}

static void unlock(uint32_t *version)
{
	__atomic_store_n(version, __atomic_load_n(version, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
}

static bool read_unlocked(const uint32_t *version, void *to, const void *from, size_t bytes)
{
	const uint32_t before = __atomic_load_n(version, __ATOMIC_ACQUIRE);

	if (before & 1)
		return false;
	memcpy(to, from, bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(version, __ATOMIC_RELAXED) == before;
}

/* Read within a stripe. After too many retries, take the version to keep writers out. */
static void read_stripe(uint32_t *version, void *to, const void *from, size_t bytes)
{
	uint32_t idle = 0;

	for (unsigned i = TRIES; i > 0; i--) {
		if (read_unlocked(version, to, from, bytes))
			return;
		hr_idle(&idle);
	}
	lock(version);
	memcpy(to, from, bytes);
	unlock(version);
}

/* Bytes from offset to the end of its stripe, at most `bytes`. */
static size_t in_stripe(uint64_t offset, size_t bytes)
{
	const size_t left = STRIPE_BYTES - offset % STRIPE_BYTES;

	return bytes < left ? bytes : left;
}

void soft_memory_read(const struct soft_media *m, uint64_t offset, void *to, size_t bytes)
{
	uint8_t *at = to;

	while (bytes) {
		const size_t n = in_stripe(offset, bytes);

		read_stripe(version_of(m, offset), at, m->memory + offset, n);
		at += n;
		offset += n;
		bytes -= n;
	}
}

void soft_memory_write(struct soft_media *m, uint64_t offset, const void *from, size_t bytes)
{
	const uint8_t *at = from;

	while (bytes) {
		const size_t n = in_stripe(offset, bytes);

		lock(version_of(m, offset));
		if (m->grain == HUGE_PAGE && n >= HR_PAGE && (offset | n) % 64 == 0)
			stream(m->memory + offset, at, n);
		else
			memcpy(m->memory + offset, at, n);
		unlock(version_of(m, offset));
		at += n;
		offset += n;
		bytes -= n;
	}
}

/* Return whole grains to the system, which replaces them with zeroed pages. */
static void zero_grains(struct soft_media *m, uint64_t offset, uint64_t bytes)
{
	const uint64_t end = offset + bytes;
	const uint64_t first = (offset + m->grain - 1) & ~(m->grain - 1);
	const uint64_t last = end & ~(m->grain - 1);

	if (first >= last || madvise(m->memory + first, last - first, MADV_DONTNEED) != 0) {
		memset(m->memory + offset, 0, bytes);
		return;
	}
	memset(m->memory + offset, 0, first - offset);
	memset(m->memory + last, 0, end - last);
}

/* No deadlock: other threads hold at most one version, and `wide` admits one thread here. */
void soft_memory_discard(struct soft_media *m, uint64_t offset, uint64_t bytes)
{
	const uint64_t first = offset / STRIPE_BYTES, last = (offset + bytes - 1) / STRIPE_BYTES;
	const uint64_t stripes = last - first < STRIPES ? last - first + 1 : STRIPES;

	hr_mutex_lock(&m->wide);
	for (uint64_t i = 0; i < stripes; i++)
		lock(&m->version[(first + i) % STRIPES]);
	zero_grains(m, offset, bytes);
	for (uint64_t i = 0; i < stripes; i++)
		unlock(&m->version[(first + i) % STRIPES]);
	pthread_mutex_unlock(&m->wide);
}
