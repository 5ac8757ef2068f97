/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo/headline.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "pci/topo/forecast/rates.h"
#include "pci/topo/forecast/change.h"
#include "pci/topo/rules/explain.h"
#include "config/base/text.h"

#define BLOCKS_NAMED 8u
#define BLOCKS_OTHERS 4u      /* sets of one headline */
#define FUNCTIONS_PAIRS 1024u /* pairs that are examined for further functions */
#define FIX_PAIRS (1u << 16)  /* the ports of a fix are counted up to this number of pairs */
#define AT_ONCE 256u	      /* SSDs whose rates are computed together */
#define PORTS_NAMED 2u

static void format_members(const struct hr_class *c, struct hr_headline *h)
{
	const uint32_t most = c->same_switch ? BLOCKS_NAMED : BLOCKS_OTHERS;
	uint32_t named = 0;
	char gpu[64], ssd[64];

	h->members[0] = '\0';
	for (; named < c->rectangles && named < most; named++) {
		hr_set_text("GPU", &c->rectangle[named].gpu, gpu, sizeof gpu);
		hr_set_text("NVME", &c->rectangle[named].ssd, ssd, sizeof ssd);
		if (strlen(h->members) + strlen(gpu) + strlen(ssd) + 40 > sizeof h->members)
			break;
		hr_text_append(h->members, sizeof h->members, "%s%s with %s", named ? ", " : "",
			       gpu, ssd);
	}
	if (named < c->rectangles || c->cut)
		hr_text_append(h->members, sizeof h->members, " and more");
}

/* ---- description */

/* The finding that decided. A rule on pairs names no function. */
static struct hr_finding decided(const struct hr_topo *t, const struct hr_pair *p)
{
	struct hr_finding found[64];
	unsigned n = hr_findings(&t->topology, p, found, 64);

	for (unsigned i = 0; i < n && i < 64; i++)
		if (found[i].rule == p->rule)
			return found[i];
	return (struct hr_finding){ p->rule, HR_NO_FN, 0 };
}

struct functions {
	int32_t fn[32];
	unsigned fns;
	unsigned pairs; /* pairs that were examined */
};

static void add_function(struct functions *l, int32_t fn)
{
	for (unsigned i = 0; i < l->fns; i++)
		if (l->fn[i] == fn)
			return;
	if (l->fns < sizeof l->fn / sizeof *l->fn)
		l->fn[l->fns++] = fn;
}

static uint32_t set_member(const struct hr_set *set, uint32_t at)
{
	for (uint32_t i = 0; i < set->ranges && i < HR_RANGES_MAX; i++) {
		if (at <= set->range[i].to - set->range[i].from)
			return set->range[i].from + at;
		at -= set->range[i].to - set->range[i].from + 1;
	}
	return UINT32_MAX;
}

static void find_functions(const struct hr_topo *t, const struct hr_class *c,
			   const struct hr_rectangle *b, struct functions *l)
{
	const struct hr_topology *e = &t->topology;
	struct hr_pair p;

	for (uint32_t i = 0, gpu; (gpu = set_member(&b->gpu, i)) != UINT32_MAX; i++)
		for (uint32_t j = 0, ssd; (ssd = set_member(&b->ssd, j)) != UINT32_MAX; j++) {
			if (l->pairs++ >= FUNCTIONS_PAIRS)
				return;
			hr_pair_evaluate(e, e->gpu[gpu], e->ssd[ssd], &p);
			if (p.rule == c->pair.rule)
				add_function(l, decided(t, &p).fn);
		}
}

/* Functions other than the first one at which the deciding rule was found. */
static unsigned more_functions(const struct hr_topo *t, const struct hr_class *c)
{
	struct functions l = { .fns = 0 };

	for (uint32_t i = 0; i < c->rectangles; i++)
		find_functions(t, c, &c->rectangle[i], &l);
	return l.fns > 1 ? l.fns - 1 : 0;
}

static const char *through(const struct hr_pair *p)
{
	if (p->listed)
		return "the CPU's root complex, which the kernel trusts with peers";
	return p->root_unread
		       ? "a root complex that the capture does not identify"
		       : "the CPU's root complex, which the kernel does not trust with peers";
}

static const char *apart(const struct hr_class *c, const char *distance)
{
	if (c->same_switch)
		return "share a switch";
	if (c->pair.cut)
		return "bridges missing from the capture";
	if (strcmp(distance, "SYS") == 0)
		return "no common switch, different sockets";
	return strcmp(distance, "NODE") == 0 ? "no common switch, different host bridges"
					     : "no common switch";
}

static void format_cause(const struct hr_topo *t, const struct hr_class *c, struct hr_headline *h)
{
	const struct hr_pair *p = &c->pair;
	const struct hr_finding f = decided(t, p);
	const unsigned more = f.fn == HR_NO_FN ? 0 : more_functions(t, c);
	const char *distance = hr_distance_word(&t->topology, p), *begin;
	char why[512];

	h->what[0] = '\0';
	begin = apart(c, distance);
	switch (p->verdict) {
	case HR_DIRECT:
		hr_text_append(h->what, sizeof h->what, "%s: data goes direct%s", begin,
			       p->modifiers & HR_MOD_BOOT ? " until the next boot" : "");
		return;
	case HR_RC_LISTED:
	case HR_RC_UNLISTED:
		hr_text_append(h->what, sizeof h->what, "%s: data goes through %s", begin,
			       through(p));
		return;
	case HR_REDIR_LISTED:
	case HR_REDIR_UNLISTED:
		hr_text_append(h->what, sizeof h->what, "%s, but %s through %s", begin,
			       p->any_redirect ? "ACS sends the data"
					       : "addresses of the IOMMU lead",
			       through(p));
		return;
	default:
		break;
	}
	hr_rule_text(&t->topology, p, &f, hr_rules[p->rule].why, why, sizeof why);
	hr_text_append(h->what, sizeof h->what, "%s: %s",
		       p->verdict == HR_UNKNOWN	      ? "not known"
		       : p->verdict == HR_SILENT_LOSS ? "data is lost"
		       : p->verdict == HR_WRITES_ONLY ? "writes only"
						      : "no path",
		       why);
	if (more)
		hr_text_append(h->what, sizeof h->what, " (and the same at %u other function%s)",
			       more, more == 1 ? "" : "s");
}

static void format_terms(const struct hr_topo *t, const struct hr_class *c, struct hr_headline *h)
{
	const struct hr_pair *p = &c->pair;
	const uint8_t used = hr_mode_flows(t->opt.mode);
	char verdict[48], modifiers[HR_MODIFIERS_TEXT];
	bool differ = false;

	h->terms[0] = '\0';
	hr_text_append(h->terms, sizeof h->terms, "%s, rule %s, kernel %s, %s",
		       hr_verdict_text(p->verdict, p->rule, verdict), hr_rules[p->rule].id,
		       hr_kernel_text(p->kernel), hr_distance_word(&t->topology, p));
	for (unsigned i = 0; i < HR_FLOWS; i++)
		differ |= used >> i & 1 && p->flow[i] != p->verdict;
	for (unsigned i = 0; i < HR_FLOWS && differ; i++)
		if (used >> i & 1)
			hr_text_append(h->terms, sizeof h->terms, "%s F%u %s", i ? "," : ";", i + 1,
				       hr_verdict_text(p->flow[i], p->flow_rule[i], verdict));
	if (p->modifiers & HR_MOD_DEGRADED)
		hr_text_append(h->terms, sizeof h->terms, "; degraded: %s",
			       hr_topo_modifiers(p->modifiers & HR_MOD_DEGRADED, modifiers));
}

/* ---- rates */

/* Each SSD of the class once, with one GPU of its rectangle after another. */
static unsigned flows_of(const struct hr_topo *t, const struct hr_class *c, struct hr_rate *rate)
{
	const struct hr_topology *e = &t->topology;
	unsigned n = 0;

	for (uint32_t b = 0; b < c->rectangles; b++)
		for (uint32_t j = 0; j < c->rectangle[b].ssd.count && n < AT_ONCE; j++) {
			const uint32_t ssd = set_member(&c->rectangle[b].ssd, j);
			const struct hr_set *gpus = &c->rectangle[b].gpu;
			uint32_t gpu = set_member(gpus, gpus->count ? j % gpus->count : 0);
			bool have = ssd == UINT32_MAX || gpu == UINT32_MAX;

			for (unsigned k = 0; k < n && !have; k++)
				have = rate[k].ssd == e->ssd[ssd];
			if (!have)
				rate[n++] =
					(struct hr_rate){ .gpu = e->gpu[gpu], .ssd = e->ssd[ssd] };
		}
	return n;
}

static void format_rate(struct hr_topo *t, const struct hr_class *c, struct hr_headline *h)
{
	struct hr_rate one = { .gpu = c->pair.gpu, .ssd = c->pair.ssd }, rate[AT_ONCE];
	const unsigned n = flows_of(t, c, rate);
	char each[64] = "";
	double from, to;

	h->rate[0] = '\0';
	h->alone_gbs = h->least_gbs = h->most_gbs = 0;
	h->bound = false;
	if (hr_verdict_order(c->pair.verdict) > hr_verdict_order(HR_WRITES_ONLY) ||
	    hr_rates_solve(&t->topology, &t->model, HR_TO_GPU, &one, 1) || one.gbs <= 0 || n == 0 ||
	    hr_rates_solve(&t->topology, &t->model, HR_TO_GPU, rate, n))
		return;
	h->alone_gbs = one.gbs;
	h->least_gbs = h->most_gbs = rate[0].gbs;
	for (unsigned i = 1; i < n; i++) {
		h->least_gbs = rate[i].gbs < h->least_gbs ? rate[i].gbs : h->least_gbs;
		h->most_gbs = rate[i].gbs > h->most_gbs ? rate[i].gbs : h->most_gbs;
	}
	if (h->least_gbs < 0.05)
		h->least_gbs = h->most_gbs = 0;
	h->bound = hr_rates_are_bounds(&t->topology, rate, n);
	if (hr_rate_range(&t->topology, &one, &from, &to)) {
		snprintf(h->rate, sizeof h->rate, "%.1f to %.1f GB/s%s (model of a tunnel)", from,
			 to, n > 1 ? " alone" : "");
		return;
	}
	if (h->most_gbs - h->least_gbs > 0.05)
		snprintf(each, sizeof each, "%s%.1f to %.1f GB/s each", h->bound ? "at most " : "",
			 h->least_gbs, h->most_gbs);
	else
		snprintf(each, sizeof each, "%s%.1f GB/s%s", h->bound ? "at most " : "",
			 h->most_gbs, n > 1 ? " each" : "");
	if (h->most_gbs <= 0)
		snprintf(h->rate, sizeof h->rate, "%.1f GB/s alone", one.gbs);
	else if (n > 1 && one.gbs > 1.05 * h->least_gbs)
		snprintf(h->rate, sizeof h->rate, "%.1f GB/s alone, %s when all %u SSDs send",
			 one.gbs, each, n);
	else
		snprintf(h->rate, sizeof h->rate, "%s", each);
}

/* ---- remedy */

static bool same_class(void *to, const struct hr_pair *p)
{
	const struct hr_pair *want = to;

	return p->verdict == want->verdict && p->rule == want->rule &&
	       (p->modifiers & HR_MOD_DEGRADED) == (want->modifiers & HR_MOD_DEGRADED);
}

/* What to do before the path is used as it is. */
static void format_until_fixed(const struct hr_topo *t, const struct hr_class *c,
			       struct hr_headline *h)
{
	const struct hr_finding f = decided(t, &c->pair);
	const size_t used = strlen(h->remedy);

	hr_rule_text(&t->topology, &c->pair, &f, "; until then " HR_COMPARE_DATA, h->remedy + used,
		     sizeof h->remedy - used);
}

/*
 * Describe the ports that a fix of this class changes. False: ACS is not the cause, or the fix is
 * too large.
 */
static bool format_fix(const struct hr_topo *t, const struct hr_class *c, struct hr_headline *h)
{
	const char *lockdown = t->model.sys.lockdown;
	struct hr_pair want = c->pair;
	struct hr_fix *fix;
	char bdf[HR_BDF_MAX];
	bool named;

	if (!c->pair.any_redirect ||
	    (c->pair.verdict != HR_REDIR_LISTED && c->pair.verdict != HR_REDIR_UNLISTED))
		return false;
	fix = calloc(1, sizeof *fix);
	if (!fix || (uint64_t)t->topology.gpus * t->topology.ssds > FIX_PAIRS ||
	    hr_fix_plan(&t->topology, same_class, &want, fix) || fix->count == 0) {
		free(fix);
		return false;
	}
	named = fix->count <= PORTS_NAMED;
	if (!lockdown[0] || strcmp(lockdown, "none") == 0)
		hr_text_append(h->remedy, sizeof h->remedy, "%u setpci command%s, or ", fix->count,
			       fix->count == 1 ? "" : "s");
	hr_text_append(h->remedy, sizeof h->remedy, "pci=disable_acs_redir=");
	for (unsigned i = 0; i < fix->count && named; i++)
		hr_text_append(h->remedy, sizeof h->remedy, "%s%s", i ? ";" : "",
			       hr_bdf(&t->model.fn[fix->write[i].fn], bdf));
	if (!named)
		hr_text_append(h->remedy, sizeof h->remedy, "... with %u ports", fix->count);
	hr_text_append(
		h->remedy, sizeof h->remedy,
		" at boot, make%s it direct; headrace topo --fix prints them and what else changes",
		fix->count == 1 && lockdown[0] && strcmp(lockdown, "none") != 0 ? "s" : "");
	free(fix);
	if (c->pair.verdict == HR_REDIR_UNLISTED)
		format_until_fixed(t, c, h);
	return true;
}

static void format_remedy(const struct hr_topo *t, const struct hr_class *c, struct hr_headline *h)
{
	const struct hr_rule *r = &hr_rules[c->pair.rule];
	const struct hr_finding f = decided(t, &c->pair);

	h->remedy[0] = '\0';
	if (c->pair.verdict != HR_DIRECT && !format_fix(t, c, h) && r->fix)
		hr_rule_text(&t->topology, &c->pair, &f, r->fix, h->remedy, sizeof h->remedy);
}

void hr_headline_make(struct hr_topo *t, const struct hr_class *c, struct hr_headline *h)
{
	format_members(c, h);
	format_cause(t, c, h);
	format_terms(t, c, h);
	format_rate(t, c, h);
	format_remedy(t, c, h);
}

struct hr_headline *hr_headlines_new(struct hr_topo *t, const struct hr_survey *s, uint32_t n)
{
	struct hr_headline *list = calloc(s->classes + 1, sizeof *list);

	for (uint32_t i = 0; list && i < s->classes && i < n; i++)
		hr_headline_make(t, &s->class[i], &list[i]);
	return list;
}

static void count_verdicts(const uint64_t *by, const char *one, const char *many, char *text)
{
	uint64_t pairs = 0;
	char verdict[48];

	for (unsigned v = 0; v < HR_VERDICTS; v++)
		pairs += by[v];
	if (!pairs)
		return;
	hr_text_append(text, 512, "%s%llu pair%s %s:", text[0] ? "; " : "",
		       (unsigned long long)pairs, pairs == 1 ? "" : "s", pairs == 1 ? one : many);
	for (unsigned v = 0; v < HR_VERDICTS; v++)
		if (by[v])
			hr_text_append(text, 512, " %llu %s", (unsigned long long)by[v],
				       hr_verdict_text((enum hr_verdict)v, HR_RULES_MAX, verdict));
}

char *hr_headline_answer(const struct hr_survey *s, char *text)
{
	text[0] = '\0';
	count_verdicts(s->with_switch, "shares a switch", "share a switch", text);
	count_verdicts(s->without_switch, "does not share a switch", "do not share a switch", text);
	count_verdicts(s->cut, "lacks bridges in the capture", "lack bridges in the capture", text);
	count_verdicts(s->guest, "is in a virtual machine", "are in a virtual machine", text);
	if (s->sum.degraded)
		hr_text_append(text, 512, "; %llu degraded", (unsigned long long)s->sum.degraded);
	return text;
}
