/*
 * boot/appliance/tap_service.h - the sockets of taps: consumers attach, detach, and end
 * (gpu/tap/protocol.h), while pipelines hand tiles to them.
 *
 * Each selected pipeline with a tap has a socket from bring-up to the end of its run. The user of the
 * appliance, root and the members of the sink's group may attach; the kernel reports the user of each
 * connection (boot/appliance/credentials.h). The service runs in the thread that owns the appliance,
 * between two looks at the pipelines. It never waits, and allocates nothing.
 *
 * The states of a consumer: boot/appliance/tap_consumer.h.
 *
 * Hostile consumers: a message that is not one of the protocol ends the connection. Clients that have
 * not sent HELLO take fixed entries; a new client replaces the oldest. No client keeps the service from
 * others, and none can make it write to a file or memory of its own.
 */
#ifndef BOOT_APPLIANCE_TAP_SERVICE_H
#define BOOT_APPLIANCE_TAP_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "boot/appliance/credentials.h"
#include "boot/appliance/tap_consumer.h"
#include "boot/engine/appliance.h"
#include "config/clock.h"

#define HR_TAP_CLIENTS 16u		   /* of a tap, without HELLO */
#define HR_TAP_HELLO_NS (10 * HR_NS_PER_S) /* from the connection to HELLO */
#define HR_TAP_STEP_NS (HR_NS_PER_MS / 2)  /* between two looks at the sockets */

struct hr_tap_client {
	int fd; /* -1: free */
	uint64_t since_ns;
	struct hr_credentials peer;
};

struct hr_tap_port {
	bool open;
	int fd; /* the socket */
	struct sockaddr_un at;
	struct hr_config_control users; /* which users may attach */
	struct hr_tap_client client[HR_TAP_CLIENTS];
	struct hr_tap_table table;
};

struct hr_tap_service {
	struct hr_appliance *app; /* the caller's */
	uint32_t ports;
	int wake; /* epoll of all descriptors */
	uint64_t at_ns;
	struct hr_tap_port port[HR_PIPELINES_MAX];
};

/*
 * Open a socket for each selected pipeline with a tap; the appliance is up. Does nothing without taps.
 * 0; or -EADDRINUSE, -ENOKEY (no variable names the directory of sockets), -errno: nothing is open,
 * and *e names the tap.
 */
int hr_tap_service_open(struct hr_tap_service *service, struct hr_appliance *app,
			struct hr_error *e);

/* Do what can be done now. Costs one comparison without taps. */
void hr_tap_service_step(struct hr_tap_service *service);

/* Tell all consumers that their runs have ended, and close the sockets. No pipeline runs. Before the
 * queues go down. */
void hr_tap_service_close(struct hr_tap_service *service);

#endif
