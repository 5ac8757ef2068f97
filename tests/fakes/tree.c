/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pci/topo/fields.h"

#define CONFIG_BYTES 256u
#define BARS 7u

static void must(int good, const char *what)
{
	if (!good) {
		perror(what);
		abort();
	}
}

static void path_of(const struct fake_tree *tree, const char *bdf, const char *file, char to[256])
{
	snprintf(to, 256, "%.63s/devices/%.31s/%.63s", tree->root, bdf, file);
}

void fake_tree_write(struct fake_tree *tree, const char *bdf, const char *file, size_t offset,
		     const void *bytes, size_t size)
{
	char path[256];
	int fd;

	path_of(tree, bdf, file, path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	must(fd >= 0 && pwrite(fd, bytes, size, (off_t)offset) == (ssize_t)size, path);
	close(fd);
}

void fake_tree_read(const struct fake_tree *tree, const char *bdf, const char *file, size_t offset,
		    void *bytes, size_t size)
{
	char path[256];
	int fd;

	path_of(tree, bdf, file, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0 && pread(fd, bytes, size, (off_t)offset) == (ssize_t)size, path);
	close(fd);
}

uint16_t fake_tree_command(const struct fake_tree *tree, const char *bdf)
{
	uint16_t command;

	fake_tree_read(tree, bdf, "config", HR_CFG_COMMAND, &command, sizeof command);
	return command;
}

static void make_folder(const struct fake_tree *tree, const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "%.63s/%.127s", tree->root, name);
	must(mkdir(path, 0755) == 0, path);
}

void fake_tree_make(struct fake_tree *tree)
{
	snprintf(tree->root, sizeof tree->root, "/tmp/fake_tree.XXXXXX");
	must(mkdtemp(tree->root) != NULL, tree->root);
	make_folder(tree, "devices");
	make_folder(tree, "groups");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

void fake_tree_remove(struct fake_tree *tree)
{
	nftw(tree->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void write_text(struct fake_tree *tree, const char *bdf, const char *file, const char *text)
{
	fake_tree_write(tree, bdf, file, 0, text, strlen(text));
}

static void write_hex(struct fake_tree *tree, const char *bdf, const char *file, uint32_t value)
{
	char text[32];

	snprintf(text, sizeof text, "0x%06x\n", value);
	write_text(tree, bdf, file, text);
}

/* One line per BAR, in the kernel's format: start, end, flags. */
static void write_resource(struct fake_tree *tree, const struct fake_tree_fn *fn)
{
	char text[BARS * 64] = "";
	size_t at = 0;

	for (unsigned i = 0; i < BARS; i++) {
		const uint64_t bytes = i == 0 ? fn->bar_bytes : 0;

		at += (size_t)snprintf(
			text + at, sizeof text - at, "0x%016llx 0x%016llx 0x%016llx\n",
			(unsigned long long)(bytes ? fn->bar_address : 0),
			(unsigned long long)(bytes ? fn->bar_address + bytes - 1 : 0),
			bytes ? 0x140204ull : 0);
	}
	write_text(tree, fn->bdf, "resource", text);
	if (fn->bar_bytes)
		fake_tree_write(tree, fn->bdf, "resource0", fn->bar_bytes - 1, "", 1);
}

static void write_config(struct fake_tree *tree, const struct fake_tree_fn *fn)
{
	uint8_t config[CONFIG_BYTES] = { 0x34, 0x12, 0x78, 0x56 };
	const uint64_t bar = fn->bar_bytes ? fn->bar_address | 4 : 0; /* 64-bit memory */

	memcpy(config + HR_CFG_COMMAND, &fn->command, sizeof fn->command);
	memcpy(config + HR_CFG_CLASS, &fn->class, 3);
	memcpy(config + HR_CFG_BAR0, &bar, sizeof bar);
	fake_tree_write(tree, fn->bdf, "config", 0, config, sizeof config);
}

static void write_link(struct fake_tree *tree, const char *bdf, const char *file,
		       const char *target)
{
	char path[256];

	path_of(tree, bdf, file, path);
	must(symlink(target, path) == 0, path);
}

void fake_tree_add(struct fake_tree *tree, const struct fake_tree_fn *fn)
{
	static const char *const zero[] = { "subsystem_vendor", "subsystem_device", "irq",
					    "revision" };
	char path[256];

	snprintf(path, sizeof path, "devices/%.31s", fn->bdf);
	make_folder(tree, path);
	write_config(tree, fn);
	write_hex(tree, fn->bdf, "vendor", 0x1234);
	write_hex(tree, fn->bdf, "device", 0x5678);
	write_hex(tree, fn->bdf, "class", fn->class);
	for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
		write_hex(tree, fn->bdf, zero[i], 0);
	write_text(tree, fn->bdf, "enable", "0");
	write_resource(tree, fn);
	if (fn->driver) {
		snprintf(path, sizeof path, "../../../bus/pci/drivers/%.63s", fn->driver);
		write_link(tree, fn->bdf, "driver", path);
	}
	if (fn->group >= 0) {
		snprintf(path, sizeof path, "../../../kernel/iommu_groups/%d", fn->group);
		write_link(tree, fn->bdf, "iommu_group", path);
	}
}

void fake_tree_virtual(struct fake_tree *tree, const char *bdf)
{
	const uint64_t none = 0;

	fake_tree_write(tree, bdf, "config", HR_CFG_BAR0, &none, sizeof none);
	write_link(tree, bdf, "physfn", ".");
}

void fake_tree_group(struct fake_tree *tree, int group, const char *type)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "groups/%d", group);
	make_folder(tree, path);
	snprintf(path, sizeof path, "%.63s/groups/%d/type", tree->root, group);
	file = fopen(path, "we");
	must(file && fprintf(file, "%s\n", type) > 0, path);
	fclose(file);
}

static void bind(const struct fake_tree *tree, const char *name, const char *over)
{
	char path[256];

	snprintf(path, sizeof path, "%.63s/%.31s", tree->root, name);
	if (mount(path, over, NULL, MS_BIND, NULL) != 0)
		_exit(FAKE_TREE_SKIPPED);
}

int fake_tree_run(struct fake_tree *tree, int (*inside)(void *arg), void *arg)
{
	int status;
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
			_exit(FAKE_TREE_SKIPPED);
		bind(tree, "devices", "/sys/bus/pci/devices");
		bind(tree, "groups", "/sys/kernel/iommu_groups");
		/* the locks of this machine: other tests have functions of the same address */
		if (mount("locks", "/run", "tmpfs", 0, "size=1m,mode=755") != 0)
			_exit(FAKE_TREE_SKIPPED);
		_exit(inside(arg));
	}
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
