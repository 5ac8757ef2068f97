/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system's names of a function, the CPUs of its NUMA node, and AMD's links between GPUs
 * (Documentation/ABI/testing/sysfs-class-kfd of the kernel: the topology of amdkfd).
 */
#include "pci/topo/sysfs/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 640u
#define NODES "sys/devices/virtual/kfd/kfd/topology/nodes"
#define LINK_XGMI 11 /* HSA_IOLINK_TYPE_XGMI */

/* Collected names, separated by spaces. */
struct names {
	const struct hr_files *files;
	const char *folder;
	size_t used;
	char text[512];
};

static void add_name(struct names *n, const char *name)
{
	size_t length = strlen(name);

	if (n->used + length + 2 > sizeof n->text || length > 64)
		return;
	if (n->used)
		n->text[n->used++] = ' ';
	memcpy(n->text + n->used, name, length + 1);
	n->used += length;
}

static int one_name(void *to, const char *name)
{
	add_name(to, name);
	return 0;
}

/* "nvme0n1" of a controller; "nvme0c1n1" is a path to the disk nvme0n1. */
static int one_namespace(void *to, const char *name)
{
	char disk[32];
	unsigned subsystem, number, path;
	int end = 0;

	if (sscanf(name, "nvme%9uc%9un%9u%n", &subsystem, &path, &number, &end) == 3 &&
	    name[end] == '\0') {
		snprintf(disk, sizeof disk, "nvme%un%u", subsystem, number);
		add_name(to, disk);
	} else if (sscanf(name, "nvme%9un%9u%n", &subsystem, &number, &end) == 2 &&
		   name[end] == '\0') {
		add_name(to, name);
	}
	return 0;
}

/* A controller without a namespace still has its own name. */
static int one_controller(void *to, const char *name)
{
	struct names *n = to;
	char path[PATH_BYTES];
	size_t before = n->used;

	snprintf(path, sizeof path, "%.400s/nvme/%.64s", n->folder, name);
	n->files->list(n->files, path, one_namespace, n);
	if (n->used == before)
		add_name(n, name);
	return 0;
}

static void read_names(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
		       const char *folder)
{
	struct names n = { .files = files, .folder = folder };
	char path[PATH_BYTES];

	if (hr_is_nvme(f)) {
		snprintf(path, sizeof path, "%.400s/nvme", folder);
		files->list(files, path, one_controller, &n);
	} else if (hr_is_nic(f)) {
		snprintf(path, sizeof path, "%.400s/infiniband", folder);
		files->list(files, path, one_name, &n);
		hr_fn_set(f, HR_F_RDMA, n.used > 0, HR_SRC_SYSFS);
		snprintf(path, sizeof path, "%.400s/net", folder);
		files->list(files, path, one_name, &n);
	}
	if (n.used)
		f->devices = hr_model_text(m, n.text, n.used);
}

static void read_cpus(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
		      const char *folder)
{
	char path[PATH_BYTES], value[1024];
	long n;

	snprintf(path, sizeof path, "%.400s/local_cpulist", folder);
	n = files->read(files, path, value, sizeof value - 1);
	if (n <= 0)
		return;
	value[n] = '\0';
	f->cpus = hr_model_text(m, value, strcspn(value, "\n"));
}

void hr_read_sysfs_peer(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
			const char *folder)
{
	if (!hr_is_nvme(f) && !hr_is_nic(f) && !hr_is_gpu(f))
		return;
	read_cpus(m, files, f, folder);
	read_names(m, files, f, folder);
}

/* ---- amdkfd */

struct kfd {
	struct hr_model *m;
	const struct hr_files *files;
	const char *node; /* the node whose links are read */
	uint64_t from;
};

/* Value of a line "name value"; false: no such line. */
static bool property(const char *text, const char *name, unsigned long *value)
{
	size_t length = strlen(name);

	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, name, length) == 0 && at[length] == ' ') {
			*value = strtoul(at + length, NULL, 10);
			return true;
		}
	}
	return false;
}

static bool read_properties(const struct kfd *k, const char *path, char *text, size_t capacity)
{
	long n = k->files->read(k->files, path, text, capacity - 1);

	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Address of the GPU of a node; nodes of CPUs have none. */
static uint64_t node_address(const struct kfd *k, const char *node)
{
	unsigned long location, domain = 0;
	char path[PATH_BYTES], text[4096];

	snprintf(path, sizeof path, NODES "/%.32s/properties", node);
	if (!read_properties(k, path, text, sizeof text) ||
	    !property(text, "location_id", &location) || location == 0 || location > 0xffff)
		return HR_NO_ADDRESS;
	property(text, "domain", &domain);
	return domain <= 0xffffff ? (uint64_t)domain << 16 | location : HR_NO_ADDRESS;
}

static int one_io_link(void *to, const char *name)
{
	struct kfd *k = to;
	struct hr_gpu_link link = {
		.from = k->from, .count = 1, .fabric = HR_XGMI, .source = HR_SRC_SYSFS
	};
	unsigned long type = 0, other = 0;
	char path[PATH_BYTES], text[2048], node[24];

	snprintf(path, sizeof path, NODES "/%.32s/io_links/%.32s/properties", k->node, name);
	if (!read_properties(k, path, text, sizeof text) || !property(text, "type", &type) ||
	    type != LINK_XGMI || !property(text, "node_to", &other))
		return 0;
	snprintf(node, sizeof node, "%lu", other);
	link.to = node_address(k, node);
	if (link.to != HR_NO_ADDRESS)
		hr_model_add_link(k->m, &link);
	return 0;
}

static int one_node(void *to, const char *name)
{
	struct kfd *k = to;
	char path[PATH_BYTES];

	k->node = name;
	k->from = node_address(k, name);
	snprintf(path, sizeof path, NODES "/%.32s/io_links", name);
	if (k->from != HR_NO_ADDRESS)
		k->files->list(k->files, path, one_io_link, k);
	return 0;
}

void hr_read_sysfs_links(struct hr_model *m, const struct hr_files *files)
{
	struct kfd k = { .m = m, .files = files };

	files->list(files, NODES, one_node, &k);
}
