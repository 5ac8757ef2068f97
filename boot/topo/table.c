/* Tables: the matrix in the manner of nvidia-smi topo -m, and the list of pairs. */
#include "boot/topo/topo.h"

#include <string.h>

#define LIST_MAX 64u	/* pairs in full unless --all */
#define COLUMNS_MAX 12u /* GPUs side by side */

static const char *iommu_word(const struct hr_engine *e)
{
	static const char *const word[] = { "unknown", "off", "passthrough", "translating" };

	return e->iommu == HR_IOMMU_UNKNOWN && e->iommu_active ? "active, mode unknown"
							       : word[e->iommu];
}

static void print_head(const struct hr_topo *t)
{
	const struct hr_model *m = &t->model;
	char version[32] = "newest";

	if (t->opt.kernel)
		snprintf(version, sizeof version, "%u.%u", t->opt.kernel >> 16,
			 t->opt.kernel & 0xffff);
	fprintf(t->out,
		"%s: %u functions, %u root bus%s; IOMMU %s; kernel %s; rules of kernel %s\n",
		m->input, m->count, m->hosts, m->hosts == 1 ? "" : "es", iommu_word(&t->engine),
		m->sys.kernel[0] ? m->sys.kernel : "unknown", version);
	for (uint32_t i = 0; i < m->warnings && i < HR_WARNINGS_KEPT; i++)
		fprintf(t->out, "warning: %s\n", m->warning[i]);
	if (m->warnings > HR_WARNINGS_KEPT)
		fprintf(t->out, "warning: and %u more contradictions\n",
			m->warnings - HR_WARNINGS_KEPT);
}

static void print_names(const struct hr_topo *t, const int32_t *list, uint32_t count)
{
	char name[16], bdf[HR_BDF_MAX];

	for (uint32_t i = 0; i < count && (t->all || i < LIST_MAX); i++) {
		const struct hr_fn *f = &t->model.fn[list[i]];

		fprintf(t->out, "  %-7s %s  %.80s%s%s\n", hr_topo_name(t, list[i], name),
			hr_bdf(f, bdf), hr_topo_title(f),
			f->driver && f->driver[0] ? "  driver " : "", f->driver ? f->driver : "");
	}
	if (!t->all && count > LIST_MAX)
		fprintf(t->out, "  ... and %u more\n", count - LIST_MAX);
}

static void print_cell(const struct hr_topo *t, const struct hr_pair *p)
{
	char text[48], cell[64];
	int width;

	hr_verdict_text(p->verdict, p->rule, text);
	width = snprintf(cell, sizeof cell, "%-4s %s%s", hr_distance_word(&t->engine, p), text,
			 p->modifiers & HR_MOD_DEGRADED ? "*" : "");
	fprintf(t->out, "  %s%s%s%*s", hr_topo_colour(t, p->verdict), cell, hr_topo_reset(t),
		width < 27 ? 27 - width : 0, "");
}

static void print_columns(const struct hr_topo *t, uint32_t from, uint32_t to)
{
	const struct hr_engine *e = &t->engine;
	struct hr_pair p;
	char name[16];

	fprintf(t->out, "%-9s", "");
	for (uint32_t i = from; i < to; i++)
		fprintf(t->out, "  %-27s", hr_topo_name(t, e->gpu[i], name));
	fputc('\n', t->out);
	for (uint32_t j = 0; j < e->ssds; j++) {
		fprintf(t->out, "%-9s", hr_topo_name(t, e->ssd[j], name));
		for (uint32_t i = from; i < to; i++) {
			hr_judge(e, e->gpu[i], e->ssd[j], &p);
			print_cell(t, &p);
		}
		fputc('\n', t->out);
	}
}

void hr_topo_matrix(const struct hr_topo *t)
{
	const struct hr_engine *e = &t->engine;

	if (e->gpus == 0 || e->ssds == 0)
		return;
	for (uint32_t from = 0; from < e->gpus; from += COLUMNS_MAX) {
		fputc('\n', t->out);
		print_columns(t, from, from + COLUMNS_MAX < e->gpus ? from + COLUMNS_MAX : e->gpus);
	}
	fputs("\nPIX one switch, PXB several switches, PHB one host bridge, NODE one NUMA node, "
	      "SYS "
	      "across sockets; * degraded\n",
	      t->out);
}

static void print_pair(const struct hr_topo *t, const struct hr_pair *p)
{
	char gpu[16], ssd[16], text[48], flow[48], modifiers[64];

	fprintf(t->out, "%s to %s: %s%s%s (rule %s)", hr_topo_name(t, p->gpu, gpu),
		hr_topo_name(t, p->ssd, ssd), hr_topo_colour(t, p->verdict),
		hr_verdict_text(p->verdict, p->rule, text), hr_topo_reset(t), hr_rules[p->rule].id);
	fprintf(t->out, "; kernel %s, distance %u;", hr_kernel_text(p->kernel), p->distance);
	for (unsigned f = 0; f < HR_FLOWS; f++)
		fprintf(t->out, " F%u %s", f + 1,
			hr_verdict_text(p->flow[f], p->flow_rule[f], flow));
	if (p->modifiers)
		fprintf(t->out, "; %s", hr_topo_modifiers(p->modifiers, modifiers));
	fputc('\n', t->out);
}

/* Each rule that hit anywhere once, with one place and its remedy. */
struct advice {
	struct hr_hits seen;
	unsigned shown;
};

static void print_advice(const struct hr_topo *t, const struct hr_pair *p, struct advice *a)
{
	struct hr_finding found[64];
	unsigned n = hr_findings(&t->engine, p, found, 64);
	char text[512];

	for (unsigned i = 0; i < n && i < 64; i++) {
		const struct hr_rule *r = &hr_rules[found[i].rule];

		if (hr_hit(&a->seen, found[i].rule) || !found[i].flows || r->verdict == HR_DIRECT)
			continue;
		hr_hit_set(&a->seen, found[i].rule);
		fprintf(t->out, "%s%-9s %s%s\n", a->shown++ ? "" : "\n", r->id,
			hr_rule_text(&t->engine, p, &found[i], r->why, text, sizeof text),
			r->recalled ? " (not confirmed)" : "");
		if (r->fix)
			fprintf(t->out, "          -> %s\n",
				hr_rule_text(&t->engine, p, &found[i], r->fix, text, sizeof text));
	}
}

static void list_pairs(const struct hr_topo *t, uint64_t most)
{
	const struct hr_engine *e = &t->engine;
	struct advice advice = { 0 };
	uint64_t shown = 0;
	struct hr_pair p;

	fputc('\n', t->out);
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds && shown < most; j++, shown++) {
			hr_judge(e, e->gpu[i], e->ssd[j], &p);
			print_pair(t, &p);
		}
	if (shown < (uint64_t)e->gpus * e->ssds)
		fprintf(t->out, "... and %llu more pairs (--all)\n",
			(unsigned long long)((uint64_t)e->gpus * e->ssds - shown));
	shown = 0;
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds && shown < 16 * most; j++, shown++) {
			hr_judge(e, e->gpu[i], e->ssd[j], &p);
			print_advice(t, &p, &advice);
		}
}

static enum hr_topo_exit print_sum(const struct hr_topo *t)
{
	struct hr_topo_sum sum;
	char text[48];

	hr_topo_sum_up(t, &sum);
	fprintf(t->out, "\n%llu pair%s:", (unsigned long long)sum.pairs, sum.pairs == 1 ? "" : "s");
	for (unsigned v = 0; v < HR_VERDICTS; v++)
		if (sum.by_verdict[v])
			fprintf(t->out, " %llu %s", (unsigned long long)sum.by_verdict[v],
				hr_verdict_text((enum hr_verdict)v, HR_RULES_MAX, text));
	if (sum.degraded)
		fprintf(t->out, "; %llu degraded", (unsigned long long)sum.degraded);
	fputc('\n', t->out);
	return sum.exit;
}

static void print_machine(const struct hr_topo *t)
{
	const struct hr_engine *e = &t->engine;
	struct hr_finding found = { .fn = HR_NO_FN, .flows = HR_FLOW_ALL };
	char text[512];

	for (uint32_t i = 0; i < e->machine_rules; i++) {
		const struct hr_rule *r = &hr_rules[e->machine_rule[i]];

		if (!hr_hit(&e->machine, e->machine_rule[i]))
			continue;
		fprintf(t->out, "%-9s %s\n", r->id,
			hr_rule_text(e, NULL, &found, r->why, text, sizeof text));
		if (r->fix)
			fprintf(t->out, "          -> %s\n",
				hr_rule_text(e, NULL, &found, r->fix, text, sizeof text));
	}
}

/* Without a pair, what is known of single cards and ports is still worth saying. */
static void print_loose(const struct hr_topo *t)
{
	const struct hr_engine *e = &t->engine;
	unsigned shown = 0;
	char text[512];

	print_machine(t);
	for (int32_t i = 0; i < (int32_t)t->model.count && shown < LIST_MAX; i++) {
		const struct hr_fn *f = &t->model.fn[i];
		struct hr_pair p = { .gpu = i, .ssd = i, .common = HR_NO_FN };

		if (!hr_is_bridge(f) && !hr_is_gpu(f) && !hr_is_nvme(f))
			continue;
		for (uint32_t j = 0; j < e->fn_rules && shown < LIST_MAX; j++) {
			const struct hr_rule *r = &hr_rules[e->fn_rule[j]];
			struct hr_finding found = { e->fn_rule[j], i, HR_FLOW_ALL };

			if (!hr_hit(&e->derived[i].hits, e->fn_rule[j]))
				continue;
			shown++;
			fprintf(t->out, "%-9s %s\n", r->id,
				hr_rule_text(e, &p, &found, r->why, text, sizeof text));
			if (r->fix)
				fprintf(t->out, "          -> %s\n",
					hr_rule_text(e, &p, &found, r->fix, text, sizeof text));
		}
	}
}

enum hr_topo_exit hr_topo_table(const struct hr_topo *t)
{
	const struct hr_engine *e = &t->engine;
	char text[160];

	print_head(t);
	print_names(t, e->gpu, e->gpus);
	print_names(t, e->ssd, e->ssds);
	if (e->gpus == 0 || e->ssds == 0) {
		fputs(hr_topo_no_pair(t, text), t->out);
		print_loose(t);
		return HR_TOPO_NONE;
	}
	if (t->all || (e->gpus <= COLUMNS_MAX && e->ssds <= LIST_MAX))
		hr_topo_matrix(t);
	list_pairs(t, t->all ? UINT64_MAX / 16 : LIST_MAX);
	return print_sum(t);
}
