/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/decode.h"

#include <string.h>

#include "pci/topo/fields.h"

struct cfg {
	struct hr_fn *f;
	const uint8_t *at;
	uint32_t bytes;
};

static bool config_has(const struct cfg *c, uint32_t offset, uint32_t width)
{
	return offset + width <= c->bytes;
}

static uint32_t get8(const struct cfg *c, uint32_t offset)
{
	return c->at[offset];
}

static uint32_t get16(const struct cfg *c, uint32_t offset)
{
	return (uint32_t)c->at[offset] | (uint32_t)c->at[offset + 1] << 8;
}

static uint32_t get32(const struct cfg *c, uint32_t offset)
{
	return get16(c, offset) | get16(c, offset + 2) << 16;
}

static void set_config_fact(const struct cfg *c, enum hr_fact_id id, uint32_t value)
{
	hr_fn_set(c->f, id, value, HR_SRC_CONFIG);
}

/* Set a fact from a register of that width, when the register was read. */
static void set8(const struct cfg *c, enum hr_fact_id id, uint32_t offset)
{
	if (config_has(c, offset, 1))
		set_config_fact(c, id, get8(c, offset));
}

static void set16(const struct cfg *c, enum hr_fact_id id, uint32_t offset)
{
	if (config_has(c, offset, 2))
		set_config_fact(c, id, get16(c, offset));
}

static void set32(const struct cfg *c, enum hr_fact_id id, uint32_t offset)
{
	if (config_has(c, offset, 4))
		set_config_fact(c, id, get32(c, offset));
}

bool hr_acs_is_wide(uint32_t vendor, uint32_t device)
{
	static const struct {
		uint16_t first, last;
	} range[] = { /* Sunrise Point and Union Point: "SPT" ACS quirk of the kernel */
		      { 0xa110, 0xa11f },
		      { 0xa167, 0xa16a },
		      { 0xa290, 0xa29f },
		      { 0xa2e7, 0xa2ee },
		      { 0x9d10, 0x9d1b }
	};

	for (unsigned i = 0; vendor == 0x8086 && i < sizeof range / sizeof *range; i++)
		if (device >= range[i].first && device <= range[i].last)
			return true;
	return false;
}

uint32_t hr_acs_ctl_offset(const struct hr_fn *f)
{
	bool wide = hr_acs_is_wide(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0));

	return hr_get(f, HR_F_ACS, 0) + (wide ? 8u : HR_ACS_CTL);
}

static void decode_bars(const struct cfg *c, uint32_t first, struct hr_bar *bars, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint32_t offset = first + 4 * i, low;
		struct hr_bar *bar = &bars[i];

		if (!config_has(c, offset, 4))
			return;
		if (bar->flags & HR_BAR_UPPER && bar->source == HR_SRC_CONFIG)
			continue;
		low = get32(c, offset);
		if (low == 0 && bar->source == HR_SRC_SYSFS && bar->flags & HR_BAR_MEM) {
			bar->base = 0; /* sysfs shows a memory BAR here */
			bar->flags |= HR_BAR_UNASSIGNED;
			continue;
		}
		bar->source = HR_SRC_CONFIG;
		if (low & 1 || low == 0) {
			/*
			 * A zero register is either a missing BAR or an unassigned one. A size from
			 * another source decides (rule R3).
			 */
			bar->flags = (uint8_t)(low == 0 ? HR_BAR_UNASSIGNED : 0);
			bar->base = 0;
			continue;
		}
		bar->flags = (uint8_t)(HR_BAR_MEM | (low & 8 ? HR_BAR_PREF : 0));
		bar->base = low & ~0xfu;
		if ((low & 6) == 4 && i + 1 < count && config_has(c, offset + 4, 4)) {
			bar->flags |= HR_BAR_64;
			bar->base |= (uint64_t)get32(c, offset + 4) << 32;
			bars[i + 1] =
				(struct hr_bar){ .flags = HR_BAR_UPPER, .source = HR_SRC_CONFIG };
		}
		if (bar->base == 0)
			bar->flags |= HR_BAR_UNASSIGNED;
	}
}

/* Firmware closes a window with base above limit, or leaves it at zero, where only RAM can be. */
static void close_unset(struct hr_window *w)
{
	if (w->base == 0)
		w->base = w->limit + 1;
}

static void decode_windows(const struct cfg *c)
{
	struct hr_window *mem = &c->f->mem, *pref = &c->f->pref;

	if (config_has(c, HR_CFG_MEM_BASE, 4)) {
		mem->base = (uint64_t)(get16(c, HR_CFG_MEM_BASE) & 0xfff0) << 16;
		mem->limit = (uint64_t)(get16(c, HR_CFG_MEM_LIMIT) & 0xfff0) << 16 | 0xfffff;
		mem->source = HR_SRC_CONFIG;
		close_unset(mem);
	}
	if (config_has(c, HR_CFG_PREF_BASE, 12)) {
		pref->base = (uint64_t)(get16(c, HR_CFG_PREF_BASE) & 0xfff0) << 16;
		pref->limit = (uint64_t)(get16(c, HR_CFG_PREF_LIMIT) & 0xfff0) << 16 | 0xfffff;
		if ((get16(c, HR_CFG_PREF_BASE) & 0xf) == 1) {
			pref->base |= (uint64_t)get32(c, HR_CFG_PREF_BASE_UPPER) << 32;
			pref->limit |= (uint64_t)get32(c, HR_CFG_PREF_LIMIT_UPPER) << 32;
		}
		pref->source = HR_SRC_CONFIG;
		close_unset(pref);
	}
}

static void decode_bridge(const struct cfg *c)
{
	set8(c, HR_F_PRIMARY, HR_CFG_PRIMARY);
	set8(c, HR_F_SECONDARY, HR_CFG_SECONDARY);
	set8(c, HR_F_SUBORDINATE, HR_CFG_SUBORDINATE);
	set16(c, HR_F_BRIDGE_CTL, HR_CFG_BRIDGE_CTL);
	decode_windows(c);
	decode_bars(c, HR_CFG_BAR0, c->f->bar, 2);
}

static void decode_link(const struct cfg *c, uint32_t cap)
{
	if (config_has(c, cap + HR_EXP_LNKCAP, 4)) {
		uint32_t lnkcap = get32(c, cap + HR_EXP_LNKCAP);

		set_config_fact(c, HR_F_SPEED_MAX, HR_FIELD_GET(lnkcap, HR_LNK_SPEED));
		set_config_fact(c, HR_F_WIDTH_MAX, HR_FIELD_GET(lnkcap, HR_LNK_WIDTH));
		set_config_fact(c, HR_F_PORT_NUMBER, lnkcap >> 24);
		set_config_fact(c, HR_F_LLACTREP, !!(lnkcap & HR_LNKCAP_LLACTREP));
	}
	if (config_has(c, cap + HR_EXP_LNKCTL, 4)) {
		uint32_t lnksta = get16(c, cap + HR_EXP_LNKSTA);

		set_config_fact(c, HR_F_ASPM,
				HR_FIELD_GET(get16(c, cap + HR_EXP_LNKCTL), HR_LNKCTL_ASPM));
		set_config_fact(c, HR_F_SPEED, HR_FIELD_GET(lnksta, HR_LNK_SPEED));
		set_config_fact(c, HR_F_WIDTH, HR_FIELD_GET(lnksta, HR_LNK_WIDTH));
		set_config_fact(c, HR_F_DLACTIVE, !!(lnksta & HR_LNKSTA_DLACTIVE));
	}
}

/* The second half of the capability exists from version 2 on; before, its features are off. */
static void decode_express2(const struct cfg *c, uint32_t cap)
{
	if ((get16(c, cap + HR_EXP_FLAGS) & 0xf) < 2) {
		set_config_fact(c, HR_F_DEVCAP2, 0);
		set_config_fact(c, HR_F_DEVCTL2, 0);
		return;
	}
	set32(c, HR_F_DEVCAP2, cap + HR_EXP_DEVCAP2);
	set16(c, HR_F_DEVCTL2, cap + HR_EXP_DEVCTL2);
	if (config_has(c, cap + HR_EXP_LNKCTL2, 2))
		set_config_fact(c, HR_F_SPEED_TARGET,
				HR_FIELD_GET(get16(c, cap + HR_EXP_LNKCTL2), HR_LNK_SPEED));
}

static void decode_slot(const struct cfg *c, uint32_t cap)
{
	bool slot = get16(c, cap + HR_EXP_FLAGS) & HR_EXP_SLOT_IMPLEMENTED;

	if (hr_is_bridge(c->f))
		set_config_fact(c, HR_F_SLOT_IMPL, slot);
	if (!slot)
		return;
	if (config_has(c, cap + HR_EXP_SLTCAP, 4))
		set_config_fact(c, HR_F_SLOT,
				HR_FIELD_GET(get32(c, cap + HR_EXP_SLTCAP), HR_SLTCAP_NUMBER));
	if (config_has(c, cap + HR_EXP_SLTSTA, 2))
		set_config_fact(c, HR_F_PRESENT, !!(get16(c, cap + HR_EXP_SLTSTA) & HR_SLTSTA_PDS));
}

static void decode_express(const struct cfg *c, uint32_t cap)
{
	set_config_fact(c, HR_F_EXP, cap);
	if (!config_has(c, cap + HR_EXP_FLAGS, 2))
		return;
	set_config_fact(c, HR_F_PORT, HR_FIELD_GET(get16(c, cap + HR_EXP_FLAGS), HR_EXP_TYPE));
	if (config_has(c, cap + HR_EXP_DEVCAP, 4))
		set_config_fact(
			c, HR_F_MPSS,
			128u << HR_FIELD_GET(get32(c, cap + HR_EXP_DEVCAP), HR_DEVCAP_MPSS));
	if (config_has(c, cap + HR_EXP_DEVCTL, 2)) {
		uint32_t devctl = get16(c, cap + HR_EXP_DEVCTL);

		set_config_fact(c, HR_F_DEVCTL, devctl);
		set_config_fact(c, HR_F_MPS, 128u << HR_FIELD_GET(devctl, HR_DEVCTL_MPS));
		set_config_fact(c, HR_F_MRRS, 128u << HR_FIELD_GET(devctl, HR_DEVCTL_MRRS));
	}
	set16(c, HR_F_DEVSTA, cap + HR_EXP_DEVSTA);
	decode_link(c, cap);
	decode_slot(c, cap);
	decode_express2(c, cap);
}

/* The BAR that an entry describes; NULL: not a BAR that peers can address. */
static struct hr_bar *ea_bar(struct hr_fn *f, uint32_t head, bool *prefetchable)
{
	uint32_t index = HR_FIELD_GET(head, HR_EA_INDEX);
	uint32_t property = HR_FIELD_GET(head, HR_EA_PROPERTY);

	if (property > HR_EA_BRIDGE_IO)
		property = HR_FIELD_GET(head, HR_EA_SECOND);
	*prefetchable = property == HR_EA_PREF || property == HR_EA_VF_PREF;
	if (index < HR_BARS_MAX && property < HR_EA_IO)
		return &f->bar[index];
	if (index >= HR_EA_VF_FIRST && index < HR_EA_VF_FIRST + HR_BARS_MAX &&
	    (property == HR_EA_VF_PREF || property == HR_EA_VF))
		return &f->vf_bar[index - HR_EA_VF_FIRST];
	return NULL;
}

static void decode_ea_entry(const struct cfg *c, uint32_t at)
{
	uint32_t head = get32(c, at), low = get32(c, at + 4), most = get32(c, at + 8),
		 next = at + 12;
	uint64_t base = low & ~3u, offset = most | 3u;
	bool prefetchable;
	struct hr_bar *bar = ea_bar(c->f, head, &prefetchable);

	if (!bar || !(head & HR_EA_ENABLE))
		return;
	if (low & HR_EA_WIDE) {
		if (!config_has(c, next, 4))
			return;
		base |= (uint64_t)get32(c, next) << 32;
		next += 4;
	}
	if (most & HR_EA_WIDE) {
		if (!config_has(c, next, 4))
			return;
		offset |= (uint64_t)get32(c, next) << 32;
	}
	*bar = (struct hr_bar){ .base = base,
				.size = offset + 1,
				.flags = (uint8_t)(HR_BAR_MEM | (low & HR_EA_WIDE ? HR_BAR_64 : 0) |
						   (prefetchable ? HR_BAR_PREF : 0)),
				.source = HR_SRC_CONFIG,
				.size_source = HR_SRC_CONFIG };
}

/*
 * Enhanced Allocation (PCIe 7.8.5): BARs at fixed addresses. Their registers read 0; this list
 * holds the addresses.
 */
static void decode_ea(const struct cfg *c, uint32_t cap)
{
	bool bridge = HR_FIELD_GET(get8(c, HR_CFG_HEADER), HR_HEADER_TYPE) == 1;
	uint32_t at = cap + (bridge ? 8u : 4u), count;

	if (!config_has(c, cap + 2, 1))
		return;
	count = HR_FIELD_GET(get8(c, cap + 2), HR_EA_COUNT);
	for (uint32_t i = 0; i < count && at + 12 <= HR_CFG_CONV && config_has(c, at, 12); i++) {
		decode_ea_entry(c, at);
		at += 4 * (HR_FIELD_GET(get32(c, at), HR_EA_DWORDS) + 1);
	}
}

/* Walk the capability list in the first 256 bytes. True when its end was reached. */
static bool decode_caps(const struct cfg *c)
{
	uint8_t seen[32] = { 0 };
	uint32_t cap = get8(c, HR_CFG_CAP_PTR) & ~3u;
	bool express = false;

	while (cap) {
		if (cap < HR_CFG_BASIC || seen[cap >> 3] & 1u << (cap & 7))
			return false;
		if (!config_has(c, cap, 2))
			return false;
		seen[cap >> 3] |= (uint8_t)(1u << (cap & 7));
		if (get8(c, cap) == 0xff)
			return false;
		if (get8(c, cap) == HR_CAP_EXP && !express) {
			decode_express(c, cap);
			express = true;
		}
		if (get8(c, cap) == HR_CAP_EA)
			decode_ea(c, cap);
		if (get8(c, cap) == HR_CAP_PM && config_has(c, cap + HR_PM_CTL, 2))
			set_config_fact(c, HR_F_PM,
					HR_FIELD_GET(get16(c, cap + HR_PM_CTL), HR_PM_STATE));
		cap = get8(c, cap + 1) & ~3u;
	}
	return true;
}

static void decode_acs(const struct cfg *c, uint32_t cap)
{
	bool wide = hr_acs_is_wide(get16(c, HR_CFG_VENDOR), get16(c, HR_CFG_DEVICE));

	set_config_fact(c, HR_F_ACS, cap);
	set16(c, HR_F_ACS_CAP, cap + HR_ACS_CAP);
	set16(c, HR_F_ACS_CTL, cap + (wide ? 8u : HR_ACS_CTL));
	if (!wide && hr_has(c->f, HR_F_ACS_CAP, HR_ACS_EC))
		set32(c, HR_F_ACS_EGRESS, cap + HR_ACS_EGRESS);
}

/* BAR sizes that the entries of Resizable BAR select (PCIe Base 7.8.6). */
static void decode_rebar(const struct cfg *c, uint32_t cap, struct hr_bar *bars)
{
	uint32_t count;

	if (!config_has(c, cap + HR_REBAR_CTL, 4))
		return;
	count = HR_FIELD_GET(get32(c, cap + HR_REBAR_CTL), HR_REBAR_COUNT);
	for (uint32_t i = 0; i < count && i < HR_BARS_MAX; i++) {
		uint32_t offset = cap + HR_REBAR_CTL + 8 * i, ctl, index, size;

		if (!config_has(c, offset, 4))
			return;
		ctl = get32(c, offset);
		index = HR_FIELD_GET(ctl, HR_REBAR_INDEX);
		size = HR_FIELD_GET(ctl, HR_REBAR_SIZE);
		if (index >= HR_BARS_MAX || size > 43)
			continue;
		bars[index].sizes = HR_FIELD_GET(get32(c, offset - HR_REBAR_CTL + HR_REBAR_CAP),
						 HR_REBAR_SIZES) |
				    (uint64_t)HR_FIELD_GET(ctl, HR_REBAR_SIZES_MORE)
					    << HR_REBAR_SIZES_COUNT;
		bars[index].sizes_source = HR_SRC_CONFIG;
		bars[index].size = 1ull << (size + 20);
		bars[index].size_source = HR_SRC_CONFIG;
	}
}

/* The function is a physical one: its capability holds the facts of its virtual functions. */
static void decode_sriov(const struct cfg *c, uint32_t cap)
{
	set_config_fact(c, HR_F_SRIOV, cap);
	set16(c, HR_F_VF_CTL, cap + HR_SRIOV_CTL);
	set16(c, HR_F_VFS, cap + HR_SRIOV_VFS);
	set16(c, HR_F_VF_OFFSET, cap + HR_SRIOV_OFFSET);
	set16(c, HR_F_VF_STRIDE, cap + HR_SRIOV_STRIDE);
	set16(c, HR_F_VF_DEVICE, cap + HR_SRIOV_DEVICE);
	decode_bars(c, cap + HR_SRIOV_BAR0, c->f->vf_bar, HR_BARS_MAX);
}

static void decode_ecap(const struct cfg *c, uint32_t id, uint32_t cap)
{
	switch (id) {
	case HR_ECAP_AER:
		set32(c, HR_F_UESTA, cap + HR_AER_UESTA);
		set32(c, HR_F_CESTA, cap + HR_AER_CESTA);
		break;
	case HR_ECAP_ACS:
		decode_acs(c, cap);
		break;
	case HR_ECAP_VENDOR:
		if (config_has(c, cap + HR_VSEC_ID, 2) && get16(c, HR_CFG_VENDOR) == 0x8086 &&
		    get16(c, cap + HR_VSEC_ID) == HR_VSEC_THUNDERBOLT)
			set_config_fact(c, HR_F_TUNNEL, 1);
		break;
	case HR_ECAP_ATS:
		set_config_fact(c, HR_F_ATS, cap);
		set16(c, HR_F_ATS_CTL, cap + HR_ATS_CTL);
		break;
	case HR_ECAP_DPC:
		set16(c, HR_F_DPC, cap + HR_DPC_STATUS);
		break;
	case HR_ECAP_REBAR:
		set_config_fact(c, HR_F_REBAR, cap);
		decode_rebar(c, cap, c->f->bar);
		break;
	case HR_ECAP_VF_REBAR:
		decode_rebar(c, cap, c->f->vf_bar);
		break;
	case HR_ECAP_SRIOV:
		decode_sriov(c, cap);
		break;
	}
}

/* Walk the extended list. 1: read to its end; 0: there is none; 2: damaged. */
static uint32_t decode_ecaps(const struct cfg *c)
{
	uint8_t seen[HR_CFG_EXTENDED / 32] = { 0 };
	uint32_t cap = HR_CFG_CONV, header = get32(c, cap);

	if (header == 0)
		return 0;
	if (header == ~0u) /* an Express function that does not answer in extended space */
		return 2;
	for (;;) {
		seen[cap >> 5] |= (uint8_t)(1u << (cap >> 2 & 7));
		decode_ecap(c, HR_FIELD_GET(header, HR_ECAP_ID), cap);
		cap = HR_FIELD_GET(header, HR_ECAP_NEXT) & ~3u;
		if (cap == 0)
			return 1;
		if (cap < HR_CFG_CONV || seen[cap >> 5] & 1u << (cap >> 2 & 7) ||
		    !config_has(c, cap, 4))
			return 2;
		header = get32(c, cap);
		if (header == ~0u)
			return 2;
	}
}

static bool from_registers(const struct hr_fn *f, enum hr_fact_id id)
{
	return f->fact[id].source >= HR_SRC_CONFIG;
}

/*
 * A list that was read completely proves the absence of other capabilities. This overrides text that
 * comes with the registers.
 */
static void settle_absent(const struct cfg *c)
{
	if (hr_get(c->f, HR_F_CAPS, 2) < 2 && !from_registers(c->f, HR_F_EXP))
		set_config_fact(c, HR_F_EXP, 0);
	if (!from_registers(c->f, HR_F_ECAPS) || hr_get(c->f, HR_F_ECAPS, 2) == 2)
		return;
	if (!from_registers(c->f, HR_F_ACS))
		set_config_fact(c, HR_F_ACS, 0);
	if (!from_registers(c->f, HR_F_ATS))
		set_config_fact(c, HR_F_ATS, 0);
}

static void decode_lists(const struct cfg *c)
{
	bool has_list = hr_has(c->f, HR_F_STATUS, HR_STATUS_CAPS);

	if (!has_list) {
		set_config_fact(c, HR_F_CAPS, 0);
		set_config_fact(c, HR_F_ECAPS, 0);
		settle_absent(c);
		return;
	}
	if (c->bytes <= HR_CFG_BASIC) {
		c->f->denied = true;
		return;
	}
	if (!decode_caps(c)) {
		set_config_fact(c, HR_F_CAPS, 2);
		return;
	}
	set_config_fact(c, HR_F_CAPS, 1);
	if (hr_get(c->f, HR_F_EXP, 0) == 0)
		set_config_fact(c, HR_F_ECAPS, 0);
	else if (config_has(c, HR_CFG_CONV, 4))
		set_config_fact(c, HR_F_ECAPS, decode_ecaps(c));
	settle_absent(c);
}

/*
 * True for a virtual function, which has neither identifiers nor BARs (PCIe Base 9.3.4.1) but the
 * rest of a header. A function that is gone reads all ones everywhere.
 */
static bool is_headless_vf(const struct cfg *c)
{
	uint32_t bars = 0;

	for (unsigned i = 0; i < HR_BARS_MAX; i++)
		bars |= get32(c, HR_CFG_BAR0 + 4 * i);
	return bars == 0 && get8(c, HR_CFG_HEADER) == 0 &&
	       !(get16(c, HR_CFG_COMMAND) & HR_COMMAND_MSE);
}

void hr_decode(struct hr_fn *f, const uint8_t *config, uint32_t bytes)
{
	struct cfg c = { f, config, bytes < HR_CFG_EXTENDED ? bytes : HR_CFG_EXTENDED };

	if (!config_has(&c, 0, HR_CFG_BASIC))
		return;
	if (get32(&c, 0) == ~0u && !is_headless_vf(&c)) {
		set_config_fact(&c, HR_F_GONE, 1);
		return;
	}
	if (hr_known(f, HR_F_GONE))
		set_config_fact(&c, HR_F_GONE, 0);
	f->vf |= get32(&c, 0) == ~0u;
	if (!f->vf) {
		set16(&c, HR_F_VENDOR, HR_CFG_VENDOR);
		set16(&c, HR_F_DEVICE, HR_CFG_DEVICE);
	}
	set16(&c, HR_F_COMMAND, HR_CFG_COMMAND);
	set16(&c, HR_F_STATUS, HR_CFG_STATUS);
	set8(&c, HR_F_REVISION, HR_CFG_REVISION);
	set_config_fact(&c, HR_F_CLASS, get32(&c, HR_CFG_REVISION) >> 8);
	set8(&c, HR_F_HEADER, HR_CFG_HEADER);
	if (hr_is_bridge(f))
		decode_bridge(&c);
	else if (!f->vf && HR_FIELD_GET(get8(&c, HR_CFG_HEADER), HR_HEADER_TYPE) == 0)
		decode_bars(&c, HR_CFG_BAR0, f->bar, HR_BARS_MAX);
	decode_lists(&c);
}
