/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PCI function: what sysfs says at its limits, the command register, the lock, and what is left of
 * it when its process dies.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "pci/function.h"
#include "pci/undo.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

TestSuite(function_look, .timeout = 60);

#define SSD "0000:03:00.0"
#define FOLDER "/sys/bus/pci/devices/" SSD
#define CONFIG FOLDER "/config"

static struct fake_tree tree;

static void make_tree(void)
{
	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, NULL, -1, 0, 0, 0x100 });
}

static int next_fd(void)
{
	const int fd = dup(0);

	close(fd);
	return fd;
}

static int look_at_links(void *arg)
{
	static const struct {
		const char *group;
		int want;
	} row[] = {
		{ "2147483647", 2147483647 },
		{ "../../iommu_groups/0", 0 },
		{ "../../iommu_groups/2147483648", -1 },
		{ "../x12", -1 },
		{ "12x", -1 },
		{ "../", -1 },
	};
	struct hr_function_state state;
	char name[100], path[128];

	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		unlink(FOLDER "/iommu_group");
		memset(&state, 0xa5, sizeof state);
		if (symlink(row[i].group, FOLDER "/iommu_group") ||
		    hr_function_look("03:00.0", &state, test_error()) ||
		    state.group != row[i].want || state.group_type[0] || state.driver[0] ||
		    state.class != HR_CLASS_NVME || strcmp(state.bdf, SSD) != 0)
			return 1 + (int)i;
	}
	/* A driver's name has 63 bytes of room. */
	memset(name, 'n', sizeof name);
	for (unsigned n = 62; n <= 64; n++) {
		unlink(FOLDER "/driver");
		snprintf(path, sizeof path, "drivers/%.*s", (int)n, name);
		if (symlink(path, FOLDER "/driver") ||
		    hr_function_look(SSD, &state, test_error()) ||
		    strlen(state.driver) != (n < 63 ? n : 63) || strspn(state.driver, "n") < 62)
			return (int)n;
	}
	return 0;
}

Test(function_look, a_group_is_a_number_and_a_driver_a_name)
{
	int step;

	make_tree();
	step = fake_tree_run(&tree, look_at_links, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
	fake_tree_remove(&tree);
}

Test(function_look, addresses_have_limits)
{
	static const struct {
		const char *address;
		int want;
		const char *text;
	} row[] = {
		{ "fffe:ff:1f.7", -ENOENT,
		  "fffe:ff:1f.7: there is no such PCI function; 'headrace topo' lists those that "
		  "are there" },
		{ "fe:1f.7", -ENOENT,
		  "0000:fe:1f.7: there is no such PCI function; 'headrace topo' lists those that "
		  "are there" },
		{ "fffe:ff:20.7", -EINVAL,
		  "'fffe:ff:20.7' is not a PCI function (expected like 0000:41:00.0)" },
		{ "fffe:ff:1f.8", -EINVAL,
		  "'fffe:ff:1f.8' is not a PCI function (expected like 0000:41:00.0)" },
		{ "fffe:ff:1f.77", -EINVAL,
		  "'fffe:ff:1f.77' is not a PCI function (expected like 0000:41:00.0)" },
		{ "03:00", -EINVAL, "'03:00' is not a PCI function (expected like 0000:41:00.0)" },
		{ "../../../etc/passwd", -EINVAL,
		  "'../../../etc/passwd' is not a PCI function (expected like 0000:41:00.0)" },
		{ "", -EINVAL, "'' is not a PCI function (expected like 0000:41:00.0)" },
	};
	static const struct hr_function_state none;
	struct hr_function_state state;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		memset(&state, 0xa5, sizeof state);
		cr_expect_eq(hr_function_look(row[i].address, &state, test_error()), row[i].want,
			     "%s", row[i].address);
		cr_expect_str_eq(test_error_text(), row[i].text);
		cr_expect_eq(test_error_kind(),
			     row[i].want == -EINVAL ? HR_ERROR_USAGE : HR_ERROR_MISSING);
		cr_expect_eq(state.class | (uint32_t)state.group, none.class);
		cr_expect_str_eq(state.driver, "");
		cr_expect_not(hr_function_masters_bus(row[i].address));
	}
}

static int command_registers(void *arg)
{
	static const struct {
		uint16_t command;
		bool masters;
	} row[] = { { 0x0004, true },  { 0x0400, false }, { 0xff04, true },
		    { 0xffff, false }, { 0x00ff, true },  { 0xfffb, false } };
	const int before = next_fd();
	uint8_t bytes[6] = { 0 };
	int fd;

	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		memcpy(bytes + 4, &row[i].command, 2);
		fd = open(CONFIG, O_WRONLY | O_TRUNC | O_CLOEXEC);
		if (fd < 0 || write(fd, bytes, 6) != 6 || close(fd))
			return 1;
		if (hr_function_masters_bus(SSD) != row[i].masters || next_fd() != before)
			return 10 + (int)i;
	}
	/* Half a register. */
	bytes[4] = 4;
	fd = open(CONFIG, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || write(fd, bytes, 5) != 5 || close(fd) || hr_function_masters_bus(SSD))
		return 2;
	return unlink(CONFIG) || hr_function_masters_bus(SSD) || next_fd() != before ? 3 : 0;
}

Test(function_look, one_bit_of_the_command_register_is_mastering)
{
	int step;

	make_tree();
	step = fake_tree_run(&tree, command_registers, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
	fake_tree_remove(&tree);
}

static bool is(int err, int want, const char *text)
{
	return err == want && test_error_kind() == HR_ERROR_MISSING &&
	       strcmp(test_error_text(), text) == 0;
}

#define HELD SSD ": another process drives this function; end it first"

static int locks(void *arg)
{
	static const struct hr_function none;
	struct hr_function f;
	const int before = next_fd();
	int fd = 5, second = 5, open_now;

	fake_clock_start(1, NULL, NULL);
	if (hr_function_lock(SSD, &fd, test_error()) || fd < 0)
		return 1;
	open_now = next_fd();
	if (!is(hr_function_lock(SSD, &second, test_error()), -EBUSY, HELD) || second != -1 ||
	    fake_clock_waits() != 20 || hr_now_ns() != 1 + 1000 * HR_NS_PER_MS)
		return 2;
	memset(&f, 0xa5, sizeof f);
	if (!is(hr_function_open(&f, SSD, test_error()), -EBUSY, HELD) ||
	    memcmp(&f, &none, sizeof f) != 0 || next_fd() != open_now)
		return 3;
	close(fd);
	if (!is(hr_function_lock("0000:07:00.0", &fd, test_error()), -ENOENT,
		"0000:07:00.0: /sys/bus/pci/devices/0000:07:00.0/config: No such file or directory") ||
	    fd != -1)
		return 4;
	if (chmod(CONFIG, 0444) || setuid(65534))
		return 5;
	return is(hr_function_lock(SSD, &fd, test_error()), -EACCES,
		  SSD ": its configuration space is not writable: run as root, in a container "
		      "with CAP_SYS_ADMIN; a kernel that is locked down permits vfio:BDF only") &&
			       fd == -1 && next_fd() == before
		       ? 0
		       : 6;
}

/* Every user may open the file of sysfs for reading, and lock it. */
static int locked_by_a_reader(void *arg)
{
	const struct flock whole = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	const int reader = open(CONFIG, O_RDONLY | O_CLOEXEC);
	int fd;

	if (reader < 0 || flock(reader, LOCK_EX | LOCK_NB) != 0 ||
	    fcntl(reader, F_OFD_SETLK, &whole) != 0)
		return 1;
	return hr_function_lock(SSD, &fd, test_error()) ? 2 : 0;
}

Test(function_look, no_other_user_can_hold_the_lock)
{
	int step;

	make_tree();
	step = fake_tree_run(&tree, locked_by_a_reader, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

Test(function_look, a_lock_that_is_held_is_waited_for)
{
	int step;

	make_tree();
	cr_assert_eq(chmod(tree.root, 0755), 0);
	step = fake_tree_run(&tree, locks, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

/* ---- the death of the process */

#define END "/run/end" /* a pipe: the last step of the undo helper waits for its reader */

static void die_as_master(void)
{
	struct hr_function f;

	if (hr_function_open(&f, SSD, test_error()) == 0 &&
	    hr_function_enable(&f, HR_COMMAND_MSE | HR_COMMAND_BME, test_error()) == 0 &&
	    hr_undo_add(HR_UNDO_AFTER_CLOSE, END, 0, "p", 1) >= 0)
		raise(SIGKILL);
	_exit(1);
}

/* The function is silent before another process can lock it. */
static int dies(void *arg)
{
	pid_t pid;
	int fd, status, reader;
	char byte;

	(void)arg;
	if (mkfifo(END, 0600))
		return 1;
	pid = fork();
	if (pid == 0)
		die_as_master();
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		return 2;
	fake_clock_start(1, NULL, NULL);
	if (hr_function_lock(SSD, &fd, test_error()) != -EBUSY)
		return 3;
	fake_clock_stop();
	reader = open(END, O_RDONLY | O_CLOEXEC);
	if (reader < 0 || read(reader, &byte, 1) != 1 || close(reader))
		return 4;
	for (int i = 0; i < 100 && hr_function_lock(SSD, &fd, test_error()); i++)
		;
	if (fd < 0 || fake_tree_command(&tree, SSD) != 0x100)
		return 5;
	close(fd);
	fd = open(FOLDER "/enable", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, &byte, 1) == 1 && byte == '0' ? 0 : 6;
}

/* The undo helper has an entry for each function that is open, and none for those of before. */
static int comes_and_goes(void *arg)
{
	const int id = hr_undo_add(HR_UNDO_BEFORE_CLOSE, "/nowhere/x", 0, "a", 1);
	struct hr_function f;

	(void)arg;
	for (unsigned i = 0; i <= HR_UNDO_KEPT_MAX; i++) {
		if (hr_function_open(&f, SSD, test_error()) ||
		    hr_function_enable(&f, HR_COMMAND_BME, test_error()))
			return 1;
		hr_function_close(&f);
	}
	hr_undo_drop(id);
	return 0;
}

Test(function_look, a_master_whose_process_dies_is_silenced_before_its_lock_is_free)
{
	int (*const inside[])(void *) = { dies, comes_and_goes };

	for (unsigned i = 0; i < 2; i++) {
		int step;

		make_tree();
		step = fake_tree_run(&tree, inside[i], NULL);
		fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
		fake_tree_remove(&tree);
	}
}
