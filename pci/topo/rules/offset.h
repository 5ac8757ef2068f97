/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/rules/offset.h - bus addresses of BARs on hosts whose CPU and bus addresses differ.
 *
 * sysfs `resource`, and with it the text of lspci, has the CPU's address of a BAR; the registers of
 * BARs and bridge windows have bus addresses. They differ by a constant for each window of a host
 * bridge (struct resource_entry.offset of the kernel). x86 has no such constant. Here the constant
 * is computed for two classes of windows of a host bridge: memory and prefetchable memory. It must
 * move every BAR of the class into the windows of all bridges above that BAR.
 *
 * Windows have a granularity of 1 MiB and are larger than BARs, so a range of constants is
 * admissible. All of them give the same result for the windows above a BAR. Where a comparison with
 * other windows depends on the constant, the result is unknown (rule R4-unread).
 */
#ifndef PCI_TOPO_RULES_OFFSET_H
#define PCI_TOPO_RULES_OFFSET_H

#include "pci/topo/rules/verdict.h"

enum hr_window_class { HR_WINDOW_MEM, HR_WINDOW_PREF, HR_WINDOW_CLASSES };

enum hr_offset_state {
	HR_OFFSET_NONE,	   /* addresses are compared as they are */
	HR_OFFSET_KNOWN,   /* bus address = CPU address - value */
	HR_OFFSET_UNKNOWN, /* addresses of two kinds, and no constant fits all BARs */
};

/* One class of windows of one host bridge. */
struct hr_offset {
	enum hr_offset_state state;
	int64_t value; /* the admissible constant that is the multiple of the largest power of 2 */
	int64_t low, high; /* admissible constants */
	uint32_t moved;	   /* functions with a BAR that is outside of the windows above it */
	bool fits;	   /* a BAR of the class is inside them: the constant is 0 */
	bool contradicts;  /* a BAR that no constant moves into the windows above it */
};

/* The part of the bus that a BAR decodes. */
struct hr_bus_range {
	enum hr_offset_state state;
	uint64_t base, last;  /* with the chosen constant; HR_OFFSET_UNKNOWN: the CPU's addresses */
	struct hr_span reach; /* addresses with any admissible constant */
	int64_t offset;
};

/* Set e->offset and e->x86. 0 or -ENOMEM. */
int hr_offsets_find(struct hr_topology *e, struct hr_model *m);

/* Range of a BAR of f that has an address. */
struct hr_bus_range hr_bus_range(const struct hr_topology *e, const struct hr_fn *f,
				 const struct hr_bar *bar);

/* True when a window is open and contains the range. */
static inline bool hr_window_holds(const struct hr_window *w, uint64_t base, uint64_t last)
{
	return w->source && w->base <= base && last <= w->limit;
}

/* "0x600000000000", "-0x40000000". text[24]; returns text. */
char *hr_offset_text(int64_t offset, char *text);

#endif
