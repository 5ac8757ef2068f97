/*
 * pci/path.h - direct or bounce: what bring-up asks before it lets an SSD address GPU memory.
 *
 * The answer is that of `headrace topo` for the same pair, from the same rules: direct where the
 * verdict is DIRECT or goes through a root complex that is listed, bounce everywhere else. An
 * unlisted root complex may work, but the kernel does not list it: the operator decides.
 */
#ifndef PCI_PATH_H
#define PCI_PATH_H

#include <stdbool.h>

#include "pci/topo/verdict.h"

struct hr_path_choice {
	bool direct;
	enum hr_verdict verdict;
	char verdict_text[48]; /* "BLOCKED(window)" */
	char rule[16];	       /* that decided, as `topo --explain` names it */
	char why[256];	       /* one sentence */
	/* Of the rules that were found besides, the one to suspect when the way turns out not to work
	 * although it was chosen: the worst that has a verdict of its own, by which it would not be,
	 * or else the first of those of the highest hr_rule.doubt. "" when nothing speaks against
	 * the way. */
	char suspect[16], suspect_why[256];
};

/*
 * Choose for two functions of this machine, given by address. Reads the machine anew.
 * 0; -EINVAL: not an address; -ENOENT: no such function; or what hr_source_live() returns.
 */
int hr_path_choose(const char *gpu, const char *ssd, enum hr_mode mode,
		   struct hr_path_choice *choice);

/* The same over an engine that is there already; gpu and ssd are indices of functions. */
void hr_path_judge(const struct hr_engine *e, int32_t gpu, int32_t ssd,
		   struct hr_path_choice *choice);

#endif
