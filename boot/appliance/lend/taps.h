/*
 * boot/appliance/lend/taps.h - the engine's side of the sockets of taps: consumers attach,
 * detach, and end (gpu/tap/protocol.h), while pipelines hand tiles to them.
 *
 * The sockets are open as long as the appliance (boot/appliance/lend/sockets.h), and each run of a
 * pipeline is one session of its tap: consumers that come before it wait for it, unless the
 * pipeline does not run any more. The user of the appliance, root and the members of the sink's
 * group may attach; the kernel reports the user of each connection
 * (boot/appliance/protocol/socket.h). The service runs in the thread that owns the
 * appliance, between two looks at the pipelines. It never waits, and allocates nothing.
 *
 * The states of a consumer: boot/appliance/lend/consumer.h.
 *
 * Clients without a seat: boot/appliance/lend/clients.h. No client keeps the service from others,
 * and none can make it write to a file or memory of its own.
 */
#ifndef BOOT_APPLIANCE_LEND_TAPS_H
#define BOOT_APPLIANCE_LEND_TAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/appliance/protocol/record.h"
#include "boot/appliance/lend/clients.h"
#include "boot/appliance/lend/consumer.h"
#include "boot/appliance/lend/sockets.h"
#include "boot/engine/engine.h"

enum hr_tap_port_state {
	HR_TAP_CLOSED, /* the pipeline has no tap */
	HR_TAP_IDLE,   /* no run: clients wait for the next one */
	HR_TAP_LIVE,   /* a run, which has memory: clients get a seat */
	HR_TAP_OVER,   /* no run comes any more: clients are refused */
};

/* The tap of a pipeline. */
struct hr_tap_port {
	enum hr_tap_port_state state;
	struct hr_tap_clients clients;
	struct hr_tap_table table;
};

struct hr_tap_service {
	struct hr_engine *engine;	/* the caller's; NULL: closed */
	struct hr_tap_sockets *sockets; /* the caller's */
	/* An engine of a supervisor: other engines and runs follow, so the sockets stay. */
	bool supervised;
	int wake; /* epoll of all descriptors; -1: there is no tap */
	uint64_t at_ns;
	struct hr_tap_port port[HR_PIPELINES_MAX]; /* by index of the pipeline */
};

/*
 * Serve the open ones of these sockets (NULL: there are none). A pipeline that is selected and
 * waits has its run from now on, when the queues are up. Does nothing without taps. 0; or -EMFILE,
 * -ENOMEM, -errno: it is not open, as *e says.
 */
int hr_tap_service_open(struct hr_tap_service *service, struct hr_engine *engine,
			struct hr_tap_sockets *sockets, bool supervised, struct hr_error *e);

/* The memory of a run of pipeline i is there: consumers that wait get their seats. Does nothing
 * without a tap. -errno: no random numbers, as *e says. */
int hr_tap_service_begin(struct hr_tap_service *service, uint32_t i, struct hr_error *e);

/* That run has ended, with its outcome: tell its consumers. Its memory is still there. */
void hr_tap_service_end(struct hr_tap_service *service, uint32_t i);

/* Do what can be done now. Costs one comparison without taps. */
void hr_tap_service_step(struct hr_tap_service *service);

/* The attached consumers, for the status; all zero when the service is closed. Neither waits nor
 * allocates. */
void hr_tap_service_snapshot(const struct hr_tap_service *service,
			     struct hr_record_consumer consumers[HR_RECORD_CONSUMERS]);

/* End all runs, and close all connections. No pipeline runs. Before the queues go down. */
void hr_tap_service_close(struct hr_tap_service *service);

#endif
