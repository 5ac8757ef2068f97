/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/report/parts.h - parts of reports: paths, streams to other appliances, results of
 * verify.
 */
#ifndef BOOT_CMD_REPORT_PARTS_H
#define BOOT_CMD_REPORT_PARTS_H

#include <stdio.h>

#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"
#include "boot/engine/engine.h"
#include "boot/engine/runner/counters.h"
#include "boot/engine/run.h"

/* ---- the path of each ssd to a gpu, as text and in the JSON of a pipeline. */

/* Print the path of each ssd of a run to each of its gpus, as the topology decided, one line per
 * pair; no line for a pair without PCI functions. */
void hr_report_paths(const struct hr_engine *engine, const struct hr_run *run, const char *indent,
		     FILE *out);

/* Write the first members of the JSON object of a pipeline: name, operator, gpus, path, and the
 * array `paths` with an element per gpu and ssd. */
void hr_report_head_json(const struct hr_engine *engine, const struct hr_run *run,
			 struct hr_json *out);

/* ---- streams of pipelines to and from other appliances, in results and plans */

/* The stream of a run that has one, after its end. */
void hr_report_remote(const struct hr_engine *engine, const struct hr_run *run,
		      const struct hr_remote_counters *c, FILE *out);
void hr_report_remote_json(const struct hr_engine *engine, const struct hr_run *run,
			   const struct hr_remote_counters *c, struct hr_json *out);

/* The same of a run whose partition is planned. */
void hr_report_remote_plan(const struct hr_engine *engine, const struct hr_run *run, FILE *out);
void hr_report_remote_plan_json(const struct hr_engine *engine, const struct hr_run *run,
				struct hr_json *out);

/* ---- which data of a run are compared with their checksums, for
 * `headrace check` and the results of runs.
 */

/* Before the run: "; compared with its checksum ...", or "; not verified: REASON". */
void hr_report_verify_plan(const struct hr_run *run, const struct hr_run_verify *verify, FILE *out);

/* After it: "verified, CRC-32C ...", "WRONG: ...", or "not verified: REASON". */
void hr_report_verify(const struct hr_run *run, const struct hr_run_verify *verify, FILE *out);

/* Members `verified`, `check`, and `reason` or both checksums. */
void hr_report_verify_json(const struct hr_run *run, const struct hr_run_verify *verify,
			   struct hr_json *out);

/* Member with a checksum as text of 8 digits. */
void hr_report_crc_json(struct hr_json *out, const char *name, uint32_t crc);

#endif
