/*
 * config/file/pipeline.h - reads one element of the list `pipelines`; for files of config/ only.
 */
#ifndef CONFIG_FILE_PIPELINE_H
#define CONFIG_FILE_PIPELINE_H

#include "config/config.h"
#include "config/file/group.h"

/*
 * Read pipeline i from its group: resolve names, parse arguments, fill in defaults. False after a
 * mistake that makes the checks of sizes meaningless.
 */
bool hr_config_pipeline_read(struct hr_config *config, const struct hr_group *group, unsigned i);

#endif
