/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of GPU memory, over fakes of libgdrapi and the driver's dma-buf export. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/base/limits.h"
#include "tests/fakes/gdr.h"
#include "tests/harness/error.h"

#define BYTES ((size_t)1 << 20)

static struct fake_gdr fake;
static struct hr_gdr gdr;
static struct hr_gpu_window window;
static uint8_t *memory;
static int memory_fd;

static void set_up(void)
{
	memory_fd = memfd_create("gpu", MFD_CLOEXEC);
	cr_assert_geq(memory_fd, 0);
	cr_assert_eq(ftruncate(memory_fd, BYTES), 0);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	cr_assert_neq(memory, MAP_FAILED);
	fake_gdr_set(&fake, memory, BYTES, -1);
	gdr = fake_gdr_table();
}

static void tear_down(void)
{
	munmap(memory, BYTES);
	close(memory_fd);
}

TestSuite(window, .init = set_up, .fini = tear_down, .timeout = 60);

static void expect_nothing_left(void)
{
	static const struct hr_gpu_window zero;

	cr_expect_eq(fake.opened + fake.pinned + fake.mapped, 0u);
	cr_expect_eq(fake.wrong, 0u);
	cr_expect_eq(memcmp(&window, &zero, sizeof zero), 0);
}

Test(window, gdrcopy_maps_the_requested_range)
{
	cr_assert_eq(hr_window_open(&window, NULL, &gdr, FAKE_GDR_BASE + HR_WINDOW_GRAIN,
				    2 * HR_WINDOW_GRAIN, test_error()),
		     0, "%s", test_error_text());
	cr_expect_str_eq(window.by, "gdrcopy");
	cr_expect_eq(window.cpu, memory + HR_WINDOW_GRAIN);
	cr_expect_eq(window.bytes, 2 * HR_WINDOW_GRAIN);
	hr_window_close(&window);
	expect_nothing_left();
}

Test(window, a_mapping_that_begins_earlier_is_corrected_for)
{
	fake.skew = 4096;
	cr_assert_eq(hr_window_open(&window, NULL, &gdr, FAKE_GDR_BASE + HR_WINDOW_GRAIN,
				    HR_WINDOW_GRAIN, test_error()),
		     0, "%s", test_error_text());
	cr_expect_eq(window.cpu, memory + HR_WINDOW_GRAIN);
	hr_window_close(&window);
	expect_nothing_left();
}

Test(window, a_dma_buf_is_preferred_and_shows_the_same_memory)
{
	struct hr_window_driver driver;

	fake.memory_fd = memory_fd;
	driver = fake_gdr_driver(&fake);
	cr_assert_eq(hr_window_open(&window, &driver, &gdr, FAKE_GDR_BASE, BYTES, test_error()), 0,
		     "%s", test_error_text());
	cr_expect_str_eq(window.by, "dma-buf");
	((uint8_t *)window.cpu)[BYTES - 1] = 0x5a;
	cr_expect_eq(memory[BYTES - 1], 0x5a);
	hr_window_close(&window);
	cr_expect_eq(memory[BYTES - 1], 0x5a);
	expect_nothing_left();
}

Test(window, gdrcopy_is_taken_where_the_driver_maps_no_dma_buf)
{
	struct hr_window_driver driver = fake_gdr_driver(&fake);

	cr_assert_eq(hr_window_open(&window, &driver, &gdr, FAKE_GDR_BASE, BYTES, test_error()), 0);
	cr_expect_str_eq(window.by, "gdrcopy");
	hr_window_close(&window);
	expect_nothing_left();
}

Test(window, a_dma_buf_that_cannot_be_mapped_leaves_gdrcopy)
{
	struct hr_window_driver driver;
	int pipes[2];

	cr_assert_eq(pipe(pipes), 0);
	fake.memory_fd = pipes[0]; /* mmap refuses it, as present drivers refuse theirs */
	driver = fake_gdr_driver(&fake);
	cr_assert_eq(hr_window_open(&window, &driver, &gdr, FAKE_GDR_BASE, BYTES, test_error()), 0);
	cr_expect_str_eq(window.by, "gdrcopy");
	hr_window_close(&window);
	close(pipes[0]);
	close(pipes[1]);
	expect_nothing_left();
}

Test(window, without_either_way_both_reasons_are_reported)
{
	cr_expect_eq(hr_window_open(&window, NULL, NULL, FAKE_GDR_BASE, BYTES, test_error()),
		     -ENOTSUP);
	cr_expect(strstr(test_error_text(), "attribute 152") &&
			  strstr(test_error_text(), "libgdrapi"),
		  "%s", test_error_text());
	expect_nothing_left();
}

Test(window, whole_gpu_pages_only)
{
	cr_expect_eq(hr_window_open(&window, NULL, &gdr, FAKE_GDR_BASE + 4096, BYTES, test_error()),
		     -EINVAL);
	cr_expect_eq(hr_window_open(&window, NULL, &gdr, FAKE_GDR_BASE, 4096, test_error()),
		     -EINVAL);
	cr_expect_eq(hr_window_open(&window, NULL, &gdr, FAKE_GDR_BASE, 0, test_error()), -EINVAL);
	cr_expect(strstr(test_error_text(), "64 KiB"));
	expect_nothing_left();
}

Test(window, each_call_of_gdrcopy_that_fails_is_named_and_undone)
{
	static const struct {
		enum fake_gdr_call call;
		int error;
		const char *says;
	} row[] = {
		{ FAKE_GDR_OPEN, ENODEV, "gdr_open" },
		{ FAKE_GDR_PIN, EINVAL, "gdr_pin_buffer: Invalid argument" },
		{ FAKE_GDR_MAP, ENOMEM, "gdr_map: Cannot allocate memory" },
		{ FAKE_GDR_INFO, EIO, "gdr_get_info_v2: Input/output error" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake.fail = row[i].call;
		fake.error = row[i].error;
		cr_expect_eq(
			hr_window_open(&window, NULL, &gdr, FAKE_GDR_BASE, BYTES, test_error()),
			-ENOTSUP);
		cr_expect(strstr(test_error_text(), row[i].says), "%s", test_error_text());
		expect_nothing_left();
	}
}

Test(window, a_library_that_maps_another_range_is_refused)
{
	fake.unaligned = true;
	cr_expect_eq(hr_window_open(&window, NULL, &gdr, FAKE_GDR_BASE, BYTES, test_error()),
		     -ENOTSUP);
	cr_expect(strstr(test_error_text(), "it maps"), "%s", test_error_text());
	expect_nothing_left();
}

Test(window, the_region_of_a_window_has_gpu_addresses_for_workers_and_its_own_for_ssds)
{
	struct hr_region region, other;

	cr_assert_eq(hr_window_open(&window, NULL, &gdr, FAKE_GDR_BASE, BYTES, test_error()), 0);
	cr_assert_eq(hr_window_region(&window, "gpu", &region), 0);
	cr_assert_eq(hr_window_region(&window, "gpu", &other), 0);
	cr_expect_eq(region.kind, HR_REGION_GPU);
	cr_expect_eq(region.cpu, window.cpu);
	cr_expect_eq((uintptr_t)region.worker, (uintptr_t)FAKE_GDR_BASE);
	cr_expect_eq(region.bytes, BYTES);
	cr_expect_neq(region.bus.addr, other.bus.addr);
	hr_window_close(&window);
}

Test(window, the_error_of_a_machine_without_gdrcopy_names_the_package)
{
	struct hr_gdr real;
	int err = hr_gdr_load(&real, test_error());

	if (!err)
		hr_gdr_unload(&real);
	else
		cr_expect(strstr(test_error_text(), "libgdrapi.so.2"), "%s", test_error_text());
}
