/*
 * boot/engine/refuse.h - going on without a pipeline or an ssd, and what that takes with it.
 */
#ifndef BOOT_ENGINE_REFUSE_H
#define BOOT_ENGINE_REFUSE_H

#include "boot/engine/appliance.h"

/* The pipeline reads or writes that ssd; reads the sink of the other. Of the configuration alone. */
bool hr_run_uses_ssd(const struct hr_run *run, uint32_t d);
bool hr_run_reads_sink(const struct hr_run *reader, const struct hr_run *writer);

/*
 * Go on without a selected pipeline, which fails with err, and without those that read its sink; or
 * without an ssd that is down, and all pipelines that use it.
 */
void hr_refuse_run(struct hr_appliance *app, uint32_t i, int err);
void hr_refuse_ssd(struct hr_appliance *app, uint32_t d, int err);

/* Before bring-up: leave out an ssd and the pipelines that cannot run without it; none has failed. */
void hr_leave_out_ssd(struct hr_appliance *app, uint32_t d);

/* Some pipeline is left to run. */
bool hr_any_selected(const struct hr_appliance *app);

#endif
