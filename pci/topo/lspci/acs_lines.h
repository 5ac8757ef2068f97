/*
 * pci/topo/lspci/acs_lines.h - ACS controls outside the listing of a function.
 *
 *   0000:c8:00.0 ACSCtl: SrcValid+ ..               address and flags in one line
 *   04:08.0                                         a loop that prints an address before each line
 *   # lspci -s 04:08.0 -vvv | grep ACSCtl           a command that names its port
 *   # setpci -s 04:08.0 ECAP_ACS+6.w                the same; the next line is the value
 *   0000:04:08.0 (ecap 000d @148) @14e = 001d       setpci -v
 *   0000:04:08.0: 001d                              a loop of setpci
 *   ACSCtl: SrcValid+ ..                            no address: it can only be counted
 *   12 ACSCtl: SrcValid+ ..                         the same 12 times: uniq -c
 */
#ifndef PCI_TOPO_LSPCI_ACS_LINES_H
#define PCI_TOPO_LSPCI_ACS_LINES_H

#include "pci/topo/model.h"

/* State of the reader; starts zeroed. */
struct hr_acs_reader {
	uint64_t address; /* of the next control, if `named` */
	bool named;
	bool awaited; /* a setpci command asked for it: the next line is a value */
	bool listed;  /* the output of grep without addresses goes on */
};

enum hr_acs_kind {
	HR_ACS_NOTHING, /* the line is of another kind */
	HR_ACS_END,	/* a command or an address: the function before it has ended */
	HR_ACS_OF,	/* a control of the function at .address */
	HR_ACS_NEAR,	/* a control of the function that the text lists at this place, if any */
};

struct hr_acs_line {
	enum hr_acs_kind kind;
	uint64_t address;
	const char *flags; /* from "ACSCtl:" on; NULL: .value holds the register */
	uint32_t value;
	uint32_t offset; /* of the capability, 0: not stated */
	uint32_t lines;	 /* number of equal controls */
};

/* Read a line, without blanks at its start. */
enum hr_acs_kind hr_acs_line(struct hr_acs_reader *r, const char *line, struct hr_acs_line *found);

/* True for flags of a control that redirects: ReqRedir+, CmpltRedir+ or EgressCtrl+. */
bool hr_acs_flags_redirect(const char *flags);

#endif
