/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/path.h - chooses direct or bounce before bring-up lets an SSD address GPU memory.
 *
 * The choice follows the verdict that `headrace topo` gives for the pair: direct for DIRECT and for
 * paths through a listed root complex, bounce for every other verdict. So an unlisted root complex
 * means bounce, although it may work; a configuration that requires a direct path is then refused.
 * An emulated function alone does not mean bounce (HR_VM_CPU): bring-up compares data on each direct
 * path before it relies on it. The CPU's hypervisor flag does.
 */
#ifndef PCI_PATH_H
#define PCI_PATH_H

#include <stdbool.h>

#include "pci/topo/rules/verdict.h"

struct hr_path_choice {
	bool direct;
	enum hr_verdict verdict;
	char verdict_text[48]; /* "BLOCKED(window)" */
	char rule[16];	       /* rule that decided, as `topo --explain` names it */
	char why[256];	       /* reason, one sentence */
	/*
	 * The rule to suspect when a direct path was chosen but does not work. It is the worst
	 * other finding whose verdict alone would mean bounce; without such a finding, the first
	 * one with the highest hr_rule.doubt. "": no finding speaks against the path.
	 */
	char suspect[16], suspect_why[256];
};

/*
 * Choose for two functions of this machine, given by address. Reads the machine anew.
 * 0; -EINVAL: not an address; -ENOENT: no such function; or an error of hr_source_live().
 */
int hr_path_choose(const char *gpu, const char *ssd, enum hr_mode mode,
		   struct hr_path_choice *choice);

/* The same with an existing topology; gpu and ssd are indices of functions. */
void hr_path_evaluate(const struct hr_topology *e, int32_t gpu, int32_t ssd,
		      struct hr_path_choice *choice);

#endif
