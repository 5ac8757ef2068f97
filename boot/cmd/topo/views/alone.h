/*
 * boot/cmd/topo/views/alone.h - the answer for a machine without a pair of GPU and NVMe
 * controller: what is missing, which functions are no GPU or no NVMe controller and why, and
 * the pairs that exist instead.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_ALONE_H
#define BOOT_CMD_TOPO_VIEWS_ALONE_H

#include "boot/cmd/topo/topo.h"

/* Print the reason, and these pairs as --peers gpu,nic does. */
void hr_topo_alone(struct hr_topo *t);

#endif
