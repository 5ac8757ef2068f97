/*
 * boot/cmd/check_starts.h - the next starts of pipelines that repeat, for `check`.
 */
#ifndef BOOT_CMD_CHECK_STARTS_H
#define BOOT_CMD_CHECK_STARTS_H

#include <stdio.h>

#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"

/*
 * As they would be if `headrace boot` started now, from the starts that the ssds hold. The stores
 * are open. Nothing is printed when no pipeline repeats. In JSON the array `starts`.
 */
void hr_report_starts(struct hr_appliance *app, FILE *out);
void hr_report_starts_json(struct hr_appliance *app, struct hr_json *report);

#endif
