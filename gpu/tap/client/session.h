/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/client/session.h - the memory of one run of a tap, as a consumer has it mapped. For
 * gpu/tap/client/tap.c.
 *
 * A session is kept as long as the consumer has a tile of it, also when the engine has ended and
 * the consumer is attached to the next one. Its content is written by the tap, and is checked.
 */
#ifndef GPU_TAP_CLIENT_SESSION_H
#define GPU_TAP_CLIENT_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/tap/client/mapping.h"
#include "gpu/tap/client/tap.h"
#include "gpu/tap/protocol.h"

struct hr_tap_session {
	struct hr_tap_session *older; /* of the list of the consumer */
	uint64_t epoch;
	struct hr_tap_mapping map;
	const struct hr_tap_head *head;
	struct hr_tap_returns *page;
	uint32_t *gen; /* [slots], in the page */
	uint32_t in_hand;
	uint64_t next; /* number of the next entry */
};

/* Map what came with WELCOME, as hr_tap_mapping_open() for a consumer; the caller frees *opened. */
int hr_tap_session_open(struct hr_tap_session **opened, const struct hr_tap_message *welcome,
			const int fds[HR_TAP_FDS], int gpu, char *why, size_t why_bytes);

/* NULL: does nothing. forked: this is a child of the process that has opened it. */
void hr_tap_session_free(struct hr_tap_session *session, bool forked);

/* Take up to `max` valid entries; returns their number. An entry of another slot than the memory
 * has, or of a slot that is in hand, is not valid. */
uint32_t hr_tap_session_take(struct hr_tap_session *session, struct hr_tap_tile *tile,
			     uint32_t max);

/* Give a tile in hand back. -EINVAL: it is not in hand. */
int hr_tap_session_give(struct hr_tap_session *session, const struct hr_tap_tile *tile,
			bool failed);

/* Give a tile on a GPU back after the work of a stream. -EINVAL: it is not in hand, or not on a GPU;
 * -EIO. */
int hr_tap_session_give_stream(struct hr_tap_session *session, const struct hr_tap_tile *tile,
			       void *stream);

/* No further tile comes. Read this before hr_tap_session_take(), which then gets the last ones. */
static inline bool hr_tap_session_last(const struct hr_tap_session *session)
{
	return __atomic_load_n(&session->head->last, __ATOMIC_ACQUIRE) != 0;
}

/* Ask for a message when the next entry is valid; it comes also when that is valid already. */
void hr_tap_session_arm(struct hr_tap_session *session);

/* Tell the tap whether this process waits for a tile. */
static inline void hr_tap_session_waits(struct hr_tap_session *session, bool waits)
{
	__atomic_store_n(&session->page->waits, waits, __ATOMIC_RELAXED);
}

#endif
