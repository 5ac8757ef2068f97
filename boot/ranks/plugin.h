/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/ranks/plugin.h - load headrace-mpi.so, and join the job.
 */
#ifndef BOOT_RANKS_PLUGIN_H
#define BOOT_RANKS_PLUGIN_H

#include "boot/ranks/ranks.h"
#include "config/base/error.h"

#define HR_RANKS_PLUGIN_FILE "headrace-mpi.so"

/*
 * Load HR_RANKS_PLUGIN_FILE from the folder of the program, or from ../lib/headrace beside it, and
 * open the job. The plugin stays loaded until the process ends. 0; -ENOENT, -EINVAL: no such file,
 * or no plugin of this version (kind HR_ERROR_MISSING); -ENOTSUP: a static binary; -ENOTCONN: not
 * started by a launcher (HR_ERROR_USAGE); others of the plugin (HR_ERROR_FAILED).
 */
int hr_ranks_load(struct hr_ranks *ranks, struct hr_error *e);

/* The same with the file at `path`. */
int hr_ranks_load_file(const char *path, struct hr_ranks *ranks, struct hr_error *e);

#endif
