/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/forecast/rates.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"
#include "pci/topo/uplink.h"

#define PATH_MAX_EDGES (4 * HR_DEPTH_MAX + 4)
#define DLLP_SHARE 0.965
#define PLAN_TRIES 512u
#define FAR_ROOT (4 * HR_DEPTH_MAX) /* more steps than a path below one root port has */

/*
 * Numbers of edges: the link of each function upwards and downwards, the connection of each root
 * port with the root complex in each direction, and the connection between root complexes.
 */
static uint32_t edge_up(int32_t fn)
{
	return 2 * (uint32_t)fn;
}

static uint32_t edge_down(int32_t fn)
{
	return 2 * (uint32_t)fn + 1;
}

static uint32_t edge_port(const struct hr_topology *e, int32_t root, bool down)
{
	return 2 * (e->m->count + (uint32_t)root) + down;
}

static uint32_t edge_between(const struct hr_topology *e)
{
	return 4 * e->m->count;
}

double hr_pcie_link_gbs(uint32_t speed_code, uint32_t width)
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

/*
 * Payload in GB/s of one x16 flow between root ports, and of the connection between sockets.
 * Sources: for Genoa, gdsio on 4 RTX 6000 Ada and 8 SSDs behind one x16 slot, local and remote
 * alike (22 to 24 GiB/s); for other CPUs, NCCL's constants (src/graph/topo.h). 0: not measured.
 */
static const struct {
	uint16_t vendor, device;
	double flow, between;
} priors[] = { { 0x1022, 0x14a4, 24, 0 },  { 0x8086, 0x09a2, 22, 22 }, { 0x8086, 0x2020, 10, 10 },
	       { 0x8086, 0x2030, 10, 10 }, { 0x8086, 0x6f00, 6, 6 },   { 0x8086, 0x2f00, 6, 6 },
	       { 0x8086, 0x3c00, 6, 6 } };

static int prior_row(const struct hr_topology *e, int32_t root)
{
	const struct hr_fn *f = &e->m->fn[e->m->root_bus[root].first];

	for (unsigned i = 0; i < sizeof priors / sizeof *priors; i++)
		if (hr_get(f, HR_F_VENDOR, 0) == priors[i].vendor &&
		    hr_get(f, HR_F_DEVICE, 0) == priors[i].device)
			return (int)i;
	return -1;
}

double hr_rates_prior(const struct hr_topology *e, int32_t root)
{
	int row = prior_row(e, root);

	if (row >= 0)
		return priors[row].flow;
	return e->zen ? 16 : 10;
}

static double between_prior(const struct hr_topology *e, int32_t root)
{
	int row = prior_row(e, root);

	if (row >= 0)
		return priors[row].between;
	return e->zen ? 16 : 10;
}

/* Idle GPUs lower their link speed, so the speed under load counts (rule H1-idle). */
static double link_capacity(const struct hr_topology *e, int32_t fn)
{
	const struct hr_fn *f = &e->m->fn[fn], *up;
	uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_RC_ENDPOINT);
	uint32_t speed = hr_get(f, HR_F_SPEED, hr_get(f, HR_F_SPEED_MAX, 0));

	if (e->derived[fn].uplink == HR_UPLINK_TUNNEL)
		return (HR_TUNNEL_FROM + HR_TUNNEL_TO) / 2;
	if (e->derived[fn].uplink == HR_UPLINK_INSIDE)
		return 0;
	if (port != HR_PORT_ENDPOINT && port != HR_PORT_LEGACY && port != HR_PORT_UPSTREAM)
		return 0;
	if ((hr_is_gpu(f) || e->derived[fn].card_port) && hr_get(f, HR_F_SPEED_TARGET, 0) > speed) {
		up = f->parent == HR_NO_FN ? f : &e->m->fn[f->parent];
		speed = hr_get(f, HR_F_SPEED_MAX, speed);
		if (hr_get(up, HR_F_SPEED_MAX, speed) < speed)
			speed = hr_get(up, HR_F_SPEED_MAX, speed);
	}
	return hr_pcie_link_gbs(speed, hr_get(f, HR_F_WIDTH, hr_get(f, HR_F_WIDTH_MAX, 0)));
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

static uint8_t uplink(const struct hr_topology *e, uint32_t edge)
{
	return edge < 2 * e->m->count ? e->derived[edge / 2].uplink : HR_UPLINK_LANES;
}

/* True when the route has a link whose rate no model tells. */
static bool has_unknown(const struct hr_topology *e, const struct route *r)
{
	for (unsigned i = 0; i < r->count; i++)
		if (uplink(e, r->edge[i]) == HR_UPLINK_TUNNEL_OTHER)
			return true;
	return false;
}

/* Data moves from the SSD up and to the GPU down (HR_TO_GPU), or the other direction. */
static void cross_link(struct route *r, int32_t fn, bool ssd_side, enum hr_direction direction)
{
	cross(r, ssd_side == (direction == HR_TO_GPU) ? edge_up(fn) : edge_down(fn));
}

/* The root port above the function, or the function itself when it is on a root bus. */
static int32_t root_of(const struct hr_topology *e, int32_t fn)
{
	while (e->derived[fn].parent != HR_NO_FN)
		fn = e->derived[fn].parent;
	return fn;
}

/* Data enters the root complex at one port and leaves it at another port or at the same port. */
static void through_root(const struct hr_topology *e, const struct hr_pair *p,
			 enum hr_direction direction, struct route *r)
{
	const struct hr_fn *fn = e->m->fn;
	bool to_gpu = direction == HR_TO_GPU;

	for (int32_t at = p->common; at != HR_NO_FN; at = fn[at].parent) {
		cross(r, edge_up(at));
		cross(r, edge_down(at));
	}
	cross(r, edge_port(e, root_of(e, to_gpu ? p->ssd : p->gpu), false));
	cross(r, edge_port(e, root_of(e, to_gpu ? p->gpu : p->ssd), true));
	if (fn[p->gpu].root_bus != fn[p->ssd].root_bus)
		cross(r, edge_between(e));
}

/* Intel root complexes split peer traffic into cache lines, for any payload size. */
static bool splits(const struct hr_topology *e, int32_t fn)
{
	const struct hr_root_bus *root = &e->m->root_bus[e->m->fn[fn].root_bus];

	return hr_get(&e->m->fn[root->first], HR_F_VENDOR, 0) == 0x8086;
}

/* The smallest TLP payload on the route. */
static uint32_t route_payload(const struct hr_topology *e, const struct hr_pair *p,
			      enum hr_direction direction, bool through)
{
	uint32_t payload = e->derived[direction == HR_TO_GPU ? p->ssd : p->gpu].mps;

	if (p->min_mps && (!payload || p->min_mps < payload))
		payload = p->min_mps;
	if (through && (splits(e, p->gpu) || splits(e, p->ssd)))
		return 64;
	return payload ? payload : 128;
}

static void make_route(const struct hr_topology *e, enum hr_direction direction, int32_t gpu,
		       int32_t ssd, struct route *r)
{
	unsigned flow = direction == HR_TO_GPU ? HR_F2 : HR_F3;
	struct hr_pair p;
	bool through;

	hr_pair_evaluate(e, gpu, ssd, &p);
	r->count = 0;
	/* HR_WRITES_ONLY is a verdict on flows that read. */
	r->open = hr_verdict_order(p.flow[flow]) < hr_verdict_order(HR_WRITES_ONLY);
	through = p.common == HR_NO_FN || p.redirected >> flow & 1;
	r->weight = 1 / (hr_tlp_efficiency(route_payload(e, &p, direction, through), direction) *
			 DLLP_SHARE);
	for (int32_t at = gpu; at != p.common; at = e->derived[at].parent)
		cross_link(r, at, false, direction);
	for (int32_t at = ssd; at != p.common; at = e->derived[at].parent)
		cross_link(r, at, true, direction);
	if (through)
		through_root(e, &p, direction, r);
	r->open &= !has_unknown(e, r);
}

struct solver {
	const struct hr_topology *e;
	unsigned n;
	struct hr_rate *rate;
	struct route *route;
	double *left, *load; /* per edge: remaining capacity; sum of the weights of growing flows */
	uint32_t edges;
	bool *done;
};

static double capacity(const struct hr_topology *e, uint32_t edge)
{
	uint32_t links = 2 * e->m->count;
	double least = 0, one;

	if (edge < links)
		return link_capacity(e, (int32_t)(edge / 2));
	if (edge < 2 * links)
		return hr_rates_prior(e, e->m->fn[(edge - links) / 2].root_bus);
	for (uint32_t i = 0; i < e->m->root_buses; i++) {
		one = between_prior(e, (int32_t)i);
		if (one > 0 && (least <= 0 || one < least))
			least = one;
	}
	return least;
}

/*
 * Rates of root complexes and tunnels are payload rates, so they need no conversion from link
 * bytes.
 */
static double weight_on(const struct solver *s, const struct route *r, uint32_t edge)
{
	return edge < 2 * s->e->m->count && uplink(s->e, edge) != HR_UPLINK_TUNNEL ? r->weight : 1;
}

static void add_load(struct solver *s, unsigned flow, double sign)
{
	const struct route *r = &s->route[flow];

	for (unsigned i = 0; i < r->count; i++)
		s->load[r->edge[i]] += sign * weight_on(s, r, r->edge[i]);
}

/*
 * The edge that fills up first when all growing flows grow equally, and by how much they can grow.
 */
static uint32_t next_full(const struct solver *s, double *growth)
{
	uint32_t full = HR_NO_EDGE;

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

/* Give each growing flow its share, and stop the flows that cross the full edge. */
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

static void prepare_solver(struct solver *s, enum hr_direction direction)
{
	for (uint32_t i = 0; i < s->edges; i++) {
		double limit = capacity(s->e, i);

		s->left[i] = limit > 0 ? limit : -1; /* -1: not known, so no limit */
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

static int solver_init(struct solver *s, const struct hr_topology *e, struct hr_model *m,
		       unsigned most)
{
	*s = (struct solver){ .e = e, .edges = edge_between(e) + 1 };
	s->route = hr_model_alloc(m, most * sizeof *s->route);
	s->left = hr_model_alloc(m, s->edges * sizeof *s->left);
	s->load = hr_model_alloc(m, s->edges * sizeof *s->load);
	s->done = hr_model_alloc(m, most);
	return s->route && s->left && s->load && s->done ? 0 : -ENOMEM;
}

static void solve(struct solver *s, enum hr_direction direction, struct hr_rate *rate, unsigned n)
{
	double growth = 0;
	uint32_t full;

	s->rate = rate;
	s->n = n;
	prepare_solver(s, direction);
	/* Each round stops at least the flows of one edge, so the loop ends. */
	while ((full = next_full(s, &growth)) != HR_NO_EDGE)
		grow(s, full, growth);
}

int hr_rates_solve(const struct hr_topology *e, struct hr_model *m, enum hr_direction direction,
		   struct hr_rate *rate, unsigned n)
{
	const size_t used = m->used;
	struct solver s;
	int err = -ENOMEM;

	if (n > HR_FLOWS_MAX)
		return -E2BIG;
	if (solver_init(&s, e, m, n) == 0) {
		solve(&s, direction, rate, n);
		err = 0;
	}
	hr_model_release(m, used);
	return err;
}

bool hr_rates_are_bounds(const struct hr_topology *e, const struct hr_rate *rate, unsigned n)
{
	unsigned through = 0;
	struct hr_pair p;

	for (unsigned i = 0; i < n; i++) {
		if (rate[i].gbs <= 0)
			continue;
		hr_pair_evaluate(e, rate[i].gpu, rate[i].ssd, &p);
		through += p.common == HR_NO_FN || p.redirected;
	}
	return through > 1;
}

bool hr_rate_unknown(const struct hr_topology *e, const struct hr_rate *r)
{
	struct hr_pair p;

	if (r->gbs > 0)
		return false;
	hr_pair_evaluate(e, r->gpu, r->ssd, &p);
	return p.verdict == HR_UNKNOWN ||
	       hr_verdict_order(p.verdict) < hr_verdict_order(HR_WRITES_ONLY);
}

bool hr_rate_range(const struct hr_topology *e, const struct hr_rate *r, double *from, double *to)
{
	const double middle = (HR_TUNNEL_FROM + HR_TUNNEL_TO) / 2;
	bool tunnel = r->edge != HR_NO_EDGE && uplink(e, r->edge) == HR_UPLINK_TUNNEL;

	*from = r->gbs * (tunnel ? HR_TUNNEL_FROM / middle : 1);
	*to = r->gbs * (tunnel ? HR_TUNNEL_TO / middle : 1);
	return tunnel;
}

char *hr_edge_text(const struct hr_topology *e, uint32_t edge, char *text)
{
	uint32_t links = 2 * e->m->count;
	char bdf[HR_BDF_MAX];

	if (edge == HR_NO_EDGE) {
		snprintf(text, 96, "nothing known");
	} else if (uplink(e, edge) == HR_UPLINK_TUNNEL) {
		snprintf(text, 96,
			 "tunnel above %s, Thunderbolt or USB4 (model: %.1f to %.1f GB/s)",
			 hr_bdf(&e->m->fn[edge / 2], bdf), HR_TUNNEL_FROM, HR_TUNNEL_TO);
	} else if (edge < links) {
		const struct hr_fn *f = &e->m->fn[edge / 2];

		snprintf(text, 96, "link of %s %s, now %s GT/s x%u", hr_bdf(f, bdf),
			 edge % 2 ? "down" : "up", hr_link_speed_text(hr_get(f, HR_F_SPEED, 0)),
			 hr_get(f, HR_F_WIDTH, 0));
	} else if (edge < 2 * links) {
		snprintf(text, 96, "root port %s %s the root complex (prior: one x16 flow)",
			 hr_bdf(&e->m->fn[(edge - links) / 2], bdf), edge % 2 ? "out of" : "into");
	} else {
		snprintf(text, 96, "link between root complexes (prior)");
	}
	return text;
}

/* ---- the plan */

/*
 * Rank of a GPU for an SSD: by verdict first. Then a common switch is better than none, even if ACS
 * redirects now, because --fix makes such a pair direct. Then by NUMA node and number of steps.
 */
static unsigned rank_of(const struct hr_topology *e, int32_t gpu, int32_t ssd)
{
	struct hr_pair p;
	unsigned far;

	hr_pair_evaluate(e, gpu, ssd, &p);
	/*
	 * Across root ports the number of steps tells the depth of the cards, not their distance.
	 */
	far = p.common == HR_NO_FN ? FAR_ROOT + FAR_ROOT / 2 * !p.same_root : p.distance;
	if (p.modifiers & HR_MOD_NUMA)
		far += 2 * FAR_ROOT;
	return hr_verdict_order(p.verdict) << 16 | far;
}

/* The GPU with the best rank; among equals the GPU with the fewest SSDs. */
static int32_t choose_gpu_for_ssd(const struct hr_topology *e, int32_t ssd, const uint32_t *taken)
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

/* Move single SSDs to other GPUs of the same rank while this raises the sum of rates. */
static void improve(struct solver *s, enum hr_direction direction, struct hr_rate *rate)
{
	const struct hr_topology *e = s->e;
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

int hr_rates_assign(const struct hr_topology *e, struct hr_model *m, enum hr_direction direction,
		    struct hr_rate *rate)
{
	const size_t used = m->used;
	uint32_t *taken;
	struct solver s;

	if (e->ssds > HR_FLOWS_MAX)
		return -E2BIG;
	taken = hr_model_alloc(m, e->gpus * sizeof *taken);
	if (!taken || solver_init(&s, e, m, e->ssds)) {
		hr_model_release(m, used);
		return -ENOMEM;
	}
	for (uint32_t j = 0; j < e->ssds; j++) {
		int32_t gpu = choose_gpu_for_ssd(e, e->ssd[j], taken);

		taken[gpu]++;
		rate[j] = (struct hr_rate){ .gpu = e->gpu[gpu], .ssd = e->ssd[j] };
	}
	solve(&s, direction, rate, e->ssds);
	if (e->ssds <= 256)
		improve(&s, direction, rate);
	hr_model_release(m, used);
	return 0;
}
