/* --bandwidth and --plan: rates by model, now and after what --fix proposes. */
#include "boot/cmd/topo/rates.h"

#include <limits.h>
#include <string.h>

#include "boot/cmd/report/json.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "pci/topo/band.h"
#include "pci/topo/change.h"

#define PAIRS_SHOWN 64u
#define SUMS_MAX 17u /* of 16 GPUs, and of all pairs */

/* Flows that run together. */
struct sum {
	char what[64];
	double gbs;
	uint32_t edge; /* that limits the first of them */
	bool bound;    /* several go through root complexes: they may get less */
};

struct figures {
	struct hr_rate *alone; /* each pair by itself */
	unsigned alones;
	struct sum sum[SUMS_MAX];
	unsigned sums;
};

/* ---- the machine as --fix makes it */

struct fixed {
	struct hr_fix fix;
	struct hr_fact was[HR_FIX_MAX];
	bool helps; /* false: it changes nothing */
};

static int rejudge(struct hr_topo *t)
{
	return hr_topo_engine(t, &t->engine, &t->model) ? HR_TOPO_NO_ACCESS : 0;
}

static int fix_on(struct hr_topo *t, struct fixed *f)
{
	f->helps = hr_fix_plan(&t->engine, NULL, NULL, &f->fix) == 0 && f->fix.count != 0;
	for (unsigned i = 0; f->helps && i < f->fix.count; i++)
		f->was[i] = t->model.fn[f->fix.write[i].fn].fact[HR_F_ACS_CTL];
	if (!f->helps)
		return 0;
	hr_fix_assume(&t->model, &f->fix);
	return rejudge(t);
}

static int fix_off(struct hr_topo *t, const struct fixed *f, bool regrouped)
{
	for (unsigned i = 0; i < f->fix.count; i++)
		t->model.fn[f->fix.write[i].fn].fact[HR_F_ACS_CTL] = f->was[i];
	t->model.regrouped = regrouped;
	return rejudge(t);
}

/* What the caller computes of the machine as it is, computed of the fixed one. */
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

static void json_rate(const struct hr_topo *t, struct json_object *list, const struct hr_rate *r,
		      const struct hr_rate *fixed)
{
	struct json_object *o = hr_json_append(list);
	struct hr_pair p;
	char edge[96];

	hr_judge(&t->engine, r->gpu, r->ssd, &p);
	hr_topo_json_ends(t, o, r->gpu, r->ssd);
	if (r->gbs > 0 || p.verdict != HR_UNKNOWN) /* a rate that is not known is not 0 */
		hr_json_double(o, "gb_per_s", r->gbs, 3);
	if (r->gbs > 0)
		hr_json_string(o, "limited_by", hr_edge_text(&t->engine, r->edge, edge));
	if (fixed)
		hr_json_double(o, "gb_per_s_after_fix", fixed->gbs, 3);
}

/* To `list` when it is there, to people otherwise; fixed: NULL when --fix changes nothing. */
static void put_rate(const struct hr_topo *t, struct json_object *list, const struct hr_rate *r,
		     const struct hr_rate *fixed)
{
	char gpu[16], ssd[16], edge[96], verdict[48];
	struct hr_pair p;

	if (list) {
		json_rate(t, list, r, fixed);
		return;
	}
	hr_judge(&t->engine, r->gpu, r->ssd, &p);
	fprintf(t->out, "  %-7s %-7s ", hr_topo_name(t, r->gpu, gpu), hr_topo_name(t, r->ssd, ssd));
	if (r->gbs > 0)
		fprintf(t->out, "%7.2f GB/s", r->gbs);
	else
		fputs("   none     ", t->out);
	if (fixed && fixed->gbs > 0)
		fprintf(t->out, "  after --fix %7.2f", fixed->gbs);
	if (r->gbs > 0)
		fprintf(t->out, "  limited by %s\n", hr_edge_text(&t->engine, r->edge, edge));
	else
		fprintf(t->out, "  the pair is %s\n", hr_verdict_text(p.verdict, p.rule, verdict));
}

/* No pair has a rate: print none, not a rate of 0. */
static void put_gbs(FILE *out, const struct sum *s)
{
	if (s->edge == HR_NO_EDGE)
		fputs("none", out);
	else
		fprintf(out, "%s%.2f GB/s", s->bound ? "at most " : "", s->gbs);
}

static void put_sum(const struct hr_topo *t, struct json_object *list, const struct sum *s,
		    const struct sum *fixed)
{
	struct json_object *o = list ? hr_json_append(list) : NULL;
	char edge[96] = "";

	if (s->edge != HR_NO_EDGE)
		hr_edge_text(&t->engine, s->edge, edge);
	if (o) {
		hr_json_string(o, "what", s->what);
		if (s->edge != HR_NO_EDGE)
			hr_json_double(o, "gb_per_s", s->gbs, 3);
		hr_json_bool(o, "upper_bound", s->bound);
		if (edge[0])
			hr_json_string(o, "limited_by", edge);
		if (fixed)
			hr_json_double(o, "gb_per_s_after_fix", fixed->gbs, 3);
		return;
	}
	fprintf(t->out, "%s: ", s->what);
	put_gbs(t->out, s);
	if (fixed)
		fprintf(t->out, ", after --fix %s%.2f", fixed->bound ? "at most " : "", fixed->gbs);
	fprintf(t->out, "%s%s\n", edge[0] ? "; first limit: " : "", edge);
}

static void put_legend(const struct hr_topo *t, bool fixed)
{
	fputs("Figures are of the model: link registers, TLP overhead and priors. (prior): what "
	      "others "
	      "measured of one x16 flow\nthrough such a root complex; what it carries in all is "
	      "not known: sums \"at most\".\n",
	      t->out);
	if (fixed)
		fputs("After --fix: with ACS redirect cleared between GPUs and SSDs of one "
		      "switch.\n",
		      t->out);
}

/* ---- computing */

static struct hr_rate *rates(struct hr_topo *t, unsigned n)
{
	struct hr_rate *r = hr_model_alloc(&t->model, (n + 1) * sizeof *r);

	if (!r)
		fputs("headrace: error: out of memory\n", stderr);
	return r;
}

static void add_up(const struct hr_topo *t, struct sum *s, const struct hr_rate *r, unsigned n)
{
	s->gbs = 0;
	s->edge = HR_NO_EDGE;
	for (unsigned i = 0; i < n; i++) {
		s->gbs += r[i].gbs;
		if (s->edge == HR_NO_EDGE && r[i].gbs > 0)
			s->edge = r[i].edge;
	}
	s->bound = hr_band_bound(&t->engine, r, n);
}

static int alone(struct hr_topo *t, enum hr_direction direction, struct figures *f)
{
	const struct hr_engine *e = &t->engine;
	unsigned n = 0;

	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds && n < f->alones; j++, n++) {
			f->alone[n] = (struct hr_rate){ .gpu = e->gpu[i], .ssd = e->ssd[j] };
			if (hr_band_solve(e, &t->model, direction, &f->alone[n], 1))
				return HR_TOPO_NO_ACCESS;
		}
	return 0;
}

/* All SSDs and the GPUs from `from` up to, not including, `to`. */
static int together(struct hr_topo *t, enum hr_direction direction, uint32_t from, uint32_t to,
		    struct figures *f)
{
	const struct hr_engine *e = &t->engine;
	const size_t used = t->model.used;
	unsigned n = (to - from) * e->ssds, k = 0;
	struct hr_rate *r = n <= HR_FLOWS_MAX ? rates(t, n) : NULL;
	int err;

	if (!r)
		return n <= HR_FLOWS_MAX ? HR_TOPO_NO_ACCESS : 0;
	for (uint32_t i = from; i < to; i++)
		for (uint32_t j = 0; j < e->ssds; j++)
			r[k++] = (struct hr_rate){ .gpu = e->gpu[i], .ssd = e->ssd[j] };
	err = hr_band_solve(e, &t->model, direction, r, n);
	if (!err)
		add_up(t, &f->sum[f->sums++], r, n);
	hr_model_release(&t->model, used);
	return err ? HR_TOPO_NO_ACCESS : 0;
}

static int one_direction(struct hr_topo *t, enum hr_direction direction, struct figures *f)
{
	const struct hr_engine *e = &t->engine;
	int err = alone(t, direction, f);
	char name[16];

	f->sums = 0;
	for (uint32_t i = 0; i < e->gpus && i + 1 < SUMS_MAX && !err; i++) {
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

static int prepare(struct hr_topo *t, struct figures f[2])
{
	const uint64_t pairs = (uint64_t)t->engine.gpus * t->engine.ssds;
	const uint64_t most = t->all || t->json ? UINT_MAX / 2 : PAIRS_SHOWN;

	for (unsigned i = 0; i < 2; i++) {
		f[i].alones = (unsigned)(pairs < most ? pairs : most);
		f[i].alone = rates(t, f[i].alones);
		if (!f[i].alone)
			return HR_TOPO_NO_ACCESS;
	}
	return 0;
}

/* ---- --bandwidth */

static void put_direction(const struct hr_topo *t, const struct figures *now,
			  const struct figures *fixed, bool to_gpu)
{
	struct json_object *o = NULL, *list = NULL;

	if (t->json) {
		o = hr_json_object(t->json, to_gpu ? "to_gpu" : "from_gpu");
		list = hr_json_array(o, "one_at_a_time");
	} else {
		fputs(to_gpu ? "SSD to GPU (reads):\n" : "GPU to SSD (writes):\n", t->out);
		fputs("one pair at a time:\n", t->out);
	}
	for (unsigned i = 0; i < now->alones; i++)
		put_rate(t, list, &now->alone[i], fixed ? &fixed->alone[i] : NULL);
	if (o)
		list = hr_json_array(o, "together");
	for (unsigned i = 0; i < now->sums; i++)
		put_sum(t, list, &now->sum[i], fixed ? &fixed->sum[i] : NULL);
}

int hr_topo_bandwidth(struct hr_topo *t)
{
	struct figures now[2], fixed[2];
	struct fixed fix;
	int err;

	if (!t->json && (t->engine.gpus == 0 || t->engine.ssds == 0))
		return HR_TOPO_NONE;
	err = prepare(t, now);
	if (!err)
		err = prepare(t, fixed);
	if (!err)
		err = compute_figures(t, now);
	if (!err)
		err = after_fix(t, &fix, compute_figures, fixed);
	if (err)
		return err;
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
	const unsigned n = t->engine.ssds;

	if (hr_band_solve(&t->engine, &t->model, HR_TO_GPU, p->rate, n))
		return HR_TOPO_NO_ACCESS;
	add_up(t, &p->sum, p->rate, n);
	return 0;
}

static void put_plan(const struct hr_topo *t, const struct plan *now, const struct plan *fixed)
{
	struct json_object *list = NULL;

	if (t->json)
		list = hr_json_array(t->json, "assignment");
	else
		fputs("one GPU for each SSD, all reading at once:\n", t->out);
	for (uint32_t j = 0; j < t->engine.ssds; j++)
		put_rate(t, list, &now->rate[j], fixed ? &fixed->rate[j] : NULL);
	if (t->json) {
		hr_json_double(t->json, "gb_per_s", now->sum.gbs, 3);
		hr_json_bool(t->json, "upper_bound", now->sum.bound);
		if (fixed)
			hr_json_double(t->json, "gb_per_s_after_fix", fixed->sum.gbs, 3);
		return;
	}
	fputs("sum ", t->out);
	put_gbs(t->out, &now->sum);
	if (fixed)
		fprintf(t->out, ", after --fix %s%.2f GB/s", fixed->sum.bound ? "at most " : "",
			fixed->sum.gbs);
	fputc('\n', t->out);
	put_legend(t, fixed != NULL);
}

int hr_topo_plan(struct hr_topo *t)
{
	const unsigned n = t->engine.ssds;
	struct plan now = { .rate = rates(t, n) }, fixed = { .rate = rates(t, n) };
	struct fixed fix;
	int err;

	if (t->engine.gpus == 0 || n == 0)
		return HR_TOPO_NONE;
	if (!now.rate || !fixed.rate || hr_band_plan(&t->engine, &t->model, HR_TO_GPU, now.rate))
		return HR_TOPO_NO_ACCESS;
	add_up(t, &now.sum, now.rate, n);
	memcpy(fixed.rate, now.rate, n * sizeof *now.rate);
	err = after_fix(t, &fix, compute_plan, &fixed);
	if (err)
		return err;
	put_plan(t, &now, fix.helps ? &fixed : NULL);
	return (int)hr_topo_exit_all(t);
}
