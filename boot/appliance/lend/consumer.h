/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/lend/consumer.h - the consumers of a tap: their memory, their state, and the orders
 * to the tap role (gpu/tap/role.h) that follow from it. For boot/appliance/lend/service.c. Its states:
 * boot/appliance/lend/peer.h. An ATTACHED consumer gets tiles, a LEAVING one no further tile, and the
 * worker takes those of a CLOSING one back.
 *
 * What a consumer holds is used again when it says so (DETACH), when its process has ended (pidfd),
 * or HR_TAP_QUARANTINE_NS after its connection has ended: its process is alive then, and has no
 * right to the tiles any more. Its tiles go to another consumer, or with deliver = "each" only to
 * those that have them already.
 */
#ifndef BOOT_APPLIANCE_LEND_CONSUMER_H
#define BOOT_APPLIANCE_LEND_CONSUMER_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/appliance/lend/clients.h"
#include "boot/appliance/lend/peer.h"
#include "boot/appliance/protocol/record.h"
#include "boot/engine/engine.h"
#include "config/base/clock.h"
#include "gpu/tap/role.h"

/* ---- how many tiles each consumer of a tap may hold, when
 * several share them (deliver = "one").
 *
 * Tiles that a slow consumer holds are slots that a fast one could use. So the slots are shared out
 * anew every HR_TAP_ALLOT_NS, in proportion to the tiles that each consumer has given back lately;
 * each has one credit at least. Less credits take nothing back: a consumer keeps what it holds.
 *
 * A consumer that has asked for a number of credits has that number all the time, because it may
 * need so many tiles together. One that has not asked, and waits for a tile while it holds as many
 * as it may, needs more tiles together, too: it gets one credit more in each step, up to the limit
 * of the tap.
 *
 * Pure computation, without clocks or shared memory.
 */

#define HR_TAP_ALLOT_NS (HR_NS_PER_S / 10)

struct hr_tap_allotment {
	/* Of the consumer; the caller sets these. */
	uint32_t most;	   /* at least 1 */
	bool asked;	   /* it has asked for that number */
	uint64_t returned; /* tiles, since it attached; increases */
	/* State; all zero at the start. */
	uint32_t credits;
	uint64_t seen; /* `returned` at the last time */
	uint64_t rate; /* tiles in HR_TAP_ALLOT_NS, in units of 1/256; a moving average */
	bool rated;    /* rate is valid */
};

/* A new consumer, among `count` consumers with it: an equal share of `slots` until its rate is
 * known. */
void hr_tap_allot_begin(struct hr_tap_allotment *share, uint32_t slots, uint32_t count);

/* Share the slots out among `count` consumers, once in HR_TAP_ALLOT_NS. */
void hr_tap_allot(struct hr_tap_allotment *const *share, uint32_t count, uint32_t slots);

/* The consumer waits for a tile, and holds so many. */
void hr_tap_allot_more(struct hr_tap_allotment *share, uint64_t held);
#define HR_TAP_QUARANTINE_NS (2 * HR_NS_PER_S) /* from the end of the connection */

struct hr_tap_consumer {
	struct hr_lend_peer peer;
	struct hr_tap_allotment share; /* of the slots: its credits now */
	/* For the lease: the number of tiles that it has held longer, and the newest of these. */
	uint64_t late, late_tile;
};

/* The consumers of the tap of one run. */
struct hr_tap_table {
	struct hr_engine *engine; /* and the index of the pipeline in it */
	uint32_t pipeline;
	struct hr_run *run;
	const struct hr_gpu_facts *facts; /* of the GPU that has the tiles; NULL: host memory */
	uint64_t epoch;
	uint64_t shared_ns; /* time at which the slots were shared out */
	uint64_t failed; /* tiles that were dropped because consumers failed, and are in the log */
	struct hr_tap_consumer consumer[HR_TAP_SEATS];
};

/* Before the first consumer: all seats are free. */
void hr_tap_consumers_begin(struct hr_tap_table *table);

/* A free seat; -EBUSY: all are in use. */
int hr_tap_consumer_seat(const struct hr_tap_table *table);

/*
 * Give the seat to the client: map its memory, and send WELCOME. On success the table owns the
 * client's fd and pidfd (-1: none); the consumer is GREETED. -ENOMEM, -EMFILE, -EBUSY
 * (hr_sets_next()), or the error of its connection: the seat stays free, and the caller keeps both.
 */
int hr_tap_consumer_greet(struct hr_tap_table *table, uint32_t seat,
			  const struct hr_tap_client *client, int pidfd, struct hr_error *e);

/* Do what the state of the seat allows. events: one of the descriptors may be readable. */
void hr_tap_consumer_step(struct hr_tap_table *table, uint32_t seat, bool events, uint64_t now_ns);

/* Give each consumer its credits, when deliver is "one": a share of the slots by its rate. */
void hr_tap_consumers_allot(struct hr_tap_table *table, uint64_t now_ns);

/* Copy the consumer of the seat, and return true, when it is attached. */
bool hr_tap_consumer_snapshot(const struct hr_tap_table *table, uint32_t seat,
			      struct hr_record_consumer *to);

/* The run has ended, so no worker accesses the seats: tell all consumers, and free the seats.
 * again: the appliance makes another run when this one has failed. */
void hr_tap_consumers_end(struct hr_tap_table *table, bool again);

#endif
