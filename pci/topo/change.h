/*
 * pci/topo/change.h - changes to a topology: what-if on a model, and the ACS fix on the machine.
 */
#ifndef PCI_TOPO_CHANGE_H
#define PCI_TOPO_CHANGE_H

#include "pci/topo/verdict.h"

/*
 * Apply one change to the facts of a model; call hr_model_link() (after move:) and
 * hr_engine_init() again afterwards.
 *   acs:BDF|all=clear     RR, CR and EC off      acs:BDF|all=set  SV, RR, CR, UF on as supported
 *   acs:BDF=HEX           that value             mps:BDF|all=BYTES
 *   iommu=off|pt|on       booted into that mode  boot=WORDS      booted with WORDS added
 *   link:BDF=full         trained to the most both ends do
 *   move:BDF=PORT         the card in BDF's slot goes below bridge PORT; addresses are new
 * A boot sets the mode into *opt and ACS controls anew (pci/topo/bootmodel.h), but not those that
 * another change states. Returns 0, or -EINVAL with the reason in message[160].
 */
int hr_change_apply(struct hr_model *m, struct hr_options *opt, const char *text, char *message);

/*
 * After hr_model_link(): has each moved card a slot of its own? Cards may change places, so this is
 * asked when all are moved. 0, or -EINVAL with the reason in message[160].
 */
int hr_change_check(const struct hr_model *m, char *message);

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
	int32_t boot
		[HR_FIX_MAX]; /* ports that a boot has to be told of: more than now redirect, when
				   * some were cleared since the last boot */
	unsigned boots;
	uint64_t pairs;	     /* that it takes from redirected to direct */
	uint64_t boot_pairs; /* direct now, that the next boot redirects */
	uint64_t unread;     /* that share a switch with unread ACS: they may need the fix, too */
};

/* The list of *fix for pci=disable_acs_redir=, in memory of the model; NULL: none left. */
const char *hr_fix_list(struct hr_model *m, const struct hr_fix *fix);

/*
 * The smallest set of ACS writes that takes all pairs which share a switch, and which `wanted`
 * accepts (NULL: all), off the way through the root complex. 0, or -ENOSPC: over HR_FIX_MAX.
 */
int hr_fix_plan(const struct hr_engine *e, bool (*wanted)(void *to, const struct hr_pair *p),
		void *to, struct hr_fix *fix);

/* Set the facts as they will be, for a prediction. */
void hr_fix_assume(struct hr_model *m, const struct hr_fix *fix);

/*
 * Why the fix must not be done on this machine: futile, lockdown, mounted disk, busy pair, not
 * root. false: nothing speaks against it. reason[160].
 */
bool hr_fix_refused(const struct hr_engine *e, const struct hr_fix *fix, char *reason);

#endif
