/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of Linux about one PCI function (pci/topo/log/kernel_log.h): identifiers, BARs, windows,
 * buses, payload, links, IOMMU group. Sources: drivers/pci/probe.c, setup-bus.c, setup-res.c, pci.c
 * and drivers/iommu/iommu.c of several releases.
 */
#include "pci/topo/log/kernel_log.h"

#include <stdlib.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "config/base/text.h"

#define LOG HR_SRC_LOG

static bool begins_with(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* Parse the number after the prefix; the text behind it, or NULL. */
static const char *number_after(const char *text, const char *before, int base, uint64_t max,
				uint64_t *value)
{
	const char *at = begins_with(text, before) ? text + strlen(before) : NULL;

	while (at && *at == ' ')
		at++;
	return at && hr_number_parse(at, base, max, &at, value) ? at : NULL;
}

/* ---- ranges of addresses */

struct range {
	uint64_t base, limit;
	bool io, wide, prefetch, placed;
};

/* The kernel has taken the address away, or could not give one. */
static bool is_unplaced(const char *text)
{
	static const char *const words[] = {
		"releasing", "no space",	 "failed",	"can't",	"error",
		"conflict",  "no initial claim", "not claimed", "no compatible"
	};

	for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

/*
 * "[mem 0xe0000000-0xefffffff 64bit pref]", "[mem size 0x1000 64bit]", and of 2.6.30 "64bit mmio
 * pref: [0xe0000000-0xefffffff]". False: another text.
 */
static bool range_in(const char *text, struct range *r)
{
	const char *at = strchr(text, '['), *end;
	bool size = false;
	uint64_t first, last;

	if (!at)
		return false;
	*r = (struct range){ .io = begins_with(at, "[io") || strstr(text, "io port") != NULL };
	r->wide = strstr(text, "64bit") != NULL;
	r->prefetch = strstr(text, "pref") != NULL;
	at++;
	at += begins_with(at, "mem") ? 3 : begins_with(at, "io") ? 2 : 0;
	at += strspn(at, " ");
	if (begins_with(at, "size ")) {
		size = true;
		at += 5;
	}
	if (!begins_with(at, "0x") || !hr_number_parse(at, 16, UINT64_MAX, &end, &first))
		return false;
	if (size) {
		r->limit = first ? first - 1 : 0;
		return first != 0;
	}
	if (*end != '-' || !hr_number_parse(end + 1, 16, UINT64_MAX, &end, &last))
		return false;
	r->base = first;
	r->limit = last;
	r->placed = first != 0 && !is_unplaced(text);
	return true;
}

static void set_bar(struct hr_fn *f, uint64_t index, const struct range *r)
{
	struct hr_bar *bar = index < HR_BARS_MAX ? &f->bar[index] : NULL;

	if (!bar || r->io || r->limit < r->base)
		return;
	bar->base = r->placed ? r->base : 0;
	bar->size = r->limit - r->base + 1;
	bar->source = bar->size_source = LOG;
	bar->flags =
		(uint8_t)(HR_BAR_MEM | (r->wide ? HR_BAR_64 : 0) | (r->prefetch ? HR_BAR_PREF : 0) |
			  (r->placed ? 0 : HR_BAR_UNASSIGNED));
}

static void set_window(struct hr_window *w, const struct range *r)
{
	if (r->io)
		return;
	*w = r->placed && r->base <= r->limit ? (struct hr_window){ r->base, r->limit, LOG }
					      : (struct hr_window){ 1, 0, LOG };
}

/* Windows have the resource numbers 8 and 9, or 14 and 15 in kernels with SR-IOV. */
static void on_bar(struct hr_fn *f, const char *text)
{
	const char *at = begins_with(text, "can't claim ") ? text + 12 : text;
	struct range r;
	uint64_t index;

	at = number_after(at, "BAR ", 10, 15, &index);
	if (!at || !range_in(text, &r))
		return;
	if (index < HR_BARS_MAX)
		set_bar(f, index, &r);
	else if (hr_get(f, HR_F_HEADER, 0) & 1 && (index == 8 || index == 14))
		set_window(&f->mem, &r);
	else if (hr_get(f, HR_F_HEADER, 0) & 1 && (index == 9 || index == 15))
		set_window(&f->pref, &r);
}

/* "reg 0x10: [mem ...]", "reg 10: [mem ...]", "reg 18 64bit mmio: [0x...-0x...]" */
static void on_register(struct hr_fn *f, const char *text)
{
	struct range r;
	uint64_t offset;

	if (number_after(text, "reg ", 16, 0xfff, &offset) && offset >= HR_CFG_BAR0 &&
	    offset % 4 == 0 && range_in(text, &r))
		set_bar(f, (offset - HR_CFG_BAR0) / 4, &r);
}

/* A requirement "... to [bus 01] add_size 200000" states no window. */
static void on_window(struct hr_fn *f, const char *text)
{
	struct range r;

	if (strstr(text, " to [bus") || !range_in(text, &r))
		return;
	hr_fn_set(f, HR_F_HEADER, hr_get(f, HR_F_HEADER, 0) | 1, LOG);
	set_window(r.prefetch ? &f->pref : &f->mem, &r);
}

/* "PCI bridge to [bus 61-62]", "PCI bridge to [bus 61]" */
static void on_bridge(struct hr_fn *f, const char *text)
{
	uint64_t first, last;
	const char *at = number_after(text, "PCI bridge to [bus ", 16, 0xff, &first);

	if (!at)
		return;
	last = first;
	if (*at == '-' && !hr_number_parse(at + 1, 16, 0xff, &at, &last))
		return;
	hr_fn_set(f, HR_F_HEADER, hr_get(f, HR_F_HEADER, 0) | 1, LOG);
	hr_fn_set(f, HR_F_PRIMARY, f->bus, LOG);
	hr_fn_set(f, HR_F_SECONDARY, (uint32_t)first, LOG);
	hr_fn_set(f, HR_F_SUBORDINATE, (uint32_t)last, LOG);
}

/* ---- identifiers */

/* The port type, which Linux prints since 6.9. */
static void port_type(struct hr_fn *f, const char *text)
{
	static const struct {
		const char *name;
		uint32_t type;
	} types[] = { { "PCIe Endpoint", HR_PORT_ENDPOINT },
		      { "PCIe Legacy Endpoint", HR_PORT_LEGACY },
		      { "PCIe Root Port", HR_PORT_ROOT },
		      { "PCIe Upstream Switch Port", HR_PORT_UPSTREAM },
		      { "PCIe Downstream Switch Port", HR_PORT_DOWNSTREAM },
		      { "PCIe to PCI/PCI-X bridge", HR_PORT_TO_PCI },
		      { "PCI/PCI-X to PCIe bridge", HR_PORT_FROM_PCI },
		      { "PCIe Root Complex Integrated Endpoint", HR_PORT_RC_ENDPOINT },
		      { "PCIe Root Complex Event Collector", HR_PORT_RC_EVENTS } };

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
		if (begins_with(text, types[i].name))
			hr_fn_set(f, HR_F_PORT, types[i].type, LOG);
	if (begins_with(text, "conventional PCI"))
		hr_fn_set(f, HR_F_EXP, 0, LOG);
}

/*
 * "[1022:14aa] type 01 class 0x060400 PCIe Root Port". Until 3.3 the class has 16 bits: "[8086:3408]
 * type 1 class 0x000604".
 */
static void on_identifiers(struct hr_fn *f, const char *text)
{
	uint64_t vendor, device, type, class;
	const char *at = number_after(text, "[", 16, 0xffff, &vendor);
	bool old;

	at = at ? number_after(at, ":", 16, 0xffff, &device) : NULL;
	at = at ? number_after(at, "] type ", 16, 0x7f, &type) : NULL;
	old = at && at[-2] == ' ';
	at = at ? number_after(at, " class ", 16, 0xffffff, &class) : NULL;
	if (!at || vendor == 0xffff)
		return;
	hr_fn_set(f, HR_F_VENDOR, (uint32_t)vendor, LOG);
	hr_fn_set(f, HR_F_DEVICE, (uint32_t)device, LOG);
	hr_fn_set(f, HR_F_HEADER, (uint32_t)type, LOG);
	hr_fn_set(f, HR_F_CLASS, (uint32_t)(old && class <= 0xffff ? class << 8 : class), LOG);
	port_type(f, at + strspn(at, " "));
}

/* ---- payload, links, groups */

/* "Max Payload Size set to 256 (was 128, max 512)", or "256/ 512 (was 128), Max Read Rq 512" */
static void on_payload(struct hr_fn *f, const char *text)
{
	uint64_t now, was, max = 0, read = 0;
	const char *at = number_after(text, "Max Payload Size set to ", 10, 4096, &now), *rest;

	if (!at || now < 128)
		return;
	hr_fn_set(f, HR_F_MPS, (uint32_t)now, LOG);
	rest = number_after(at, " (was ", 10, 4096, &was);
	rest = rest ? number_after(rest, ", max ", 10, 4096, &max)
		    : number_after(at, "/", 10, 4096, &max);
	if (rest && max >= now)
		hr_fn_set(f, HR_F_MPSS, (uint32_t)max, LOG);
	rest = strstr(at, "Max Read Rq ");
	if (rest && number_after(rest, "Max Read Rq ", 10, 4096, &read) && read >= 128)
		hr_fn_set(f, HR_F_MRRS, (uint32_t)read, LOG);
}

static void on_group(struct hr_fn *f, const char *text)
{
	uint64_t group;

	if (number_after(text, "Adding to iommu group ", 10, UINT32_MAX, &group))
		hr_fn_set(f, HR_F_GROUP, (uint32_t)group, LOG);
}

static void on_direct_mapping(struct hr_fn *f, const char *text)
{
	hr_fn_set(f, HR_F_GROUP_TYPE, HR_IOMMU_PT, LOG);
}

void hr_kernel_log_function(struct hr_fn *f, const char *text)
{
	static const struct {
		const char *start;
		void (*read)(struct hr_fn *f, const char *text);
	} lines[] = { { "BAR ", on_bar },
		      { "can't claim BAR ", on_bar },
		      { "reg ", on_register },
		      { "bridge window [", on_window },
		      { "PCI bridge to [bus ", on_bridge },
		      { "[", on_identifiers },
		      { "Max Payload Size set to ", on_payload },
		      { "Adding to iommu group ", on_group },
		      { "Using iommu direct mapping", on_direct_mapping },
		      { "DMAR: Device uses a private identity domain", on_direct_mapping } };

	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
		if (begins_with(text, lines[i].start)) {
			lines[i].read(f, text);
			return;
		}
}

/* "8.0 GT/s PCIe x4 link" as codes of speed and width; the text behind it, or NULL. */
static const char *link_rate(const char *text, uint32_t *speed, uint32_t *width)
{
	static const char *const speeds[] = { "2.5 ", "5.0 ", "8.0 ", "16.0 ", "32.0 ", "64.0 " };
	const char *at = strstr(text, " GT/s");
	uint64_t lanes;

	*speed = 0;
	for (uint32_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
		if (begins_with(text, speeds[i]))
			*speed = i + 1;
	if (!*speed || !at || at - text > 6)
		return NULL;
	at += 5;
	at += begins_with(at, " PCIe") ? 5 : 0;
	at = number_after(at, " x", 10, 32, &lanes);
	*width = at ? (uint32_t)lanes : 0;
	return at;
}

static void set_link(struct hr_fn *f, enum hr_fact_id speed_id, uint32_t speed,
		     enum hr_fact_id width_id, uint32_t width)
{
	hr_fn_set(f, speed_id, speed, LOG);
	hr_fn_set(f, width_id, width, LOG);
}

void hr_kernel_log_link(struct hr_kernel_log *l, struct hr_fn *f, const char *text)
{
	static const char limited[] = "limited by ", able[] = " with ";
	uint32_t speed, width;
	const char *at = strstr(text, limited), *cap = strstr(text, "(capable of ");
	struct hr_fn *port;
	size_t used;

	if (!at) {
		at = strstr(text, "bandwidth (");
		if (at && link_rate(at + 11, &speed, &width)) {
			set_link(f, HR_F_SPEED_MAX, speed, HR_F_WIDTH_MAX, width);
			set_link(f, HR_F_SPEED, speed, HR_F_WIDTH, width);
		}
		return;
	}
	cap = cap ? strstr(cap, able) : NULL;
	at = link_rate(at + sizeof limited - 1, &speed, &width);
	if (at && begins_with(at, " link at ") && (port = hr_kernel_log_at(l, at + 9, &used)))
		set_link(port, HR_F_SPEED, speed, HR_F_WIDTH, width);
	if (cap && link_rate(cap + sizeof able - 1, &speed, &width))
		set_link(f, HR_F_SPEED_MAX, speed, HR_F_WIDTH_MAX, width);
}
