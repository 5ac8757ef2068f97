/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on a pair, over the facts that the walk gathered. */
#include "pci/topo/rules/rules.h"

#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/rules/software.h"
#include "pci/topo/rules/peers.h"
#include "pci/topo/tables.h"

static const struct hr_fn *fn(const struct hr_topology *e, int32_t index)
{
	return &e->m->fn[index];
}

static bool apart(const struct hr_pair *p)
{
	return p->common == HR_NO_FN;
}

/* ---- the path */

uint8_t hr_pair_direct(const struct hr_topology *e, const struct hr_pair *p)
{
	/* For a port whose ACS was not read, rules U1 to U3 cover all flows. */
	return apart(p) || p->unread_port ? 0 : (uint8_t)(ALL & ~p->redirected & ~p->climbs);
}

static uint8_t through(const struct hr_pair *p, bool together, bool listed)
{
	if (apart(p) == together || p->listed != listed || p->root_unread)
		return 0;
	return p->redirected | p->climbs;
}

uint8_t hr_pair_rc_listed(const struct hr_topology *e, const struct hr_pair *p)
{
	return through(p, false, true);
}

uint8_t hr_pair_rc_unlisted(const struct hr_topology *e, const struct hr_pair *p)
{
	return through(p, false, false);
}

/*
 * Translated requests go up regardless of ACS. They have a rule of their own, because the remedy of
 * the ACS rules, clearing ACS, does not help.
 */
uint8_t hr_pair_redir_listed(const struct hr_topology *e, const struct hr_pair *p)
{
	return hr_translated(e, p) ? 0 : through(p, true, true);
}

uint8_t hr_pair_redir_unlisted(const struct hr_topology *e, const struct hr_pair *p)
{
	return hr_translated(e, p) ? 0 : through(p, true, false);
}

uint8_t hr_pair_iova_listed(const struct hr_topology *e, const struct hr_pair *p)
{
	return hr_translated(e, p) ? through(p, true, true) : 0;
}

uint8_t hr_pair_iova_unlisted(const struct hr_topology *e, const struct hr_pair *p)
{
	return hr_translated(e, p) ? through(p, true, false) : 0;
}

uint8_t hr_pair_rc_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	return p->root_unread ? p->redirected | p->climbs : 0;
}

uint8_t hr_pair_cut(const struct hr_topology *e, const struct hr_pair *p)
{
	return p->cut ? ALL : 0;
}

uint8_t hr_pair_pch_peers(const struct hr_topology *e, const struct hr_pair *p)
{
	return apart(p) && !p->cut && e->derived[p->gpu_child].pch && e->derived[p->ssd_child].pch
		       ? ALL
		       : 0;
}

/* A port above one function is linked with a port above the other one, by their common switch. */
uint8_t hr_pair_switch_link(const struct hr_topology *e, const struct hr_pair *p)
{
	for (int32_t a = e->derived[p->gpu].parent; a != p->common && a != HR_NO_FN;
	     a = e->derived[a].parent)
		for (int32_t b = e->derived[p->ssd].parent; b != p->common && b != HR_NO_FN;
		     b = e->derived[b].parent)
			for (unsigned i = 0; i < fn(e, a)->links; i++)
				if (fn(e, a)->linked[i] == hr_address(fn(e, b)))
					return ALL;
	return 0;
}

/* ---- windows */

/* The flows to a target that pass this bridge above it: all flows when it is below the common
 * bridge. */
static uint8_t passing(const struct hr_topology *e, const struct hr_pair *p, int32_t bridge,
		       uint8_t flows)
{
	if (bridge == HR_NO_FN)
		return 0;
	return apart(p) || fn(e, bridge)->depth > fn(e, p->common)->depth ? flows : flows & p->up;
}

uint8_t hr_pair_window(const struct hr_topology *e, const struct hr_pair *p)
{
	return passing(e, p, e->derived[p->gpu].window_break, F2 | F3) |
	       passing(e, p, e->derived[p->ssd].window_break, F1 | F4);
}

uint8_t hr_pair_window_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	return passing(e, p, e->derived[p->gpu].window_unread, F2 | F3) |
	       passing(e, p, e->derived[p->ssd].window_unread, F1 | F4);
}

uint8_t hr_pair_window_kinds(const struct hr_topology *e, const struct hr_pair *p)
{
	return passing(e, p, e->derived[p->gpu].window_kinds, F2 | F3) |
	       passing(e, p, e->derived[p->ssd].window_kinds, F1 | F4);
}

static bool meets(const struct hr_span *s, uint64_t base, uint64_t last)
{
	return base <= s->last && last >= s->base;
}

static bool window_overlaps(const struct hr_window *w, uint64_t base, uint64_t last)
{
	return w->source && w->base <= w->limit && base <= w->limit && last >= w->base;
}

/* First bridge above an endpoint; the end of the walk when the endpoint is the common bridge. */
static int32_t above(const struct hr_topology *e, const struct hr_pair *p, int32_t index)
{
	return index == p->common ? index : e->derived[index].parent;
}

/*
 * Addresses that a request to the target has at the bridges above the initiator. Below another host
 * bridge of a host with an offset it has the CPU's address, and each domain of such a host has its
 * own bus addresses. False: none that can be compared. `exact`: they do not depend on the constant
 * that was chosen for the offset.
 */
static bool addresses(const struct hr_topology *e, int32_t initiator, int32_t target,
		      struct hr_span *s, bool *exact)
{
	const struct hr_derived *d = &e->derived[target];

	*s = d->bar_reach;
	*exact = s->base == d->bar_base && s->last == d->bar_last;
	if (s->base > s->last || fn(e, initiator)->readdressed)
		return false;
	if (d->bar_offset && e->derived[initiator].root_bus != d->root_bus) {
		s->base = d->bar_base + (uint64_t)d->bar_offset;
		s->last = d->bar_last + (uint64_t)d->bar_offset;
		*exact = true;
		return true;
	}
	return e->x86 || fn(e, initiator)->domain == fn(e, target)->domain;
}

/*
 * True when a window of a bridge above the initiator contains the target: the request cannot go up.
 * `want_exact`: for any constant of the target's host bridge; else only for some of them.
 */
static bool swallowed(const struct hr_topology *e, const struct hr_pair *p, int32_t initiator,
		      int32_t target, bool want_exact)
{
	struct hr_span s;
	bool exact;

	if (!addresses(e, initiator, target, &s, &exact) || exact != want_exact ||
	    !(meets(&e->derived[initiator].mem_above, s.base, s.last) ||
	      meets(&e->derived[initiator].pref_above, s.base, s.last)))
		return false;
	for (int32_t up = above(e, p, initiator); up != p->common; up = e->derived[up].parent)
		if (window_overlaps(&fn(e, up)->mem, s.base, s.last) ||
		    window_overlaps(&fn(e, up)->pref, s.base, s.last))
			return true;
	return false;
}

uint8_t hr_pair_overlap(const struct hr_topology *e, const struct hr_pair *p)
{
	return (uint8_t)((swallowed(e, p, p->gpu, p->ssd, true) ? F1 | F4 : 0) |
			 (swallowed(e, p, p->ssd, p->gpu, true) ? F2 | F3 : 0));
}

uint8_t hr_pair_overlap_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	return (uint8_t)((swallowed(e, p, p->gpu, p->ssd, false) ? F1 | F4 : 0) |
			 (swallowed(e, p, p->ssd, p->gpu, false) ? F2 | F3 : 0));
}

/* The IOMMU does not map addresses of the HyperTransport range as memory. */
uint8_t hr_pair_ht_window(const struct hr_topology *e, const struct hr_pair *p)
{
	bool with_iommu = e->iommu == HR_IOMMU_PT || e->iommu == HR_IOMMU_ON || e->iommu_active ||
			  hr_translated(e, p);
	uint8_t flows = (uint8_t)((hr_in_ht_range(&e->derived[p->gpu]) ? F2 | F3 : 0) |
				  (hr_in_ht_range(&e->derived[p->ssd]) ? F1 | F4 : 0));

	return flows && with_iommu && hr_next_boot_is_amd(e->m) ? flows & p->climbs : 0;
}

/* ---- ACS */

/* Egress control without redirect blocks requests whose target port has its vector bit set. */
static bool egress_hits(const struct hr_topology *e, int32_t ingress, int32_t target, bool *unread)
{
	const struct hr_fn *in = fn(e, ingress);
	uint32_t port = hr_get(fn(e, target), HR_F_PORT_NUMBER, 32);

	if (!hr_has(in, HR_F_ACS_CTL, HR_ACS_EC) || hr_has(in, HR_F_ACS_CTL, HR_ACS_RR))
		return false;
	*unread |= !hr_known(in, HR_F_ACS_EGRESS) || port >= 32;
	return port < 32 && hr_has(in, HR_F_ACS_EGRESS, 1u << port);
}

static uint8_t egress(const struct hr_topology *e, const struct hr_pair *p, bool want_unread)
{
	bool gpu_unread = false, ssd_unread = false, gpu, ssd;

	if (apart(p))
		return 0;
	gpu = egress_hits(e, p->gpu_child, p->ssd_child, &gpu_unread);
	ssd = egress_hits(e, p->ssd_child, p->gpu_child, &ssd_unread);
	if (want_unread)
		return (uint8_t)((gpu_unread ? F1 | F4 : 0) | (ssd_unread ? F2 | F3 : 0));
	return (uint8_t)((gpu ? F1 | F4 : 0) | (ssd ? F2 | F3 : 0));
}

uint8_t hr_pair_egress(const struct hr_topology *e, const struct hr_pair *p)
{
	return egress(e, p, false);
}

uint8_t hr_pair_egress_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	return egress(e, p, true);
}

static bool ats_on(const struct hr_topology *e, int32_t index)
{
	return hr_has(fn(e, index), HR_F_ATS_CTL, HR_ATS_ENABLE);
}

static bool ats_unread(const struct hr_topology *e, int32_t index)
{
	return hr_get(fn(e, index), HR_F_ATS, 1) && !hr_known(fn(e, index), HR_F_ATS_CTL);
}

/* True when any port above an initiator has translation blocking. */
static bool blocked_above(const struct hr_topology *e, const struct hr_pair *p, int32_t initiator)
{
	for (int32_t up = above(e, p, initiator); up != p->common; up = e->derived[up].parent)
		if (hr_has(fn(e, up), HR_F_ACS_CTL, HR_ACS_TB))
			return true;
	return false;
}

uint8_t hr_pair_blocking(const struct hr_topology *e, const struct hr_pair *p)
{
	return (uint8_t)((ats_on(e, p->gpu) && blocked_above(e, p, p->gpu) ? F1 | F4 : 0) |
			 (ats_on(e, p->ssd) && blocked_above(e, p, p->ssd) ? F2 | F3 : 0));
}

uint8_t hr_pair_blocking_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	return (uint8_t)((ats_unread(e, p->gpu) && blocked_above(e, p, p->gpu) ? F1 | F4 : 0) |
			 (ats_unread(e, p->ssd) && blocked_above(e, p, p->ssd) ? F2 | F3 : 0));
}

uint8_t hr_pair_translated(const struct hr_topology *e, const struct hr_pair *p)
{
	return !apart(p) && ats_on(e, p->gpu) && ats_on(e, p->ssd) &&
			       hr_has(fn(e, p->gpu_child), HR_F_ACS_CTL, HR_ACS_DT) &&
			       hr_has(fn(e, p->ssd_child), HR_F_ACS_CTL, HR_ACS_DT)
		       ? ALL
		       : 0;
}

uint8_t hr_pair_stale(const struct hr_topology *e, const struct hr_pair *p)
{
	return !apart(p) && p->any_redirect ? ALL : 0;
}

uint8_t hr_pair_acs_assumed(const struct hr_topology *e, const struct hr_pair *p)
{
	return !apart(p) && p->acs_assumed ? ALL : 0;
}

/*
 * The pair is direct now, because registers were cleared or no IOMMU was on; a boot with an IOMMU
 * changes this.
 */
uint8_t hr_pair_boot_redirects(const struct hr_topology *e, const struct hr_pair *p)
{
	bool with_iommu = e->iommu == HR_IOMMU_PT || e->iommu == HR_IOMMU_ON || e->iommu_active ||
			  hr_mode_is_vfio(e->opt.mode);

	return !apart(p) && with_iommu && p->boot_redirect && !p->any_redirect &&
			       !p->unread_redirect
		       ? ALL
		       : 0;
}

uint8_t hr_pair_root_redirect(const struct hr_topology *e, const struct hr_pair *p)
{
	bool redirect = e->derived[p->gpu_child].redirect || e->derived[p->ssd_child].redirect;

	return apart(p) && !p->cut && redirect && hr_raw(e) && e->iommu == HR_IOMMU_ON ? ALL : 0;
}

/* ---- IOMMU and VFIO */

/* Each group has its own mode; the mode of the initiator's group decides. */
static enum hr_iommu mode_of(const struct hr_topology *e, int32_t index)
{
	if (e->opt.iommu != HR_IOMMU_UNKNOWN)
		return e->opt.iommu;
	return (enum hr_iommu)hr_get(fn(e, index), HR_F_GROUP_TYPE, e->iommu);
}

static uint8_t initiated(const struct hr_topology *e, const struct hr_pair *p, enum hr_iommu mode)
{
	return (uint8_t)((mode_of(e, p->gpu) == mode ? F1 | F4 : 0) |
			 (mode_of(e, p->ssd) == mode ? F2 | F3 : 0));
}

uint8_t hr_pair_silent(const struct hr_topology *e, const struct hr_pair *p)
{
	return hr_raw(e) ? p->climbs & initiated(e, p, HR_IOMMU_ON) : 0;
}

uint8_t hr_pair_iommu_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	if (!hr_raw(e) || !(e->iommu_active || e->iommu_wanted))
		return 0;
	return p->climbs & initiated(e, p, HR_IOMMU_UNKNOWN);
}

uint8_t hr_pair_iommu_assumed(const struct hr_topology *e, const struct hr_pair *p)
{
	return hr_raw(e) && e->iommu == HR_IOMMU_UNKNOWN && !e->iommu_active && !e->iommu_wanted
		       ? p->climbs
		       : 0;
}

/*
 * A function prevents VFIO from opening the SSD's group. `sure`: the group does not depend on
 * unread ACS.
 */
static uint8_t kept_out(const struct hr_topology *e, const struct hr_pair *p, bool sure)
{
	int32_t other = e->blocker[p->ssd];
	bool unsure;

	if (!hr_mode_is_vfio(e->opt.mode) || other == HR_NO_FN)
		return 0;
	unsure = !hr_group_is_real(e->m, fn(e, p->ssd)) &&
		 (e->groups.unsure[p->ssd] || e->groups.unsure[other]);
	return unsure == sure ? 0 : ALL;
}

uint8_t hr_pair_vfio_kept_out(const struct hr_topology *e, const struct hr_pair *p)
{
	return kept_out(e, p, true);
}

uint8_t hr_pair_vfio_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	return kept_out(e, p, false);
}

uint8_t hr_pair_group_blocked(const struct hr_topology *e, const struct hr_pair *p)
{
	if (hr_mode_is_vfio(e->opt.mode) || !hr_group_is_real(e->m, fn(e, p->gpu)) ||
	    !hr_group_is_real(e->m, fn(e, p->ssd)) || hr_driver_allows_vfio(fn(e, p->gpu)))
		return 0;
	return hr_get(fn(e, p->gpu), HR_F_GROUP, 0) == hr_get(fn(e, p->ssd), HR_F_GROUP, 0) ? ALL
											    : 0;
}

/* ---- payload, requests, ordering */

static uint32_t min_nonzero(uint32_t a, uint32_t b)
{
	return a == 0 || (b && b < a) ? b : a;
}

uint32_t hr_payload_limit(const struct hr_topology *e, const struct hr_pair *p, bool from_ssd)
{
	uint32_t own = from_ssd ? p->ssd_mps : p->gpu_mps,
		 other = from_ssd ? p->gpu_mps : p->ssd_mps,
		 target = e->derived[from_ssd ? p->gpu : p->ssd].mps;

	if (apart(p))
		return own;
	if (p->up & (from_ssd ? F2 : F3))
		own = min_nonzero(own, p->up_mps);
	return min_nonzero(min_nonzero(own, other), target);
}

/* A read returns its payload in completions, so in F3 the GPU sends the data. */
uint8_t hr_pair_mps(const struct hr_topology *e, const struct hr_pair *p)
{
	uint32_t ssd = hr_payload_limit(e, p, true), gpu = hr_payload_limit(e, p, false);

	return (uint8_t)((ssd && e->derived[p->ssd].mps > ssd ? F2 : 0) |
			 (gpu && e->derived[p->gpu].mps > gpu ? F3 : 0));
}

/* Payload limits across the root complex, which may split larger TLPs. */
uint8_t hr_pair_mps_rc(const struct hr_topology *e, const struct hr_pair *p)
{
	uint32_t gpu = e->derived[p->gpu].mps, ssd = e->derived[p->ssd].mps;
	uint32_t to_gpu = min_nonzero(p->gpu_mps, gpu), to_ssd = min_nonzero(p->ssd_mps, ssd);

	if (!apart(p))
		return 0;
	return (uint8_t)((to_gpu && ssd > to_gpu ? F2 : 0) | (to_ssd && gpu > to_ssd ? F3 : 0));
}

static bool mps_missing(const struct hr_topology *e, int32_t from, int32_t to)
{
	return e->derived[from].mps_missing > (to == HR_NO_FN ? 0 : e->derived[to].mps_missing);
}

uint8_t hr_pair_mps_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	bool gpu = mps_missing(e, p->gpu, p->common), ssd = mps_missing(e, p->ssd, p->common);

	if (apart(p))
		return (uint8_t)((ssd ? F2 : 0) | (gpu ? F3 : 0));
	if (gpu || ssd)
		return F2 | F3;
	return p->up && mps_missing(e, p->common, HR_NO_FN) ? p->up & (F2 | F3) : 0;
}

static bool tags_clash(const struct hr_fn *requester, const struct hr_fn *completer)
{
	return hr_has(requester, HR_F_DEVCTL2, HR_DEVCTL2_TAG10_ENABLE) &&
	       hr_lacks(completer, HR_F_DEVCAP2, HR_DEVCAP2_TAG10_COMP);
}

uint8_t hr_pair_tags(const struct hr_topology *e, const struct hr_pair *p)
{
	return (uint8_t)((tags_clash(fn(e, p->ssd), fn(e, p->gpu)) ? F3 : 0) |
			 (tags_clash(fn(e, p->gpu), fn(e, p->ssd)) ? F4 : 0));
}

/* A clash is possible: the enable bit or the completer's support is not known. */
static bool tags_open(const struct hr_fn *requester, const struct hr_fn *completer)
{
	if (hr_lacks(requester, HR_F_DEVCTL2, HR_DEVCTL2_TAG10_ENABLE) ||
	    hr_has(completer, HR_F_DEVCAP2, HR_DEVCAP2_TAG10_COMP) ||
	    hr_lacks(requester, HR_F_DEVCAP2, HR_DEVCAP2_TAG10_REQ))
		return false;
	return hr_get(requester, HR_F_EXP, 0) && !tags_clash(requester, completer);
}

/* One condition of a clash holds, the other is not known. */
static bool tags_unread(const struct hr_fn *requester, const struct hr_fn *completer)
{
	bool on = hr_has(requester, HR_F_DEVCTL2, HR_DEVCTL2_TAG10_ENABLE);

	return tags_open(requester, completer) &&
	       (on || (hr_known(requester, HR_F_DEVCAP2) && hr_known(completer, HR_F_DEVCAP2)));
}

uint8_t hr_pair_tags_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	return (uint8_t)((tags_unread(fn(e, p->ssd), fn(e, p->gpu)) ? F3 : 0) |
			 (tags_unread(fn(e, p->gpu), fn(e, p->ssd)) ? F4 : 0));
}

uint8_t hr_pair_tags_unsaid(const struct hr_topology *e, const struct hr_pair *p)
{
	return tags_open(fn(e, p->ssd), fn(e, p->gpu)) && !hr_pair_tags_unread(e, p) ? F3 : 0;
}

uint8_t hr_pair_order(const struct hr_topology *e, const struct hr_pair *p)
{
	return e->opt.mode == HR_MODE_HOST ? F2 : 0;
}

/* ---- software */

uint8_t hr_pair_no_cufile(const struct hr_topology *e, const struct hr_pair *p)
{
	const char *fs = e->m->sys.nvidia_fs;
	struct hr_need missing;

	if (fs[0] && strcmp(fs, HR_NOT_LOADED) != 0)
		return 0;
	return hr_cufile_p2pdma(e, p->gpu, p->ssd, &missing) == HR_NO ? ALL : 0;
}

/* ---- health */

/* A recorded completion timeout at a requester whose reads pass the root complex. */
uint8_t hr_pair_timeouts(const struct hr_topology *e, const struct hr_pair *p)
{
	return (uint8_t)(((p->climbs & F3) && hr_has(fn(e, p->ssd), HR_F_UESTA, HR_UE_CMPLT_TIMEOUT)
				  ? F3
				  : 0) |
			 ((p->climbs & F4) && hr_has(fn(e, p->gpu), HR_F_UESTA, HR_UE_CMPLT_TIMEOUT)
				  ? F4
				  : 0));
}

uint8_t hr_pair_numa(const struct hr_topology *e, const struct hr_pair *p)
{
	uint32_t a = hr_node(e, p->gpu), b = hr_node(e, p->ssd);

	return a != ~0u && b != ~0u && a != b ? ALL : 0;
}

uint8_t hr_pair_numa_unread(const struct hr_topology *e, const struct hr_pair *p)
{
	return !p->same_root && !p->cut && (hr_node(e, p->gpu) == ~0u || hr_node(e, p->ssd) == ~0u)
		       ? ALL
		       : 0;
}

const char *hr_distance_word(const struct hr_topology *e, const struct hr_pair *p)
{
	if (!apart(p))
		return p->distance <= 4 ? "PIX" : "PXB";
	if (p->cut)
		return "?";
	if (p->same_root)
		return "PHB";
	return hr_pair_numa(e, p) ? "SYS" : "NODE";
}
