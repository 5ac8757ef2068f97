/* SPDX-License-Identifier: Apache-2.0 */
/* --what-if and --baseline: verdicts before and after, and other differences. */
#include "boot/cmd/topo/views/views.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "pci/topo/forecast/change.h"
#include "pci/topo/rules/groups.h"
#include "pci/topo/source/source.h"
#include "config/base/log.h"

#define PAIRS_MAX (1u << 20) /* verdicts that are stored for the comparison */

struct before {
	uint32_t gpus, ssds;
	int32_t *gpu, *ssd;
	uint8_t *verdict, *rule;
};

static int keep_pairs(struct hr_topo *t, struct before *b)
{
	const struct hr_topology *e = &t->topology;
	uint64_t pairs = (uint64_t)e->gpus * e->ssds, n = 0;
	struct hr_pair p;

	if (pairs > PAIRS_MAX) {
		hr_error("more than %u pairs to compare", PAIRS_MAX);
		return HR_TOPO_USAGE;
	}
	*b = (struct before){ e->gpus, e->ssds, e->gpu, e->ssd, NULL, NULL };
	b->verdict = hr_model_alloc(&t->model, pairs + 1);
	b->rule = hr_model_alloc(&t->model, pairs + 1);
	if (!b->verdict || !b->rule)
		return HR_TOPO_NO_ACCESS;
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds; j++, n++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			b->verdict[n] = (uint8_t)p.verdict;
			b->rule[n] = p.rule;
		}
	return 0;
}

/* Pairs of one GPU with consecutive SSDs that change alike share a line. */
struct run {
	struct hr_pair pair; /* the first one */
	char old[48], new[48];
	unsigned long from, to; /* numbers of the SSDs */
	bool open;
};

static void end_run(const struct hr_topo *t, struct run *r)
{
	char gpu[16], ssd[48];

	if (!r->open)
		return;
	r->open = false;
	hr_topo_name(t, r->pair.ssd, ssd);
	if (r->to > r->from)
		snprintf(ssd + strlen(ssd), sizeof ssd - strlen(ssd), "-%lu", r->to);
	fprintf(t->out, "%s to %s: %s -> %s%s%s (rule %s)\n", hr_topo_name(t, r->pair.gpu, gpu),
		ssd, r->old, hr_topo_colour(t, r->pair.verdict), r->new, hr_topo_reset(t),
		hr_rules[r->pair.rule].id);
}

static void add_to_run(const struct hr_topo *t, struct run *r, const struct hr_pair *p,
		       const char *old, const char *new)
{
	char ssd[16];
	const unsigned long number = strtoul(hr_topo_name(t, p->ssd, ssd) + 4, NULL, 10);

	if (r->open && r->pair.gpu == p->gpu && r->to + 1 == number && r->pair.rule == p->rule &&
	    strcmp(r->old, old) == 0 && strcmp(r->new, new) == 0) {
		r->to = number;
		return;
	}
	end_run(t, r);
	*r = (struct run){ .pair = *p, .from = number, .to = number, .open = true };
	snprintf(r->old, sizeof r->old, "%s", old);
	snprintf(r->new, sizeof r->new, "%s", new);
}

/* Show one pair whose verdict was `old`: in the open array, or as a part of a line. */
static void put_change(const struct hr_topo *t, struct run *r, const struct hr_pair *p,
		       const char *old, const char *new)
{
	struct hr_json *const o = t->json;

	if (!o) {
		add_to_run(t, r, p, old, new);
		return;
	}
	hr_json_object(o, NULL);
	hr_topo_json_ends(t, o, p->gpu, p->ssd);
	hr_json_string(o, "before", old);
	hr_json_string(o, "after", new);
	hr_json_string(o, "rule", hr_rules[p->rule].id);
	hr_json_close(o);
}

static void show_changes(const struct hr_topo *t, const struct before *b)
{
	uint64_t n = 0, changed = 0;
	struct run run = { .open = false };
	char old[48], new[48];
	struct hr_pair p;

	if (t->json)
		hr_json_array(t->json, "changes");
	for (uint32_t i = 0; i < b->gpus; i++)
		for (uint32_t j = 0; j < b->ssds; j++, n++) {
			hr_pair_evaluate(&t->topology, b->gpu[i], b->ssd[j], &p);
			hr_verdict_text((enum hr_verdict)b->verdict[n], b->rule[n], old);
			hr_verdict_text(p.verdict, p.rule, new);
			if (strcmp(old, new) == 0 && !t->all)
				continue;
			changed += strcmp(old, new) != 0;
			put_change(t, &run, &p, old, new);
		}
	end_run(t, &run);
	if (t->json) {
		hr_json_close(t->json);
		hr_json_u64(t->json, "pairs_judged", n);
		return;
	}
	fprintf(t->out, "%llu of %llu pairs change\n", (unsigned long long)changed,
		(unsigned long long)n);
}

/* Predict the kernel's groups; none without an IOMMU. */
static int predict(struct hr_topo *t, uint32_t *count)
{
	struct hr_groups groups = { 0 };

	*count = 0;
	if (t->topology.iommu == HR_IOMMU_OFF)
		return 0;
	if (hr_groups_at_boot(&t->model, &t->topology.boot, &groups))
		return HR_TOPO_NO_ACCESS;
	*count = groups.count;
	return 0;
}

static void put_group_counts(struct hr_topo *t, uint32_t before, uint32_t after)
{
	if (t->json) {
		hr_json_u64(t->json, "predicted_groups_before", before);
		hr_json_u64(t->json, "predicted_groups_after", after);
		t->json_pairs = true;
		return;
	}
	fprintf(t->out, "IOMMU groups predicted: %u -> %u%s\n", before, after,
		t->topology.iommu == HR_IOMMU_OFF ? " (IOMMU off)" : "");
}

/* Show the direct effects of a boot, before the verdicts. */
static void put_boot(const struct hr_topo *t)
{
	static const char *const mode[] = { "unknown", "off", "passthrough", "translating" };
	uint32_t redirecting = 0;

	for (uint32_t i = 0; i < t->model.count; i++)
		redirecting += t->topology.derived[i].redirect;
	if (!t->model.booted)
		return;
	if (t->json) {
		hr_json_object(t->json, "boot");
		hr_json_string(t->json, "iommu", mode[t->topology.iommu]);
		hr_json_u64(t->json, "functions_redirecting", redirecting);
		hr_json_close(t->json);
		return;
	}
	fprintf(t->out, "after that boot: IOMMU %s; ACS redirects at %u functions\n",
		mode[t->topology.iommu], redirecting);
}

static int change_all(struct hr_topo *t, const char *const *changes, unsigned n)
{
	struct hr_error e = { 0 };

	for (unsigned i = 0; i < n; i++)
		if (hr_change_apply(&t->model, &t->opt, changes[i], &e)) {
			hr_error_context(&e, "--what-if %s", changes[i]);
			hr_error_log(&e, HR_LOG_ERROR);
			return HR_TOPO_USAGE;
		}
	if (hr_model_connect(&t->model))
		return HR_TOPO_NO_ACCESS;
	if (hr_change_check(&t->model, &e)) {
		hr_error_context(&e, "--what-if move");
		hr_error_log(&e, HR_LOG_ERROR);
		return HR_TOPO_USAGE;
	}
	return hr_topo_evaluate(t, &t->topology, &t->model) ? HR_TOPO_NO_ACCESS : 0;
}

int hr_topo_whatif(struct hr_topo *t, const char *const *changes, unsigned n)
{
	uint32_t before, after;
	struct before b;
	int err = keep_pairs(t, &b);

	if (!err)
		err = predict(t, &before);
	if (!err)
		err = change_all(t, changes, n);
	if (!err)
		err = predict(t, &after);
	if (err)
		return err;
	if (t->json)
		hr_topo_json_start(t);
	put_boot(t);
	show_changes(t, &b);
	put_group_counts(t, before, after);
	return (int)hr_topo_exit_all(t);
}

/* ---- --baseline */

/* Facts whose changes --baseline reports, and their texts. */
static const enum hr_fact_id watched[] = { HR_F_VENDOR, HR_F_DEVICE, HR_F_ACS_CTL, HR_F_MPS,
					   HR_F_WIDTH,	HR_F_SPEED,  HR_F_COMMAND, HR_F_GROUP,
					   HR_F_NUMA,	HR_F_PM };

static void put_fact_change(const struct hr_topo *t, const struct hr_fn *old,
			    const struct hr_fn *new, enum hr_fact_id id)
{
	const char *format = hr_fact_is_hex(id) ? "%s: %s 0x%04x -> 0x%04x\n" : "%s: %s %u -> %u\n";
	struct hr_json *const o = t->json;
	char bdf[HR_BDF_MAX];

	if (!o) {
		fprintf(t->out, format, hr_bdf(new, bdf), hr_fact_name(id), old->fact[id].value,
			new->fact[id].value);
		return;
	}
	hr_json_object(o, NULL);
	hr_json_string(o, "address", hr_bdf(new, bdf));
	hr_json_string(o, "fact", hr_fact_name(id));
	hr_json_u64(o, "before", old->fact[id].value);
	hr_json_u64(o, "after", new->fact[id].value);
	hr_json_close(o);
}

/* Show a function that exists only now, or existed only before. */
static void put_function_change(const struct hr_topo *t, const struct hr_fn *f, const char *what)
{
	struct hr_json *const o = t->json;
	char bdf[HR_BDF_MAX];

	if (!o) {
		fprintf(t->out, "%s: %s: %.*s\n", hr_bdf(f, bdf), what, hr_topo_fit(f->name, 80),
			f->name);
		return;
	}
	hr_json_object(o, NULL);
	hr_json_string(o, "address", hr_bdf(f, bdf));
	hr_json_string(o, "function", what);
	hr_json_string(o, "title", f->name);
	hr_json_close(o);
}

static unsigned compare_functions(const struct hr_topo *t, const struct hr_fn *old,
				  const struct hr_fn *new)
{
	unsigned changes = 0;

	for (unsigned i = 0; i < sizeof watched / sizeof *watched; i++) {
		enum hr_fact_id id = watched[i];

		/* The link speed of an idle GPU changes all the time. */
		if (!hr_known(old, id) || !hr_known(new, id) ||
		    old->fact[id].value == new->fact[id].value ||
		    (id == HR_F_SPEED && hr_is_gpu(new)))
			continue;
		put_fact_change(t, old, new, id);
		changes++;
	}
	return changes;
}

static int32_t same_place(const struct hr_model *m, const struct hr_fn *f)
{
	return hr_model_find(m, f->domain, f->bus, f->dev, f->fn);
}

unsigned hr_topo_compare_facts(const struct hr_topo *t, const struct hr_model *old)
{
	unsigned changes = 0;

	if (t->json)
		hr_json_array(t->json, "facts");
	for (uint32_t i = 0; i < t->model.count; i++) {
		const struct hr_fn *f = &t->model.fn[i];
		int32_t was = same_place(old, f);

		if (was == HR_NO_FN) {
			put_function_change(t, f, "new");
			changes++;
		} else {
			changes += compare_functions(t, &old->fn[was], f);
		}
	}
	for (uint32_t i = 0; i < old->count; i++)
		if (same_place(&t->model, &old->fn[i]) == HR_NO_FN) {
			put_function_change(t, &old->fn[i], "gone");
			changes++;
		}
	if (t->json)
		hr_json_close(t->json);
	return changes;
}

unsigned hr_topo_compare_verdicts(const struct hr_topo *t, const struct hr_topology *old)
{
	const struct hr_topology *e = &t->topology;
	struct run run = { .open = false };
	char was[48], is[48];
	unsigned changes = 0;
	struct hr_pair p, q;

	if (t->json)
		hr_json_array(t->json, "verdicts");
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds; j++) {
			int32_t a = same_place(old->m, &t->model.fn[e->gpu[i]]);
			int32_t b = same_place(old->m, &t->model.fn[e->ssd[j]]);

			if (a == HR_NO_FN || b == HR_NO_FN)
				continue;
			hr_pair_evaluate(old, a, b, &q);
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			hr_verdict_text(q.verdict, q.rule, was);
			hr_verdict_text(p.verdict, p.rule, is);
			if (strcmp(was, is) == 0)
				continue;
			put_change(t, &run, &p, was, is);
			changes++;
		}
	end_run(t, &run);
	if (t->json)
		hr_json_close(t->json);
	return changes;
}

int hr_topo_baseline(const struct hr_topo *t, const char *file)
{
	static struct hr_model old;
	static struct hr_topology topology;
	unsigned changes;
	int err = hr_model_init(&old);

	if (!err)
		err = hr_source_open(&old, file);
	if (!err)
		err = hr_topo_evaluate(t, &topology, &old);
	if (err) {
		hr_error_report(&old.error, err);
		hr_model_fini(&old);
		return HR_TOPO_BAD_INPUT;
	}
	if (t->json)
		hr_topo_json_start(t);
	changes = hr_topo_compare_facts(t, &old);
	changes += hr_topo_compare_verdicts(t, &topology);
	if (t->json)
		hr_json_u64(t->json, "differences", changes);
	else
		fprintf(t->out, "%u differences from %s\n", changes, file);
	hr_model_fini(&old);
	return changes ? HR_TOPO_CHANGED : HR_TOPO_DIRECT;
}
