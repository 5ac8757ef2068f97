/*
 * boot/cmd/report/verify.h - which data of a run are compared with their checksums, for
 * `headrace check` and the results of runs.
 */
#ifndef BOOT_CMD_REPORT_VERIFY_H
#define BOOT_CMD_REPORT_VERIFY_H

#include <stdio.h>

#include "boot/engine/run.h"
#include "config/base/json.h"

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
