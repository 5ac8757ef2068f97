/*
 * boot/cmd/report/runs.h - results of the pipelines of a run, as text and as JSON.
 */
#ifndef BOOT_CMD_REPORT_RUNS_H
#define BOOT_CMD_REPORT_RUNS_H

#include <stdio.h>

#include "boot/engine/stages.h"
#include "config/json.h"

/*
 * State and results of the selected pipelines; after hr_run_all(), before going down. `which` has a
 * bit for each pipeline to show.
 */
#define HR_REPORT_ALL UINT32_MAX
void hr_report_runs(const struct hr_appliance *app, uint32_t which, FILE *out);
void hr_report_runs_json(const struct hr_appliance *app, struct hr_json *report);

#endif
