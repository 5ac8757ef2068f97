/*
 * boot/cmd/report/report.h - what check and run say about an appliance, for people and for programs.
 */
#ifndef BOOT_CMD_REPORT_REPORT_H
#define BOOT_CMD_REPORT_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "boot/engine/stages.h"

/* Ssds, pipelines with their paths, the map of each gpu's memory; from HR_STAGE_PARTITION on. */
void hr_report_plan(const struct hr_appliance *app, FILE *out);
void hr_report_plan_json(const struct hr_appliance *app, struct json_object *report);

/* The map alone; with addresses from HR_STAGE_MEMORY on. In JSON an array `partitions`. */
void hr_report_map(const struct hr_appliance *app, FILE *out);
void hr_report_map_json(const struct hr_appliance *app, struct json_object *report);

/* What the selected pipelines did, with their results; after hr_run_all(), before the way down. A bit
 * of `which` for each pipeline that is shown. */
#define HR_REPORT_ALL UINT32_MAX
void hr_report_runs(const struct hr_appliance *app, uint32_t which, FILE *out);
void hr_report_runs_json(const struct hr_appliance *app, struct json_object *report);

/* The gpus in use as an array `gpus`: name, device as configured, backend as opened, and note where
 * that is not plainly what was asked for (which CPUs or GPU `auto` chose, and why); facts: and what
 * is known of a GPU, with registers by role if they were asked for (hr_backend_ops.roles). */
void hr_report_gpus_json(const struct hr_appliance *app, bool facts, struct json_object *report);

/* How each ssd of a run and its gpu meet, as the topology decided: a line a pair; nothing where there
 * is no pair of PCI functions. In JSON an array `paths` of out, an element per ssd. */
void hr_report_paths(const struct hr_appliance *app, const struct hr_run *run, const char *indent,
		     FILE *out);
void hr_report_paths_json(const struct hr_appliance *app, const struct hr_run *run,
			  struct json_object *out);

#endif
