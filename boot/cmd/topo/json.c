/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of --json. pci/topo/README.md documents the schema; "version" counts incompatible changes.
 */
#include "boot/cmd/topo/json.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/output.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/disks.h"
#include "boot/cmd/topo/survey.h"
#include "pci/path.h"
#include "pci/topo/rules/explain.h"
#include "pci/topo/rules/offset.h"
#include "config/base/log.h"

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

/* Constants between CPU and bus addresses (pci/topo/rules/offset.h), if the host has any. */
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

void hr_topo_json_function(const struct hr_topo *t, struct hr_json *o, int32_t index)
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
void hr_topo_json_verdict(const struct hr_topo *t, struct hr_json *o, const struct hr_pair *p,
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
	hr_topo_json_verdict(t, o, p, s);
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

void hr_topo_json_open(struct hr_json *out, FILE *file, const char *view)
{
	hr_json_to_file(out, HR_JSON_INDENTED, file);
	hr_json_schema(out, "headrace.topo", SCHEMA);
	hr_report_begun();
	hr_json_string(out, "view", view);
}

void hr_topo_json_begin(struct hr_json *out, FILE *file, const struct hr_topo *t, const char *view,
			const struct hr_topo_machine *machine)
{
	hr_topo_json_open(out, file, view);
	put_machine(t, machine, out);
}

void hr_topo_json_start(const struct hr_topo *t)
{
	if (t->json->depth == 0)
		hr_topo_json_begin(t->json, t->out, t, t->view, &t->machine);
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
