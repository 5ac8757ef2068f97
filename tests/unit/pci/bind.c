/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Change of a function's driver, and its restoration. The functions are files; open(), write() and
 * access() of this program are the kernel's side: they change the files as sysfs does, and keep a
 * list of the writes.
 */
#include "pci/bind.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/base/lock.h"
#include "nvme/ctrl.h"
#include "nvme/transport/hardware.h"
#include "pci/undo.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/fakes/tree.h"
#include "tests/fakes/vfio.h"
#include "tests/harness/error.h"

#define SSD "0000:03:00.0"
#define BUS "/sys/bus/pci/"
#define DRIVERS BUS "drivers/"
#define FUNCTION BUS "devices/" SSD "/"
#define FDS 64

TestSuite(bind, .timeout = 120);

/* Shared with the undo helper, which is a copy of a process. */
static struct kernel {
	char writes
		[1024]; /* "FILE=TEXT;" of each write; files of the function without their folder */
	const char *fails; /* writes to files with this text fail, with: */
	int error;
	bool refuses; /* drivers_probe binds no driver */
} * kernel;

static const char *opened[FDS]; /* the file of a descriptor; NULL: not one of the kernel's */
static char names[FDS][128];

static void set_driver(const char *driver)
{
	char target[128];

	unlink(FUNCTION "driver");
	snprintf(target, sizeof target, "../../drivers/%s", driver);
	if (*driver && symlink(target, FUNCTION "driver") != 0)
		abort();
}

static int real_open(const char *path, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void set_override(const char *text)
{
	const int fd = real_open(FUNCTION "driver_override", O_WRONLY | O_TRUNC, 0);

	if (dprintf(fd, "%s\n", *text ? text : "(null)") < 0)
		abort();
	close(fd);
}

static void get_override(char text[64])
{
	FILE *file = fopen(FUNCTION "driver_override", "re");

	if (!file || !fgets(text, 64, file))
		abort();
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
}

/* True for the files by which drivers change. */
static bool is_kernels(const char *path)
{
	return strncmp(path, BUS "drivers", sizeof BUS + 6) == 0 ||
	       (strncmp(path, FUNCTION, sizeof FUNCTION - 1) == 0 && strstr(path, "/driver"));
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	int fd;

	if (flags & O_CREAT) {
		va_list args;

		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	if (!kernel || !is_kernels(path) || (flags & O_ACCMODE) != O_WRONLY)
		return real_open(path, flags, mode);
	fd = real_open("/dev/null", flags, 0);
	if (fd < 0 || fd >= FDS)
		abort();
	snprintf(names[fd], sizeof names[fd], "%s", path);
	opened[fd] = names[fd];
	return fd;
}

static void react(const char *file, const char *text)
{
	char override[64];

	if (strcmp(file, "driver_override") == 0)
		set_override(*text == '\n' ? "" : text);
	else if (strcmp(file, "driver/unbind") == 0)
		set_driver("");
	else if (strcmp(file, "drivers/nvme/bind") == 0)
		set_driver("nvme");
	else if (strcmp(file, "drivers_probe") == 0 && !kernel->refuses) {
		get_override(override);
		set_driver(override);
	}
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	const char *path = fd >= 0 && fd < FDS ? opened[fd] : NULL;
	const size_t at = kernel ? strlen(kernel->writes) : 0;
	const char *file;

	if (!path)
		return syscall(SYS_write, fd, bytes, size);
	opened[fd] = NULL;
	file = path +
	       (strncmp(path, FUNCTION, sizeof FUNCTION - 1) == 0 ? sizeof FUNCTION : sizeof BUS) -
	       1;
	if (kernel->fails && strstr(file, kernel->fails)) {
		errno = kernel->error;
		return -1;
	}
	snprintf(kernel->writes + at, sizeof kernel->writes - at, "%s=%.*s;", file,
		 *(const char *)bytes == '\n' ? 0 : (int)size, (const char *)bytes);
	react(file, bytes);
	return (ssize_t)size;
}

int access(const char *path, int mode)
{
	if (strncmp(path, DRIVERS, sizeof DRIVERS - 1) != 0)
		return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
	if (strcmp(path, DRIVERS "nvme") == 0 || strcmp(path, DRIVERS "vfio-pci") == 0)
		return 0;
	errno = ENOENT;
	return -1;
}

/* ---- one function */

static struct fake_tree tree;
static struct hr_function_state state;
static struct hr_binding binding;

static bool driver_is(const char *want)
{
	struct hr_function_state now;

	return hr_function_look(SSD, &now, NULL) == 0 && strcmp(now.driver, want) == 0;
}

static bool override_is(const char *want)
{
	char text[64];

	get_override(text);
	return strcmp(text, want) == 0;
}

static bool wrote(const char *want)
{
	const bool same = strcmp(kernel->writes, want) == 0;

	if (!same)
		fprintf(stderr, "writes: %s\nexpected: %s\n", kernel->writes, want);
	kernel->writes[0] = '\0';
	return same;
}

static bool is_forgotten(void)
{
	static const struct hr_binding none;

	/* with its last step the undo helper ends */
	return memcmp(&binding, &none, sizeof none) == 0 && waitpid(-1, NULL, WNOHANG) < 0 &&
	       errno == ECHILD;
}

static void begin(const char *driver, const char *override)
{
	set_driver(driver);
	set_override(override);
	memset(&binding, 0xff, sizeof binding);
	hr_function_look(SSD, &state, NULL);
}

static void expect(int (*inside)(void *arg))
{
	int step;

	kernel = mmap(NULL, sizeof *kernel, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	cr_assert_neq(kernel, MAP_FAILED);
	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, NULL, 1, 0x4000,
						     0x800000000, 0 });
	fake_tree_group(&tree, 1, "identity");
	fake_tree_write(&tree, SSD, "driver_override", 0, "", 0);
	step = fake_tree_run(&tree, inside, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
	fake_tree_remove(&tree);
	munmap(kernel, sizeof *kernel);
	kernel = NULL;
}

/* ---- changes */

static int next_descriptor(void)
{
	const int fd = dup(STDOUT_FILENO);

	close(fd);
	return fd;
}

static int give_and_take(void *arg)
{
	const int before = next_descriptor();

	begin("nvme", "");
	if (hr_bind(&binding, &state, "vfio-pci", test_error()) || !driver_is("vfio-pci"))
		return 1;
	if (!wrote("driver_override=vfio-pci;driver/unbind=" SSD ";drivers_probe=" SSD ";"))
		return 2;
	if (strcmp(binding.bdf, SSD) || strcmp(binding.driver, "nvme") || binding.override[0])
		return 3;
	hr_bind_undo(&binding);
	if (!wrote("driver_override=;driver/unbind=" SSD ";drivers/nvme/bind=" SSD ";"))
		return 4;
	if (!driver_is("nvme") || !override_is("(null)") || !is_forgotten())
		return 5;
	if (next_descriptor() != before)
		return 7;
	hr_bind_undo(&binding); /* of no change */
	return wrote("") && fake_log_count_of(HR_LOG_WARN) == 0 ? 0 : 6;
}

Test(bind, a_function_is_given_to_a_driver_and_back)
{
	expect(give_and_take);
}

static int keep_override(void *arg)
{
	begin("nvme", "some-driver");
	if (hr_bind(&binding, &state, "vfio-pci", test_error()) ||
	    strcmp(binding.override, "some-driver"))
		return 1;
	hr_bind_undo(&binding);
	if (!override_is("some-driver") || !driver_is("nvme"))
		return 2;
	/* the user has bound the driver again meanwhile */
	begin("nvme", "");
	if (hr_bind(&binding, &state, "vfio-pci", test_error()) || !wrote(kernel->writes))
		return 3;
	set_driver("nvme");
	hr_bind_undo(&binding);
	return wrote("driver_override=;") && driver_is("nvme") && is_forgotten() ? 0 : 4;
}

Test(bind, the_override_of_before_comes_back)
{
	expect(keep_override);
}

static int take_only(void *arg)
{
	begin("nvme", "");
	if (hr_bind(&binding, &state, NULL, test_error()) || !driver_is(""))
		return 1;
	if (!wrote("driver/unbind=" SSD ";"))
		return 2;
	hr_bind_undo(&binding);
	if (!wrote("driver_override=;drivers/nvme/bind=" SSD ";") || !driver_is("nvme"))
		return 3;
	begin("", "");
	if (hr_bind(&binding, &state, "vfio-pci", test_error()) || binding.driver[0])
		return 4;
	if (!wrote("driver_override=vfio-pci;drivers_probe=" SSD ";"))
		return 5;
	if (binding.undo[0] < 0 || binding.undo[1] < 0 || binding.undo[2] != -1)
		return 7; /* no record of another function is dropped later */
	hr_bind_undo(&binding);
	return wrote("driver_override=;driver/unbind=" SSD ";") && driver_is("") ? 0 : 6;
}

Test(bind, a_function_may_have_no_driver_before_or_after)
{
	expect(take_only);
}

/* With --bind a transport takes a controller from nvme, and gives it back. */
static int take_for_transport(void *arg)
{
	static const struct {
		const char *device, *driver;
	} row[] = { { "pci:" SSD, "" }, { "vfio:" SSD, "vfio-pci" } };
	struct fake_vfio *fake = fake_vfio_start();
	struct hr_transport t;
	uint32_t vs = 0x10400;

	(void)arg;
	hr_transport_allow_bind();
	for (int i = 0; i < 4; i++, vs = i < 2 ? 0x10400 : 0) {
		memcpy(fake->bar + NVME_REG_VS, &vs, sizeof vs);
		fake_tree_write(&tree, SSD, "resource0", NVME_REG_VS, &vs, sizeof vs);
		begin("nvme", "");
		if (hr_transport_open(&t, row[i % 2].device, test_error()) != (vs ? 0 : -ENODEV))
			return 10 + i;
		if (vs && !driver_is(row[i % 2].driver))
			return 20 + i;
		if (vs)
			t.ops->close(&t);
		memset(&binding, 0, sizeof binding);
		if (!driver_is("nvme") || !override_is("(null)") || !is_forgotten())
			return 30 + i;
	}
	begin("nvme", "");
	if (hr_nvme_bind(&binding, &state, NULL, test_error()) || state.driver[0])
		return 3;
	hr_bind_undo(&binding);
	/* vfio-pci with additions of a vendor is vfio-pci. */
	begin("nvgrace-gpu-vfio-pci", "");
	wrote("");
	return hr_nvme_bind(&binding, &state, "vfio-pci", test_error()) || binding.bdf[0] ||
	       !wrote("");
}

Test(bind, a_transport_takes_a_controller_from_nvme)
{
	expect(take_for_transport);
}

/* ---- errors */

static const struct row {
	const char *driver; /* wanted */
	const char *fails;
	int error;
	bool refuses;
	int want;
	const char *say, *writes;
} rows[] = {
	{ "uio", NULL, 0, false, -ENODEV, SSD ": the kernel has no driver uio: modprobe uio", "" },
	{ "vfio-pci", "driver_override", EACCES, false, -EACCES,
	  SSD ": cannot be taken from nvme and given to vfio-pci: Permission denied: run as root",
	  "" },
	{ "vfio-pci", "driver_override", EPERM, false, -EACCES,
	  "Operation not permitted: run as root", "" },
	{ NULL, "driver/unbind", EBUSY, false, -EBUSY,
	  SSD ": cannot be taken from nvme: Device or resource busy", "driver_override=;" },
	{ "vfio-pci", "drivers_probe", EINVAL, false, -EINVAL, "Invalid argument",
	  "driver_override=vfio-pci;driver/unbind=" SSD ";driver_override=;"
	  "drivers/nvme/bind=" SSD ";" },
	{ "vfio-pci", NULL, 0, true, -ENODEV,
	  SSD ": vfio-pci did not bind it (bound: none); see dmesg",
	  "driver_override=vfio-pci;driver/unbind=" SSD ";drivers_probe=" SSD ";"
	  "driver_override=;drivers/nvme/bind=" SSD ";" },
};

static int fail_each(void *arg)
{
	for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
		const struct row *row = &rows[i];
		struct hr_error *e = test_error();
		const char *text;
		int err;

		begin("nvme", "");
		kernel->fails = row->fails;
		kernel->error = row->error;
		kernel->refuses = row->refuses;
		err = hr_bind(&binding, &state, row->driver, e);
		text = test_error_text();
		kernel->fails = NULL;
		kernel->refuses = false;
		if (err != row->want || strlen(text) < strlen(row->say) ||
		    strcmp(text + strlen(text) - strlen(row->say), row->say))
			return fprintf(stderr, "%d: %d: %s\n", i, err, text), 1 + i;
		if (!wrote(row->writes) || !driver_is("nvme") || !override_is("(null)"))
			return 11 + i;
		if (!is_forgotten())
			return 21 + i;
	}
	return 0;
}

Test(bind, after_an_error_the_old_driver_is_bound)
{
	expect(fail_each);
}

static int take_changed(void *arg)
{
	begin("", "");
	set_driver("nvme");
	if (hr_bind(&binding, &state, "vfio-pci", test_error()) != -EBUSY || !wrote("") ||
	    !strstr(test_error_text(), "changed from none to nvme meanwhile"))
		return 1;
	hr_function_look(SSD, &state, NULL);
	set_driver("");
	if (hr_bind(&binding, &state, "vfio-pci", test_error()) != -EBUSY || !wrote("") ||
	    !strstr(test_error_text(), "changed from nvme to none meanwhile"))
		return 2;
	return is_forgotten() ? 0 : 3;
}

Test(bind, a_driver_that_changed_meanwhile_is_not_taken)
{
	expect(take_changed);
}

static int take_locked(void *arg)
{
	int lock;

	fake_clock_start(0, NULL, NULL);
	begin("nvme", "");
	if (hr_bind(&binding, &state, "vfio-pci", test_error()) || !wrote(kernel->writes))
		return 1;
	lock = hr_lock("pci-" SSD, test_error()); /* held during the change only */
	if (lock < 0)
		return 2;
	hr_bind_undo(&binding);
	if (!wrote("") || !is_forgotten() || hr_now_ns() != HR_NS_PER_S)
		return 3;
	if (!strstr(fake_log_last_of(HR_LOG_WARN), SSD ": is not given back to nvme: "))
		return 4;
	hr_function_look(SSD, &state, NULL);
	if (hr_bind(&binding, &state, NULL, test_error()) != -EBUSY || !wrote("") ||
	    !is_forgotten())
		return 5;
	return 0;
}

Test(bind, a_function_of_another_process_keeps_its_driver)
{
	expect(take_locked);
}

/* Each step of the restoration that fails is a warning; the others are made. */
static int fail_restoration(void *arg)
{
	static const struct {
		const char *fails, *say, *writes;
	} step[] = {
		{ "driver_override", "cannot restore driver_override: ",
		  "driver/unbind=" SSD ";drivers/nvme/bind=" SSD ";" },
		{ "driver/unbind", "cannot unbind it from vfio-pci: ",
		  "driver_override=;drivers/nvme/bind=" SSD ";" },
		{ "drivers/nvme/bind",
		  "cannot bind it to nvme again: ", "driver_override=;driver/unbind=" SSD ";" },
	};

	for (int i = 0; i < 3; i++) {
		begin("nvme", "");
		if (hr_bind(&binding, &state, "vfio-pci", test_error()) || !wrote(kernel->writes))
			return 1 + i;
		kernel->fails = step[i].fails;
		kernel->error = EIO;
		hr_bind_undo(&binding);
		kernel->fails = NULL;
		if (fake_log_count_of(HR_LOG_WARN) != 1u + (unsigned)i ||
		    !strstr(fake_log_last_of(HR_LOG_WARN), step[i].say) || !wrote(step[i].writes))
			return 11 + i;
		if (!is_forgotten())
			return 21 + i;
	}
	return 0;
}

Test(bind, a_restoration_that_fails_is_a_warning)
{
	expect(fail_restoration);
}

/* ---- death */

static int die(void *arg)
{
	int status;
	const pid_t child = fork();

	if (child == 0) {
		begin(arg ? arg : "nvme", "mine");
		if (hr_bind(&binding, &state, "vfio-pci", test_error()))
			_exit(1);
		kernel->writes[0] = '\0';
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 1;
	for (unsigned i = 0; i < 5000 && !driver_is(arg ? "" : "nvme"); i++)
		hr_wait_ns(10 * HR_NS_PER_MS);
	return wrote("driver_override=mine;driver/unbind=" SSD ";drivers/nvme/bind=" SSD ";") ? 0
											      : 2;
}

Test(bind, the_driver_comes_back_when_the_process_dies)
{
	expect(die);
}
