/* SPDX-License-Identifier: Apache-2.0 */
/* One PCI function: its facts from sysfs, opening and closing it, on a tree of files. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/log.h"
#include "pci/undo.h"
#include "pci/function.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

#define SSD "0000:03:00.0"
#define PORT "0000:00:01.0"
#define EMPTY "0000:04:00.0"
#define VIRTUAL "0000:05:00.1"
#define VIRTUAL_BAR 0x900004000ull
#define BAR_BYTES 0x4000u

TestSuite(function, .timeout = 60);

static struct fake_tree tree;
static struct hr_function f;
static struct hr_function_state state;
static struct hr_bar_map map;

static void make(void)
{
	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, "nvme", 7, BAR_BYTES,
						     0x800000000, 0x100 });
	fake_tree_add(&tree, &(struct fake_tree_fn){ PORT, 0x060400, NULL, -1, 0, 0, 7 });
	fake_tree_add(&tree,
		      &(struct fake_tree_fn){ EMPTY, HR_CLASS_NVME, NULL, 8, BAR_BYTES, 0, 0 });
	fake_tree_add(&tree, &(struct fake_tree_fn){ VIRTUAL, HR_CLASS_NVME, NULL, -1, BAR_BYTES,
						     VIRTUAL_BAR, 0 });
	fake_tree_virtual(&tree, VIRTUAL);
	fake_tree_group(&tree, 7, "DMA-FQ");
}

static void run(int (*inside)(void *arg))
{
	int step;

	make();
	step = fake_tree_run(&tree, inside, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
}

static int look_at_all(void *arg)
{
	if (hr_function_look("03:00.0", &state, test_error()) || strcmp(state.bdf, SSD) ||
	    state.class != HR_CLASS_NVME || strcmp(state.driver, "nvme") || state.group != 7 ||
	    strcmp(state.group_type, "DMA-FQ") || !hr_function_translated(&state))
		return 1;
	if (hr_function_look(PORT, &state, test_error()) || state.driver[0] ||
	    state.group != HR_NO_GROUP || state.group_type[0] || hr_function_translated(&state))
		return 2;
	/* A group without a readable type may translate. */
	if (hr_function_look(EMPTY, &state, test_error()) || state.group != 8 ||
	    !hr_function_translated(&state))
		return 3;
	strcpy(state.group_type, "identity");
	if (hr_function_translated(&state))
		return 4;
	if (hr_function_look("0000:05:00.0", &state, test_error()) != -ENOENT ||
	    !strstr(test_error_text(), "there is no such PCI function"))
		return 5;
	return 0;
}

Test(function, sysfs_names_class_driver_and_group)
{
	run(look_at_all);
	fake_tree_remove(&tree);
}

static int take_and_put_back(void *arg)
{
	if (hr_function_open(&f, SSD, test_error()))
		return 1;
	if (hr_function_enable(&f, HR_COMMAND_MSE, test_error()) ||
	    fake_tree_command(&tree, SSD) != 0x102)
		return 2;
	if (hr_function_enable(&f, HR_COMMAND_BME, test_error()) ||
	    fake_tree_command(&tree, SSD) != 0x506)
		return 3;
	if (hr_function_map(&f, 0, &map, test_error()) || map.bytes != BAR_BYTES ||
	    map.bus != 0x800000000)
		return 4;
	*(volatile uint32_t *)map.cpu = 0x12345678;
	hr_function_unmap(&f, &map);
	if (map.cpu || hr_function_map(&f, 0, &map, test_error()) ||
	    *(volatile uint32_t *)map.cpu != 0x12345678)
		return 5;
	hr_function_unmap(&f, &map);
	hr_function_close(&f);
	hr_function_close(&f); /* a second close does nothing */
	return 0;
}

Test(function, changed_settings_are_restored)
{
	char enabled;
	uint32_t word;

	run(take_and_put_back);
	cr_expect_eq(fake_tree_command(&tree, SSD), 0x100);
	fake_tree_read(&tree, SSD, "enable", 0, &enabled, 1);
	cr_expect_eq(enabled, '0');
	fake_tree_read(&tree, SSD, "resource0", 0, &word, 4);
	cr_expect(word == 0x12345678 || word == 0); /* 0: the read was skipped */
	fake_tree_remove(&tree);
}

static int silence(void *arg)
{
	if (hr_function_open(&f, PORT, test_error()))
		return 1;
	if (hr_function_stop_dma(&f, true) || fake_tree_command(&tree, PORT) != 3)
		return 2;
	hr_function_enable(&f, HR_COMMAND_MSE, test_error());
	hr_function_close(&f);
	return fake_tree_command(&tree, PORT) == 3 ? 0 : 3;
}

Test(function, a_silenced_function_stays_silent)
{
	run(silence);
	fake_tree_remove(&tree);
}

static int without_rights(void *arg)
{
	if (setuid(65534))
		return 1;
	if (hr_function_look(SSD, &state, test_error()))
		return 2;
	if (hr_function_open(&f, SSD, test_error()) != -EACCES ||
	    !strstr(test_error_text(), "run as root"))
		return 3;
	hr_function_close(&f);
	return 0;
}

Test(function, taking_needs_root_and_looking_does_not)
{
	char path[128];
	int step;

	make();
	snprintf(path, sizeof path, "%s", tree.root);
	cr_assert_eq(chmod(path, 0755), 0);
	snprintf(path, sizeof path, "%s/devices/" SSD "/class", tree.root);
	cr_assert_eq(chmod(path, 0644), 0);
	step = fake_tree_run(&tree, without_rights, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
	fake_tree_remove(&tree);
}

/*
 * The physical function determines the state of a virtual function, whose own registers do not show
 * it.
 */
static int is_virtual(void *arg)
{
	if (hr_function_open(&f, VIRTUAL, test_error()))
		return 1;
	if (hr_function_enable(&f, HR_COMMAND_MSE | HR_COMMAND_BME, test_error()) ||
	    fake_tree_command(&tree, VIRTUAL) != 0x404)
		return 2;
	if (hr_function_map(&f, 0, &map, test_error()) || map.bytes != BAR_BYTES ||
	    map.bus != VIRTUAL_BAR)
		return 3;
	hr_function_unmap(&f, &map);
	hr_function_close(&f);
	return fake_tree_command(&tree, VIRTUAL) == 0 ? 0 : 4;
}

Test(function, a_virtual_function_has_its_bars_from_the_kernel)
{
	run(is_virtual);
	fake_tree_remove(&tree);
}

/* Without an undo helper a function must not master the bus. */
static int without_undo_helper(void *arg)
{
	static int id[HR_UNDO_MAX];
	unsigned n = 0;

	if (hr_function_open(&f, PORT, test_error()))
		return 1;
	while (n < HR_UNDO_MAX - 1)
		id[n++] = hr_undo_add(HR_UNDO_BEFORE_CLOSE, "/nowhere/x", 0, "a", 1);
	for (unsigned i = 0; i < 2; i++) /* a call that fails keeps none of its steps */
		if (hr_function_enable(&f, HR_COMMAND_BME, test_error()) != -EIO ||
		    !strstr(test_error_text(), "cannot start the undo helper"))
			return 2;
	while (n)
		hr_undo_drop(id[--n]);
	hr_function_close(&f);
	return 0;
}

Test(function, a_function_does_not_master_the_bus_without_an_undo_helper)
{
	const uint16_t none = 0;
	int step;

	make();
	fake_tree_write(&tree, PORT, "config", HR_CFG_COMMAND, &none, sizeof none);
	step = fake_tree_run(&tree, without_undo_helper, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	cr_expect_eq(fake_tree_command(&tree, PORT), 0);
	fake_tree_remove(&tree);
}

static int cannot_enable(void *arg)
{
	static const char *const says[] = { "(No such file or directory)",
					    "(No space left on device)" };

	(void)arg;
	if (hr_function_open(&f, SSD, test_error()))
		return 1;
	for (int i = 0; i < 2; i++) {
		if (unlink("/sys/bus/pci/devices/" SSD "/enable") ||
		    (i && symlink("/dev/full", "/sys/bus/pci/devices/" SSD "/enable")))
			return 2;
		if (hr_function_enable(&f, HR_COMMAND_MSE, test_error()) != -ENODEV ||
		    !strstr(test_error_text(), "the kernel does not enable it ") ||
		    !strstr(test_error_text(), says[i]))
			return 3;
		if (!i && symlink("/dev/null", "/sys/bus/pci/devices/" SSD "/enable"))
			return 4;
	}
	hr_function_close(&f);
	return fake_tree_command(&tree, SSD) == 0x100 ? 0 : 5;
}

Test(function, a_function_that_the_kernel_does_not_enable_is_refused)
{
	run(cannot_enable);
	fake_tree_remove(&tree);
}
