/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with keys or with data of objects is left out of core dumps. */
#include "config/base/process.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/limits.h"
#include "gpu/tap/memory.h"
#include "nvme/dma/hostmem.h"
#include "nvme/soft/internal.h"
#include "tests/harness/error.h"
#include "tests/harness/mapped.h"

TestSuite(dump, .timeout = 60);

Test(dump, all_pages_that_have_a_part)
{
	uint8_t *at =
		mmap(NULL, 4 * HR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(at, MAP_FAILED);
	cr_expect_eq(hr_not_dumped(at + 2 * HR_PAGE - 1, 2), at + 2 * HR_PAGE - 1);
	cr_expect(is_dumped(at));
	cr_expect_not(is_dumped(at + HR_PAGE));
	cr_expect_not(is_dumped(at + 2 * HR_PAGE));
	cr_expect(is_dumped(at + 3 * HR_PAGE));
	cr_expect_null(hr_not_dumped(NULL, 5));
	hr_not_dumped(at, 0);
	cr_expect(is_dumped(at));
	munmap(at, 4 * HR_PAGE);
}

Test(dump, host_memory_of_workers_and_tiles)
{
	struct hr_region region = { 0 };

	cr_assert_eq(hr_hostmem_alloc(&region, "tiles", HR_PAGE, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_not(is_dumped(region.cpu));
	hr_hostmem_free(&region);
}

Test(dump, memory_that_processes_share)
{
	uint8_t *at = mmap(NULL, HR_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_geq(hr_tap_memory_create("x", at, HR_PAGE, HR_TAP_WRITABLE, test_error()), 0);
	cr_expect_not(is_dumped(at));
}

Test(dump, memory_and_cache_of_a_software_controller)
{
	static struct soft_media media;
	static struct soft_cache cache;
	static const struct hr_soft_options options = { .bytes = 1 << 20,
							.block_bytes = 4096,
							.namespaces = 1 };

	cr_assert_eq(soft_media_open(&media, &options, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(soft_cache_open(&cache, &media, 1 << 20, 4096, NULL), 0);
	cr_expect_not(is_dumped(media.memory));
	cr_expect_not(is_dumped(cache.data));
	soft_cache_close(&cache);
	soft_media_close(&media);
}
