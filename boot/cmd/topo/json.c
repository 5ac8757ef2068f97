/* The schema is documented in pci/topo/README.md; "schema" counts incompatible changes. */
#include "boot/cmd/topo/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/json.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/headline.h"

#define SCHEMA 1

static const char *iommu_word(enum hr_iommu mode)
{
	static const char *const word[] = { "unknown", "off", "passthrough", "translating" };

	return word[mode];
}

static void put_machine(const struct hr_topo *t, struct json_object *root)
{
	struct json_object *o = hr_json_object(root, "machine"), *list;
	const struct hr_model *m = &t->model;

	hr_json_string(o, "source", m->input);
	hr_json_u64(o, "functions", m->count);
	hr_json_u64(o, "root_buses", m->hosts);
	hr_json_string(o, "iommu", iommu_word(t->engine.iommu));
	hr_json_bool(o, "iommu_groups", t->engine.iommu_active);
	if (m->sys.kernel[0])
		hr_json_string(o, "kernel", m->sys.kernel);
	hr_json_bool(o, "zen", t->engine.zen);
	hr_json_bool(o, "zen_inferred", t->engine.zen_inferred);
	list = hr_json_array(o, "warnings");
	for (uint32_t i = 0; i < m->warnings && i < HR_WARNINGS_KEPT; i++)
		json_object_array_add(list, json_object_new_string(m->warning[i]));
}

static void put_fact(struct json_object *facts, const struct hr_fn *f, enum hr_fact_id id)
{
	struct json_object *o;

	if (!hr_known(f, id))
		return;
	o = hr_json_object(facts, hr_fact_name(id));
	hr_json_u64(o, "value", f->fact[id].value);
	hr_json_string(o, "source", hr_src_name((enum hr_src)f->fact[id].source));
}

static struct json_object *function(const struct hr_topo *t, int32_t index)
{
	const struct hr_fn *f = &t->model.fn[index];
	struct json_object *o = hr_json_new(), *facts;
	char bdf[HR_BDF_MAX], name[16];

	hr_json_string(o, "address", hr_bdf(f, bdf));
	hr_topo_name(t, index, name);
	if (strcmp(name, bdf) != 0)
		hr_json_string(o, "name", name);
	hr_json_string(o, "title", hr_topo_title(f));
	if (f->driver)
		hr_json_string(o, "driver", f->driver);
	if (f->slot)
		hr_json_string(o, "slot", f->slot);
	if (f->cpus)
		hr_json_string(o, "cpus", f->cpus);
	if (f->devices)
		hr_json_string(o, "devices", f->devices);
	if (f->parent != HR_NO_FN)
		hr_json_string(o, "parent", hr_bdf(&t->model.fn[f->parent], bdf));
	if (f->physfn != HR_NO_FN)
		hr_json_string(o, "virtual_function_of", hr_bdf(&t->model.fn[f->physfn], bdf));
	if (hr_is_integrated(f))
		hr_json_bool(o, "integrated_gpu", true);
	hr_json_bool(o, "access_denied", f->denied);
	facts = hr_json_object(o, "facts");
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++)
		put_fact(facts, f, (enum hr_fact_id)i);
	return o;
}

static void put_flows(const struct hr_pair *p, struct json_object *o)
{
	static const char *const key[] = { "f1", "f2", "f3", "f4" };
	struct json_object *flows = hr_json_object(o, "flows"), *flow;
	char text[48];

	for (unsigned i = 0; i < HR_FLOWS; i++) {
		flow = hr_json_object(flows, key[i]);
		hr_json_string(flow, "verdict", hr_verdict_text(p->flow[i], p->flow_rule[i], text));
		hr_json_string(flow, "rule", hr_rules[p->flow_rule[i]].id);
	}
}

static void put_findings(const struct hr_topo *t, const struct hr_pair *p, struct json_object *o)
{
	struct json_object *list = hr_json_array(o, "findings"), *item;
	struct hr_finding found[64];
	unsigned n = hr_findings(&t->engine, p, found, 64);
	char text[512], bdf[HR_BDF_MAX];

	for (unsigned i = 0; i < n && i < 64; i++) {
		const struct hr_rule *r = &hr_rules[found[i].rule];

		if (!found[i].flows)
			continue;
		item = hr_json_append(list);
		hr_json_string(item, "rule", r->id);
		if (found[i].fn != HR_NO_FN)
			hr_json_string(item, "address", hr_bdf(&t->model.fn[found[i].fn], bdf));
		hr_json_string(item, "why",
			       hr_rule_text(&t->engine, p, &found[i], r->why, text, sizeof text));
		if (r->fix)
			hr_json_string(
				item, "fix",
				hr_rule_text(&t->engine, p, &found[i], r->fix, text, sizeof text));
		hr_json_bool(item, "confirmed", !r->recalled);
		hr_json_string(item, "origin", r->source);
	}
}

static struct json_object *pair(const struct hr_topo *t, const struct hr_pair *p,
				const struct hr_survey *s)
{
	struct json_object *o = hr_json_new(), *modifiers;
	const uint32_t class = s ? hr_survey_class(s, t, p) : HR_CLASSES_MAX;
	char text[HR_MODIFIERS_TEXT], *save = NULL;

	hr_topo_json_ends(t, o, p->gpu, p->ssd);
	hr_json_string(o, "verdict", hr_verdict_text(p->verdict, p->rule, text));
	hr_json_string(o, "rule", hr_rules[p->rule].id);
	hr_json_string(o, "kernel_verdict", hr_kernel_text(p->kernel));
	if (p->cut)
		json_object_object_add(o, "kernel_distance", NULL);
	else
		hr_json_u64(o, "kernel_distance", p->distance);
	hr_json_string(o, "distance", hr_distance_word(&t->engine, p));
	if (p->common != HR_NO_FN)
		hr_topo_json_address(t, o, "common_bridge", p->common);
	if (class < HR_CLASSES_MAX)
		hr_json_u64(o, "headline", class);
	put_flows(p, o);
	modifiers = hr_json_array(o, "modifiers");
	hr_topo_modifiers(p->modifiers, text);
	for (char *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save))
		json_object_array_add(modifiers, json_object_new_string(word));
	put_findings(t, p, o);
	return o;
}

void hr_topo_json_address(const struct hr_topo *t, struct json_object *o, const char *key,
			  int32_t fn)
{
	char bdf[HR_BDF_MAX];

	hr_json_string(o, key, hr_bdf(&t->model.fn[fn], bdf));
}

void hr_topo_json_ends(const struct hr_topo *t, struct json_object *o, int32_t gpu, int32_t ssd)
{
	hr_topo_json_address(t, o, "gpu", gpu);
	hr_topo_json_address(t, o, "nvme", ssd);
}

struct json_object *hr_topo_json_new(const struct hr_topo *t, const char *view)
{
	struct json_object *root = hr_json_new();

	hr_json_u64(root, "schema", SCHEMA);
	hr_json_string(root, "view", view);
	put_machine(t, root);
	return root;
}

static void put_functions(const struct hr_topo *t, struct hr_json_stream *s)
{
	hr_json_list(s, "functions");
	for (uint32_t i = 0; i < t->model.count && !s->failed; i++)
		hr_json_item(s, function(t, (int32_t)i));
	hr_json_list_end(s);
}

static void put_pairs(const struct hr_topo *t, struct hr_json_stream *s,
		      const struct hr_survey *survey)
{
	const struct hr_engine *e = &t->engine;
	struct hr_pair p;

	hr_json_list(s, "pairs");
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds && !s->failed; j++) {
			hr_judge(e, e->gpu[i], e->ssd[j], &p);
			if (hr_topo_wants(t, &p))
				hr_json_item(s, pair(t, &p, survey));
		}
	hr_json_list_end(s);
}

static int print(const struct hr_topo *t, struct json_object *root, bool functions, bool pairs,
		 const struct hr_survey *survey, int code)
{
	struct json_object *last = hr_json_new();
	struct hr_json_stream s;

	hr_json_begin(&s);
	hr_json_members(&s, root);
	if (functions)
		put_functions(t, &s);
	if (pairs)
		put_pairs(t, &s, survey);
	hr_json_u64(last, "exit_code", (uint64_t)code);
	hr_json_members(&s, last);
	return hr_json_end(&s);
}

int hr_topo_json_print(const struct hr_topo *t, struct json_object *root, bool functions,
		       bool pairs, int code)
{
	return print(t, root, functions, pairs, NULL, code);
}

static void put_headline(const struct hr_topo *t, const struct hr_class *c,
			 const struct hr_headline *h, struct json_object *o)
{
	char verdict[48];

	hr_json_string(o, "members", h->members);
	hr_json_u64(o, "pairs", c->pairs);
	if (c->pair.cut)
		json_object_object_add(o, "same_switch", NULL);
	else
		hr_json_bool(o, "same_switch", c->near);
	hr_json_string(o, "verdict", hr_verdict_text(c->pair.verdict, c->pair.rule, verdict));
	hr_json_string(o, "rule", hr_rules[c->pair.rule].id);
	hr_json_string(o, "what", h->what);
	if (h->rate[0])
		hr_json_string(o, "rate", h->rate);
	if (h->alone_gbs > 0)
		hr_json_double(o, "alone_gb_per_s", h->alone_gbs, 3);
	if (h->most_gbs > 0) {
		hr_json_double(o, "together_least_gb_per_s", h->least_gbs, 3);
		hr_json_double(o, "together_most_gb_per_s", h->most_gbs, 3);
		hr_json_bool(o, "together_upper_bound", h->bound);
	}
	hr_json_string(o, "terms", h->terms);
	if (h->remedy[0])
		hr_json_string(o, "remedy", h->remedy);
	hr_topo_json_ends(t, o, c->pair.gpu, c->pair.ssd);
}

/* Rows and columns of the matrix: names of functions whose cells all read the same. */
static void put_lines(const struct hr_topo *t, const struct hr_survey *s, struct json_object *root,
		      bool row)
{
	struct json_object *list = hr_json_array(root, row ? "rows" : "columns"), *item, *members;
	const uint32_t *of = row ? s->row : s->column, n = row ? s->rows : s->columns;
	const uint32_t cards = row ? t->engine.ssds : t->engine.gpus;
	const int32_t *card = row ? t->engine.ssd : t->engine.gpu;
	char bdf[HR_BDF_MAX];

	for (uint32_t i = 0; i < n; i++) {
		item = hr_json_append(list);
		hr_json_array(item, "functions");
	}
	for (uint32_t i = 0; i < cards; i++) {
		item = json_object_array_get_idx(list, of[i]);
		members = json_object_object_get(item, "functions");
		json_object_array_add(members,
				      json_object_new_string(hr_bdf(&t->model.fn[card[i]], bdf)));
	}
}

int hr_topo_json(struct hr_topo *t, int code)
{
	struct json_object *root = hr_topo_json_new(t, "verdicts"), *list;
	struct hr_survey *s = hr_survey_new(t);
	struct hr_headline *h = s ? hr_headlines_new(t, s, HR_CLASSES_MAX) : NULL;
	char text[512];
	int err;

	if (!h) {
		fputs("headrace: error: out of memory\n", stderr);
		hr_survey_free(s);
		json_object_put(root);
		return -ENOMEM;
	}
	hr_json_string(root, "answer", hr_headline_answer(s, text));
	list = hr_json_array(root, "headlines");
	for (uint32_t i = 0; i < s->classes; i++)
		put_headline(t, &s->class[i], &h[i], hr_json_append(list));
	put_lines(t, s, root, true);
	put_lines(t, s, root, false);
	err = print(t, root, true, true, s, code);
	free(h);
	hr_survey_free(s);
	return err;
}
