/*
 * boot/cmd/topo/fix.h - --fix: the smallest ACS change, how to make it, what else it does, and how
 * to undo it.
 */
#ifndef BOOT_CMD_TOPO_FIX_H
#define BOOT_CMD_TOPO_FIX_H

#include "boot/cmd/topo/topo.h"

/* The view: text, or members of t->json; apply: write the registers of this machine. Returns an
 * exit code of topo. */
int hr_topo_fix(struct hr_topo *t, bool apply);

#endif
