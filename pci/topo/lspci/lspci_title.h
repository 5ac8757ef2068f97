/*
 * pci/topo/lspci/lspci_title.h - the first line of a function in lspci output.
 */
#ifndef PCI_TOPO_LSPCI_LSPCI_TITLE_H
#define PCI_TOPO_LSPCI_LSPCI_TITLE_H

#include "pci/topo/model.h"

/* The title after the address: class, identifiers, name. */
void hr_text_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length);

/*
 * A line after the title that may be its end, because a terminal or mail has wrapped it. False: it
 * has neither identifiers nor a revision.
 */
bool hr_text_title_more(struct hr_fn *f, const char *line);

/* The same for lspci -tv, which prints no class: names tell SSDs and GPUs. */
void hr_text_tree_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length);

#endif
