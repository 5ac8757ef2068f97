/*
 * Media in memory, call by call: what is mapped, populated, discarded and unmapped, and which stripes
 * a command holds. The test records the system calls; tests/unit/nvme/soft/memory.c has threads.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nvme/soft/internal.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define STRIPE (64 * KIB)
#define STRIPES 4096u
#define EARLY __attribute__((no_sanitize_thread)) /* that sanitizer calls it as it begins */

/* What the calls are told: mmap() fails, and the result of a request to populate. */
static struct {
	bool on, no_map;
	int populate_error;
	uint8_t *start; /* of the newest mapping */
	uint32_t *stop; /* set by the first request to populate */
} kernel;

static struct soft_media media;

EARLY void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	uint8_t *got;

	if (kernel.on) {
		cr_expect_eq(protection, PROT_READ | PROT_WRITE);
		cr_expect_eq(flags, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
		calls_note("map %llu; ", (unsigned long long)(bytes / KIB));
		if (kernel.no_map) {
			errno = ENOMEM;
			return MAP_FAILED;
		}
	}
	got = (uint8_t *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
	if (kernel.on)
		kernel.start = got;
	return got;
}

/* Positions are relative to the memory that is kept. */
static void name(const char *what, const void *at, size_t bytes)
{
	const uint64_t first = ((uintptr_t)kernel.start + 2 * MIB - 1) & ~(2 * MIB - 1);

	if ((uintptr_t)at < first)
		calls_note("%s head; ", what);
	else
		calls_note("%s %llu+%llu; ", what,
			   (unsigned long long)(((uintptr_t)at - first) / KIB),
			   (unsigned long long)(bytes / KIB));
}

EARLY int munmap(void *at, size_t bytes)
{
	if (kernel.on && bytes >= 4 * KIB)
		name("unmap", at, bytes);
	return (int)syscall(SYS_munmap, at, bytes);
}

EARLY int madvise(void *at, size_t bytes, int advice)
{
	if (!kernel.on || advice == MADV_DONTDUMP) /* tests/unit/config/dump.c */
		return (int)syscall(SYS_madvise, at, bytes, advice);
	name(advice == MADV_POPULATE_WRITE ? "populate"
	     : advice == MADV_HUGEPAGE	   ? "huge"
	     : advice == MADV_DONTNEED	   ? "drop"
					   : "?",
	     at, bytes);
	if (advice == MADV_POPULATE_WRITE && kernel.stop)
		*kernel.stop = 1;
	if (advice == MADV_POPULATE_WRITE) {
		errno = kernel.populate_error;
		return errno ? -1 : 0;
	}
	return advice == MADV_DONTNEED ? (int)syscall(SYS_madvise, at, bytes, advice) : 0;
}

/* The calls since the last look; "unmap head; ", which depends on the kernel, is left out. */
static const char *calls(void)
{
	static char text[1024];
	char *head;

	snprintf(text, sizeof text, "%s", calls_take());
	head = strstr(text, "unmap head; ");
	if (head)
		memmove(head, head + 12, strlen(head + 12) + 1);
	return text;
}

static void expect(const char *want, const char *row)
{
	const char *text = calls();

	cr_expect_str_eq(text, want, "%s: %s", row, text);
}

static int open_it(uint64_t bytes, bool populate)
{
	memset(&media, 0, sizeof media);
	media.fd = -1;
	kernel.on = true;
	return soft_memory_open(&media, bytes, populate, test_error());
}

static void close_it(void)
{
	soft_memory_close(&media);
	kernel.on = false;
}

TestSuite(memory_pages, .fini = close_it, .timeout = 60);

Test(memory_pages, memory_is_mapped_in_whole_pages_and_unmapped)
{
	static const struct {
		uint64_t bytes;
		const char *mapped, *unmapped;
	} row[] = {
		{ 4 * KIB, "map 2052; ", "unmap 0+4; " },
		{ 4 * KIB + 512, "map 2056; ", "unmap 0+8; " },
		{ 8 * KIB - 512, "map 2056; ", "unmap 0+8; " },
		{ 2 * MIB, "map 4096; ", "unmap 0+2048; " },
	};

	for (size_t i = 0; i < 2 * ROWS(row); i++) {
		const bool populate = i % 2;
		const uint64_t pages = (row[i / 2].bytes + 4095) / 4096;
		char want[128];
		const char *text, *tail;

		cr_assert_eq(open_it(row[i / 2].bytes, populate), 0);
		cr_expect_eq(media.bytes, row[i / 2].bytes);
		cr_expect_eq(media.grain, populate ? 2 * MIB : 4 * KIB);
		cr_expect_eq((uintptr_t)media.memory % (2 * MIB), 0u);
		text = calls();
		cr_expect_eq(strncmp(text, row[i / 2].mapped, strlen(row[i / 2].mapped)), 0, "%s",
			     text);
		/* the rest behind it is unmapped: at most 2 MiB, together with the head */
		snprintf(want, sizeof want, "unmap %llu+", (unsigned long long)pages * 4);
		cr_expect(strstr(text, want) || kernel.start == media.memory, "%s", text);
		tail = strstr(text, "huge");
		snprintf(want, sizeof want, "huge 0+%llu; ", (unsigned long long)pages * 4);
		cr_expect_str_eq(tail ? tail : "", populate ? want : "");
		soft_memory_close(&media);
		expect(row[i / 2].unmapped, "closed");
		cr_expect_null(media.memory);
		cr_expect_null(media.version);
		soft_memory_close(&media);
		expect("", "closed twice");
	}
}

Test(memory_pages, a_size_that_cannot_be_mapped_is_named)
{
	static const struct {
		uint64_t bytes;
		const char *path, *calls, *says;
	} row[] = {
		{ 4 * KIB, NULL, "map 2052; ",
		  "soft:memory: size=4096: cannot reserve that much address space" },
		{ 4 * KIB, "/a/b", "map 2052; ",
		  "soft:/a/b: size=4096: cannot reserve that much address space" },
		{ 1ull << 63, NULL, "",
		  "soft:memory: size=9223372036854775808: cannot reserve that much address space" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		memset(&media, 0, sizeof media);
		media.path = row[i].path;
		kernel.on = kernel.no_map = true;
		cr_expect_eq(soft_memory_open(&media, row[i].bytes, false, test_error()), -ENOMEM);
		expect(row[i].calls, "refused");
		cr_expect_str_eq(test_error_text(), row[i].says, "%s", test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		soft_memory_close(&media);
		expect("", "nothing was mapped");
		cr_expect_null(media.version);
	}
}

/* Parts are whole huge pages; together they are the memory, each page once. 64 MiB in each call. */
Test(memory_pages, parts_are_populated_in_pieces)
{
	static const struct {
		uint64_t bytes;
		uint32_t part, parts;
		const char *calls;
	} row[] = {
		{ 4 * KIB, 0, 1, "populate 0+4; " },
		{ 4 * KIB, 0, 2, "" },
		{ 4 * KIB, 1, 2, "populate 0+4; " },
		{ 10 * MIB, 0, 2, "populate 0+4096; " },
		{ 10 * MIB, 1, 2, "populate 4096+6144; " },
		{ 10 * MIB + 4 * KIB, 0, 3, "populate 0+4096; " },
		{ 10 * MIB + 4 * KIB, 1, 3, "populate 4096+4096; " },
		{ 10 * MIB + 4 * KIB, 2, 3, "populate 8192+2052; " },
		{ 64 * MIB, 0, 1, "populate 0+65536; " },
		{ 66 * MIB, 0, 1, "populate 0+65536; populate 65536+2048; " },
		{ 300 * MIB, 0, 2,
		  "populate 0+65536; populate 65536+65536; populate 131072+22528; " },
		{ 300 * MIB, 1, 2,
		  "populate 153600+65536; populate 219136+65536; populate 284672+22528; " },
	};
	uint32_t stop = 0;

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_assert_eq(open_it(row[i].bytes, false), 0);
		calls();
		cr_expect_eq(soft_memory_populate(&media, row[i].part, row[i].parts, &stop), 0);
		expect(row[i].calls, "populated");
		soft_memory_close(&media);
		calls();
	}
	/* between two pieces the request to stop is seen */
	cr_assert_eq(open_it(300 * MIB, false), 0);
	calls();
	kernel.stop = &stop;
	cr_expect_eq(soft_memory_populate(&media, 0, 1, &stop), 0);
	expect("populate 0+65536; ", "stopped");
	cr_expect_eq(soft_memory_populate(&media, 0, 1, &stop), 0);
	expect("", "stopped before");
	kernel.stop = NULL;
	stop = 0;
	kernel.populate_error = ENOMEM;
	cr_expect_eq(soft_memory_populate(&media, 0, 1, &stop), -ENOMEM);
	expect("populate 0+65536; ", "failed");
}

Test(memory_pages, an_old_kernel_has_each_page_touched)
{
	uint32_t stop = 0;

	cr_assert_eq(open_it(12 * KIB, false), 0);
	for (unsigned i = 0; i < 3; i++)
		memset(media.memory + i * 4 * KIB, 0xaa, 2);
	kernel.populate_error = EINVAL;
	cr_expect_eq(soft_memory_populate(&media, 0, 1, &stop), 0);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(media.memory[i * 4 * KIB], 0, "page %u", i);
		cr_expect_eq(media.memory[i * 4 * KIB + 1], 0xaa, "page %u", i);
	}
}

/* ---- stripes */

#ifdef __SANITIZE_THREAD__ /* it cannot know that data read during a race are discarded */
#define READS_LOCK true
#else
#define READS_LOCK false
#endif

/* Versions of stripes: each use by a writer adds 2. Stripes at a distance of 4,096 share one. */
static void expect_versions(uint64_t first, uint64_t count, const char *row)
{
	for (uint32_t i = 0; i < STRIPES; i++) {
		const bool used = (i + STRIPES - first % STRIPES) % STRIPES < count;

		cr_assert_eq(media.version[i], used ? 2u : 0u, "%s: stripe %u: %u", row, i,
			     media.version[i]);
	}
	memset(media.version, 0, STRIPES * sizeof *media.version);
}

Test(memory_pages, a_writer_holds_the_stripes_of_its_blocks)
{
	static uint8_t data[3 * 64 * 1024];
	static const struct {
		uint64_t offset, bytes, first, count;
	} row[] = {
		{ 0, 512, 0, 1 },
		{ STRIPE - 512, 512, 0, 1 },
		{ STRIPE - 512, 1024, 0, 2 },
		{ STRIPE, STRIPE, 1, 1 },
		{ STRIPE + 512, 2 * STRIPE, 1, 3 },
		{ STRIPES * STRIPE - 512, 1024, STRIPES - 1, 2 }, /* the second is stripe 0 */
		{ (STRIPES + 3) * STRIPE, 512, 3, 1 },
	};

	memset(data, 0x5a, sizeof data);
	cr_assert_eq(open_it((STRIPES + 8) * STRIPE, false), 0);
	for (size_t i = 0; i < ROWS(row); i++) {
		uint8_t *at = media.memory + row[i].offset;

		soft_memory_write(&media, row[i].offset, data, row[i].bytes);
		expect_versions(row[i].first, row[i].count, "write");
		cr_expect(at[0] == 0x5a && at[row[i].bytes - 1] == 0x5a && at[row[i].bytes] == 0);
		cr_expect(row[i].offset == 0 || at[-1] == 0);
		soft_memory_read(&media, row[i].offset, data, row[i].bytes);
		expect_versions(row[i].first, READS_LOCK ? row[i].count : 0, "read");
		soft_memory_discard(&media, row[i].offset, row[i].bytes);
		expect_versions(row[i].first, row[i].count, "discard");
		cr_expect(at[0] == 0 && at[row[i].bytes - 1] == 0);
	}
	/* a discard of all stripes, and of more than all */
	soft_memory_discard(&media, 0, STRIPES * STRIPE);
	expect_versions(0, STRIPES, "all");
	soft_memory_discard(&media, 512, STRIPES * STRIPE);
	expect_versions(0, STRIPES, "all and a part");
	soft_memory_discard(&media, STRIPE, (STRIPES - 1) * STRIPE);
	expect_versions(1, STRIPES - 1, "all but one");
}

static uint32_t *held; /* a version that a writer holds until a thread waits for it; NULL: none */
static unsigned yields;

int sched_yield(void)
{
	if (held && ++yields == 3) { /* the writer has changed the data, and ends */
		media.memory[0] = 2;
		__atomic_store_n(held, 4, __ATOMIC_RELEASE);
	}
	return 0;
}

Test(memory_pages, a_reader_waits_for_the_writer_of_its_stripe)
{
	uint8_t byte = 9;

	cr_assert_eq(open_it(STRIPE, false), 0);
	media.memory[0] = 1; /* half of a write */
	media.version[0] = 3;
	held = &media.version[0];
	soft_memory_read(&media, 0, &byte, 1);
	cr_expect_eq(byte, 2);
	cr_expect_eq(yields, 3u);
	cr_expect_eq(media.version[0], 6u, "the reader kept writers out");
	media.version[0] = 3;
	yields = 0;
	soft_memory_write(&media, 0, "\7", 1);
	cr_expect_eq(yields, 3u);
	cr_expect_eq(media.memory[0], 7);
	cr_expect_eq(media.version[0], 6u);
	held = NULL;
}

/* ---- discards */

/* Whole grains go back to the system; the rest is overwritten. */
Test(memory_pages, a_discard_drops_whole_grains)
{
	static const struct {
		bool populate;
		uint64_t offset, bytes;
		const char *calls;
	} row[] = {
		{ false, 0, 4 * KIB, "drop 0+4; " },
		{ false, 0, 4 * KIB - 512, "" },
		{ false, 512, 4 * KIB, "" },
		{ false, 512, 8 * KIB - 512, "drop 4+4; " },
		{ false, 512, 8 * KIB, "drop 4+4; " },
		{ false, 4 * KIB, 64 * KIB, "drop 4+64; " },
		{ true, 0, 2 * MIB - 512, "" },
		{ true, 0, 2 * MIB, "drop 0+2048; " },
		{ true, 512, 2 * MIB, "" },
		{ true, 2 * MIB - 512, 2 * MIB + 1024, "drop 2048+2048; " },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_assert_eq(open_it(6 * MIB, row[i].populate), 0);
		memset(media.memory, 0x77, 6 * MIB);
		calls();
		soft_memory_discard(&media, row[i].offset, row[i].bytes);
		expect(row[i].calls, "discarded");
		for (uint64_t at = 0; at < 6 * MIB; at += 256)
			cr_assert_eq(media.memory[at], at - row[i].offset < row[i].bytes ? 0 : 0x77,
				     "row %zu, byte %llu", i, (unsigned long long)at);
		soft_memory_close(&media);
		calls();
	}
}

/* Non-temporal stores need whole lines, a page, and memory that is present. */
Test(memory_pages, each_kind_of_write_writes_the_same)
{
	static const struct {
		uint64_t offset;
		size_t bytes;
	} row[] = { { 0, 4096 }, { 64, 4096 }, { 32, 4096 }, { 0, 4096 + 64 }, { 0, 4096 + 32 },
		    { 0, 4032 }, { 1, 1 },     { 0, 65536 }, { 64, 65536 },    { 60, 70000 } };
	static uint8_t data[80000];

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i % 251 + 1);
	for (unsigned populate = 0; populate < 2; populate++) {
		cr_assert_eq(open_it(2 * MIB, populate), 0);
		for (size_t i = 0; i < ROWS(row); i++) {
			const uint64_t end = row[i].offset + row[i].bytes;

			memset(media.memory, 0, 128 * KIB);
			soft_memory_write(&media, row[i].offset, data + i, row[i].bytes);
			cr_expect_arr_eq(media.memory + row[i].offset, data + i, row[i].bytes,
					 "row %zu", i);
			cr_expect_eq(media.memory[end], 0, "row %zu", i);
			cr_expect(row[i].offset == 0 || media.memory[row[i].offset - 1] == 0);
		}
		soft_memory_close(&media);
	}
}
