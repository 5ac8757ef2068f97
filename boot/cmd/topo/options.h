/*
 * boot/cmd/topo/options.h - values of the options that change how pairs are evaluated.
 */
#ifndef BOOT_CMD_TOPO_OPTIONS_H
#define BOOT_CMD_TOPO_OPTIONS_H

#include "boot/cmd/topo/topo.h"

/* Parse the values of --mode, --iommu and --kernel; false: not a valid value. */
bool hr_topo_set_mode(struct hr_options *opt, const char *text);
bool hr_topo_set_iommu(struct hr_options *opt, const char *text);
bool hr_topo_set_kernel(struct hr_options *opt, const char *text);

#endif
