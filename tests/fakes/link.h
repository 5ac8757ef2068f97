/*
 * tests/fakes/link.h - links (gpu/remote/link.h) without a network: the test says what happens on a
 * link, and looks at what its owner has done. One link at a time.
 *
 * Linked before libheadrace.a, so the tested code calls these definitions. All functions may be called
 * by another thread than that of the link.
 */
#ifndef TESTS_FAKES_LINK_H
#define TESTS_FAKES_LINK_H

#include "gpu/remote/link.h"

#define FAKE_LINK_MOVES 256u

struct fake_link_move {
	uint32_t slot, bytes;
	uint64_t tile;
};

/* What the owner has done. */
struct fake_link_seen {
	unsigned opens, closes, steps;
	struct hr_link_setup setup; /* of the last open; its strings are the owner's */
	char name[64], address[64];
	struct fake_link_move offer[FAKE_LINK_MOVES], send[FAKE_LINK_MOVES]; /* that succeeded */
	unsigned offers, sends;
	unsigned tries; /* of hr_link_send() */
	bool ended;
	uint64_t end_tiles, end_bytes;
	uint64_t durable;
	bool finished;
	unsigned finish_steps; /* steps before hr_link_finish() */
	int code;
	char text[512];
};

enum fake_link_call { FAKE_LINK_OPEN, FAKE_LINK_OFFER, FAKE_LINK_SEND, FAKE_LINK_CALLS };

/* Forget all: no link is open. */
void fake_link_reset(void);

/* From now on the call has this result, and does nothing; 0: it works again. */
void fake_link_fail(enum fake_link_call call, int err);

/* The next event of the link. HR_LINK_FAILED: `code` is an enum hr_error_kind, with its text. Text
 * must be constant. */
void fake_link_say(struct hr_link_event event);

/* True when the owner has taken all events, and made a step after the last one. */
bool fake_link_is_quiet(void);

/* The counters of the link from now on; those of a reset are the tiles that were sent, and a
 * connection. */
void fake_link_count(struct hr_link_counters count);

/* Whether hr_link_ended() is true after hr_link_finish(), as it is after a reset. */
void fake_link_ends(bool ends);

struct fake_link_seen fake_link_look(void);

#endif
