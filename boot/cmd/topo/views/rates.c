/* SPDX-License-Identifier: Apache-2.0 */
/* --bandwidth and --plan: rates from the model, now and after the change that --fix proposes. */
#include "boot/cmd/topo/views/views.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "pci/topo/forecast/rates.h"
#include "pci/topo/forecast/change.h"
#include "config/base/log.h"

/* Limits without --all and --json. */
#define PAIRS_SHOWN 64u
#define GPUS_SHOWN 16u

/* Flows that run together. */
struct sum {
	char what[64];
	double gbs, from, to; /* the range of the model; equal to gbs when it is one number */
	uint32_t edge;	      /* the edge that limits the first of them */
	unsigned unknown;     /* flows whose verdict, and so the rate, is not known */
	bool bound;	      /* several pass root complexes: the sum is an upper bound */
	uint64_t most; /* number of flows when above HR_FLOWS_MAX, so no rate is computed; else 0 */
};

struct figures {
	struct hr_rate *alone; /* each pair alone */
	unsigned alones;
	struct sum *sum; /* one for each GPU with all SSDs, then one for all pairs */
	unsigned sums;
};

/* ---- the machine after --fix */

struct fixed {
	struct hr_fix fix;
	struct hr_fact was[HR_FIX_MAX];
	bool helps; /* false: the fix changes nothing */
};

static int evaluate_again(struct hr_topo *t)
{
	return hr_topo_evaluate(t, &t->topology, &t->model) ? HR_TOPO_NO_ACCESS : 0;
}

static int fix_on(struct hr_topo *t, struct fixed *f)
{
	f->helps = hr_fix_plan(&t->topology, NULL, NULL, &f->fix) == 0 && f->fix.count != 0;
	for (unsigned i = 0; f->helps && i < f->fix.count; i++)
		f->was[i] = t->model.fn[f->fix.write[i].fn].fact[HR_F_ACS_CTL];
	if (!f->helps)
		return 0;
	hr_fix_assume(&t->model, &f->fix);
	return evaluate_again(t);
}

static int fix_off(struct hr_topo *t, const struct fixed *f, bool regrouped)
{
	for (unsigned i = 0; i < f->fix.count; i++)
		t->model.fn[f->fix.write[i].fn].fact[HR_F_ACS_CTL] = f->was[i];
	t->model.regrouped = regrouped;
	return evaluate_again(t);
}

/* Compute the caller's figures for the machine after the fix. */
static int after_fix(struct hr_topo *t, struct fixed *f,
		     int (*compute)(struct hr_topo *t, void *to), void *to)
{
	const bool regrouped = t->model.regrouped;
	int err = fix_on(t, f), restored;

	if (err || !f->helps)
		return err;
	err = compute(t, to);
	restored = fix_off(t, f, regrouped);
	return err ? err : restored;
}

/* ---- showing */

static void json_rate(const struct hr_topo *t, const struct hr_rate *r, const struct hr_rate *fixed)
{
	struct hr_json *o = t->json;
	double from, to;
	char edge[96];

	hr_json_object(o, NULL);
	hr_topo_json_ends(t, o, r->gpu, r->ssd);
	/* An unknown rate is left out, not printed as 0. */
	if (!hr_rate_unknown(&t->topology, r))
		hr_json_fixed(o, "gb_per_s", r->gbs, 3);
	if (hr_rate_range(&t->topology, r, &from, &to)) {
		hr_json_fixed(o, "gb_per_s_from", from, 3);
		hr_json_fixed(o, "gb_per_s_to", to, 3);
	}
	if (r->gbs > 0)
		hr_json_string(o, "limited_by", hr_edge_text(&t->topology, r->edge, edge));
	if (fixed && !hr_rate_unknown(&t->topology, fixed))
		hr_json_fixed(o, "gb_per_s_after_fix", fixed->gbs, 3);
	hr_json_close(o);
}

/* Put a rate into t->json, or print it. fixed NULL: --fix changes nothing. */
static void put_rate(const struct hr_topo *t, const struct hr_rate *r, const struct hr_rate *fixed)
{
	char gpu[16], ssd[16], edge[96], verdict[48];
	struct hr_pair p;
	double from, to;

	if (t->json) {
		json_rate(t, r, fixed);
		return;
	}
	hr_pair_evaluate(&t->topology, r->gpu, r->ssd, &p);
	fprintf(t->out, "  %-7s %-7s ", hr_topo_name(t, r->gpu, gpu), hr_topo_name(t, r->ssd, ssd));
	if (hr_rate_range(&t->topology, r, &from, &to))
		fprintf(t->out, "%.2f to %.2f GB/s", from, to);
	else if (r->gbs > 0)
		fprintf(t->out, "%7.2f GB/s", r->gbs);
	else
		fputs(hr_rate_unknown(&t->topology, r) ? "unknown     " : "   none     ", t->out);
	if (fixed && fixed->gbs > 0)
		fprintf(t->out, "  after --fix %7.2f", fixed->gbs);
	if (r->gbs > 0)
		fprintf(t->out, "  limited by %s\n", hr_edge_text(&t->topology, r->edge, edge));
	else
		fprintf(t->out, "  the pair is %s\n", hr_verdict_text(p.verdict, p.rule, verdict));
}

/* True when no rate of the sum is known, so that 0 would be wrong. */
static bool is_unknown(const struct sum *s)
{
	return s->edge == HR_NO_EDGE && s->unknown;
}

/* When no pair has a rate, print "none" or "unknown" instead of 0. */
static void put_gbs(FILE *out, const struct sum *s)
{
	if (s->most)
		fprintf(out, "not computed, %llu pairs are more than %u",
			(unsigned long long)s->most, HR_FLOWS_MAX);
	else if (s->edge == HR_NO_EDGE)
		fputs(s->unknown ? "unknown" : "none", out);
	else if (s->to > s->from)
		fprintf(out, "%s%.2f to %.2f GB/s", s->bound ? "at most " : "", s->from, s->to);
	else
		fprintf(out, "%s%.2f GB/s", s->bound ? "at most " : "", s->gbs);
	if (s->edge != HR_NO_EDGE && s->unknown)
		fprintf(out, " without %u unknown rate%s", s->unknown, s->unknown == 1 ? "" : "s");
}

/* The sum after the fix; the field is absent when no rate of it is known. */
static void put_json_after(struct hr_json *o, const struct sum *fixed)
{
	if (fixed && !is_unknown(fixed))
		hr_json_fixed(o, "gb_per_s_after_fix", fixed->gbs, 3);
}

static void put_sum(const struct hr_topo *t, const struct sum *s, const struct sum *fixed)
{
	struct hr_json *o = t->json;
	char edge[96] = "";

	if (s->edge != HR_NO_EDGE)
		hr_edge_text(&t->topology, s->edge, edge);
	if (o) {
		hr_json_object(o, NULL);
		hr_json_string(o, "what", s->what);
		if (s->most) {
			hr_json_u64(o, "pairs", s->most);
			hr_json_u64(o, "pairs_max", HR_FLOWS_MAX);
			hr_json_close(o);
			return;
		}
		if (s->edge != HR_NO_EDGE)
			hr_json_fixed(o, "gb_per_s", s->gbs, 3);
		hr_json_bool(o, "upper_bound", s->bound);
		if (edge[0])
			hr_json_string(o, "limited_by", edge);
		put_json_after(o, fixed);
		hr_json_close(o);
		return;
	}
	fprintf(t->out, "%s: ", s->what);
	put_gbs(t->out, s);
	if (fixed && !s->most && !is_unknown(fixed))
		fprintf(t->out, ", after --fix %s%.2f", fixed->bound ? "at most " : "", fixed->gbs);
	fprintf(t->out, "%s%s\n", edge[0] ? "; first limit: " : "", edge);
}

static void put_legend(const struct hr_topo *t, bool fixed)
{
	fputs("Figures come from a model: link registers, TLP overhead and priors. (prior): public "
	      "measurements of\none x16 flow through such a root complex; its total capacity is "
	      "not known, so sums are \"at most\".\n",
	      t->out);
	if (fixed)
		fputs("After --fix: with ACS redirect cleared between GPUs and SSDs of one "
		      "switch.\n",
		      t->out);
}

/* ---- computing */

/* Say why the model has no rates. Returns the exit code. */
static int fail_rates(const struct hr_topo *t, int err)
{
	if (err == -E2BIG)
		hr_error("%u SSDs to plan for, at most %u", t->topology.ssds, HR_FLOWS_MAX);
	else
		hr_error("out of memory");
	return HR_TOPO_NO_ACCESS;
}

static void *table(struct hr_topo *t, unsigned n, size_t bytes)
{
	void *rows = hr_model_alloc(&t->model, (n + 1) * bytes);

	if (!rows)
		fail_rates(t, -ENOMEM);
	return rows;
}

static struct hr_rate *rates(struct hr_topo *t, unsigned n)
{
	return table(t, n, sizeof(struct hr_rate));
}

static void add_up(const struct hr_topo *t, struct sum *s, const struct hr_rate *r, unsigned n)
{
	double from, to;

	s->gbs = s->from = s->to = 0;
	s->most = 0;
	s->unknown = 0;
	s->edge = HR_NO_EDGE;
	for (unsigned i = 0; i < n; i++) {
		hr_rate_range(&t->topology, &r[i], &from, &to);
		s->from += from;
		s->to += to;
		s->unknown += hr_rate_unknown(&t->topology, &r[i]);
		s->gbs += r[i].gbs;
		if (s->edge == HR_NO_EDGE && r[i].gbs > 0)
			s->edge = r[i].edge;
	}
	s->bound = hr_rates_are_bounds(&t->topology, r, n);
}

static int alone(struct hr_topo *t, enum hr_direction direction, struct figures *f)
{
	const struct hr_topology *e = &t->topology;
	unsigned n = 0;

	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds && n < f->alones; j++, n++) {
			f->alone[n] = (struct hr_rate){ .gpu = e->gpu[i], .ssd = e->ssd[j] };
			if (hr_rates_solve(e, &t->model, direction, &f->alone[n], 1))
				return fail_rates(t, -ENOMEM);
		}
	return 0;
}

/* All SSDs, and the GPUs with index from..to-1. */
static int together(struct hr_topo *t, enum hr_direction direction, uint32_t from, uint32_t to,
		    struct figures *f)
{
	const struct hr_topology *e = &t->topology;
	const size_t used = t->model.used;
	const uint64_t flows = (uint64_t)(to - from) * e->ssds;
	struct sum *const s = &f->sum[f->sums++];
	struct hr_rate *r;
	unsigned k = 0;
	int err;

	if (flows > HR_FLOWS_MAX) {
		s->most = flows;
		s->edge = HR_NO_EDGE;
		return 0;
	}
	r = rates(t, (unsigned)flows);
	if (!r)
		return HR_TOPO_NO_ACCESS;
	for (uint32_t i = from; i < to; i++)
		for (uint32_t j = 0; j < e->ssds; j++)
			r[k++] = (struct hr_rate){ .gpu = e->gpu[i], .ssd = e->ssd[j] };
	err = hr_rates_solve(e, &t->model, direction, r, k);
	if (!err)
		add_up(t, s, r, k);
	hr_model_release(&t->model, used);
	return err ? fail_rates(t, err) : 0;
}

/* Number of figures to show: all with --all and --json, otherwise at most `most`. */
static unsigned shown(const struct hr_topo *t, uint64_t all, unsigned most)
{
	if (t->all || t->json)
		most = UINT_MAX / 2;
	return (unsigned)(all < most ? all : most);
}

static int one_direction(struct hr_topo *t, enum hr_direction direction, struct figures *f)
{
	const struct hr_topology *e = &t->topology;
	int err = alone(t, direction, f);
	char name[16];

	f->sums = 0;
	for (uint32_t i = 0; i < shown(t, e->gpus, GPUS_SHOWN) && !err; i++) {
		snprintf(f->sum[f->sums].what, sizeof f->sum->what, "all SSDs and %s",
			 hr_topo_name(t, e->gpu[i], name));
		err = together(t, direction, i, i + 1, f);
	}
	snprintf(f->sum[f->sums].what, sizeof f->sum->what, "all pairs at once");
	return err ? err : together(t, direction, 0, e->gpus, f);
}

/* Both directions, HR_TO_GPU first. */
static int compute_figures(struct hr_topo *t, void *to)
{
	struct figures *f = to;
	int err = one_direction(t, HR_TO_GPU, &f[0]);

	return err ? err : one_direction(t, HR_FROM_GPU, &f[1]);
}

static int prepare_figures(struct hr_topo *t, struct figures f[2])
{
	const uint64_t pairs = (uint64_t)t->topology.gpus * t->topology.ssds;
	const unsigned gpus = shown(t, t->topology.gpus, GPUS_SHOWN);

	for (unsigned i = 0; i < 2; i++) {
		f[i].alones = shown(t, pairs, PAIRS_SHOWN);
		f[i].alone = rates(t, f[i].alones);
		f[i].sum = table(t, gpus + 1, sizeof *f[i].sum);
		if (!f[i].alone || !f[i].sum)
			return HR_TOPO_NO_ACCESS;
	}
	return 0;
}

/* ---- --bandwidth */

static void put_direction(const struct hr_topo *t, const struct figures *now,
			  const struct figures *fixed, bool to_gpu)
{
	const struct hr_topology *e = &t->topology;
	const uint64_t pairs = (uint64_t)e->gpus * e->ssds;
	struct hr_json *o = t->json;

	if (o) {
		hr_json_object(o, to_gpu ? "to_gpu" : "from_gpu");
		hr_json_array(o, "one_at_a_time");
	} else {
		fputs(to_gpu ? "SSD to GPU (reads):\n" : "GPU to SSD (writes):\n", t->out);
		fputs("one pair at a time:\n", t->out);
	}
	for (unsigned i = 0; i < now->alones; i++)
		put_rate(t, &now->alone[i], fixed ? &fixed->alone[i] : NULL);
	if (o) {
		hr_json_close(o);
		hr_json_array(o, "together");
	} else if (now->alones < pairs) {
		fprintf(t->out, "  ... and %llu more (--all)\n",
			(unsigned long long)(pairs - now->alones));
	}
	for (unsigned i = 0; i < now->sums; i++) {
		if (!o && i == now->sums - 1 && i < e->gpus)
			fprintf(t->out, "... and %u more GPUs (--all)\n", e->gpus - i);
		put_sum(t, &now->sum[i], fixed ? &fixed->sum[i] : NULL);
	}
	if (o) {
		hr_json_close(o);
		hr_json_close(o);
	}
}

int hr_topo_bandwidth(struct hr_topo *t)
{
	struct figures now[2], fixed[2];
	struct fixed fix;
	int err;

	if (!t->json && (t->topology.gpus == 0 || t->topology.ssds == 0))
		return HR_TOPO_NONE;
	err = prepare_figures(t, now);
	if (!err)
		err = prepare_figures(t, fixed);
	if (!err)
		err = compute_figures(t, now);
	if (!err)
		err = after_fix(t, &fix, compute_figures, fixed);
	if (err)
		return err;
	if (t->json)
		hr_topo_json_start(t);
	for (unsigned i = 0; i < 2; i++)
		put_direction(t, &now[i], fix.helps ? &fixed[i] : NULL, i == 0);
	if (!t->json)
		put_legend(t, fix.helps);
	return (int)hr_topo_exit_all(t);
}

/* ---- --plan */

struct plan {
	struct hr_rate *rate; /* [ssds] */
	struct sum sum;
};

static int compute_plan(struct hr_topo *t, void *to)
{
	struct plan *p = to;
	const unsigned n = t->topology.ssds;

	if (hr_rates_solve(&t->topology, &t->model, HR_TO_GPU, p->rate, n))
		return fail_rates(t, -ENOMEM);
	add_up(t, &p->sum, p->rate, n);
	return 0;
}

static void put_plan(const struct hr_topo *t, const struct plan *now, const struct plan *fixed)
{
	if (t->json) {
		hr_topo_json_start(t);
		hr_json_array(t->json, "assignment");
	} else {
		fputs("one GPU for each SSD, all reading at once:\n", t->out);
	}
	for (uint32_t j = 0; j < t->topology.ssds; j++)
		put_rate(t, &now->rate[j], fixed ? &fixed->rate[j] : NULL);
	if (t->json) {
		hr_json_close(t->json);
		if (!is_unknown(&now->sum))
			hr_json_fixed(t->json, "gb_per_s", now->sum.gbs, 3);
		hr_json_bool(t->json, "upper_bound", now->sum.bound);
		put_json_after(t->json, fixed ? &fixed->sum : NULL);
		return;
	}
	fputs("sum ", t->out);
	put_gbs(t->out, &now->sum);
	if (fixed && !is_unknown(&fixed->sum))
		fprintf(t->out, ", after --fix %s%.2f GB/s", fixed->sum.bound ? "at most " : "",
			fixed->sum.gbs);
	fputc('\n', t->out);
	put_legend(t, fixed != NULL);
}

int hr_topo_plan(struct hr_topo *t)
{
	const unsigned n = t->topology.ssds;
	struct plan now = { .rate = rates(t, n) }, fixed = { .rate = rates(t, n) };
	struct fixed fix;
	int err;

	if (t->topology.gpus == 0 || n == 0)
		return HR_TOPO_NONE;
	if (!now.rate || !fixed.rate)
		return HR_TOPO_NO_ACCESS;
	err = hr_rates_assign(&t->topology, &t->model, HR_TO_GPU, now.rate);
	if (err)
		return fail_rates(t, err);
	add_up(t, &now.sum, now.rate, n);
	memcpy(fixed.rate, now.rate, n * sizeof *now.rate);
	err = after_fix(t, &fix, compute_plan, &fixed);
	if (err)
		return err;
	put_plan(t, &now, fix.helps ? &fixed : NULL);
	return (int)hr_topo_exit_all(t);
}
