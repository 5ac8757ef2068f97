/*
 * boot/report.h - what check and run say about an appliance, for people and for programs.
 */
#ifndef BOOT_REPORT_H
#define BOOT_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "boot/stages.h"

/* Ssds, pipelines with their paths, the map of each gpu's memory; from HR_STAGE_PARTITION on. */
void hr_report_plan(const struct hr_appliance *app, FILE *out);
void hr_report_plan_json(const struct hr_appliance *app, struct json_object *report);

/* What the selected pipelines did, with their results; after hr_run_all(), before the way down. */
void hr_report_runs(const struct hr_appliance *app, FILE *out);
void hr_report_runs_json(const struct hr_appliance *app, struct json_object *report);

#endif
