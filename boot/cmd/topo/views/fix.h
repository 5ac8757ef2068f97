/*
 * boot/cmd/topo/views/fix.h - --fix: the smallest ACS change, the commands for it, its side
 * effects, and the commands that undo it.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_FIX_H
#define BOOT_CMD_TOPO_VIEWS_FIX_H

#include "boot/cmd/topo/topo.h"
#include "pci/topo/forecast/change.h"

/*
 * Show the fix: text, or members of t->json. apply: also write the registers of this machine.
 * Returns an exit code of topo.
 */
int hr_topo_fix(struct hr_topo *t, bool apply);

/* The command line of one write, or of the command that undoes it. Returns text. */
const char *hr_topo_setpci(const struct hr_topo *t, const struct hr_fix_write *w, bool undo,
			   char *text, size_t bytes);

#endif
