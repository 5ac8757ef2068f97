/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/rules/explain.h - findings on the path of a pair, as text.
 */
#ifndef PCI_TOPO_RULES_EXPLAIN_H
#define PCI_TOPO_RULES_EXPLAIN_H

#include "pci/topo/rules/verdict.h"

/*
 * The advice about a path through a root complex that the kernel does not trust, a template of
 * hr_rule_text(). A rate proves nothing there: root complexes are known that move data at full rate,
 * report no error, and answer each read with all ones.
 */
#define HR_COMPARE_DATA "compare data, both ways: headrace topo --prove {gpu} {ssd} on that machine"

/* A rule that matched on the path, for explanations. */
struct hr_finding {
	uint8_t rule;
	int32_t fn;    /* HR_NO_FN: the pair or the whole machine */
	uint8_t flows; /* hit */
};

/* Findings of an evaluated pair, in path order. Returns their number; the first max are stored, and the
 * first finding of the rule that decided replaces the last of them if it is not among them. */
unsigned hr_findings(const struct hr_topology *e, const struct hr_pair *p, struct hr_finding *out,
		     unsigned max);

/* Fill in a rule's template; returns to. */
char *hr_rule_text(const struct hr_topology *e, const struct hr_pair *p, const struct hr_finding *f,
		   const char *template, char *to, size_t capacity);

#endif
