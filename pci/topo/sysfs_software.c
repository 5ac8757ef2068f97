/*
 * Drivers, modules and the kernel's configuration, from sysfs, proc and /boot
 * (pci/topo/software.h).
 */
#include "pci/topo/sysfs_software.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read a file as a string; false: not readable. */
static bool contents(const struct hr_files *files, const char *path, char *to, size_t capacity)
{
	long n = files->read(files, path, to, capacity - 1);

	if (n < 0)
		return false;
	to[n] = '\0';
	return true;
}

/*
 * "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build ..." or "NVRM
 * version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 ...": the version is the first
 * word that begins with a digit and has a point.
 */
static void read_driver(struct hr_model *m, const struct hr_files *files)
{
	char text[512], *save = NULL, *word, *end;
	bool open;

	if (!contents(files, "proc/driver/nvidia/version", text, sizeof text))
		return;
	text[strcspn(text, "\n")] = '\0';
	open = strstr(text, "Open Kernel Module") != NULL;
	for (word = strtok_r(text, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (strtoul(word, &end, 10) == 0 || *end != '.')
			continue;
		snprintf(m->sys.nvidia, sizeof m->sys.nvidia, "%.63s", word);
		hr_fact_set(&m->sys.nvidia_open, open, HR_SRC_SYSFS);
		return;
	}
}

/* RegistryDwords: "RMForceStaticBar1=1;". The parameter of the module in sysfs reads as empty. */
static void read_keys(struct hr_model *m, const struct hr_files *files)
{
	static const char name[] = "RegistryDwords:";
	char text[8192], *at;

	if (!contents(files, "proc/driver/nvidia/params", text, sizeof text))
		return;
	at = strstr(text, name);
	while (at && at != text && at[-1] != '\n') /* skip RegistryDwordsPerDevice */
		at = strstr(at + 1, name);
	if (!at)
		return;
	at += sizeof name - 1;
	at += strspn(at, " \t\"");
	at[strcspn(at, "\"\n")] = '\0';
	snprintf(m->sys.nvidia_keys, sizeof m->sys.nvidia_keys, "%.511s", *at ? at : "-");
}

/* When the list of modules is readable, a module that is not in it is not loaded. */
static int is_module(void *to, const char *name)
{
	*(bool *)to = true;
	return 1;
}

static void read_nvidia_fs(struct hr_model *m, const struct hr_files *files)
{
	char text[64];
	bool modules = false;

	if (contents(files, "sys/module/nvidia_fs/version", text, sizeof text)) {
		text[strcspn(text, "\n")] = '\0';
		snprintf(m->sys.nvidia_fs, sizeof m->sys.nvidia_fs, "%s", text);
		return;
	}
	files->list(files, "sys/module/nvidia_fs", is_module, &modules);
	if (modules) {
		snprintf(m->sys.nvidia_fs, sizeof m->sys.nvidia_fs, "loaded");
		return;
	}
	files->list(files, "sys/module", is_module, &modules);
	if (modules)
		snprintf(m->sys.nvidia_fs, sizeof m->sys.nvidia_fs, HR_NOT_LOADED);
}

static void read_multipath(struct hr_model *m, const struct hr_files *files)
{
	char text[8];

	if (contents(files, "sys/module/nvme_core/parameters/multipath", text, sizeof text))
		hr_fact_set(&m->sys.multipath, text[0] == 'Y' || text[0] == '1', HR_SRC_SYSFS);
}

/* Distributions put the configuration of their kernels in /boot. */
static void read_kernel_config(struct hr_model *m, const struct hr_files *files)
{
	const size_t used = m->used, capacity = 1 << 20;
	char path[HR_WORD_MAX + 32], *text;

	if (!m->sys.kernel[0] || strchr(m->sys.kernel, '/'))
		return;
	text = hr_model_alloc(m, capacity);
	snprintf(path, sizeof path, "boot/config-%s", m->sys.kernel);
	if (text && contents(files, path, text, capacity) && strstr(text, "CONFIG_PCI=y"))
		hr_fact_set(&m->sys.p2pdma, strstr(text, "\nCONFIG_PCI_P2PDMA=y") != NULL,
			    HR_SRC_SYSFS);
	hr_model_release(m, used);
}

void hr_read_sysfs_software(struct hr_model *m, const struct hr_files *files)
{
	read_driver(m, files);
	read_keys(m, files);
	read_nvidia_fs(m, files);
	read_multipath(m, files);
	read_kernel_config(m, files);
}
