/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/plan.h - an appliance and what happens to it, drawn from a seed.
 *
 * The plan is complete before the world begins, so that a failing seed can be repeated with fewer
 * events: the first `events` of them.
 */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/harness/random.h"

#define SIM_SSDS 3u
#define SIM_PIPELINES 5u
#define SIM_OBJECTS (3 * SIM_PIPELINES)
#define SIM_EVENTS 40u
#define SIM_RULES 6u
#define SIM_NAME 16u
#define SIM_BYTES_MAX (2u << 20)

struct sim_ssd {
	unsigned lba, threads, cache_mb, timeout_ms, entries;
	unsigned mdts;	   /* a command has at most 4 KiB << mdts */
	const char *quirk; /* NULL: none */
	unsigned slow_ms;  /* each read or write takes that long; 0: no time */
	bool slow_writes;
};

enum sim_content {
	SIM_BYTES,   /* any */
	SIM_TABLE,   /* of a gather: rows of small whole numbers as f32 */
	SIM_INDICES, /* of a gather: u32, each a row of its table */
	SIM_ROWS,    /* of a gather: zeros, which its run replaces by the rows */
	SIM_FED,     /* any bytes, which a producer feeds: on no ssd */
};

struct sim_object {
	char name[SIM_NAME];
	unsigned ssd;
	enum sim_content content;
	bool is_source;	 /* the director puts it; else it is the sink of a pipeline */
	unsigned gather; /* the pipeline of the object, unless SIM_BYTES */
};

enum sim_schedule { SIM_ONCE, SIM_EVERY, SIM_AFTER, SIM_ON_OBJECT, SIM_ON_REQUEST, SIM_FOREVER };

struct sim_pipeline {
	char name[SIM_NAME];
	unsigned from, to; /* objects; to == SIM_OBJECTS: crc32c, without a sink */
	unsigned tile_kb, slots, prefetch, compute, writeback;
	enum sim_schedule schedule;
	unsigned every_ms, after; /* after: a pipeline */
	unsigned keep;		  /* 0: replace */
	bool feed;		  /* from: of a producer */
	bool tap;		  /* to == SIM_OBJECTS: tiles go to consumers */
	unsigned credits;
	bool gather; /* an access operator; from: table, to: rows */
	unsigned indices, row_bytes, table_rows, lookups, frames, io;
	const char *policy;
};

enum sim_event_kind {
	SIM_KILL_ENGINE,
	SIM_KILL_BOOT, /* the supervisor */
	SIM_STOP,      /* SIGTERM */
	SIM_CUT,       /* power */
	SIM_JUMP,      /* of the wall clock */
	SIM_STATUS,    /* and the requests of the control socket */
	SIM_TRIGGER,
	SIM_PAUSE,
	SIM_RESUME,
	SIM_RELOAD,
	SIM_PUT,     /* another content of a source */
	SIM_GET,     /* by a client */
	SIM_GARBAGE, /* a client that lies */
	SIM_LEAVE,   /* a client that goes before the reply */
	SIM_STALL,   /* of a process: it has no turn for a while */
	SIM_CHANGE,  /* of the configuration, and a reload */
	SIM_FILL,    /* an ssd, so that sinks have no room */
	SIM_EMPTY,   /* what was filled */
	SIM_EVENT_KINDS
};

struct sim_event {
	enum sim_event_kind kind;
	uint64_t after_ns; /* since the event before it */
	uint64_t number;
};

struct sim_rule {
	unsigned ssd;
	bool mild; /* no start fails by it: the command is late, repeated or completed twice */
	char text[80];
};

struct sim_plan {
	uint64_t seed;
	unsigned ssds, objects, pipelines, events, rules, gpus, workers;
	unsigned parallel, checkpoint_ms;
	bool post, repeats;
	bool pair;	     /* two appliances: tests/sim/pair.c draws the rest */
	unsigned rot;	     /* one bit of one read of so many differs; 0: of none */
	unsigned bad_writes; /* one write to an image of so many fails; 0: none */
	unsigned fragments;  /* of 256 transfers by streams, so many are cut short */
	/* The configuration that is written now: pipelines that are left out, a bit each; another
	 * shape of pipelines; a mistake in it. */
	unsigned hidden, variant;
	bool mistaken;
	struct sim_ssd ssd[SIM_SSDS];
	struct sim_object object[SIM_OBJECTS];
	struct sim_pipeline pipeline[SIM_PIPELINES];
	struct sim_event event[SIM_EVENTS];
	struct sim_rule rule[SIM_RULES];
};

/* True when no fault of ssds and images lets a start fail. */
bool sim_plan_is_mild(const struct sim_plan *plan);
/* True when neither rules nor faults of images are in the plan. */
bool sim_plan_is_clean(const struct sim_plan *plan);

void sim_plan_draw(struct sim_plan *plan, uint64_t seed);

/* The number of an object's first version, and the length of the version with that number. */
uint64_t sim_plan_number(const struct sim_plan *plan, unsigned object);
size_t sim_plan_length(const struct sim_plan *plan, unsigned object, uint64_t number);

/* The fault scripts of the ssds, and world.conf, in the current folder. faults: with the rules. */
void sim_plan_write(const struct sim_plan *plan, bool faults);

/* "soft:a.img" of an ssd, with all its options; as in the configuration. */
void sim_plan_device(const struct sim_plan *plan, unsigned ssd, char *text, size_t bytes);

const char *sim_event_name(enum sim_event_kind kind);

#endif
