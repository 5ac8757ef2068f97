/*
 * boot/cmd/report/runs.h - results of the pipelines of a run, as text and as JSON.
 */
#ifndef BOOT_CMD_REPORT_RUNS_H
#define BOOT_CMD_REPORT_RUNS_H

#include <stdio.h>

#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"

/*
 * State and results of the selected pipelines; after hr_run_all(), before going down. `which` has a
 * bit for each pipeline to show.
 */
#define HR_REPORT_ALL UINT32_MAX
void hr_report_runs(const struct hr_appliance *app, uint32_t which, FILE *out);
void hr_report_runs_json(const struct hr_appliance *app, struct hr_json *report);

/*
 * The result of a run whose outcome is HR_RUN_DONE, as the object that hr_report_runs_json() has for
 * it, in one line; "" for an operator without a result. 0; -ENOBUFS: it does not fit, and the text
 * has only its single values, not its arrays; or "" when they do not fit either.
 */
int hr_report_result(const struct hr_run *run, char *text, size_t bytes);

#endif
