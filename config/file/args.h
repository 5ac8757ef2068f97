/*
 * config/file/args.h - reads the group `args` of a pipeline; for files of config/ only.
 */
#ifndef CONFIG_FILE_ARGS_H
#define CONFIG_FILE_ARGS_H

#include "config/config.h"
#include "config/file/group.h"

/*
 * Pass args = { ... } (or no arguments) to the operator's parser; the result is pipeline->op_args.
 * False after a mistake.
 */
bool hr_config_args_read(struct hr_config_pipeline *pipeline, const struct hr_group *group);

#endif
