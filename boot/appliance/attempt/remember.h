/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/attempt/remember.h - adds the runs of an appliance to its history
 * (boot/engine/history.h), and writes them as JSON.
 */
#ifndef BOOT_APPLIANCE_ATTEMPT_REMEMBER_H
#define BOOT_APPLIANCE_ATTEMPT_REMEMBER_H

#include "boot/appliance/protocol/record.h"
#include "boot/engine/history.h"
#include "config/base/json.h"

/* In the engine: run i has ended. start: its number; 0: one more than the last one. */
void hr_remember_run(struct hr_history *history, const struct hr_engine *engine, uint32_t i,
		     uint64_t start);

/* In the supervisor: the engine ended in the run, and did not add it. */
void hr_remember_death(struct hr_history *history, const struct hr_config *config, uint32_t i,
		       uint64_t start, const struct hr_record_run *run);

/*
 * A run as a member of an object (key), or as an element of an array (NULL):
 *
 *   {"start": 3, "outcome": "done", "started_utc": ..., "ended_utc": ..., "duration_ms": 12.345,
 *    "operator": "crc32c", "tiles": 16, "tiles_done": 16, "read_bytes": 1000000,
 *    "error": ..., "message": ..., "engine_ended": true, "result": {"crc32c": "1aabbe15"}}
 *
 * error, message, engine_ended and result only when there is one. result is the object of `headrace
 * run --json`. Of one that does not fit in HR_HISTORY_RESULT bytes it has the single values, without
 * arrays, and result_shortened is true.
 */
void hr_past_run_json(struct hr_json *j, const char *key, const struct hr_past_run *run);

#endif
