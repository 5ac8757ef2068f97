/*
 * boot/appliance/lend/feeds.h - the sockets of feeds: producers attach and detach
 * (gpu/tap/protocol.h), while pipelines take the tiles that they fill.
 *
 * A pipeline with a feed has a socket while it has a run: from bring-up, or the start of a
 * pipeline that repeats, to the end of the run. The engine owns it. After the death of an engine
 * the next one replaces the socket, and producers connect again. The user of the appliance, root
 * and the members of the source's group may attach; the kernel reports the user of each connection
 * (boot/appliance/protocol/socket.h). The service runs in the thread that owns the
 * appliance, between two looks at the pipelines. It never waits, and allocates nothing on the heap.
 *
 * One producer is attached at a time; another one is refused (-EBUSY). While the tiles of a producer
 * that has gone are being computed, the next one waits for its answer. Clients that are not welcomed:
 * boot/appliance/lend/clients.h.
 */
#ifndef BOOT_APPLIANCE_LEND_FEEDS_H
#define BOOT_APPLIANCE_LEND_FEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "boot/appliance/lend/producer.h"
#include "boot/appliance/lend/clients.h"
#include "boot/engine/engine.h"

struct hr_feed_port {
	bool open;
	struct sockaddr_un at;
	struct hr_tap_clients clients;
	struct hr_feed_producer producer;
};

struct hr_feed_service {
	struct hr_engine *engine; /* the caller's; NULL: closed */
	uint32_t ports;		  /* open ones */
	int wake;		  /* epoll of all descriptors; -1: there was no port yet */
	uint64_t at_ns;
	struct hr_feed_port port[HR_PIPELINES_MAX]; /* by index of the pipeline */
};

/*
 * Open a socket for each selected pipeline with a feed; the appliance is up. Does nothing without
 * feeds.
 * 0; or -EADDRINUSE, -ENOKEY (no variable names the directory of sockets), -errno: nothing is open,
 * and *e names the feed.
 */
int hr_feed_service_open(struct hr_feed_service *service, struct hr_engine *engine,
			 struct hr_error *e);

/* A run of pipeline i, whose queues are up, starts: open its socket. Does nothing without a feed. As
 * hr_feed_service_open(). */
int hr_feed_service_begin(struct hr_feed_service *service, uint32_t i, struct hr_error *e);

/* That run has ended, with its outcome: tell its producer, and close the socket. Its memory is still
 * there. */
void hr_feed_service_end(struct hr_feed_service *service, uint32_t i);

/* The producers of all feeds, by index of the pipeline. */
void hr_feed_service_snapshot(const struct hr_feed_service *service,
			      struct hr_record_producer producers[HR_PIPELINES_MAX]);

/* Do what can be done now. Costs one comparison without feeds. */
void hr_feed_service_step(struct hr_feed_service *service);

/* Tell all producers that their runs have ended, and close the sockets. No pipeline runs. Before the
 * queues go down. */
void hr_feed_service_close(struct hr_feed_service *service);

#endif
