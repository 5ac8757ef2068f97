/*
 * config/file/remote.h - sinks and sources that are streams of tiles to and from other appliances:
 * sink = { remote = "ADDRESS:PORT"; ... }, source = { remote = "ADDRESS:PORT"; ... }, and the group
 * `remote` with what all of them share. For config/file/file.c, config/file/pipeline.c and
 * config/file/check.c only.
 */
#ifndef CONFIG_FILE_REMOTE_H
#define CONFIG_FILE_REMOTE_H

#include "config/config.h"
#include "config/file/group.h"

/* Read the group `remote` of the file. */
void hr_config_remotes_read(struct hr_config *config, const struct hr_group *group);

/* Read the group `sink` of a pipeline whose sink has the key `remote`. */
void hr_config_remote_sink_read(struct hr_config_pipeline *pipeline, const struct hr_group *sink);

/* True when the member `source` of the pipeline has the key `remote`. */
bool hr_config_remote_is_source(const struct hr_group *pipeline);

/* Read that source. False: it has mistakes, which were reported. */
bool hr_config_remote_source_read(struct hr_config_pipeline *pipeline,
				  const struct hr_group *group);

/* Check all streams after all pipelines have been read: the key, addresses, names, schedules. */
void hr_config_remotes_check(const struct hr_config *config, struct hr_mistakes *mistakes);

#endif
