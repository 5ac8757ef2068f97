/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/lend/service.h - the engine's side of the sockets of taps and feeds: consumers and
 * producers attach, detach, and end (gpu/tap/protocol.h), while pipelines hand tiles to the ones, and
 * take the tiles that the others fill.
 *
 * Both: the user of the appliance, root and the members of the group of the sink or source may attach;
 * the kernel reports the user of each connection (boot/appliance/protocol/socket.h). Clients without a
 * seat: boot/appliance/lend/clients.h. No client keeps the service from others, and none can make it
 * write to a file or memory of its own. The service runs in the thread that owns the appliance,
 * between two looks at the pipelines. It never waits, and allocates nothing on the heap.
 *
 *            a tap                                   a feed
 *   socket   is open as long as the appliance, also  is the engine's, and open while the
 *            without an engine (sockets.h): each     pipeline has a run: producers of an engine
 *            run is a session                        that has died connect to that of the next
 *   no run   clients wait for the next one, unless   there is no socket
 *            the pipeline does not run any more
 *   seats    HR_TAP_SEATS (consumer.h)               one (producer.h): other clients are refused;
 *                                                    they wait while it is CLOSING, or the process
 *                                                    before may still have the tiles
 */
#ifndef BOOT_APPLIANCE_LEND_SERVICE_H
#define BOOT_APPLIANCE_LEND_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "boot/appliance/lend/clients.h"
#include "boot/appliance/lend/consumer.h"
#include "boot/appliance/lend/producer.h"
#include "boot/appliance/lend/sockets.h"
#include "boot/appliance/protocol/record.h"
#include "boot/engine/engine.h"

enum hr_lend_port_state {
	HR_LEND_CLOSED, /* the pipeline has no tap; the feed has no run */
	HR_LEND_IDLE,	/* of a tap: no run, clients wait for the next one */
	HR_LEND_LIVE,	/* a run, which has memory: clients get a seat */
	HR_LEND_OVER,	/* of a tap: no run comes any more, clients are refused */
};

/* The tap, or the feed, of a pipeline. */
struct hr_tap_port {
	enum hr_lend_port_state state;
	struct hr_tap_clients clients;
	struct hr_tap_table table;
};

struct hr_feed_port {
	enum hr_lend_port_state state;
	struct sockaddr_un at;
	struct hr_tap_clients clients;
	struct hr_feed_producer producer;
};

/* When to look at the ports of a kind. */
struct hr_lend_look {
	uint32_t ports; /* open ones */
	int wake;	/* epoll of all descriptors of the kind; -1: there was no port yet */
	uint64_t at_ns; /* time of the last look */
};

struct hr_lend_service {
	struct hr_engine *engine;	/* the caller's; NULL: closed */
	struct hr_tap_sockets *sockets; /* the caller's */
	/* An engine of a supervisor: other engines and runs follow, so the sockets of taps stay. */
	bool supervised;
	struct hr_lend_look taps, feeds;
	/* by index of the pipeline */
	struct hr_tap_port tap[HR_PIPELINES_MAX];
	struct hr_feed_port feed[HR_PIPELINES_MAX];
};

/*
 * Serve the open ones of these sockets of taps (NULL: there are none), and open the sockets of feeds.
 * A pipeline that is selected and waits has its run from now on, when the queues are up. Does nothing
 * without taps and feeds. 0; or -EMFILE, -ENOMEM, -EADDRINUSE, -ENOKEY (no variable names the
 * directory of sockets), -errno: it is not open, as *e says.
 */
int hr_lend_service_open(struct hr_lend_service *service, struct hr_engine *engine,
			 struct hr_tap_sockets *sockets, bool supervised, struct hr_error *e);

/* The memory of a run of pipeline i is there, and its queues are up: consumers that wait get their
 * seats, and its feed a socket. Does nothing without a tap and a feed. As hr_lend_service_open(); a tap
 * is served also when the feed fails. */
int hr_lend_service_begin(struct hr_lend_service *service, uint32_t i, struct hr_error *e);

/* That run has ended, with its outcome: tell its consumers and its producer, and close the socket of
 * its feed. Its memory is still there. */
void hr_lend_service_end(struct hr_lend_service *service, uint32_t i);

/* Do what can be done now. Costs two comparisons without taps and feeds. */
void hr_lend_service_step(struct hr_lend_service *service);

/* The attached consumers, and the producers by index of the pipeline, for the status; all zero when the
 * service is closed. Neither waits nor allocates. */
void hr_lend_service_snapshot(const struct hr_lend_service *service,
			      struct hr_record_consumer consumers[HR_RECORD_CONSUMERS],
			      struct hr_record_producer producers[HR_PIPELINES_MAX]);

/* End all runs, and close all connections and the sockets of feeds. No pipeline runs. Before the
 * queues go down. Does nothing when it is closed. */
void hr_lend_service_close(struct hr_lend_service *service);

#endif
