/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory system call by system call, and what is undone when the n-th one fails. The test plays
 * the kernel for nvme/dma/hostmem.c; tests/unit/nvme/dma/hostmem.c has the real one. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "config/base/tick.h"
#include "nvme/dma/hostmem.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define MIB ((size_t)1 << 20)
#define ARENA (3072 * MIB) /* address space in which all memory lies; a page is used when written */
#define FILE_OF_PAGES 900
#define RING 901
#define EARLY __attribute__((no_sanitize_thread)) /* that sanitizer calls it as it begins */
#define PAGEMAP 902

/* The calls whose failure matters. */
enum call { NONE, MEMFD, TRUNCATE, FILE_MAP, POPULATE, SETUP, PIN, PAGES, ENTRY, MEMORY_MAP };

static struct {
	bool on;
	uint8_t *arena;		   /* aligned for huge pages */
	size_t shift;		   /* anonymous memory begins so many bytes behind it */
	size_t step;		   /* between the files of huge pages */
	size_t files;		   /* that were mapped */
	int error[MEMORY_MAP + 1]; /* errno of each call; 0: it succeeds */
	size_t fails_at;	   /* POPULATE: only the part from this offset on */
	size_t bad_entry;	   /* ENTRY: offset of the page whose entry is `entry` */
	uint64_t entry;
	const char *free_pages; /* text of the file; NULL: there is none */
	unsigned entries;	/* calls of pread() */
} kernel;

/* So that the next hr_tick() is due. */
#define say(...)                                \
	do {                                    \
		calls_note(__VA_ARGS__);        \
		fake_clock_advance(HR_TICK_NS); \
	} while (0)

static void tick(void *to, uint64_t now_ns)
{
	if (kernel.on && kernel.entries == 0)
		say("tick; ");
}

static int fails(enum call call)
{
	errno = kernel.error[call] ? kernel.error[call] : EINTR;
	return kernel.error[call] ? -1 : 0;
}

/* Position in the arena, in KiB. */
static size_t kib(const void *at)
{
	return (size_t)((const uint8_t *)at - kernel.arena) / 1024;
}

int memfd_create(const char *name, unsigned flags)
{
	say("memfd %s %x; ", name, flags);
	return fails(MEMFD) ? -1 : FILE_OF_PAGES;
}

int ftruncate(int fd, off_t bytes)
{
	if (fd != FILE_OF_PAGES)
		return (int)syscall(SYS_ftruncate, fd, bytes);
	say("truncate %zu; ", (size_t)bytes / 1024);
	return fails(TRUNCATE);
}

EARLY void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (!kernel.on)
		return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
	cr_assert(!at && protection == (PROT_READ | PROT_WRITE) && !offset);
	cr_assert_eq(flags, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	say("map %s %zu; ", fd == FILE_OF_PAGES ? "file" : "memory", bytes / 1024);
	if (fails(fd < 0 ? MEMORY_MAP : FILE_MAP))
		return MAP_FAILED;
	kernel.files += fd >= 0;
	return kernel.arena + (fd < 0 ? kernel.shift : (kernel.files - 1) * kernel.step);
}

EARLY int munmap(void *at, size_t bytes)
{
	if (!kernel.on)
		return (int)syscall(SYS_munmap, at, bytes);
	say("unmap %zu+%zu; ", kib(at), bytes / 1024);
	errno = EINTR; /* of an earlier call: it means nothing after a success */
	return 0;
}

int madvise(void *at, size_t bytes, int advice)
{
	if (!kernel.on || advice == MADV_DONTDUMP) /* tests/unit/config/base/dump.c */
		return (int)syscall(SYS_madvise, at, bytes, advice);
	say("%s %zu+%zu; ",
	    advice == MADV_POPULATE_WRITE ? "populate"
	    : advice == MADV_DONTFORK	  ? "dontfork"
	    : advice == MADV_HUGEPAGE	  ? "huge"
					  : "?",
	    kib(at), bytes / 1024);
	return advice == MADV_POPULATE_WRITE && kib(at) * 1024 >= kernel.fails_at ? fails(POPULATE)
										  : 0;
}

static long pin(int ring, int what, const struct iovec *vec, unsigned count)
{
	cr_assert_eq(ring, RING);
	cr_assert_eq(what, IORING_REGISTER_BUFFERS);
	say("pin");
	for (unsigned i = 0; i < count; i++)
		say(" %zu+%zu", kib(vec[i].iov_base), vec[i].iov_len / 1024);
	say("; ");
	return fails(PIN);
}

EARLY long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (kernel.on && number == SYS_io_uring_setup) {
		say("ring %ld; ", a[0]);
		return fails(SETUP) ? -1 : RING;
	}
	if (kernel.on && number == SYS_io_uring_register)
		return pin((int)a[0], (int)a[1], (const struct iovec *)a[2], (unsigned)a[3]);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int fcntl(int fd, int request, ...)
{
	va_list list;
	long value;

	va_start(list, request);
	value = va_arg(list, long);
	va_end(list);
	if (fd != RING)
		return (int)syscall(SYS_fcntl, fd, request, value);
	say("%s; ", request == F_SETFD && (int)value == FD_CLOEXEC ? "cloexec" : "?");
	return 0;
}

EARLY int open(const char *path, int flags, ...)
{
	va_list list;
	int mode;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, int) : 0;
	va_end(list);
	if (!kernel.on)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	say("open %s%s; ", path, flags == (O_RDONLY | O_CLOEXEC) ? "" : " ?");
	return fails(PAGES) ? -1 : PAGEMAP;
}

EARLY int close(int fd)
{
	if (fd < FILE_OF_PAGES || fd > PAGEMAP)
		return (int)syscall(SYS_close, fd);
	kernel.entries = 0;
	say("close %s; ", fd == RING ? "ring" : fd == PAGEMAP ? "pagemap" : "file");
	return 0;
}

/* Page p of the arena is page p + 5 of the memory; the entry also has flags above its number. */
ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
	const uint64_t page = (uint64_t)offset / 8 - (uintptr_t)kernel.arena / HR_PAGE;
	uint64_t entry = 1ull << 63 | 1ull << 61 | 1ull << 55 | (page + 5);

	cr_assert(fd == PAGEMAP && bytes == 8 && offset % 8 == 0);
	kernel.entries++;
	if (kernel.error[ENTRY] && page == kernel.bad_entry / HR_PAGE) {
		entry = kernel.entry;
		bytes = entry == UINT64_MAX ? 7 : 8;
	}
	memcpy(to, &entry, bytes);
	return (ssize_t)bytes;
}

FILE *fopen(const char *path, const char *mode)
{
	static FILE *(*real)(const char *, const char *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "fopen");
	if (!kernel.on)
		return real(path, mode);
	say("read %s; ", strrchr(path, '/') + 1);
	return kernel.free_pages ? fmemopen((void *)(uintptr_t)kernel.free_pages,
					    strlen(kernel.free_pages), "r")
				 : NULL;
}

static void setup(void)
{
	uint8_t *at = mmap(NULL, ARENA + 2 * MIB, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert_neq(at, MAP_FAILED);
	memset(&kernel, 0, sizeof kernel);
	calls_take();
	kernel.arena = (uint8_t *)(((uintptr_t)at + 2 * MIB - 1) & ~(2 * MIB - 1));
	fake_clock_start(HR_NS_PER_S, NULL, NULL);
	hr_tick_set(tick, NULL);
}

static void teardown(void)
{
	hr_tick_set(NULL, NULL);
	fake_clock_stop();
}

TestSuite(hostmem_calls, .init = setup, .fini = teardown, .timeout = 60);

static void expect_calls(const char *want, const char *row)
{
	const char *text = calls_take();

	cr_expect_str_eq(text, want, "%s: %s", row, text);
}

static int take(struct hr_region *region, size_t bytes)
{
	int err;

	kernel.on = true;
	err = hr_hostmem_alloc(region, "a", bytes, test_error());
	kernel.on = false;
	return err;
}

static void give(struct hr_region *region)
{
	kernel.on = true;
	hr_hostmem_free(region);
	kernel.on = false;
}

static bool is_empty(const struct hr_region *region)
{
	static const struct hr_region none;

	return memcmp(region, &none, sizeof none) == 0;
}

#define HUGE_4M                                                                          \
	"memfd headrace 54000005; truncate 4096; map file 4096; populate 0+4096; tick; " \
	"dontfork 0+4096; "
#define PINNED_4M "ring 1; cloexec; pin 0+4096; "
#define ADDRESSES "open /proc/self/pagemap; close pagemap; "
#define FREE "read free_hugepages; "

Test(hostmem_calls, huge_pages_are_reserved_pinned_and_given_back)
{
	struct hr_region region;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	cr_assert_eq(take(&region, 2 * MIB + 1), 0, "%s", test_error_text());
	expect_calls(HUGE_4M PINNED_4M ADDRESSES, "taken");
	cr_expect_str_eq(region.name, "a");
	cr_expect_eq(region.kind, HR_REGION_HOST);
	cr_expect_eq(region.cpu, kernel.arena);
	cr_expect_eq(region.worker, kernel.arena);
	cr_expect_eq(region.bytes, 4 * MIB);
	cr_expect_eq(region.granule_shift, 21u);
	cr_expect_eq(region.granule_bus[0].addr, 5 * HR_PAGE);
	cr_expect_eq(region.granule_bus[1].addr, 5 * HR_PAGE + 2 * MIB);
	cr_expect_eq(region.bus.addr, 5 * HR_PAGE);
	give(&region);
	expect_calls("close ring; unmap 0+4096; tick; close file; ", "given back");
	cr_expect(is_empty(&region));
	/* exactly whole huge pages are not rounded up, and the entry is used again */
	for (unsigned i = 0; i <= HR_HOSTMEM_MAX; i++) {
		cr_assert_eq(take(&region, 4 * MIB), 0);
		expect_calls(HUGE_4M PINNED_4M ADDRESSES, "taken again");
		give(&region);
		calls_take();
	}
}

/* 64 MiB at a time are taken and given back, and 1 GiB at a time is pinned. */
Test(hostmem_calls, large_memory_is_handled_in_pieces)
{
	static const struct {
		size_t mib;
		const char *pinned;
	} row[] = {
		{ 64, "pin 0+65536; " },
		{ 66, "pin 0+67584; " },
		{ 1024, "pin 0+1048576; " },
		{ 1026, "pin 0+1048576 1048576+2048; " },
		{ 2048, "pin 0+1048576 1048576+1048576; " },
	};

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char taken[2048] = "", given[2048] = "close ring; ";
		struct hr_region region;
		const char *text;

		for (size_t at = 0; at < row[i].mib; at += 64) {
			const size_t left = row[i].mib - at < 64 ? row[i].mib - at : 64;

			snprintf(taken + strlen(taken), 64, "populate %zu+%zu; tick; ", at * 1024,
				 left * 1024);
			snprintf(given + strlen(given), 64, "unmap %zu+%zu; tick; ", at * 1024,
				 left * 1024);
		}
		cr_assert_eq(take(&region, row[i].mib * MIB), 0, "%s", test_error_text());
		text = calls_take();
		cr_expect(strstr(text, taken), "%s", text);
		cr_expect(strstr(text, row[i].pinned), "%s", text);
		cr_expect_eq(region.granule_bus[row[i].mib / 2 - 1].addr,
			     5 * HR_PAGE + (row[i].mib - 2) * MIB);
		give(&region);
		expect_calls(strcat(given, "close file; "), "given");
	}
}

/* Small pages: the piece that is aligned for huge pages is kept. 4 KiB and 3 MiB. */
Test(hostmem_calls, pages_of_4_kib_are_pinned_when_huge_pages_are_short)
{
	static const struct {
		size_t bytes, shift;
		enum call fails;
		const char *free_pages, *calls, *given;
		unsigned long wanted, free;
	} row[] = {
		{ 1, 4096, MEMFD, "7\n",
		  "memfd headrace 54000005; " FREE "map memory 2048; unmap 4+2044; "
		  "populate 2048+4; tick; dontfork 2048+4; ring 1; cloexec; "
		  "pin 2048+4; " ADDRESSES,
		  "close ring; unmap 2048+4; tick; ", 1, 7 },
		{ 3 * MIB - 5, 0, TRUNCATE, "x\n",
		  "memfd headrace 54000005; truncate 4096; close file; " FREE "map memory 5116; "
		  "unmap 3072+2044; huge 0+3072; populate 0+3072; tick; dontfork 0+3072; "
		  "ring 1; cloexec; pin 0+3072; " ADDRESSES,
		  "close ring; unmap 0+3072; tick; ", 2, 0 },
		{ 2 * MIB, 4096, FILE_MAP, NULL,
		  "memfd headrace 54000005; truncate 2048; map file 2048; close file; " FREE
		  "map memory 4092; unmap 4+2044; huge 2048+2048; populate 2048+2048; tick; "
		  "dontfork 2048+2048; ring 1; cloexec; pin 2048+2048; " ADDRESSES,
		  "close ring; unmap 2048+2048; tick; ", 1, 0 },
		{ 2 * MIB - 4096, 8192, FILE_MAP, "12\n",
		  "memfd headrace 54000005; truncate 2048; map file 2048; close file; " FREE
		  "map memory 4088; unmap 8+2040; unmap 4092+4; populate 2048+2044; tick; "
		  "dontfork 2048+2044; ring 1; cloexec; pin 2048+2044; " ADDRESSES,
		  "close ring; unmap 2048+2044; tick; ", 1, 12 },
	};

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const size_t pages = (row[i].bytes + HR_PAGE - 1) / HR_PAGE;
		struct hr_region region;
		char want[256];
		kernel.shift = row[i].shift;
		kernel.free_pages = row[i].free_pages;
		kernel.error[row[i].fails] = ENOMEM;
		cr_assert_eq(take(&region, row[i].bytes), 0, "%s", test_error_text());
		expect_calls(row[i].calls, "taken");
		snprintf(want, sizeof want,
			 "host memory 'a': %lu huge pages of 2 MiB wanted, %lu free: using pages "
			 "of 4 KiB; more huge pages: echo N > /proc/sys/vm/nr_hugepages",
			 row[i].wanted, row[i].free);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), want, "%s", fake_log_last());
		cr_expect_eq(region.bytes, pages * HR_PAGE);
		cr_expect_eq(region.granule_shift, 12u);
		for (size_t k = 0; k < pages; k++)
			cr_assert_eq(region.granule_bus[k].addr,
				     kib(region.cpu) * 1024 + (k + 5) * HR_PAGE, "page %zu", k);
		give(&region);
		expect_calls(row[i].given, "given");
		cr_expect(is_empty(&region));
		kernel.error[row[i].fails] = 0;
	}
}

#define UNDONE "close ring; unmap 0+4096; tick; close file; "
#define UNPINNED(reason)                                                      \
	"host memory 'a': pages of 4 KiB cannot be pinned (io_uring: " reason \
	"), and there are not enough huge pages; echo N > /proc/sys/vm/nr_hugepages"
#define HIDDEN                                                                        \
	"host memory 'a': physical addresses are hidden from this user; run as root " \
	"(CAP_SYS_ADMIN), or use vfio:BDF"
#define NO_PAGE "host memory 'a': cannot get 4194304 bytes: the kernel has no page for part of it"
#define SMALL_4M                                                                           \
	"memfd headrace 54000005; " FREE "map memory 6140; unmap 4096+2044; huge 0+4096; " \
	"populate 0+4096; tick; dontfork 0+4096; "

Test(hostmem_calls, each_failure_is_named_and_leaves_nothing)
{
	static const struct {
		enum call first, second;
		uint64_t entry; /* of the second huge page */
		int error, want;
		const char *calls, *says;
	} row[] = {
		/* huge pages that cannot be taken, and no other memory */
		{ POPULATE, NONE, 0, ENOMEM, -ENOMEM,
		  "memfd headrace 54000005; truncate 4096; map file 4096; populate 0+4096; "
		  "unmap 0+4096; tick; close file; " FREE "map memory 6140; unmap 4096+2044; "
		  "huge 0+4096; populate 0+4096; unmap 0+4096; tick; ",
		  "host memory 'a': cannot get 4194304 bytes: Cannot allocate memory" },
		{ MEMFD, MEMORY_MAP, 0, EAGAIN, -ENOMEM,
		  "memfd headrace 54000005; " FREE "map memory 6140; ",
		  "host memory 'a': cannot get 4194304 bytes: Resource temporarily unavailable" },
		/* small pages that are not pinned */
		{ MEMFD, SETUP, 0, EPERM, -ENOTSUP, SMALL_4M "ring 1; unmap 0+4096; tick; ",
		  UNPINNED("Operation not permitted") },
		{ MEMFD, PIN, 0, ENOMEM, -ENOTSUP,
		  SMALL_4M "ring 1; cloexec; pin 0+4096; close ring; unmap 0+4096; tick; ",
		  UNPINNED("Cannot allocate memory") },
		/* addresses */
		{ PAGES, NONE, 0, EACCES, -EACCES,
		  HUGE_4M PINNED_4M "open /proc/self/pagemap; " UNDONE, HIDDEN },
		{ ENTRY, NONE, 1ull << 63 | 1ull << 55, EIO, -EACCES,
		  HUGE_4M PINNED_4M ADDRESSES UNDONE, HIDDEN },
		{ ENTRY, NONE, UINT64_MAX, EIO, -EACCES, HUGE_4M PINNED_4M ADDRESSES UNDONE,
		  HIDDEN },
		{ ENTRY, NONE, 17, EIO, -ENOMEM, HUGE_4M PINNED_4M ADDRESSES UNDONE, NO_PAGE },
	};
	struct hr_region region;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	kernel.bad_entry = 2 * MIB;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char name[16];

		snprintf(name, sizeof name, "row %zu", i);
		kernel.entry = row[i].entry;
		kernel.error[row[i].first] = kernel.error[row[i].second] = row[i].error;
		memset(&region, 0xff, sizeof region);
		cr_expect_eq(take(&region, 4 * MIB), row[i].want, "%s: %s", name,
			     test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		expect_calls(row[i].calls, name);
		cr_expect_str_eq(test_error_text(), row[i].says, "%s: %s", name, test_error_text());
		cr_expect(is_empty(&region), "%s", name);
		kernel.error[row[i].first] = kernel.error[row[i].second] = 0;
		/* nothing counts as in use */
		cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
		cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	}
}

Test(hostmem_calls, huge_pages_that_are_not_pinned_are_used)
{
	struct hr_region region;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	kernel.error[SETUP] = ENOSYS;
	cr_expect_eq(take(&region, 4 * MIB), 0);
	expect_calls(HUGE_4M "ring 1; " ADDRESSES, "no ring");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO),
			 "host memory 'a': huge pages are not pinned (io_uring: Function not "
			 "implemented)");
	give(&region);
	expect_calls("unmap 0+4096; tick; close file; ", "given back");
}

/* A kernel before 5.14 has no call that takes pages: each of them is written. */
Test(hostmem_calls, pages_are_touched_one_by_one_in_an_old_kernel)
{
	struct hr_region region;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	kernel.error[POPULATE] = EINVAL;
	for (size_t at = 0; at <= 3; at++) {
		kernel.arena[at * HR_PAGE] = 0xaa;
		kernel.arena[at * HR_PAGE + 1] = 0xbb;
	}
	kernel.arena[64 * MIB] = 0xaa;
	cr_expect_eq(take(&region, 3 * HR_PAGE), 0);
	expect_calls("map memory 2056; unmap 12+2044; populate 0+12; tick; dontfork 0+12; ", "own");
	for (size_t at = 0; at <= 3; at++) {
		cr_expect_eq(kernel.arena[at * HR_PAGE], at < 3 ? 0 : 0xaa, "page %zu", at);
		cr_expect_eq(kernel.arena[at * HR_PAGE + 1], 0xbb);
	}
	give(&region);
	expect_calls("unmap 0+12; tick; ", "given");
	/* the second piece of memory that is larger than one */
	kernel.fails_at = 64 * MIB;
	cr_expect_eq(take(&region, 64 * MIB + HR_PAGE), 0);
	cr_expect_eq(kernel.arena[64 * MIB], 0);
	cr_expect_eq(kernel.arena[3 * HR_PAGE], 0xaa, "the first piece is not touched");
	calls_take();
	give(&region);
	kernel.error[POPULATE] = ENOMEM;
	calls_take();
	cr_expect_eq(take(&region, 64 * MIB + HR_PAGE), -ENOMEM);
	expect_calls("map memory 67584; unmap 65540+2044; huge 0+65540; populate 0+65536; tick; "
		     "populate 65536+4; unmap 0+65536; tick; unmap 65536+4; tick; ",
		     "refused");
}

/* Own addresses: small memory does not use huge pages. */
Test(hostmem_calls, memory_with_own_addresses_uses_huge_pages_from_8_mib_on)
{
	struct hr_region region;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	kernel.shift = 4096;
	cr_expect_eq(take(&region, 8 * MIB - HR_PAGE), 0);
	expect_calls("map memory 10232; unmap 4+2044; populate 2048+8188; tick; "
		     "dontfork 2048+8188; ",
		     "small");
	give(&region);
	calls_take();
	cr_expect_eq(take(&region, 8 * MIB), 0);
	expect_calls("map memory 10236; unmap 4+2044; huge 2048+8192; populate 2048+8192; tick; "
		     "dontfork 2048+8192; ",
		     "large");
	give(&region);
	expect_calls("unmap 2048+8192; tick; ", "given");
	kernel.error[MEMORY_MAP] = ENOMEM;
	cr_expect_eq(take(&region, 8 * MIB), -ENOMEM);
	expect_calls("map memory 10236; ", "refused");
	cr_expect_str_eq(test_error_text(),
			 "host memory 'a': cannot get 8388608 bytes: Cannot allocate memory");
}

Test(hostmem_calls, regions_are_limited_and_each_is_freed_by_itself)
{
	static struct hr_region many[HR_HOSTMEM_MAX + 1];

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	kernel.step = 2 * MIB;
	for (unsigned i = 0; i < HR_HOSTMEM_MAX; i++) {
		cr_assert_eq(take(&many[i], HR_PAGE), 0, "%u: %s", i, test_error_text());
		calls_take();
	}
	cr_expect_eq(take(&many[HR_HOSTMEM_MAX], HR_PAGE), -ENOSPC);
	expect_calls("", "refused");
	cr_expect_str_eq(test_error_text(), "host memory 'a': over 256 regions");
	kernel.on = true;
	cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), -EBUSY);
	kernel.on = false;
	cr_expect_str_eq(test_error_text(), "host memory: 256 regions with physical addresses are "
					    "in use already");
	calls_take();
	for (unsigned i = 0; i < HR_HOSTMEM_MAX; i++) {
		char want[64];

		give(&many[i]);
		snprintf(want, sizeof want, "close ring; unmap %u+2048; tick; close file; ",
			 i * 2048);
		expect_calls(want, "given");
	}
	cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	cr_expect_eq(take(&many[0], HR_PAGE), 0);
	cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), -EBUSY);
	cr_expect_str_eq(test_error_text(), "host memory: 1 regions with translated addresses are "
					    "in use already");
	give(&many[0]);
}
