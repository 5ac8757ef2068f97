/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/lend/producer.h - the producer of a feed: its memory, its state, and the orders to the
 * feed role (gpu/tap/feed.h) that follow from it. For boot/appliance/lend/service.c.
 * Its states: boot/appliance/lend/peer.h. Tiles are offered to an ATTACHED producer, and the worker
 * takes what a CLOSING one has committed; none is LEAVING.
 *
 * A producer is gone when it says so (DETACH), when its connection or its process has ended (pidfd), or
 * when it breaks the protocol. What it has committed until then is kept; its other tiles are offered
 * to the next one. On the host backend each producer has memory of its own, so no time must pass before
 * the next one; on a GPU they share the tiles (boot/appliance/lend/producer.h).
 */
#ifndef BOOT_APPLIANCE_LEND_PRODUCER_H
#define BOOT_APPLIANCE_LEND_PRODUCER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boot/appliance/lend/clients.h"
#include "boot/appliance/lend/peer.h"
#include "boot/appliance/protocol/record.h"
#include "boot/engine/engine.h"
#include "boot/engine/run.h"
#include "config/base/clock.h"
#include "gpu/tap/feed.h"
#include "config/base/error.h"

/* ---- the process that has the tiles of a feed on a GPU mapped.
 *
 * A GPU maps memory only before a launch, so all producers of a feed get the same tiles, also in later
 * runs. A process that detaches keeps its mapping, and could write to the tiles of the next producer.
 * So that is the same process, or another one after the end of this one. Under MPS the server may still
 * execute work of a process that was killed: HR_FEED_QUIET_NS pass before the memory is used again.
 */

#define HR_FEED_QUIET_NS (2 * HR_NS_PER_S)
/* From the end of a connection to the end of its process: the driver takes long to free its memory. */
#define HR_FEED_DYING_NS (20 * HR_NS_PER_S)

/* All zero: no process had the memory. */
struct hr_feed_owner {
	bool known;
	bool detached; /* it has said so, and lives on */
	int pidfd;     /* -1: the kernel has none for the process */
	pid_t process;
	uint64_t left_ns;  /* when its connection ended */
	uint64_t ended_ns; /* when its process was seen to have ended; 0: not yet */
};

/* The producer with that pidfd, which the owner closes from now on, has gone. */
void hr_feed_owner_set(struct hr_feed_owner *owner, pid_t process, int pidfd, bool detached,
		       uint64_t now_ns);

/*
 * Whether that process may map the memory; quiet: work of a process that has ended may still run. 0;
 * -EAGAIN: not yet, ask again; -EBUSY: not before the owner has ended, and *e names it.
 */
int hr_feed_owner_check(struct hr_feed_owner *owner, pid_t process, bool quiet, uint64_t now_ns,
			struct hr_error *e);

/* Forget it: no producer comes any more, or the new one is known by its own connection. */
void hr_feed_owner_forget(struct hr_feed_owner *owner);

struct hr_feed_producer {
	struct hr_run *run;
	struct hr_feed_memory *memory;
	const struct hr_gpu_facts *facts; /* of the GPU that has the tiles; NULL on `host` */
	struct hr_feed_owner owner;	  /* after a producer on a GPU has gone; of all runs */
	uint64_t epoch;			  /* random, of this bring-up */
	struct hr_lend_peer peer;
	/* For the lease: when it committed the newest tile, and whether it was named since. */
	uint64_t committed, committed_ns;
	bool late;
	uint64_t leases; /* times that it was named */
	bool detached;	 /* it says that it goes */
};

/*
 * Welcome the client: map its memory, and send the descriptors. The state is FREE. On success
 * *producer owns the client's fd and pidfd (-1: none), and is GREETED. -ENOMEM, -EMFILE, -EAGAIN and
 * -EBUSY of hr_feed_owner_check(), -EBUSY of hr_sets_next(), or the error of its connection: it stays
 * FREE, and the caller keeps both.
 */
int hr_feed_producer_greet(struct hr_feed_producer *producer, const struct hr_tap_client *client,
			   int pidfd, struct hr_error *e);

/* Do what the state allows. events: one of the descriptors may be readable. */
void hr_feed_producer_step(struct hr_feed_producer *producer, bool events, uint64_t now_ns);

/* The producer as `status` reports it: true; false, and *to all 0: none is attached. */
bool hr_feed_producer_snapshot(const struct hr_feed_producer *producer,
			       struct hr_record_producer *to);

/* The run has ended, so no worker accesses the memory: tell the producer, and let it go. */
void hr_feed_producer_end(struct hr_feed_producer *producer);

#endif
