/*
 * boot/appliance/orders.h - the engine of an appliance whose pipelines repeat.
 *
 * Backends, controllers and stores come up once, and memory for all pipelines whose objects exist
 * (boot/engine/plan.h). The supervisor orders starts, and sends with each order the state of all
 * starts, which the engine makes durable before it does anything else. Starts begin as
 * boot/engine/admit.h says, also while others run. The supervisor decides, because it lives
 * longer than an engine; the engine writes, because it has the ssds.
 *
 * The engine ends by a signal, when the supervisor closes the socket, and when an ssd or a gpu has
 * failed: the next engine brings it up again. Pipelines that run then, and use other devices, end
 * first.
 */
#ifndef BOOT_APPLIANCE_ORDERS_H
#define BOOT_APPLIANCE_ORDERS_H

#include "boot/appliance/attempt.h"

enum hr_order_kind {
	HR_ORDER_SAVE, /* make `starts` durable */
	HR_ORDER_RUN,  /* the same, then start pipelines */
};

/* One message on the socket. */
struct hr_order {
	uint64_t kind;
	uint64_t number;    /* of a RUN: increases; published with the starts that it orders */
	uint64_t pipelines; /* a bit each */
	uint64_t suspects;  /* of these: the engine died during their last start */
	struct hr_starts starts;
};

/*
 * Bring the appliance up, and serve orders. Returns 0 or -EINTR after a signal; the error of
 * bring-up; or of the ssd or gpu that failed.
 */
int hr_orders_serve(struct hr_attempt *attempt);

#endif
