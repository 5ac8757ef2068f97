/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/resize.h - a BAR that shows only a part of the GPU's memory: which sizes the card
 * offers, and what must change for a larger one.
 *
 * Resizable BAR (PCIe Base 7.8.6) offers sizes of 1 MiB << n. The firmware selects one at boot when
 * its setup allows that and the bridges above get a window of that size. Since Linux 6.1 the file
 * resourceN_resize of a function without a driver accepts n, and the kernel moves the windows.
 */
#ifndef PCI_TOPO_RESIZE_H
#define PCI_TOPO_RESIZE_H

#include "pci/topo/model.h"

/* The largest size that the BAR can have, in bytes; 0: not known, or the BAR cannot be resized. */
static inline uint64_t hr_resize_most(const struct hr_bar *bar)
{
	return bar->sizes ? 1ull << (83 - __builtin_clzll(bar->sizes)) : 0;
}

/* "; BAR1 can be 64 MiB to 32 GiB", or why not; to[capacity] ends in NUL. */
void hr_resize_able(const struct hr_fn *f, char *to, size_t capacity);
/* What to do about it: firmware settings, the window in the way, the command for run time. */
void hr_resize_fix(const struct hr_model *m, const struct hr_fn *f, char *to, size_t capacity);
/* "16 GiB", the largest unit in which the size is a whole number. text[32]; returns text. */
char *hr_resize_text(uint64_t bytes, char *text);

#endif
