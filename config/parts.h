/*
 * config/parts.h - the steps of hr_config_parse(), for the files of config/ only.
 */
#ifndef CONFIG_PARTS_H
#define CONFIG_PARTS_H

#include "config/config.h"
#include "config/group.h"

/* The built-in operator of that name; NULL: there is none. */
const struct hr_operator *hr_config_operator_find(const struct hr_config *config, const char *name);

/* User operator i from its group, loaded. Without a description after a mistake. */
void hr_config_operator_read(struct hr_config *config, const struct hr_group *group, unsigned i);

/* Pipeline i from its group: names resolved, arguments parsed, defaults filled in. False when a
 * mistake in it makes checks of its sums pointless. */
bool hr_config_pipeline_read(struct hr_config *config, const struct hr_group *group, unsigned i);

/* args = { ... } (or none) through the operator's parser into pipeline->op_args. */
bool hr_config_args_read(struct hr_config_pipeline *pipeline, const struct hr_group *group);

/* Tile, slots, blocks, queues and memory of one readable pipeline against each other. */
void hr_config_pipeline_check(const struct hr_config *config, struct hr_config_pipeline *pipeline,
			      const struct hr_group *group);

/* The defaults of `boot`; the group itself. */
void hr_config_boot_default(struct hr_config_boot *boot);
void hr_config_boot_read(struct hr_config_boot *boot, const struct hr_group *group);

/* What pipelines may not do to each other. */
void hr_config_sinks_check(const struct hr_config *config, struct hr_mistakes *mistakes);

#endif
