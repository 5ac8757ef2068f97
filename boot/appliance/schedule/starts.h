/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/schedule/starts.h - the starts of pipelines, durable on an ssd, so that
 * schedules go on after a restart and a power cut.
 *
 * They are in the object HR_STARTS_OBJECT of the first ssd with a writable store: two pages of 4096
 * bytes that are written alternately, each in one durable write. A power cut during a write damages
 * only that page, which its CRC shows; the other page holds the state before. The object map is not
 * used for this: a commit writes the map of all objects, and its records have no room for times.
 *
 *        0  magic "hrstarts"   8
 *        8  version 1          4
 *       12  number of starts   4   HR_PIPELINES_MAX
 *       16  sequence           8   page = sequence modulo 2; each write adds 1
 *       24  starts             struct hr_start each, little-endian
 *           suspensions        struct hr_suspension each
 *          zero
 *     4092  CRC-32C            4   of bytes 0..4091
 *
 * All values from a disk are checked. A page that is not valid is ignored.
 */
#ifndef BOOT_APPLIANCE_SCHEDULE_STARTS_H
#define BOOT_APPLIANCE_SCHEDULE_STARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/store/store.h"
#include "config/config.h"

struct hr_engine;

#define HR_STARTS_OBJECT "headrace.starts"

enum hr_start_outcome {
	HR_START_NONE,	  /* never started */
	HR_START_RUNNING, /* started; on a disk: interrupted by a crash or a power cut */
	HR_START_DONE,
	HR_START_FAILED,
	HR_START_INTERRUPTED, /* by a clean stop */
	HR_START_OUTCOMES,
};

enum {
	HR_START_DUE = 1,	/* an event or a missed time has not been served */
	HR_START_PAUSED = 2,	/* by request */
	HR_START_REQUESTED = 4, /* the start that is due or runs was requested */
	HR_START_RETRY = 8,	/* due because of a failure or an interruption */
	HR_START_FLAGS = 15,
};

/* Times: nanoseconds since 1970; 0: never, or the clock was not set. Words of 8 bytes only. */
struct hr_start {
	char name[HR_NAME_MAX]; /* of the pipeline; "": none */
	uint64_t planned_ns;	/* the time for which the last start by time was planned */
	uint64_t started_ns, ended_ns;
	uint64_t starts, done, failures, skipped; /* numbers since the first start */
	uint64_t failures_in_row;
	uint64_t outcome; /* enum hr_start_outcome, of the last start */
	int64_t error;	  /* of the last start: an NVMe status or -errno; 0 unless it failed */
	uint64_t version; /* id of the object of `on` that the last start used */
	uint64_t flags;
	uint64_t rule; /* hash of the keys that say when the pipeline starts */
};

/*
 * Engines that have died in the runs of a pipeline. Zero in the pages of earlier versions, which did
 * not have it.
 */
struct hr_suspension {
	uint64_t deaths;   /* in a row; 0: all else is 0 */
	uint64_t until_ns; /* no start before; as the times above; 0: the clock was not set */
};

struct hr_starts {
	uint64_t sequence; /* of the newest page; 0: never written */
	struct hr_start start[HR_PIPELINES_MAX];
	struct hr_suspension suspension[HR_PIPELINES_MAX]; /* by index in `start` */
};

/*
 * Read the newest valid page of one store. -ENOENT: there is none. -EEXIST: the object of that name
 * was not made for the starts. Or an error of the disk.
 */
int hr_starts_load(struct hr_store *store, struct hr_starts *starts, struct hr_error *e);

/*
 * Write the next page; starts->sequence is increased. Makes the object when it does not exist. 0;
 * -EEXIST as above; or an error of the store or the disk. *e has the reason.
 */
int hr_starts_save(struct hr_store *store, struct hr_starts *starts, struct hr_error *e);

/* The same for an appliance whose stores are open: load takes the newest of all ssds, save takes the
 * first ssd with a writable store; -ENODEV: there is none. */
int hr_starts_read(struct hr_engine *engine, struct hr_starts *starts, struct hr_error *e);
int hr_starts_write(struct hr_engine *engine, struct hr_starts *starts, struct hr_error *e);

/* A page as it is on a disk. */
void hr_starts_put(const struct hr_starts *starts, uint8_t page[HR_PAGE]);

/* Take a page from a disk. False: it is not valid; *starts has not changed. */
bool hr_starts_get(struct hr_starts *starts, const uint8_t page[HR_PAGE]);

/*
 * Name of a member with a value that hr_starts_write() never writes; NULL: all values are possible.
 */
const char *hr_starts_check(const struct hr_starts *starts);

#endif
