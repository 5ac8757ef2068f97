/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel modules: which files of modules.dep are loaded, in which order and with which options, and
 * the message of each error. The kernel is the syscall() of this test.
 */
#include "boot/appliance/machine/machine.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/module.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/fakes/log.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static char folder[64], files[1024];
static int result;	 /* of finit_module, as errno */
static const char *fail; /* only the file whose data begin so; NULL: every file */

/* "FILE(OPTIONS,FLAGS) " for each file that is loaded; a file has its own name as its data. */
__attribute__((visibility("hidden"))) long syscall(long number, ...)
{
	long (*real)(long number, ...);
	va_list args;
	const char *options;
	char data[64] = "";
	long arg[6];
	int fd, flags;

	va_start(args, number);
	for (unsigned i = 0; i < ROWS(arg); i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (number != SYS_finit_module) {
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
		return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	}
	fd = (int)arg[0];
	options = (const char *)arg[1];
	flags = (int)arg[2];
	cr_expect_gt(pread(fd, data, sizeof data - 1, 0), 0);
	snprintf(files + strlen(files), sizeof files - strlen(files), "%s(%s,%d) ", data, options,
		 flags);
	errno = result ? result : EIO; /* a call that succeeds may change it, too */
	return result && (!fail || strcmp(fail, data) == 0) ? -1 : 0;
}

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *out;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	out = fopen(path, "w");
	cr_assert_not_null(out);
	fputs(text, out);
	fclose(out);
}

static void begin(void)
{
	static const char *const name[] = { "base.ko", "mid.ko.xz", "my-top.ko", "top2.ko.zst" };
	char path[128];

	strcpy(folder, "/tmp/modules.XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/k", folder);
	cr_assert_eq(mkdir(path, 0700), 0);
	for (size_t i = 0; i < ROWS(name); i++) {
		snprintf(path, sizeof path, "k/%s", name[i]);
		write_file(path, name[i]);
	}
	write_file("modules.dep", "k/base.ko:\n"
				  "k/mid.ko.xz: k/base.ko\n"
				  "k/my-top.ko: k/mid.ko.xz  k/base.ko\n"
				  "k/top2.ko.zst: k/none.ko k/base.ko\n"
				  "k/last.ko: k/base.ko");
	write_file("modules.builtin", "k/inside.ko\nk/also_in.ko\n");
	files[0] = '\0';
	result = 0;
	fail = NULL;
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_expect_eq(system(command), 0);
}

TestSuite(modules, .init = begin, .fini = end, .timeout = 60);

static int note(void *to, const char *file)
{
	const char *stop = to;

	snprintf(files + strlen(files), sizeof files - strlen(files), "%s ", file);
	return stop && strcmp(stop, file) == 0 ? -EDOM : 0;
}

static char absent[] = "k/none.ko";

Test(modules, files_come_in_the_order_of_loading)
{
	static const struct {
		const char *name;
		char *stop; /* at this file */
		int want;
		const char *files;
	} row[] = {
		{ "base", NULL, 0, "k/base.ko " },
		{ "mid", NULL, 0, "k/base.ko k/mid.ko.xz " },
		{ "my-top", NULL, 0, "k/base.ko k/mid.ko.xz k/my-top.ko " },
		{ "my_top", NULL, 0, "k/base.ko k/mid.ko.xz k/my-top.ko " },
		{ "top2", absent, -EDOM, "k/base.ko k/none.ko " },
		{ "last", NULL, 0, "k/base.ko k/last.ko " }, /* without an end of line */
		{ "top", NULL, -ENOENT, "" },
		{ "bas", NULL, -ENOENT, "" },
		{ "base.ko", NULL, -ENOENT, "" },
		{ "basee", NULL, -ENOENT, "" },
		{ "k/base", NULL, -ENOENT, "" },
		{ "a-rather-long-name-of-a-module", NULL, -ENOENT, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		files[0] = '\0';
		cr_expect_eq(hr_module_files(folder, row[i].name, note, row[i].stop), row[i].want,
			     "row %zu", i);
		cr_expect_str_eq(files, row[i].files, "row %zu: %s", i, files);
	}
}

Test(modules, endings_of_modules)
{
	static const struct {
		const char *line;
		bool is;
	} row[] = { { "x.ko:", true },	 { "x.ko.gz:", true }, { "x.kox:", false },
		    { "x.k:", false },	 { "x.o.ko:", false }, { "x:", false },
		    { "a/x.ko:", true }, { "xa/b.ko:", false } };

	for (size_t i = 0; i < ROWS(row); i++) {
		write_file("modules.dep", row[i].line);
		cr_expect_eq(hr_module_files(folder, "x", note, NULL), row[i].is ? 0 : -ENOENT,
			     "row %zu", i);
	}
}

Test(modules, modules_dep_must_be_well_formed)
{
	write_file("modules.dep", "no colon\nk/base.ko:\n");
	cr_expect_eq(hr_module_files(folder, "base", note, NULL), -EINVAL);
	cr_expect_str_empty(files);
	cr_expect_eq(hr_module_load(folder, "base", ""), -EINVAL);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "/modules.dep: a line is not 'FILE: "
							 "FILES'"),
		  "%s", fake_log_last_of(HR_LOG_ERROR));
	write_file("modules.dep", "k/base.ko:\nno colon\n");
	cr_expect_eq(hr_module_files(folder, "base", note, NULL), 0, "it is found before");
	write_file("modules.dep", "");
	cr_expect_eq(hr_module_files(folder, "base", note, NULL), -ENOENT);
	cr_expect_eq(hr_module_files("/none", "base", note, NULL), -ENOENT);
}

/* Options are for the module itself. */
Test(modules, a_module_is_loaded_after_its_needs)
{
	char want[128];

	cr_expect_eq(hr_module_load(folder, "my_top", "ids=1"), 0);
	snprintf(want, sizeof want, "base.ko(,0) mid.ko.xz(,%d) my-top.ko(ids=1,0) ",
		 MODULE_INIT_COMPRESSED_FILE);
	cr_expect_str_eq(files, want, "%s", files);
	result = EEXIST;
	cr_expect_eq(hr_module_load(folder, "base", "x"), 0, "it is loaded already");
	cr_expect_eq(fake_log_count(), 0);
}

static void expect_error(int err, int want, const char *format, const char *text)
{
	char line[256];

	snprintf(line, sizeof line, format, folder, text);
	cr_expect_eq(err, want, "%d", err);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), line, "%s",
			 fake_log_last_of(HR_LOG_ERROR));
}

Test(modules, each_error_has_its_message)
{
	const unsigned before = fake_log_count();

	result = ENOEXEC;
	fail = "mid.ko.xz";
	expect_error(hr_module_load(folder, "my-top", ""), -ENOEXEC,
		     "module my-top: %s/k/mid.ko.xz: %s; see the kernel log", strerror(ENOEXEC));
	cr_expect_null(strstr(files, "my-top"));
	expect_error(hr_module_load(folder, "top2", ""), -ENOENT,
		     "module top2: %s/k/none.ko: %s; see the kernel log", strerror(ENOENT));
	cr_expect_eq(fake_log_count() - before, 2);
	expect_error(hr_module_load(folder, "nothing", ""), -ENOENT,
		     "module nothing: not in %s/modules.dep%s", "");
	cr_expect_eq(hr_module_load(folder, "inside", ""), 0);
	cr_expect_eq(hr_module_load(folder, "also-in", ""), 0);
	cr_expect_eq(hr_module_load(folder, "insid", ""), -ENOENT);
	cr_expect_eq(fake_log_count() - before, 4);
	strcat(folder, "/k");
	expect_error(hr_module_load(folder, "base", ""), -ENOENT,
		     "module base: not in %s/modules.dep%s", "");
	folder[strlen(folder) - 2] = '\0';
}

Test(modules, a_modules_dep_that_cannot_be_read_is_named)
{
	char path[128];

	snprintf(path, sizeof path, "%s/modules.dep", folder);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(symlink("modules.dep", path), 0);
	expect_error(hr_module_load(folder, "inside", ""), -ELOOP,
		     "module inside: %s/modules.dep: %s", strerror(ELOOP));
	cr_expect_eq(hr_module_files(folder, "base", note, NULL), -ELOOP);
}

Test(modules, an_absolute_path_is_one_file)
{
	char path[128], want[256];

	snprintf(path, sizeof path, "%s/k/mid.ko.xz", folder);
	cr_expect_eq(hr_module_load("/none", path, "a=1 b=2"), 0);
	snprintf(want, sizeof want, "mid.ko.xz(a=1 b=2,%d) ", MODULE_INIT_COMPRESSED_FILE);
	cr_expect_str_eq(files, want);
	result = EPERM;
	snprintf(want, sizeof want, "module %s: %s", path, strerror(EPERM));
	cr_expect_eq(hr_module_load("/none", path, ""), -EPERM);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), want);
	cr_expect_eq(hr_module_load(folder, "/none.ko", ""), -ENOENT);
	/* also in modules.dep */
	snprintf(want, sizeof want, "%s/k/base.ko:\n", folder);
	write_file("modules.dep", want);
	files[0] = '\0';
	result = 0;
	cr_expect_eq(hr_module_load(folder, "base", ""), 0);
	cr_expect_str_eq(files, "base.ko(,0) ");
}

Test(modules, the_folder_is_that_of_the_kernel)
{
	struct utsname kernel;
	char path[128], want[128];

	cr_assert_eq(uname(&kernel), 0);
	snprintf(want, sizeof want, "/lib/modules/%s", kernel.release);
	cr_expect_str_eq(hr_module_folder(path, sizeof path), want);
	cr_expect_str_eq(hr_module_folder(path, 5), "/lib");
}
