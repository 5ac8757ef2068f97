/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/report/reports.h - output of check about an appliance, as text and as JSON.
 */
#ifndef BOOT_CMD_REPORT_REPORTS_H
#define BOOT_CMD_REPORT_REPORTS_H

#include <stdio.h>

#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"

/*
 * Ssds, pipelines with their paths, and the map of each gpu's memory; from HR_STAGE_PARTITION on.
 */
void hr_report_plan(const struct hr_engine *engine, FILE *out);
void hr_report_plan_json(const struct hr_engine *engine, struct hr_json *report);

/* Only the map; from HR_STAGE_MEMORY on with addresses. In JSON the array `partitions`. */
void hr_report_map(const struct hr_engine *engine, FILE *out);
void hr_report_map_json(const struct hr_engine *engine, struct hr_json *report);

/*
 * The used gpus as array `gpus`: name, device as configured, backend as opened, and note when the
 * device does not tell the choice (the CPUs or GPU that `auto` chose, and the reason). facts: also
 * the facts of a GPU, and registers by role if they were requested (hr_gpu_measuring.roles).
 */
void hr_report_gpus_json(const struct hr_engine *engine, bool facts, struct hr_json *report);

/* Add the array "objects": the objects of an access operator. */
void hr_report_objects_json(const struct hr_engine *engine, const struct hr_run *run,
			    struct hr_json *out);

/* ---- results of the pipelines of a run, as text and as JSON */

/*
 * State and results of the selected pipelines; after hr_run_all(), before going down. `which` has a
 * bit for each pipeline to show.
 */
#define HR_REPORT_ALL UINT32_MAX
void hr_report_runs(const struct hr_engine *engine, uint32_t which, FILE *out);
void hr_report_runs_json(const struct hr_engine *engine, struct hr_json *report);

/*
 * The result of a run whose outcome is HR_RUN_DONE, as the object that hr_report_runs_json() has for
 * it, in one line; "" for an operator without a result. 0; -ENOBUFS: it does not fit, and the text
 * has only its single values, not its arrays; or "" when they do not fit either.
 */
int hr_report_result(const struct hr_run *run, char *text, size_t bytes);

#endif
