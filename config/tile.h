/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/tile.h - sizes of the tiles of a pipeline, which follow from its settings.
 */
#ifndef CONFIG_TILE_H
#define CONFIG_TILE_H

#include "config/config.h"

#define HR_BLOCK_MIN 512u  /* smallest supported logical block, in bytes */
#define HR_BLOCK_MAX 4096u /* largest supported logical block, in bytes */

/*
 * Rows of a full tile of this pipeline, and the bytes of these rows in source s. tile_bytes is the
 * size in the source with the longest rows; other sources have smaller tiles.
 */
uint32_t hr_config_tile_rows(const struct hr_config_pipeline *pipeline);
uint32_t hr_config_tile_bytes(const struct hr_config_pipeline *pipeline, uint32_t s);

/* Bytes of a row of source s, and of a row in the source with the longest rows; at least 1. */
uint32_t hr_config_row_bytes(const struct hr_config_pipeline *pipeline, uint32_t s);
uint32_t hr_config_longest_row(const struct hr_config_pipeline *pipeline);

/* The smallest number of rows, above 0, that are whole blocks of `block` bytes in each source and in
 * the sink. */
uint64_t hr_config_row_step(const struct hr_config_pipeline *pipeline, uint32_t block);

/* Bytes that the operator makes of that many rows, for the sink. */
uint64_t hr_config_output_bytes(const struct hr_config_pipeline *pipeline, uint64_t rows);

/*
 * The smallest possible tile in bytes, whole rows in whole blocks of any supported size. Every tile
 * is a multiple of it.
 */
uint64_t hr_config_tile_step(const struct hr_config_pipeline *pipeline);

/* Bytes written to the sink for a full tile; 0: the operator produces no data. */
uint32_t hr_config_sink_tile_bytes(const struct hr_config_pipeline *pipeline);

#endif
