/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's verdict: calc_map_type_and_dist() of drivers/pci/p2pdma.c, step by step. The GPU is
 * the provider (its memory is the target), the SSD is the client.
 */
#include "pci/topo/rules/rules.h"

#include <errno.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"

static bool is_kind(const struct hr_fn *f, enum hr_device_kind kind)
{
	return hr_device_is(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0), kind);
}

/*
 * True for the first function of a root bus of an AMD CPU, or of its chipset, whose family is not
 * known.
 */
static bool is_some_amd(const struct hr_fn *f)
{
	return hr_get(f, HR_F_VENDOR, 0) == 0x1022 && !is_kind(f, HR_DEV_OLD_HOST) &&
	       !hr_name_unlisted(0x1022, f->name);
}

/*
 * True for a part of an AMD CPU of family 17h or later. Only these have eight functions at 00:18,
 * their data fabric; earlier ones have at most six there.
 */
static bool is_zen_part(const struct hr_fn *f)
{
	if (hr_get(f, HR_F_VENDOR, 0) != 0x1022)
		return false;
	return is_kind(f, HR_DEV_ZEN_HOST) || is_kind(f, HR_DEV_ZEN_PART) ||
	       (f->bus == 0 && f->dev == 0x18 && f->fn >= 6 && hr_known(f, HR_F_DEVICE) &&
		!is_kind(f, HR_DEV_OLD_HOST));
}

void hr_cpu_find(struct hr_topology *e)
{
	const struct hr_system *sys = &e->m->sys;

	if (sys->amd.source) {
		e->zen = sys->amd.value && (!sys->family.source || sys->family.value >= 0x17);
		return;
	}
	for (uint32_t i = 0; i < e->m->count && !e->zen; i++)
		e->zen = is_zen_part(&e->m->fn[i]);
	e->zen_inferred = e->zen;
	for (uint32_t i = 0; i < e->m->root_buses && !e->zen; i++)
		e->maybe_zen |= is_some_amd(&e->m->fn[e->m->root_bus[i].first]);
}

static uint32_t kernel_version(const struct hr_topology *e)
{
	return e->opt.kernel ? e->opt.kernel : ~0u;
}

static bool is_00_0(const struct hr_fn *f)
{
	return f->dev == 0 && f->fn == 0;
}

/*
 * True for a root port. The port type is not readable without root and not in XML, but a PCI bridge
 * on a root bus is nearly always a root port. A readable list without an Express capability is that
 * of a conventional bridge.
 */
static bool is_root_port(const struct hr_fn *f)
{
	if (hr_known(f, HR_F_PORT))
		return hr_get(f, HR_F_PORT, 0) == HR_PORT_ROOT;
	return hr_is_bridge(f) && hr_get(f, HR_F_CAPS, 0) != 1;
}

/* pci_host_bridge_dev(): the first function of the root bus, if it is 00.0 or a root port. */
static const struct hr_fn *host_bridge_dev(const struct hr_topology *e, int32_t root)
{
	const struct hr_fn *f = &e->m->fn[e->m->root_bus[root].first];

	return is_00_0(f) || is_root_port(f) ? f : NULL;
}

/*
 * True when the root bus may have a function before the first one of the capture: XML omits host
 * bridges and other functions; an lspci capture whose bus 0 does not begin at 00.0 is a part.
 */
static bool may_lack_first(const struct hr_topology *e, const struct hr_fn *f)
{
	if (is_00_0(f))
		return false;
	if (f->fact[HR_F_CLASS].source == HR_SRC_XML)
		return true;
	if (!f->line)
		return false;
	return f->bus == 0 || hr_model_find(e->m, f->domain, 0, 0, 0) == HR_NO_FN ||
	       is_kind(f, HR_DEV_HIDDEN_FIRST);
}

/* True when the CPU is stated, and the kernel lists no host bridge that it can have. */
static bool is_old_amd(const struct hr_topology *e)
{
	const struct hr_system *sys = &e->m->sys;

	return sys->amd.source && sys->amd.value && sys->family.source && !e->zen;
}

/*
 * True when the capture does not identify the host bridge. A title without numbers identifies it
 * only when its name is in the table.
 */
static bool root_is_unread(const struct hr_topology *e, int32_t root)
{
	const struct hr_fn *f = &e->m->fn[e->m->root_bus[root].first];
	const uint32_t vendor = hr_get(f, HR_F_VENDOR, 0);

	if (e->maybe_zen && kernel_version(e) >= HR_KERNEL_ZEN)
		return true;
	if (is_old_amd(e))
		return false;
	if (may_lack_first(e, f) || !hr_known(f, HR_F_VENDOR))
		return true;
	if (!is_00_0(f) && hr_known(f, HR_F_CLASS) && !is_root_port(f))
		return false;
	return !hr_known(f, HR_F_DEVICE) && hr_vendor_is_listed(vendor) &&
	       !hr_name_unlisted(vendor, f->name);
}

int hr_hosts_list(struct hr_topology *e, struct hr_model *m)
{
	e->listed = hr_model_alloc(m, m->root_buses);
	e->root_unread = hr_model_alloc(m, m->root_buses);
	if (!e->listed || !e->root_unread)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->root_buses; i++) {
		const struct hr_fn *root = host_bridge_dev(e, (int32_t)i);
		const struct hr_listed *row =
			root ? hr_listed_find(hr_get(root, HR_F_VENDOR, 0),
					      hr_get(root, HR_F_DEVICE, 0), kernel_version(e))
			     : NULL;

		e->listed[i] = (uint8_t)(!row ? 0 : row->same_root ? 1 : 2);
		e->root_unread[i] = !row && root_is_unread(e, (int32_t)i);
	}
	return 0;
}

bool hr_root_listed(const struct hr_topology *e, int32_t a, int32_t b)
{
	if (kernel_version(e) < HR_KERNEL_FIRST_RC)
		return false;
	if (e->zen && kernel_version(e) >= HR_KERNEL_ZEN)
		return true;
	if (a == b)
		return e->listed[a] >= 1;
	return e->listed[a] == 2 && e->listed[b] == 2;
}

bool hr_root_unread(const struct hr_topology *e, int32_t a, int32_t b)
{
	if (kernel_version(e) < HR_KERNEL_FIRST_RC || hr_root_listed(e, a, b))
		return false;
	return (e->root_unread[a] || e->root_unread[b]) &&
	       (e->root_unread[a] || e->listed[a] == 2) && (e->root_unread[b] || e->listed[b] == 2);
}

/* One byte per function keeps the walks of many pairs within one array. */
uint8_t hr_walk_flags(const struct hr_topology *e, int32_t fn)
{
	const struct hr_derived *d = &e->derived[fn];
	const struct hr_fn *f = &e->m->fn[fn];
	bool counts = hr_acs_counts(e, f);

	return (uint8_t)((counts && d->redirect ? HR_WALK_REDIRECT : 0) |
			 (d->kernel_redirect ? HR_WALK_KERNEL_REDIRECT : 0) |
			 (d->acs_unknown ? HR_WALK_UNREAD : 0) |
			 (counts && d->boot_redirect ? HR_WALK_BOOT_REDIRECT : 0) |
			 (d->acs_assumed ? HR_WALK_ASSUMED : 0) |
			 (d->acs_unknown && hr_is_bridge(f) ? HR_WALK_UNREAD_PORT : 0));
}

static void set_walk_flags(struct hr_pair *p, unsigned flags)
{
	p->any_redirect = flags & HR_WALK_REDIRECT;
	p->kernel_redirect = flags & HR_WALK_KERNEL_REDIRECT;
	p->unread_redirect = flags & HR_WALK_UNREAD;
	p->boot_redirect = flags & HR_WALK_BOOT_REDIRECT;
	p->acs_assumed = flags & HR_WALK_ASSUMED;
	p->unread_port = flags & HR_WALK_UNREAD_PORT;
}

/* Walk up from both functions to the common bridge, whose ACS counts, too. */
static void walk(const struct hr_topology *e, struct hr_pair *p)
{
	const struct hr_step *fn = e->step;
	int32_t a = p->gpu, b = p->ssd, a_under = a, b_under = b;
	unsigned flags = 0;

	while (a != b && (a != HR_NO_FN || b != HR_NO_FN)) {
		if (b == HR_NO_FN || (a != HR_NO_FN && fn[a].depth >= fn[b].depth)) {
			flags |= fn[a].flags;
			a_under = a;
			a = fn[a].parent;
		} else {
			flags |= fn[b].flags;
			b_under = b;
			b = fn[b].parent;
		}
		p->distance++;
	}
	p->common = a;
	p->gpu_child = a_under;
	p->ssd_child = b_under;
	if (a != HR_NO_FN)
		flags |= fn[a].flags;
	set_walk_flags(p, flags);
}

void hr_pair_evaluate_kernel(const struct hr_topology *e, struct hr_pair *p)
{
	const struct hr_derived *gpu = &e->derived[p->gpu], *ssd = &e->derived[p->ssd];
	bool through_host;

	p->distance = 0;
	walk(e, p);
	p->cut = p->common == HR_NO_FN && (gpu->orphan || ssd->orphan);
	p->same_root = gpu->root_bus == ssd->root_bus;
	p->listed = hr_root_listed(e, gpu->root_bus, ssd->root_bus);
	p->root_unread = hr_root_unread(e, gpu->root_bus, ssd->root_bus);
	through_host = p->common == HR_NO_FN || p->kernel_redirect;
	if (through_host && kernel_version(e) < HR_KERNEL_FIRST_RC)
		p->kernel = HR_KERNEL_NOT_SUPPORTED;
	else if (through_host && p->root_unread)
		p->kernel = HR_KERNEL_UNKNOWN;
	else if (through_host)
		p->kernel = p->listed ? HR_KERNEL_THRU_HOST : HR_KERNEL_NOT_SUPPORTED;
	else
		p->kernel = p->unread_redirect ? HR_KERNEL_UNKNOWN : HR_KERNEL_BUS_ADDR;
	if (p->cut)
		p->kernel = HR_KERNEL_UNKNOWN;
}
