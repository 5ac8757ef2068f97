/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the path between the controller and the memory of a GPU, or a BAR: the quirks peer-*. A
 * transfer to or from such memory passes through a copy, in which its data change. A root complex
 * that drops or aborts accesses of peers reports no error, so each command completes with success.
 */
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "nvme/soft/internal.h"

#define LATE_NS (50 * HR_NS_PER_MS)
#define DROP_EVERY 4u /* pages */
#define DROP_PAGE 1u
#define STRAY_BYTES 64u

/* Data that arrive after the completion of their command. */
struct soft_late {
	struct soft_late *next;
	uint64_t due_ns;
	unsigned pieces;
	struct iovec *vec;
	uint8_t *data;
};

bool soft_is_faulty_peer(const struct soft *soft, const struct soft_sq *sq)
{
	return sq->hint->peer && (soft->options.quirks & SOFT_PEER_QUIRKS);
}

static void swap_pages(uint8_t *data, uint64_t bytes)
{
	uint8_t first[HR_PAGE];

	if (bytes < 2 * HR_PAGE)
		return;
	memcpy(first, data, HR_PAGE);
	memcpy(data, data + HR_PAGE, HR_PAGE);
	memcpy(data + HR_PAGE, first, HR_PAGE);
}

static bool is_dropped(uint64_t page)
{
	return page % DROP_EVERY == DROP_PAGE;
}

static void scatter(const struct iovec *vec, unsigned pieces, const uint8_t *data)
{
	for (unsigned i = 0; i < pieces; i++) {
		memcpy(vec[i].iov_base, data, vec[i].iov_len);
		data += vec[i].iov_len;
	}
}

/* Overwrite the memory behind the last piece, as far as a window has any. */
static void stray(const struct soft *soft, const struct iovec *last)
{
	uint8_t *end = (uint8_t *)last->iov_base + last->iov_len;

	for (uint32_t i = 0; i < HR_SOFT_WINDOWS; i++) {
		const struct soft_window *w = &soft->window[i];

		if (w->bytes && end >= w->cpu && end + STRAY_BYTES <= w->cpu + w->bytes)
			memset(end, 0xa5, STRAY_BYTES);
	}
}

/* Let the data arrive later; at once when memory is short. */
static void delay(struct soft_poller *p, const struct iovec *vec, unsigned pieces,
		  const uint8_t *data, uint64_t bytes)
{
	struct soft_late **last = &p->late;
	struct soft_late *late = malloc(sizeof(*late) + pieces * sizeof(*vec) + bytes);

	if (!late) {
		scatter(vec, pieces, data);
		return;
	}
	late->next = NULL;
	late->due_ns = hr_now_ns() + LATE_NS;
	late->pieces = pieces;
	late->vec = (struct iovec *)(late + 1);
	late->data = (uint8_t *)(late->vec + pieces);
	memcpy(late->vec, vec, pieces * sizeof(*vec));
	memcpy(late->data, data, bytes);
	while (*last)
		last = &(*last)->next;
	*last = late;
}

void soft_peer_deliver(struct soft_poller *p)
{
	while (p->late && p->late->due_ns <= hr_now_ns()) {
		struct soft_late *late = p->late;

		scatter(late->vec, late->pieces, late->data);
		p->late = late->next;
		free(late);
	}
}

void soft_peer_forget(struct soft *soft)
{
	for (uint32_t i = 0; soft->poller && i < soft->threads; i++) {
		struct soft_poller *p = &soft->poller[i];

		while (p->late) {
			struct soft_late *late = p->late;

			p->late = late->next;
			free(late);
		}
		free(p->before);
		p->before = NULL;
		p->before_bytes = 0;
	}
}

void soft_peer_write(struct soft_poller *p, uint8_t *data, uint64_t bytes, unsigned pieces)
{
	const struct soft *soft = p->soft;

	if (soft_has_quirk(soft, HR_SOFT_PEER_ONES))
		memset(data, 0xff, bytes);
	if (soft_has_quirk(soft, HR_SOFT_PEER_SWAP))
		swap_pages(data, bytes);
	if (soft_has_quirk(soft, HR_SOFT_PEER_DROP)) /* the memory keeps its data */
		for (unsigned i = 0, at = 0; i < pieces; at += (unsigned)p->vec[i++].iov_len)
			for (size_t in = 0; in < p->vec[i].iov_len; in += HR_PAGE)
				if (is_dropped((at + in) / HR_PAGE))
					memcpy(data + at + in, (uint8_t *)p->vec[i].iov_base + in,
					       bytes - at - in < HR_PAGE ? bytes - at - in
									 : HR_PAGE);
	if (soft_has_quirk(soft, HR_SOFT_PEER_STRAY))
		stray(soft, &p->vec[pieces - 1]);
	if (soft_has_quirk(soft, HR_SOFT_PEER_LATE))
		delay(p, p->vec, pieces, data, bytes);
	else
		scatter(p->vec, pieces, data);
}

/* The data of the command before, zeros at first; keep these data for the next command. */
static void use_before(struct soft_poller *p, uint8_t *data, uint64_t bytes)
{
	uint8_t *kept = bytes ? malloc(bytes) : NULL;

	if (!kept)
		return;
	memcpy(kept, data, bytes);
	memset(data, 0, bytes);
	if (p->before)
		memcpy(data, p->before, bytes < p->before_bytes ? bytes : p->before_bytes);
	free(p->before);
	p->before = kept;
	p->before_bytes = bytes;
}

void soft_peer_read(struct soft_poller *p, uint8_t *data, uint64_t bytes, unsigned pieces)
{
	const struct soft *soft = p->soft;

	soft_gather(data, p->vec, pieces);
	if (soft_has_quirk(soft, HR_SOFT_PEER_ONES))
		memset(data, 0xff, bytes);
	if (soft_has_quirk(soft, HR_SOFT_PEER_SWAP))
		swap_pages(data, bytes);
	if (soft_has_quirk(soft, HR_SOFT_PEER_DROP))
		for (uint64_t at = 0; at < bytes; at += HR_PAGE)
			if (is_dropped(at / HR_PAGE))
				memset(data + at, 0, bytes - at < HR_PAGE ? bytes - at : HR_PAGE);
	if (soft_has_quirk(soft, HR_SOFT_PEER_LATE))
		use_before(p, data, bytes);
}
