/* SPDX-License-Identifier: Apache-2.0 */
/* Graphviz: bridges as boxes, links as edges; the path of a pair in colour. */
#include "boot/cmd/topo/views/views.h"

#include <string.h>

#include "boot/cmd/topo/common.h"
#include "pci/topo/fields.h"
#include "pci/topo/uplink.h"

static void put_label(FILE *out, const char *text)
{
	for (int i = 0, n = hr_topo_fit(text, 40); i < n; i++) {
		if (text[i] == '"' || text[i] == '\\')
			fputc('\\', out);
		fputc(text[i], out);
	}
}

/* Mark the functions on paths to evaluated functions; only these are drawn. */
static void mark(const struct hr_topo *t, const int32_t *list, uint32_t count, bool *wanted)
{
	for (uint32_t i = 0; i < count; i++)
		for (int32_t at = list[i]; at != HR_NO_FN; at = t->model.fn[at].parent)
			wanted[at] = true;
}

static void put_node(const struct hr_topo *t, int32_t index, bool on_path)
{
	const struct hr_fn *f = &t->model.fn[index];
	char bdf[HR_BDF_MAX], name[16], ids[16];
	const char *shape = hr_is_bridge(f) ? "box" : "ellipse";

	fprintf(t->out, "\tf%d [shape=%s%s label=\"%s", index, shape,
		on_path ? " color=forestgreen penwidth=2" : "", hr_bdf(f, bdf));
	hr_topo_name(t, index, name);
	if (strcmp(name, bdf) != 0)
		fprintf(t->out, "\\n%s", name);
	fputs("\\n", t->out);
	if (hr_is_bridge(f) && hr_has_acs(f))
		fprintf(t->out, "ACSCtl %04x", hr_get(f, HR_F_ACS_CTL, 0));
	else
		put_label(t->out, hr_topo_title(f));
	if (hr_topo_ids(f, ids)[0])
		fprintf(t->out, "\\n%s", ids);
	if (f->vf || hr_is_integrated(f))
		fprintf(t->out, "\\n%s", f->vf ? "VF" : "integrated");
	fputs("\"];\n", t->out);
}

static void put_edge(const struct hr_topo *t, int32_t index, bool on_path)
{
	const struct hr_fn *f = &t->model.fn[index];
	const char *style = on_path ? " color=forestgreen penwidth=2" : "";

	if (f->parent == HR_NO_FN)
		fprintf(t->out, "\th%d -> f%d [dir=none%s];\n", f->root_bus, index, style);
	else if (hr_get(f, HR_F_WIDTH, 0))
		fprintf(t->out, "\tf%d -> f%d [dir=none%s label=\"%s GT/s x%u\"];\n", f->parent,
			index, style, hr_link_speed_text(hr_get(f, HR_F_SPEED, 0)),
			hr_get(f, HR_F_WIDTH, 0));
	else
		fprintf(t->out, "\tf%d -> f%d [dir=none%s];\n", f->parent, index, style);
}

static bool on_path(const struct hr_topo *t, const struct hr_pair *p, int32_t index)
{
	if (!p)
		return false;
	for (int32_t at = p->gpu; at != HR_NO_FN; at = t->model.fn[at].parent) {
		if (at == index)
			return true;
		if (at == p->common)
			break;
	}
	for (int32_t at = p->ssd; at != HR_NO_FN && at != p->common; at = t->model.fn[at].parent)
		if (at == index)
			return true;
	return false;
}

void hr_topo_dot(const struct hr_topo *t, int32_t gpu, int32_t ssd)
{
	static bool wanted[HR_FUNCTIONS_MAX];
	struct hr_pair evaluated, *p = NULL;

	memset(wanted, 0, sizeof wanted);
	mark(t, t->topology.gpu, t->topology.gpus, wanted);
	mark(t, t->topology.ssd, t->topology.ssds, wanted);
	if (gpu != HR_NO_FN) {
		hr_pair_evaluate(&t->topology, gpu, ssd, &evaluated);
		p = &evaluated;
		mark(t, (int32_t[]){ gpu, ssd }, 2, wanted);
	}
	fputs("digraph topology {\n\tnode [fontname=\"sans\" fontsize=10];\n"
	      "\tedge [fontname=\"sans\" fontsize=9];\n",
	      t->out);
	for (uint32_t i = 0; i < t->model.root_buses; i++)
		fprintf(t->out, "\th%u [shape=house label=\"pci%04x:%02x\"];\n", i,
			t->model.root_bus[i].domain, t->model.root_bus[i].bus);
	for (int32_t i = 0; i < (int32_t)t->model.count; i++) {
		bool marked = on_path(t, p, i);

		if (!wanted[i])
			continue;
		put_node(t, i, marked);
		put_edge(t, i, marked && p && i != p->common);
	}
	fputs("}\n", t->out);
}
