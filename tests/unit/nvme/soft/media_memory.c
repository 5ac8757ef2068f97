/* SPDX-License-Identifier: Apache-2.0 */
/* Media in memory: reads see whole blocks during concurrent writes; discards and populating. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/log.h"
#include "nvme/soft/internal.h"
#include "tests/harness/error.h"

#define BLOCK ((size_t)4096)
#define MIB ((size_t)1 << 20)
#define THREADS 4u
#define ROUNDS 4000u
#define PIECE ((size_t)32768) /* a race within a single block is rare */

static struct soft_media media;

static void close_it(void)
{
	soft_memory_close(&media);
}

TestSuite(soft_memory, .fini = close_it, .timeout = 120);

static void open_it(uint64_t bytes, bool populate)
{
	cr_assert_eq(soft_memory_open(&media, bytes, populate, test_error()), 0, "%s",
		     test_error_text());
}

static bool is_all(const uint8_t *data, size_t bytes, uint8_t value)
{
	for (size_t i = 0; i < bytes; i++)
		if (data[i] != value)
			return false;
	return true;
}

static void put(uint64_t offset, uint8_t value, size_t bytes)
{
	static uint8_t data[BLOCK];

	memset(data, value, sizeof(data));
	for (size_t at = 0; at < bytes; at += BLOCK)
		soft_memory_write(&media, offset + at, data,
				  bytes - at < BLOCK ? bytes - at : BLOCK);
}

/* True when each byte of [offset, offset + bytes) is value. */
static bool holds(uint64_t offset, uint8_t value, size_t bytes)
{
	static uint8_t data[BLOCK];

	for (size_t at = 0; at < bytes; at += BLOCK) {
		const size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;

		soft_memory_read(&media, offset + at, data, n);
		if (!is_all(data, n, value))
			return false;
	}
	return true;
}

Test(soft_memory, written_data_are_read_back_across_stripes)
{
	static uint8_t data[3 * 65536], back[sizeof(data)];
	static const uint64_t offset[] = { 0, 512, 65536 - 512, 65536 - 4, 200000 };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 4096);
	for (unsigned populate = 0; populate < 2; populate++)
		for (size_t i = 0; i < sizeof(offset) / sizeof(offset[0]); i++) {
			const uint64_t end = offset[i] + sizeof(data);

			open_it(MIB, populate);
			soft_memory_write(&media, offset[i], data, sizeof(data));
			soft_memory_read(&media, offset[i], back, sizeof(back));
			cr_expect_eq(memcmp(data, back, sizeof(data)), 0);
			cr_expect(holds(0, 0, offset[i]));
			cr_expect(holds(end, 0, MIB - end));
			soft_memory_close(&media);
		}
}

struct racer {
	pthread_t thread;
	uint8_t value;
	uint32_t torn;
};

/* Each thread writes pieces of one value, alternating with the others and with discards. */
static void *write_pieces(void *argument)
{
	struct racer *r = argument;
	uint8_t data[PIECE];

	memset(data, r->value, sizeof(data));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		soft_memory_write(&media, i % 3 * PIECE, data, PIECE);
		if (r->value == 1 && i % 16 == 0)
			soft_memory_discard(&media, i % 3 * PIECE, PIECE);
	}
	return NULL;
}

static void *read_pieces(void *argument)
{
	struct racer *r = argument;
	uint8_t data[PIECE];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		soft_memory_read(&media, i % 3 * PIECE, data, PIECE);
		r->torn += memcmp(data, data + 1, PIECE - 1) != 0;
	}
	return NULL;
}

Test(soft_memory, blocks_are_read_whole_during_writes_of_other_threads)
{
	struct racer racer[THREADS] = { 0 };

	open_it(MIB, false);
	for (uint32_t i = 0; i < THREADS; i++) {
		racer[i].value = (uint8_t)(i + 1);
		cr_assert_eq(pthread_create(&racer[i].thread, NULL,
					    i < THREADS / 2 ? write_pieces : read_pieces,
					    &racer[i]),
			     0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(racer[i].thread, NULL);
		cr_expect_eq(racer[i].torn, 0, "thread %u: %u pieces", i, racer[i].torn);
	}
}

/* Within a page, over pages, over more stripes than versions, and over huge pages. */
Test(soft_memory, a_discard_zeroes_only_its_range)
{
	static const struct {
		uint64_t offset, bytes;
		bool populate;
	} row[] = {
		{ 4096 + 512, 1024, false },
		{ 4096 + 512, 3 * 4096, false },
		{ MIB - 512, 300 * MIB + 1024, false },
		{ 512, 1024, true },
		{ MIB - 512, 6 * MIB + 1024, true },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const uint64_t end = row[i].offset + row[i].bytes;

		open_it(row[i].populate ? 16 * MIB : 400 * MIB, row[i].populate);
		put(row[i].offset - 512, 0xaa, 1024);
		put(end - 512, 0xbb, 1024);
		soft_memory_discard(&media, row[i].offset, row[i].bytes);
		cr_expect(holds(row[i].offset - 512, 0xaa, 512), "row %zu", i);
		cr_expect(holds(row[i].offset, 0, 512), "row %zu", i);
		cr_expect(holds(end - 512, 0, 512), "row %zu", i);
		cr_expect(holds(end, 0xbb, 512), "row %zu", i);
		soft_memory_close(&media);
	}
}

Test(soft_memory, parts_populate_the_whole_memory_with_zeroes)
{
	static const uint64_t size[] = { 4096, 2 * MIB, 7 * MIB + 4096, 130 * MIB };
	const uint32_t go_on = 0;

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		open_it(size[i], true);
		for (uint32_t part = 0; part < 3; part++)
			cr_expect_eq(soft_memory_populate(&media, part, 3, &go_on), 0);
		cr_expect(holds(0, 0, size[i]), "%llu bytes", (unsigned long long)size[i]);
		soft_memory_close(&media);
	}
}

Test(soft_memory, a_size_beyond_the_memory_of_the_machine_is_refused)
{
	cr_expect_eq(soft_memory_open(&media, 1ull << 50, true, test_error()), -ENOMEM);
	cr_expect(strstr(test_error_text(), "populate=0"), "%s", test_error_text());
	cr_expect_eq(soft_memory_open(&media, 1ull << 62, false, test_error()), -ENOMEM);
	cr_expect(strstr(test_error_text(), "size="), "%s", test_error_text());
}

/* In place of /proc/meminfo; NULL: the kernel's. */
static const char *meminfo;

FILE *fopen(const char *path, const char *mode)
{
	if (meminfo && strcmp(path, "/proc/meminfo") == 0)
		return *meminfo ? fmemopen((void *)(uintptr_t)meminfo, strlen(meminfo), "r") : NULL;
	return fdopen(open(path, O_RDONLY | O_CLOEXEC), mode);
}

/* Unknown memory is no limit. */
Test(soft_memory, a_size_up_to_the_available_memory_is_accepted)
{
	static const struct {
		const char *meminfo;
		uint64_t bytes;
		int want;
	} row[] = {
		{ "MemTotal: 1 kB\nMemFree: 2 kB\nMemAvailable:    2048 kB\n", 2 * MIB, 0 },
		{ "MemTotal: 1 kB\nMemFree: 2 kB\nMemAvailable:    2048 kB\n", 2 * MIB + BLOCK,
		  -ENOMEM },
		{ "MemAvailable: 2047 kB\n", 2 * MIB, -ENOMEM },
		{ "MemTotal: 1 kB\n", 2 * MIB, 0 },
		{ "", 2 * MIB, 0 },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		meminfo = row[i].meminfo;
		cr_expect_eq(soft_memory_open(&media, row[i].bytes, true, test_error()),
			     row[i].want, "row %zu: %s", i, test_error_text());
		if (i == 1)
			cr_expect(strstr(test_error_text(),
					 "size=2101248 cannot be populated: 2097152 bytes of "
					 "memory are available"),
				  "%s", test_error_text());
		soft_memory_close(&media);
		memset(&media, 0, sizeof(media));
	}
	meminfo = NULL;
}

/* 0, or the error of the kernel for MADV_POPULATE_WRITE. */
static int populate_error;

int madvise(void *at, size_t bytes, int advice)
{
	if (populate_error && advice == MADV_POPULATE_WRITE) {
		errno = populate_error;
		return -1;
	}
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

Test(soft_memory, a_kernel_that_cannot_populate_touches_each_page)
{
	const uint32_t go_on = 0;
	static unsigned char present[6 * MIB / BLOCK];

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	open_it(sizeof(present) * BLOCK, false);
	populate_error = ENOMEM;
	cr_expect_eq(soft_memory_populate(&media, 0, 1, &go_on), -ENOMEM);
	populate_error = EINVAL;
	cr_expect_eq(soft_memory_populate(&media, 0, 1, &go_on), 0);
	cr_assert_eq(mincore(media.memory, sizeof(present) * BLOCK, present), 0);
	for (size_t i = 0; i < sizeof(present); i++)
		cr_assert(present[i] & 1, "page %zu", i);
}

#define IMAGE_BYTES (3 * MIB)

static int image; /* a file in memory */

/* Open the image as `soft:PATH,populate=1` does. */
static int open_image(struct hr_soft_options *options)
{
	static uint8_t data[IMAGE_BYTES];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 13 + i / 4096);
	image = memfd_create("image", MFD_CLOEXEC);
	cr_assert_eq(pwrite(image, data, sizeof(data), 0), (ssize_t)sizeof(data));
	*options =
		(struct hr_soft_options){ .block_bytes = BLOCK, .namespaces = 1, .populate = true };
	snprintf(options->path, sizeof(options->path), "/proc/self/fd/%d", image);
	return soft_media_open(&media, options, test_error());
}

static uint8_t in_file(uint64_t offset)
{
	uint8_t byte = 0;

	cr_assert_eq(pread(image, &byte, 1, (off_t)offset), 1);
	return byte;
}

static uint8_t in_media(uint64_t offset)
{
	uint8_t byte = 0;
	const struct iovec vec = { &byte, 1 };

	cr_assert_eq(soft_media_read(&media, offset, &vec, 1), 0);
	return byte;
}

Test(soft_memory, an_image_is_read_from_memory_and_written_to_both)
{
	static struct hr_soft_options options;
	static uint8_t data[BLOCK];
	const struct iovec vec = { data, sizeof(data) };
	const uint32_t go_on = 0;

	cr_assert_eq(open_image(&options), 0, "%s", test_error_text());
	for (uint32_t part = 0; part < 2; part++)
		cr_assert_eq(soft_memory_populate(&media, part, 2, &go_on), 0);
	for (uint64_t at = 0; at < IMAGE_BYTES; at += 997)
		cr_assert_eq(in_media(at), (uint8_t)(at * 13 + at / 4096), "byte %llu",
			     (unsigned long long)at);
	cr_assert_eq(pwrite(image, "x", 1, 5), 1);
	cr_expect_eq(in_media(5), 65, "the file is not read again");
	memset(data, 0xa5, sizeof(data));
	cr_expect_eq(soft_media_write(&media, 8192, &vec, 1), 0);
	cr_expect_eq(in_file(8192 + 4095), 0xa5);
	cr_expect_eq(in_media(8192 + 4095), 0xa5);
	cr_expect_eq(soft_media_discard(&media, 8192, 4096), 0);
	cr_expect_eq(in_file(8192), 0);
	cr_expect_eq(in_media(8192), 0);
	soft_media_close(&media);
	close(image);
}

Test(soft_memory, an_image_that_was_truncated_is_not_loaded)
{
	static struct hr_soft_options options;
	const uint32_t go_on = 0;

	cr_assert_eq(open_image(&options), 0, "%s", test_error_text());
	cr_assert_eq(ftruncate(image, MIB), 0);
	cr_expect_eq(soft_memory_populate(&media, 0, 1, &go_on), -EIO);
	soft_media_close(&media);
	close(image);
}

static size_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%zu", &pages), 1);
	fclose(file);
	return pages * BLOCK;
}

Test(soft_memory, the_space_for_alignment_is_released)
{
	static struct soft_media many[32];
	size_t begin;

	open_it(BLOCK, false);
	soft_memory_close(&media);
	begin = address_space();
	for (unsigned i = 0; i < 32; i++) {
		cr_assert_eq(soft_memory_open(&many[i], BLOCK, false, test_error()), 0);
		cr_expect_eq((uintptr_t)many[i].memory % (2 * MIB), 0);
	}
	/*
	 * each has locks and a page; address space kept for the alignment would be about 2 MiB each
	 */
	cr_expect_lt(address_space() - begin, 16 * MIB);
	for (unsigned i = 0; i < 32; i++)
		soft_memory_close(&many[i]);
}
