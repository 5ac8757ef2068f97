/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/machine/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/module.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "config/base/log.h"

#define PATH_BYTES 512u

struct load {
	const char *folder, *name, *options;
	int err; /* error of a file in modules.dep; logged */
};

static char plain(char c)
{
	return c == '-' ? '_' : c;
}

/* True when a file like "kernel/drivers/vfio/pci/vfio-pci.ko.xz" is the module vfio_pci. */
static bool is_module(const char *file, size_t length, const char *name)
{
	const char *base = file;

	for (size_t i = 0; i < length; i++)
		if (file[i] == '/')
			base = file + i + 1;
	for (; *name; name++, base++)
		if (base >= file + length || plain(*base) != plain(*name))
			return false;
	return file + length - base >= 3 && strncmp(base, ".ko", 3) == 0 &&
	       (base + 3 == file + length || base[3] == '.');
}

/* Parse "MODULE: NEED NEED ...". The last need must be loaded first. */
static int each_file(char *line, size_t module, int (*each)(void *to, const char *file), void *to)
{
	char *at = line + strlen(line);
	int err = 0;

	while (!err && at > line + module + 1) {
		char *word = at;

		while (word > line + module + 1 && word[-1] != ' ')
			word--;
		if (*word)
			err = each(to, word);
		at = word > line + module + 1 ? word - 1 : word;
		*at = '\0';
	}
	line[module] = '\0';
	return err ? err : each(to, line);
}

int hr_module_files(const char *folder, const char *name, int (*each)(void *to, const char *file),
		    void *to)
{
	char path[PATH_BYTES], *line = NULL;
	bool found = false;
	size_t bytes = 0;
	FILE *in;
	int err = -ENOENT;

	snprintf(path, sizeof path, "%.400s/modules.dep", folder);
	in = fopen(path, "re");
	if (!in)
		return -errno;
	while (!found && getline(&line, &bytes, in) > 0) {
		const size_t module = strcspn(line, ":");

		line[strcspn(line, "\n")] = '\0';
		found = line[module] != ':' || is_module(line, module, name);
		if (found)
			err = line[module] == ':' ? each_file(line, module, each, to) : -EINVAL;
	}
	free(line);
	fclose(in);
	return err;
}

static int load_file(const char *path, const char *options)
{
	const char *end = path + strlen(path);
	const bool plain_file = end - path > 3 && strcmp(end - 3, ".ko") == 0;
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	long err;

	if (fd < 0)
		return -errno;
	/* The kernel unpacks compressed modules (Linux 5.17). */
	err = syscall(SYS_finit_module, fd, options, plain_file ? 0 : MODULE_INIT_COMPRESSED_FILE);
	err = err == 0 || errno == EEXIST ? 0 : -errno;
	close(fd);
	return (int)err;
}

static int load_one(void *to, const char *file)
{
	struct load *load = to;
	const bool itself = is_module(file, strlen(file), load->name);
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "%.240s/%.240s", file[0] == '/' ? "" : load->folder, file);
	load->err = load_file(path, itself ? load->options : "");
	if (load->err)
		hr_error("module %s: %s: %s; see the kernel log", load->name, path,
			 strerror(-load->err));
	return load->err;
}

static bool is_builtin(const char *folder, const char *name)
{
	char path[PATH_BYTES], line[PATH_BYTES];
	bool found = false;
	FILE *in;

	snprintf(path, sizeof path, "%.400s/modules.builtin", folder);
	in = fopen(path, "re");
	while (in && !found && fgets(line, sizeof line, in)) {
		line[strcspn(line, "\n")] = '\0';
		found = is_module(line, strlen(line), name);
	}
	if (in)
		fclose(in);
	return found;
}

int hr_module_load(const char *folder, const char *name, const char *options)
{
	struct load load = { folder, name, options, 0 };
	int err;

	if (name[0] == '/') {
		err = load_file(name, options);
		if (err)
			hr_error("module %s: %s", name, strerror(-err));
		return err;
	}
	err = hr_module_files(folder, name, load_one, &load);
	if (err == 0 || load.err)
		return err;
	if (err == -ENOENT && is_builtin(folder, name))
		return 0;
	if (err == -ENOENT)
		hr_error("module %s: not in %s/modules.dep", name, folder);
	else if (err == -EINVAL)
		hr_error("%s/modules.dep: a line is not 'FILE: FILES'", folder);
	else
		hr_error("module %s: %s/modules.dep: %s", name, folder, strerror(-err));
	return err;
}

const char *hr_module_folder(char *path, size_t bytes)
{
	struct utsname kernel;

	if (uname(&kernel) != 0)
		kernel.release[0] = '\0';
	snprintf(path, bytes, "/lib/modules/%s", kernel.release);
	return path;
}
