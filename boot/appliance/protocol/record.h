/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/protocol/record.h - the record of an engine: progress of bring-up, state of
 * each pipeline, and the result of the attempt.
 *
 * The engine publishes its record in a page that it shares with the supervisor. The supervisor uses
 * no value from the page before hr_record_check() has checked all of them, because the engine may
 * have been killed during a write or may have overwritten its own memory.
 */
#ifndef BOOT_APPLIANCE_PROTOCOL_RECORD_H
#define BOOT_APPLIANCE_PROTOCOL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/runner/counters.h"
#include "boot/engine/crash.h"
#include "boot/engine/history.h"
#include "boot/appliance/schedule/starts.h"
#include "boot/engine/bringup/stages.h"
#include "nvme/smart.h"

/*
 * Present activity of an appliance. The engine sends the first ones, the supervisor sets the
 * others.
 */
enum hr_phase {
	HR_PHASE_POST, /* self-test */
	HR_PHASE_BRING_UP,
	HR_PHASE_RUNNING,
	HR_PHASE_IDLE, /* waits for the next start of a pipeline */
	HR_PHASE_GOING_DOWN,
	HR_PHASES_OF_ENGINE,
	HR_PHASE_STARTING = HR_PHASES_OF_ENGINE,
	HR_PHASE_WAITING, /* waits for absent ssds */
	HR_PHASE_BACKOFF, /* waits before a restart */
	HR_PHASE_STAYING, /* all pipelines are done */
	HR_PHASES,
};

/* "bring-up" and so on. */
const char *hr_phase_name(enum hr_phase phase);

#define HR_RECORD_TEXT 256u /* of an error's text, with its NUL; a longer one ends in "..." */

/* An error, as a struct hr_error without its later lines. */
struct hr_record_error {
	int64_t code;  /* 0, an NVMe status, or -errno */
	uint64_t kind; /* enum hr_error_kind; HR_ERROR_NONE without a code, and with -EINTR */
	char text[HR_RECORD_TEXT];
};

/* Whether a run has ended its engine. */
enum hr_blame {
	HR_BLAME_NONE,
	HR_BLAME_SUSPECT, /* it ran at the end; nothing says which run has caused it */
	HR_BLAME_CERTAIN, /* its code crashed or did not return */
	HR_BLAMES,
};

struct hr_record_run {
	uint64_t selected; /* 0 or 1 */
	uint64_t outcome;  /* enum hr_outcome */
	uint64_t reported; /* 0 or 1: its result has been written to standard output */
	/* of a pipeline that repeats: number of the dispatch that this start serves; 0: none
	 * began */
	uint64_t number;
	uint64_t over; /* 0 or 1: that start has ended, and the members above are final */
	struct hr_record_error error;
	uint64_t blame; /* enum hr_blame: how the run has ended its engine, or lost it a gpu */
	uint64_t share; /* enum hr_tap_sharing in force; 0 (auto): not known, or there is no tap */
	uint64_t started_ns, ended_ns; /* hr_now_ns(); 0: not yet */
	struct hr_counters count;      /* without durations and rates */
};

struct hr_record_ssd {
	uint64_t health; /* enum hr_health_state */
	uint64_t faults[HR_FAULTS];
	struct hr_smart smart; /* as the engine read it last */
};

/* Store requests that the engine serves at the same time. */
#define HR_RECORD_STORE_JOBS 8u

/* A store request that runs. */
struct hr_record_store_job {
	uint64_t kind;		  /* enum hr_request_kind; 0: none, and all else is 0 */
	uint64_t ssd;		  /* index in hr_config.ssd; HR_SSDS_MAX: not found yet */
	char object[HR_NAME_MAX]; /* "" when the request names none */
	/* Data that the ssd has read or written, or that were checked; and all of them. */
	uint64_t done_bytes, total_bytes;
	/* The client, as the kernel reported it when it connected. Process 0: of a PID namespace
	 * that the engine does not see. */
	uint64_t user, process;
};

struct hr_record_store {
	struct hr_record_store_job job[HR_RECORD_STORE_JOBS];
	/* Since the start of the engine: requests that have come; those of them without a place;
	 * those that have lost their place, or their client. */
	uint64_t requests, refused, dropped;
};

/* Consumers of all taps that a record has; the counters of taps count all of them. */
#define HR_RECORD_CONSUMERS 32u

struct hr_record_consumer {
	uint64_t attached; /* 0 or 1; 0: all else is 0 */
	uint64_t pipeline;
	/* As the kernel reported it. Process 0: of a PID namespace that the engine does not see,
	 * so that its end is known by its connection only. */
	uint64_t user, process;
	char name[HR_NAME_MAX]; /* as it calls itself */
	struct hr_consumer_counters count;
};

/* The producer of a feed. */
struct hr_record_producer {
	uint64_t attached;	/* 0 or 1; 0: all else is 0 */
	uint64_t user, process; /* as of a consumer */
	char name[HR_NAME_MAX]; /* as it calls itself */
	struct hr_producer_counters count;
};

/* Words of 8 bytes only. */
struct hr_record {
	uint64_t stage; /* enum hr_stage: the last stage that is up */
	struct hr_record_ssd ssd[HR_SSDS_MAX];
	struct hr_record_run run[HR_PIPELINES_MAX];
	/* Result of the attempt. The words up to `mute` are 0 or 1. */
	uint64_t has_run;  /* bring-up succeeded, pipelines ran */
	uint64_t finished; /* the attempt is over, and the words below are valid */
	uint64_t refused;  /* bring-up failed for a permanent reason */
	uint64_t mute;	   /* standard output was not writable */
	/* time in which pipelines ran; when they repeat, also the time between their starts */
	uint64_t ran_ns;
	struct hr_record_error error; /* of the attempt */
	/* Of an engine whose pipelines repeat (boot/appliance/attempt/dispatch.h). */
	uint64_t ready;	 /* 0 or 1: `starts` has been read, and dispatches are taken */
	uint64_t usable; /* a bit for each pipeline whose devices are up */
	uint64_t version[HR_PIPELINES_MAX]; /* id of the object of `on`; 0: there is none */
	struct hr_starts starts;	    /* as last read or written */
	struct hr_record_store store;
	struct hr_record_consumer consumer[HR_RECORD_CONSUMERS];
	struct hr_record_producer producer[HR_PIPELINES_MAX]; /* by index of the pipeline */
};

/*
 * Copy the stage, the ssds and the pipelines from an appliance, at any time. Members that the
 * appliance does not hold (`reported`, `number`, the result of the attempt, `store`, `consumer`,
 * `producer`) do not change, nor does a pipeline that is `over`.
 */
void hr_record_update(struct hr_record *record, const struct hr_engine *engine);

/* Copy an error, with its first line; and back, as one that has been printed. Both return code. */
int hr_record_put_error(struct hr_record_error *to, int code, const struct hr_error *e);
int hr_record_get_error(const struct hr_record_error *from, struct hr_error *e);

/*
 * Copy back: outcome, error and counters of each pipeline, and the state of ssds. The record has
 * passed hr_record_check().
 */
void hr_record_apply(const struct hr_record *record, struct hr_engine *engine);

/*
 * Name of a member whose value no engine of this configuration can have published by now_ns; NULL:
 * all values are in range.
 */
const char *hr_record_check(const struct hr_record *record, const struct hr_config *config,
			    uint64_t now_ns);

/* A record shared by one writing and one reading process; neither waits for the other. */
struct hr_record_page {
	uint64_t sequence; /* odd while the record is being written */
	struct hr_record record;
	struct hr_crash crash;	   /* of the engine that ran last */
	struct hr_history history; /* of all engines */
};

void hr_record_publish(struct hr_record_page *page, const struct hr_record *record);

/* The sequence number; it changes when the writer publishes or begins to publish. */
uint64_t hr_record_sequence(const struct hr_record_page *page);

/*
 * True: *record is the last published record. False: nothing was published, the writer is writing,
 * or it died while writing; *record is not valid.
 */
bool hr_record_read(const struct hr_record_page *page, struct hr_record *record);

#endif
