/*
 * boot/cmd/topo/table.h - the default output: the answer in words, the matrix, notes, names.
 */
#ifndef BOOT_CMD_TOPO_TABLE_H
#define BOOT_CMD_TOPO_TABLE_H

#include "boot/cmd/topo/topo.h"

/* Print it to t->out. Returns the exit code, which the table has to know anyway. */
enum hr_topo_exit hr_topo_table(struct hr_topo *t);

#endif
