/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/life.h - the life of one appliance, by its plan, and what must hold in it: life.c has its
 * starts and the events, peace.c the work that it must then do, checks.c what disks and messages say.
 */
#ifndef TESTS_SIM_LIFE_H
#define TESTS_SIM_LIFE_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/base/clock.h"
#include "tests/sim/objects.h"
#include "tests/sim/plan.h"
#include "tests/sim/visits.h"

#define SIM_LOOK_NS (20 * HR_NS_PER_MS)
/* Longest time in which an appliance that is left alone has done its work, or has stopped. */
#define SIM_PEACE_NS (3600 * HR_NS_PER_S)

struct sim_life {
	struct sim_plan *plan;
	struct sim_objects *objects;
	pid_t boot;	/* 0: the appliance is off */
	bool killed;	/* by an event */
	bool asked;	/* to stop */
	bool disturbed; /* an engine was killed, or rules of the fault scripts are not mild */
	bool calm;	/* it was never disturbed before peace */
	bool done;	/* boot has ended with 0 by itself */
	bool changed;	/* another configuration was in force */
	bool filled;	/* an ssd has no room for sinks */
	unsigned lives;
	struct sim_visits visits;
};

/* The director of a world (tests/sim/schedule.h); argument: a struct sim_plan. Sets sim_result. */
int sim_live(void *argument);

/* ---- the appliance */

void sim_switch_on(struct sim_life *l);
/* Note its end, when it has ended. */
void sim_look_at_boot(struct sim_life *l);
void sim_await_end(struct sim_life *l);
void sim_switch_off(struct sim_life *l);

/* ---- peace.c: no events and no faults */

void sim_live_in_peace(struct sim_life *l);
/* The same appliance goes on after all that has happened. */
void sim_go_on(struct sim_life *l);

/* ---- checks.c */

/* Get an object into the file `got`: the exit code. */
int sim_get(struct sim_life *l, unsigned object);
/* The version that an object has. */
unsigned sim_fetch(struct sim_life *l, unsigned object);
/* An appliance that has ended by itself, without a failure, has made all sinks. */
void sim_check_sinks(struct sim_life *l);
/* All disks that no process uses. */
void sim_check_disks(struct sim_life *l);

/* Whether a message of this world has that part. */
bool sim_is_told(const char *part);
/* At the end: messages, stores, objects, and what a disk does with bits that have changed. */
void sim_check_all(struct sim_life *l);

#endif
