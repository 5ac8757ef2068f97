/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/rules/offset.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/tables.h"

#define ADDRESS_END (1ull << 62) /* so that differences of addresses fit into int64_t */

/* lspci and sysfs show the addresses of the kernel's resources, which are CPU addresses. */
static bool is_cpu_address(const struct hr_bar *bar)
{
	return (bar->source == HR_SRC_TEXT || bar->source == HR_SRC_SYSFS) &&
	       bar->flags & HR_BAR_MEM && !(bar->flags & HR_BAR_UNASSIGNED) && bar->base;
}

static uint64_t last_of(const struct hr_bar *bar)
{
	return bar->size_source > HR_SRC_INFERRED && bar->size ? bar->base + bar->size - 1
							       : bar->base;
}

static bool is_open(const struct hr_window *w)
{
	return w->source && w->base <= w->limit && w->limit < ADDRESS_END;
}

static bool has_windows(const struct hr_fn *bridge)
{
	return bridge->mem.source && bridge->pref.source;
}

/* True when the range is inside the windows of each bridge above, as far as they are known. */
static bool fits(const struct hr_model *m, const struct hr_fn *f, uint64_t base, uint64_t last)
{
	for (int32_t up = f->parent; up != HR_NO_FN; up = m->fn[up].parent)
		if (has_windows(&m->fn[up]) && !hr_window_holds(&m->fn[up].mem, base, last) &&
		    !hr_window_holds(&m->fn[up].pref, base, last))
			return false;
	return true;
}

/*
 * The window of a bridge in which Linux places a BAR: a prefetchable one below a prefetchable
 * window, but a 32-bit BAR only when that window is below 4 GiB.
 */
static enum hr_window_class class_of(const struct hr_fn *bridge, const struct hr_bar *bar)
{
	return bar->flags & HR_BAR_PREF && is_open(&bridge->pref) &&
			       (bar->flags & HR_BAR_64 || bridge->pref.limit <= UINT32_MAX)
		       ? HR_WINDOW_PREF
		       : HR_WINDOW_MEM;
}

/* Lowest bridge above with known windows; NULL: none. */
static const struct hr_fn *nearest(const struct hr_model *m, const struct hr_fn *f)
{
	int32_t up = f->parent;

	while (up != HR_NO_FN && !has_windows(&m->fn[up]))
		up = m->fn[up].parent;
	return up == HR_NO_FN ? NULL : &m->fn[up];
}

/* Restrict the constants to those that move the range into the window; false: none is left. */
static bool restrict_to(struct hr_offset *o, const struct hr_window *w, uint64_t base,
			uint64_t last)
{
	int64_t low, high;

	if (!is_open(w) || last >= ADDRESS_END || last - base > w->limit - w->base)
		return false;
	low = (int64_t)last - (int64_t)w->limit;
	high = (int64_t)base - (int64_t)w->base;
	o->low = low > o->low ? low : o->low;
	o->high = high < o->high ? high : o->high;
	return o->low <= o->high;
}

static void vote_moved(const struct hr_model *m, const struct hr_fn *f, const struct hr_bar *bar,
		       struct hr_offset *o)
{
	for (int32_t up = f->parent; up != HR_NO_FN && !o->contradicts; up = m->fn[up].parent) {
		const struct hr_fn *bridge = &m->fn[up];
		const bool pref = class_of(bridge, bar) == HR_WINDOW_PREF;

		if (has_windows(bridge))
			o->contradicts = !restrict_to(o, pref ? &bridge->pref : &bridge->mem,
						      bar->base, last_of(bar));
	}
}

static void vote(struct hr_topology *e, const struct hr_model *m, const struct hr_fn *f)
{
	const struct hr_fn *bridge = nearest(m, f);
	bool moved[HR_WINDOW_CLASSES] = { false };

	if (!bridge || f->readdressed)
		return;
	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		const struct hr_bar *bar = &f->bar[i];
		struct hr_offset *o = &e->offset[f->root_bus * HR_WINDOW_CLASSES];
		enum hr_window_class class = class_of(bridge, bar);

		if (!is_cpu_address(bar))
			continue;
		if (fits(m, f, bar->base, last_of(bar))) {
			o[class].fits = true;
			continue;
		}
		o[class].moved += !moved[class];
		moved[class] = true;
		vote_moved(m, f, bar, &o[class]);
	}
}

/* The number in low to high that is the multiple of the largest power of 2. */
static int64_t roundest(int64_t low, int64_t high)
{
	for (int shift = 61; shift > 0; shift--) {
		const int64_t unit = (int64_t)1 << shift;
		const int64_t up = low % unit > 0 ? low + (unit - low % unit) : low - low % unit;

		if (up >= low && up <= high)
			return up;
	}
	return low;
}

/*
 * One function alone fits into any window of sufficient size, so it is a proof only on a host that
 * is known to be of a kind that has such constants.
 */
static void decide_offset(struct hr_offset *o, bool x86, bool known)
{
	if (!o->moved || x86 || o->fits)
		return;
	o->state = HR_OFFSET_UNKNOWN;
	if (o->contradicts || (o->moved < 2 && !known))
		return;
	o->state = HR_OFFSET_KNOWN;
	o->value = roundest(o->low, o->high);
}

/* Names of such hosts, for captures without numbers. */
static bool is_named(const struct hr_fn *f)
{
	static const char *const names[] = { "IBM POWER", "subsidiaries BCM2", "Rockchip",
					     "HiSilicon", "Freescale",	       "NXP Semi",
					     "Tegra",	  "Ampere Computing",  "Cavium",
					     "X-Gene",	  "Annapurna",	       "Qualcomm" };

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (strstr(f->name, names[i]))
			return true;
	return false;
}

static bool is_device_kind(const struct hr_fn *f, enum hr_device_kind kind)
{
	const uint32_t vendor = hr_get(f, HR_F_VENDOR, 0), device = hr_get(f, HR_F_DEVICE, 0);

	if (kind == HR_DEV_OTHER_HOST && !hr_known(f, HR_F_DEVICE))
		return is_named(f);
	return hr_device_is(vendor, device, kind);
}

/* A host bridge or root port of that kind is on a root bus. */
static bool has_host(const struct hr_model *m, uint32_t root_bus, enum hr_device_kind kind)
{
	const uint32_t from = (uint32_t)m->root_bus[root_bus].first;

	for (uint32_t i = from; i < m->count && m->fn[i].domain == m->fn[from].domain &&
				m->fn[i].bus == m->fn[from].bus;
	     i++) {
		const struct hr_fn *f = &m->fn[i];

		if (f->parent == HR_NO_FN && !f->orphan &&
		    (hr_is_bridge(f) || hr_get(f, HR_F_CLASS, 0) >> 16 == 0x06) &&
		    is_device_kind(f, kind))
			return true;
	}
	return false;
}

int hr_offsets_find(struct hr_topology *e, struct hr_model *m)
{
	const uint32_t n = m->root_buses * HR_WINDOW_CLASSES;
	bool known = false;

	e->offset = hr_model_alloc(m, n * sizeof *e->offset);
	if (!e->offset)
		return -ENOMEM;
	e->x86 = m->sys.amd.source != HR_SRC_NONE; /* its vendor is one of x86 */
	for (uint32_t i = 0; i < m->root_buses; i++) {
		e->x86 |= has_host(m, i, HR_DEV_X86_HOST);
		known |= has_host(m, i, HR_DEV_OTHER_HOST);
	}
	for (uint32_t i = 0; i < n; i++)
		e->offset[i] = (struct hr_offset){ .low = INT64_MIN / 2, .high = INT64_MAX / 2 };
	for (uint32_t i = 0; i < m->count; i++)
		vote(e, m, &m->fn[i]);
	for (uint32_t i = 0; i < n; i++)
		decide_offset(&e->offset[i], e->x86, known);
	return 0;
}

struct hr_bus_range hr_bus_range(const struct hr_topology *e, const struct hr_fn *f,
				 const struct hr_bar *bar)
{
	struct hr_bus_range r = { .base = bar->base, .last = last_of(bar) };
	const struct hr_fn *bridge = nearest(e->m, f);
	const struct hr_offset *o;

	r.reach = (struct hr_span){ r.base, r.last };
	if (!bridge || !is_cpu_address(bar) || f->readdressed)
		return r;
	o = &e->offset[f->root_bus * HR_WINDOW_CLASSES + (int)class_of(bridge, bar)];
	if (o->state == HR_OFFSET_NONE || fits(e->m, f, r.base, r.last))
		return r;
	r.state = o->state;
	if (o->state == HR_OFFSET_UNKNOWN)
		return r;
	r.offset = o->value;
	r.reach.base = r.base - (uint64_t)o->high;
	r.reach.last = r.last - (uint64_t)o->low;
	r.base -= (uint64_t)o->value;
	r.last -= (uint64_t)o->value;
	return r;
}

char *hr_offset_text(int64_t offset, char *text)
{
	snprintf(text, 24, "%s0x%llx", offset < 0 ? "-" : "",
		 (unsigned long long)(offset < 0 ? -offset : offset));
	return text;
}
