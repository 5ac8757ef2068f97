/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/attempt/dispatch.h - the engine of an appliance whose pipelines repeat.
 *
 * Backends, controllers and stores come up once, and memory for all pipelines whose objects exist
 * (boot/appliance/attempt/provision.h). A dispatch is a message of the supervisor: the starts
 * that are due, and the state of all starts, which the engine makes durable before it does
 * anything else. boot/appliance/attempt/admission.h decides when a dispatched start begins,
 * also while others run. The supervisor keeps the timetable, because it outlives each engine;
 * the engine writes the state, because it has the ssds.
 *
 * The engine ends by a signal, when the supervisor closes the socket, and when an ssd or a gpu has
 * failed: the next engine brings it up again. Pipelines that run then, and use other devices, end
 * first.
 */
#ifndef BOOT_APPLIANCE_ATTEMPT_DISPATCH_H
#define BOOT_APPLIANCE_ATTEMPT_DISPATCH_H

#include "boot/appliance/attempt/attempt.h"

enum hr_dispatch_kind {
	HR_DISPATCH_SAVE, /* make `starts` durable */
	HR_DISPATCH_RUN,  /* the same, then start pipelines */
};

/* One message on the socket. */
struct hr_dispatch {
	uint64_t kind;
	uint64_t number;    /* of a RUN: increases; published with the starts that it dispatches */
	uint64_t pipelines; /* a bit each */
	uint64_t suspects;  /* of these: the engine died during their last start */
	struct hr_starts starts;
};

/*
 * Bring the appliance up, and serve dispatches. Returns 0 or -EINTR after a signal; the error of
 * bring-up; or of the ssd or gpu that failed.
 */
int hr_dispatch_serve(struct hr_attempt *attempt);

#endif
