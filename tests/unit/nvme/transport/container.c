/* SPDX-License-Identifier: Apache-2.0 */
/* VFIO: groups, devices and mappings over a fake kernel, and all refusals. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <string.h>

#include "config/base/limits.h"
#include "nvme/dma/hostmem.h"
#include "nvme/transport/container.h"
#include "tests/fakes/log.h"
#include "tests/fakes/pci_names.h"
#include "tests/fakes/vfio.h"
#include "tests/harness/error.h"

TestSuite(vfio, .timeout = 60);
static const struct hr_function_state one = { .bdf = "0000:01:00.0",
					      .class = HR_CLASS_NVME,
					      .driver = "vfio-pci",
					      .group = 5,
					      .group_type = "DMA" };
static const struct hr_function_state two = { .bdf = "0000:02:00.0",
					      .class = HR_CLASS_NVME,
					      .driver = "vfio-pci",
					      .group = 6,
					      .group_type = "DMA" };
static const struct hr_function_state beside = { .bdf = "0000:01:00.1",
						 .class = HR_CLASS_NVME,
						 .driver = "vfio-pci",
						 .group = 5,
						 .group_type = "DMA" };

static char space[64]; /* an address */
static const struct hr_region whole = {
	.name = "whole", .cpu = space, .bytes = 1u << 20, .bus = { 64ull << 30 }
};

Test(vfio, every_refusal_names_the_cause_and_leaves_no_open_file)
{
	struct fake_vfio *fake = fake_vfio_start();
	const struct {
		struct fake_vfio knobs;
		int want;
		const char *say;
	} row[] = {
		{ { .no_container = ENOENT }, -ENODEV, "modprobe vfio-pci" },
		{ { .no_container = ENODEV }, -ENODEV, "modprobe vfio-pci" },
		{ { .no_container = ENOENT, .only_iommufd = true },
		  -ENODEV,
		  "this kernel has iommufd only" },
		{ { .no_container = EACCES }, -EACCES, "run as root" },
		{ { .no_container = EPERM }, -EACCES, "run as root" },
		{ { .no_container = EMFILE }, -ENODEV, "/dev/vfio/vfio: Too many open files" },
		{ { .no_type1 = true }, -ENODEV, "no type1 IOMMU: modprobe vfio_iommu_type1" },
		{ { .old_version = true }, -ENODEV, "no type1 IOMMU: modprobe vfio_iommu_type1" },
		{ { .no_group = ENOENT }, -ENODEV, "/dev/vfio/5: No such file" },
		{ { .no_group = ENOENT, .no_iommu_mode = true }, -ENODEV, "no-IOMMU mode" },
		{ { .no_group = EBUSY }, -EBUSY, "another process has this IOMMU group" },
		{ { .no_group = EACCES }, -EACCES, "run as root" },
		{ { .no_group = EPERM }, -EACCES, "run as root" },
		{ { .no_status = EIO }, -ENODEV, "cannot read the state of IOMMU group 5: Input" },
		{ { .not_viable = true }, -EBUSY, "IOMMU group 5 cannot be opened: " },
		{ { .no_join = EINVAL }, -EBUSY, "cannot share an address space" },
		{ { .no_iommu = EPERM }, -EPERM, "allow_unsafe_interrupts" },
		{ { .no_iommu = EINVAL }, -ENODEV, "cannot use the IOMMU for it" },
		{ { .no_device = ENODEV }, -ENODEV, "vfio does not open it" },
		{ { .no_device = EBUSY }, -EBUSY, "vfio does not open it" },
		{ { .no_config = EIO }, -ENODEV, "vfio does not open it: Input/output error" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_vfio_device d;
		uint8_t *bar = fake->bar;

		*fake = row[i].knobs;
		fake->bar = bar;
		cr_expect_eq(hr_vfio_device_open(&d, &one, test_error()), row[i].want, "row %zu",
			     i);
		cr_expect(strstr(test_error_text(), row[i].say), "row %zu: %s", i,
			  test_error_text());
		cr_expect(strstr(test_error_text(), one.bdf), "row %zu: %s", i, test_error_text());
		cr_expect_eq(fake->containers + fake->groups + fake->devices, 0, "row %zu", i);
		hr_vfio_device_close(&d);
	}
}

Test(vfio, groups_and_regions_are_limited_by_their_tables)
{
	static struct hr_vfio_device d[HR_SSDS_MAX + 1];
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_function_state state = one;
	struct hr_region region = whole;

	for (unsigned i = 0; i <= HR_SSDS_MAX; i++) {
		state.group = (int)i;
		cr_expect_eq(hr_vfio_device_open(&d[i], &state, test_error()),
			     i < HR_SSDS_MAX ? 0 : -ENOMEM, "%u", i);
	}
	cr_expect(strstr(test_error_text(), "more than 16 IOMMU groups"), "%s", test_error_text());
	for (unsigned i = 0; i <= HR_HOSTMEM_MAX; i++) {
		region.bus.addr = (uint64_t)i << 30;
		cr_expect_eq(hr_vfio_map(&region, test_error()), i < HR_HOSTMEM_MAX ? 0 : -ENOSPC,
			     "%u", i);
	}
	cr_expect(strstr(test_error_text(), "over 256 regions are mapped"), "%s",
		  test_error_text());
	for (unsigned i = 0; i <= HR_SSDS_MAX; i++)
		hr_vfio_device_close(&d[i]);
	cr_expect_eq(fake->maps, 0); /* leftovers */
}

Test(vfio, without_an_iommu_there_is_no_vfio)
{
	struct hr_function_state state = one;
	struct hr_vfio_device d;

	fake_vfio_start();
	state.group = HR_NO_GROUP;
	cr_expect_eq(hr_vfio_device_open(&d, &state, test_error()), -ENODEV);
	cr_expect(strstr(test_error_text(), "intel_iommu=on"), "%s", test_error_text());
}

Test(vfio, one_container_holds_all_groups_and_a_group_all_its_functions)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_vfio_device a, b, c;

	cr_assert_eq(hr_vfio_device_open(&a, &one, test_error()), 0);
	cr_assert_eq(hr_vfio_device_open(&b, &two, test_error()), 0);
	cr_assert_eq(hr_vfio_device_open(&c, &beside, test_error()), 0);
	cr_expect_eq(fake->containers, 1);
	cr_expect_eq(fake->groups, 2);
	cr_expect_eq(fake->devices, 3);
	hr_vfio_device_close(&a);
	cr_expect_eq(fake->groups, 2);
	hr_vfio_device_close(&b);
	cr_expect_eq(fake->groups, 1);
	hr_vfio_device_close(&c);
	cr_expect_eq(fake->containers + fake->groups + fake->devices, 0);
	cr_expect_eq(fake->iommus, 1);
	cr_assert_eq(hr_vfio_device_open(&a, &two, test_error()), 0, "%s",
		     test_error_text()); /* the same group a second time */
	cr_expect_eq(fake->iommus, 2);
	cr_expect_eq(hr_vfio_map(&whole, test_error()), 0);
	hr_vfio_unmap(&whole);
	hr_vfio_device_close(&a);
}

/* The next container has its own IOMMU, mappings and addresses, and nothing from the last one. */
Test(vfio, a_second_bring_up_opens_vfio_anew)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_region far = whole;
	struct hr_vfio_device d;

	far.bus.addr = 1ull << 40;
	fake->last_iova = (1ull << 39) - 1;
	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	cr_expect_eq(hr_vfio_map(&whole, test_error()), 0);
	cr_expect_eq(hr_vfio_map(&far, test_error()), -ERANGE);
	hr_vfio_device_close(&d); /* while a mapping exists */
	cr_expect_eq(fake->maps, 0);

	fake->last_iova = 0; /* this kernel does not report its addresses */
	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0, "%s", test_error_text());
	cr_expect_eq(hr_vfio_map(&far, test_error()), 0);
	cr_expect_eq(hr_vfio_map(&whole, test_error()), 0);
	cr_expect_eq(fake->maps, 2);
	hr_vfio_unmap(&whole);
	cr_expect_eq(fake->maps, 1);
	hr_vfio_device_close(&d);
}

Test(vfio, command_register_and_bar)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_vfio_device d;
	struct hr_bar_map map;

	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	fake->command = 0x100;
	cr_expect_eq(hr_vfio_device_enable(&d, HR_COMMAND_BME, test_error()), 0);
	cr_expect_eq(fake->command, 0x104);
	cr_expect_eq(hr_vfio_device_stop_dma(&d), 0);
	cr_expect_eq(fake->command, 0x100);
	fake->command = 0x104;
	fake->stuck = UINT16_MAX;
	cr_expect_eq(hr_vfio_device_stop_dma(&d), -EIO);
	cr_expect_eq(hr_vfio_device_enable(&d, HR_COMMAND_MSE, test_error()), -EIO);
	cr_expect_str_eq(test_error_text(), "0000:01:00.0: its command register does not take 0002 "
					    "(it reads 0104)");
	fake->command = UINT16_MAX;
	cr_expect_eq(hr_vfio_device_stop_dma(&d), -ENODEV);
	cr_expect_eq(hr_vfio_device_enable(&d, HR_COMMAND_MSE, test_error()), -EIO);
	cr_expect_eq(hr_vfio_device_map(&d, 0, &map, test_error()), 0);
	cr_expect_eq(map.cpu, fake->bar);
	cr_expect_eq(map.bytes, FAKE_VFIO_BAR_BYTES);
	hr_vfio_device_unmap(&map);
	hr_vfio_device_unmap(&map); /* not mapped, so this does nothing */
	cr_expect_eq(hr_vfio_device_map(&d, 1, &map, test_error()), -ENXIO);
	fake->no_bar = EINVAL;
	cr_expect_eq(hr_vfio_device_map(&d, 0, &map, test_error()), -EIO);
	fake->bar_is_not_memory = true;
	cr_expect_eq(hr_vfio_device_map(&d, 0, &map, test_error()), -ENXIO);
	cr_expect(strstr(test_error_text(), "lspci -vvs 0000:0"), "%s", test_error_text());
	hr_vfio_device_close(&d);
}

/* ---- mappings */

static struct hr_bus granule[6] = { { 0x200000 },  { 0x400000 },  { 0x600000 },
				    { 0x1200000 }, { 0x1000000 }, { 0x1400000 } };
static const struct hr_region scattered = { .name = "scattered",
					    .cpu = granule, /* never accessed */
					    .bytes = 6u << 21,
					    .bus = { 0x200000 },
					    .granule_bus = granule,
					    .granule_shift = 21 };

Test(vfio, neighbours_on_the_bus_are_one_mapping)
{
	static const struct fake_vfio_map want[] = {
		{ 0x200000, 3u << 21, 0, 0 },
		{ 0x1200000, 1u << 21, 3u << 21, 0 },
		{ 0x1000000, 1u << 21, 4u << 21, 0 },
		{ 0x1400000, 1u << 21, 5u << 21, 0 },
	};
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_vfio_device d;

	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	cr_assert_eq(hr_vfio_map(&scattered, test_error()), 0);
	cr_assert_eq(fake->maps, 4);
	for (unsigned i = 0; i < 4; i++) {
		cr_expect_eq(fake->map[i].iova, want[i].iova);
		cr_expect_eq(fake->map[i].bytes, want[i].bytes);
		cr_expect_eq(fake->map[i].cpu, (uintptr_t)granule + want[i].cpu);
		cr_expect_eq(fake->map[i].flags, VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE);
	}
	cr_assert_eq(hr_vfio_map(&whole, test_error()), 0);
	cr_expect_eq(fake->maps, 5);
	hr_vfio_unmap(&scattered);
	cr_expect_eq(fake->maps, 1);
	hr_vfio_unmap(&whole);
	cr_expect_eq(fake->maps, 0);
	hr_vfio_device_close(&d);
}

Test(vfio, a_region_is_mapped_once_for_all_users)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_region other = whole;
	struct hr_vfio_device d;

	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	cr_assert_eq(hr_vfio_map(&whole, test_error()), 0);
	cr_assert_eq(hr_vfio_map(&whole, test_error()), 0);
	cr_expect_eq(fake->maps, 1);
	other.cpu = granule; /* other memory at the same addresses */
	cr_expect_eq(hr_vfio_map(&other, test_error()), -EEXIST);
	hr_vfio_unmap(&whole);
	cr_expect_eq(fake->maps, 1);
	hr_vfio_unmap(&whole);
	cr_expect_eq(fake->maps, 0);
	hr_vfio_unmap(&whole); /* not mapped, so this does nothing */
	hr_vfio_device_close(&d);
}

Test(vfio, a_failed_map_leaves_no_mapping)
{
	static const struct {
		struct fake_vfio knobs;
		int want;
		const char *say;
	} row[] = {
		{ { .no_map = ENOMEM, .map_fails_at = 2 },
		  -ENOMEM,
		  "vfio: region 'scattered': 2097152 bytes at I/O address 0x1000000 cannot be "
		  "mapped: Cannot allocate memory; more locked memory: ulimit -l" },
		{ { .no_map = ENOSPC, .map_fails_at = 3 }, -ENOSPC, "use huge pages" },
		{ { .no_map = EFAULT }, -EFAULT, "Bad address" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_vfio *fake = fake_vfio_start();
		struct hr_vfio_device d;

		cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
		fake->no_map = row[i].knobs.no_map;
		fake->map_fails_at = row[i].knobs.map_fails_at;
		cr_expect_eq(hr_vfio_map(&scattered, test_error()), row[i].want, "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].say), "%s", test_error_text());
		cr_expect_eq(fake->maps, 0, "row %zu", i);
		cr_expect_eq(test_error_kind(),
			     row[i].want == -EFAULT ? HR_ERROR_DEVICE : HR_ERROR_MISSING);
		fake->no_map = 0;
		cr_expect_eq(hr_vfio_map(&scattered, test_error()), 0);
		hr_vfio_unmap(&scattered);
		hr_vfio_device_close(&d);
	}
}

Test(vfio, what_cannot_be_unmapped_is_a_warning)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_vfio_device d;

	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	cr_assert_eq(hr_vfio_map(&scattered, test_error()), 0);
	fake->no_unmap = EINVAL;
	hr_vfio_unmap(&scattered);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 4u);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "vfio: region 'scattered': 2097152 bytes at "
			 "I/O address 0x1400000 stay mapped: Invalid "
			 "argument");
	hr_vfio_device_close(&d);
}

Test(vfio, addresses_that_the_iommu_does_not_have_are_named)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_region region = whole, blind = whole;
	struct hr_vfio_device d;

	fake->last_iova = (1ull << 39) - 1;
	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	cr_expect_eq(hr_vfio_map(&whole, test_error()), 0);
	hr_vfio_unmap(&whole);
	region.bus.addr = 1ull << 39;
	cr_expect_eq(hr_vfio_map(&region, test_error()), -ERANGE);
	cr_expect(strstr(test_error_text(), "addresses 0x8000000000 to 0x80000fffff; it supports "
					    "addresses up to 0x7fffffffff"),
		  "%s", test_error_text());
	region.bus.addr = 0xfee00000; /* the interrupt range */
	cr_expect_eq(hr_vfio_map(&region, test_error()), -ERANGE);
	blind.cpu = NULL;
	cr_expect_eq(hr_vfio_map(&blind, test_error()), -EINVAL);
	hr_vfio_device_close(&d);
}

/* Ranges { 0 .. 0xfedfffff }, { 0xfef00000 .. last_iova }, both ends inclusive. */
Test(vfio, a_range_ends_at_its_last_address)
{
	static const struct {
		uint64_t bus, bytes;
		int want;
	} row[] = {
		{ 0, 0x100000, 0 },
		{ 0xfed00000, 0x100000, 0 },	   /* up to the last address of the first range */
		{ 0xfed00000, 0x101000, -ERANGE }, /* one page more */
		{ 0xfeeff000, 0x1000, -ERANGE },
		{ 0xfeeff000, 0x2000, -ERANGE }, /* begins before the second range */
		{ 0xfef00000, 0x1000, 0 },
		{ 0x7fffff0000, 0x10000, 0 }, /* up to last_iova */
		{ 0x7fffff0000, 0x11000, -ERANGE },
	};
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_vfio_device d;

	fake->last_iova = (1ull << 39) - 1;
	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_region region = whole;

		region.bus.addr = row[i].bus;
		region.bytes = row[i].bytes;
		cr_expect_eq(hr_vfio_map(&region, test_error()), row[i].want, "row %zu", i);
		if (row[i].want == 0)
			hr_vfio_unmap(&region);
	}
	hr_vfio_device_close(&d);
}

/* Only complete and ordered information of the IOMMU about its addresses is used. */
Test(vfio, information_about_addresses_is_read_with_care)
{
	const uint64_t end = (1ull << 39) - 1;
	const struct {
		struct fake_vfio knobs;
		uint64_t bus;
		int want; /* result for 1 MiB at bus */
	} row[] = {
		{ { .last_iova = end, .info_other_first = true }, 1ull << 39, -ERANGE },
		{ { .last_iova = end, .info_other_first = true, .info_chain_back = true },
		  1ull << 39,
		  0 }, /* a cyclic list: the addresses stay unknown */
		{ { .last_iova = end, .info_argsz = 24 }, 1ull << 39, 0 }, /* no capability */
		/* A list that is cut off, or longer than the stored part: the kernel decides. */
		{ { .last_iova = end, .info_argsz = 71 }, 1ull << 39, 0 },
		{ { .last_iova = end, .info_argsz = 72 }, 1ull << 39, -ERANGE },
		{ { .last_iova = end, .info_argsz = UINT32_MAX }, 1ull << 39, -ERANGE },
		{ { .last_iova = end, .info_argsz = UINT32_MAX, .info_cap_at = 4096 },
		  1ull << 39,
		  0 },
		{ { .last_iova = end, .info_argsz = UINT32_MAX, .info_cap_at = 4090 },
		  1ull << 39,
		  0 },
		{ { .last_iova = end, .ranges = 16 }, 1ull << 39, -ERANGE },
		{ { .last_iova = end, .ranges = 16 }, 10ull << 32, 0 },
		{ { .last_iova = end, .ranges = 17 }, 1ull << 39, 0 },
		{ { .last_iova = end, .ranges = FAKE_VFIO_RANGES }, 20ull << 32, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_vfio *fake = fake_vfio_start();
		uint8_t *bar = fake->bar;
		struct hr_region region = whole;
		struct hr_vfio_device d;

		*fake = row[i].knobs;
		fake->bar = bar;
		region.bus.addr = row[i].bus;
		cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0, "row %zu", i);
		cr_expect_eq(hr_vfio_map(&region, test_error()), row[i].want, "row %zu", i);
		hr_vfio_device_close(&d);
	}
}
