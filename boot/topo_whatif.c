/* --what-if and --baseline: verdicts before and after, and what else moved. */
#include "boot/topo.h"

#include <string.h>

#include "pci/change.h"
#include "pci/groups.h"
#include "pci/source.h"

#define PAIRS_MAX (1u << 20) /* verdicts that are kept for comparison */

struct before {
	uint32_t gpus, ssds;
	int32_t *gpu, *ssd;
	uint8_t *verdict, *rule;
};

static int keep(struct hr_topo *t, struct before *b)
{
	const struct hr_engine *e = &t->engine;
	uint64_t pairs = (uint64_t)e->gpus * e->ssds, n = 0;
	struct hr_pair p;

	if (pairs > PAIRS_MAX) {
		fprintf(stderr, "headrace: error: more than %u pairs to compare\n", PAIRS_MAX);
		return HR_TOPO_USAGE;
	}
	*b = (struct before){ e->gpus, e->ssds, e->gpu, e->ssd, NULL, NULL };
	b->verdict = hr_model_alloc(&t->model, pairs + 1);
	b->rule = hr_model_alloc(&t->model, pairs + 1);
	if (!b->verdict || !b->rule)
		return HR_TOPO_NO_ACCESS;
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds; j++, n++) {
			hr_judge(e, e->gpu[i], e->ssd[j], &p);
			b->verdict[n] = (uint8_t)p.verdict;
			b->rule[n] = p.rule;
		}
	return 0;
}

static void show_changes(const struct hr_topo *t, const struct before *b)
{
	char gpu[16], ssd[16], old[48], new[48];
	uint64_t n = 0, changed = 0;
	struct hr_pair p;

	for (uint32_t i = 0; i < b->gpus; i++)
		for (uint32_t j = 0; j < b->ssds; j++, n++) {
			hr_judge(&t->engine, b->gpu[i], b->ssd[j], &p);
			hr_verdict_text((enum hr_verdict)b->verdict[n], b->rule[n], old);
			hr_verdict_text(p.verdict, p.rule, new);
			if (strcmp(old, new) == 0 && !t->all)
				continue;
			changed += strcmp(old, new) != 0;
			fprintf(t->out, "%s to %s: %s -> %s%s%s (rule %s)\n",
				hr_topo_name(t, b->gpu[i], gpu), hr_topo_name(t, b->ssd[j], ssd),
				old, hr_topo_colour(t, p.verdict), new, hr_topo_reset(t),
				hr_rules[p.rule].id);
		}
	fprintf(t->out, "%llu of %llu pairs change\n", (unsigned long long)changed,
		(unsigned long long)n);
}

static int change_all(struct hr_topo *t, const char *const *changes, unsigned n)
{
	char message[160];

	for (unsigned i = 0; i < n; i++)
		if (hr_change_apply(&t->model, &t->opt, changes[i], message)) {
			fprintf(stderr, "headrace: error: --what-if %s: %s\n", changes[i], message);
			return HR_TOPO_USAGE;
		}
	if (hr_model_link(&t->model) || hr_engine_init(&t->engine, &t->model, &t->opt))
		return HR_TOPO_NO_ACCESS;
	return 0;
}

int hr_topo_whatif(struct hr_topo *t, const char *const *changes, unsigned n)
{
	struct hr_groups groups;
	struct before b;
	uint32_t count;
	int err = keep(t, &b);

	if (err)
		return err;
	if (hr_groups_predict(&t->model, &groups))
		return HR_TOPO_NO_ACCESS;
	count = groups.count;
	err = change_all(t, changes, n);
	if (err)
		return err;
	show_changes(t, &b);
	if (hr_groups_predict(&t->model, &groups))
		return HR_TOPO_NO_ACCESS;
	fprintf(t->out, "IOMMU groups predicted: %u -> %u\n", count, groups.count);
	return (int)hr_topo_exit_all(t);
}

/* ---- --baseline */

/* Facts whose change matters to a fleet, and how to say it. */
static const enum hr_fact_id watched[] = { HR_F_VENDOR, HR_F_DEVICE, HR_F_ACS_CTL, HR_F_MPS,
					   HR_F_WIDTH,	HR_F_SPEED,  HR_F_COMMAND, HR_F_GROUP,
					   HR_F_NUMA,	HR_F_PM };

static unsigned compare_functions(FILE *out, const struct hr_fn *old, const struct hr_fn *new)
{
	unsigned changes = 0;
	char bdf[HR_BDF_MAX];

	for (unsigned i = 0; i < sizeof watched / sizeof *watched; i++) {
		enum hr_fact_id id = watched[i];
		const char *format =
			hr_fact_is_hex(id) ? "%s: %s 0x%04x -> 0x%04x\n" : "%s: %s %u -> %u\n";

		/* An idle GPU's link speed comes and goes. */
		if (!hr_known(old, id) || !hr_known(new, id) ||
		    old->fact[id].value == new->fact[id].value ||
		    (id == HR_F_SPEED && hr_is_gpu(new)))
			continue;
		fprintf(out, format, hr_bdf(new, bdf), hr_fact_name(id), old->fact[id].value,
			new->fact[id].value);
		changes++;
	}
	return changes;
}

static int32_t same_place(const struct hr_model *m, const struct hr_fn *f)
{
	return hr_model_find(m, f->domain, f->bus, f->dev, f->fn);
}

static unsigned compare_models(const struct hr_topo *t, const struct hr_model *old)
{
	unsigned changes = 0;
	char bdf[HR_BDF_MAX];

	for (uint32_t i = 0; i < t->model.count; i++) {
		const struct hr_fn *f = &t->model.fn[i];
		int32_t was = same_place(old, f);

		if (was == HR_NO_FN) {
			fprintf(t->out, "%s: new: %.80s\n", hr_bdf(f, bdf), f->name);
			changes++;
		} else {
			changes += compare_functions(t->out, &old->fn[was], f);
		}
	}
	for (uint32_t i = 0; i < old->count; i++)
		if (same_place(&t->model, &old->fn[i]) == HR_NO_FN) {
			fprintf(t->out, "%s: gone: %.80s\n", hr_bdf(&old->fn[i], bdf),
				old->fn[i].name);
			changes++;
		}
	return changes;
}

static unsigned compare_verdicts(const struct hr_topo *t, const struct hr_engine *old)
{
	const struct hr_engine *e = &t->engine;
	char gpu[16], ssd[16], was[48], is[48];
	unsigned changes = 0;
	struct hr_pair p, q;

	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds; j++) {
			int32_t a = same_place(old->m, &t->model.fn[e->gpu[i]]);
			int32_t b = same_place(old->m, &t->model.fn[e->ssd[j]]);

			if (a == HR_NO_FN || b == HR_NO_FN)
				continue;
			hr_judge(old, a, b, &q);
			hr_judge(e, e->gpu[i], e->ssd[j], &p);
			hr_verdict_text(q.verdict, q.rule, was);
			hr_verdict_text(p.verdict, p.rule, is);
			if (strcmp(was, is) == 0)
				continue;
			fprintf(t->out, "%s to %s: %s -> %s (rule %s)\n",
				hr_topo_name(t, p.gpu, gpu), hr_topo_name(t, p.ssd, ssd), was, is,
				hr_rules[p.rule].id);
			changes++;
		}
	return changes;
}

int hr_topo_baseline(const struct hr_topo *t, const char *file)
{
	static struct hr_model old;
	static struct hr_engine engine;
	unsigned changes;
	int err = hr_model_init(&old);

	if (!err)
		err = hr_source_open(&old, file);
	if (!err)
		err = hr_engine_init(&engine, &old, &t->opt);
	if (err) {
		fprintf(stderr, "headrace: error: %s\n",
			old.message[0] ? old.message : strerror(-err));
		hr_model_fini(&old);
		return HR_TOPO_BAD_INPUT;
	}
	changes = compare_models(t, &old) + compare_verdicts(t, &engine);
	fprintf(t->out, "%u differences from %s\n", changes, file);
	hr_model_fini(&old);
	return changes ? HR_TOPO_CHANGED : HR_TOPO_DIRECT;
}
