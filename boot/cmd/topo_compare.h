/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo_compare.h - `headrace topo --prove GPU SSD`, with options of its own.
 */
#ifndef BOOT_CMD_TOPO_COMPARE_H
#define BOOT_CMD_TOPO_COMPARE_H

#include "boot/cmd/topo/topo.h"

/* True when the command line has --prove: it then moves data, and reads no capture. */
bool hr_topo_proves(int argc, char **argv);

/* Parse the options, and compare (boot/cmd/topo/prove.h). Returns an exit code of topo. */
int hr_topo_prove_command(struct hr_topo *t, int argc, char **argv);

#endif
