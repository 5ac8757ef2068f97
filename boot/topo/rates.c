/* --bandwidth and --plan. */
#include "boot/topo/topo.h"

#include <limits.h>
#include <string.h>

#include "boot/report/json.h"
#include "pci/band.h"

#define PAIRS_SHOWN 64u

static void json_rate(const struct hr_topo *t, struct json_object *list, const struct hr_rate *r)
{
	struct json_object *o = hr_json_append(list);
	char edge[96];

	hr_topo_json_ends(t, o, r->gpu, r->ssd);
	hr_json_double(o, "gb_per_s", r->gbs, 3);
	if (r->gbs > 0)
		hr_json_string(o, "limited_by", hr_edge_text(&t->engine, r->edge, edge));
}

/* To `list` when it is there, to people otherwise. */
static void put_rate(const struct hr_topo *t, struct json_object *list, const struct hr_rate *r)
{
	char gpu[16], ssd[16], edge[96], verdict[48];
	struct hr_pair p;

	if (list) {
		json_rate(t, list, r);
		return;
	}

	hr_judge(&t->engine, r->gpu, r->ssd, &p);
	fprintf(t->out, "  %-7s %-7s ", hr_topo_name(t, r->gpu, gpu), hr_topo_name(t, r->ssd, ssd));
	if (r->gbs > 0)
		fprintf(t->out, "%7.2f GB/s  limited by %s\n", r->gbs,
			hr_edge_text(&t->engine, r->edge, edge));
	else
		fprintf(t->out, "   none       the pair is %s\n",
			hr_verdict_text(p.verdict, p.rule, verdict));
}

static struct hr_rate *rates(struct hr_topo *t, unsigned n)
{
	struct hr_rate *r = hr_model_alloc(&t->model, (n + 1) * sizeof *r);

	if (!r)
		fputs("headrace: error: out of memory\n", stderr);
	return r;
}

static int each_alone(struct hr_topo *t, struct json_object *json, enum hr_direction direction)
{
	struct json_object *list = json ? hr_json_array(json, "one_at_a_time") : NULL;
	const unsigned most = t->all || json ? UINT_MAX : PAIRS_SHOWN;
	const struct hr_engine *e = &t->engine;
	struct hr_rate r;
	unsigned shown = 0;

	if (!json)
		fputs("one pair at a time:\n", t->out);
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds && shown < most; j++, shown++) {
			r = (struct hr_rate){ .gpu = e->gpu[i], .ssd = e->ssd[j] };
			if (hr_band_solve(e, &t->model, direction, &r, 1))
				return HR_TOPO_NO_ACCESS;
			put_rate(t, list, &r);
		}
	return 0;
}

static void put_sum(const struct hr_topo *t, struct json_object *list, const char *what,
		    const struct hr_rate *r, unsigned n)
{
	struct json_object *o = list ? hr_json_append(list) : NULL;
	unsigned limited = 0;
	char edge[96] = "";
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += r[i].gbs;
	while (limited < n && r[limited].gbs <= 0)
		limited++;
	if (limited < n)
		hr_edge_text(&t->engine, r[limited].edge, edge);
	if (!o) {
		fprintf(t->out, "%s: %.2f GB/s%s%s\n", what, sum, edge[0] ? "; first limit: " : "",
			edge);
		return;
	}
	hr_json_string(o, "what", what);
	hr_json_double(o, "gb_per_s", sum, 3);
	if (edge[0])
		hr_json_string(o, "limited_by", edge);
}

static int together(struct hr_topo *t, struct json_object *list, enum hr_direction direction,
		    uint32_t from, uint32_t to, const char *what)
{
	const struct hr_engine *e = &t->engine;
	unsigned n = (to - from) * e->ssds, k = 0;
	struct hr_rate *r = n <= HR_FLOWS_MAX ? rates(t, n) : NULL;

	if (!r)
		return n <= HR_FLOWS_MAX ? HR_TOPO_NO_ACCESS : 0;
	for (uint32_t i = from; i < to; i++)
		for (uint32_t j = 0; j < e->ssds; j++)
			r[k++] = (struct hr_rate){ .gpu = e->gpu[i], .ssd = e->ssd[j] };
	if (hr_band_solve(e, &t->model, direction, r, n))
		return HR_TOPO_NO_ACCESS;
	put_sum(t, list, what, r, n);
	return 0;
}

static int one_direction(struct hr_topo *t, enum hr_direction direction)
{
	const char *const key = direction == HR_TO_GPU ? "to_gpu" : "from_gpu";
	struct json_object *json = t->json ? hr_json_object(t->json, key) : NULL, *list = NULL;
	const struct hr_engine *e = &t->engine;
	char name[16], what[64];
	int err = each_alone(t, json, direction);

	if (json)
		list = hr_json_array(json, "together");

	for (uint32_t i = 0; i < e->gpus && i < 16 && !err; i++) {
		snprintf(what, sizeof what, "all SSDs and %s", hr_topo_name(t, e->gpu[i], name));
		err = together(t, list, direction, i, i + 1, what);
	}
	return err ? err : together(t, list, direction, 0, e->gpus, "all pairs at once");
}

int hr_topo_bandwidth(struct hr_topo *t)
{
	int err;

	if (!t->json && (t->engine.gpus == 0 || t->engine.ssds == 0))
		return HR_TOPO_NONE;
	if (!t->json)
		fputs("SSD to GPU (reads):\n", t->out);
	err = one_direction(t, HR_TO_GPU);
	if (err)
		return err;
	if (!t->json)
		fputs("GPU to SSD (writes):\n", t->out);
	err = one_direction(t, HR_FROM_GPU);
	if (!t->json)
		fputs("Figures are of the model: link registers, TLP overhead and priors for root "
		      "complexes.\n",
		      t->out);
	return err ? err : (int)hr_topo_exit_all(t);
}

int hr_topo_plan(struct hr_topo *t)
{
	const struct hr_engine *e = &t->engine;
	struct hr_rate *r = rates(t, e->ssds);
	struct json_object *list = NULL;
	double sum = 0;

	if (e->gpus == 0 || e->ssds == 0)
		return HR_TOPO_NONE;
	if (!r || hr_band_plan(e, &t->model, HR_TO_GPU, r))
		return HR_TOPO_NO_ACCESS;
	if (t->json)
		list = hr_json_array(t->json, "assignment");
	else
		fputs("one GPU for each SSD, all reading at once:\n", t->out);
	for (uint32_t j = 0; j < e->ssds; j++) {
		put_rate(t, list, &r[j]);
		sum += r[j].gbs;
	}
	if (t->json)
		hr_json_double(t->json, "gb_per_s", sum, 3);
	else
		fprintf(t->out, "sum %.2f GB/s\n", sum);
	return (int)hr_topo_exit_all(t);
}
