/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/client/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void hr_tap_session_free(struct hr_tap_session *s, bool forked)
{
	if (!s)
		return;
	hr_tap_mapping_close(&s->map, forked);
	free(s);
}

int hr_tap_session_open(struct hr_tap_session **opened, const struct hr_tap_message *m,
			const int fds[HR_TAP_FDS], int gpu, char *why, size_t why_bytes)
{
	struct hr_tap_session *s = calloc(1, sizeof *s);
	int err;

	if (!s) {
		snprintf(why, why_bytes, "the tiles cannot be mapped");
		return -ENOMEM;
	}
	err = hr_tap_mapping_open(&s->map, m, fds, false, gpu, why, why_bytes);
	if (err) {
		hr_tap_session_free(s, false);
		return err;
	}
	s->epoch = m->epoch;
	s->head = s->map.head;
	s->page = s->map.page;
	s->gen = (uint32_t *)(void *)(s->page + 1);
	*opened = s;
	return 0;
}

static bool take(struct hr_tap_session *s, struct hr_tap_tile *tile)
{
	const struct hr_tap_entry *e = &s->map.entry[s->next % s->map.ring];
	struct hr_tap_entry copy;

	if (__atomic_load_n(&e->sequence, __ATOMIC_ACQUIRE) != s->next + 1)
		return false;
	copy = *(const volatile struct hr_tap_entry *)e;
	if (copy.check != hr_tap_entry_check(&copy, s->next + 1))
		return false;
	*tile = (struct hr_tap_tile){ .tile = copy.tile,
				      .bytes = copy.bytes,
				      .redelivered = (copy.flags & HR_TAP_REDELIVERED) != 0,
				      .lent_ns = copy.lent_ns,
				      .ready_ns = copy.ready_ns,
				      .freed_ns = copy.freed_ns,
				      .epoch = s->epoch,
				      .slot = copy.slot,
				      .gen = copy.gen };
	/* from here on the copy, because the memory is the tap's */
	if (tile->slot >= s->map.slots || tile->bytes > s->map.stride || !tile->gen ||
	    tile->gen & HR_TAP_FAILED || s->map.held[tile->slot])
		return false;
	tile->data = s->map.tiles + (size_t)tile->slot * s->map.stride;
	s->map.held[tile->slot] = tile->gen;
	s->in_hand++;
	s->next++;
	return true;
}

uint32_t hr_tap_session_take(struct hr_tap_session *s, struct hr_tap_tile *tile, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && take(s, &tile[n]))
		n++;
	return n;
}

static bool is_in_hand(const struct hr_tap_session *s, const struct hr_tap_tile *tile)
{
	return tile->slot < s->map.slots && tile->gen && s->map.held[tile->slot] == tile->gen;
}

int hr_tap_session_give_stream(struct hr_tap_session *s, const struct hr_tap_tile *tile,
			       void *stream)
{
	int err;

	if (!s->map.cuda || !is_in_hand(s, tile))
		return -EINVAL;
	err = hr_tap_cuda_write32(s->map.cuda, stream, &s->gen[tile->slot], tile->gen);
	if (err)
		return err;
	s->map.held[tile->slot] = 0;
	s->in_hand--;
	return 0;
}

int hr_tap_session_give(struct hr_tap_session *s, const struct hr_tap_tile *tile, bool failed)
{
	if (!is_in_hand(s, tile))
		return -EINVAL;
	s->map.held[tile->slot] = 0;
	s->in_hand--;
	__atomic_store_n(&s->gen[tile->slot], tile->gen | (failed ? HR_TAP_FAILED : 0),
			 __ATOMIC_RELEASE);
	return 0;
}

void hr_tap_session_arm(struct hr_tap_session *s)
{
	__atomic_store_n(&s->page->wake, s->next + 1, __ATOMIC_RELEASE);
}
