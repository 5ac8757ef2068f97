/*
 * boot/cmd/topo/views/rates.h - --bandwidth and --plan: rates from the model, now and after the change
 * that --fix proposes.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_RATES_H
#define BOOT_CMD_TOPO_VIEWS_RATES_H

#include "boot/cmd/topo/topo.h"

/* Show a view: text, or members of t->json. Return an exit code of topo. */
int hr_topo_bandwidth(struct hr_topo *t);
int hr_topo_plan(struct hr_topo *t);

#endif
