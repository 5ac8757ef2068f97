/*
 * boot/appliance/record.h - what an engine tells of itself: how far bring-up is, what each pipeline
 * does, and in the end what became of the attempt.
 *
 * The engine publishes its record in a page that it shares with the supervisor. The supervisor takes
 * no value from the page before hr_record_check() has seen all of them: the engine may have been
 * killed while it wrote, or may have overwritten its own memory.
 */
#ifndef BOOT_APPLIANCE_RECORD_H
#define BOOT_APPLIANCE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/stages.h"

/* What an appliance does now. The engine tells the first ones, the supervisor the others. */
enum hr_phase {
	HR_PHASE_POST, /* self-test */
	HR_PHASE_BRING_UP,
	HR_PHASE_RUNNING,
	HR_PHASE_GOING_DOWN,
	HR_PHASES_OF_ENGINE,
	HR_PHASE_STARTING = HR_PHASES_OF_ENGINE,
	HR_PHASE_WAITING, /* for ssds that are absent */
	HR_PHASE_BACKOFF, /* the pause before a restart */
	HR_PHASE_STAYING, /* all is done */
	HR_PHASES,
};

/* "bring-up" and the like. */
const char *hr_phase_name(enum hr_phase phase);

/* The workers of one role, summed up. All 0: the pipeline has no such role, or is not wired. */
struct hr_record_role {
	uint64_t blocks, workers;
	uint64_t ended, failed; /* of the workers */
	uint64_t heartbeat, tiles, bytes;
};

struct hr_record_run {
	uint64_t selected; /* 0 or 1 */
	uint64_t outcome;  /* enum hr_outcome */
	uint64_t reported; /* 0 or 1: its result has been written to standard output */
	int64_t error;	   /* 0, an NVMe status, or -errno */
	uint64_t tiles, first_tile, tiles_done, durable_tiles;
	uint64_t started_ns, ended_ns; /* on the clock of config/clock.h; 0: not yet */
	uint64_t read_bytes;
	struct hr_record_role role[HR_ROLES];
};

/* Words of 8 bytes only. */
struct hr_record {
	uint64_t stage; /* enum hr_stage: the last one that is up */
	uint64_t ssd_failed[HR_SSDS_MAX];
	struct hr_record_run run[HR_PIPELINES_MAX];
	/* What became of the attempt. 0 or 1: */
	uint64_t has_run;  /* bring-up succeeded, pipelines ran */
	uint64_t finished; /* the attempt is over, and the words below count */
	uint64_t refused;  /* bring-up failed for a reason that is the same the next time */
	uint64_t stuck;	   /* a controller did not stop */
	uint64_t mute;	   /* standard output could not be written */
	uint64_t ran_ns;   /* how long pipelines ran */
	int64_t error;	   /* of the attempt: 0, an NVMe status, or -errno */
};

/* Take the stage, the ssds and the pipelines from an appliance at any time; what it does not know
 * (`reported`, and what became of the attempt) stays. */
void hr_record_take(struct hr_record *record, const struct hr_appliance *app);

/* The other way: outcome, error and counters of each pipeline, and what is known of ssds. The record
 * has passed hr_record_check(). */
void hr_record_apply(const struct hr_record *record, struct hr_appliance *app);

/*
 * Why no engine of this configuration can have published that by now_ns: the name of a word that is
 * out of its range; NULL: all are within.
 */
const char *hr_record_check(const struct hr_record *record, const struct hr_config *config,
			    uint64_t now_ns);

/* A record between two processes: one that writes, one that reads, neither waits for the other. */
struct hr_record_page {
	uint64_t sequence; /* odd while the record is being written */
	struct hr_record record;
};

void hr_record_publish(struct hr_record_page *page, const struct hr_record *record);

/* It differs from the one before when the writer has published something, or is about to. */
uint64_t hr_record_sequence(const struct hr_record_page *page);

/* True: *record is what was published last. False: nothing was, it is being written, or its writer has
 * died over it; *record is not to be used. */
bool hr_record_read(const struct hr_record_page *page, struct hr_record *record);

#endif
