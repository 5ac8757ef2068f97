/*
 * pci/viable.h - why VFIO cannot open a group of this machine.
 */
#ifndef PCI_VIABLE_H
#define PCI_VIABLE_H

#include <stddef.h>

/*
 * Read this machine, find the function that keeps VFIO from opening the group of the function at
 * bdf, and write the reason and the remedy to text[capacity] as one sentence.
 */
void hr_groups_explain(const char *bdf, char *text, size_t capacity);

#endif
