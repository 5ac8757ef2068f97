/*
 * boot/cmd/topo/views/views.h - the default output: the answer in sentences, the matrix, notes, names.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_VIEWS_H
#define BOOT_CMD_TOPO_VIEWS_VIEWS_H

#include "boot/cmd/topo/topo.h"

/* Print the output to t->out. Returns the exit code, which it computes on the way. */
enum hr_topo_exit hr_topo_table(struct hr_topo *t);

#endif
