/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traits of a machine: preconditions of rules on pairs. A missing trait means that no pair can
 * match the rule; a trait that is set does not mean that a pair matches. Therefore each test here
 * is at least as wide as the condition in pci/topo/rules/pair.c.
 */
#include "pci/topo/boot/boot.h"
#include "pci/topo/fields.h"
#include "pci/topo/rules/peers.h"
#include "pci/topo/rules/rules.h"
#include "pci/topo/rules/software.h"

static uint32_t when(bool holds, enum hr_trait trait)
{
	return holds ? (uint32_t)trait : 0;
}

static uint32_t of_options(const struct hr_topology *e)
{
	const bool vfio = hr_mode_is_vfio(e->opt.mode), on = e->iommu == HR_IOMMU_ON;
	const bool maybe_on = e->iommu_active || e->iommu_wanted;

	return when(vfio, HR_TRAIT_VFIO) | when(e->opt.mode == HR_MODE_HOST, HR_TRAIT_MODE_HOST) |
	       when(vfio || (e->opt.mode == HR_MODE_KERNEL && on), HR_TRAIT_IOVA) |
	       when(hr_raw(e) && on, HR_TRAIT_IOMMU_ON) |
	       when(hr_raw(e) && maybe_on, HR_TRAIT_IOMMU_UNREAD) |
	       when(hr_raw(e) && e->iommu == HR_IOMMU_UNKNOWN && !maybe_on,
		    HR_TRAIT_IOMMU_ASSUMED) |
	       when(e->switch_links, HR_TRAIT_SWITCH_LINK) |
	       when(hr_software_known(&e->m->sys), HR_TRAIT_CUFILE);
}

static uint32_t of_facts(const struct hr_topology *e, const struct hr_fn *f)
{
	const uint32_t acs = hr_get(f, HR_F_ACS_CTL, 0);
	const bool tags =
		hr_get(f, HR_F_EXP, 1) && !hr_lacks(f, HR_F_DEVCTL2, HR_DEVCTL2_TAG10_ENABLE);

	return when(acs & HR_ACS_REDIRECT, HR_TRAIT_REDIRECT) |
	       when(acs & HR_ACS_EC, HR_TRAIT_EGRESS) | when(acs & HR_ACS_TB, HR_TRAIT_BLOCKING) |
	       when(acs & HR_ACS_DT, HR_TRAIT_TRANSLATED) | when(tags, HR_TRAIT_TAGS) |
	       when(f->orphan, HR_TRAIT_ORPHAN) | when(hr_group_is_real(e->m, f), HR_TRAIT_GROUP) |
	       when(hr_raw(e) && hr_get(f, HR_F_GROUP_TYPE, HR_IOMMU_OFF) == HR_IOMMU_ON,
		    HR_TRAIT_IOMMU_ON) |
	       when(hr_has(f, HR_F_UESTA, HR_UE_CMPLT_TIMEOUT), HR_TRAIT_TIMEOUT);
}

static uint32_t of_derived(const struct hr_topology *e, int32_t fn)
{
	const struct hr_derived *d = &e->derived[fn];
	const bool node = hr_node(e, fn) != ~0u;

	return when(d->pch, HR_TRAIT_PCH) | when(d->acs_assumed, HR_TRAIT_ACS_ASSUMED) |
	       when(d->redirect, HR_TRAIT_REDIRECT) |
	       when(d->boot_redirect, HR_TRAIT_BOOT_REDIRECT) |
	       when(d->window_break != HR_NO_FN, HR_TRAIT_WINDOW_BREAK) |
	       when(d->window_unread != HR_NO_FN || d->window_kinds != HR_NO_FN || d->bar_offset,
		    HR_TRAIT_WINDOW_UNREAD) |
	       when(hr_in_ht_range(d), HR_TRAIT_HT) |
	       when(d->mps_missing != 0, HR_TRAIT_MPS_UNREAD) | when(node, HR_TRAIT_NODE) |
	       when(!node, HR_TRAIT_NODE_UNREAD);
}

uint32_t hr_traits_of(const struct hr_topology *e)
{
	uint32_t traits = of_options(e), mps = 0;

	for (uint32_t i = 0; i < e->m->root_buses; i++)
		traits |= when(e->root_unread[i], HR_TRAIT_ROOT_UNREAD);
	for (uint32_t i = 0; i < e->m->count; i++) {
		const uint32_t own = e->derived[i].mps;

		traits |= of_facts(e, &e->m->fn[i]) | of_derived(e, (int32_t)i);
		traits |= when(own && mps && own != mps, HR_TRAIT_MPS_DIFFER);
		mps = own ? own : mps;
	}
	return hr_next_boot_is_amd(e->m) ? traits : traits & ~(uint32_t)HR_TRAIT_HT;
}
