/*
 * boot/appliance/lend/tap_credits.h - how many tiles each consumer of a tap may hold, when
 * several share them (deliver = "one").
 *
 * Tiles that a slow consumer holds are slots that a fast one could use. So the slots are shared out
 * anew every HR_TAP_SHARE_NS, in proportion to the tiles that each consumer has given back lately;
 * each has one credit at least. Less credits take nothing back: a consumer keeps what it holds.
 *
 * A consumer that has asked for a number of credits has that number all the time, because it may
 * need so many tiles together. One that has not asked, and waits for a tile while it holds as many
 * as it may, needs more tiles together, too: it gets one credit more in each step, up to the limit
 * of the tap.
 *
 * Pure computation, without clocks or shared memory.
 */
#ifndef BOOT_APPLIANCE_LEND_TAP_CREDITS_H
#define BOOT_APPLIANCE_LEND_TAP_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/clock.h"

#define HR_TAP_SHARE_NS (HR_NS_PER_S / 10)

struct hr_tap_share {
	/* Of the consumer; the caller sets these. */
	uint32_t most;	   /* at least 1 */
	bool asked;	   /* it has asked for that number */
	uint64_t returned; /* tiles, since it attached; increases */
	/* State; all zero at the start. */
	uint32_t credits;
	uint64_t seen; /* `returned` at the last time */
	uint64_t rate; /* tiles in HR_TAP_SHARE_NS, in units of 1/256; a moving average */
	bool rated;    /* rate is valid */
};

/* A new consumer, among `count` consumers with it: an equal share of `slots` until its rate is
 * known. */
void hr_tap_share_begin(struct hr_tap_share *share, uint32_t slots, uint32_t count);

/* Share the slots out among `count` consumers, once in HR_TAP_SHARE_NS. */
void hr_tap_share_out(struct hr_tap_share *const *share, uint32_t count, uint32_t slots);

/* The consumer waits for a tile, and holds so many. */
void hr_tap_share_hungry(struct hr_tap_share *share, uint64_t held);

#endif
