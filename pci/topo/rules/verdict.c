/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/rules/verdict.h"
#include "pci/topo/rules/guest.h"
#include "pci/topo/rules/offset.h"
#include "pci/topo/rules/rules.h"
#include "pci/topo/uplink.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"

static const struct {
	const char *name;
	uint8_t rank;
} verdicts[HR_VERDICTS] = {
	[HR_DIRECT] = { "DIRECT", 0 },
	[HR_RC_LISTED] = { "RC_LISTED", 1 },
	[HR_REDIR_LISTED] = { "REDIRECTED+RC_LISTED", 1 },
	[HR_RC_UNLISTED] = { "RC_UNLISTED", 2 },
	[HR_REDIR_UNLISTED] = { "REDIRECTED+RC_UNLISTED", 2 },
	[HR_WRITES_ONLY] = { "RC_WRITES_ONLY", 3 },
	[HR_UNKNOWN] = { "UNKNOWN", 4 },
	[HR_VFIO_CONFLICT] = { "VFIO_CONFLICT", 5 },
	[HR_BLOCKED] = { "BLOCKED", 6 },
	[HR_SILENT_LOSS] = { "SILENT_LOSS", 7 },
};

unsigned hr_verdict_order(enum hr_verdict verdict)
{
	return verdicts[verdict].rank;
}

enum hr_verdict hr_verdict_by_name(const char *name, size_t bytes)
{
	for (unsigned i = 0; i < HR_VERDICTS; i++)
		if (strlen(verdicts[i].name) == bytes && memcmp(verdicts[i].name, name, bytes) == 0)
			return (enum hr_verdict)i;
	return HR_VERDICTS;
}

char *hr_verdict_text(enum hr_verdict verdict, unsigned rule, char *text)
{
	const char *reason = rule < hr_rules_count && hr_rules[rule].verdict == verdict
				     ? hr_rules[rule].reason
				     : NULL;

	if (reason)
		snprintf(text, 48, "%s(%s)", verdicts[verdict].name, reason);
	else
		snprintf(text, 48, "%s", verdicts[verdict].name);
	return text;
}

const char *hr_kernel_text(enum hr_kernel_verdict verdict)
{
	static const char *const name[] = { "BUS_ADDR", "THRU_HOST_BRIDGE", "NOT_SUPPORTED",
					    "UNKNOWN" };

	return name[verdict];
}

uint8_t hr_mode_flows(enum hr_mode mode)
{
	return mode == HR_MODE_GPU || mode == HR_MODE_VFIO ? F1 | F2 | F3 : F2 | F3;
}

/* ---- preparing */

static void sort_rules(struct hr_topology *e)
{
	for (unsigned i = 0; i < hr_rules_count; i++) {
		const struct hr_rule *r = &hr_rules[i];

		if (r->scope & HR_ON_PAIR)
			continue;
		if (r->scope & HR_ON_MACHINE)
			e->machine_rule[e->machine_rules++] = (uint8_t)i;
		else
			e->fn_rule[e->fn_rules++] = (uint8_t)i;
	}
}

/* The rules on pairs that can match on this machine. */
static void sort_pair_rules(struct hr_topology *e)
{
	const uint32_t traits = hr_traits_of(e);

	for (unsigned i = 0; i < hr_rules_count; i++)
		if (hr_rules[i].scope & HR_ON_PAIR && (hr_rules[i].needs & ~traits) == 0 &&
		    (!e->guest || hr_guest_rule(&hr_rules[i])))
			e->pair_rule[e->pair_rules++] = (uint8_t)i;
}

static void find_iommu(struct hr_topology *e)
{
	e->iommu_active = false;
	/* A kernel that translates by default, if an IOMMU is on. */
	e->iommu_wanted =
		hr_sys_iommu_wanted(e, NULL) ||
		(e->m->sys.iommu_type.source && e->m->sys.iommu_type.value == HR_IOMMU_ON);
	for (uint32_t i = 0; i < e->m->count && !e->iommu_active; i++)
		e->iommu_active = hr_known(&e->m->fn[i], HR_F_GROUP);
	e->iommu = e->opt.iommu;
	if (e->iommu == HR_IOMMU_UNKNOWN && e->m->sys.iommu.source &&
	    e->m->sys.iommu.value <= HR_IOMMU_ON)
		e->iommu = (enum hr_iommu)e->m->sys.iommu.value;
	if (e->iommu == HR_IOMMU_UNKNOWN && e->iommu_active && hr_sys_passthrough(e, NULL))
		e->iommu = HR_IOMMU_PT;
}

/* VFIO and the remedies turn the IOMMU on, so predict the ACS that Linux sets then. */
static void find_boot(struct hr_topology *e)
{
	hr_next_boot_predict(e->m, e->opt.kernel, e->iommu, e->m->sys.cmdline, &e->boot);
	if (e->boot.iommu != HR_IOMMU_PT && e->boot.iommu != HR_IOMMU_ON)
		hr_next_boot_force(e->m, &e->boot, HR_IOMMU_PT);
}

static void derive_acs(struct hr_derived *d, const struct hr_fn *f)
{
	bool wide = hr_fn_acs_wide(NULL, f);
	uint32_t acs = hr_get(f, HR_F_ACS, 0), ctl = hr_get(f, HR_F_ACS_CTL, 0);

	d->redirect = hr_has_acs(f) && ctl & HR_ACS_REDIRECT;
	d->kernel_redirect = d->redirect;
	/*
	 * The kernel reads the control word at +6 of every port. For ports with 32-bit registers
	 * this is the upper half of the capability register.
	 */
	if (wide && f->config && acs + HR_ACS_CTL + 1 < f->config_bytes)
		d->kernel_redirect = f->config[acs + HR_ACS_CTL] & HR_ACS_REDIRECT;
	d->acs_unknown = !hr_known(f, HR_F_ACS_CTL) && (!hr_known(f, HR_F_ACS) || acs);
	if (hr_known(f, HR_F_CAPS) && hr_get(f, HR_F_CAPS, 1) == 0)
		d->acs_unknown = false;
}

/* The first bridge that is noted is the lowest one. */
static void note_lowest(int32_t *lowest, int32_t bridge)
{
	if (*lowest == HR_NO_FN)
		*lowest = bridge;
}

/* Lowest bridge above whose windows do not contain the BAR that peers address, or are not known. */
static void derive_windows(const struct hr_topology *e, struct hr_derived *d, const struct hr_fn *f)
{
	const struct hr_model *m = e->m;
	int bar = hr_peer_bar(f);
	struct hr_bus_range r;

	d->bar_base = d->bar_reach.base = 1;
	if (bar < 0 || f->readdressed || f->bar[bar].flags & HR_BAR_UNASSIGNED)
		return;
	r = hr_bus_range(e, f, &f->bar[bar]);
	if (r.state != HR_OFFSET_UNKNOWN) {
		d->bar_base = r.base;
		d->bar_last = r.last;
		d->bar_reach = r.reach;
		d->bar_offset = r.offset;
	}
	for (int32_t up = f->parent; up != HR_NO_FN; up = m->fn[up].parent) {
		const struct hr_fn *b = &m->fn[up];

		if (hr_window_holds(&b->mem, r.base, r.last) ||
		    hr_window_holds(&b->pref, r.base, r.last))
			continue;
		if (!b->mem.source || !b->pref.source)
			note_lowest(&d->window_unread, up);
		else
			note_lowest(r.state == HR_OFFSET_UNKNOWN ? &d->window_kinds
								 : &d->window_break,
				    up);
	}
}

static bool cross(const struct hr_window *a, const struct hr_window *b)
{
	return a->source && b->source && a->base <= a->limit && b->base <= b->limit &&
	       a->base <= b->limit && b->base <= a->limit;
}

static bool bridges_cross(const struct hr_fn *a, const struct hr_fn *b)
{
	if (hr_lacks(a, HR_F_COMMAND, HR_COMMAND_MSE) || hr_lacks(b, HR_F_COMMAND, HR_COMMAND_MSE))
		return false;
	return cross(&a->mem, &b->mem) || cross(&a->mem, &b->pref) || cross(&a->pref, &b->mem) ||
	       cross(&a->pref, &b->pref);
}

/* Functions are sorted, so the ports of one bus are contiguous. A bus has at most 256. */
static void derive_overlaps(struct hr_topology *e)
{
	const struct hr_fn *fn = e->m->fn;

	for (uint32_t i = 0; i < e->m->count; i++) {
		if (!hr_is_bridge(&fn[i]))
			continue;
		for (uint32_t j = i + 1;
		     j < e->m->count && fn[j].domain == fn[i].domain && fn[j].bus == fn[i].bus; j++)
			if (hr_is_bridge(&fn[j]) && fn[i].parent == fn[j].parent &&
			    bridges_cross(&fn[i], &fn[j]))
				e->derived[i].overlaps = e->derived[j].overlaps = true;
	}
}

static enum hr_scope scope_of(const struct hr_fn *f)
{
	enum hr_scope scope = 0;

	if (hr_is_bridge(f))
		return HR_ON_PORT | HR_ON_COMMON | HR_ON_ABOVE | HR_ON_CLIMB;
	if (hr_is_gpu(f))
		scope |= HR_ON_GPU;
	if (hr_is_nvme(f))
		scope |= HR_ON_SSD;
	/* The command line may name any other function as a GPU or an SSD. */
	return scope ? scope : HR_ON_ENDS;
}

static void try_rules(struct hr_topology *e, uint32_t index)
{
	const struct hr_fn *f = &e->m->fn[index];
	enum hr_scope scope = scope_of(f);

	if (e->guest && hr_is_bridge(f))
		return;
	for (uint32_t i = 0; i < e->fn_rules; i++) {
		unsigned r = e->fn_rule[i];

		if (hr_rules[r].scope & scope && (!e->guest || hr_guest_rule(&hr_rules[r])) &&
		    hr_rules[r].on_fn(e, f))
			hr_hit_set(&e->derived[index].hits, r);
	}
}

static int find_endpoints(struct hr_topology *e, struct hr_model *m)
{
	e->gpu = hr_model_alloc(m, m->count * sizeof *e->gpu);
	e->ssd = hr_model_alloc(m, m->count * sizeof *e->ssd);
	if (!e->gpu || !e->ssd)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->count; i++) {
		if (hr_is_bridge(&m->fn[i]))
			continue;
		if (hr_is_gpu(&m->fn[i]))
			e->gpu[e->gpus++] = (int32_t)i;
		if (hr_is_nvme(&m->fn[i]))
			e->ssd[e->ssds++] = (int32_t)i;
	}
	return 0;
}

/*
 * Find the function that prevents VFIO from opening each group. Without an IOMMU there are no
 * groups.
 */
static int find_blockers(struct hr_topology *e, struct hr_model *m)
{
	bool predict = hr_mode_is_vfio(e->opt.mode) && e->iommu != HR_IOMMU_OFF;

	e->blocker = hr_model_alloc(m, m->count * sizeof *e->blocker);
	if (!e->blocker || (predict && hr_groups_at_boot(m, &e->boot, &e->groups)))
		return -ENOMEM;
	if (e->opt.iommu != HR_IOMMU_OFF)
		return hr_groups_blockers(m, predict ? &e->groups : NULL, e->blocker);
	for (uint32_t i = 0; i < m->count; i++)
		e->blocker[i] = HR_NO_FN;
	return 0;
}

static uint32_t min_nonzero(uint32_t a, uint32_t b)
{
	return a == 0 || (b && b < a) ? b : a;
}

static void add_hits(struct hr_hits *to, const struct hr_hits *from)
{
	for (unsigned w = 0; w < HR_RULES_MAX / 64; w++)
		to->word[w] |= from->word[w];
}

static void widen(struct hr_span *span, const struct hr_window *w)
{
	if (!w->source || w->base > w->limit)
		return;
	if (span->base > span->last)
		*span = (struct hr_span){ w->base, w->limit };
	span->base = w->base < span->base ? w->base : span->base;
	span->last = w->limit > span->last ? w->limit : span->last;
}

/* Pairs share the path above their common bridge, so it is gathered once per bridge. */
static void derive_above(struct hr_topology *e, uint32_t index)
{
	struct hr_derived *d = &e->derived[index];

	for (int32_t at = (int32_t)index; at != HR_NO_FN; at = e->derived[at].parent) {
		const struct hr_fn *f = &e->m->fn[at];

		d->mps_missing += hr_get(f, HR_F_EXP, 0) != 0 && !hr_known(f, HR_F_MPS);
		add_hits(&d->above, &e->derived[at].hits);
		d->chipset |= e->derived[at].chipset;
		d->above_mps = min_nonzero(d->above_mps, e->derived[at].mps);
		if (at == (int32_t)index)
			continue;
		widen(&d->mem_above, &f->mem);
		widen(&d->pref_above, &f->pref);
	}
}

static bool has_bars(const struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		for (unsigned bar = 0; bar < HR_BARS_MAX; bar++)
			if (m->fn[i].bar[bar].flags)
				return true;
	return false;
}

int hr_topology_init(struct hr_topology *e, struct hr_model *m, const struct hr_topo_options *opt)
{
	memset(e, 0, sizeof *e);
	e->m = m;
	e->opt = *opt;
	sort_rules(e);
	hr_cpu_find(e);
	find_iommu(e);
	find_boot(e);
	hr_guest_find(e);
	e->bars = has_bars(m);
	e->derived = hr_model_alloc(m, m->count * sizeof *e->derived);
	e->step = hr_model_alloc(m, m->count * sizeof *e->step);
	if (!e->derived || !e->step || find_endpoints(e, m) || hr_hosts_list(e, m) ||
	    find_blockers(e, m) || hr_pci_slots_find(e, m) || hr_offsets_find(e, m))
		return -ENOMEM;
	for (uint32_t i = 0; i < m->count; i++) {
		struct hr_derived *d = &e->derived[i];

		memset(d, 0, sizeof *d);
		d->window_break = d->window_unread = d->window_kinds = HR_NO_FN;
		d->mem_above.base = d->pref_above.base = 1;
		d->parent = m->fn[i].parent;
		e->switch_links |= m->fn[i].links != 0;
		d->uplink = (uint8_t)hr_uplink_of(m, &m->fn[i]);
		d->chipset = hr_fn_pch(e, &m->fn[i]);
		d->card_port = hr_uplink_is_card(m, &m->fn[i]);
		d->depth = m->fn[i].depth;
		d->root_bus = m->fn[i].root_bus;
		d->orphan = m->fn[i].orphan;
		d->node = hr_get(&m->fn[i], HR_F_NUMA, m->root_bus[d->root_bus].numa);
		d->pch = hr_device_is(hr_get(&m->fn[i], HR_F_VENDOR, 0),
				      hr_get(&m->fn[i], HR_F_DEVICE, 0), HR_DEV_PCH_PORT);
		d->mps = hr_get(&m->fn[i], HR_F_MPS, 0);
		derive_acs(d, &m->fn[i]);
		d->acs_assumed = m->fn[i].acs_assumed;
		d->boot_redirect =
			hr_next_boot_acs(m, &e->boot, (int32_t)i, NULL) & HR_ACS_REDIRECT;
		e->step[i] = (struct hr_step){ d->parent, (uint16_t)d->depth,
					       hr_walk_flags(e, (int32_t)i) };
		if (!hr_is_bridge(&m->fn[i]))
			derive_windows(e, d, &m->fn[i]);
	}
	derive_overlaps(e);
	for (uint32_t i = 0; i < m->count; i++)
		try_rules(e, i);
	for (uint32_t i = 0; i < m->count; i++)
		derive_above(e, i);
	sort_pair_rules(e);
	for (uint32_t i = 0; i < e->machine_rules; i++)
		if (hr_rules[e->machine_rule[i]].on_fn(e, NULL))
			hr_hit_set(&e->machine, e->machine_rule[i]);
	return 0;
}

/* ---- evaluating pairs */

/*
 * Collect the rules that match between an endpoint and the common bridge; returns the smallest
 * payload of the ports.
 */
static uint32_t gather_path_hits(const struct hr_topology *e, const struct hr_pair *p, int32_t from,
				 struct hr_hits *hits)
{
	uint32_t mps = 0;

	for (int32_t at = from; at != p->common; at = e->derived[at].parent) {
		add_hits(hits, &e->derived[at].hits);
		if (at != from)
			mps = min_nonzero(mps, e->derived[at].mps);
	}
	return mps;
}

/* Find the flows that go up although there is a common bridge (PCIe Base 6.12.3). */
static void find_redirects(const struct hr_topology *e, struct hr_pair *p)
{
	const struct hr_fn *gpu = &e->m->fn[p->gpu_child], *ssd = &e->m->fn[p->ssd_child];

	if (p->cut) /* the bridge where they meet may be missing */
		return;
	if (p->common == HR_NO_FN) {
		p->climbs = p->redirected = ALL;
		return;
	}
	p->climbs = (uint8_t)((hr_has(gpu, HR_F_ACS_CTL, HR_ACS_RR) ? F1 | F4 : 0) |
			      (hr_has(ssd, HR_F_ACS_CTL, HR_ACS_RR) ? F2 | F3 : 0));
	p->redirected = (uint8_t)(p->climbs | (hr_has(gpu, HR_F_ACS_CTL, HR_ACS_CR) ? F3 : 0) |
				  (hr_has(ssd, HR_F_ACS_CTL, HR_ACS_CR) ? F4 : 0));
	/* A switch cannot route IOVAs: they go up to be translated (rule I5). */
	if (hr_translated(e, p))
		p->climbs = p->redirected = ALL;
	/* A port other than the two below the common bridge redirects, so the flow that goes up is
	 * not known. */
	p->up = p->redirected || !p->any_redirect ? p->redirected : ALL;
}

static void gather_payload(const struct hr_topology *e, struct hr_pair *p)
{
	p->gpu_mps = gather_path_hits(e, p, p->gpu, &p->gpu_side);
	p->ssd_mps = gather_path_hits(e, p, p->ssd, &p->ssd_side);
	if (p->common != HR_NO_FN && p->up)
		p->up_mps = e->derived[p->common].above_mps;
	p->min_mps = min_nonzero(min_nonzero(p->gpu_mps, p->ssd_mps), p->up_mps);
}

static void worsen(struct hr_pair *p, unsigned flow, enum hr_verdict verdict, unsigned rule)
{
	unsigned rank = hr_verdict_order(verdict), now = hr_verdict_order(p->flow[flow]);

	if (p->flow_rule[flow] != HR_RULES_MAX &&
	    (rank < now || (rank == now && rule > p->flow_rule[flow])))
		return;
	p->flow[flow] = verdict;
	p->flow_rule[flow] = (uint8_t)rule;
}

bool hr_rule_counts(const struct hr_rule *r, const struct hr_pair *p)
{
	bool across = p->common == HR_NO_FN;

	return r->where == HR_ANYWHERE || (!p->cut && (r->where == HR_ACROSS) == across);
}

static void apply(struct hr_pair *p, unsigned rule, uint8_t flows)
{
	const struct hr_rule *r = &hr_rules[rule];
	if (!flows || !hr_rule_counts(r, p))
		return;
	p->modifiers |= r->modifier;
	if (r->verdict == HR_VERDICTS || r->recalled)
		return;
	for (unsigned flow = 0; flow < HR_FLOWS; flow++)
		if (flows >> flow & 1)
			worsen(p, flow, r->verdict, rule);
}

static void apply_side(struct hr_pair *p, const struct hr_hits *hits, bool gpu_side)
{
	for (unsigned w = 0; w < HR_RULES_MAX / 64; w++)
		for (uint64_t left = hits->word[w]; left; left &= left - 1) {
			unsigned rule = w * 64 + (unsigned)__builtin_ctzll(left);

			apply(p, rule,
			      gpu_side ? hr_rules[rule].gpu_flows : hr_rules[rule].ssd_flows);
		}
}

static void apply_pair(const struct hr_topology *e, struct hr_pair *p)
{
	for (uint32_t i = 0; i < e->pair_rules; i++) {
		unsigned rule = e->pair_rule[i];
		uint8_t flows = hr_rules[rule].on_pair(e, p);

		if (!flows)
			continue;
		hr_hit_set(&p->pair_hits, rule);
		apply(p, rule, flows);
	}
}

uint8_t hr_flows_above(const struct hr_pair *p, const struct hr_rule *r, bool common)
{
	uint8_t all = r->gpu_flows | r->ssd_flows;

	if (r->scope & HR_ON_ABOVE || (common && r->scope & HR_ON_COMMON))
		return all;
	return r->scope & HR_ON_CLIMB ? all & p->up : 0;
}

/* Apply the rules of the common bridge and of the bridges above it to all flows. */
static void apply_above(const struct hr_topology *e, struct hr_pair *p)
{
	const struct hr_derived *d;

	if (p->common == HR_NO_FN)
		return;
	d = &e->derived[p->common];
	for (unsigned w = 0; w < HR_RULES_MAX / 64; w++)
		for (uint64_t left = d->above.word[w]; left; left &= left - 1) {
			unsigned rule = w * 64 + (unsigned)__builtin_ctzll(left);

			apply(p, rule, hr_flows_above(p, &hr_rules[rule], hr_hit(&d->hits, rule)));
		}
}

/*
 * An ACS bit can be assigned to a flow only at the two ports below the common bridge. The kernel
 * refuses a pair for any bit on any port. Where the two results differ, the verdict is not better
 * than the kernel's.
 */
static void apply_union(struct hr_pair *p)
{
	enum hr_verdict verdict = p->root_unread ? HR_UNKNOWN
				  : p->listed	 ? HR_REDIR_LISTED
						 : HR_REDIR_UNLISTED;

	if (p->common == HR_NO_FN || !p->any_redirect ||
	    hr_verdict_order(p->verdict) >= hr_verdict_order(verdict))
		return;
	p->verdict = verdict;
	for (unsigned i = 0; i < hr_rules_count; i++)
		if (p->root_unread ? hr_rules[i].on_pair == hr_pair_rc_unread
				   : hr_rules[i].verdict == verdict)
			p->rule = (uint8_t)i;
}

void hr_pair_evaluate_flows(const struct hr_topology *e, int32_t gpu, int32_t ssd, uint8_t flows,
			    struct hr_pair *p)
{
	bool first = true;

	memset(p, 0, sizeof *p);
	p->gpu = gpu;
	p->ssd = ssd;
	memset(p->flow_rule, HR_RULES_MAX, sizeof p->flow_rule);
	hr_pair_evaluate_kernel(e, p);
	find_redirects(e, p);
	gather_payload(e, p);
	apply_side(p, &p->gpu_side, true);
	apply_side(p, &p->ssd_side, false);
	apply_side(p, &e->machine, true);
	apply_above(e, p);
	apply_pair(e, p);
	for (unsigned flow = 0; flow < HR_FLOWS; flow++) {
		if (!(flows >> flow & 1))
			continue;
		if (!first && hr_verdict_order(p->flow[flow]) <= hr_verdict_order(p->verdict))
			continue;
		p->verdict = p->flow[flow];
		p->rule = p->flow_rule[flow];
		first = false;
	}
	apply_union(p);
}

void hr_pair_evaluate(const struct hr_topology *e, int32_t gpu, int32_t ssd, struct hr_pair *p)
{
	hr_pair_evaluate_flows(e, gpu, ssd, hr_mode_flows(e->opt.mode), p);
}

unsigned hr_functions_below(const struct hr_model *m, int32_t from, int32_t common, int32_t *out,
			    unsigned max)
{
	unsigned n = 0;

	for (int32_t at = from; at != common && at != HR_NO_FN && n < max; at = m->fn[at].parent)
		out[n++] = at;
	return n;
}
