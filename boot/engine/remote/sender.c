/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/remote/stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/layout/sizes.h"
#include "boot/engine/shared_memory.h"
#include "config/derived.h"
#include "gpu/tap/memory.h"

#define SEAT 0u	 /* of the only consumer */
#define TRIES 8u /* tiles without an offer, before the others are left alone */

static struct hr_tap_head *head_of(const struct hr_run *run)
{
	return (struct hr_tap_head *)(void *)hr_run_tap_entries(run);
}

static const struct hr_tap_entry *entry_of(const struct hr_run *run, uint64_t n)
{
	const uint8_t *first = hr_run_tap_entries(run) + sizeof(struct hr_tap_head);

	return (const struct hr_tap_entry *)(const void *)first + n % run->tap.role.ring;
}

static uint32_t *gens_of(const struct hr_run *run)
{
	return (uint32_t *)(void *)(hr_run_tap_pages(run) + sizeof(struct hr_tap_returns));
}

/* ---- memory */

static int create_words(void *at, uint64_t bytes, struct hr_error *e)
{
	const int fd = hr_tap_memory_create("headrace remote words", at, bytes, HR_TAP_WRITABLE, e);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int make_words(const struct hr_run *run, struct hr_error *e)
{
	const uint64_t ring = hr_tap_ring_bytes(run->tap.role.ring);
	const int err = create_words(hr_run_tap_entries(run), ring, e);

	if (err)
		return err;
	if (create_words(hr_run_tap_pages(run), hr_tap_page_bytes(run->slots), e) == 0)
		return 0;
	hr_tap_memory_drop(hr_run_tap_entries(run), ring);
	return -ENOMEM;
}

int hr_remote_sender_memory(struct hr_engine *engine, struct hr_remote *r,
			    struct hr_rdma_memory *memory, struct hr_error *e)
{
	const struct hr_run *run = r->run;
	const struct hr_partition *p = run->layout.parts.partition;
	const struct hr_part *tiles = &p->part[run->layout.sink.part];
	struct hr_places *places = &engine->memory[run->config->gpu];
	int err = 0;

	*memory = (struct hr_rdma_memory){ .base = hr_partition_cpu(p, run->layout.sink.part),
					   .bytes = tiles->bytes,
					   .dmabuf = -1,
					   .slots = run->slots,
					   .stride = hr_layout_tile_bytes(run->sink_tile_bytes) };
	/* on a GPU bring-up has made the words of all seats */
	if (hr_remote_is_gpu(places->backend))
		return hr_remote_gpu_open(&r->gpu, places->backend, &places->region[HR_PLACE_TAP],
					  tiles->offset, memory, e);
	err = make_words(run, e);
	r->own = !err;
	return err;
}

void hr_remote_sender_free(struct hr_remote *r)
{
	const struct hr_run *run = r->run;

	hr_remote_gpu_close(&r->gpu);
	if (!r->own)
		return;
	hr_tap_memory_drop(hr_run_tap_entries(run), hr_tap_ring_bytes(run->tap.role.ring));
	hr_tap_memory_drop(hr_run_tap_pages(run), hr_tap_page_bytes(run->slots));
}

/* ---- tiles */

/* All slots are credits: a tile that waits for its offer must not keep the lowest one from being
 * lent. */
void hr_remote_sender_begin(struct hr_remote *r)
{
	struct hr_tap_seat *words = &hr_run_tap_words(r->run)->seat[SEAT];
	struct hr_tap_head *head = head_of(r->run);

	head->magic = HR_TAP_MAGIC;
	head->version = HR_TAP_VERSION;
	head->state = HR_TAP_RUNS;
	words->credits = r->run->slots;
	hr_release_sys_u32(&words->order,
			   (words->order / HR_TAP_ORDERS + 1) * HR_TAP_ORDERS + HR_TAP_LEND);
}

static void return_slot(struct hr_remote *r, uint32_t s)
{
	hr_release_sys_u32(&gens_of(r->run)[s], r->slot[s].gen);
	r->slot[s].state = HR_REMOTE_NONE;
	r->back++;
}

static bool is_last(const struct hr_remote *r)
{
	return r->tiles != HR_NO_TILE && r->back + 1 == r->tiles - r->run->first_tile;
}

/* The tiles of a source that is a feed end when its producer says so. Until then the newest tile that
 * has arrived may be the last one. */
static void keep_last_slot(struct hr_remote *r, uint32_t s)
{
	r->slot[s].state = HR_REMOTE_KEPT;
	for (uint32_t i = 0; i < r->run->slots; i++)
		if (i != s && r->slot[i].state == HR_REMOTE_KEPT)
			return_slot(r, i);
}

static void arrived(struct hr_remote *r, uint32_t s)
{
	if (!r->remote_ended && (r->tiles == HR_NO_TILE || is_last(r)))
		keep_last_slot(r, s);
	else
		return_slot(r, s);
}

static bool accept_entries(struct hr_remote *r)
{
	const uint64_t before = r->taken;

	for (;; r->taken++) {
		const struct hr_tap_entry *entry = entry_of(r->run, r->taken);
		struct hr_tap_entry e;

		if (hr_acquire_sys_u64(&entry->sequence) != r->taken + 1)
			break;
		e = *(const volatile struct hr_tap_entry *)entry;
		if (e.check != hr_tap_entry_check(&e, r->taken + 1))
			break;
		r->slot[e.slot] =
			(struct hr_remote_slot){ HR_REMOTE_READY, e.gen, e.bytes, e.tile };
	}
	return r->taken != before;
}

/* The slot with the lowest tile from `from` on that is to be sent; the number of slots: none. */
static uint32_t next_held(const struct hr_remote *r, uint64_t from)
{
	uint32_t found = r->run->slots;

	for (uint32_t s = 0; s < r->run->slots; s++)
		if (r->slot[s].state == HR_REMOTE_READY && r->slot[s].tile >= from &&
		    (found == r->run->slots || r->slot[s].tile < r->slot[found].tile))
			found = s;
	return found;
}

static bool send_tiles(struct hr_remote *r)
{
	bool any = false;
	uint64_t from = 0;
	uint32_t tries = TRIES, s;

	while ((r->up || r->remote_ended) && tries && (s = next_held(r, from)) < r->run->slots) {
		struct hr_remote_slot *slot = &r->slot[s];
		int err = 0;

		from = slot->tile + 1;
		if (!r->remote_ended)
			err = hr_link_send(r->link, s, slot->tile, slot->bytes);
		if (r->remote_ended || err == -EALREADY) {
			arrived(r, s);
			any = true;
			continue;
		}
		if (!err)
			slot->state = HR_REMOTE_SENDING;
		else if (err == -EAGAIN)
			tries--;
		else if (err != -ENOTCONN)
			hr_remote_fail(r, HR_ERROR_FAILED, err, "tile %llu cannot be sent: %s",
				       (unsigned long long)slot->tile, strerror(-err));
		any |= !err;
		if (err && err != -EAGAIN)
			break;
	}
	return any;
}

/* Number and bytes of the stream are known at once, or when the producer of the source has ended it. */
static void find_end(struct hr_remote *r)
{
	const struct hr_run *run = r->run;
	const struct hr_feed_words *words = run->cpu.feed ? hr_run_feed_words(run) : NULL;
	const struct hr_operator *op = run->config->op;

	if (r->tiles != HR_NO_TILE)
		return;
	if (!words) {
		r->tiles = run->tiles;
		r->bytes = run->sink_bytes;
	} else if (hr_acquire_sys_u64(&words->total) != HR_NO_TILE) {
		r->tiles = hr_fresh_u64(&words->total);
		r->bytes = (uint64_t)((unsigned __int128)hr_fresh_u64(&words->total_bytes) *
				      op->out_num / op->out_den);
	} else {
		return;
	}
	hr_link_end(r->link, r->tiles, r->bytes);
}

bool hr_remote_sender_step(struct hr_remote *r)
{
	bool any = accept_entries(r);

	find_end(r);
	any |= send_tiles(r);
	/* the receiver's run is done: it has all tiles */
	for (uint32_t s = 0; r->remote_ended && s < r->run->slots; s++)
		if (r->slot[s].state == HR_REMOTE_KEPT || r->slot[s].state == HR_REMOTE_SENDING)
			return_slot(r, s);
	return any;
}

static void broke(struct hr_remote *r)
{
	for (uint32_t s = 0; s < r->run->slots; s++)
		if (r->slot[s].state == HR_REMOTE_SENDING)
			r->slot[s].state = HR_REMOTE_READY;
}

void hr_remote_sender_event(struct hr_remote *r, const struct hr_link_event *event)
{
	if (event->kind == HR_LINK_DOWN)
		broke(r);
	else if (event->kind == HR_LINK_SENT && event->slot < r->run->slots &&
		 r->slot[event->slot].state == HR_REMOTE_SENDING)
		arrived(r, event->slot);
}
