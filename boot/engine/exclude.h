/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/exclude.h - leave out a pipeline or an ssd, and everything that depends on it.
 */
#ifndef BOOT_ENGINE_EXCLUDE_H
#define BOOT_ENGINE_EXCLUDE_H

#include "boot/engine/engine.h"

/* True when the pipeline reads or writes that ssd; true when it reads the sink of the other.
 * From the configuration alone. */
bool hr_run_uses_ssd(const struct hr_run *run, uint32_t d);
bool hr_run_reads_sink(const struct hr_run *reader, const struct hr_run *writer);

/*
 * Leave out a selected pipeline, which fails with err for engine->error, and those that read its sink;
 * leave out an ssd that is down, and all pipelines that use it. Log engine->error, and empty
 * it; when no pipeline is left, it is the cause of the first one.
 */
void hr_exclude_run(struct hr_engine *engine, uint32_t i, int err);
void hr_exclude_ssd(struct hr_engine *engine, uint32_t d, int err);

/* Log engine->error and empty it, where bring-up goes on without the part that failed. */
void hr_stage_error_log(struct hr_engine *engine);

/* Before bring-up: leave out a gpu or an ssd, and the pipelines that cannot run without it; none of
 * them has failed. */
void hr_leave_out_gpu(struct hr_engine *engine, uint32_t g);
void hr_skip_ssd(struct hr_engine *engine, uint32_t d);

/* Before bring-up: leave out a pipeline and those that read its sink; none of them has failed. */
void hr_leave_out_run(struct hr_engine *engine, uint32_t i);

/* True when a pipeline is left to run. */
bool hr_any_selected(const struct hr_engine *engine);

/* Warn of each selected pipeline that still waits, because it cannot start. -EIO: there is one. */
int hr_refuse_blocked(const struct hr_engine *engine, struct hr_error *e);

#endif
