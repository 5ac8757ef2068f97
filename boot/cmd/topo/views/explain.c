/* SPDX-License-Identifier: Apache-2.0 */
/* One pair, hop by hop, with the deciding rule and the rules that were excluded. */
#include "boot/cmd/topo/views/views.h"

#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/disks.h"
#include "boot/cmd/topo/headline.h"
#include "pci/topo/fields.h"
#include "pci/path.h"
#include "pci/topo/rules/explain.h"
#include "pci/topo/resize.h"
#include "pci/topo/uplink.h"

static void put_fact(FILE *out, const struct hr_fn *f, enum hr_fact_id id, const char *label)
{
	if (hr_known(f, id) && id == HR_F_NUMA && f->fact[id].value == UINT32_MAX)
		fprintf(out, "  %s none", label);
	else if (hr_known(f, id))
		fprintf(out, hr_fact_is_hex(id) ? "  %s 0x%04x" : "  %s %u", label,
			f->fact[id].value);
	else
		fprintf(out, "  %s ?", label);
}

static void put_link(FILE *out, const struct hr_fn *f, uint8_t uplink)
{
	uint32_t now = hr_get(f, HR_F_SPEED, 0), most = hr_get(f, HR_F_SPEED_MAX, 0);
	uint32_t width = hr_get(f, HR_F_WIDTH, 0), widest = hr_get(f, HR_F_WIDTH_MAX, 0);

	if (width)
		fprintf(out, "  link %s GT/s x%u", hr_link_speed_text(now), width);
	else
		fputs("  link ?", out);
	if (widest)
		fprintf(out, " of %s GT/s x%u", hr_link_speed_text(most), widest);
	if (uplink == HR_UPLINK_INSIDE)
		fputs(" (inside the card)", out);
	else if (uplink == HR_UPLINK_TUNNEL || uplink == HR_UPLINK_TUNNEL_OTHER)
		fputs(" (tunnel)", out);
}

static void put_window(FILE *out, const char *label, const struct hr_window *w)
{
	if (w->source == HR_SRC_NONE)
		fprintf(out, "  %s ?", label);
	else if (w->base > w->limit)
		fprintf(out, "  %s closed", label);
	else
		fprintf(out, "  %s %llx-%llx", label, (unsigned long long)w->base,
			(unsigned long long)w->limit);
}

static void put_bar(const struct hr_topo *t, const struct hr_fn *f)
{
	const struct hr_derived *d = &t->topology.derived[f - t->model.fn];
	FILE *out = t->out;
	int index = hr_peer_bar(f);
	const struct hr_bar *bar = &f->bar[index < 0 ? 0 : index];
	char size[32], most[32];

	if (index < 0) {
		fputs("      BAR for peers: none\n", out);
		return;
	}
	fprintf(out, "      BAR%d %llx", index, (unsigned long long)bar->base);
	if (d->bar_offset)
		fprintf(out, " (bus address %llx)", (unsigned long long)d->bar_base);
	fprintf(out, ", %s (%s)%s\n", hr_resize_text(bar->size, size),
		hr_src_name((enum hr_src)bar->size_source),
		bar->flags & HR_BAR_UNASSIGNED ? ", unassigned" : "");
	if (bar->sizes)
		fprintf(out, "      BAR%d can be up to %s (Resizable BAR, %s)\n", index,
			hr_resize_text(hr_resize_most(bar), most),
			hr_src_name((enum hr_src)bar->sizes_source));
}

static void put_hop(const struct hr_topo *t, int32_t index, const char *role)
{
	const struct hr_fn *f = &t->model.fn[index];
	FILE *out = t->out;
	char bdf[HR_BDF_MAX], what[256];

	const int used = fprintf(out, "  %s  %-9s ", hr_bdf(f, bdf), role);

	hr_print_wrapped(out, used > 0 ? (unsigned)used : 0, 26,
			 hr_topo_describe(t, f, what, sizeof what));
	hr_topo_put_disk(out, f, 7);
	fputs("     ", out);
	if (f->pci_slot)
		fprintf(out, "  slot %s", f->pci_slot);
	put_link(out, f, t->topology.derived[index].uplink);
	put_fact(out, f, HR_F_MPS, "MPS");
	put_fact(out, f, HR_F_COMMAND, "COMMAND");
	put_fact(out, f, HR_F_NUMA, "NUMA");
	fputs("\n", out);
	if (hr_is_bridge(f)) {
		fputs("     ", out);
		put_window(out, "mem", &f->mem);
		put_window(out, "pref", &f->pref);
		fputs("\n     ", out);
		if (hr_known(f, HR_F_ACS) && hr_get(f, HR_F_ACS, 0) == 0) {
			fputs("  no ACS\n", out);
			return;
		}
		put_fact(out, f, HR_F_ACS_CAP, "ACSCap");
		put_fact(out, f, HR_F_ACS_CTL, "ACSCtl");
		fprintf(out, " (%s)\n", hr_src_name((enum hr_src)f->fact[HR_F_ACS_CTL].source));
	} else {
		put_bar(t, f);
	}
}

static void put_root_complex(const struct hr_topo *t, const struct hr_pair *p)
{
	const int32_t gpu = t->model.fn[p->gpu].root_bus, ssd = t->model.fn[p->ssd].root_bus;

	fprintf(t->out, "  root complex: pci%04x:%02x", t->model.root_bus[gpu].domain,
		t->model.root_bus[gpu].bus);
	if (ssd != gpu)
		fprintf(t->out, " and pci%04x:%02x", t->model.root_bus[ssd].domain,
			t->model.root_bus[ssd].bus);
	fputc('\n', t->out);
}

static void put_path(const struct hr_topo *t, const struct hr_pair *p)
{
	int32_t path[HR_DEPTH_MAX + 1];
	unsigned n = hr_functions_below(&t->model, p->gpu, p->common, path, HR_DEPTH_MAX + 1);

	fputs("\nhops, from the GPU up and down to the SSD:\n", t->out);
	for (unsigned i = 0; i < n; i++)
		put_hop(t, path[i], i ? "" : "GPU");
	if (p->common != HR_NO_FN)
		put_hop(t, p->common, "common");
	else
		put_root_complex(t, p);
	n = hr_functions_below(&t->model, p->ssd, p->common, path, HR_DEPTH_MAX + 1);
	while (n--)
		put_hop(t, path[n], n ? "" : "SSD");
}

static void put_flows(const struct hr_topo *t, const struct hr_pair *p)
{
	static const char *const what[] = { "GPU writes SSD doorbell", "SSD writes GPU memory",
					    "SSD reads GPU memory", "GPU reads SSD register" };
	uint8_t used = hr_mode_flows(t->opt.mode);
	char text[48];

	for (unsigned f = 0; f < HR_FLOWS; f++)
		fprintf(t->out, "  F%u %-24s %s%s%s  rule %s%s\n", f + 1, what[f],
			hr_topo_colour(t, p->flow[f]),
			hr_verdict_text(p->flow[f], p->flow_rule[f], text), hr_topo_reset(t),
			hr_rules[p->flow_rule[f]].id,
			used >> f & 1 ? "" : "  (not used in this mode)");
}

static void put_findings(const struct hr_topo *t, const struct hr_pair *p)
{
	struct hr_finding found[HR_TOPO_FINDINGS_MAX];
	unsigned n = hr_findings(&t->topology, p, found, HR_TOPO_FINDINGS_MAX);
	char text[640];

	fputs("\nfindings:\n", t->out);
	for (unsigned i = 0; i < n && i < HR_TOPO_FINDINGS_MAX; i++) {
		const struct hr_rule *r = &hr_rules[found[i].rule];

		if (!found[i].flows)
			continue;
		fprintf(t->out, "  %-10s ", r->id);
		hr_rule_text(&t->topology, p, &found[i], r->why, text, sizeof text);
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s [%s]",
			 r->recalled ? " (not confirmed)" : "", r->source);
		hr_print_wrapped(t->out, 13, 13, text);
		if (!r->fix)
			continue;
		fputs("             -> ", t->out);
		hr_print_wrapped(
			t->out, 16, 16,
			hr_rule_text(&t->topology, p, &found[i], r->fix, text, sizeof text));
	}
}

static void put_ruled_out(const struct hr_topo *t, const struct hr_pair *p)
{
	/* When facts are missing, a rule that did not match is not excluded. */
	const char *what =
		p->verdict == HR_UNKNOWN ? "not found, but facts are missing:" : "ruled out:";
	char text[2048];
	size_t used = (size_t)snprintf(text, sizeof text, "%s", what);
	bool first = true;

	for (unsigned i = 0; i < hr_rules_count && used < sizeof text; i++) {
		if (!hr_topo_ruled_out(t, p, i))
			continue;
		used += (size_t)snprintf(text + used, sizeof text - used, "%s %s", first ? "" : ",",
					 hr_rules[i].id);
		first = false;
	}
	fputc('\n', t->out);
	hr_print_wrapped(t->out, 0, 2, text);
}

/* Of two GPUs: the answer of NVIDIA's driver, if the source has one. */
static void put_driver(const struct hr_topo *t, const struct hr_pair *p)
{
	const enum hr_p2p_status driver = hr_p2p_between(
		&t->model, hr_address(&t->model.fn[p->gpu]), hr_address(&t->model.fn[p->ssd]));
	char text[512];

	if (hr_p2p_refuses(driver))
		fprintf(t->out, "  %s\n", hr_peer_refusal(driver, p->verdict, text, sizeof text));
	else if (driver)
		fprintf(t->out, "  NVIDIA's driver: %s, %s\n", hr_p2p_word(driver),
			hr_p2p_meaning(driver));
}

void hr_topo_explain(const struct hr_topo *t, int32_t gpu, int32_t ssd)
{
	struct hr_path_choice choice;
	struct hr_pair p;
	char a[HR_BDF_MAX], b[HR_BDF_MAX], text[48], modifiers[HR_MODIFIERS_TEXT], why[1024];

	hr_pair_evaluate(&t->topology, gpu, ssd, &p);
	fprintf(t->out, "%s to %s: %s%s%s\n", hr_bdf(&t->model.fn[gpu], a),
		hr_bdf(&t->model.fn[ssd], b), hr_topo_colour(t, p.verdict),
		hr_verdict_text(p.verdict, p.rule, text), hr_topo_reset(t));
	hr_path_evaluate(&t->topology, gpu, ssd, &choice);
	snprintf(why, sizeof why, "decided by %s: %s", choice.rule, choice.why);
	fputs("  ", t->out);
	hr_print_wrapped(t->out, 2, 4, why);
	fprintf(t->out, "  path of a pipeline: %s\n", choice.direct ? "direct" : "bounce");
	fprintf(t->out, "  distance %s (", hr_distance_word(&t->topology, &p));
	if (p.cut)
		fputs("steps unknown", t->out);
	else
		fprintf(t->out, "%u steps", p.distance);
	fprintf(t->out, "); kernel p2pdma: %s\n", hr_kernel_text(p.kernel));
	if (p.modifiers)
		fprintf(t->out, "  modifiers: %s\n", hr_topo_modifiers(p.modifiers, modifiers));
	put_driver(t, &p);
	put_flows(t, &p);
	put_path(t, &p);
	put_findings(t, &p);
	hr_topo_software_pair(t, &p);
	put_ruled_out(t, &p);
}

void hr_topo_rules(FILE *out)
{
	for (unsigned i = 0; i < hr_rules_count; i++) {
		const struct hr_rule *r = &hr_rules[i];
		char text[HR_MODIFIERS_TEXT];

		fprintf(out, "%-12s %-22s %s%s\n", r->id, hr_topo_rule_verdict(i, text), r->why,
			r->recalled ? " (not confirmed)" : "");
		if (r->fix)
			fprintf(out, "%35s -> %s\n", "", r->fix);
		fprintf(out, "%35s [%s]\n", "", r->source);
	}
}
