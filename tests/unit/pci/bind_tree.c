/* Binding and its refusals. The files of a tree accept writes, and no kernel reacts. */
#include "pci/bind.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/log.h"
#include "nvme/transport.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

#define SSD "0000:03:00.0"

TestSuite(bind_tree, .timeout = 60);

static struct fake_tree tree;

static int bind_without_kernel(void *arg)
{
	struct hr_function_state state;
	struct hr_binding b;
	char override[8] = "";

	if (hr_function_look(SSD, &state, test_error()))
		return 1;
	if (hr_bind(&b, &state, "headrace-no-such-driver", test_error()) != -ENODEV ||
	    !strstr(test_error_text(), "modprobe headrace-no-such-driver"))
		return 2;
	if (hr_bind(&b, &state, NULL, test_error()) == 0 || b.bdf[0])
		return 3;
	hr_bind_undo(&b);
	fake_tree_read(&tree, SSD, "driver_override", 0, override, 1);
	return override[0] == '\n' ? 0 : 4; /* restored: no override */
}

Test(bind_tree, a_driver_that_refuses_to_unbind_keeps_the_function)
{
	int step;

	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, "nvme", -1, 0, 0, 0 });
	fake_tree_write(&tree, SSD, "driver_override", 0, "(null)\n", 7);
	step = fake_tree_run(&tree, bind_without_kernel, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

/* As a process that drives the function by physical addresses: no driver, but a lock. */
static int bind_what_is_driven(void *arg)
{
	struct hr_function_state state;
	struct hr_function f;
	struct hr_binding b;

	fake_clock_start(1, NULL, NULL);
	if (hr_function_look(SSD, &state, test_error()) || hr_function_open(&f, SSD, test_error()))
		return 1;
	if (hr_bind(&b, &state, NULL, test_error()) != -EBUSY || b.bdf[0] ||
	    !strstr(test_error_text(), "another process drives this function"))
		return 2;
	hr_function_close(&f);
	strcpy(state.driver, "uio");
	if (hr_bind(&b, &state, NULL, test_error()) != -EBUSY || b.bdf[0] ||
	    !strstr(test_error_text(), "its driver changed from uio to nvme"))
		return 3;
	if (setuid(65534))
		return 4;
	if (hr_function_look(SSD, &state, test_error()) ||
	    hr_bind(&b, &state, NULL, test_error()) != -EACCES ||
	    !strstr(test_error_text(), "run as root"))
		return 5;
	return 0;
}

Test(bind_tree, a_function_driven_or_bound_by_another_process_is_not_changed)
{
	char override[8] = "", path[128];
	int step;

	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, "nvme", -1, 0, 0, 0 });
	fake_tree_write(&tree, SSD, "driver_override", 0, "(null)\n", 7);
	cr_assert_eq(chmod(tree.root, 0755), 0);
	snprintf(path, sizeof path, "%s/devices/" SSD "/class", tree.root);
	cr_assert_eq(chmod(path, 0644), 0);
	step = fake_tree_run(&tree, bind_what_is_driven, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_read(&tree, SSD, "driver_override", 0, override, 1);
	cr_expect_eq(override[0], '('); /* nothing was written */
	fake_tree_remove(&tree);
}

/* The undo steps release the lock for a process that waits. */
static int undo_what_is_driven(void *arg)
{
	struct hr_binding b = { .bdf = SSD, .driver = "gone", .undo = { -1, -1, -1 } };
	int lock;

	fake_clock_start(1, NULL, NULL);
	if (hr_function_lock(SSD, &lock, test_error()))
		return 1;
	hr_bind_undo(&b);
	if (!strstr(fake_log_last(), "is not given back to gone: another process drives it"))
		return 2;
	if (b.bdf[0])
		return 3;
	close(lock);
	return 0;
}

Test(bind_tree, a_function_that_another_process_drives_is_not_given_back)
{
	char override[8] = "";
	int step;

	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, "nvme", -1, 0, 0, 0 });
	fake_tree_write(&tree, SSD, "driver_override", 0, "(null)\n", 7);
	step = fake_tree_run(&tree, undo_what_is_driven, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, fake_log_last());
	fake_tree_read(&tree, SSD, "driver_override", 0, override, 1);
	cr_expect_eq(override[0], '(');
	fake_tree_remove(&tree);
}
