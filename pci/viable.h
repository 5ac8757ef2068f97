/*
 * pci/viable.h - why VFIO does not open a group of this machine.
 */
#ifndef PCI_VIABLE_H
#define PCI_VIABLE_H

#include <stddef.h>

/*
 * Read this machine and say what keeps VFIO from opening the group of the function at bdf, and what
 * to do about it: one sentence in text[capacity].
 */
void hr_groups_explain(const char *bdf, char *text, size_t capacity);

#endif
