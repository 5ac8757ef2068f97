/*
 * pci/topo/lspci_text.h - facts in the text of lspci -v.
 */
#ifndef PCI_TOPO_LSPCI_TEXT_H
#define PCI_TOPO_LSPCI_TEXT_H

#include "pci/topo/model.h"

/* What earlier lines of a function have said; zeroed at the start of each function. */
struct hr_text_state {
	unsigned section;      /* capability that the line belongs to */
	bool saw_virtual;      /* memory that is [virtual] */
	unsigned virtual_bars; /* lines that say [virtual] behind the address */
	bool control2;	       /* a line of DevCtl2, which names fields like DevCap2 does */
	bool denied;
	bool saw_caps;
	bool saw_ecaps;
};
/* Facts of one trimmed line of lspci -v output. */
void hr_text_line(struct hr_model *m, struct hr_fn *f, struct hr_text_state *state,
		  const char *line, size_t length);

/* At the end of a function: what the text would have shown if it existed, does not. */
void hr_text_end(struct hr_fn *f, const struct hr_text_state *state);

#endif
