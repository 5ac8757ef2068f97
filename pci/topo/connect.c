/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the facts of a model: parents, roots, hosts, sizes of BARs. */
#include "pci/topo/model.h"

#include <stdlib.h>
#include <string.h>

#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "pci/topo/tables.h"

/* Bridges by their secondary bus, for the domain that is being linked. */
struct below {
	int32_t bridge[256];
	bool disputed[256];
};

/*
 * Only a bridge whose secondary number is above its own bus number becomes a parent. Enumeration
 * numbers buses depth first, and the rule keeps a hostile capture from making the tree a ring.
 */
static void note_bridge(struct hr_model *m, struct below *b, int32_t index)
{
	struct hr_fn *f = &m->fn[index];
	uint32_t secondary = hr_get(f, HR_F_SECONDARY, 0);
	char one[HR_BDF_MAX], two[HR_BDF_MAX];

	if (!hr_is_bridge(f) || secondary == 0)
		return;
	if (secondary <= f->bus || secondary > 255) {
		hr_model_warn(m,
			      "%s: secondary bus %02x is not above its own bus or over ff: ignored",
			      hr_bdf(f, one), secondary);
		return;
	}
	if (b->bridge[secondary] != HR_NO_FN) {
		b->disputed[secondary] = true;
		hr_model_warn(
			m, "%s and %s both claim bus %02x: the path to its functions stays unknown",
			hr_bdf(&m->fn[b->bridge[secondary]], one), hr_bdf(f, two), secondary);
		return;
	}
	b->bridge[secondary] = index;
}

/* Functions are sorted, so the functions of a root bus follow each other. */
static int32_t root_of(struct hr_model *m, int32_t index)
{
	const struct hr_fn *f = &m->fn[index];
	bool met = m->root_buses && m->root_bus[m->root_buses - 1].domain == f->domain &&
		   m->root_bus[m->root_buses - 1].bus == f->bus;

	if (!met && m->root_buses < HR_ROOT_BUSES_MAX)
		m->root_bus[m->root_buses++] =
			(struct hr_root_bus){ f->domain, f->bus, index, ~0u };
	return (int32_t)m->root_buses - 1;
}

static int32_t parent_of(struct hr_model *m, const struct below *b, const struct hr_fn *f)
{
	if (f->placed)
		return hr_model_find_address(m, f->under);
	/* the bus of a virtual function may be no bridge's secondary bus */
	if (f->physfn != HR_NO_FN)
		return m->fn[f->physfn].parent;
	return b->bridge[f->bus];
}

static void find_parents(struct hr_model *m, uint32_t from, uint32_t to)
{
	struct below b = { 0 };

	for (unsigned i = 0; i < 256; i++)
		b.bridge[i] = HR_NO_FN;
	for (uint32_t i = from; i < to; i++)
		note_bridge(m, &b, (int32_t)i);
	for (uint32_t i = from; i < to; i++) {
		m->fn[i].child = m->fn[i].sibling = HR_NO_FN;
		m->fn[i].parent = parent_of(m, &b, &m->fn[i]);
		m->fn[i].disputed = b.disputed[m->fn[i].bus] && !m->fn[i].placed;
		if (m->fn[i].physfn != HR_NO_FN)
			m->fn[i].disputed = m->fn[m->fn[i].physfn].disputed;
	}
}

/* Only functions with a stated parent (`placed`) can close a ring: bus numbers grow downwards. */
static int32_t find_root(struct hr_model *m, int32_t index)
{
	int32_t top = index;
	uint32_t depth = 0;
	char bdf[HR_BDF_MAX];

	while (m->fn[top].parent != HR_NO_FN && depth <= HR_DEPTH_MAX) {
		top = m->fn[top].parent;
		depth++;
	}
	if (depth > HR_DEPTH_MAX) {
		hr_model_warn(
			m, "%s: more than %u bridges above it: treated as a function on a root bus",
			hr_bdf(&m->fn[index], bdf), HR_DEPTH_MAX);
		m->fn[index].parent = HR_NO_FN;
	}
	m->fn[index].depth = depth;
	return top;
}

static void find_hosts(struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		find_root(m, (int32_t)i);
	for (uint32_t i = 0; i < m->count; i++)
		if (m->fn[i].parent == HR_NO_FN)
			m->fn[i].root_bus = root_of(m, (int32_t)i);
	for (uint32_t i = 0; i < m->count; i++)
		m->fn[i].root_bus = m->fn[find_root(m, (int32_t)i)].root_bus;
}

static void link_children(struct hr_model *m)
{
	for (uint32_t i = m->count; i-- > 0;) {
		struct hr_fn *f = &m->fn[i];

		if (f->parent == HR_NO_FN)
			continue;
		f->sibling = m->fn[f->parent].child;
		m->fn[f->parent].child = (int32_t)i;
	}
}

/*
 * A bus without a bridge above is a root bus if it holds a function that exists only on root buses.
 * Otherwise the capture is cut, and the path to the bus is unknown.
 */
static bool proves_root(const struct hr_fn *f)
{
	uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_ENDPOINT);

	if (f->bus == 0 || hr_get(f, HR_F_CLASS, 0) >> 8 == 0x0600 || port == HR_PORT_ROOT ||
	    port == HR_PORT_RC_ENDPOINT || port == HR_PORT_RC_EVENTS)
		return true;
	/* Conventional functions live on root buses; an unread bridge may be a root port. */
	return !hr_known(f, HR_F_PORT) && (hr_is_bridge(f) || hr_lacks(f, HR_F_EXP, ~0u));
}

/* The secondary bus of a bridge must be in the range of the bridge above it. */
static void check_ranges(struct hr_model *m)
{
	char bdf[HR_BDF_MAX];

	for (uint32_t i = 0; i < m->count; i++) {
		struct hr_fn *f = &m->fn[i];
		const struct hr_fn *up = f->parent == HR_NO_FN ? NULL : &m->fn[f->parent];

		if (!up || !hr_is_bridge(f) || f->placed || !hr_known(up, HR_F_SUBORDINATE) ||
		    hr_get(f, HR_F_SECONDARY, 0) <= hr_get(up, HR_F_SUBORDINATE, 0))
			continue;
		hr_model_warn(m, "%s: bus %02x below it is outside the range of the bridge above",
			      hr_bdf(f, bdf), hr_get(f, HR_F_SECONDARY, 0));
		f->disputed = true;
	}
}

static void mark_orphans(struct hr_model *m)
{
	bool *rooted = hr_model_alloc(m, m->root_buses);

	for (uint32_t i = 0; rooted && i < m->count; i++)
		if (m->fn[i].parent == HR_NO_FN && proves_root(&m->fn[i]))
			rooted[m->fn[i].root_bus] = true;
	for (uint32_t i = 0; rooted && i < m->count; i++)
		m->fn[i].orphan = !rooted[m->fn[i].root_bus];
}

static void infer_numa(struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		const struct hr_fn *f = &m->fn[i];
		uint32_t node = hr_get(f, HR_F_NUMA, ~0u);

		if (node != ~0u && m->root_bus[f->root_bus].numa == ~0u)
			m->root_bus[f->root_bus].numa = node;
	}
}

/* When no source states the size of a BAR, the alignment of its base is an upper bound. */
static void infer_bar_sizes(struct hr_fn *f)
{
	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		struct hr_bar *bar = &f->bar[i];

		if (!(bar->flags & HR_BAR_MEM) || bar->size_source || !bar->base)
			continue;
		bar->size = bar->base & -bar->base;
		bar->size_source = HR_SRC_INFERRED;
	}
}

int hr_model_connect(struct hr_model *m)
{
	uint32_t from = 0;

	m->root_buses = 0;
	hr_text_clean(m->sys.kernel, strlen(m->sys.kernel));
	hr_text_clean(m->sys.cmdline, strlen(m->sys.cmdline));
	hr_text_clean(m->sys.lockdown, strlen(m->sys.lockdown));
	hr_model_sort(m);
	hr_virtual_find(m);
	for (uint32_t i = 1; i <= m->count; i++) {
		if (i < m->count && m->fn[i].domain == m->fn[from].domain)
			continue;
		find_parents(m, from, i);
		from = i;
	}
	find_hosts(m);
	link_children(m);
	check_ranges(m);
	mark_orphans(m);
	infer_numa(m);
	hr_virtual_complete(m);
	for (uint32_t i = 0; i < m->count; i++)
		infer_bar_sizes(&m->fn[i]);
	return 0;
}
