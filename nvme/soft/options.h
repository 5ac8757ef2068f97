/*
 * nvme/soft/options.h - the text of a soft device.
 */
#ifndef NVME_SOFT_OPTIONS_H
#define NVME_SOFT_OPTIONS_H

#include "nvme/soft/soft.h"

/* Parse the text after "soft:". 0, or -EINVAL. */
int hr_soft_parse(const char *text, struct hr_soft_options *options, struct hr_error *e);

#endif
