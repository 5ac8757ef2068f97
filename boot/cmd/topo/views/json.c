/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of --json: verdicts, --explain, --rules. */
#include "boot/cmd/topo/views/views.h"

#include <stdlib.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/headline.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/survey.h"
#include "config/base/log.h"
#include "pci/path.h"
#include "pci/topo/rules/explain.h"

static void put_functions(const struct hr_topo *t, struct hr_json *out)
{
	hr_json_array(out, "functions");
	for (uint32_t i = 0; i < t->model.count && !out->error; i++)
		hr_topo_json_function(t, out, (int32_t)i);
	hr_json_close(out);
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
		hr_topo_json_function(t, out, path[i]);
	if (p->common != HR_NO_FN)
		hr_topo_json_function(t, out, p->common);
	n = hr_functions_below(&t->model, p->ssd, p->common, path, HR_DEPTH_MAX + 1);
	while (n--)
		hr_topo_json_function(t, out, path[n]);
	hr_json_close(out);
}

int hr_topo_json_explain(const struct hr_topo *t, const struct hr_pair *p)
{
	const struct hr_topo_machine machine = hr_topo_machine(t);
	struct hr_path_choice choice;
	struct hr_json out;

	hr_path_evaluate(&t->topology, p->gpu, p->ssd, &choice);
	hr_topo_json_begin(&out, t->out, t, "explain", &machine);
	hr_topo_json_verdict(t, &out, p, NULL);
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

	hr_topo_json_open(&out, t->out, "rules");
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
		hr_topo_peers_json(t, 1u << HR_ENDPOINT_GPU | 1u << HR_ENDPOINT_NIC, &out);
	free(h);
	hr_survey_free(s);
	return hr_topo_json_end(&out, code);
}
