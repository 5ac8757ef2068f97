/*
 * boot/appliance/feed_service.h - the sockets of feeds: producers attach and detach
 * (gpu/tap/feed_protocol.h), while pipelines take the tiles that they fill.
 *
 * Each selected pipeline with a feed has a socket from bring-up to the end of its run. The user of
 * the appliance, root and the members of the source's group may attach; the kernel reports the
 * user of each connection (boot/appliance/credentials.h). The service runs in the thread that owns
 * the appliance, between two looks at the pipelines. It never waits, and allocates nothing on the
 * heap.
 *
 * One producer is attached at a time; another one is refused (-EBUSY). While the tiles of a producer
 * that has gone are being computed, the next one waits for its answer.
 *
 * Hostile processes: a message that is not one of the protocol ends the connection. Clients that
 * are not welcomed take fixed entries; a new client replaces the oldest.
 */
#ifndef BOOT_APPLIANCE_FEED_SERVICE_H
#define BOOT_APPLIANCE_FEED_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "boot/appliance/credentials.h"
#include "boot/appliance/feed_producer.h"
#include "boot/engine/appliance.h"
#include "config/clock.h"

#define HR_FEED_CLIENTS 16u		    /* of a feed, without WELCOME */
#define HR_FEED_HELLO_NS (10 * HR_NS_PER_S) /* from the connection to HELLO */
#define HR_FEED_STEP_NS (HR_NS_PER_MS / 2)  /* between two looks at the sockets */

struct hr_feed_client {
	int fd; /* -1: free */
	uint64_t since_ns;
	struct hr_credentials peer;
	bool waits; /* for the end of the producer before it; then `hello` is valid */
	struct hr_tap_message hello;
};

struct hr_feed_port {
	bool open;
	int fd; /* the socket */
	struct sockaddr_un at;
	struct hr_config_control users; /* which users may attach */
	struct hr_feed_client client[HR_FEED_CLIENTS];
	struct hr_feed_producer producer;
};

struct hr_feed_service {
	uint32_t ports;
	int wake; /* epoll of all descriptors */
	uint64_t at_ns;
	struct hr_feed_port port[HR_PIPELINES_MAX];
};

/*
 * Open a socket for each selected pipeline with a feed; the appliance is up. Does nothing without
 * feeds.
 * 0; or -EADDRINUSE, -ENOKEY (no variable names the directory of sockets), -errno: nothing is open,
 * and *e names the feed.
 */
int hr_feed_service_open(struct hr_feed_service *service, struct hr_appliance *app,
			 struct hr_error *e);

/* Do what can be done now. Costs one comparison without feeds. */
void hr_feed_service_step(struct hr_feed_service *service);

/* Tell all producers that their runs have ended, and close the sockets. No pipeline runs. Before the
 * queues go down. */
void hr_feed_service_close(struct hr_feed_service *service);

#endif
