/*
 * pci/topo/lspci/skipped.h - lines of a capture that state nothing, counted so that a reader
 * of the answer knows how much of a text was not understood.
 */
#ifndef PCI_TOPO_LSPCI_SKIPPED_H
#define PCI_TOPO_LSPCI_SKIPPED_H

#include <stdbool.h>

#include "pci/topo/model.h"

/*
 * False for lines that surround lspci in ordinary text: the command and other commands at a prompt,
 * headings, tags, rules, marks of code, messages of lspci itself, the ends of a string.
 */
bool hr_skipped_matters(const char *line);

/* Count a line in m->skipped if it matters, and keep the first one. */
void hr_skipped_add(struct hr_model *m, unsigned number, const char *line);

/*
 * "12 lines skipped, the first is line 3: TEXT" in text[size]; false: none.
 */
bool hr_skipped_text(const struct hr_model *m, char *text, size_t size);

#endif
