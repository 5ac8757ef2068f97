/*
 * boot/cmd/topo/whatif.h - --what-if and --baseline: verdicts before and after, and what else moved.
 */
#ifndef BOOT_CMD_TOPO_WHATIF_H
#define BOOT_CMD_TOPO_WHATIF_H

#include "boot/cmd/topo/topo.h"

/* n changes (pci/topo/change.h): text, or members of t->json. Returns an exit code of topo. */
int hr_topo_whatif(struct hr_topo *t, const char *const *changes, unsigned n);
/* Compare with a capture: text, or members of t->json. Returns an exit code of topo. */
int hr_topo_baseline(const struct hr_topo *t, const char *file);

/* What differs from an older model or its verdicts: to t->out or t->json; returns how much. */
unsigned hr_topo_compare_facts(const struct hr_topo *t, const struct hr_model *old);
unsigned hr_topo_compare_verdicts(const struct hr_topo *t, const struct hr_engine *old);

#endif
