/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/shape/paths.h - the path of each pair of ssd and gpu: direct or bounce.
 */
#ifndef BOOT_ENGINE_SHAPE_PATHS_H
#define BOOT_ENGINE_SHAPE_PATHS_H

#include "boot/engine/engine.h"

/*
 * Choose the path of each pair that a selected pipeline uses; the first part of stage `partition`. 0,
 * or as hr_path_choose(), logged.
 */
int hr_paths_up(struct hr_engine *engine);

/*
 * Fill engine->path[g][d] for a backend and an ssd that are up: ask the topology when both are PCI
 * functions. 0, or as hr_path_choose(), with engine->error.
 */
int hr_path_ask(struct hr_engine *engine, uint32_t g, uint32_t d);

/*
 * Report that the direct paths between gpu g and these ssds (one bit each) do not work, for the
 * reason in *e. With memory.path = "auto" and queues in host memory these paths become bounce:
 * returns true, and *e is a warning. Appends the consequence, or the remedy, to the text of *e.
 */
bool hr_paths_lost(struct hr_engine *engine, uint32_t g, uint32_t ssds, struct hr_error *e);

/* True when a selected pipeline of that gpu uses that ssd. */
bool hr_pair_used(const struct hr_engine *engine, uint32_t g, uint32_t d);

/* Place of the tiles of that gpu that are not direct, such as "host memory (host backend)". */
const char *hr_gpu_path(const struct hr_engine *engine, uint32_t gpu);

/* Place of the tiles of a pipeline, such as "direct (GPU memory)". */
const char *hr_run_path(const struct hr_engine *engine, const struct hr_run *run);

/* PCI address of the function that holds the gpu's memory; "" when no ssd can access it. */
const char *hr_gpu_address(const struct hr_backend *b);

#endif
