/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/rules/guest.h"

#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/rules/rules.h"
#include "pci/topo/tables.h"

/* Names in captures without numbers. `head`: the name of the vendor, or its begin. */
static const struct {
	enum hr_device_kind kind;
	const char *head, *part;
} names[] = {
	{ HR_DEV_EMULATED_BUS, "Red Hat, Inc.", "Virtio" },
	{ HR_DEV_EMULATED, "Red Hat, Inc.", "" },
	{ HR_DEV_EMULATED, "VMware", "" },
	{ HR_DEV_EMULATED, "InnoTek Systemberatung", "" },
	{ HR_DEV_EMULATED, "XenSource", "" },
	{ HR_DEV_EMULATED, "Parallels", "" },
	{ HR_DEV_EMULATED, "Microsoft Corporation", "Hyper-V" },
	{ HR_DEV_OLD_CHIPSET, "Intel Corporation", "82441FX" },
	{ HR_DEV_OLD_CHIPSET, "Intel Corporation", "82443BX" },
	{ HR_DEV_OLD_CHIPSET, "Intel Corporation", "82371SB" },
	{ HR_DEV_OLD_CHIPSET, "Intel Corporation", "82371AB" },
	{ HR_DEV_ICH9_HOST, "Intel Corporation", "82G33/G31/P35/P31 Express DRAM Controller" },
	{ HR_DEV_LIKE_REAL, "Texas Instruments", "XIO3130" },
};

/* A title of lspci is "Class: Vendor Device". The first row that matches decides. */
static bool is_named(const struct hr_fn *f, enum hr_device_kind kind)
{
	const char *colon = strstr(f->name, ": ");
	const char *vendor = colon ? colon + 2 : f->name;

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(vendor, names[i].head, strlen(names[i].head)) == 0 &&
		    strstr(vendor, names[i].part))
			return names[i].kind == kind;
	return false;
}

static bool is_device_kind(const struct hr_fn *f, enum hr_device_kind kind)
{
	return hr_known(f, HR_F_DEVICE)
		       ? hr_device_is(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0), kind)
		       : is_named(f, kind);
}

static bool on_root_bus(const struct hr_fn *f)
{
	return f->parent == HR_NO_FN && !f->orphan;
}

/*
 * An NVMe drive, or an NVIDIA GPU of 2012 or later, without a number one that has no display.
 * Neither is part of a chipset.
 */
static bool is_modern_card(const struct hr_fn *f)
{
	const bool headless = hr_get(f, HR_F_CLASS, 0) >> 8 == 0x0302;

	return hr_is_nvme(f) || (hr_get(f, HR_F_VENDOR, 0) == 0x10de && hr_is_gpu(f) &&
				 hr_get(f, HR_F_DEVICE, headless ? 0xffff : 0) >= 0x0fc0);
}

/*
 * Such a card on bus 0, of which a source without its capabilities does not show that it is an
 * Express endpoint. Hyper-V shows each card so, in a domain of its own.
 */
static bool lacks_port(const struct hr_fn *f)
{
	return on_root_bus(f) && f->bus == 0 && !f->placed && !hr_known(f, HR_F_PORT) &&
	       f->fact[HR_F_CLASS].source >= HR_SRC_TEXT && is_modern_card(f);
}

/* A sign of its own. */
static bool is_emulated(const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_EMULATED) || lacks_port(f) ||
	       (on_root_bus(f) && is_device_kind(f, HR_DEV_EMULATED_BUS));
}

/* A card of PCI Express. */
static bool is_express_card(const struct hr_fn *f)
{
	const uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_RC_ENDPOINT);

	return is_modern_card(f) || port == HR_PORT_ENDPOINT || port == HR_PORT_LEGACY;
}

/* What the machine has beside emulated functions. */
struct signs {
	int32_t emulated, old_chipset, ich9, like_real;
	bool express; /* a card of PCI Express */
	bool foreign; /* beside the chipset of 2007: a port or card that cannot be on its root bus */
};

static void note_sign(int32_t *first, const struct hr_fn *f, const struct hr_model *m, bool sign)
{
	if (sign && *first == HR_NO_FN)
		*first = (int32_t)(f - m->fn);
}

static void collect_signs(const struct hr_model *m, const struct hr_fn *f, struct signs *s)
{
	/* A bridge says more than another function. */
	if (is_emulated(f) && (s->emulated == HR_NO_FN || !hr_is_bridge(&m->fn[s->emulated])))
		s->emulated = s->emulated == HR_NO_FN || hr_is_bridge(f) ? (int32_t)(f - m->fn)
									 : s->emulated;
	note_sign(&s->old_chipset, f, m, on_root_bus(f) && is_device_kind(f, HR_DEV_OLD_CHIPSET));
	note_sign(&s->ich9, f, m, on_root_bus(f) && is_device_kind(f, HR_DEV_ICH9_HOST));
	note_sign(&s->like_real, f, m, is_device_kind(f, HR_DEV_LIKE_REAL));
	s->express |= is_express_card(f);
	s->foreign |=
		on_root_bus(f) && (is_device_kind(f, HR_DEV_LIKE_REAL) || is_express_card(f) ||
				   (hr_is_bridge(f) && hr_get(f, HR_F_VENDOR, 0x8086) != 0x8086));
}

void hr_guest_find(struct hr_topology *e)
{
	const struct hr_model *m = e->m;
	struct signs s = { HR_NO_FN, HR_NO_FN, HR_NO_FN, HR_NO_FN, false, false };

	e->emulated = HR_NO_FN;
	for (uint32_t i = 0; i < m->count && e->opt.vm == HR_VM_ALL; i++)
		collect_signs(m, &m->fn[i], &s);
	if (s.emulated != HR_NO_FN)
		e->emulated = s.emulated;
	else if (s.old_chipset != HR_NO_FN && s.express)
		e->emulated = s.old_chipset;
	else if (s.ich9 != HR_NO_FN && (s.foreign || s.like_real != HR_NO_FN))
		e->emulated = s.ich9;
	e->guest = e->emulated != HR_NO_FN || hr_sys_hypervisor(e, NULL);
}

bool hr_guest_rule(const struct hr_rule *r)
{
	if (r->scope & HR_ON_PAIR)
		return r->on_pair == hr_pair_silent || r->on_pair == hr_pair_vfio_kept_out ||
		       r->on_pair == hr_pair_no_cufile || r->on_pair == hr_pair_order;
	return r->modifier != HR_MOD_LINK && r->on_fn != hr_fn_idle;
}
