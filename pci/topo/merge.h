/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/merge.h - a function that a text lists twice: in one capture, or in two different
 * states.
 */
#ifndef PCI_TOPO_MERGE_H
#define PCI_TOPO_MERGE_H

#include "pci/topo/model.h"

/*
 * True when two statements about one function contradict each other, as statements of one machine
 * at one moment. `text` then names the fact and both values. Facts that change without a reboot are
 * not compared.
 */
bool hr_function_contradicts(const struct hr_fn *was, const struct hr_fn *is, char *text,
			     size_t capacity);

/*
 * Add the facts of `more` to f. A better source wins; for equal sources the later statement wins.
 */
void hr_function_merge(struct hr_fn *f, const struct hr_fn *more);

#endif
