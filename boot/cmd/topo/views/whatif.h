/*
 * boot/cmd/topo/views/whatif.h - --what-if and --baseline: verdicts before and after, and other
 * differences.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_WHATIF_H
#define BOOT_CMD_TOPO_VIEWS_WHATIF_H

#include "boot/cmd/topo/topo.h"

/*
 * Apply n changes (pci/topo/forecast/change.h) and show the result: text, or members of
 * t->json. Returns an exit code of topo.
 */
int hr_topo_whatif(struct hr_topo *t, const char *const *changes, unsigned n);
/* Compare with a capture: text, or members of t->json. Returns an exit code of topo. */
int hr_topo_baseline(const struct hr_topo *t, const char *file);

/*
 * Show the differences from an older model or its verdicts, on t->out or in t->json; returns their
 * number.
 */
unsigned hr_topo_compare_facts(const struct hr_topo *t, const struct hr_model *old);
unsigned hr_topo_compare_verdicts(const struct hr_topo *t, const struct hr_topology *old);

#endif
