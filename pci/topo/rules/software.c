/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/rules/software.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/gpu_peers.h"
#include "pci/topo/rules/rules.h"

#define OPEN_DRIVER 565u /* of NVIDIA, the first with P2PDMA for cuFile */
#define KEYS_FIX                                                                                \
	"options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\" " \
	"in /etc/modprobe.d, then rebuild the initramfs and boot"

static bool is_nvidia(const struct hr_fn *f)
{
	return hr_get(f, HR_F_VENDOR, 0) == 0x10de;
}

/* ---- single requirements */

static void need(struct hr_need *n, const char *what, enum hr_met met, const char *text,
		 const char *fix)
{
	*n = (struct hr_need){ .what = what, .met = met, .fix = fix };
	snprintf(n->text, sizeof n->text, "%s", text);
}

static void need_product(const struct hr_fn *gpu, struct hr_need *n)
{
	static const char *const text[] = { "not known", "consumer (GeForce, TITAN)",
					    "data center or professional" };
	static const enum hr_met met[] = { HR_UNSURE, HR_NO, HR_YES };
	enum hr_product product = hr_product_of(gpu);

	need(n, "product line", met[product], text[product],
	     "a data-center or professional card; GPUDirect is not supported on others");
}

/* NVIDIA: "A100, A40, L4, L40S, H100, H200, B100, B200, B300 are supported": Ampere and later. */
static void need_architecture(const struct hr_fn *gpu, struct hr_need *n)
{
	static const struct {
		enum hr_met met;
		const char *text;
	} row[] = { { HR_UNSURE, "not known" },
		    { HR_NO, "before Ampere" },
		    { HR_YES, "Ampere or later" } };
	enum hr_age age = hr_product_age(hr_get(gpu, HR_F_DEVICE, 0), gpu->name);

	need(n, "architecture", row[age].met, row[age].text, "a GPU of Ampere or later");
}

static void need_driver(const struct hr_topology *e, struct hr_need *n)
{
	const struct hr_system *sys = &e->m->sys;
	const unsigned long version = strtoul(sys->nvidia, NULL, 10);
	char text[128];

	if (!sys->nvidia[0]) {
		need(n, "driver", HR_UNSURE, "version not known", NULL);
		return;
	}
	snprintf(text, sizeof text, "NVIDIA %.40s, %s", sys->nvidia,
		 !sys->nvidia_open.source ? "flavour not known"
		 : sys->nvidia_open.value ? "open kernel modules"
					  : "proprietary kernel modules");
	need(n, "driver",
	     version < OPEN_DRIVER || (sys->nvidia_open.source && !sys->nvidia_open.value) ? HR_NO
	     : sys->nvidia_open.source							   ? HR_YES
				       : HR_UNSURE,
	     text, "the open kernel modules of NVIDIA 565 or later");
}

/* True when the keys, separated by semicolons, have "KEY=1"; the last one of a name counts. */
static bool key_is_set(const char *keys, const char *key)
{
	const size_t length = strlen(key);
	bool set = false;

	for (const char *at = keys; *at; at += strcspn(at, ";, "), at += strspn(at, ";, "))
		if (strncmp(at, key, length) == 0 && at[length] == '=')
			set = strtoul(at + length + 1, NULL, 0) == 1;
	return set;
}

static bool is_x86(const struct hr_topology *e)
{
	uint32_t vendor = hr_get(&e->m->fn[e->m->root_bus[0].first], HR_F_VENDOR, 0);

	return e->zen || vendor == 0x8086 || vendor == 0x1022;
}

static void need_keys(const struct hr_topology *e, struct hr_need *n)
{
	const char *keys = e->m->sys.nvidia_keys;
	bool bar1 = key_is_set(keys, "RMForceStaticBar1");
	bool wc = key_is_set(keys, "RmForceDisableIomapWC");
	char text[128];

	if (e->m->root_buses == 0 || !is_x86(e) || !keys[0]) {
		need(n, "registry keys", HR_UNSURE,
		     keys[0] ? "not needed here" : "not known (/proc/driver/nvidia/params)", NULL);
		return;
	}
	snprintf(text, sizeof text, "RMForceStaticBar1 %s, RmForceDisableIomapWC %s",
		 bar1 ? "1" : "not set", wc ? "1" : "not set");
	need(n, "registry keys", bar1 && wc ? HR_YES : HR_NO, text, KEYS_FIX);
}

static void need_kernel(const struct hr_topology *e, struct hr_need *n)
{
	const char *release = e->m->sys.kernel;
	const uint32_t version = hr_kernel_of_release(release);

	if (!version)
		need(n, "kernel", HR_UNSURE, "release not known", NULL);
	else
		need(n, "kernel", version >= HR_KERNEL_VERSION(6, 2) ? HR_YES : HR_NO, release,
		     "Linux 6.2 or later, or nvidia-fs");
}

static void need_p2pdma(const struct hr_topology *e, struct hr_need *n)
{
	const struct hr_fact *fact = &e->m->sys.p2pdma;

	if (!fact->source)
		need(n, "PCI P2PDMA", HR_UNSURE, "configuration of the kernel not known", NULL);
	else
		need(n, "PCI P2PDMA", fact->value ? HR_YES : HR_NO,
		     fact->value ? "CONFIG_PCI_P2PDMA is set" : "CONFIG_PCI_P2PDMA is not set",
		     "a kernel with CONFIG_PCI_P2PDMA, or nvidia-fs");
}

static void need_nvidia_fs(const struct hr_topology *e, struct hr_need *n)
{
	const char *version = e->m->sys.nvidia_fs;
	bool none = strcmp(version, HR_NOT_LOADED) == 0;

	need(n, "nvidia-fs",
	     !version[0] ? HR_UNSURE
	     : none	 ? HR_NO
			 : HR_YES,
	     version[0] ? version : "not known", "modprobe nvidia-fs");
}

static void need_single_path(const struct hr_topology *e, struct hr_need *n)
{
	const struct hr_fact *fact = &e->m->sys.multipath;

	if (!fact->source)
		need(n, "nvme multipath", HR_UNSURE, "not known", NULL);
	else
		need(n, "nvme multipath", fact->value ? HR_NO : HR_YES, fact->value ? "on" : "off",
		     "options nvme_core multipath=N in /etc/modprobe.d, then rebuild the initramfs "
		     "and boot");
}

static void need_plain_disk(const struct hr_fn *ssd, struct hr_need *n)
{
	if (hr_get(ssd, HR_F_STACKED, 0))
		need(n, "md or dm", HR_NO, "a file system on md or dm uses it",
		     "the file system on the disk itself, or nvidia-fs");
	else
		need(n, "md or dm", ssd->fs ? HR_YES : HR_UNSURE,
		     ssd->fs ? "none above it" : "no file system on it is mounted, or not known",
		     NULL);
}

/* True when all types of a list like "ext4,xfs" are supported; "ext4 data=journal" is not. */
static bool all_fine(const char *types)
{
	for (size_t n = 0; *types; types += n + (types[n] == ',')) {
		n = strcspn(types, ",");
		if (!(n == 4 && memcmp(types, "ext4", 4) == 0) &&
		    !(n == 3 && memcmp(types, "xfs", 3) == 0))
			return false;
	}
	return true;
}

static void need_fs(const struct hr_fn *ssd, struct hr_need *n)
{
	bool fine = ssd->fs && all_fine(ssd->fs);

	need(n, "file system",
	     !ssd->fs ? HR_UNSURE
	     : fine   ? HR_YES
		      : HR_NO,
	     ssd->fs ? ssd->fs : "no file system on it is mounted, or not known",
	     "xfs, or ext4 with data=ordered");
}

/* ---- rows */

/* Peer access with other GPUs; no row without an answer of the driver. */
static bool need_peers(const struct hr_topology *e, const struct hr_fn *gpu, struct hr_need *n)
{
	enum hr_p2p_status refusal = HR_P2P_UNREAD;
	unsigned answers = 0, refusals = 0;
	char text[sizeof n->text];

	for (uint32_t i = 0; i < e->gpus; i++) {
		enum hr_p2p_status status =
			hr_p2p_between(e->m, hr_address(gpu), hr_address(&e->m->fn[e->gpu[i]]));

		answers += status != HR_P2P_UNREAD;
		refusals += hr_p2p_refuses(status);
		refusal = hr_p2p_refuses(status) ? status : refusal;
	}
	if (!answers)
		return false;
	snprintf(text, sizeof text, "the driver refuses %u of %u GPUs (%s)", refusals, answers,
		 hr_p2p_word(refusal));
	need(n, "GPU peers", refusals ? HR_NO : HR_YES, refusals ? text : "the driver allows them",
	     NULL);
	return true;
}

unsigned hr_software_gpu(const struct hr_topology *e, int32_t gpu, struct hr_need *n)
{
	const struct hr_fn *f = &e->m->fn[gpu];
	unsigned count = 0;

	need(&n[count++], "bound driver",
	     !f->driver		     ? HR_UNSURE
	     : hr_fn_no_driver(e, f) ? HR_NO
				     : HR_YES,
	     !f->driver	    ? "not known"
	     : f->driver[0] ? f->driver
			    : "none",
	     "the vendor's driver");
	if (!is_nvidia(f))
		return count;
	need_product(f, &n[count++]);
	need_architecture(f, &n[count++]);
	need_driver(e, &n[count++]);
	need_keys(e, &n[count++]);
	need_nvidia_fs(e, &n[count++]);
	need_kernel(e, &n[count++]);
	need_p2pdma(e, &n[count++]);
	count += need_peers(e, f, &n[count]);
	return count;
}

unsigned hr_software_ssd(const struct hr_topology *e, int32_t ssd, struct hr_need *n)
{
	const struct hr_fn *f = &e->m->fn[ssd];

	need_single_path(e, &n[0]);
	need_plain_disk(f, &n[1]);
	need_fs(f, &n[2]);
	return 3;
}

bool hr_software_known(const struct hr_system *sys)
{
	return sys->nvidia[0] || sys->nvidia_keys[0] || sys->multipath.source;
}

enum hr_met hr_cufile_p2pdma(const struct hr_topology *e, int32_t gpu, int32_t ssd,
			     struct hr_need *missing)
{
	struct hr_need rows[2 * HR_NEEDS_MAX];
	unsigned n;
	enum hr_met met = HR_YES;

	if (!is_nvidia(&e->m->fn[gpu]) || !hr_software_known(&e->m->sys))
		return HR_UNSURE;
	n = hr_software_gpu(e, gpu, rows);
	n += hr_software_ssd(e, ssd, rows + n);
	for (unsigned i = 0; i < n; i++) {
		if (rows[i].met != HR_NO || strcmp(rows[i].what, "nvidia-fs") == 0)
			continue;
		*missing = rows[i];
		return HR_NO;
	}
	for (unsigned i = 0; i < n; i++)
		if (rows[i].met == HR_UNSURE &&
		    (strcmp(rows[i].what, "driver") == 0 || strcmp(rows[i].what, "kernel") == 0 ||
		     strcmp(rows[i].what, "nvme multipath") == 0))
			met = HR_UNSURE;
	return met;
}
