/*
 * config/file/feed.h - a source that is a feed: source = { feed = "NAME"; ... }. For
 * config/file/pipeline.c and config/file/check.c only.
 */
#ifndef CONFIG_FILE_FEED_H
#define CONFIG_FILE_FEED_H

#include "config/config.h"
#include "config/file/group.h"

/* True when the member `source` of the pipeline has the key `feed`. */
bool hr_config_feed_is_source(const struct hr_group *pipeline);

/* Read that source. False: it has mistakes, which were reported. */
bool hr_config_feed_read(struct hr_config_feed *feed, const struct hr_group *pipeline);

/* Check the feed of a pipeline whose operator and tile are known. */
void hr_config_feed_check(const struct hr_config_pipeline *pipeline, const struct hr_group *group);

/* Check that no two feeds have the same name. */
void hr_config_feeds_check(const struct hr_config *config, struct hr_mistakes *mistakes);

#endif
