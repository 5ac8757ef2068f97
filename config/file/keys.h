/*
 * config/file/keys.h - checks that the settings of a pipeline, and those of several pipelines, fit each
 * other.
 */
#ifndef CONFIG_FILE_KEYS_H
#define CONFIG_FILE_KEYS_H

#include "config/config.h"

struct hr_group;
struct hr_mistakes;

/*
 * Check tile, slots, blocks, queues and memory of a pipeline against each other.
 * hr_config_pipeline_read() has returned true for it.
 */
void hr_config_pipeline_check(const struct hr_config *config, struct hr_config_pipeline *pipeline,
			      const struct hr_group *group);

/* Check that no pipeline writes one of its sources, and that no two pipelines write one object. */
void hr_config_sinks_check(const struct hr_config *config, struct hr_mistakes *mistakes);

#endif
