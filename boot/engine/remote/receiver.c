/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/remote/stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/layout/sizes.h"
#include "gpu/tap/memory.h"

#define EPOCH 1u /* the only producer of the run; a page that is all zero does not end the feed */

static struct hr_feed_head *head_of(const struct hr_run *run)
{
	return hr_partition_cpu(run->layout.parts.partition, run->layout.feed_entries);
}

static struct hr_feed_commits *page_of(const struct hr_run *run)
{
	return hr_partition_cpu(run->layout.parts.partition, run->layout.feed_pages);
}

static struct hr_feed_words *words_of(const struct hr_run *run)
{
	return hr_partition_cpu(run->layout.parts.partition, run->layout.feed_words);
}

/* ---- memory */

/* The parts that another process would map. */
static void list_parts(const struct hr_run *run, int part[3])
{
	part[0] = run->layout.source[0].part;
	part[1] = run->layout.feed_entries;
	part[2] = run->layout.feed_pages;
}

static void drop_tile_parts(const struct hr_run *run, unsigned count)
{
	const struct hr_partition *p = run->layout.parts.partition;
	int part[3];

	list_parts(run, part);
	for (unsigned i = 0; i < count; i++)
		hr_tap_memory_drop(hr_partition_cpu(p, part[i]), p->part[part[i]].bytes);
}

static int create_tile_parts(const struct hr_run *run, struct hr_error *e)
{
	const struct hr_partition *p = run->layout.parts.partition;
	int part[3];

	list_parts(run, part);
	for (unsigned i = 0; i < 3; i++) {
		const int fd =
			hr_tap_memory_create("headrace remote tiles", hr_partition_cpu(p, part[i]),
					     p->part[part[i]].bytes, HR_TAP_WRITABLE, e);

		if (fd < 0) {
			drop_tile_parts(run, i);
			return fd;
		}
		close(fd);
	}
	return 0;
}

int hr_remote_receiver_memory(struct hr_engine *engine, struct hr_remote *r,
			      struct hr_rdma_memory *memory, struct hr_error *e)
{
	const struct hr_run *run = r->run;
	const struct hr_partition *p = run->layout.parts.partition;
	const struct hr_part *tiles = &p->part[run->layout.source[0].part];
	struct hr_places *places = &engine->memory[run->config->gpu];
	int err;

	*memory = (struct hr_rdma_memory){ .base = hr_partition_cpu(p, run->layout.source[0].part),
					   .bytes = tiles->bytes,
					   .dmabuf = -1,
					   .slots = run->slots,
					   .stride = hr_layout_tile_bytes(
						   run->source[0].tile_bytes) };
	/* on a GPU bring-up has made tiles, entries and page */
	if (hr_remote_is_gpu(places->backend))
		return hr_remote_gpu_open(&r->gpu, places->backend, &places->region[HR_PLACE_TAP],
					  tiles->offset, memory, e);
	err = create_tile_parts(run, e);
	r->own = !err;
	return err;
}

void hr_remote_receiver_free(struct hr_remote *r)
{
	hr_remote_gpu_close(&r->gpu);
	if (r->own)
		drop_tile_parts(r->run, 3);
}

/* ---- tiles */

void hr_remote_receiver_begin(struct hr_remote *r)
{
	struct hr_feed_words *words = words_of(r->run);
	struct hr_feed_head *head = head_of(r->run);

	head->magic = HR_TAP_MAGIC;
	head->version = HR_FEED_VERSION;
	head->epoch = EPOCH;
	head->state = HR_TAP_RUNS;
	words->credits = r->run->slots;
	hr_release_sys_u32(&words->order,
			   (words->order / HR_FEED_ORDERS + 1) * HR_FEED_ORDERS + HR_FEED_OFFER);
}

static const struct hr_tap_entry *entry_of(const struct hr_run *run, uint64_t n)
{
	const uint8_t *first = (const uint8_t *)head_of(run) + sizeof(struct hr_feed_head);

	return (const struct hr_tap_entry *)(const void *)first + n % run->feed.role.ring;
}

static bool accept_offers(struct hr_remote *r)
{
	const uint64_t before = r->taken;

	for (;; r->taken++) {
		const struct hr_tap_entry *entry = entry_of(r->run, r->taken);
		int err;

		if (hr_acquire_sys_u64(&entry->sequence) != r->taken + 1)
			break;
		r->slot[entry->slot] = (struct hr_remote_slot){ HR_REMOTE_READY, entry->gen,
								entry->bytes, entry->tile };
		err = hr_link_offer(r->link, entry->slot, entry->tile);
		if (err)
			hr_remote_fail(r, HR_ERROR_FAILED, err, "tile %llu cannot be offered: %s",
				       (unsigned long long)entry->tile, strerror(-err));
	}
	return r->taken != before;
}

static void commit_slot(struct hr_remote *r, uint32_t s)
{
	hr_release_sys_u64(&page_of(r->run)->commit[s],
			   HR_FEED_COMMIT(r->slot[s].gen, r->slot[s].bytes));
	r->slot[s].state = HR_REMOTE_NONE;
}

/* The worker code takes a short tile as the last one, so the end must have said so first. */
static void came(struct hr_remote *r, const struct hr_link_event *event)
{
	struct hr_remote_slot *slot = &r->slot[event->slot % HR_SLOTS_MAX];

	if (event->slot >= r->run->slots || slot->state != HR_REMOTE_READY ||
	    slot->tile != event->tile || !event->bytes || event->bytes > slot->bytes) {
		hr_remote_fail(r, HR_ERROR_FAILED, -EPROTO, "tile %llu of %u bytes was not offered",
			       (unsigned long long)event->tile, event->bytes);
		return;
	}
	if (event->bytes < slot->bytes) {
		slot->bytes = event->bytes;
		slot->state = HR_REMOTE_SHORT;
	} else {
		commit_slot(r, event->slot);
	}
}

/* The slot of the tile that is shorter than a full one; the number of slots: there is none. */
static uint32_t find_short(const struct hr_remote *r)
{
	uint32_t s = 0;

	while (s < r->run->slots && r->slot[s].state != HR_REMOTE_SHORT)
		s++;
	return s;
}

static void end_feed(struct hr_remote *r)
{
	const uint64_t tiles = r->tiles, bytes = r->bytes;
	const uint32_t full = r->run->source[0].tile_bytes, s = find_short(r);
	const bool has_short = s < r->run->slots;
	const uint64_t before = tiles ? (tiles - 1) * full : 0;

	if ((tiles ? bytes <= before || bytes > before + full : bytes != 0) ||
	    (has_short && (r->slot[s].tile + 1 != tiles || before + r->slot[s].bytes != bytes))) {
		hr_remote_fail(
			r, HR_ERROR_FAILED, -EPROTO,
			"the stream ends after %llu tiles with %llu bytes, which are not the "
			"tiles that have come",
			(unsigned long long)tiles, (unsigned long long)bytes);
		return;
	}
	if (has_short)
		commit_slot(r, s);
	r->end_fed = true;
	hr_release_sys_u64(&page_of(r->run)->end, EPOCH);
}

static void check_fault(struct hr_remote *r)
{
	const struct hr_feed_words *words = words_of(r->run);

	if (hr_acquire_sys_u32(&words->fault) != HR_FEED_SOUND)
		hr_remote_fail(r, HR_ERROR_FAILED, -EPROTO,
			       "tile %llu has a length that is not whole rows of operator %s",
			       (unsigned long long)hr_fresh_u64(&words->fault_tile),
			       r->run->config->op->name);
}

bool hr_remote_receiver_step(struct hr_remote *r)
{
	const bool any = accept_offers(r);

	/* the end can be known before the run begins, when the receiver has all tiles */
	if (r->tiles != HR_NO_TILE && !r->end_fed && !r->failed)
		end_feed(r);
	check_fault(r);
	return any;
}

void hr_remote_receiver_event(struct hr_remote *r, const struct hr_link_event *event)
{
	if (event->kind == HR_LINK_RECEIVED) {
		came(r, event);
	} else if (event->kind == HR_LINK_END) {
		r->tiles = event->tile;
		r->bytes = event->total;
	}
}
