/*
 * boot/cmd/topo/options.h - values of options that change what is judged.
 */
#ifndef BOOT_CMD_TOPO_OPTIONS_H
#define BOOT_CMD_TOPO_OPTIONS_H

#include "boot/cmd/topo/topo.h"

/* Values of --mode, --iommu and --kernel; false: the text is none. */
bool hr_topo_set_mode(struct hr_options *opt, const char *text);
bool hr_topo_set_iommu(struct hr_options *opt, const char *text);
bool hr_topo_set_kernel(struct hr_options *opt, const char *text);

#endif
