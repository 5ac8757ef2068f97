/*
 * pci/topo/again.h - a function that a text lists twice: one capture, or two states.
 */
#ifndef PCI_TOPO_AGAIN_H
#define PCI_TOPO_AGAIN_H

#include "pci/topo/model.h"

/*
 * Whether two statements about one function cannot be of one moment of one machine; then `text`
 * names the fact, both values and nothing else. Facts that change by themselves do not count.
 */
bool hr_fn_contradicts(const struct hr_fn *was, const struct hr_fn *is, char *text,
		       size_t capacity);

/* Add what `more` states to f, fact by fact: a better source wins, an equal one replaces. */
void hr_fn_merge(struct hr_fn *f, const struct hr_fn *more);

#endif
