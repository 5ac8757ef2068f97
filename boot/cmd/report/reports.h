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
void hr_report_plan(const struct hr_appliance *app, FILE *out);
void hr_report_plan_json(const struct hr_appliance *app, struct hr_json *report);

/* Only the map; from HR_STAGE_MEMORY on with addresses. In JSON the array `partitions`. */
void hr_report_map(const struct hr_appliance *app, FILE *out);
void hr_report_map_json(const struct hr_appliance *app, struct hr_json *report);

/*
 * The used gpus as array `gpus`: name, device as configured, backend as opened, and note when the
 * device does not tell the choice (the CPUs or GPU that `auto` chose, and the reason). facts: also
 * the facts of a GPU, and registers by role if they were requested (hr_gpu_measuring.roles).
 */
void hr_report_gpus_json(const struct hr_appliance *app, bool facts, struct hr_json *report);

/* Add the array "objects": the objects of an access operator. */
void hr_report_objects_json(const struct hr_appliance *app, const struct hr_run *run,
			    struct hr_json *out);

#endif
