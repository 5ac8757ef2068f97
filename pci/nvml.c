/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVLinks, and answers about peer access, from NVIDIA's management library. The library comes with
 * the driver and is loaded at run time when it is installed. Only the functions below are used;
 * NVIDIA keeps their interface stable (NVML API reference, "NvLink Methods", "Device Queries").
 */
#include "pci/machine.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/gpu_peers.h"

#define LINKS_MAX 36u
#define TYPE_GPU 0
#define TYPE_SWITCH 2
#define INIT_NO_GPUS 1u /* a machine without GPUs is not an error */

struct pci_info { /* nvmlPciInfo_t of version 3 */
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
};

struct nvml {
	void *library;
	int (*init)(unsigned flags);
	int (*shutdown)(void);
	int (*by_bus_id)(const char *bus_id, void **device);
	int (*state)(void *device, unsigned link, int *active);
	int (*remote_type)(void *device, unsigned link, int *type);
	int (*remote_pci)(void *device, unsigned link, struct pci_info *info);
	/* NULL: a release before 390 */
	int (*p2p_status)(void *from, void *to, int access, int *status);
};

/* dlsym() returns an object pointer; POSIX allows converting it to a function pointer. */
static bool find_nvml_symbol(const struct nvml *n, const char *name, void *call)
{
	void *symbol = dlsym(n->library, name);

	memcpy(call, &symbol, sizeof symbol);
	return symbol;
}

static bool load_nvml(struct nvml *n)
{
	n->p2p_status = NULL;
	n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (n->library)
		find_nvml_symbol(n, "nvmlDeviceGetP2PStatus", &n->p2p_status);
	return n->library && find_nvml_symbol(n, "nvmlInitWithFlags", &n->init) &&
	       find_nvml_symbol(n, "nvmlShutdown", &n->shutdown) &&
	       find_nvml_symbol(n, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus_id) &&
	       find_nvml_symbol(n, "nvmlDeviceGetNvLinkState", &n->state) &&
	       find_nvml_symbol(n, "nvmlDeviceGetNvLinkRemoteDeviceType", &n->remote_type) &&
	       find_nvml_symbol(n, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &n->remote_pci);
}

/*
 * Count one active link of a GPU to another GPU or to a switch. Links to the same end are summed
 * up.
 */
static void count_link(struct hr_gpu_link *link, unsigned *used, uint64_t from, int type,
		       const struct pci_info *info)
{
	bool to_switch = type == TYPE_SWITCH, named = info->domain <= 0xffffff;
	uint64_t to = named ? (uint64_t)info->domain << 16 | (info->bus & 255) << 8 |
				      (info->device & 31) << 3
			    : HR_NO_ADDRESS;
	unsigned i = 0;

	/* In a guest the addresses of switches are hidden: they read all ones. */
	if (!to_switch && (type != TYPE_GPU || !named))
		return;
	while (i < *used && (link[i].to != to || link[i].to_switch != to_switch))
		i++;
	if (i == *used)
		link[(*used)++] = (struct hr_gpu_link){ .from = from,
							.to = to,
							.fabric = HR_NVLINK,
							.to_switch = to_switch,
							.source = HR_SRC_SYSFS };
	link[i].count++;
}

static void read_gpu(struct hr_model *m, const struct nvml *n, const struct hr_fn *f)
{
	struct hr_gpu_link link[LINKS_MAX];
	unsigned used = 0;
	char bdf[HR_BDF_MAX];
	void *device;

	if (n->by_bus_id(hr_bdf(f, bdf), &device))
		return;
	for (unsigned i = 0; i < LINKS_MAX; i++) {
		struct pci_info info = { .domain = ~0u };
		int active = 0, type = -1;

		if (n->state(device, i, &active) || !active || n->remote_type(device, i, &type))
			continue;
		/* A switch may have no PCI function in this machine. Its links are counted, too. */
		if (n->remote_pci(device, i, &info) && type != TYPE_SWITCH)
			continue;
		count_link(link, &used, hr_address(f), type, &info);
	}
	for (unsigned i = 0; i < used; i++)
		hr_model_add_link(m, &link[i]);
}

static void read_p2p(struct hr_model *m, const struct nvml *n, const struct hr_fn *from,
		     const struct hr_fn *to)
{
	struct hr_p2p answer = { .from = hr_address(from),
				 .to = hr_address(to),
				 .source = HR_SRC_SYSFS };
	char bdf[HR_BDF_MAX];
	void *a, *b;
	bool any = false;

	if (n->by_bus_id(hr_bdf(from, bdf), &a) || n->by_bus_id(hr_bdf(to, bdf), &b))
		return;
	for (int access = 0; access < HR_P2P_ACCESSES; access++) {
		int status = -1;

		if (n->p2p_status(a, b, access, &status) || status < 0 ||
		    status + HR_P2P_OK >= HR_P2P_STATUSES)
			continue;
		answer.status[access] = (uint8_t)(status + HR_P2P_OK);
		any = true;
	}
	if (any)
		hr_p2p_add(m, &answer);
}

static bool is_asked(const struct hr_fn *f)
{
	return hr_is_gpu(f) && hr_get(f, HR_F_VENDOR, 0) == 0x10de;
}

static void read_gpus(struct hr_model *m, const struct nvml *n)
{
	for (uint32_t i = 0; i < m->count; i++) {
		if (!is_asked(&m->fn[i]))
			continue;
		read_gpu(m, n, &m->fn[i]);
		for (uint32_t j = 0; n->p2p_status && j < m->count; j++)
			if (j != i && is_asked(&m->fn[j]))
				read_p2p(m, n, &m->fn[i], &m->fn[j]);
	}
}

int hr_read_nvml(struct hr_model *m)
{
	struct nvml n = { .library = NULL };
	int err = -ENOENT;

	if (load_nvml(&n) && n.init(INIT_NO_GPUS) == 0) {
		read_gpus(m, &n);
		n.shutdown();
		err = 0;
	}
	if (n.library)
		dlclose(n.library);
	return err;
}
