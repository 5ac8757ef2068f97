/*
 * boot/cmd/topo/fix.h - --fix: the smallest ACS change, the commands for it, its side effects, and
 * the commands that undo it.
 */
#ifndef BOOT_CMD_TOPO_FIX_H
#define BOOT_CMD_TOPO_FIX_H

#include "boot/cmd/topo/topo.h"

/*
 * Show the fix: text, or members of t->json. apply: also write the registers of this machine.
 * Returns an exit code of topo.
 */
int hr_topo_fix(struct hr_topo *t, bool apply);

#endif
