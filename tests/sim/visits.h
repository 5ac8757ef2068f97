/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/visits.h - processes beside the appliance: commands that ask it, clients that lie or
 * leave, producers and consumers.
 */
#ifndef TESTS_SIM_VISITS_H
#define TESTS_SIM_VISITS_H

#include <sys/types.h>

#include "tests/sim/objects.h"
#include "tests/sim/plan.h"

#define SIM_CLIENTS 6u
#define SIM_SOCKETS 4u

/* A command that runs beside the appliance. */
struct sim_client {
	pid_t pid; /* 0: none */
	enum sim_event_kind kind;
	unsigned object;
	unsigned least; /* SIM_GET: the oldest version that it may have */
	bool left;	/* killed by an event */
};

struct sim_visits {
	const struct sim_plan *plan;
	struct sim_objects *objects;
	struct sim_client client[SIM_CLIENTS];
	pid_t partner[SIM_PIPELINES][2]; /* producer or consumers of a pipeline; 0: none */
	int socket[SIM_SOCKETS];	 /* of clients that lie; -1: none */
};

void sim_visits_open(struct sim_visits *v, const struct sim_plan *plan,
		     struct sim_objects *objects);

/* Start the command of an event, unless as many run as there are places. */
void sim_visits_begin(struct sim_visits *v, const struct sim_event *event);
/* Collect the commands that have ended, and check what they have had; to_the_end: wait for all. */
void sim_visits_look(struct sim_visits *v, bool to_the_end);

/* A client goes before it has its reply, or a producer or consumer in the middle of its work. */
void sim_visits_leave(struct sim_visits *v, uint64_t number);
/* Bytes that are no request, or the begin of one, on a connection that stays open. */
void sim_visits_lie(struct sim_visits *v, uint64_t number);
/* Close the connections of clients that lie. */
void sim_visits_hang_up(struct sim_visits *v);

/* Producers and consumers that have gone are replaced. */
void sim_visits_keep_partners(struct sim_visits *v);
void sim_visits_kill_partner(struct sim_visits *v, unsigned pipeline, unsigned which);
void sim_visits_end_partners(struct sim_visits *v);

/* The power was cut: all are gone. */
void sim_visits_are_killed(struct sim_visits *v);

#endif
