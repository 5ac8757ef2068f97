/* SPDX-License-Identifier: Apache-2.0 */
/* Controllers by physical address: refusals, changes and their restoration, on files. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/ctrl.h"
#include "nvme/transport/hardware.h"
#include "nvme/queue/wire.h"
#include "pci/function.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

#define SSD "0000:03:00.0"
#define OTHER "0000:04:00.0"
#define BAR 0x800000000ull
#define BAR_BYTES 0x4000u
#define STUCK 1u   /* the controller does not become idle */
#define REMOVED 2u /* the controller is removed during the wait */
#define BLIND 3u   /* its registers read all ones for some time, then it is idle */

TestSuite(transport_pci, .timeout = 60);

static struct fake_tree tree;
static struct hr_transport t;

static void set32(uint32_t offset, uint32_t value)
{
	fake_tree_write(&tree, SSD, "resource0", offset, &value, sizeof value);
}

static uint32_t get32(uint32_t offset)
{
	uint32_t value;

	fake_tree_read(&tree, SSD, "resource0", offset, &value, sizeof value);
	return value;
}

/* The reason why the function is unusable, and the message. */
static const struct row {
	const char *name;
	struct fake_tree_fn fn;
	uint32_t vs;
	int want;
	const char *say;
} rows[] = {
	{ "fit", { SSD, HR_CLASS_NVME, NULL, -1, BAR_BYTES, BAR, 0 }, 0x10400, 0, "" },
	{ "fit behind an IOMMU that does not translate",
	  { SSD, HR_CLASS_NVME, NULL, 2, BAR_BYTES, BAR, 0 },
	  0x10400,
	  0,
	  "" },
	{ "no controller",
	  { SSD, 0x030000, NULL, -1, BAR_BYTES, BAR, 0 },
	  0x10400,
	  -ENODEV,
	  "is not an NVMe controller: its class is 030000" },
	{ "kernel driver",
	  { SSD, HR_CLASS_NVME, "nvme", -1, BAR_BYTES, BAR, 0 },
	  0x10400,
	  -EBUSY,
	  "the kernel driver nvme is bound to it: use --bind" },
	{ "IOMMU",
	  { SSD, HR_CLASS_NVME, NULL, 1, BAR_BYTES, BAR, 0 },
	  0x10400,
	  -ENOTSUP,
	  "use vfio:0000:03:00.0, or boot with iommu=pt" },
	{ "unknown IOMMU",
	  { SSD, HR_CLASS_NVME, NULL, 3, BAR_BYTES, BAR, 0 },
	  0x10400,
	  -ENOTSUP,
	  "type 'unknown'" },
	{ "no BAR", { SSD, HR_CLASS_NVME, NULL, -1, 0, 0, 0 }, 0, -ENXIO, "BAR0 is missing" },
	{ "small BAR",
	  { SSD, HR_CLASS_NVME, NULL, -1, 0x1000, BAR, 0 },
	  0x10400,
	  -ENODEV,
	  "BAR0 of 4096 bytes has no room for the registers and doorbells of NVMe; look at it "
	  "with lspci -vvs " SSD ": update its firmware, or use another ssd" },
	{ "removed, as emulators do it",
	  { SSD, HR_CLASS_NVME, NULL, -1, BAR_BYTES, BAR, 0 },
	  0,
	  -ENODEV,
	  "VS reads 00000000: the device is gone, asleep, or its bridge does not pass memory on; "
	  "reset it: echo 1 > /sys/bus/pci/devices/" SSD "/reset" },
	{ "removed",
	  { SSD, HR_CLASS_NVME, NULL, -1, BAR_BYTES, BAR, 0 },
	  UINT32_MAX,
	  -ENODEV,
	  "or find it again: echo 1 > /sys/bus/pci/devices/" SSD "/remove; echo 1 > "
	  "/sys/bus/pci/rescan" },
};

/* Whether the BAR of some function is still in the address space of this process. */
static bool bar_is_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	bool found = false;

	while (maps && fgets(line, sizeof line, maps))
		found |= strstr(line, "resource0") != NULL;
	return !maps || fclose(maps) || found;
}

/* Nothing of a controller is left: every byte of the transport is 0, and its BAR is unmapped. */
static bool is_released(void)
{
	static const struct hr_transport none;

	return memcmp(&t, &none, sizeof t) == 0 && !bar_is_mapped();
}

static int open_one(void *arg)
{
	const struct row *row = arg;
	int err;

	memset(&t, 0xff, sizeof t);
	err = hr_transport_open(&t, "pci:" SSD, test_error());
	if (err != row->want || !strstr(err ? test_error_text() : "", row->say))
		return fprintf(stderr, "%s: %d: %s\n", row->name, err, test_error_text()), 1;
	if (err && bar_is_mapped())
		return 6;
	if (err)
		return fake_tree_command(&tree, SSD) == row->fn.command ? 0 : 2;
	if (strcmp(t.name, SSD) || t.kind != HR_TRANSPORT_PCI || t.bar_bytes != BAR_BYTES ||
	    t.bar_is_memory || t.keeps_no_data || hr_reg_read32(&t, NVME_REG_VS) != row->vs)
		return 3;
	if (fake_tree_command(&tree, SSD) != (HR_COMMAND_MSE | HR_COMMAND_BME | 0x400))
		return 4;
	t.ops->close(&t);
	if (!is_released() || fake_log_count_of(HR_LOG_WARN))
		return 7;
	return fake_tree_command(&tree, SSD) == row->fn.command ? 0 : 5;
}

Test(transport_pci, only_suitable_controllers_are_opened_and_others_are_not_touched)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct row row = rows[i];
		int step;

		fake_tree_make(&tree);
		fake_tree_add(&tree, &row.fn);
		fake_tree_group(&tree, 1, "DMA");
		fake_tree_group(&tree, 2, "identity");
		if (row.fn.bar_bytes)
			set32(NVME_REG_VS, row.vs);
		step = fake_tree_run(&tree, open_one, &row);
		fake_tree_expect(&tree, step, "%s: step %d", row.name, step);
		fake_tree_remove(&tree);
	}
}

static void make_enabled(void)
{
	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, NULL, -1, BAR_BYTES, BAR,
						     HR_COMMAND_BME });
	set32(NVME_REG_VS, 0x10400);
	set32(NVME_REG_CAP, 4u << 24); /* TO 2 s */
	set32(NVME_REG_CC, 1);
	set32(NVME_REG_CSTS, 1);
}

/* The controller becomes idle after some time, unless it is stuck. */
static void step(void *context)
{
	const uint32_t how = *(uint32_t *)context;

	if (how == REMOVED || (how == BLIND && get32(NVME_REG_CSTS) != UINT32_MAX))
		set32(NVME_REG_CSTS, UINT32_MAX);
	else if (how != STUCK && get32(NVME_REG_CC) == 0)
		set32(NVME_REG_CSTS, 0);
}

static int open_enabled(void *arg)
{
	const uint64_t began_ns = 7 * HR_NS_PER_S;
	const uint32_t how = *(uint32_t *)arg;
	int err;

	fake_clock_start(began_ns, step, arg);
	err = hr_transport_open(&t, "pci:" SSD, test_error());
	if (err && !is_released())
		return 4;
	if (how == REMOVED)
		return err == -ENODEV && strstr(test_error_text(), "the device is gone") ? 0 : 3;
	if (how == STUCK)
		return err == -EIO && hr_now_ns() == began_ns + 2500 * HR_NS_PER_MS &&
				       strstr(test_error_text(),
					      "CSTS.RDY is still 1 2500 ms after")
			       ? 0
			       : 1;
	if (err || get32(NVME_REG_CC) != 0 ||
	    hr_now_ns() != began_ns + (how == BLIND ? 2 : 1) * HR_NS_PER_MS)
		return 2;
	t.ops->close(&t);
	/* disabled, so nothing but the command of before comes back */
	return fake_tree_command(&tree, SSD) == HR_COMMAND_BME ? 0 : 5;
}

Test(transport_pci, an_enabled_controller_is_stopped_before_it_masters_the_bus)
{
	for (uint32_t how = 0; how <= BLIND; how++) {
		int result;

		make_enabled();
		result = fake_tree_run(&tree, open_enabled, &how);
		fake_tree_expect(&tree, result, "%u: step %d", how, result);
		fake_tree_remove(&tree);
	}
}

static int close_enabled(void *arg)
{
	set32(NVME_REG_CC, 0);
	if (hr_transport_open(&t, "pci:" SSD, test_error()))
		return 1;
	hr_reg_write32(&t, NVME_REG_CC, 1);
	t.ops->close(&t);
	if (!strstr(fake_log_last(), "still enabled; turning off its bus mastering"))
		return 2;
	return fake_tree_command(&tree, SSD) == 0 ? 0 : 3;
}

Test(transport_pci, a_controller_that_stays_enabled_loses_the_bus)
{
	int result;

	make_enabled();
	result = fake_tree_run(&tree, close_enabled, NULL);
	fake_tree_expect(&tree, result, "step %d", result);
	fake_tree_remove(&tree);
}

/* Registers that read all ones say nothing about CC.EN. */
static int close_removed(void *arg)
{
	set32(NVME_REG_CC, 0);
	if (hr_transport_open(&t, "pci:" SSD, test_error()))
		return 1;
	hr_reg_write32(&t, NVME_REG_CC, UINT32_MAX);
	t.ops->close(&t);
	return fake_log_count_of(HR_LOG_WARN) ? 2 : 0;
}

Test(transport_pci, a_removed_controller_is_not_called_enabled)
{
	int result;

	make_enabled();
	result = fake_tree_run(&tree, close_removed, NULL);
	fake_tree_expect(&tree, result, "step %d", result);
	fake_tree_remove(&tree);
}

static int silence(void *arg)
{
	const bool for_good = *(bool *)arg;
	const uint16_t gone = UINT16_MAX;

	set32(NVME_REG_CC, 0);
	if (hr_transport_open(&t, "pci:" SSD, test_error()))
		return 1;
	if (t.ops->silence(&t, for_good) ||
	    fake_tree_command(&tree, SSD) != (HR_COMMAND_MSE | 0x400))
		return 2;
	fake_tree_write(&tree, SSD, "config", 4, &gone, sizeof gone);
	if (t.ops->silence(&t, for_good) != -ENODEV)
		return 3;
	t.ops->close(&t);
	return fake_tree_command(&tree, SSD) == (for_good ? 0 : HR_COMMAND_BME) ? 0 : 4;
}

Test(transport_pci, a_silenced_controller_masters_the_bus_again_only_when_it_was_disabled)
{
	for (unsigned i = 0; i < 2; i++) {
		bool for_good = i;
		int result;

		make_enabled();
		result = fake_tree_run(&tree, silence, &for_good);
		fake_tree_expect(&tree, result, "step %d", result);
		fake_tree_remove(&tree);
	}
}

static int map_regions(void *arg)
{
	struct hr_bus granule = { 0x100000 };
	struct hr_region region = { .name = "r", .kind = HR_REGION_HOST, .bytes = HR_PAGE };

	set32(NVME_REG_CC, 0);
	if (hr_transport_open(&t, "pci:" SSD, test_error()))
		return 1;
	if (t.ops->map(&t, &region, NULL) != -EINVAL)
		return 2;
	region.granule_bus = &granule;
	region.granule_shift = 12;
	if (t.ops->map(&t, &region, NULL))
		return 3;
	t.ops->unmap(&t, &region);
	region.granule_bus = NULL;
	region.kind = HR_REGION_BAR;
	if (t.ops->map(&t, &region, NULL))
		return 4;
	t.ops->unmap(&t, &region);
	region.kind = HR_REGION_GPU; /* the driver does not tell its addresses */
	if (t.ops->map(&t, &region, NULL) != -EINVAL)
		return 5;
	t.ops->close(&t);
	return 0;
}

Test(transport_pci, memory_without_physical_addresses_is_refused)
{
	int result;

	make_enabled();
	result = fake_tree_run(&tree, map_regions, NULL);
	fake_tree_expect(&tree, result, "step %d", result);
	fake_tree_remove(&tree);
}

/*
 * Taken only when that is allowed, and only from the driver nvme, because the users of its disks
 * can be found.
 */
static int bind_only_from_nvme(void *arg)
{
	struct hr_function_state state;
	struct hr_binding b;

	(void)arg;
	memset(&b, 0xff, sizeof b);
	if (hr_nvme_function(SSD, &state, test_error()) || strcmp(state.driver, "uio"))
		return 1;
	if (hr_nvme_bind(&b, &state, "uio", test_error()) || b.bdf[0] || b.driver[0])
		return 2;
	if (hr_nvme_bind(&b, &state, NULL, test_error()) != -EBUSY ||
	    !strstr(test_error_text(), "use --bind"))
		return 3;
	hr_transport_allow_bind();
	memset(&b, 0xff, sizeof b);
	if (hr_nvme_bind(&b, &state, NULL, test_error()) != -EBUSY || b.bdf[0] ||
	    !strstr(test_error_text(),
		    "the driver uio is bound to it, and the users of that driver"))
		return 4;
	if (hr_nvme_function(OTHER, &state, test_error()) || strcmp(state.driver, "nvme"))
		return 5;
	/* No kernel reacts to the write, so a later step fails. */
	if (hr_nvme_bind(&b, &state, NULL, test_error()) == 0 || b.bdf[0] ||
	    strstr(test_error_text(), "the users of that driver"))
		return 6;
	return 0;
}

Test(transport_pci, a_function_is_taken_from_nvme_and_from_no_other_driver)
{
	static const char *const bdf[] = { SSD, OTHER }, *const driver[] = { "uio", "nvme" };
	char override[2][8] = { "", "" };
	int result;

	fake_tree_make(&tree);
	for (unsigned i = 0; i < 2; i++) {
		fake_tree_add(&tree, &(struct fake_tree_fn){ bdf[i], HR_CLASS_NVME, driver[i], -1,
							     BAR_BYTES, BAR, 0 });
		fake_tree_write(&tree, bdf[i], "driver_override", 0, "(null)\n", 7);
	}
	result = fake_tree_run(&tree, bind_only_from_nvme, NULL);
	fake_tree_expect(&tree, result, "step %d: %s", result, test_error_text());
	for (unsigned i = 0; i < 2; i++)
		fake_tree_read(&tree, bdf[i], "driver_override", 0, override[i], 1);
	cr_expect_eq(override[0][0], '('); /* nothing was written */
	fake_tree_remove(&tree);
}

Test(transport_pci, strings_are_checked_without_a_machine)
{
	static const struct {
		const char *device;
		int want;
	} row[] = { { "pci:0000:41:00.0", 0 },	  { "pci:41:00.0", 0 },
		    { "vfio:10000:41:1f.7", 0 },  { "pci:", -EINVAL },
		    { "vfio:41:00", -EINVAL },	  { "pci:41:20.0", -EINVAL },
		    { "pci:41:00.8", -EINVAL },	  { "pci:0000:41:00.0,x", -EINVAL },
		    { "vfio: 41:00.0", -EINVAL }, { "pcie:41:00.0", -EINVAL } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_transport_check(row[i].device, test_error()), row[i].want, "%s",
			     row[i].device);
	cr_expect(hr_transport_is_physical("pci:41:00.0"));
	cr_expect_not(hr_transport_is_physical("vfio:41:00.0"));
	cr_expect_not(hr_transport_is_physical("soft:pci:41:00.0"));
}
