/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts from sysfs and proc: of a captured tree, or of a live machine together with configuration
 * space. Interface: Documentation/ABI/testing/sysfs-bus-pci, sysfs-kernel-iommu_groups.
 */
#include "pci/topo/sysfs/sysfs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "pci/topo/sysfs/parts.h"
#include "config/base/text.h"

#define FOLDER_BYTES 384u
#define PATH_BYTES 512u

/* Read a small text file without its newline; false: not readable. */
static bool text(const struct hr_files *files, const char *folder, const char *name, char *to,
		 size_t capacity)
{
	char path[PATH_BYTES];
	long n;

	snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
	n = files->read(files, path, to, capacity - 1);
	to[n > 0 ? n : 0] = '\0'; /* what a failed read leaves there is no text */
	to[strcspn(to, "\n")] = '\0';
	return n >= 0;
}

static void set_number(const struct hr_files *files, const char *folder, const char *name,
		       struct hr_fn *f, enum hr_fact_id id, int base)
{
	char value[64], *end;
	long long number;

	if (!text(files, folder, name, value, sizeof value))
		return;
	number = strtoll(value, &end, base);
	if (end != value && number >= -1 && number <= UINT32_MAX) /* -1: no NUMA node */
		hr_fn_set(f, id, (uint32_t)number, HR_SRC_SYSFS);
}

/* Last part of a symbolic link's target. */
static bool link_name(const struct hr_files *files, const char *folder, const char *name, char *to,
		      size_t capacity)
{
	char path[PATH_BYTES], target[PATH_BYTES];
	const char *last;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	if (files->link(files, path, target, sizeof target))
		return false;
	last = strrchr(target, '/');
	snprintf(to, capacity, "%.63s", last ? last + 1 : target);
	return true;
}

/* "16.0 GT/s PCIe" as the register's code; 0: unknown. */
static uint32_t speed_code(const char *value)
{
	static const char *const speed[] = { "2.5", "5", "8", "16", "32", "64" };
	char *end;
	double gts = strtod(value, &end);

	for (uint32_t i = 0; end != value && i < sizeof speed / sizeof *speed; i++)
		if (gts > strtod(speed[i], NULL) - 0.1 && gts < strtod(speed[i], NULL) + 0.1)
			return i + 1;
	return 0;
}

static void set_speed(const struct hr_files *files, const char *folder, const char *name,
		      struct hr_fn *f, enum hr_fact_id id)
{
	char value[64];

	if (text(files, folder, name, value, sizeof value) && speed_code(value))
		hr_fn_set(f, id, speed_code(value), HR_SRC_SYSFS);
}

/*
 * Lines "start end flags", one per BAR, in CPU addresses. TLPs carry bus addresses, so only sizes
 * are used, and bases only when configuration space was not readable.
 */
static void read_resource(const struct hr_files *files, const char *folder, struct hr_fn *f)
{
	char value[4096], path[PATH_BYTES], *at = value;
	long n;

	snprintf(path, sizeof path, "%s/resource", folder);
	n = files->read(files, path, value, sizeof value - 1);
	if (n <= 0)
		return;
	value[n] = '\0';
	for (unsigned i = 0; i < HR_BARS_MAX && *at; i++) {
		struct hr_bar *bar = &f->bar[i];
		uint64_t start = strtoull(at, &at, 16), end = strtoull(at, &at, 16);
		uint64_t flags = strtoull(at, &at, 16);

		at += strcspn(at, "\n");
		at += *at == '\n';
		if (!(flags & 0x200) || end < start) /* IORESOURCE_MEM */
			continue;
		if (bar->size_source <= HR_SRC_SYSFS) {
			bar->size = end - start + 1;
			bar->size_source = HR_SRC_SYSFS;
		}
		if (bar->source > HR_SRC_SYSFS && bar->flags & HR_BAR_MEM)
			continue;
		bar->base = bar->source > HR_SRC_SYSFS ? 0 : start;
		bar->flags = (uint8_t)(HR_BAR_MEM | (flags & 0x2000 ? HR_BAR_PREF : 0) |
				       (flags & 0x100000 ? HR_BAR_64 : 0) |
				       (flags & 0x20000000 || !bar->base ? HR_BAR_UNASSIGNED : 0));
		bar->source = HR_SRC_SYSFS;
	}
}

/* Sizes of Resizable BAR, which sysfs shows without privileges (Linux 6.1). */
static void read_sizes(const struct hr_files *files, const char *folder, struct hr_fn *f)
{
	char name[32], value[32];
	const char *end;
	uint64_t sizes;

	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		snprintf(name, sizeof name, "resource%u_resize", i);
		if (!text(files, folder, name, value, sizeof value) ||
		    !hr_number_parse(value, 16, HR_BAR_SIZES, &end, &sizes) || *end || !sizes ||
		    f->bar[i].sizes_source > HR_SRC_SYSFS)
			continue;
		f->bar[i].sizes = sizes;
		f->bar[i].sizes_source = HR_SRC_SYSFS;
	}
}

static void read_group(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
		       const char *folder)
{
	char group[64], path[PATH_BYTES], type[32];
	uint32_t number;

	if (!link_name(files, folder, "iommu_group", group, sizeof group) ||
	    !hr_number_parse_u32(group, 10, &number))
		return;
	hr_fn_set(f, HR_F_GROUP, number, HR_SRC_SYSFS);
	snprintf(path, sizeof path, "sys/kernel/iommu_groups/%s", group);
	if (!text(files, path, "type", type, sizeof type))
		return;
	if (strcmp(type, "identity") == 0)
		hr_fn_set(f, HR_F_GROUP_TYPE, HR_IOMMU_PT, HR_SRC_SYSFS);
	else if (strncmp(type, "DMA", 3) == 0)
		hr_fn_set(f, HR_F_GROUP_TYPE, HR_IOMMU_ON, HR_SRC_SYSFS);
}

/* For a virtual function: its physical function, in the same domain. */
static void read_physfn(const struct hr_files *files, const char *folder, struct hr_fn *f)
{
	uint32_t domain, bus, dev, fn;
	char name[64];

	if (!link_name(files, folder, "physfn", name, sizeof name) ||
	    hr_bdf_parse(name, &domain, &bus, &dev, &fn) != strlen(name) || dev > 31 || fn > 7)
		return;
	hr_fn_set(f, HR_F_PHYSFN, bus << 8 | dev << 3 | fn, HR_SRC_SYSFS);
}

static void read_power(const struct hr_files *files, const char *folder, struct hr_fn *f)
{
	char state[32];

	if (!text(files, folder, "power_state", state, sizeof state))
		return;
	if (state[0] == 'D' && state[1] >= '0' && state[1] <= '3')
		hr_fn_set(f, HR_F_PM,
			  strcmp(state, "D3cold") == 0 ? 4u : (uint32_t)(state[1] - '0'),
			  HR_SRC_SYSFS);
}

void hr_read_sysfs_function(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
			    const char *folder)
{
	char word[HR_WORD_MAX];

	set_number(files, folder, "vendor", f, HR_F_VENDOR, 16);
	set_number(files, folder, "device", f, HR_F_DEVICE, 16);
	set_number(files, folder, "class", f, HR_F_CLASS, 16);
	set_number(files, folder, "numa_node", f, HR_F_NUMA, 10);
	set_speed(files, folder, "current_link_speed", f, HR_F_SPEED);
	set_speed(files, folder, "max_link_speed", f, HR_F_SPEED_MAX);
	set_number(files, folder, "current_link_width", f, HR_F_WIDTH, 10);
	set_number(files, folder, "max_link_width", f, HR_F_WIDTH_MAX, 10);
	read_resource(files, folder, f);
	if (hr_is_gpu(f))
		read_sizes(files, folder, f);
	read_group(m, files, f, folder);
	read_power(files, folder, f);
	read_physfn(files, folder, f);
	hr_read_aer_counts(files, f, folder);
	if (link_name(files, folder, "driver", word, sizeof word))
		f->driver = hr_model_word(m, word, strlen(word));
	else
		f->driver = "";
	if (text(files, folder, "label", word, sizeof word) && word[0])
		f->pci_slot = hr_model_word(m, word, strlen(word));
	hr_read_sysfs_peer(m, files, f, folder);
}

/* ---- the machine as a whole */

/* Parse "cpu family\t: 25" up to the end of its line. A number that does not fit is ignored. */
static void read_family(struct hr_system *sys, const char *at)
{
	uint64_t family;

	if (!at || at[strcspn(at, ":\n")] != ':')
		return;
	at += strcspn(at, ":") + 1;
	at += strspn(at, " \t");
	if (hr_number_parse(at, 10, UINT32_MAX, &at, &family) && (*at == '\n' || !*at))
		hr_fact_set(&sys->family, (uint32_t)family, HR_SRC_SYSFS);
}

/* The first domain of Xen runs under a hypervisor and sees the hardware. */
static bool owns_hardware(const struct hr_files *files)
{
	char value[64];

	return text(files, "proc/xen", "capabilities", value, sizeof value) &&
	       strstr(value, "control_d");
}

static void read_cpuinfo(struct hr_model *m, const struct hr_files *files)
{
	static char value[8192]; /* the entry of the first processor */
	struct hr_system *sys = &m->sys;
	const char *at;
	long n = files->read(files, "proc/cpuinfo", value, sizeof value - 1);

	if (n <= 0)
		return;
	value[n] = '\0';
	at = strstr(value, "vendor_id");
	if (at)
		hr_fact_set(&sys->amd, strncmp(at + strcspn(at, ":") + 1, " AuthenticAMD", 13) == 0,
			    HR_SRC_SYSFS);
	read_family(sys, strstr(value, "cpu family"));
	at = strstr(value, "flags");
	if (at) {
		at = strstr(at, " hypervisor");
		hr_fact_set(&sys->hypervisor,
			    at && !isalnum((unsigned char)at[11]) && !owns_hardware(files),
			    HR_SRC_SYSFS);
	}
}

static int count_name(void *to, const char *name)
{
	++*(unsigned *)to;
	return 0;
}

/* Without groups and IOMMU devices no IOMMU is active, whatever the hardware has. */
static void read_iommu(struct hr_model *m, const struct hr_files *files)
{
	unsigned groups = 0, units = 0;
	int no_groups = files->list(files, "sys/kernel/iommu_groups", count_name, &groups);
	int no_units = files->list(files, "sys/class/iommu", count_name, &units);
	uint32_t mode = HR_IOMMU_UNKNOWN;
	bool mixed = false;

	for (uint32_t i = 0; i < m->count; i++) {
		uint32_t type = hr_get(&m->fn[i], HR_F_GROUP_TYPE, HR_IOMMU_UNKNOWN);

		if (type != HR_IOMMU_UNKNOWN && mode != HR_IOMMU_UNKNOWN && type != mode)
			mixed = true;
		if (type > mode)
			mode = type;
	}
	if (mode != HR_IOMMU_UNKNOWN)
		hr_fact_set(&m->sys.iommu, mode, mixed ? HR_SRC_INFERRED : HR_SRC_SYSFS);
	else if (!no_groups && !no_units && !groups && !units)
		hr_fact_set(&m->sys.iommu, HR_IOMMU_OFF, HR_SRC_SYSFS);
}

static void read_lockdown(struct hr_model *m, const struct hr_files *files)
{
	char value[128];
	const char *open;

	if (!text(files, "sys/kernel/security", "lockdown", value, sizeof value))
		return;
	open = strchr(value, '[');
	if (open)
		snprintf(m->sys.lockdown, sizeof m->sys.lockdown, "%.*s",
			 (int)strcspn(open + 1, "]"), open + 1);
}

static int note_cpu(void *to, const char *name)
{
	if (strncmp(name, "cpu", 3) == 0 && isdigit((unsigned char)name[3]))
		++*(unsigned *)to;
	return 0;
}

void hr_read_sysfs_system(struct hr_model *m, const struct hr_files *files)
{
	unsigned cpus = 0;

	text(files, "proc/sys/kernel", "osrelease", m->sys.kernel, sizeof m->sys.kernel);
	text(files, "proc", "cmdline", m->sys.cmdline, sizeof m->sys.cmdline);
	read_cpuinfo(m, files);
	read_iommu(m, files);
	read_lockdown(m, files);
	hr_read_mounted(m, files);
	hr_read_sysfs_software(m, files);
	hr_read_sysfs_links(m, files);
	hr_read_switch_links(m, files);
	files->list(files, "sys/devices/system/cpu", note_cpu, &cpus);
	if (cpus)
		hr_fact_set(&m->sys.cpus, cpus, HR_SRC_SYSFS);
}

/* ---- a captured tree */

struct tree {
	struct hr_model *m;
	const struct hr_files *files;
	const char *folder; /* folder of the devices */
	int err;
};

/*
 * Without root rights 64 bytes are readable. The file size is larger, so tar pads the rest with
 * zeros. A device with a capability list has no zeros there, so the padding is recognized and
 * dropped.
 */
static long without_filling(const uint8_t *config, long n)
{
	if (n <= (long)HR_CFG_BASIC || !(config[HR_CFG_STATUS] & HR_STATUS_CAPS))
		return n;
	for (long i = HR_CFG_BASIC; i < n; i++)
		if (config[i])
			return n;
	return HR_CFG_BASIC;
}

static int read_config(struct tree *t, struct hr_fn *f, const char *folder)
{
	uint8_t config[HR_CFG_EXTENDED];
	char path[PATH_BYTES];
	long n;

	snprintf(path, sizeof path, "%.383s/config", folder);
	n = t->files->read(t->files, path, config, sizeof config);
	if (n <= 0) {
		f->denied = true;
		return 0;
	}
	n = without_filling(config, n);
	f->config = hr_model_alloc(t->m, (size_t)n);
	if (!f->config)
		return -ENOMEM;
	memcpy(f->config, config, (size_t)n);
	f->config_bytes = (uint32_t)n;
	hr_decode(f, f->config, f->config_bytes);
	return 0;
}

static int one_device(void *to, const char *name)
{
	struct tree *t = to;
	uint32_t domain, bus, dev, fn;
	char folder[FOLDER_BYTES], target[FOLDER_BYTES - 16];
	struct hr_fn *f;

	if (hr_bdf_parse(name, &domain, &bus, &dev, &fn) != strlen(name))
		return 0;
	f = hr_model_add(t->m, domain, bus, dev, fn);
	if (!f) {
		t->err = hr_fail(
			&t->m->error, HR_ERROR_USAGE, -EINVAL,
			"%.64s: no such address, or more functions than one machine can have",
			name);
		return 1;
	}
	snprintf(folder, sizeof folder, "%s/%s", t->folder, name);
	/*
	 * An archive does not follow links: ../../../devices/pci0000:00/... from
	 * sys/bus/pci/devices.
	 */
	if (t->files->link(t->files, folder, target, sizeof target) == 0 &&
	    strncmp(target, "../../../devices/", 17) == 0)
		snprintf(folder, sizeof folder, "sys/%s", target + 9);
	t->err = read_config(t, f, folder);
	hr_read_sysfs_function(t->m, t->files, f, folder);
	return t->err != 0;
}

int hr_read_sysfs(struct hr_model *m, const struct hr_files *files)
{
	static const char *const folders[] = { "sys/bus/pci/devices", "bus/pci/devices", "devices",
					       "." };
	struct tree t = { .m = m, .files = files };

	snprintf(m->input, sizeof m->input, "sysfs tree");
	for (unsigned i = 0; i < sizeof folders / sizeof *folders && !m->count && !t.err; i++) {
		t.folder = folders[i];
		files->list(files, folders[i], one_device, &t);
	}
	if (t.err)
		return t.err;
	if (m->count == 0)
		return hr_fail(&m->error, HR_ERROR_USAGE, -ENODATA,
			       "no PCI function under sys/bus/pci/devices");
	hr_read_sysfs_system(m, files);
	return 0;
}
