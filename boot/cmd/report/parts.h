/*
 * boot/cmd/report/parts.h - the path of each ssd to a gpu, as text and in the JSON of a pipeline.
 */
#ifndef BOOT_CMD_REPORT_PARTS_H
#define BOOT_CMD_REPORT_PARTS_H

#include <stdio.h>

#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"

/* Print the path of each ssd of a run to each of its gpus, as the topology decided, one line per
 * pair; no line for a pair without PCI functions. */
void hr_report_paths(const struct hr_appliance *app, const struct hr_run *run, const char *indent,
		     FILE *out);

/* Write the first members of the JSON object of a pipeline: name, operator, gpus, path, and the
 * array `paths` with an element per gpu and ssd. */
void hr_report_head_json(const struct hr_appliance *app, const struct hr_run *run,
			 struct hr_json *out);

#endif
