/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers, modules and the kernel's configuration, from sysfs, proc and /boot
 * (pci/topo/rules/software.h).
 */
#include "pci/topo/sysfs/parts.h"

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
 * The version is the first word that begins with a digit and has a point.
 */
void hr_read_nvidia_version(struct hr_model *m, const char *line, enum hr_src source)
{
	const bool open = strstr(line, "Open Kernel Module") != NULL;
	const char *word = line;
	size_t n;
	char *end;

	for (; *word; word += n) {
		word += strspn(word, " \t");
		n = strcspn(word, " \t\n");
		if (n == 0)
			return;
		if (strtoul(word, &end, 10) == 0 || *end != '.')
			continue;
		snprintf(m->sys.nvidia, sizeof m->sys.nvidia, "%.*s", (int)(n < 63 ? n : 63), word);
		hr_text_clean(m->sys.nvidia, strlen(m->sys.nvidia));
		hr_fact_set(&m->sys.nvidia_open, open, source);
		return;
	}
}

static void read_driver(struct hr_model *m, const struct hr_files *files)
{
	char text[512];

	if (!contents(files, "proc/driver/nvidia/version", text, sizeof text))
		return;
	text[strcspn(text, "\n")] = '\0';
	hr_read_nvidia_version(m, text, HR_SRC_SYSFS);
}

bool hr_read_nvidia_key(struct hr_model *m, const char *line)
{
	static const char name[] = "RegistryDwords:";
	const char *at = line + sizeof name - 1;
	size_t n;

	if (strncmp(line, name, sizeof name - 1) != 0)
		return false;
	at += strspn(at, " \t\"");
	n = strcspn(at, "\"\n");
	snprintf(m->sys.nvidia_keys, sizeof m->sys.nvidia_keys, "%.*s",
		 n == 0 ? 1 : (int)(n < 511 ? n : 511), n == 0 ? "-" : at);
	hr_text_clean(m->sys.nvidia_keys, strlen(m->sys.nvidia_keys));
	return true;
}

/* The parameter of the module in sysfs reads as empty. */
static void read_keys(struct hr_model *m, const struct hr_files *files)
{
	char text[8192];

	if (!contents(files, "proc/driver/nvidia/params", text, sizeof text))
		return;
	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (hr_read_nvidia_key(m, at))
			return;
	}
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
