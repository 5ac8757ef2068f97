/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory for DMA: allocated addresses, and physical addresses from the kernel. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "nvme/dma/hostmem.h"
#include "nvme/dma/prp.h"
#include "tests/fakes/calloc.h"
#include "tests/harness/error.h"

TestSuite(hostmem, .timeout = 60);

static struct hr_region region, other;

/* Replaces libc's function: the error of taking all pages at once; 0: it succeeds. */
static int populate_fails;

/* While calls is not 0: the calls that take pages, without their effect; calls - 1 of them. */
static struct {
	unsigned calls;
	uint8_t *at[4];
	size_t bytes[4];
} populated;

int madvise(void *at, size_t bytes, int advice)
{
	if (advice == MADV_POPULATE_WRITE && populated.calls) {
		cr_assert_leq(populated.calls, 4u);
		populated.at[populated.calls - 1] = at;
		populated.bytes[populated.calls++ - 1] = bytes;
		return 0;
	}
	if (advice == MADV_POPULATE_WRITE && populate_fails) {
		errno = populate_fails;
		return -1;
	}
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

static bool all_zero(const struct hr_region *r)
{
	const uint8_t *bytes = r->cpu;

	for (size_t i = 0; i < r->bytes; i++)
		if (bytes[i])
			return false;
	return true;
}

Test(hostmem, own_addresses_are_contiguous_and_no_cpu_addresses)
{
	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", 3 * HR_PAGE + 1, test_error()), 0);
	cr_assert_eq(hr_hostmem_alloc(&other, "b", 16u << 20, test_error()), 0);
	cr_expect_eq(region.bytes, 4 * HR_PAGE);
	cr_expect_null(region.granule_bus);
	cr_expect_eq(region.worker, region.cpu);
	cr_expect(all_zero(&region) && all_zero(&other));
	cr_expect(hr_region_contiguous(&other, 0, other.bytes));
	cr_expect(region.bus.addr + region.bytes <= other.bus.addr ||
		  other.bus.addr + other.bytes <= region.bus.addr);
	cr_expect_neq(region.bus.addr, (uint64_t)(uintptr_t)region.cpu);
	hr_hostmem_free(&region);
	hr_hostmem_free(&other);
	cr_expect_null(region.cpu);
	hr_hostmem_free(&region); /* all zero, so this does nothing */
}

Test(hostmem, freed_memory_leaves_room_for_other_regions)
{
	for (int kind = HR_HOSTMEM_OWN; kind <= HR_HOSTMEM_PHYSICAL; kind++) {
		cr_assert_eq(hr_hostmem_set_kind((enum hr_hostmem_kind)kind, test_error()), 0);
		for (unsigned i = 0; i <= HR_HOSTMEM_MAX; i++) {
			const int err = hr_hostmem_alloc(&region, "a", HR_PAGE, test_error());

			if (kind == HR_HOSTMEM_PHYSICAL && i == 0 && err)
				return; /* the kernel tells this user no physical addresses */
			cr_assert_eq(err, 0, "region %u: %s", i, test_error_text());
			hr_hostmem_free(&region);
		}
	}
}

Test(hostmem, sizes_that_no_memory_has_are_refused)
{
	static const struct {
		size_t bytes;
		int want;
	} row[] = { { 0, -EINVAL },
		    { SIZE_MAX, -ENOMEM },
		    { (size_t)1 << 60, -ENOMEM },
		    { (size_t)1 << 63, -ENOMEM } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (int kind = HR_HOSTMEM_OWN; kind <= HR_HOSTMEM_PHYSICAL; kind++) {
			cr_assert_eq(hr_hostmem_set_kind((enum hr_hostmem_kind)kind, test_error()),
				     0);
			cr_expect_eq(hr_hostmem_alloc(&region, "a", row[i].bytes, test_error()),
				     row[i].want, "row %zu, kind %d", i, kind);
			cr_expect_null(region.cpu);
		}
}

Test(hostmem, memory_beyond_the_limit_of_the_kernel_is_refused_and_not_touched)
{
	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	populate_fails = ENOMEM;
	cr_expect_eq(hr_hostmem_alloc(&region, "a", HR_PAGE, test_error()), -ENOMEM);
	cr_expect(strstr(test_error_text(), "host memory 'a': cannot get 4096 bytes: Cannot allo"),
		  "%s", test_error_text());
	cr_expect_null(region.cpu);
	populate_fails = EINVAL; /* an old kernel: pages are taken one by one */
	cr_expect_eq(hr_hostmem_alloc(&region, "a", HR_PAGE, test_error()), 0);
	cr_expect(all_zero(&region));
	hr_hostmem_free(&region);
}

static size_t mapped_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%lu", &pages), 1);
	fclose(file);
	return pages * HR_PAGE;
}

/* In pieces of 64 MiB, between which periodic work is done. */
Test(hostmem, all_pages_of_large_memory_are_taken_and_given_back)
{
	const size_t piece = (size_t)64 << 20, before = mapped_bytes();

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	populated.calls = 1;
	cr_assert_eq(hr_hostmem_alloc(&region, "a", 2 * piece + 5 * HR_PAGE, test_error()), 0);
	cr_expect_eq(populated.calls - 1, 3u);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(populated.at[i], (uint8_t *)region.cpu + i * piece, "piece %u", i);
		cr_expect_eq(populated.bytes[i], i < 2 ? piece : 5 * HR_PAGE, "piece %u", i);
	}
	hr_hostmem_free(&region);
	cr_expect_lt(mapped_bytes(), before + piece, "all is given back");
	populated.calls = 0;
}

/*
 * The address space that was mapped to find an aligned piece is returned at once, and the piece
 * itself at the end. An appliance may come up any number of times.
 */
Test(hostmem, no_address_space_is_lost)
{
	const size_t piece = 5u << 20;
	size_t before, during;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", piece, test_error()), 0);
	hr_hostmem_free(&region);
	before = mapped_bytes();
	for (unsigned i = 0; i < 64; i++) {
		cr_assert_eq(hr_hostmem_alloc(&region, "a", piece, test_error()), 0);
		during = mapped_bytes();
		cr_expect_lt(during - before, piece + (3u << 19), "%zu bytes more",
			     during - before);
		hr_hostmem_free(&region);
	}
	cr_expect_lt(mapped_bytes(), before + piece);
}

Test(hostmem, addresses_are_used_again_after_all_are_released)
{
	struct hr_bus first, left;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", HR_PAGE, test_error()), 0);
	cr_assert_eq(hr_hostmem_alloc(&other, "b", HR_PAGE, test_error()), 0);
	first = region.bus;
	hr_hostmem_free(&region);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", HR_PAGE, test_error()), 0);
	/* Addresses are not used again while memory "b" is allocated. */
	cr_expect_neq(region.bus.addr, first.addr);
	hr_hostmem_free(&region);
	hr_hostmem_free(&other);
	cr_assert_eq(hr_region_assign_bus((size_t)448 << 30, &left), 0);
	cr_expect_eq(left.addr, first.addr);
	cr_expect_eq(hr_region_assign_bus(1, &left), -ENOSPC);
	cr_expect_eq(hr_hostmem_alloc(&region, "a", HR_PAGE, test_error()), -ENOSPC);
	cr_expect(strstr(test_error_text(), "host memory 'a': no I/O addresses left"), "%s",
		  test_error_text());
	hr_region_unassign_bus();
}

Test(hostmem, the_kind_stays_while_memory_is_in_use)
{
	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", HR_PAGE, test_error()), 0);
	cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_OWN, test_error()), 0);
	cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), -EBUSY);
	cr_expect_eq(hr_hostmem_kind(), HR_HOSTMEM_OWN);
	cr_assert_eq(hr_hostmem_alloc(&other, "b", HR_PAGE, test_error()), 0);
	hr_hostmem_free(&other);
	cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), -EBUSY);
	hr_hostmem_free(&region);
	cr_expect_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	cr_expect_eq(hr_hostmem_kind(), HR_HOSTMEM_PHYSICAL);
}

Test(hostmem, memory_is_refused_after_addresses_are_used_up)
{
	static struct hr_region many[HR_HOSTMEM_MAX];
	unsigned got = 0;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	while (got < HR_HOSTMEM_MAX &&
	       hr_hostmem_alloc(&many[got], "a", HR_PAGE, test_error()) == 0)
		got++;
	if (got == HR_HOSTMEM_MAX)
		cr_expect_eq(hr_hostmem_alloc(&region, "a", HR_PAGE, test_error()), -ENOSPC);
	while (got)
		hr_hostmem_free(&many[--got]);
}

/* The kernel's pagemap entry of each page, read here again. */
static uint64_t physical(const uint8_t *at)
{
	uint64_t entry = 0;
	FILE *file = fopen("/proc/self/pagemap", "re");

	if (file && fseek(file, (long)((uintptr_t)at / HR_PAGE * sizeof entry), SEEK_SET) == 0 &&
	    fread(&entry, sizeof entry, 1, file) != 1)
		entry = 0;
	if (file)
		fclose(file);
	return (entry & ((1ull << 55) - 1)) * HR_PAGE;
}

/* As root where memory can be pinned; otherwise all refusals, and nothing else. */
Test(hostmem, each_page_has_its_physical_address)
{
	int err;

	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	err = hr_hostmem_alloc(&region, "a", (4u << 20) + 1, test_error());
	if (err) {
		cr_expect(err == -EACCES || err == -ENOTSUP, "%d", err);
		cr_expect_null(region.cpu);
		cr_expect(strstr(test_error_text(), "host memory 'a'"), "%s", test_error_text());
		return;
	}
	cr_assert_not_null(region.granule_bus);
	cr_expect(all_zero(&region));
	for (size_t at = 0; at < region.bytes; at += HR_PAGE)
		cr_assert_eq(hr_region_bus(&region, at + 5).addr,
			     physical((uint8_t *)region.cpu + at) + 5, "offset %zu", at);
	cr_expect_eq(region.bus.addr, region.granule_bus[0].addr);
	hr_hostmem_free(&region);
}

/*
 * Each list that an allocation needs fails once: nothing is taken, and the error names the reason.
 */
Test(hostmem, lists_that_do_not_fit_in_memory_are_an_error)
{
	cr_assert_eq(hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error()), 0);
	for (unsigned nth = 1; nth < 8; nth++) {
		int err;

		fake_calloc_fails(nth);
		err = hr_hostmem_alloc(&region, "a", 4 * HR_PAGE, test_error());
		if (!fake_calloc_failed()) {
			hr_hostmem_free(&region);
			cr_expect(nth > 1, "no list was made: %s", test_error_text());
			break;
		}
		fake_calloc_fails(0);
		cr_expect(err == -ENOMEM || err == -ENOTSUP, "list %u: %d, %s", nth, err,
			  test_error_text());
		cr_expect_null(region.cpu, "list %u", nth);
		cr_expect(strstr(test_error_text(), "host memory 'a'"), "list %u: %s", nth,
			  test_error_text());
	}
	fake_calloc_fails(0);
}

Test(hostmem, physical_addresses_need_root)
{
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		if (geteuid() == 0 && setuid(65534))
			_exit(2);
		hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error());
		_exit(hr_hostmem_alloc(&region, "a", HR_PAGE, test_error()) == -EACCES &&
				      strstr(test_error_text(), "run as root")
			      ? 0
			      : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

Test(hostmem, contiguous_memory_is_told_from_memory_in_pieces)
{
	struct hr_bus granule[4] = { { 0x10000 }, { 0x11000 }, { 0x15000 }, { 0x16000 } };
	struct hr_region r = { .bytes = 4 * HR_PAGE, .granule_bus = granule, .granule_shift = 12 };
	static const struct {
		size_t offset, bytes;
		bool want;
	} row[] = {
		{ 0, 1, true },	      { 0, 8192, true },     { 0, 8193, false },
		{ 4095, 2, true },    { 8191, 2, false },    { 8191, 1, true },
		{ 8192, 8192, true }, { 4096, 4097, false }, { 12288, 4096, true },
		{ 0, 16384, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_region_contiguous(&r, row[i].offset, row[i].bytes), row[i].want,
			     "row %zu", i);
}
