/*
 * Output of --json. pci/topo/README.md documents the schema; "version" counts incompatible changes.
 */
#include "boot/cmd/topo/json.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/json.h"
#include "boot/cmd/topo/alone.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/disks.h"
#include "boot/cmd/topo/explain.h"
#include "boot/cmd/topo/headline.h"
#include "boot/cmd/topo/peers.h"
#include "pci/path.h"
#include "pci/topo/explain.h"
#include "pci/topo/offset.h"
#include "config/log.h"

#define SCHEMA 1

static const char *iommu_word(enum hr_iommu mode)
{
	static const char *const word[] = { "unknown", "off", "passthrough", "translating" };

	return word[mode];
}

struct hr_topo_machine hr_topo_machine(const struct hr_topo *t)
{
	struct hr_topo_machine m = { .functions = t->model.count,
				     .root_buses = t->model.root_buses,
				     .iommu = t->topology.iommu,
				     .iommu_groups = t->topology.iommu_active,
				     .zen = t->topology.zen,
				     .zen_inferred = t->topology.zen_inferred };

	memcpy(m.kernel, t->model.sys.kernel, sizeof m.kernel);
	if (t->topology.m) /* a matrix alone has no topology */
		snprintf(m.iommu_reason, sizeof m.iommu_reason, "%s",
			 hr_topo_iommu_reason(&t->topology));
	return m;
}

/* Constants between CPU and bus addresses (pci/topo/offset.h), if the host has any. */
static void put_offsets(const struct hr_topo *t, struct hr_json *o)
{
	static const char *const windows[] = { "memory", "prefetchable" };
	const uint32_t n = t->model.root_buses * HR_WINDOW_CLASSES;
	bool any = false;
	char text[24];

	for (uint32_t i = 0; i < n; i++) {
		const struct hr_root_bus *root = &t->model.root_bus[i / HR_WINDOW_CLASSES];
		const struct hr_offset *offset = &t->topology.offset[i];

		if (offset->state == HR_OFFSET_NONE)
			continue;
		if (!any)
			hr_json_array(o, "bus_offsets");
		any = true;
		hr_json_object(o, NULL);
		snprintf(text, sizeof text, "%04x:%02x", root->domain, root->bus);
		hr_json_string(o, "host_bridge", text);
		hr_json_string(o, "windows", windows[i % HR_WINDOW_CLASSES]);
		if (offset->state == HR_OFFSET_KNOWN)
			hr_json_string(o, "offset", hr_offset_text(offset->value, text));
		else
			hr_json_null(o, "offset");
		hr_json_close(o);
	}
	if (any)
		hr_json_close(o);
}

static void put_machine(const struct hr_topo *t, const struct hr_topo_machine *m, struct hr_json *o)
{
	hr_json_object(o, "machine");
	hr_json_string(o, "source", t->model.input);
	hr_json_u64(o, "functions", m->functions);
	hr_json_u64(o, "root_buses", m->root_buses);
	hr_json_string(o, "iommu", iommu_word(m->iommu));
	if (m->iommu_reason[0])
		hr_json_string(o, "iommu_reason", m->iommu_reason);
	hr_json_bool(o, "iommu_groups", m->iommu_groups);
	if (m->kernel[0])
		hr_json_string(o, "kernel", m->kernel);
	hr_json_bool(o, "zen", m->zen);
	hr_json_bool(o, "zen_inferred", m->zen_inferred);
	if (t->topology.m && t->topology.emulated != HR_NO_FN) /* a matrix alone has none */
		hr_topo_json_address(t, o, "emulated", t->topology.emulated);
	put_offsets(t, o);
	hr_json_array(o, "warnings");
	for (uint32_t i = 0; i < t->model.warnings && i < HR_WARNINGS_KEPT; i++)
		hr_json_string(o, NULL, t->model.warning[i]);
	hr_json_close(o);
	hr_json_u64(o, "skipped_lines", t->model.skipped);
	if (t->model.skipped) {
		hr_json_u64(o, "skipped_first_line", t->model.skipped_line);
		hr_json_string(o, "skipped_first", t->model.skipped_first);
	}
	hr_json_close(o);
}

static void put_fact(struct hr_json *o, const struct hr_fn *f, enum hr_fact_id id)
{
	if (!hr_known(f, id))
		return;
	hr_json_object(o, hr_fact_name(id));
	hr_json_u64(o, "value", f->fact[id].value);
	hr_json_string(o, "source", hr_src_name((enum hr_src)f->fact[id].source));
	hr_json_close(o);
}

/* BARs with a Resizable BAR capability: their size, and the sizes that they can have. */
static void put_resizable(struct hr_json *o, const struct hr_fn *f)
{
	bool any = false;

	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		if (!f->bar[i].sizes)
			continue;
		if (!any)
			hr_json_array(o, "resizable_bars");
		any = true;
		hr_json_object(o, NULL);
		hr_json_u64(o, "bar", i);
		if (f->bar[i].size)
			hr_json_u64(o, "bytes", f->bar[i].size);
		hr_json_array(o, "supported_bytes");
		for (uint64_t left = f->bar[i].sizes; left; left &= left - 1)
			hr_json_u64(o, NULL, (left & -left) << 20);
		hr_json_close(o);
		hr_json_string(o, "source", hr_src_name((enum hr_src)f->bar[i].sizes_source));
		hr_json_close(o);
	}
	if (any)
		hr_json_close(o);
}

static void put_function(const struct hr_topo *t, struct hr_json *o, int32_t index)
{
	const struct hr_fn *f = &t->model.fn[index];
	char bdf[HR_BDF_MAX], name[16];

	hr_json_object(o, NULL);
	hr_json_string(o, "address", hr_bdf(f, bdf));
	hr_topo_name(t, index, name);
	if (strcmp(name, bdf) != 0)
		hr_json_string(o, "name", name);
	hr_json_string(o, "title", hr_topo_title(f));
	if (f->driver)
		hr_json_string(o, "driver", f->driver);
	if (f->pci_slot)
		hr_json_string(o, "slot", f->pci_slot);
	if (f->cpus)
		hr_json_string(o, "cpus", f->cpus);
	if (f->devices)
		hr_json_string(o, "devices", f->devices);
	hr_topo_json_disk(o, f);
	if (f->parent != HR_NO_FN)
		hr_json_string(o, "parent", hr_bdf(&t->model.fn[f->parent], bdf));
	if (f->physfn != HR_NO_FN)
		hr_json_string(o, "virtual_function_of", hr_bdf(&t->model.fn[f->physfn], bdf));
	if (hr_is_integrated(f))
		hr_json_bool(o, "integrated_gpu", true);
	hr_json_bool(o, "access_denied", f->denied);
	put_resizable(o, f);
	hr_json_object(o, "facts");
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++)
		put_fact(o, f, (enum hr_fact_id)i);
	hr_json_close(o);
	hr_json_close(o);
}

static void put_flows(const struct hr_pair *p, struct hr_json *o)
{
	static const char *const key[] = { "f1", "f2", "f3", "f4" };
	char text[48];

	hr_json_object(o, "flows");
	for (unsigned i = 0; i < HR_FLOWS; i++) {
		hr_json_object(o, key[i]);
		hr_json_string(o, "verdict", hr_verdict_text(p->flow[i], p->flow_rule[i], text));
		hr_json_string(o, "rule", hr_rules[p->flow_rule[i]].id);
		hr_json_close(o);
	}
	hr_json_close(o);
}

static void put_findings(const struct hr_topo *t, const struct hr_pair *p, struct hr_json *o)
{
	struct hr_finding found[64];
	unsigned n = hr_findings(&t->topology, p, found, 64);
	char text[640], bdf[HR_BDF_MAX];

	hr_json_array(o, "findings");
	for (unsigned i = 0; i < n && i < 64; i++) {
		const struct hr_rule *r = &hr_rules[found[i].rule];

		if (!found[i].flows)
			continue;
		hr_json_object(o, NULL);
		hr_json_string(o, "rule", r->id);
		if (found[i].fn != HR_NO_FN)
			hr_json_string(o, "address", hr_bdf(&t->model.fn[found[i].fn], bdf));
		hr_json_string(o, "why",
			       hr_rule_text(&t->topology, p, &found[i], r->why, text, sizeof text));
		if (r->fix)
			hr_json_string(o, "fix",
				       hr_rule_text(&t->topology, p, &found[i], r->fix, text,
						    sizeof text));
		hr_json_bool(o, "confirmed", !r->recalled);
		hr_json_string(o, "origin", r->source);
		hr_json_close(o);
	}
	hr_json_close(o);
}

/* The members of a pair. */
static void put_verdict(const struct hr_topo *t, struct hr_json *o, const struct hr_pair *p,
			const struct hr_survey *s)
{
	const uint32_t class = s ? hr_survey_class(s, t, p) : HR_CLASSES_MAX;
	char text[HR_MODIFIERS_TEXT], *save = NULL;

	hr_topo_json_ends(t, o, p->gpu, p->ssd);
	hr_json_string(o, "verdict", hr_verdict_text(p->verdict, p->rule, text));
	hr_json_string(o, "rule", hr_rules[p->rule].id);
	hr_json_string(o, "kernel_verdict", hr_kernel_text(p->kernel));
	if (p->cut)
		hr_json_null(o, "kernel_distance");
	else
		hr_json_u64(o, "kernel_distance", p->distance);
	hr_json_string(o, "distance", hr_distance_word(&t->topology, p));
	if (p->common != HR_NO_FN)
		hr_topo_json_address(t, o, "common_bridge", p->common);
	if (class < HR_CLASSES_MAX)
		hr_json_u64(o, "headline", class);
	put_flows(p, o);
	hr_json_array(o, "modifiers");
	hr_topo_modifiers(p->modifiers, text);
	for (char *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save))
		hr_json_string(o, NULL, word);
	hr_json_close(o);
	put_findings(t, p, o);
}

static void put_pair(const struct hr_topo *t, struct hr_json *o, const struct hr_pair *p,
		     const struct hr_survey *s)
{
	hr_json_object(o, NULL);
	put_verdict(t, o, p, s);
	hr_json_close(o);
}

void hr_topo_json_address(const struct hr_topo *t, struct hr_json *o, const char *key, int32_t fn)
{
	char bdf[HR_BDF_MAX];

	hr_json_string(o, key, hr_bdf(&t->model.fn[fn], bdf));
}

void hr_topo_json_ends(const struct hr_topo *t, struct hr_json *o, int32_t gpu, int32_t ssd)
{
	hr_topo_json_address(t, o, "gpu", gpu);
	hr_topo_json_address(t, o, "nvme", ssd);
}

static void begin(struct hr_json *out, FILE *file, const char *view)
{
	hr_json_to_file(out, HR_JSON_INDENTED, file);
	hr_json_schema(out, "headrace.topo", SCHEMA);
	hr_report_begun();
	hr_json_string(out, "view", view);
}

void hr_topo_json_begin(struct hr_json *out, FILE *file, const struct hr_topo *t, const char *view,
			const struct hr_topo_machine *machine)
{
	begin(out, file, view);
	put_machine(t, machine, out);
}

void hr_topo_json_start(const struct hr_topo *t)
{
	if (t->json->depth == 0)
		hr_topo_json_begin(t->json, t->out, t, t->view, &t->machine);
}

static void put_functions(const struct hr_topo *t, struct hr_json *out)
{
	hr_json_array(out, "functions");
	for (uint32_t i = 0; i < t->model.count && !out->error; i++)
		put_function(t, out, (int32_t)i);
	hr_json_close(out);
}

void hr_topo_json_pairs(const struct hr_topo *t, struct hr_json *out, const struct hr_survey *s)
{
	const struct hr_topology *e = &t->topology;
	struct hr_pair p;

	hr_json_array(out, "pairs");
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds && !out->error; j++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			if (hr_topo_wants(t, &p))
				put_pair(t, out, &p, s);
		}
	hr_json_close(out);
}

int hr_topo_json_end(struct hr_json *out, int code)
{
	hr_json_u64(out, "exit_code", (uint64_t)code);
	return hr_report_end(out, code, HR_TOPO_NO_ACCESS);
}

static void put_headline(const struct hr_topo *t, const struct hr_class *c,
			 const struct hr_headline *h, struct hr_json *o)
{
	char verdict[48];

	hr_json_object(o, NULL);
	hr_json_string(o, "members", h->members);
	hr_json_u64(o, "pairs", c->pairs);
	if (c->pair.cut || t->topology.guest)
		hr_json_null(o, "same_switch");
	else
		hr_json_bool(o, "same_switch", c->same_switch);
	hr_json_string(o, "verdict", hr_verdict_text(c->pair.verdict, c->pair.rule, verdict));
	hr_json_string(o, "rule", hr_rules[c->pair.rule].id);
	hr_json_string(o, "what", h->what);
	if (h->rate[0])
		hr_json_string(o, "rate", h->rate);
	if (h->alone_gbs > 0)
		hr_json_fixed(o, "alone_gb_per_s", h->alone_gbs, 3);
	if (h->most_gbs > 0) {
		hr_json_fixed(o, "together_least_gb_per_s", h->least_gbs, 3);
		hr_json_fixed(o, "together_most_gb_per_s", h->most_gbs, 3);
		hr_json_bool(o, "together_upper_bound", h->bound);
	}
	hr_json_string(o, "terms", h->terms);
	if (h->remedy[0])
		hr_json_string(o, "remedy", h->remedy);
	hr_topo_json_ends(t, o, c->pair.gpu, c->pair.ssd);
	hr_json_close(o);
}

/* Rows and columns of the matrix: names of the functions whose cells all have the same text. */
static void put_lines(const struct hr_topo *t, const struct hr_survey *s, struct hr_json *out,
		      bool row)
{
	const uint32_t *of = row ? s->row : s->column, n = row ? s->rows : s->columns;
	const uint32_t cards = row ? t->topology.ssds : t->topology.gpus;
	const int32_t *card = row ? t->topology.ssd : t->topology.gpu;
	char bdf[HR_BDF_MAX];

	hr_json_array(out, row ? "rows" : "columns");
	for (uint32_t i = 0; i < n; i++) {
		hr_json_object(out, NULL);
		hr_json_array(out, "functions");
		for (uint32_t k = row ? s->ssd_of[i] : s->gpu_of[i]; k < cards; k++)
			if (of[k] == i)
				hr_json_string(out, NULL, hr_bdf(&t->model.fn[card[k]], bdf));
		hr_json_close(out);
		hr_json_close(out);
	}
	hr_json_close(out);
}

/* The functions from the GPU up to the common bridge, if there is one, and down to the SSD. */
static void put_hops(const struct hr_topo *t, const struct hr_pair *p, struct hr_json *out)
{
	int32_t path[HR_DEPTH_MAX + 1];
	unsigned n = hr_functions_below(&t->model, p->gpu, p->common, path, HR_DEPTH_MAX + 1);

	hr_json_array(out, "hops");
	for (unsigned i = 0; i < n; i++)
		put_function(t, out, path[i]);
	if (p->common != HR_NO_FN)
		put_function(t, out, p->common);
	n = hr_functions_below(&t->model, p->ssd, p->common, path, HR_DEPTH_MAX + 1);
	while (n--)
		put_function(t, out, path[n]);
	hr_json_close(out);
}

int hr_topo_json_explain(const struct hr_topo *t, const struct hr_pair *p)
{
	const struct hr_topo_machine machine = hr_topo_machine(t);
	struct hr_path_choice choice;
	struct hr_json out;

	hr_path_evaluate(&t->topology, p->gpu, p->ssd, &choice);
	hr_topo_json_begin(&out, t->out, t, "explain", &machine);
	put_verdict(t, &out, p, NULL);
	hr_json_string(&out, "decided_by", choice.rule);
	hr_json_string(&out, "why", choice.why);
	hr_json_string(&out, "path", choice.direct ? "direct" : "bounce");
	put_hops(t, p, &out);
	hr_json_bool(&out, "facts_missing", p->verdict == HR_UNKNOWN);
	hr_json_array(&out, "ruled_out");
	for (unsigned i = 0; i < hr_rules_count; i++)
		if (hr_topo_ruled_out(t, p, i))
			hr_json_string(&out, NULL, hr_rules[i].id);
	hr_json_close(&out);
	return hr_topo_json_end(&out, (int)hr_topo_exit_of(p));
}

int hr_topo_json_rules(const struct hr_topo *t)
{
	struct hr_json out;
	char text[HR_MODIFIERS_TEXT];

	begin(&out, t->out, "rules");
	hr_json_array(&out, "rules");
	for (unsigned i = 0; i < hr_rules_count; i++) {
		hr_json_object(&out, NULL);
		hr_json_string(&out, "rule", hr_rules[i].id);
		hr_json_string(&out, "verdict", hr_topo_rule_verdict(i, text));
		hr_json_string(&out, "why", hr_rules[i].why);
		if (hr_rules[i].fix)
			hr_json_string(&out, "fix", hr_rules[i].fix);
		hr_json_bool(&out, "confirmed", !hr_rules[i].recalled);
		hr_json_string(&out, "origin", hr_rules[i].source);
		hr_json_close(&out);
	}
	hr_json_close(&out);
	return hr_topo_json_end(&out, 0);
}

int hr_topo_json(struct hr_topo *t, int code)
{
	const struct hr_topo_machine machine = hr_topo_machine(t);
	struct hr_survey *s = hr_survey_new(t);
	struct hr_headline *h = s ? hr_headlines_new(t, s, HR_CLASSES_MAX) : NULL;
	struct hr_json out;
	char text[512];

	if (!h) {
		hr_error("out of memory");
		hr_survey_free(s);
		return HR_TOPO_NO_ACCESS;
	}
	hr_topo_json_begin(&out, t->out, t, "verdicts", &machine);
	hr_json_string(&out, "answer", hr_headline_answer(s, text));
	hr_json_array(&out, "headlines");
	for (uint32_t i = 0; i < s->classes; i++)
		put_headline(t, &s->class[i], &h[i], &out);
	hr_json_close(&out);
	put_lines(t, s, &out, true);
	put_lines(t, s, &out, false);
	put_functions(t, &out);
	hr_topo_json_pairs(t, &out, s);
	if (hr_topo_has_other_pairs(t))
		hr_topo_peers_json(t, 1u << HR_PEER_GPU | 1u << HR_PEER_NIC, &out);
	free(h);
	hr_survey_free(s);
	return hr_topo_json_end(&out, code);
}
