/*
 * boot/cmd/report/remote.h - streams of pipelines to and from other appliances, in results and plans.
 */
#ifndef BOOT_CMD_REPORT_REMOTE_H
#define BOOT_CMD_REPORT_REMOTE_H

#include <stdio.h>

#include "boot/engine/engine.h"
#include "boot/engine/runner/counters.h"
#include "config/base/json.h"

/* The stream of a run that has one, after its end. */
void hr_report_remote(const struct hr_appliance *app, const struct hr_run *run,
		      const struct hr_remote_counters *c, FILE *out);
void hr_report_remote_json(const struct hr_appliance *app, const struct hr_run *run,
			   const struct hr_remote_counters *c, struct hr_json *out);

/* The same of a run whose partition is planned. */
void hr_report_remote_plan(const struct hr_appliance *app, const struct hr_run *run, FILE *out);
void hr_report_remote_plan_json(const struct hr_appliance *app, const struct hr_run *run,
				struct hr_json *out);

#endif
