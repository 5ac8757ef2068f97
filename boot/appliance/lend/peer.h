/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/lend/peer.h - a process that has a seat of a tap (consumer.h) or of a feed
 * (producer.h): its connection, its state, and the messages that both protocols have. What follows
 * from these for tiles, orders to the worker and counters is the owner's.
 *
 *   FREE -> GREETED (it has the descriptors) -> ATTACHED (it has sent READY)
 *   ATTACHED -> LEAVING (of a tap: its connection has ended)
 *   GREETED, ATTACHED, LEAVING -> CLOSING (the worker obeys the last order) -> FREE
 *
 * Nothing here waits, or allocates memory.
 */
#ifndef BOOT_APPLIANCE_LEND_PEER_H
#define BOOT_APPLIANCE_LEND_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/appliance/lend/clients.h"
#include "boot/appliance/protocol/socket.h"
#include "boot/engine/engine.h"
#include "boot/engine/sets.h"
#include "config/base/clock.h"
#include "config/base/error.h"
#include "gpu/tap/memory.h"

#define HR_LEND_READY_NS (30 * HR_NS_PER_S)    /* from WELCOME to READY */
#define HR_LEND_TEXT ((size_t)3 * HR_NAME_MAX) /* bytes of hr_lend_peer_text() */

enum hr_lend_state {
	HR_LEND_FREE,
	HR_LEND_GREETED,
	HR_LEND_ATTACHED,
	HR_LEND_LEAVING,
	HR_LEND_CLOSING,
};

struct hr_lend_peer {
	const struct hr_lend_kind *kind;
	const char *of; /* name of the tap or feed; the configuration's */
	enum hr_lend_state state;
	int fd;		   /* -1: the connection has ended */
	int pidfd;	   /* -1: the kernel has none for the process */
	uint64_t since_ns; /* time of the last change of the state */
	struct hr_credentials credentials;
	uint32_t credits;	/* limit of tiles that it holds */
	char name[HR_NAME_MAX]; /* as the process calls itself; printable */
	/* For TILES: the newest word `wake` of its page for which one was sent, and whether it
	 * knows that no further tile comes. */
	uint64_t woken;
	bool told_last;
};

/* A free seat. */
void hr_lend_peer_begin(struct hr_lend_peer *peer, const struct hr_lend_kind *kind, const char *of);

/* "tap 't': consumer 'name' (process 1 of user 2)"; returns text. */
const char *hr_lend_peer_text(const struct hr_lend_peer *peer, char text[HR_LEND_TEXT]);

/* The members of WELCOME that each run has. tile_bytes: of a full tile. */
void hr_lend_welcome_begin(struct hr_tap_message *welcome, const struct hr_lend_kind *kind,
			   const struct hr_run *run, uint32_t tile_bytes);

/* The tiles are a memory object of so many bytes on that GPU. */
void hr_lend_welcome_gpu(struct hr_tap_message *welcome, const struct hr_gpu_facts *facts,
			 uint64_t bytes);

/*
 * Send WELCOME with the descriptors to the client, whose seat is free. welcome->credits: the most that
 * it may have; it may ask for less. 0: the peer owns the client's fd and pidfd (-1: none), and is
 * GREETED; or -errno of the connection, also in *e: it stays free, and the caller keeps both.
 */
int hr_lend_peer_welcome(struct hr_lend_peer *peer, const struct hr_tap_client *client, int pidfd,
			 struct hr_tap_message *welcome, const int fds[HR_TAP_FDS],
			 struct hr_error *e);

void hr_lend_peer_set_state(struct hr_lend_peer *peer, enum hr_lend_state state);

/* now_ns - since_ns; 0 when that is newer than the look at the clock. */
uint64_t hr_lend_age_ns(uint64_t since_ns, uint64_t now_ns);

/* It has not mapped the tiles in time. */
bool hr_lend_peer_is_late(const struct hr_lend_peer *peer, uint64_t now_ns);

/* The kernel says that its process has ended. */
bool hr_lend_peer_has_ended(const struct hr_lend_peer *peer);

/* What a GREETED or ATTACHED process has sent. */
enum hr_lend_heard {
	HR_LEND_NOTHING,
	HR_LEND_END,   /* the connection has ended */
	HR_LEND_READY, /* in GREETED only */
	HR_LEND_DETACH,
	HR_LEND_WRONG, /* what the protocol does not have here */
};

/* Take its next message. */
enum hr_lend_heard hr_lend_peer_hear(const struct hr_lend_peer *peer);

/* Send REVOKED, and log a warning: it breaks the protocol. */
void hr_lend_peer_revoke(const struct hr_lend_peer *peer, const char *why);

/* Send TILES when the entry `wanted`, a word of its page (0: none), is among the `given` ones, or when
 * no further one comes (is_last). The word is untrusted: a wrong one only brings its owner a message
 * more, or one less, at each step. */
void hr_lend_peer_wake(struct hr_lend_peer *peer, uint64_t wanted, uint64_t given, bool is_last);

/* Send END: the run has ended, with its outcome. tiles, again: as in the message. */
void hr_lend_peer_end(const struct hr_lend_peer *peer, const struct hr_run *run, uint64_t tiles,
		      bool again);

/* End the connection: at once, also when a forked child of this process has a copy of it. */
void hr_lend_peer_hang_up(struct hr_lend_peer *peer);

/* Close the descriptor of its process. */
void hr_lend_peer_forget_process(struct hr_lend_peer *peer);

/* ---- orders to the worker: words that host and worker share (gpu/tap/role.h, gpu/tap/feed.h) */

/* Order `what`, one of the four of the role; *order: the newest one, and their number. */
void hr_lend_order(uint32_t *order, uint32_t what);

/* The worker has carried out the newest order, so its words are those of this process. */
bool hr_lend_is_obeyed(const uint32_t *order, const uint32_t *obeyed);

/* The worker does not access the memory of the process any more: it has obeyed, or the run has not
 * begun, or has ended. The runner starts and ends runs in this thread. */
bool hr_lend_is_closed(const struct hr_run *run, const uint32_t *order, const uint32_t *obeyed);

/*
 * ---- the descriptors of WELCOME (gpu/tap/protocol.h): memory objects that are made for one consumer
 * or producer, on the host backend, or sets of the bring-up, on a GPU (boot/engine/sets.h).
 */

struct hr_lend_object {
	const char *name; /* for the kernel's lists of mappings */
	void *at;	  /* reserved addresses */
	uint64_t bytes;	  /* whole pages */
	enum hr_tap_memory_use use;
};

/* Make and map all of them: an earlier client may still have its own mapped. 0, and the caller owns
 * fds[count]; or an error of hr_tap_memory_create(): none is there. */
int hr_lend_memory_make(const struct hr_lend_object *object, unsigned count, int *fds,
			struct hr_error *e);

/* Unmap them; their addresses stay reserved. No worker accesses them. */
void hr_lend_memory_drop(const struct hr_lend_object *object, unsigned count);

/* The client has got the descriptors (sent), or not. sets: these are of the next set, which is spent
 * then; NULL: of hr_lend_memory_make(), and they are closed. */
void hr_lend_memory_sent(struct hr_sets *sets, const int *fds, unsigned count, bool sent);

#endif
