/*
 * config/check.h - computes sizes of a pipeline from its settings, and checks that the settings fit
 * each other.
 */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include "config/config.h"

struct hr_group;
struct hr_mistakes;

/*
 * Rows of a full tile of this pipeline, and the bytes of these rows in source s. tile_bytes is the
 * size in the source with the longest rows; other sources have smaller tiles.
 */
uint32_t hr_config_tile_rows(const struct hr_config_pipeline *pipeline);
uint32_t hr_config_tile_bytes(const struct hr_config_pipeline *pipeline, uint32_t s);

/*
 * The smallest possible tile in bytes, whole rows in whole blocks of any supported size. Every tile
 * is a multiple of it.
 */
uint64_t hr_config_tile_step(const struct hr_config_pipeline *pipeline);

/* Bytes written to the sink for a full tile; 0: the operator produces no data. */
uint32_t hr_config_sink_tile_bytes(const struct hr_config_pipeline *pipeline);

/*
 * Check tile, slots, blocks, queues and memory of a pipeline against each other.
 * hr_config_pipeline_read() has returned true for it.
 */
void hr_config_pipeline_check(const struct hr_config *config, struct hr_config_pipeline *pipeline,
			      const struct hr_group *group);

/* Check that no pipeline writes one of its sources, and that no two pipelines write one object. */
void hr_config_sinks_check(const struct hr_config *config, struct hr_mistakes *mistakes);

/*
 * Number of the version when `name` names an older one of `keep` versions of an object: "NAME.1" is
 * the newest of those, "NAME.<keep - 1>" the oldest. 0: it does not.
 */
uint32_t hr_config_version_of(const char *name, const char *object, uint32_t keep);

#endif
