/* Host memory for DMA: addresses of our own, and physical ones as the kernel tells them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/limits.h"
#include "nvme/hostmem.h"
#include "nvme/prp.h"
#include "tests/fakes/log.h"

TestSuite(hostmem, .timeout = 60);

static struct hr_region region, other;

/* In place of libc's: what taking all pages at once fails with; 0: it works. */
static int populate_fails;

int madvise(void *at, size_t bytes, int advice)
{
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
	cr_assert_eq(hr_hostmem_choose(HR_HOSTMEM_OWN), 0);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", 3 * HR_PAGE + 1), 0);
	cr_assert_eq(hr_hostmem_alloc(&other, "b", 16u << 20), 0);
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
	hr_hostmem_free(&region); /* of what is zero: nothing */
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
			cr_assert_eq(hr_hostmem_choose((enum hr_hostmem_kind)kind), 0);
			cr_expect_eq(hr_hostmem_alloc(&region, "a", row[i].bytes), row[i].want,
				     "row %zu, kind %d", i, kind);
			cr_expect_null(region.cpu);
		}
}

Test(hostmem, memory_that_the_kernel_has_not_is_refused_and_not_touched)
{
	cr_assert_eq(hr_hostmem_choose(HR_HOSTMEM_OWN), 0);
	populate_fails = ENOMEM;
	cr_expect_eq(hr_hostmem_alloc(&region, "a", HR_PAGE), -ENOMEM);
	cr_expect(strstr(fake_log_last(), "host memory 'a': cannot get 4096 bytes: Cannot allo"),
		  "%s", fake_log_last());
	cr_expect_null(region.cpu);
	populate_fails = EINVAL; /* an old kernel: page by page */
	cr_expect_eq(hr_hostmem_alloc(&region, "a", HR_PAGE), 0);
	cr_expect(all_zero(&region));
	hr_hostmem_free(&region);
}

/* An appliance comes up anew as often as it is told to. */
static size_t mapped_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%lu", &pages), 1);
	fclose(file);
	return pages * HR_PAGE;
}

/* What is mapped to find an aligned piece goes back at once, and the piece at the end. */
Test(hostmem, no_address_space_is_lost)
{
	const size_t piece = 5u << 20;
	size_t before, during;

	cr_assert_eq(hr_hostmem_choose(HR_HOSTMEM_OWN), 0);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", piece), 0);
	hr_hostmem_free(&region);
	before = mapped_bytes();
	for (unsigned i = 0; i < 64; i++) {
		cr_assert_eq(hr_hostmem_alloc(&region, "a", piece), 0);
		during = mapped_bytes();
		cr_expect_lt(during - before, piece + (3u << 19), "%zu bytes more",
			     during - before);
		hr_hostmem_free(&region);
	}
	cr_expect_lt(mapped_bytes(), before + piece);
}

Test(hostmem, addresses_are_used_again_when_nobody_has_any)
{
	struct hr_bus first, left;

	cr_assert_eq(hr_hostmem_choose(HR_HOSTMEM_OWN), 0);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", HR_PAGE), 0);
	cr_assert_eq(hr_hostmem_alloc(&other, "b", HR_PAGE), 0);
	first = region.bus;
	hr_hostmem_free(&region);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", HR_PAGE), 0);
	cr_expect_neq(region.bus.addr, first.addr); /* "b" may still be let in */
	hr_hostmem_free(&region);
	hr_hostmem_free(&other);
	cr_assert_eq(hr_region_take_bus((size_t)448 << 30, &left), 0);
	cr_expect_eq(left.addr, first.addr);
	cr_expect_eq(hr_region_take_bus(1, &left), -ENOSPC);
	cr_expect_eq(hr_hostmem_alloc(&region, "a", HR_PAGE), -ENOSPC);
	cr_expect(strstr(fake_log_last(), "host memory 'a': no I/O addresses left"), "%s",
		  fake_log_last());
	hr_region_give_bus();
}

Test(hostmem, the_kind_stays_while_memory_is_in_use)
{
	cr_assert_eq(hr_hostmem_choose(HR_HOSTMEM_OWN), 0);
	cr_assert_eq(hr_hostmem_alloc(&region, "a", HR_PAGE), 0);
	cr_expect_eq(hr_hostmem_choose(HR_HOSTMEM_OWN), 0);
	cr_expect_eq(hr_hostmem_choose(HR_HOSTMEM_PHYSICAL), -EBUSY);
	cr_expect_eq(hr_hostmem_kind(), HR_HOSTMEM_OWN);
	hr_hostmem_free(&region);
	cr_expect_eq(hr_hostmem_choose(HR_HOSTMEM_PHYSICAL), 0);
	cr_expect_eq(hr_hostmem_kind(), HR_HOSTMEM_PHYSICAL);
}

Test(hostmem, ends_when_addresses_are_used_up)
{
	static struct hr_region many[HR_HOSTMEM_MAX];
	unsigned got = 0;

	cr_assert_eq(hr_hostmem_choose(HR_HOSTMEM_PHYSICAL), 0);
	while (got < HR_HOSTMEM_MAX && hr_hostmem_alloc(&many[got], "a", HR_PAGE) == 0)
		got++;
	if (got == HR_HOSTMEM_MAX)
		cr_expect_eq(hr_hostmem_alloc(&region, "a", HR_PAGE), -ENOSPC);
	while (got)
		hr_hostmem_free(&many[--got]);
}

/* What pagemap says of each page, asked here on our own. */
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

/* As root where memory can be pinned; elsewhere each way it may be refused, and nothing else. */
Test(hostmem, physical_addresses_are_those_of_each_page)
{
	int err;

	cr_assert_eq(hr_hostmem_choose(HR_HOSTMEM_PHYSICAL), 0);
	err = hr_hostmem_alloc(&region, "a", (4u << 20) + 1);
	if (err) {
		cr_expect(err == -EACCES || err == -ENOTSUP, "%d", err);
		cr_expect_null(region.cpu);
		cr_expect(strstr(fake_log_last(), "host memory 'a'"), "%s", fake_log_last());
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

Test(hostmem, physical_addresses_need_root)
{
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		if (geteuid() == 0 && setuid(65534))
			_exit(2);
		hr_hostmem_choose(HR_HOSTMEM_PHYSICAL);
		_exit(hr_hostmem_alloc(&region, "a", HR_PAGE) == -EACCES &&
				      strstr(fake_log_last(), "run as root")
			      ? 0
			      : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

Test(hostmem, one_piece_is_told_from_many)
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
