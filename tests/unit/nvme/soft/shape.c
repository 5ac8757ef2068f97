/*
 * What follows from the options of a software controller before it runs: sizes, names, and memory
 * that is given back, also when it cannot be set up.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/bytes.h"
#include "nvme/soft/internal.h"
#include "nvme/soft/options.h"
#include "tests/harness/error.h"
#include "tests/harness/heap.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(soft_shape, .timeout = 60);

static struct hr_soft_options options_of(const char *text)
{
	struct hr_soft_options options;

	cr_assert_eq(hr_soft_parse(text, &options, test_error()), 0, "%s", test_error_text());
	return options;
}

Test(soft_shape, sizes_follow_the_options)
{
	static const struct {
		const char *text;
		uint32_t lba_shift, namespaces, threads;
		uint64_t blocks, max_bytes;
		size_t bar;
	} row[] = {
		{ "memory,size=1M,lba=512", 9, 1, 1, 2048, 1 << 20, 0x2000 },
		{ "memory,size=1M,lba=4096,mdts=0", 12, 1, 1, 256, 4096ull << 16, 0x2000 },
		{ "memory,size=1M,lba=512,mdts=0", 9, 1, 1, 2048, 512ull << 16, 0x2000 },
		{ "null,size=1M,mdts=3,threads=3", 12, 1, 3, 256, 32768, 0x2000 },
		{ "memory,size=1M,namespaces=3,mdts=1", 12, 3, 1, 85, 8192, 0x2000 },
		{ "memory,size=1M,dstrd=1", 12, 1, 1, 256, 1 << 20, 0x3000 },
		{ "memory,size=1M,dstrd=8", 12, 1, 1, 256, 1 << 20, 0x82000 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_soft_options options = options_of(row[i].text);
		struct soft *soft = NULL;

		cr_assert_eq(soft_new(&soft, &options, test_error()), 0, "%s", test_error_text());
		cr_expect_eq(soft->lba_shift, row[i].lba_shift, "row %zu", i);
		cr_expect_eq(soft->namespaces, row[i].namespaces, "row %zu", i);
		cr_expect_eq(soft->threads, row[i].threads, "row %zu", i);
		cr_expect_eq(soft->blocks, row[i].blocks, "row %zu", i);
		cr_expect_eq(soft->max_bytes, row[i].max_bytes, "row %zu", i);
		cr_expect_eq(soft->vec_max, row[i].max_bytes / 4096 + 2, "row %zu", i);
		cr_expect_eq(soft->bar_bytes, row[i].bar, "row %zu: %zx", i, soft->bar_bytes);
		for (uint32_t k = 0; k < soft->threads; k++) {
			cr_expect_eq(soft->poller[k].soft, soft);
			cr_expect_eq(soft->poller[k].index, k);
			cr_expect_not_null(soft->poller[k].vec);
		}
		cr_expect_eq((uintptr_t)soft % SOFT_LINE, 0u);
		soft_delete(soft);
	}
}

static const char *text;

static void try(void)
{
	const struct hr_soft_options options = options_of(text);
	struct soft *soft = NULL;

	if (soft_new(&soft, &options, test_error()) == 0)
		soft_delete(soft);
}

/* Lines of the kernel's list of mappings. */
static unsigned mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned lines = 0;

	for (int c; (c = fgetc(file)) != EOF;)
		lines += c == '\n';
	fclose(file);
	return lines;
}

Test(soft_shape, memory_is_given_back)
{
	static const char *const row[] = {
		"null,size=64K,mdts=1,threads=3",
		"memory,size=64K,mdts=1,reservations=1",
		"memory,size=64K,cache=16K,mdts=1",
		"memory,size=64K,mdts=1,faults=/nowhere/rules",
		"memory,size=4K,lba=4096,namespaces=2",
		"/nowhere/image,size=64K",
	};
	unsigned before;

	for (size_t i = 0; i < ROWS(row); i++) {
		text = row[i];
		cr_expect_eq(heap_kept_by(try), 0u, "%s", text);
		before = mappings();
		for (int k = 0; k < 3; k++)
			try();
		cr_expect_leq(mappings(), before + 1, "%s", text);
	}
}

/* The end of a long path is the name, in 47 characters. */
Test(soft_shape, names_are_those_of_images_or_kinds)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "null,size=1M", "soft:null" },
		{ "memory,size=1M", "soft:memory" },
		{ "/tmp/headrace-shape-45678901234567890123456789,size=1M",
		  "soft:...adrace-shape-45678901234567890123456789" },
		{ "/tmp/headrace-shape-4567890123456789012,size=1M",
		  "soft:/tmp/headrace-shape-4567890123456789012" },
		{ "/tmp/headrace-shape-4567890123456789012345,size=1M",
		  "soft:/tmp/headrace-shape-4567890123456789012345" },
		{ "/tmp/headrace-shape-45678901234567890123456,size=1M",
		  "soft:.../headrace-shape-45678901234567890123456" },
		{ "/tmp/headrace-shape-456789012345678901234567,size=1M",
		  "soft:...headrace-shape-456789012345678901234567" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_soft_options options = options_of(row[i].text);
		struct hr_transport t;

		cr_assert_eq(hr_soft_open(&t, &options, test_error()), 0, "%s", test_error_text());
		cr_expect_str_eq(t.name, row[i].want, "row %zu: %s", i, t.name);
		cr_expect_eq(t.keeps_no_data, i == 0);
		cr_expect(t.bar_is_memory && t.bar_bytes == 0x2000);
		t.ops->close(&t);
		cr_expect(!t.ops && !t.impl && !t.bar);
		if (options.path[0])
			unlink(options.path);
	}
}

/* A reset forgets queues, and completions that a fault holds back, of all threads. */
Test(soft_shape, a_reset_forgets_queues_and_held_completions)
{
	const struct hr_soft_options options = options_of("null,size=1M,mdts=1,threads=3");
	struct soft *soft = NULL;

	cr_assert_eq(soft_new(&soft, &options, test_error()), 0, "%s", test_error_text());
	for (uint32_t i = 0; i < 3; i++) {
		soft->poller[i].held_count = soft->poller[i].queues = soft->poller[i].cqs = 2;
		memset(soft->poller[i].held, 1, sizeof soft->poller[i].held);
	}
	memset(soft->sq, 1, sizeof soft->sq);
	memset(soft->cq, 1, sizeof soft->cq);
	soft_queues_clear(soft);
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect(!soft->poller[i].held_count && !soft->poller[i].queues, "%u", i);
		cr_expect_eq(soft->poller[i].cqs, 0u, "%u", i);
		cr_expect(hr_is_zero(soft->poller[i].held, sizeof soft->poller[i].held), "%u", i);
	}
	cr_expect(hr_is_zero(soft->sq, sizeof soft->sq) && hr_is_zero(soft->cq, sizeof soft->cq));
	soft_delete(soft);
}
