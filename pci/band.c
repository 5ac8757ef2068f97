#include "pci/band.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/fields.h"
#include "pci/tables.h"

#define PATH_MAX_EDGES (4 * HR_DEPTH_MAX + 4)
#define DLLP_SHARE 0.965
#define PLAN_TRIES 512u

/* Edges: up and down of each function's link, one per host, one between hosts. */
static uint32_t edge_up(int32_t fn)
{
	return 2 * (uint32_t)fn;
}

static uint32_t edge_down(int32_t fn)
{
	return 2 * (uint32_t)fn + 1;
}

static uint32_t edge_host(const struct hr_engine *e, int32_t host)
{
	return 2 * e->m->count + (uint32_t)host;
}

static uint32_t edge_between(const struct hr_engine *e)
{
	return 2 * e->m->count + e->m->hosts;
}

double hr_link_gbs(uint32_t speed_code, uint32_t width)
{
	/* 2.5 and 5 GT/s: 8b/10b; 8 to 32 GT/s: 128b/130b; 64 GT/s: FLIT payload 236/256 */
	static const double lane[] = { 0,
				       0.25,
				       0.5,
				       8.0 / 8 * 128 / 130,
				       16.0 / 8 * 128 / 130,
				       32.0 / 8 * 128 / 130,
				       64.0 / 8 * 236 / 256 };

	return speed_code < sizeof lane / sizeof *lane ? lane[speed_code] * width : 0;
}

double hr_tlp_efficiency(uint32_t payload, enum hr_direction direction)
{
	double overhead = direction == HR_TO_GPU ? 24 : 20;

	return payload / (payload + overhead);
}

double hr_band_prior(const struct hr_engine *e, int32_t host)
{
	static const struct {
		uint16_t vendor, device;
		double gbs;
	} known[] = { { 0x1022, 0x14a4, 24 }, /* Genoa: 22 to 24 GiB/s were measured */
		      { 0x8086, 0x09a2, 22 }, { 0x8086, 0x2020, 10 }, { 0x8086, 0x2030, 10 },
		      { 0x8086, 0x6f00, 6 },  { 0x8086, 0x2f00, 6 },  { 0x8086, 0x3c00, 6 } };
	const struct hr_fn *f = &e->m->fn[e->m->host[host].first];

	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (hr_get(f, HR_F_VENDOR, 0) == known[i].vendor &&
		    hr_get(f, HR_F_DEVICE, 0) == known[i].device)
			return known[i].gbs;
	return e->zen ? 16 : 10;
}

/* Idle GPUs run slow on purpose: what counts is what they do under load (rule H1-idle). */
static double link_capacity(const struct hr_engine *e, int32_t fn)
{
	const struct hr_fn *f = &e->m->fn[fn], *up;
	uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_RC_ENDPOINT);
	uint32_t speed = hr_get(f, HR_F_SPEED, hr_get(f, HR_F_SPEED_MAX, 0));

	if (port != HR_PORT_ENDPOINT && port != HR_PORT_LEGACY && port != HR_PORT_UPSTREAM)
		return 0;
	if (hr_is_gpu(f) && hr_get(f, HR_F_SPEED_TARGET, 0) > speed) {
		up = f->parent == HR_NO_FN ? f : &e->m->fn[f->parent];
		speed = hr_get(f, HR_F_SPEED_MAX, speed);
		if (hr_get(up, HR_F_SPEED_MAX, speed) < speed)
			speed = hr_get(up, HR_F_SPEED_MAX, speed);
	}
	return hr_link_gbs(speed, hr_get(f, HR_F_WIDTH, hr_get(f, HR_F_WIDTH_MAX, 0)));
}

struct route {
	uint32_t edge[PATH_MAX_EDGES];
	unsigned count;
	double weight; /* link bytes per payload byte */
	bool open;
};

static void cross(struct route *r, uint32_t edge)
{
	if (r->count < PATH_MAX_EDGES)
		r->edge[r->count++] = edge;
}

/* Data goes up from the SSD and down to the GPU, or the other way round. */
static void cross_link(struct route *r, int32_t fn, bool ssd_side, enum hr_direction direction)
{
	cross(r, ssd_side == (direction == HR_TO_GPU) ? edge_up(fn) : edge_down(fn));
}

static void through_root(const struct hr_engine *e, const struct hr_pair *p, struct route *r)
{
	const struct hr_fn *fn = e->m->fn;

	for (int32_t at = p->common; at != HR_NO_FN; at = fn[at].parent) {
		cross(r, edge_up(at));
		cross(r, edge_down(at));
	}
	cross(r, edge_host(e, fn[p->gpu].host));
	if (fn[p->gpu].host != fn[p->ssd].host) {
		cross(r, edge_host(e, fn[p->ssd].host));
		cross(r, edge_between(e));
	}
}

/* Root complexes of Intel pass peer traffic on in cache lines, whatever came in. */
static bool splits(const struct hr_engine *e, int32_t fn)
{
	const struct hr_host *host = &e->m->host[e->m->fn[fn].host];

	return hr_get(&e->m->fn[host->first], HR_F_VENDOR, 0) == 0x8086;
}

/* Payload of the TLPs on the way, as small as they get. */
static uint32_t route_payload(const struct hr_engine *e, const struct hr_pair *p,
			      enum hr_direction direction, bool through)
{
	uint32_t payload = e->derived[direction == HR_TO_GPU ? p->ssd : p->gpu].mps;

	if (p->min_mps && (!payload || p->min_mps < payload))
		payload = p->min_mps;
	if (through && (splits(e, p->gpu) || splits(e, p->ssd)))
		return 64;
	return payload ? payload : 128;
}

static void make_route(const struct hr_engine *e, enum hr_direction direction, int32_t gpu,
		       int32_t ssd, struct route *r)
{
	unsigned flow = direction == HR_TO_GPU ? HR_F2 : HR_F3;
	struct hr_pair p;
	bool through;

	hr_judge(e, gpu, ssd, &p);
	r->count = 0;
	r->open = hr_verdict_rank(p.flow[flow]) <= hr_verdict_rank(HR_WRITES_ONLY) &&
		  !(direction == HR_FROM_GPU && p.flow[flow] == HR_WRITES_ONLY);
	through = p.common == HR_NO_FN || p.redirected >> flow & 1;
	r->weight = 1 / (hr_tlp_efficiency(route_payload(e, &p, direction, through), direction) *
			 DLLP_SHARE);
	for (int32_t at = gpu; at != p.common; at = e->derived[at].parent)
		cross_link(r, at, false, direction);
	for (int32_t at = ssd; at != p.common; at = e->derived[at].parent)
		cross_link(r, at, true, direction);
	if (through)
		through_root(e, &p, r);
}

struct solver {
	const struct hr_engine *e;
	unsigned n;
	struct hr_rate *rate;
	struct route *route;
	double *left, *load; /* per edge: capacity not yet given away, weight of growing flows */
	uint32_t edges;
	bool *done;
};

static double capacity(const struct hr_engine *e, uint32_t edge)
{
	uint32_t links = 2 * e->m->count;
	double least;

	if (edge < links)
		return link_capacity(e, (int32_t)(edge / 2));
	if (edge < links + e->m->hosts)
		return hr_band_prior(e, (int32_t)(edge - links));
	least = hr_band_prior(e, 0);
	for (uint32_t i = 1; i < e->m->hosts; i++)
		if (hr_band_prior(e, (int32_t)i) < least)
			least = hr_band_prior(e, (int32_t)i);
	return least;
}

/* The priors of root complexes are payload rates already. */
static double weight_on(const struct solver *s, const struct route *r, uint32_t edge)
{
	return edge < 2 * s->e->m->count ? r->weight : 1;
}

static void add_load(struct solver *s, unsigned flow, double sign)
{
	const struct route *r = &s->route[flow];

	for (unsigned i = 0; i < r->count; i++)
		s->load[r->edge[i]] += sign * weight_on(s, r, r->edge[i]);
}

/* The edge that is full first when all growing flows grow alike; by how much they may. */
static uint32_t next_full(const struct solver *s, double *growth)
{
	uint32_t full = HR_NO_EDGE;

	*growth = 0;
	for (unsigned i = 0; i < s->n; i++) {
		const struct route *r = &s->route[i];

		for (unsigned j = 0; j < r->count && !s->done[i]; j++) {
			uint32_t edge = r->edge[j];

			if (s->left[edge] < 0 || s->load[edge] < 1e-9)
				continue;
			if (full == HR_NO_EDGE || s->left[edge] / s->load[edge] < *growth) {
				full = edge;
				*growth = s->left[edge] / s->load[edge];
			}
		}
	}
	return full;
}

static bool uses(const struct route *r, uint32_t edge)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->edge[i] == edge)
			return true;
	return false;
}

/* Give all growing flows their share; stop those that cross the full edge. */
static void grow(struct solver *s, uint32_t full, double growth)
{
	for (unsigned i = 0; i < s->n; i++) {
		const struct route *r = &s->route[i];

		if (s->done[i])
			continue;
		s->rate[i].gbs += growth;
		for (unsigned j = 0; j < r->count; j++)
			if (s->left[r->edge[j]] > 0) {
				s->left[r->edge[j]] -= growth * weight_on(s, r, r->edge[j]);
				if (s->left[r->edge[j]] < 0)
					s->left[r->edge[j]] = 0;
			}
	}
	for (unsigned i = 0; i < s->n; i++)
		if (!s->done[i] && uses(&s->route[i], full)) {
			s->rate[i].edge = full;
			s->done[i] = true;
			add_load(s, i, -1);
		}
}

static void prepare(struct solver *s, enum hr_direction direction)
{
	for (uint32_t i = 0; i < s->edges; i++) {
		double limit = capacity(s->e, i);

		s->left[i] = limit > 0 ? limit : -1; /* -1: nobody knows, does not limit */
		s->load[i] = 0;
	}
	for (unsigned i = 0; i < s->n; i++) {
		make_route(s->e, direction, s->rate[i].gpu, s->rate[i].ssd, &s->route[i]);
		s->rate[i].gbs = 0;
		s->rate[i].edge = HR_NO_EDGE;
		s->done[i] = !s->route[i].open;
		if (!s->done[i])
			add_load(s, i, 1);
	}
}

static int solver_init(struct solver *s, const struct hr_engine *e, struct hr_model *m,
		       unsigned most)
{
	*s = (struct solver){ .e = e, .edges = edge_between(e) + 1 };
	s->route = hr_model_alloc(m, most * sizeof *s->route);
	s->left = hr_model_alloc(m, s->edges * sizeof *s->left);
	s->load = hr_model_alloc(m, s->edges * sizeof *s->load);
	s->done = hr_model_alloc(m, most + 1);
	return s->route && s->left && s->load && s->done ? 0 : -ENOMEM;
}

static void solve(struct solver *s, enum hr_direction direction, struct hr_rate *rate, unsigned n)
{
	double growth;
	uint32_t full;

	s->rate = rate;
	s->n = n;
	prepare(s, direction);
	/* Each round stops at least the flows of one edge. */
	for (unsigned round = 0; round < n + 1; round++) {
		full = next_full(s, &growth);
		if (full == HR_NO_EDGE)
			return;
		grow(s, full, growth);
	}
}

int hr_band_solve(const struct hr_engine *e, struct hr_model *m, enum hr_direction direction,
		  struct hr_rate *rate, unsigned n)
{
	struct solver s;

	if (n > HR_FLOWS_MAX)
		return -E2BIG;
	if (solver_init(&s, e, m, n))
		return -ENOMEM;
	solve(&s, direction, rate, n);
	return 0;
}

char *hr_edge_text(const struct hr_engine *e, uint32_t edge, char *text)
{
	static const char *const speed[] = { "?", "2.5", "5", "8", "16", "32", "64" };
	uint32_t links = 2 * e->m->count;
	char bdf[HR_BDF_MAX];

	if (edge == HR_NO_EDGE) {
		snprintf(text, 96, "nothing known");
	} else if (edge < links) {
		const struct hr_fn *f = &e->m->fn[edge / 2];
		uint32_t code = hr_get(f, HR_F_SPEED, 0);

		snprintf(text, 96, "link of %s %s, now %s GT/s x%u", hr_bdf(f, bdf),
			 edge % 2 ? "down" : "up", speed[code < 7 ? code : 0],
			 hr_get(f, HR_F_WIDTH, 0));
	} else if (edge < links + e->m->hosts) {
		const struct hr_host *h = &e->m->host[edge - links];

		snprintf(text, 96, "root complex pci%04x:%02x (prior)", h->domain, h->bus);
	} else {
		snprintf(text, 96, "way between root complexes (prior)");
	}
	return text;
}

/* ---- the plan */

static unsigned rank_of(const struct hr_engine *e, int32_t gpu, int32_t ssd)
{
	struct hr_pair p;

	hr_judge(e, gpu, ssd, &p);
	return 2 * hr_verdict_rank(p.verdict) + ((p.modifiers & HR_MOD_NUMA) != 0);
}

/* Best verdict; among equals the GPU that has the fewest SSDs yet. */
static int32_t choose(const struct hr_engine *e, int32_t ssd, const uint32_t *taken)
{
	unsigned best_rank = 0;
	uint32_t best = 0;

	for (uint32_t i = 0; i < e->gpus; i++) {
		unsigned rank = rank_of(e, e->gpu[i], ssd);

		if (i == 0 || rank < best_rank || (rank == best_rank && taken[i] < taken[best])) {
			best = i;
			best_rank = rank;
		}
	}
	return (int32_t)best;
}

static double total(const struct hr_rate *rate, unsigned n)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += rate[i].gbs;
	return sum;
}

/* Move one SSD at a time to a GPU of the same verdict while that raises the sum. */
static void improve(struct solver *s, enum hr_direction direction, struct hr_rate *rate)
{
	const struct hr_engine *e = s->e;
	double best = total(rate, e->ssds);
	unsigned tries = 0;

	for (uint32_t j = 0; j < e->ssds; j++)
		for (uint32_t i = 0; i < e->gpus && tries < PLAN_TRIES; i++) {
			int32_t was = rate[j].gpu;

			if (e->gpu[i] == was ||
			    rank_of(e, e->gpu[i], rate[j].ssd) != rank_of(e, was, rate[j].ssd))
				continue;
			tries++;
			rate[j].gpu = e->gpu[i];
			solve(s, direction, rate, e->ssds);
			if (total(rate, e->ssds) > best * 1.001)
				best = total(rate, e->ssds);
			else
				rate[j].gpu = was;
		}
	solve(s, direction, rate, e->ssds);
}

int hr_band_plan(const struct hr_engine *e, struct hr_model *m, enum hr_direction direction,
		 struct hr_rate *rate)
{
	uint32_t *taken = hr_model_alloc(m, (e->gpus + 1) * sizeof *taken);
	struct solver s;

	if (e->ssds > HR_FLOWS_MAX)
		return -E2BIG;
	if (!taken || solver_init(&s, e, m, e->ssds))
		return -ENOMEM;
	for (uint32_t j = 0; j < e->ssds; j++) {
		int32_t gpu = choose(e, e->ssd[j], taken);

		taken[gpu]++;
		rate[j] = (struct hr_rate){ .gpu = e->gpu[gpu], .ssd = e->ssd[j] };
	}
	solve(&s, direction, rate, e->ssds);
	if (e->ssds <= 256)
		improve(&s, direction, rate);
	return 0;
}
