/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pci/function.h and pci/machine.h return, and the registers that they leave, when a call of
 * libpciaccess fails or a device shows only a part of its registers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pci/machine.h"
#include "pci/function.h"
#include "pci/topo/forecast/change.h"
#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "tests/fakes/pciaccess.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define SSD "0000:03:00.0"
#define FOLDER "/sys/bus/pci/devices/" SSD

static struct hr_model model;

static void set_up(void)
{
	fake_pci_start();
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(library, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- a function is opened, becomes a bus master, and is closed */

static const struct life {
	const char *call; /* fails at its at-th time with this result */
	unsigned at;
	int with;
	uint16_t stuck;
	bool virtual;
	int open, enable[3];
	uint16_t command, stopped, closed; /* after all, after stop_dma, after close */
	const char *says;		   /* of the first error */
} lives[] = {
	{ .command = 0x506, .stopped = 0x502, .closed = 0x100 },
	{ .virtual = true, .command = 0x504, .stopped = 0x500, .closed = 0x100 },
	{ "init", 1, 2, .open = -ENODEV, .says = "this machine has no accessible PCI bus" },
	{ "find", 1, 1, .open = -ENODEV, .says = "is not readable: the device is gone" },
	{ "probe", 1, 5, .open = -ENODEV, .says = "is not readable: the device is gone" },
	{ "read", 1, 5, .open = -ENODEV, .says = "is not readable: the device is gone" },
	{ "read", 1, -1, .open = -ENODEV, .says = "is not readable: the device is gone" },
	{ "read", 2, 5, 0, false, 0, { -ENODEV }, 0x506, 0x502, 0x100, SSD ": the device is gone" },
	{ "read",
	  2,
	  -1,
	  0,
	  false,
	  0,
	  { -ENODEV },
	  0x506,
	  0x502,
	  0x100,
	  SSD ": the device is gone" },
	{ "read", 3, 5, 0, false, 0, { -EIO }, 0x506, 0x502, 0x100, "reads 0100 after 0102 was" },
	{ "write", 1, 5, 0, false, 0, { -EIO }, 0x506, 0x502, 0x100, "reads 0100 after 0102 was" },
	{ "write",
	  1,
	  EPERM,
	  0,
	  false,
	  0,
	  { -EPERM },
	  0x506,
	  0x502,
	  0x100,
	  "the kernel refuses to change its command register: run as root" },
	/* stop_dma() cannot read it; close() writes the value of before */
	{ "read", 8, 5, .command = 0x506, .stopped = 0x506, .closed = 0x100 },
	/* INTx may stay on, bus mastering may not stay off. */
	{ .stuck = 0x400, .command = 0x106, .stopped = 0x102, .closed = 0x100 },
	{ .stuck = 4,
	  .enable = { 0, -EIO, -EIO },
	  .command = 0x502,
	  .stopped = 0x502,
	  .closed = 0x100,
	  .says = "the command register reads 0502 after 0506 was written" },
};

static int next_fd(void)
{
	const int fd = dup(0);

	close(fd);
	return fd;
}

static bool enabled_is(char want)
{
	const int fd = open(FOLDER "/enable", O_RDONLY | O_CLOEXEC);
	char value = '-';

	if (fd >= 0 && read(fd, &value, 1) != 1)
		value = '?';
	if (fd >= 0)
		close(fd);
	return value == want;
}

/* The result is the wanted one, with the text of the row for its first error. */
static bool is(int err, int want, const struct life *row, bool *told)
{
	const bool good = err == want && (!err || *told || strstr(test_error_text(), row->says));

	*told |= err != 0;
	return good;
}

static int live(void *arg)
{
	static const uint16_t bits[] = { HR_COMMAND_MSE, HR_COMMAND_MSE | HR_COMMAND_BME,
					 HR_COMMAND_BME };
	static const struct hr_function none;
	const struct life *row = arg;
	const int before = next_fd();
	struct hr_function f;
	bool told = false;

	fake_pci_fails(row->call, row->at, row->with);
	fake_pci.stuck = row->stuck;
	fake_pci_set_command(0x0100);
	if (row->virtual && symlink(".", FOLDER "/physfn"))
		return 1;
	memset(&f, 0xa5, sizeof f);
	if (!is(hr_function_open(&f, SSD, test_error()), row->open, row, &told))
		return 2;
	for (int i = 0; !row->open && i < 3; i++)
		if (!is(hr_function_enable(&f, bits[i], test_error()), row->enable[i], row, &told))
			return 3 + i;
	if (!row->open) {
		if (!enabled_is('1') || fake_pci_command() != row->command)
			return 6;
		hr_function_stop_dma(&f, true);
		if (fake_pci_command() != row->stopped)
			return 7;
		hr_function_close(&f);
		if (!enabled_is('0') || fake_pci_command() != row->closed)
			return 8;
	}
	hr_function_close(&f); /* closed, so this does nothing */
	if (memcmp(&f, &none, sizeof f) != 0 || next_fd() != before)
		return 9;
	return fake_pci.users ? 10 : 0;
}

Test(library, a_function_is_driven_and_restored_or_refused)
{
	for (size_t i = 0; i < ROWS(lives); i++) {
		struct life row = lives[i];
		struct fake_tree tree;
		int step;

		fake_tree_make(&tree);
		fake_tree_add(&tree,
			      &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, NULL, -1, 0, 0, 0x100 });
		step = fake_tree_run(&tree, live, &row);
		fake_tree_expect(&tree, step, "row %zu: step %d", i, step);
		fake_tree_remove(&tree);
	}
}

/* ---- BARs */

static struct pci_mem_region *bar_of_device(unsigned i)
{
	return &fake_pci.device[0].regions[i];
}

Test(library, peers_use_the_largest_prefetchable_bar)
{
	static const struct {
		struct {
			uint64_t size;
			bool prefetchable, io;
		} bar[6];
		unsigned want;
	} row[] = {
		{ .want = 0 },
		{ { [0] = { 1 } }, 0 },
		{ { [1] = { 1 } }, 1 },
		{ { [5] = { 1 } }, 5 },
		{ { [0] = { 64, .io = true }, [2] = { 16 } }, 2 },
		{ { [0] = { 64, .prefetchable = true, .io = true }, [2] = { 16 } }, 2 },
		{ { [0] = { 64 }, [2] = { 16, true } }, 2 },
		{ { [0] = { 16, true }, [2] = { 64 } }, 0 },
		{ { [0] = { 16, true }, [2] = { 64, true }, [4] = { 32, true } }, 2 },
		{ { [0] = { 16 }, [1] = { 32 }, [5] = { 64 } }, 5 },
		{ { [0] = { 16 }, [3] = { 16 } }, 0 }, /* the first of equal ones */
		{ { [1] = { 0, true }, [3] = { 16 } }, 3 },
	};
	struct hr_function f = { .dev = &fake_pci.device[0] };

	for (size_t i = 0; i < ROWS(row); i++) {
		memset(&fake_pci.device[0], 0, sizeof fake_pci.device[0]);
		for (unsigned k = 0; k < 6; k++) {
			bar_of_device(k)->size = row[i].bar[k].size;
			bar_of_device(k)->is_prefetchable = row[i].bar[k].prefetchable;
			bar_of_device(k)->is_IO = row[i].bar[k].io;
		}
		cr_expect_eq(hr_function_peer_bar(&f), row[i].want, "row %zu: %u", i,
			     hr_function_peer_bar(&f));
	}
}

#define MISSING "is missing or has no address; if the device has it, enable 64-bit BARs"
#define OWNED " (a kernel driver owns it: unbind the driver)"

Test(library, bars_are_mapped_at_their_address)
{
	static const struct {
		unsigned bar;
		uint32_t bars[6];
		bool virtual;
		unsigned at; /* read of a BAR that fails */
		int map;     /* errno of the mapping */
		int want;
		uint64_t bus;
		const char *text;
	} row[] = {
		{ 0, { 0x8000000c, 9 }, .bus = 0x980000000 },
		{ 0, { 0x80000008, 9 }, .bus = 0x80000000 },
		{ 4, { [4] = 0xc, [5] = 3 }, .bus = 0x300000000 },
		{ 5, { [5] = 0x7000000c }, .bus = 0x70000000 },
		{ 1, { 0 }, true, .bus = 0x1001 },
		{ 2, { [1] = 0x10, [3] = 0x10 }, .want = -ENXIO, .text = "BAR2 " MISSING },
		{ 6, { 0x10 }, .want = -ENXIO, .text = "BAR6 " MISSING },
		{ 0, { 0x8000000c, 9 }, .at = 1, .want = -ENXIO, .text = "BAR0 " MISSING },
		{ 0, { 0x8000000c, 9 }, .at = 2, .want = -ENXIO, .text = "BAR0 " MISSING },
		{ 0,
		  { 0x10 },
		  .map = ENOMEM,
		  .want = -ENOMEM,
		  .bus = 0x10,
		  .text = "BAR0 of 256 bytes cannot be mapped: Cannot allocate memory" },
		{ 0,
		  { 0x10 },
		  .map = EINVAL,
		  .want = -EBUSY,
		  .bus = 0x10,
		  .text = "BAR0 of 256 bytes cannot be mapped: Invalid argument" OWNED },
		{ 0,
		  { 0x10 },
		  .map = EBUSY,
		  .want = -EBUSY,
		  .bus = 0x10,
		  .text = "BAR0 of 256 bytes cannot be mapped: Device or resource busy" OWNED },
		{ 0,
		  { 0x10 },
		  .map = EPERM,
		  .want = -EBUSY,
		  .bus = 0x10,
		  .text = "BAR0 of 256 bytes cannot be mapped: Operation not permitted: run as root" },
	};
	static const struct hr_bar_map none;

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_function f = { .bdf = "x",
					 .dev = &fake_pci.device[0],
					 .virtual = row[i].virtual };
		struct hr_bar_map map;

		for (unsigned k = 0; k < 6; k++)
			*bar_of_device(k) = (struct pci_mem_region){ .base_addr = 0x1000 + k,
								     .size = 0x100 + k };
		memcpy(fake_pci.config + 0x10, row[i].bars, sizeof row[i].bars);
		fake_pci_fails(row[i].at    ? "read32"
			       : row[i].map ? "map"
					    : NULL,
			       row[i].at ? row[i].at : 1, row[i].map ? row[i].map : EIO);
		memset(&map, 0xa5, sizeof map);
		cr_expect_eq(hr_function_map(&f, row[i].bar, &map, test_error()), row[i].want,
			     "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].text ? row[i].text : ""), "row %zu: %s",
			  i, test_error_text());
		cr_expect_eq(test_error_kind(), row[i].want ? HR_ERROR_MISSING : HR_ERROR_NONE);
		cr_expect_eq(map.bus, row[i].bus, "row %zu", i);
		cr_expect_eq(map.bytes, 0x100u + (row[i].bar < 6 ? row[i].bar : 0), "row %zu", i);
		cr_expect_eq(map.cpu != NULL, row[i].want == 0, "row %zu", i);
		cr_expect_eq(fake_pci.mapped, row[i].want ? 0 : 0x1000u + row[i].bar);
		hr_function_unmap(&f, &map);
		cr_expect(memcmp(&map, &none, sizeof map) == 0 && !fake_pci.mapped, "row %zu", i);
	}
}

Test(library, bars_of_input_and_output_are_no_memory)
{
	struct hr_function f = { .bdf = "x", .dev = &fake_pci.device[0] };
	struct hr_bar_map map;

	*bar_of_device(0) = (struct pci_mem_region){ .size = 64, .is_IO = 1 };
	fake_pci.config[0x10] = 1;
	fake_pci.config[0x11] = 0x10;
	cr_expect_eq(hr_function_map(&f, 0, &map, test_error()), -ENXIO);
	cr_expect_str_eq(test_error_text(), "x: BAR0 is an I/O BAR, not memory");
	cr_expect_eq(hr_function_map(&f, 6, &map, test_error()), -ENXIO); /* not the first BAR */
	cr_expect(strstr(test_error_text(), "x: BAR6 " MISSING));
	*bar_of_device(0) = (struct pci_mem_region){ .base_addr = 0x1000 };
	cr_expect_eq(hr_function_map(&f, 0, &map, test_error()), -ENXIO);
	cr_expect(strstr(test_error_text(), "x: BAR0 " MISSING));
}

/* ---- the live reader */

/* An Express endpoint with an AER capability at the beginning of the extended space, or not. */
static void set_config(bool express)
{
	static const uint8_t head[] = { 0xde, 0x10, 0x30, 0x23, 0x06, 0x00,
					0x10, 0x00, 0xa1, 0x00, 0x02, 0x03 };

	memset(fake_pci.config, 0, sizeof fake_pci.config);
	memcpy(fake_pci.config, head, sizeof head);
	if (!express)
		return;
	fake_pci.config[0x34] = 0x40;
	fake_pci.config[0x40] = 0x10;
	fake_pci.config[0x42] = 0x02;
	fake_pci.config[0x100] = 1;
	fake_pci.config[0x102] = 1;
	fake_pci.config[4095] = 0x5a;
}

static void add(uint8_t bus, uint32_t bytes, const char *vendor, const char *name)
{
	const unsigned i = fake_pci.devices++;

	fake_pci.device[i] =
		(struct pci_device){ .domain = 0xfff1, .bus = bus, .dev = 0x1f, .func = 7 };
	fake_pci.device[i].domain_16 = 0xfff1;
	fake_pci.bytes[i] = bytes;
	fake_pci.vendor[i] = vendor;
	fake_pci.name[i] = name;
}

Test(library, each_device_is_read_as_far_as_it_shows_its_registers)
{
	static const struct {
		bool express;
		uint32_t bytes, want;
	} row[] = { { true, 4096, 4096 }, { true, 256, 256 }, { true, 300, 300 },
		    { true, 255, 255 },	  { true, 64, 64 },   { false, 4096, 256 },
		    { true, 0, 0 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_fn *f = &model.fn[0];

		hr_model_reset(&model);
		fake_pci.devices = 0;
		set_config(row[i].express);
		add(9, row[i].bytes, "V", "D");
		cr_expect_eq(hr_source_live(&model), 0, "row %zu: %s", i, model.error.text);
		cr_assert_eq(model.count, 1u);
		cr_expect_eq(f->denied, row[i].bytes <= 64, "row %zu", i);
		cr_expect_eq(f->config_bytes, row[i].want, "row %zu: %u", i, f->config_bytes);
		cr_expect(!row[i].want || memcmp(f->config, fake_pci.config, row[i].want) == 0);
		cr_expect_eq(hr_get(f, HR_F_DEVICE, 0), row[i].want ? 0x2330u : 0u, "row %zu", i);
		cr_expect_eq(hr_known(f, HR_F_EXP), row[i].bytes > 64, "row %zu", i);
		cr_expect_eq(hr_get(f, HR_F_ECAPS, 0), row[i].want > 256, "row %zu", i);
		cr_expect(f->domain == 0xfff1 && f->bus == 9 && f->dev == 0x1f && f->fn == 7);
		cr_expect_eq(fake_pci.users, 0);
	}
	cr_expect_str_eq(model.input, "live");
	cr_expect(model.sys.live);
}

Test(library, a_title_has_the_names_that_are_known)
{
	static const char *const want[] = { "Maker Card", "Maker", "Card", "" };

	set_config(true);
	add(3, 256, "Maker", "Card");
	add(4, 256, "Maker", NULL);
	add(5, 256, NULL, "Card");
	add(6, 256, NULL, NULL);
	cr_assert_eq(hr_source_live(&model), 0, "%s", model.error.text);
	cr_assert_eq(model.count, 4u);
	for (unsigned i = 0; i < 4; i++) {
		cr_expect_str_eq(model.fn[i].name, want[i]);
		cr_expect_eq(model.fn[i].bus, 3 + i);
	}
}

static void expect_unread(int want, const char *says)
{
	hr_error_clear(&model.error);
	cr_expect_eq(hr_source_live(&model), want, "%s", says);
	cr_expect_str_eq(model.error.text, says);
	cr_expect_eq(fake_pci.users, 0, "%s", says);
}

Test(library, a_machine_that_cannot_be_read_is_named)
{
	fake_pci_fails("init", 1, ENOENT);
	expect_unread(-ENODEV, "this machine has no accessible PCI bus");
	expect_unread(-ENODATA, "this machine has no PCI function");
	cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
	add(3, 256, NULL, NULL);
	fake_pci_fails("all", 1, 1);
	expect_unread(-ENODATA, "this machine has no PCI function");
	/* An address that cannot be; the devices behind it are not read. */
	hr_error_clear(&model.error);
	add(4, 256, NULL, NULL);
	add(5, 256, NULL, NULL);
	fake_pci.device[1].dev = 32;
	cr_expect_eq(hr_source_live(&model), -E2BIG);
	cr_expect_eq(model.count, 1u);
	cr_expect_eq(fake_pci.users, 0);
}

/* Registers first, then sysfs; the tree of the machine is linked. */
static int read_tree(void *arg)
{
	const struct hr_fn *f = &model.fn[1];

	if (hr_source_live(&model) || model.count != 2)
		return 1;
	if (hr_get(f, HR_F_DEVICE, 0) != 0x2330 || strcmp(f->driver, "nvidia") != 0 ||
	    hr_get(f, HR_F_GROUP, 0) != 12 || f->bar[0].size != 0x4000)
		return 2;
	return model.sys.kernel[0] && model.root_buses == 2 && model.root_bus[1].first == 1 &&
			       f->parent == HR_NO_FN
		       ? 0
		       : 3;
}

Test(library, sysfs_completes_what_the_registers_say)
{
	struct fake_tree tree;
	int step;

	set_config(true);
	add(9, 4096, "V", "D");
	add(3, 4096, "V", "D");
	fake_tree_make(&tree);
	fake_tree_add(&tree,
		      &(struct fake_tree_fn){ "fff1:09:1f.7", 0, "nvidia", 12, 0x4000, 0x1000, 0 });
	step = fake_tree_run(&tree, read_tree, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
	fake_tree_remove(&tree);
}

/* ---- register writes of a fix */

#define WORD 0x156u /* ACS control in a word, and in a long word with the capability's bits below */
#define LONG 0x164u

Test(library, a_fix_clears_redirect_in_its_registers_and_stops_at_a_failure)
{
	static const struct {
		const char *call;
		unsigned at;
		int with; /* -1: all ones are read back */
		int want;
		unsigned failed;
		uint32_t word, more; /* the registers afterwards */
	} row[] = {
		{ NULL, 0, 0, 0, 1, 0x11, 0x1d0053 },
		{ "init", 1, EIO, -ENODEV, 9, 0x1d, 0x1d005f },
		{ "find", 1, EIO, -ENODEV, 0, 0x1d, 0x1d005f },
		{ "find", 2, EIO, -ENODEV, 1, 0x11, 0x1d005f },
		{ "read", 1, EIO, -EACCES, 0, 0x1d, 0x1d005f },
		{ "write", 1, EIO, -EACCES, 0, 0x1d, 0x1d005f },
		{ "read", 2, EIO, -EACCES, 0, 0x11, 0x1d005f },
		{ "read", 2, -1, -EIO, 0, 0x11, 0x1d005f },
		{ "read32", 1, EIO, -EACCES, 1, 0x11, 0x1d005f },
		{ "write32", 1, EIO, -EACCES, 1, 0x11, 0x1d005f },
		{ "read32", 2, EIO, -EACCES, 1, 0x11, 0x1d0053 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fix fix = { .count = 2 };
		const uint32_t word = 0x1d, more = 0x1d005f;
		uint32_t now[2] = { 0 };
		unsigned failed = 9;

		hr_model_reset(&model);
		for (unsigned k = 0; k < 3; k++)
			cr_assert_not_null(hr_model_add(&model, 1, 3 + k, k, 7 - k));
		for (int32_t k = 0; k < 2; k++)
			fix.write[k] = (struct hr_fix_write){ .fn = k,
							      .offset = k ? LONG : WORD,
							      .width = k ? 4 : 2 };
		memcpy(fake_pci.config + WORD, &word, 2);
		memcpy(fake_pci.config + LONG, &more, 4);
		fake_pci_fails(row[i].call, row[i].at, row[i].with);
		cr_expect_eq(hr_fix_write_all(&model, &fix, &failed), row[i].want, "row %zu", i);
		cr_expect_eq(failed, row[i].failed, "row %zu: %u", i, failed);
		memcpy(&now[0], fake_pci.config + WORD, 2);
		memcpy(&now[1], fake_pci.config + LONG, 4);
		cr_expect_eq(now[0], row[i].word, "row %zu: %x", i, now[0]);
		cr_expect_eq(now[1], row[i].more, "row %zu: %x", i, now[1]);
		cr_expect_eq(fake_pci.users, 0, "row %zu", i);
		if (row[i].call)
			continue;
		cr_expect(fix.write[0].before == 0x1d && fix.write[0].after == 0x11);
		cr_expect(fix.write[1].before == 0x1d005f && fix.write[1].after == 0x1d0053);
	}
}
