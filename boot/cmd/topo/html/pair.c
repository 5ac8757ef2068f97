/* SPDX-License-Identifier: Apache-2.0 */
/* Explanations: an article for each kind of pair, and for each function in the tree. */
#include "boot/cmd/topo/html/html.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/views/views.h"
#include "pci/topo/fields.h"
#include "pci/topo/rules/explain.h"

char *hr_html_id(int32_t fn, char *text)
{
	snprintf(text, 16, "f%d", fn);
	return text;
}

static void put_findings(const struct hr_topo *t, FILE *out, const struct hr_pair *p)
{
	struct hr_finding found[64];
	unsigned n = hr_findings(&t->topology, p, found, 64);
	char why[640], fix[640];

	fputs("<ul>", out);
	for (unsigned i = 0; i < n && i < 64; i++) {
		const struct hr_rule *r = &hr_rules[found[i].rule];

		if (!found[i].flows)
			continue;
		hr_rule_text(&t->topology, p, &found[i], r->why, why, sizeof why);
		hr_html_put(out, "<li><code>~</code> ~~", r->id, why,
			    r->recalled ? " (not confirmed)" : "");
		if (r->fix)
			hr_html_put(
				out, "<div class=\"remedy\">~</div>",
				hr_rule_text(&t->topology, p, &found[i], r->fix, fix, sizeof fix));
		fputs("</li>\n", out);
	}
	fputs("</ul>\n", out);
}

/* The output of --explain. */
static void put_hops(const struct hr_topo *t, FILE *out, const struct hr_pair *p)
{
	struct hr_topo plain = *t;
	char *text = NULL;
	size_t size;

	plain.colour = false;
	plain.out = open_memstream(&text, &size);
	if (!plain.out)
		return;
	hr_topo_explain(&plain, p->gpu, p->ssd);
	fclose(plain.out);
	hr_html_put(out,
		    "<details><summary>hop by hop, as <code>--explain</code> prints it"
		    "</summary><pre>~</pre></details>\n",
		    text);
	free(text);
}

void hr_html_pair(const struct hr_topo *t, FILE *out, const char *id, const char *equal,
		  const struct hr_pair *p)
{
	char gpu[16], ssd[16], a[16], b[16], verdict[48], modifiers[HR_MODIFIERS_TEXT], name[40];

	hr_html_put(out, "<article id=\"~\" data-a=\"~\" data-b=\"~\"", id, hr_html_id(p->gpu, a),
		    hr_html_id(p->ssd, b));
	fputs(p->up & hr_mode_flows(t->opt.mode) ? " data-climbs=\"1\">\n" : ">\n", out);
	hr_topo_name(t, p->gpu, gpu);
	hr_topo_name(t, p->ssd, ssd);
	snprintf(name, sizeof name, "%s with %s", gpu, ssd);
	hr_html_put(out, "<h2>~ <span class=\"badge ~\">~</span></h2>\n", name,
		    hr_html_colour(p->verdict), hr_verdict_text(p->verdict, p->rule, verdict));
	if (strcmp(name, equal) != 0)
		hr_html_put(out, "<p class=\"equal\">stands for ~</p>\n", equal);
	hr_html_put(out, "<p class=\"dim\">rule ~; kernel p2pdma ~; distance ~",
		    hr_rules[p->rule].id, hr_kernel_text(p->kernel),
		    hr_distance_word(&t->topology, p));
	if (p->modifiers)
		hr_html_put(out, "; ~", hr_topo_modifiers(p->modifiers, modifiers));
	fputs("</p>\n", out);
	put_findings(t, out, p);
	put_hops(t, out, p);
	fputs("</article>\n", out);
}

static void put_fact(FILE *out, const struct hr_fn *f, enum hr_fact_id id)
{
	char value[16];

	if (!hr_known(f, id))
		return;
	snprintf(value, sizeof value, hr_fact_is_hex(id) ? "0x%04x" : "%u", f->fact[id].value);
	if (id == HR_F_NUMA && f->fact[id].value == UINT32_MAX)
		snprintf(value, sizeof value, "none");
	hr_html_put(out, "<dt>~</dt><dd>~</dd><dd>~</dd>", hr_fact_name(id), value,
		    hr_src_name((enum hr_src)f->fact[id].source));
}

static void put_rules(const struct hr_topo *t, FILE *out, int32_t fn)
{
	const struct hr_topology *e = &t->topology;
	const struct hr_pair p = { .gpu = fn, .ssd = fn, .common = HR_NO_FN };
	char why[640];

	fputs("<ul>", out);
	for (uint32_t i = 0; i < e->fn_rules; i++) {
		const struct hr_finding found = { e->fn_rule[i], fn, HR_FLOW_ALL };
		const struct hr_rule *r = &hr_rules[e->fn_rule[i]];

		if (hr_hit(&e->derived[fn].hits, e->fn_rule[i]))
			hr_html_put(out, "<li><code>~</code> ~</li>", r->id,
				    hr_rule_text(e, &p, &found, r->why, why, sizeof why));
	}
	fputs("</ul>\n", out);
}

void hr_html_function(const struct hr_topo *t, FILE *out, int32_t fn)
{
	const struct hr_fn *f = &t->model.fn[fn];
	char id[16], bdf[HR_BDF_MAX], name[16], what[256];

	hr_html_id(fn, id);
	hr_topo_name(t, fn, name);
	hr_bdf(f, bdf);
	hr_html_put(out, "<article id=\"i~\" data-fn=\"~\"><h2>~~~</h2>\n", id, id, bdf,
		    strcmp(name, bdf) == 0 ? "" : " ", strcmp(name, bdf) == 0 ? "" : name);
	hr_html_put(out, "<p>~</p><p class=\"dim\">~~~~</p>\n",
		    hr_topo_describe(t, f, what, sizeof what),
		    f->driver && f->driver[0] ? "driver " : "", f->driver ? f->driver : "",
		    f->pci_slot ? " slot " : "", f->pci_slot ? f->pci_slot : "");
	put_rules(t, out, fn);
	fputs("<dl>", out);
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++)
		put_fact(out, f, (enum hr_fact_id)i);
	fputs("</dl></article>\n", out);
}
