/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/forecast/change.h - changes to a topology: what-if on a model, and the ACS fix on
 * the machine.
 */
#ifndef PCI_TOPO_FORECAST_CHANGE_H
#define PCI_TOPO_FORECAST_CHANGE_H

#include "pci/topo/rules/verdict.h"

/*
 * Apply one change to the facts of a model; then call hr_model_connect() (after move:) and
 * hr_topology_init() again.
 *   acs:BDF|all=clear     RR, CR and EC off      acs:BDF|all=set  SV, RR, CR, UF on as supported
 *   acs:BDF=HEX           that value             mps:BDF|all=BYTES
 *   iommu=off|pt|on       booted into that mode  boot=WORDS      booted with WORDS added
 *   link:BDF=full         trained to the maximum that both ends support
 *   move:BDF=PORT         the card in BDF's slot goes below bridge PORT and gets new addresses
 * A boot sets the mode in *opt and sets the ACS controls again (pci/topo/boot/boot.h), except those
 * that another change states. Returns 0, or -EINVAL.
 */
int hr_change_apply(struct hr_model *m, struct hr_topo_options *opt, const char *text,
		    struct hr_error *error);

/*
 * After hr_model_connect(): check that each moved card has a slot of its own. Cards may exchange slots,
 * so call it after all moves. 0, or -EINVAL.
 */
int hr_change_check(const struct hr_model *m, struct hr_error *error);

/* One register write of a fix. */
struct hr_fix_write {
	int32_t fn;
	uint32_t offset; /* of the ACS control register */
	unsigned width;	 /* 2, or 4 where rule A7 holds */
	uint32_t before, after;
};

#define HR_FIX_MAX 256u

struct hr_fix {
	struct hr_fix_write write[HR_FIX_MAX];
	unsigned count;
	/*
	 * Ports that the boot parameter must name. These are more ports than redirect now when some
	 * were cleared since the last boot.
	 */
	int32_t boot[HR_FIX_MAX];
	unsigned boots;
	uint64_t pairs;	     /* pairs that the fix changes from redirected to direct */
	uint64_t boot_pairs; /* pairs that are direct now and that the next boot redirects */
	/* Pairs that share a switch with unread ACS: they may need the fix, too. */
	uint64_t unread;
};

/*
 * The list of *fix for pci=disable_acs_redir=, in memory of the model; NULL: the model's memory is
 * full.
 */
const char *hr_fix_list(struct hr_model *m, const struct hr_fix *fix);

/*
 * Find the smallest set of ACS writes that removes the redirection of all pairs which share a
 * switch and which `wanted` accepts (NULL: all); none in a virtual machine. 0, or -ENOSPC: over
 * HR_FIX_MAX.
 */
int hr_fix_plan(const struct hr_topology *e, bool (*wanted)(void *to, const struct hr_pair *p),
		void *to, struct hr_fix *fix);

/*
 * The writes that clear the redirection of every port that redirects, whether a pair needs it or
 * not; none in a virtual machine. No other member of *fix is set. 0, or -ENOSPC as above: the first
 * HR_FIX_MAX are listed.
 */
int hr_fix_all_ports(const struct hr_topology *e, struct hr_fix *fix);

/* Set the facts of the model to their values after the fix, for a prediction. */
void hr_fix_assume(struct hr_model *m, const struct hr_fix *fix);

/*
 * True when the fix must not be made on this machine, with the reason in *error: nothing to fix,
 * lockdown, mounted disk, busy pair, not root.
 */
bool hr_fix_refused(const struct hr_topology *e, const struct hr_fix *fix, struct hr_error *error);

#endif
