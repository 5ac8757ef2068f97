/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of bridges, with the path of one pair marked. */
#include "boot/cmd/topo/views/views.h"

#include <string.h>

#include "boot/cmd/topo/common.h"
#include "pci/topo/fields.h"
#include "pci/topo/uplink.h"

struct tree {
	const struct hr_topo *t;
	int32_t path[2 * HR_DEPTH_MAX + 1];
	unsigned marked;
	bool more[HR_DEPTH_MAX + 2]; /* at each depth: another sibling follows */
};

static bool is_marked(const struct tree *w, int32_t fn)
{
	for (unsigned i = 0; i < w->marked; i++)
		if (w->path[i] == fn)
			return true;
	return false;
}

static void print_link(FILE *out, const struct hr_fn *f)
{
	if (!hr_get(f, HR_F_WIDTH, 0))
		return;
	fprintf(out, "  %s GT/s x%u", hr_link_speed_text(hr_get(f, HR_F_SPEED, 0)),
		hr_get(f, HR_F_WIDTH, 0));
	if (hr_get(f, HR_F_WIDTH_MAX, 0) &&
	    (hr_get(f, HR_F_SPEED, 0) != hr_get(f, HR_F_SPEED_MAX, 0) ||
	     hr_get(f, HR_F_WIDTH, 0) != hr_get(f, HR_F_WIDTH_MAX, 0)))
		fprintf(out, " of %s GT/s x%u", hr_link_speed_text(hr_get(f, HR_F_SPEED_MAX, 0)),
			hr_get(f, HR_F_WIDTH_MAX, 0));
}

static void print_bridge(const struct tree *w, const struct hr_fn *f)
{
	static const char *const kind[] = { [HR_PORT_ROOT] = "root port",
					    [HR_PORT_UPSTREAM] = "upstream port",
					    [HR_PORT_DOWNSTREAM] = "downstream port",
					    [HR_PORT_TO_PCI] = "PCIe to PCI bridge",
					    [HR_PORT_FROM_PCI] = "PCI to PCIe bridge" };
	uint32_t port = hr_get(f, HR_F_PORT, 0);
	const char *name = port < sizeof kind / sizeof *kind && kind[port] ? kind[port] : "bridge";
	FILE *out = w->t->out;

	fprintf(out, "%s [%02x-%02x]", name, hr_get(f, HR_F_SECONDARY, 0),
		hr_get(f, HR_F_SUBORDINATE, 0));
	if (hr_has_acs(f) && !hr_known(f, HR_F_ACS_CAP))
		fprintf(out, "  ACS ?/%04x", hr_get(f, HR_F_ACS_CTL, 0));
	else if (hr_has_acs(f))
		fprintf(out, "  ACS %04x/%04x", hr_get(f, HR_F_ACS_CAP, 0),
			hr_get(f, HR_F_ACS_CTL, 0));
	else if (!hr_known(f, HR_F_ACS))
		fputs("  ACS unknown", out);
	if (hr_get(f, HR_F_ACS_CTL, 0) & HR_ACS_REDIRECT)
		fputs(" redirects", out);
}

static void print_function(const struct tree *w, int32_t index)
{
	const struct hr_fn *f = &w->t->model.fn[index];
	FILE *out = w->t->out;
	char bdf[HR_BDF_MAX], name[16], what[256];
	bool marked = is_marked(w, index);

	if (marked && w->t->colour)
		fputs("\033[1;32m", out);
	fprintf(out, "%s%s ", marked ? "* " : "", hr_bdf(f, bdf));
	if (hr_is_bridge(f)) {
		print_bridge(w, f);
	} else {
		hr_topo_name(w->t, index, name);
		if (strcmp(name, bdf) != 0)
			fprintf(out, "%s ", name);
		fputs(hr_topo_describe(w->t, f, what, sizeof what), out);
	}
	print_link(out, f);
	if (hr_known(f, HR_F_MPS))
		fprintf(out, "  MPS %u", hr_get(f, HR_F_MPS, 0));
	if (f->pci_slot)
		fprintf(out, "  slot %s", f->pci_slot);
	fprintf(out, "%s\n", marked ? hr_topo_reset(w->t) : "");
}

static void print_branch(const struct tree *w, uint32_t depth)
{
	bool utf8 = w->t->utf8;

	for (uint32_t i = 0; i < depth; i++)
		fputs(w->more[i] ? (utf8 ? "\xe2\x94\x82  " : "|  ") : "   ", w->t->out);
	if (w->more[depth])
		fputs(utf8 ? "\xe2\x94\x9c\xe2\x94\x80 " : "+- ", w->t->out);
	else
		fputs(utf8 ? "\xe2\x94\x94\xe2\x94\x80 " : "`- ", w->t->out);
}

/* Depth first, without recursion: children are linked, and the depth is limited. */
static void print_below(struct tree *w, int32_t top, bool last)
{
	const struct hr_fn *fn = w->t->model.fn;
	int32_t at = top;

	w->more[0] = !last;
	for (;;) {
		uint32_t depth = fn[at].depth - fn[top].depth;

		if (at != top)
			w->more[depth] = fn[at].sibling != HR_NO_FN;
		print_branch(w, depth);
		print_function(w, at);
		if (fn[at].child != HR_NO_FN) {
			at = fn[at].child;
			continue;
		}
		while (at != top && fn[at].sibling == HR_NO_FN)
			at = fn[at].parent;
		if (at == top)
			return;
		at = fn[at].sibling;
	}
}

static int32_t next_on_root(const struct hr_model *m, uint32_t from, int32_t root)
{
	for (uint32_t i = from; i < m->count; i++)
		if (m->fn[i].parent == HR_NO_FN && m->fn[i].root_bus == root)
			return (int32_t)i;
	return HR_NO_FN;
}

static void print_root_bus(struct tree *w, int32_t root)
{
	const struct hr_model *m = &w->t->model;
	const struct hr_root_bus *h = &m->root_bus[root];
	int32_t at = h->first;

	fprintf(w->t->out, "pci%04x:%02x", h->domain, h->bus);
	if (h->numa != ~0u)
		fprintf(w->t->out, "  NUMA node %u", h->numa);
	fputs(m->fn[at].orphan ? "  (bridge above is missing from the capture)\n" : "\n",
	      w->t->out);
	while (at != HR_NO_FN) {
		int32_t next = next_on_root(m, (uint32_t)at + 1, root);

		/* Functions are sorted by address, so other buses follow the root bus. */
		if (next != HR_NO_FN &&
		    (m->fn[next].bus != h->bus || m->fn[next].domain != h->domain))
			next = HR_NO_FN;
		print_below(w, at, next == HR_NO_FN);
		at = next;
	}
}

void hr_topo_tree(const struct hr_topo *t, int32_t gpu, int32_t ssd)
{
	struct tree w = { .t = t };
	struct hr_pair p;

	if (gpu != HR_NO_FN) {
		hr_pair_evaluate(&t->topology, gpu, ssd, &p);
		w.marked = hr_functions_below(&t->model, gpu, p.common, w.path, HR_DEPTH_MAX);
		w.marked += hr_functions_below(&t->model, ssd, p.common, w.path + w.marked,
					       HR_DEPTH_MAX);
		if (p.common != HR_NO_FN)
			w.path[w.marked++] = p.common;
	}
	for (uint32_t i = 0; i < t->model.root_buses; i++)
		print_root_bus(&w, (int32_t)i);
}
