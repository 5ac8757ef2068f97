/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/rules/groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/rules/rules.h"
#include "pci/topo/tables.h"

/* Ports that isolate without an ACS capability: pci_dev_acs_enabled[] of drivers/pci/quirks.c. */
static bool isolates_by_quirk(const struct hr_fn *f)
{
	uint32_t vendor = hr_get(f, HR_F_VENDOR, 0), device = hr_get(f, HR_F_DEVICE, 0);

	return !hr_has_acs(f) && (hr_device_is(vendor, device, HR_DEV_NO_PEER_PORT) ||
				  hr_device_is(vendor, device, HR_DEV_PCH_PORT));
}

/* Inputs of the algorithm that forms groups. */
struct former {
	struct hr_model *m;
	struct hr_groups *g;
	const struct hr_next_boot *boot; /* NULL: use the present registers */
	bool *open;			 /* [functions]: isolated from here to the root */
	bool *enabled;			 /* [functions]: acs_enabled() */
};

static bool flags_enabled(const struct former *w, uint32_t index)
{
	const struct hr_fn *f = &w->m->fn[index];
	uint32_t want = HR_ACS_ISOLATION & hr_get(f, HR_F_ACS_CAP, 0);
	uint32_t ctl = w->boot ? hr_next_boot_acs(w->m, w->boot, (int32_t)index, NULL)
			       : hr_get(f, HR_F_ACS_CTL, 0);

	return hr_has_acs(f) && (ctl & want) == want;
}

/* The kernel does not count a virtual function as one of several functions of a slot. */
static bool is_multi(const struct hr_model *m, uint32_t index)
{
	const struct hr_fn *f = &m->fn[index];

	if (f->vf)
		return false;
	if (hr_has(f, HR_F_HEADER, HR_HEADER_MULTI) || f->fn)
		return true;
	f++;
	return index + 1 < m->count && f->domain == f[-1].domain && f->bus == f[-1].bus &&
	       f->dev == f[-1].dev && !f->vf;
}

/*
 * pci_acs_enabled(): true when the function's traffic cannot reach a peer without passing the
 * IOMMU.
 */
static bool acs_enabled(const struct former *w, uint32_t index)
{
	const struct hr_fn *f = &w->m->fn[index];

	if (isolates_by_quirk(f))
		return true;
	if (!hr_get(f, HR_F_EXP, 0))
		return false;
	switch (hr_get(f, HR_F_PORT, HR_PORT_ENDPOINT)) {
	case HR_PORT_TO_PCI:
	case HR_PORT_FROM_PCI:
		return false;
	case HR_PORT_ROOT:
	case HR_PORT_DOWNSTREAM:
		return flags_enabled(w, index);
	default:
		return !is_multi(w->m, index) || flags_enabled(w, index);
	}
}

/* Another function of the same slot that has a group and is not isolated either. */
static int32_t slot_mate(const struct former *w, uint32_t index)
{
	const struct hr_model *m = w->m;
	const struct hr_fn *f = &m->fn[index];

	for (uint32_t i = index; i-- > 0;) {
		const struct hr_fn *other = &m->fn[i];

		if (other->domain != f->domain || other->bus != f->bus || other->dev != f->dev)
			return HR_NO_FN;
		if (!w->enabled[i])
			return (int32_t)i;
	}
	return HR_NO_FN;
}

static bool acs_unknown(const struct hr_fn *f)
{
	return !hr_known(f, HR_F_EXP) || (hr_get(f, HR_F_EXP, 0) && !hr_known(f, HR_F_ACS)) ||
	       (hr_has_acs(f) && !hr_known(f, HR_F_ACS_CTL));
}

/* Parents come before children, except after a what-if move; then a parent is placed on demand. */
static void add_to_group(const struct former *w, uint32_t index)
{
	const struct hr_fn *f = &w->m->fn[index];
	struct hr_groups *g = w->g;
	int32_t mate;

	g->unsure[index] = acs_unknown(f) || (f->parent != HR_NO_FN && g->unsure[f->parent]);
	if (f->parent != HR_NO_FN && !w->open[f->parent]) {
		g->of[index] = g->of[f->parent];
		return;
	}
	mate = is_multi(w->m, index) && !w->enabled[index] ? slot_mate(w, index) : HR_NO_FN;
	g->of[index] = mate == HR_NO_FN ? g->count++ : g->of[mate];
}

/* Real and predicted groups are the same partition when the first members of all groups match. */
static int compare_groups(struct hr_model *m, struct hr_groups *g)
{
	int32_t *first = hr_model_alloc(m, g->count * sizeof *first);

	if (!first)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->count; i++)
		first[i] = HR_NO_FN;
	for (uint32_t i = 0; i < m->count; i++) {
		const struct hr_fn *f = &m->fn[i];
		int32_t lead = first[g->of[i]];

		if (!hr_known(f, HR_F_GROUP))
			continue;
		if (lead == HR_NO_FN)
			first[g->of[i]] = (int32_t)i;
		else if (hr_get(&m->fn[lead], HR_F_GROUP, 0) != hr_get(f, HR_F_GROUP, 0)) {
			if (g->mismatches++ == 0)
				g->first_mismatch = (int32_t)i;
		}
	}
	/* One real group can span two predicted groups: compare neighbours in address order. */
	for (uint32_t i = 0; i < m->count; i++)
		for (int32_t up = m->fn[i].parent; up != HR_NO_FN; up = m->fn[up].parent)
			if (g->of[up] != g->of[i] && hr_known(&m->fn[i], HR_F_GROUP) &&
			    hr_known(&m->fn[up], HR_F_GROUP) &&
			    hr_get(&m->fn[up], HR_F_GROUP, 0) == hr_get(&m->fn[i], HR_F_GROUP, 0) &&
			    g->mismatches++ == 0)
				g->first_mismatch = (int32_t)i;
	return 0;
}

static int form(const struct former *w)
{
	struct hr_model *m = w->m;

	for (uint32_t i = 0; i < m->count; i++)
		w->enabled[i] = acs_enabled(w, i);
	for (uint32_t depth = 0, left = m->count; left && depth <= HR_DEPTH_MAX; depth++)
		for (uint32_t i = 0; i < m->count; i++) {
			const struct hr_fn *f = &m->fn[i];

			if (f->depth != depth)
				continue;
			w->open[i] = w->enabled[i] && (f->parent == HR_NO_FN || w->open[f->parent]);
			add_to_group(w, i);
			left--;
		}
	return compare_groups(m, w->g);
}

int hr_groups_at_boot(struct hr_model *m, const struct hr_next_boot *boot, struct hr_groups *g)
{
	struct former w = { m, g, boot, hr_model_alloc(m, m->count), hr_model_alloc(m, m->count) };

	memset(g, 0, sizeof *g);
	g->first_mismatch = HR_NO_FN;
	g->of = hr_model_alloc(m, m->count * sizeof *g->of);
	g->unsure = hr_model_alloc(m, m->count);
	if (!w.open || !w.enabled || !g->of || !g->unsure)
		return -ENOMEM;
	return form(&w);
}

int hr_groups_predict(struct hr_model *m, struct hr_groups *g)
{
	return hr_groups_at_boot(m, NULL, g);
}

int32_t hr_groups_blocker(const struct hr_model *m, const struct hr_groups *g, int32_t fn,
			  bool real)
{
	for (uint32_t i = 0; i < m->count; i++) {
		const struct hr_fn *f = &m->fn[i];
		bool together = real ? hr_known(f, HR_F_GROUP) &&
						hr_get(f, HR_F_GROUP, 0) ==
							hr_get(&m->fn[fn], HR_F_GROUP, ~0u)
				     : g->of[i] == g->of[fn];

		if (together && (int32_t)i != fn && !hr_driver_allows_vfio(f))
			return (int32_t)i;
	}
	return HR_NO_FN;
}

/* ---- all functions at once */

struct member {
	uint64_t group; /* real groups are numbered above 32 bits, predicted ones below */
	int32_t fn;
};

static uint64_t group_of(const struct hr_model *m, const struct hr_groups *g, uint32_t index,
			 bool real)
{
	if (real)
		return 1ull << 32 | hr_get(&m->fn[index], HR_F_GROUP, 0);
	return g->of[index];
}

static int by_group(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->fn > y->fn) - (x->fn < y->fn);
}

/* First function of the group other than the function itself. */
static int32_t first_other(const struct member *list, uint32_t n, uint64_t group, int32_t self)
{
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list[middle].group < group)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < n && list[low].fn == self)
		low++;
	return low < n && list[low].group == group ? list[low].fn : HR_NO_FN;
}

int hr_groups_blockers(struct hr_model *m, const struct hr_groups *g, int32_t *blocker)
{
	struct member *list = hr_model_alloc(m, 2ull * m->count * sizeof *list);
	uint32_t n = 0;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->count; i++) {
		if (hr_driver_allows_vfio(&m->fn[i]))
			continue;
		if (hr_group_is_real(m, &m->fn[i]))
			list[n++] = (struct member){ group_of(m, g, i, true), (int32_t)i };
		if (g)
			list[n++] = (struct member){ group_of(m, g, i, false), (int32_t)i };
	}
	qsort(list, n, sizeof *list, by_group);
	for (uint32_t i = 0; i < m->count; i++) {
		bool real = hr_group_is_real(m, &m->fn[i]);

		blocker[i] = real || g ? first_other(list, n, group_of(m, g, i, real), (int32_t)i)
				       : HR_NO_FN;
	}
	return 0;
}

bool hr_driver_allows_vfio(const struct hr_fn *f)
{
	static const char *const fine[] = { "", "vfio-pci", "pci-stub", "pcieport", "shpchp" };

	if (!f->driver || hr_is_bridge(f))
		return true;
	if (strstr(f->driver, "vfio"))
		return true;
	for (unsigned i = 0; i < sizeof fine / sizeof *fine; i++)
		if (strcmp(f->driver, fine[i]) == 0)
			return true;
	return false;
}
