/*
 * pci/topo/lspci/text.h - facts in the text of lspci -v.
 */
#ifndef PCI_TOPO_LSPCI_TEXT_H
#define PCI_TOPO_LSPCI_TEXT_H

#include "pci/topo/model.h"

/* State from earlier lines of a function; zeroed at the start of each function. */
struct hr_text_state {
	unsigned section;      /* capability that the line belongs to */
	bool saw_virtual;      /* a memory region is marked [virtual] */
	unsigned virtual_bars; /* lines with [virtual] after the address */
	bool control2;	       /* the line is DevCtl2, whose fields have the names of DevCap2 */
	bool denied;
	bool saw_caps;
	bool saw_ecaps;
	/* lspci -v, which prints no Control line */
	bool flags, bus_master;	    /* the line Flags; it says bus master */
	bool memory_on, memory_off; /* regions are not [disabled]; are [disabled] */
	unsigned regions;	    /* number of the next region */
	bool windows, window_bits;  /* lines of windows; they end with "[32-bit]" */
};
/*
 * True for a trimmed line that only a function's block has. Where indentation was lost, it begins a
 * block without indentation.
 */
bool hr_text_is_line(const char *line);

/* Facts of one trimmed line of lspci -v output. */
void hr_text_line(struct hr_model *m, struct hr_fn *f, struct hr_text_state *state,
		  const char *line, size_t length);

/* At the end of a function: capabilities that the text does not show are absent. */
void hr_text_end(struct hr_fn *f, const struct hr_text_state *state);

#endif
