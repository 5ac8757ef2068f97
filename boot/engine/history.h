/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/history.h - the last runs of each pipeline, with their results, durable on an ssd.
 *
 * They are in the object HR_HISTORY_OBJECT of the first ssd with a writable store: HR_HISTORY_ENTRIES
 * pages of 4096 bytes, one for each run. A run that has ended is written in one durable write to the
 * page of the oldest run of its pipeline, when HR_HISTORY_RUNS of that pipeline are kept already,
 * else to a free page or to that of a pipeline that the configuration does not have. A power cut
 * during a write damages only that page, which its CRC shows. The pages need no index: each has its
 * pipeline and a sequence number.
 *
 * In memory the pages are shared by an engine and its supervisor. The engine writes them while it
 * runs, the supervisor while none does. A reader copies a page and checks the copy, because the
 * writer may be at work, and the code of an operator may overwrite the memory of the engine.
 */
#ifndef BOOT_ENGINE_HISTORY_H
#define BOOT_ENGINE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/store/store.h"
#include "config/config.h"

struct hr_engine;

#define HR_HISTORY_OBJECT "headrace.history"
#define HR_HISTORY_RUNS 16u /* kept of each pipeline */
#define HR_HISTORY_ENTRIES (HR_PIPELINES_MAX * HR_HISTORY_RUNS)
#define HR_HISTORY_RESULT 2048u /* bytes of a result, with its NUL */
#define HR_HISTORY_MESSAGE 256u

/* Little-endian; times: nanoseconds since 1970, 0: the clock was not set. */
struct hr_past_run {
	char magic[8];	   /* "hrpast" */
	uint32_t version;  /* 1 */
	uint32_t too_long; /* 0 or 1: the result did not fit, `result` has a part of it */
	uint64_t sequence; /* counts the ends of all pipelines */
	char pipeline[HR_NAME_MAX], op[HR_NAME_MAX];
	uint64_t start;	   /* number of the start; of a pipeline that runs once, of the run */
	uint64_t outcome;  /* enum hr_outcome, not HR_RUN_WAITING */
	int64_t error;	   /* 0, an NVMe status or -errno */
	uint64_t ended_it; /* 0 or 1: the engine ended in this run, and is blamed on it */
	uint64_t started_ns, ended_ns;
	uint64_t duration_ns;
	uint64_t tiles, tiles_done, read_bytes;
	char message[HR_HISTORY_MESSAGE]; /* reason of a failure, one line; else "" */
	char result[HR_HISTORY_RESULT];	  /* of the operator: a JSON object in one line; or "" */
	uint8_t zero[1552];
	uint32_t reserved, crc; /* CRC-32C of all bytes before */
};

struct hr_history {
	uint8_t unsaved[HR_HISTORY_ENTRIES]; /* 1: the page is not on a disk yet */
	struct hr_past_run run[HR_HISTORY_ENTRIES];
};

/* Copy page k. False: it is blank, damaged, or has a value that no writer puts there. */
bool hr_history_get(const struct hr_history *history, uint32_t k, struct hr_past_run *run);

/* The newest run of a pipeline (its name) with a sequence below `before` (UINT64_MAX: of all). False:
 * there is none. */
bool hr_history_newest(const struct hr_history *history, const char *pipeline, uint64_t before,
		       struct hr_past_run *run);

/*
 * The run of a start; of several with this number the newest one, because a pipeline that was removed
 * from the configuration counts from 1 when it is in it again. False: it is not there, or not any
 * more.
 */
bool hr_history_find(const struct hr_history *history, const char *pipeline, uint64_t start,
		     struct hr_past_run *run);

/* Add a run, in memory. Sets magic, version, sequence and CRC of *run. */
void hr_history_add(struct hr_history *history, const struct hr_config *config,
		    struct hr_past_run *run);

/*
 * For an appliance whose stores are open. Read the pages from the disks, and then write those that
 * were unsaved; write the unsaved ones. 0; -ENODEV: no ssd has a writable store; -EEXIST: the object
 * of that name was not made for this; or an error of the store or the disk. *e has the reason. Pages
 * that are not written stay unsaved.
 */
int hr_history_load(struct hr_engine *engine, struct hr_history *history, struct hr_error *e);
int hr_history_save(struct hr_engine *engine, struct hr_history *history, struct hr_error *e);

#endif
