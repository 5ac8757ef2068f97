/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller reads and writes "GPU memory" through a window: the driver's dma-buf, and gdrcopy.
 *
 * The GPU is a fake that returns a mapping. By default the mapping is shared memory, and the
 * controller is the software one. With HEADRACE_WINDOW_BAR=BDF/N it is that BAR of a PCI function,
 * mapped without struct pages like a GPU's memory, and HEADRACE_CONFORM_DEVICE should name an ssd
 * behind VFIO. In that case everything except the GPU is real.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/log.h"
#include "pci/function.h"
#include "tests/harness/conform.h"
#include "tests/fakes/gdr.h"
#include "tests/harness/error.h"

#define BYTES ((size_t)1 << 20)
#define A CONFORM_DATA
#define LBA 64u

static struct conform c;
static struct fake_gdr fake;
static struct hr_gdr gdr;
static struct hr_gpu_window window;
static struct hr_region region;
static struct hr_function function;
static struct hr_bar_map bar;
static uint8_t *memory;
static int memory_fd = -1;

static void take_bar(const char *text)
{
	struct hr_function_state state;
	char bdf[HR_BDF_MAX] = "", path[128];
	unsigned number = 0;

	cr_assert_eq(sscanf(text, "%15[^/]/%u", bdf, &number), 2, "HEADRACE_WINDOW_BAR: %s", text);
	cr_assert_eq(hr_function_look(bdf, &state, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(hr_function_open(&function, state.bdf, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(hr_function_enable(&function, HR_COMMAND_MSE, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(hr_function_map(&function, number, &bar, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_geq(bar.bytes, BYTES);
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource%u", state.bdf, number);
	memory_fd = open(path, O_RDWR | O_CLOEXEC);
	memory = bar.cpu;
}

static void set_up(void)
{
	const char *text = getenv("HEADRACE_WINDOW_BAR");

	if (text) {
		take_bar(text);
	} else {
		memory_fd = memfd_create("gpu", MFD_CLOEXEC);
		cr_assert_eq(ftruncate(memory_fd, BYTES), 0);
		memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	}
	cr_assert(memory_fd >= 0 && memory != MAP_FAILED);
	fake_gdr_set(&fake, memory, BYTES, memory_fd);
	gdr = fake_gdr_table();
	conform_open_io(&c);
}

static void tear_down(void)
{
	conform_close(&c);
	if (bar.cpu)
		hr_function_unmap(&function, &bar);
	else
		munmap(memory, BYTES);
	hr_function_close(&function);
	close(memory_fd);
	cr_expect_eq(fake.wrong, 0u);
	cr_expect_eq(fake.opened + fake.pinned + fake.mapped, 0u);
}

TestSuite(window_dma, .init = set_up, .fini = tear_down, .timeout = 60);

static uint32_t word(uint32_t i, uint32_t seed)
{
	return (i * 2654435761u) ^ (seed * 0x9e3779b9u);
}

static void fill(void *to, size_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes / 4; i++)
		((volatile uint32_t *)to)[i] = word(i, seed);
}

static bool holds(const void *at, size_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes / 4; i++)
		if (((const volatile uint32_t *)at)[i] != word(i, seed))
			return false;
	return true;
}

/*
 * Move blocks between the disk and the window from `offset` on; at most two pages, so without a PRP
 * list.
 */
static void move(uint8_t opcode, uint64_t lba, size_t bytes, size_t offset)
{
	struct hr_sqe sqe = conform_io_sqe(&c, opcode, lba, (uint32_t)(bytes / c.block_bytes), A);

	sqe.prp1 = hr_region_bus(&region, offset).addr;
	sqe.prp2 = bytes > HR_PAGE ? hr_region_bus(&region, offset + HR_PAGE).addr : 0;
	cr_assert_eq(conform_do(&c, &c.io, &sqe, NULL), 0);
}

/* Write the whole window to the disk, and read it back to other places of the window. */
static void there_and_back(void)
{
	const size_t step = 2 * HR_PAGE, half = BYTES / 2;
	const uint32_t blocks = (uint32_t)(step / c.block_bytes);

	fill(window.cpu, half, 1);
	fill((uint8_t *)window.cpu + half, half, 2);
	for (size_t at = 0; at < half; at += step)
		move(nvme_cmd_write, LBA + at / c.block_bytes, step, at);
	for (size_t at = 0; at < half; at += step)
		move(nvme_cmd_read, LBA + at / c.block_bytes, step, half + at);
	cr_expect(holds((uint8_t *)window.cpu + half, half, 1), "as the window shows it");
	cr_expect(holds(memory + half, half, 1), "as the GPU's memory has it");
	cr_expect(holds(window.cpu, half, 1), "what was only read stays");
	/* The data on the disk came from the window, not from memory near it. */
	cr_assert_eq(conform_io(&c, nvme_cmd_read, LBA, blocks, A, 0), 0);
	cr_expect(holds(conform_page(&c, A), step, 1));
}

static void through(const struct hr_window_driver *driver, const char *by)
{
	cr_assert_eq(hr_window_open(&window, driver, &gdr, FAKE_GDR_BASE, BYTES, test_error()), 0,
		     "%s", test_error_text());
	cr_expect_str_eq(window.by, by);
	cr_assert_eq(hr_window_region(&window, "gpu", &region), 0);
	cr_assert_eq(c.t.ops->map(&c.t, &region, NULL), 0);
	there_and_back();
	c.t.ops->unmap(&c.t, &region);
	hr_window_close(&window);
}

Test(window_dma, through_a_mapping_of_gdrcopy)
{
	through(NULL, "gdrcopy");
}

Test(window_dma, through_a_dma_buf_that_the_driver_maps)
{
	struct hr_window_driver driver = fake_gdr_driver(&fake);

	through(&driver, "dma-buf");
}
