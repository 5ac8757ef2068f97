/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/rules/rules.h - conditions of the rule table, shared by the files that define them. Private.
 *
 * A condition on a function looks at one function and its parent. A condition on a pair looks at
 * the facts that the walk over the pair has gathered, and returns the flows that it stops. Neither
 * treats an unknown fact as zero.
 */
#ifndef PCI_TOPO_RULES_RULES_H
#define PCI_TOPO_RULES_RULES_H

#include "pci/topo/fields.h"
#include "pci/topo/rules/verdict.h"
#include "pci/topo/model.h"

#define F1 1u
#define F2 2u
#define F3 4u
#define F4 8u
#define ALL HR_FLOW_ALL

typedef bool hr_on_fn(const struct hr_topology *e, const struct hr_fn *f);
typedef uint8_t hr_on_pair_fn(const struct hr_topology *e, const struct hr_pair *p);

hr_on_fn hr_fn_denied, hr_fn_unread, hr_fn_acs_unread, hr_fn_no_bme, hr_fn_no_mse, hr_fn_sleeping,
	hr_fn_gone, hr_fn_dpc, hr_fn_link_down, hr_fn_in_reset, hr_fn_no_bar, hr_fn_small_bar,
	hr_fn_unified, hr_fn_vmd, hr_fn_raid, hr_fn_pch, hr_fn_no_peer, hr_fn_virtual,
	hr_fn_overlaps, hr_fn_acs_harmless, hr_fn_redirects, hr_fn_acs_wide, hr_fn_pch_no_acs,
	hr_fn_pericom, hr_fn_idt, hr_fn_ntb, hr_fn_amd_internal, hr_fn_low_mrrs, hr_fn_narrow,
	hr_fn_slow, hr_fn_idle, hr_fn_aspm, hr_fn_ue, hr_fn_ce, hr_fn_fatal, hr_fn_mounted,
	hr_fn_no_driver, hr_fn_no_relaxed, hr_fn_group_unset, hr_fn_counted, hr_fn_vf_no_mse,
	hr_fn_vf_unread, hr_fn_consumer, hr_fn_tunnel, hr_fn_tunnel_other, hr_fn_inside,
	hr_fn_moved, hr_fn_ordered, hr_fn_atomics;

hr_on_fn hr_sys_lockdown, hr_sys_many_cpus, hr_sys_grace, hr_sys_noacs, hr_sys_override,
	hr_sys_wrong_iommu, hr_sys_two_iommu, hr_sys_no_p2pdma, hr_sys_hypervisor, hr_sys_perf,
	hr_sys_no_option, hr_sys_on_and_off, hr_sys_vmd, hr_sys_raid, hr_sys_zen_inferred,
	hr_sys_passthrough, hr_sys_iommu_wanted, hr_sys_emulated;

hr_on_pair_fn hr_pair_direct, hr_pair_rc_listed, hr_pair_rc_unlisted, hr_pair_redir_listed,
	hr_pair_redir_unlisted, hr_pair_cut, hr_pair_window, hr_pair_window_unread, hr_pair_overlap,
	hr_pair_egress, hr_pair_egress_unread, hr_pair_blocking, hr_pair_translated, hr_pair_stale,
	hr_pair_root_redirect, hr_pair_silent, hr_pair_iommu_unread, hr_pair_iommu_assumed,
	hr_pair_iova_listed, hr_pair_iova_unlisted, hr_pair_vfio_kept_out, hr_pair_vfio_unread,
	hr_pair_group_blocked, hr_pair_mps, hr_pair_mps_unread, hr_pair_mps_rc, hr_pair_tags,
	hr_pair_order, hr_pair_timeouts, hr_pair_numa, hr_pair_numa_unread, hr_pair_pch_peers,
	hr_pair_switch_link, hr_pair_rc_unread, hr_pair_tags_unread, hr_pair_tags_unsaid,
	hr_pair_blocking_unread, hr_pair_acs_assumed, hr_pair_boot_redirects, hr_pair_no_cufile,
	hr_pair_ht_window, hr_pair_window_kinds, hr_pair_overlap_unread;

/* True when the mode puts raw addresses on the bus, without an IOMMU mapping. */
static inline bool hr_raw(const struct hr_topology *e)
{
	return e->opt.mode == HR_MODE_GPU || e->opt.mode == HR_MODE_HOST;
}

/*
 * True when the addresses of the pair are IOVAs. A VFIO container has its own domain, so
 * passthrough does not apply to it; VFIO works without an IOMMU only on a machine that is known to
 * have none. The kernel maps peers below one switch with bus addresses, whatever the mode of the
 * IOMMU is, and other peers through the DMA API.
 */
static inline bool hr_translated(const struct hr_topology *e, const struct hr_pair *p)
{
	if (hr_mode_is_vfio(e->opt.mode))
		return e->iommu != HR_IOMMU_OFF;
	return e->opt.mode == HR_MODE_KERNEL && e->iommu == HR_IOMMU_ON &&
	       p->kernel != HR_KERNEL_BUS_ADDR;
}

/*
 * False for root ports outside of mode `kernel`. A root port's redirect does not decide whether
 * requests from below reach the root complex, but the kernel counts it. A root port is on a root
 * bus; ports of emulated switches have the same type.
 */
static inline bool hr_acs_counts(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->opt.mode == HR_MODE_KERNEL || f->parent != HR_NO_FN ||
	       hr_get(f, HR_F_PORT, HR_PORT_ENDPOINT) != HR_PORT_ROOT;
}

/*
 * Smallest payload of the functions below the sender's root port that are on the path; 0: none
 * known.
 */
uint32_t hr_payload_limit(const struct hr_topology *e, const struct hr_pair *p, bool from_ssd);

/*
 * First function that hides drives: Intel VMD whose domain is not shown (vmd), or a chipset in RAID
 * mode on a machine without a visible NVMe drive (not vmd). HR_NO_FN: none.
 */
int32_t hr_hidden_by(const struct hr_topology *e, bool vmd);

/*
 * True when the BAR that peers address is in AMD's HyperTransport range: HT_RANGE_START and
 * HT_RANGE_END of drivers/iommu/amd.
 */
static inline bool hr_in_ht_range(const struct hr_derived *d)
{
	return d->bar_base <= d->bar_last && d->bar_base <= 0xffffffffffull &&
	       d->bar_last >= 0xfd00000000ull;
}

/* ---- properties of a machine that several rules use */

/* Traits of the machine, enum hr_trait; the last part of hr_topology_init(). */
uint32_t hr_traits_of(const struct hr_topology *e);

/* ---- the verdict of the kernel's own algorithm (calc_map_type_and_dist) */

/* Only the kernel's algorithm; sets common, distance, redirect, listed and kernel of *p. */
void hr_pair_evaluate_kernel(const struct hr_topology *e, struct hr_pair *p);

/* enum hr_walk_flag of a function from its other derived facts; part of hr_topology_init(). */
uint8_t hr_walk_flags(const struct hr_topology *e, int32_t fn);

/*
 * Whether the CPU is AMD of family 17h or later: stated by the source, else derived from bridges and
 * the data fabric. Part of hr_topology_init().
 */
void hr_cpu_find(struct hr_topology *e);

/* Look up the first functions of the root buses; part of hr_topology_init(). 0 or -ENOMEM. */
int hr_hosts_list(struct hr_topology *e, struct hr_model *m);

/* True when the kernel allows peers through these root complexes: host_bridge_whitelist(). */
bool hr_root_listed(const struct hr_topology *e, int32_t root_a, int32_t root_b);

/*
 * True when they are not listed as far as is known, but the capture does not identify one of them.
 */
bool hr_root_unread(const struct hr_topology *e, int32_t root_a, int32_t root_b);

/* ---- advice about moving a card: where to, and which slots are free.
 *
 * A free slot is a port that implements a slot (or has a slot's name), has nothing below it and
 * reports no card. Its width is known and is at least that of the card's link. Ports of chipsets
 * and of Thunderbolt controllers are not offered.
 */

/* Find free slots; part of hr_topology_init(). 0 or -ENOMEM. */
int hr_pci_slots_find(struct hr_topology *e, struct hr_model *m);
#define HR_PCI_SLOTS_NAMED 4u
/*
 * Write "; free slots of the GPU's switch: BDF BDF" or nothing to `to`: the slots for `moved` of the
 * switch above `card`. Returns the length.
 */
size_t hr_pci_slots_text(const struct hr_topology *e, int32_t card, int32_t moved,
			 const char *whose, char *to, size_t capacity);

/*
 * Which card of a pair to move, for cards without a common switch: away from a chipset, else below
 * one switch. "move a card so that both are below one switch"; returns the length.
 */
size_t hr_pci_move_text(const struct hr_topology *e, const struct hr_pair *p, char *to,
			size_t capacity);
/* The slots for that move: "; free slots of the CPU: BDF", or as hr_pci_slots_text(), or nothing. */
size_t hr_pci_move_slots(const struct hr_topology *e, const struct hr_pair *p, char *to,
			 size_t capacity);

/* ---- whether PCI Express AtomicOps of a GPU can reach the CPU.
 *
 * ROCm uses them on host memory and on the memory of peers. The kernel enables them for a GPU when
 * each switch port above routes them, no port blocks them on egress and the root port completes
 * operations of 32 and 64 bits (pci_enable_atomic_ops_to_root in drivers/pci/pci.c). A register that
 * was not read is not a cause.
 */

enum hr_atomics {
	HR_ATOMICS_FINE, /* or not known */
	HR_ATOMICS_UNROUTED,
	HR_ATOMICS_BLOCKED,
	HR_ATOMICS_INCOMPLETE, /* the root port completes not all of them */
	HR_ATOMICS_OFF,	       /* the driver has not enabled them at the GPU */
};

/* The first cause on the path from the GPU to the root port; *at is the function that has it. */
enum hr_atomics hr_atomics_of(const struct hr_model *m, const struct hr_fn *gpu,
			      const struct hr_fn **at);

#endif
