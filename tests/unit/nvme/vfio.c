/* VFIO: groups, devices and mappings over a kernel in memory; each way it may refuse. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices.h"
#include "config/log.h"
#include "config/limits.h"
#include "nvme/hostmem.h"
#include "nvme/ctrl.h"
#include "nvme/wire.h"
#include "tests/fakes/log.h"
#include "tests/fakes/tree.h"
#include "tests/fakes/vfio.h"

TestSuite(vfio, .timeout = 60);

static char message[HR_LOG_LINE_MAX];
static const struct hr_function_state one = { "0000:01:00.0", HR_CLASS_NVME, "vfio-pci", 5, "DMA" };
static const struct hr_function_state two = { "0000:02:00.0", HR_CLASS_NVME, "vfio-pci", 6, "DMA" };
static const struct hr_function_state beside = { "0000:01:00.1", HR_CLASS_NVME, "vfio-pci", 5,
						 "DMA" };

static const struct hr_region whole = {
	.name = "whole", .cpu = message, .bytes = 1u << 20, .bus = { 64ull << 30 }
};

Test(vfio, every_refusal_says_why_and_leaves_nothing_open)
{
	struct fake_vfio *fake = fake_vfio_start();
	const struct {
		struct fake_vfio knobs;
		int want;
		const char *say;
	} row[] = {
		{ { .no_container = ENOENT }, -ENODEV, "modprobe vfio-pci" },
		{ { .no_container = ENODEV }, -ENODEV, "modprobe vfio-pci" },
		{ { .no_container = EACCES }, -EACCES, "run as root" },
		{ { .no_container = EPERM }, -EACCES, "run as root" },
		{ { .no_container = EMFILE }, -ENODEV, "/dev/vfio/vfio: Too many open files" },
		{ { .no_type1 = true }, -ENODEV, "no type1 IOMMU" },
		{ { .no_group = ENOENT }, -ENODEV, "/dev/vfio/5: No such file" },
		{ { .no_group = EBUSY }, -EBUSY, "another process has this IOMMU group" },
		{ { .no_group = EACCES }, -EACCES, "run as root" },
		{ { .no_group = EPERM }, -EACCES, "run as root" },
		{ { .no_status = EIO }, -ENODEV, "IOMMU group 5 does not say its state: Input" },
		{ { .not_viable = true }, -EBUSY, "IOMMU group 5 cannot be opened: " },
		{ { .no_join = EINVAL }, -EBUSY, "cannot share an address space" },
		{ { .no_iommu = EPERM }, -EPERM, "allow_unsafe_interrupts" },
		{ { .no_iommu = EINVAL }, -ENODEV, "the IOMMU does not take it" },
		{ { .no_device = ENODEV }, -ENODEV, "vfio does not open it" },
		{ { .no_device = EBUSY }, -EBUSY, "vfio does not open it" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_vfio_device d;
		uint8_t *bar = fake->bar;

		*fake = row[i].knobs;
		fake->bar = bar;
		cr_expect_eq(hr_vfio_device_open(&d, &one, message), row[i].want, "row %zu", i);
		cr_expect(strstr(message, row[i].say), "row %zu: %s", i, message);
		cr_expect(strstr(message, one.bdf), "row %zu: %s", i, message);
		cr_expect_eq(fake->containers + fake->groups + fake->devices, 0, "row %zu", i);
		hr_vfio_device_close(&d);
	}
}

Test(vfio, groups_and_regions_are_as_many_as_there_is_room_for)
{
	static struct hr_vfio_device d[HR_SSDS_MAX + 1];
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_function_state state = one;
	struct hr_region region = whole;

	for (unsigned i = 0; i <= HR_SSDS_MAX; i++) {
		state.group = (int)i;
		cr_expect_eq(hr_vfio_device_open(&d[i], &state, message),
			     i < HR_SSDS_MAX ? 0 : -ENOMEM, "%u", i);
	}
	cr_expect(strstr(message, "more than 16 IOMMU groups"), "%s", message);
	for (unsigned i = 0; i <= HR_HOSTMEM_MAX; i++) {
		region.bus.addr = (uint64_t)i << 30;
		cr_expect_eq(hr_vfio_map(&region), i < HR_HOSTMEM_MAX ? 0 : -ENOSPC, "%u", i);
	}
	cr_expect(strstr(fake_log_last(), "too many regions"), "%s", fake_log_last());
	for (unsigned i = 0; i <= HR_SSDS_MAX; i++)
		hr_vfio_device_close(&d[i]);
	cr_expect_eq(fake->maps, 0); /* what was left */
}

Test(vfio, without_an_iommu_there_is_no_vfio)
{
	struct hr_function_state state = one;
	struct hr_vfio_device d;

	fake_vfio_start();
	state.group = HR_NO_GROUP;
	cr_expect_eq(hr_vfio_device_open(&d, &state, message), -ENODEV);
	cr_expect(strstr(message, "intel_iommu=on"), "%s", message);
}

Test(vfio, one_container_holds_all_groups_and_a_group_all_its_functions)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_vfio_device a, b, c;

	cr_assert_eq(hr_vfio_device_open(&a, &one, message), 0);
	cr_assert_eq(hr_vfio_device_open(&b, &two, message), 0);
	cr_assert_eq(hr_vfio_device_open(&c, &beside, message), 0);
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
	cr_assert_eq(hr_vfio_device_open(&a, &two, message), 0, "%s", message); /* and once more */
	cr_expect_eq(fake->iommus, 2);
	cr_expect_eq(hr_vfio_map(&whole), 0);
	hr_vfio_unmap(&whole);
	hr_vfio_device_close(&a);
}

/* The next container has an IOMMU, mappings and addresses of its own: nothing of the last one. */
Test(vfio, a_second_bring_up_starts_from_nothing)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_region far = whole;
	struct hr_vfio_device d;

	far.bus.addr = 1ull << 40;
	fake->last_iova = (1ull << 39) - 1;
	cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0);
	cr_expect_eq(hr_vfio_map(&whole), 0);
	cr_expect_eq(hr_vfio_map(&far), -ERANGE);
	hr_vfio_device_close(&d); /* with a mapping left */
	cr_expect_eq(fake->maps, 0);

	fake->last_iova = 0; /* this one does not tell its addresses */
	cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0, "%s", message);
	cr_expect_eq(hr_vfio_map(&far), 0);
	cr_expect_eq(hr_vfio_map(&whole), 0);
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

	cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0);
	fake->command = 0x100;
	cr_expect_eq(hr_vfio_device_enable(&d, HR_COMMAND_BME, message), 0);
	cr_expect_eq(fake->command, 0x104);
	fake->command_is_stuck = true;
	cr_expect_eq(hr_vfio_device_enable(&d, HR_COMMAND_MSE, message), -EIO);
	fake->command = UINT16_MAX;
	cr_expect_eq(hr_vfio_device_enable(&d, HR_COMMAND_MSE, message), -EIO);
	cr_expect_eq(hr_vfio_device_map(&d, 0, &map, message), 0);
	cr_expect_eq(map.cpu, fake->bar);
	cr_expect_eq(map.bytes, FAKE_VFIO_BAR_BYTES);
	hr_vfio_device_unmap(&map);
	hr_vfio_device_unmap(&map); /* of nothing: nothing */
	cr_expect_eq(hr_vfio_device_map(&d, 1, &map, message), -ENXIO);
	fake->no_bar = EINVAL;
	cr_expect_eq(hr_vfio_device_map(&d, 0, &map, message), -EIO);
	fake->bar_is_not_memory = true;
	cr_expect_eq(hr_vfio_device_map(&d, 0, &map, message), -ENXIO);
	cr_expect(strstr(message, "lspci -vvs 0000:0"), "%s", message);
	hr_vfio_device_close(&d);
}

/* ---- mappings */

static struct hr_bus granule[6] = { { 0x200000 },  { 0x400000 },  { 0x600000 },
				    { 0x1200000 }, { 0x1000000 }, { 0x1400000 } };
static const struct hr_region scattered = { .name = "scattered",
					    .cpu = granule, /* never touched */
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

	cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0);
	cr_assert_eq(hr_vfio_map(&scattered), 0);
	cr_assert_eq(fake->maps, 4);
	for (unsigned i = 0; i < 4; i++) {
		cr_expect_eq(fake->map[i].iova, want[i].iova);
		cr_expect_eq(fake->map[i].bytes, want[i].bytes);
		cr_expect_eq(fake->map[i].cpu, (uintptr_t)granule + want[i].cpu);
		cr_expect_eq(fake->map[i].flags, VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE);
	}
	cr_assert_eq(hr_vfio_map(&whole), 0);
	cr_expect_eq(fake->maps, 5);
	hr_vfio_unmap(&scattered);
	cr_expect_eq(fake->maps, 1);
	hr_vfio_unmap(&whole);
	cr_expect_eq(fake->maps, 0);
	hr_vfio_device_close(&d);
}

Test(vfio, a_region_is_mapped_once_for_all_who_use_it)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_region other = whole;
	struct hr_vfio_device d;

	cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0);
	cr_assert_eq(hr_vfio_map(&whole), 0);
	cr_assert_eq(hr_vfio_map(&whole), 0);
	cr_expect_eq(fake->maps, 1);
	other.cpu = granule; /* other memory at the same addresses */
	cr_expect_eq(hr_vfio_map(&other), -EEXIST);
	hr_vfio_unmap(&whole);
	cr_expect_eq(fake->maps, 1);
	hr_vfio_unmap(&whole);
	cr_expect_eq(fake->maps, 0);
	hr_vfio_unmap(&whole); /* not mapped: nothing */
	hr_vfio_device_close(&d);
}

Test(vfio, what_cannot_be_mapped_leaves_nothing_mapped)
{
	static const struct {
		struct fake_vfio knobs;
		int want;
		const char *say;
	} row[] = {
		{ { .no_map = ENOMEM, .map_fails_at = 2 }, -ENOMEM, "ulimit -l" },
		{ { .no_map = ENOSPC, .map_fails_at = 3 }, -ENOSPC, "use huge pages" },
		{ { .no_map = EFAULT }, -EFAULT, "Bad address" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_vfio *fake = fake_vfio_start();
		struct hr_vfio_device d;

		cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0);
		fake->no_map = row[i].knobs.no_map;
		fake->map_fails_at = row[i].knobs.map_fails_at;
		cr_expect_eq(hr_vfio_map(&scattered), row[i].want, "row %zu", i);
		cr_expect(strstr(fake_log_last(), row[i].say), "%s", fake_log_last());
		cr_expect_eq(fake->maps, 0, "row %zu", i);
		fake->no_map = 0;
		cr_expect_eq(hr_vfio_map(&scattered), 0);
		hr_vfio_unmap(&scattered);
		hr_vfio_device_close(&d);
	}
}

Test(vfio, addresses_that_the_iommu_does_not_have_are_named)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_region region = whole, blind = whole;
	struct hr_vfio_device d;

	fake->last_iova = (1ull << 39) - 1;
	cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0);
	cr_expect_eq(hr_vfio_map(&whole), 0);
	hr_vfio_unmap(&whole);
	region.bus.addr = 1ull << 39;
	cr_expect_eq(hr_vfio_map(&region), -ERANGE);
	cr_expect(strstr(fake_log_last(), "up to 0x7fffffffff"), "%s", fake_log_last());
	region.bus.addr = 0xfee00000; /* interrupts are there */
	cr_expect_eq(hr_vfio_map(&region), -ERANGE);
	blind.cpu = NULL;
	cr_expect_eq(hr_vfio_map(&blind), -EINVAL);
	hr_vfio_device_close(&d);
}

/* Ranges as { 0 .. 0xfedfffff }, { 0xfef00000 .. last_iova }: both ends are inside. */
Test(vfio, a_range_ends_at_its_last_address)
{
	static const struct {
		uint64_t bus, bytes;
		int want;
	} row[] = {
		{ 0, 0x100000, 0 },
		{ 0xfed00000, 0x100000, 0 },	   /* up to the last address of the first */
		{ 0xfed00000, 0x101000, -ERANGE }, /* one page more */
		{ 0xfeeff000, 0x1000, -ERANGE },
		{ 0xfeeff000, 0x2000, -ERANGE }, /* begins before the second */
		{ 0xfef00000, 0x1000, 0 },
		{ 0x7fffff0000, 0x10000, 0 }, /* up to last_iova */
		{ 0x7fffff0000, 0x11000, -ERANGE },
	};
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_vfio_device d;

	fake->last_iova = (1ull << 39) - 1;
	cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_region region = whole;

		region.bus.addr = row[i].bus;
		region.bytes = row[i].bytes;
		cr_expect_eq(hr_vfio_map(&region), row[i].want, "row %zu", i);
		if (row[i].want == 0)
			hr_vfio_unmap(&region);
	}
	hr_vfio_device_close(&d);
}

/* Of what the IOMMU says about its addresses, only what is whole and in order is used. */
Test(vfio, information_about_addresses_is_read_with_care)
{
	const uint64_t end = (1ull << 39) - 1;
	const struct {
		struct fake_vfio knobs;
		uint64_t bus;
		int want; /* of 1 MiB at bus */
	} row[] = {
		{ { .last_iova = end, .info_other_first = true }, 1ull << 39, -ERANGE },
		{ { .last_iova = end, .info_other_first = true, .info_chain_back = true },
		  1ull << 39,
		  0 }, /* a circle: the addresses stay unknown */
		{ { .last_iova = end, .info_argsz = 24 }, 1ull << 39, 0 }, /* no capability */
		/* A list that is cut off, or longer than what is kept: the kernel decides. */
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
		cr_assert_eq(hr_vfio_device_open(&d, &one, message), 0, "row %zu", i);
		cr_expect_eq(hr_vfio_map(&region), row[i].want, "row %zu", i);
		hr_vfio_device_close(&d);
	}
}

/* ---- the transport */

static struct fake_tree tree;

/* With --bind: what others handed out nobody knows, so their drivers keep it. */
static int bind_from_others(void *arg)
{
	struct hr_transport t;

	fake_vfio_start();
	hr_transport_allow_bind();
	if (hr_transport_open(&t, "vfio:0000:03:00.0", message) != -EBUSY ||
	    !strstr(message, "the driver uio_pci_generic is bound to it, and who uses it"))
		return 1;
	if (hr_transport_open(&t, "pci:0000:03:00.0", message) == 0)
		return 2;
	return 0;
}

Test(vfio, a_driver_whose_users_nobody_knows_keeps_its_function)
{
	int step;

	fake_tree_make(&tree);
	fake_tree_add(&tree,
		      &(struct fake_tree_fn){ "0000:03:00.0", HR_CLASS_NVME, "uio_pci_generic", 1,
					      0x4000, 0x800000000, 0 });
	step = fake_tree_run(&tree, bind_from_others, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, message);
	fake_tree_remove(&tree);
}

static int open_transport(void *arg)
{
	struct fake_vfio *fake = fake_vfio_start();
	const uint32_t vs = 0x10400;
	struct hr_transport t;

	if (hr_transport_open(&t, "vfio:0000:03:00.0", message) != -EBUSY ||
	    !strstr(message, "the kernel driver is nvme; it has to be bound to vfio-pci"))
		return 1;
	if (hr_transport_open(&t, "vfio:0000:05:00.0", message) != -EBUSY ||
	    !strstr(message, "no driver is bound to it"))
		return 2;
	if (hr_transport_open(&t, "vfio:0000:06:00.0", message) != -ENODEV ||
	    !strstr(message, "is no NVMe controller"))
		return 3;
	if (hr_transport_open(&t, "vfio:0000:04:00.0", message) != -ENODEV ||
	    !strstr(message, "VS reads 00000000") || fake->devices)
		return 4;
	memcpy(fake->bar + NVME_REG_VS, &vs, sizeof vs);
	fake->command = 0;
	if (hr_transport_open(&t, "vfio:0000:04:00.0", message) || t.bar != fake->bar ||
	    t.bar_bytes != FAKE_VFIO_BAR_BYTES || strcmp(t.name, "0000:04:00.0"))
		return 5;
	if (fake->command != (HR_COMMAND_MSE | HR_COMMAND_BME))
		return 6;
	if (t.ops->map(&t, &whole) || fake->maps != 1)
		return 7;
	t.ops->unmap(&t, &whole);
	t.ops->close(&t);
	return fake->maps || fake->devices || fake->containers ? 8 : 0;
}

Test(vfio, a_controller_is_reached_through_it)
{
	int step;

	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ "0000:03:00.0", HR_CLASS_NVME, "nvme", 1,
						     0x4000, 0x800000000, 0 });
	fake_tree_add(&tree, &(struct fake_tree_fn){ "0000:04:00.0", HR_CLASS_NVME, "vfio-pci", 1,
						     0x4000, 0x800004000, 0 });
	fake_tree_add(&tree, &(struct fake_tree_fn){ "0000:05:00.0", HR_CLASS_NVME, NULL, 1, 0x4000,
						     0x800008000, 0 });
	fake_tree_add(&tree, &(struct fake_tree_fn){ "0000:06:00.0", 0x030200, "vfio-pci", 1,
						     0x4000, 0x80000c000, 0 });
	step = fake_tree_run(&tree, open_transport, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
	fake_tree_remove(&tree);
}

/* The function that keeps the group closed is named, from the topology. */
static int explain(void *arg)
{
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_function_state state;
	struct hr_vfio_device d;

	fake->not_viable = true;
	if (hr_function_look("0000:04:00.0", &state, message))
		return 1;
	if (hr_vfio_device_open(&d, &state, message) != -EBUSY)
		return 2;
	return strstr(message, "0000:03:00.0 is in it too and bound to nvme") ? 0 : 3;
}

Test(vfio, what_keeps_a_group_closed_is_named)
{
	int step;

	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ "0000:03:00.0", HR_CLASS_NVME, "nvme", 1,
						     0x4000, 0x800000000, 0 });
	fake_tree_add(&tree, &(struct fake_tree_fn){ "0000:04:00.0", HR_CLASS_NVME, "vfio-pci", 1,
						     0x4000, 0x800004000, 0 });
	step = fake_tree_run(&tree, explain, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, message);
	fake_tree_remove(&tree);
}
