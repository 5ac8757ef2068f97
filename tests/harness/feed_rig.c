/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/feed_rig.h"

#include <criterion/criterion.h>
#include <string.h>

struct feed_rig feed_rig;

static void run_one_lane(void)
{
	hr_feed_block(&feed_rig.pipe, 0);
}

void (*feed_rig_role)(void) = run_one_lane;

/* ---- the pipeline around the role */

static uint8_t byte_of(uint64_t tile, uint32_t i)
{
	return (uint8_t)(tile * 7 + i);
}

/* Take the tile of a filled slot, as compute does, and as write-back frees its slot. */
static void compute(uint32_t s)
{
	struct hr_slot *slot = &feed_rig.slot[s];
	const uint32_t bytes = hr_tile_bytes(&feed_rig.pipe.source[0].extent, TILE, slot->tile);

	for (uint32_t i = 0; i < bytes; i++)
		cr_assert_eq(feed_rig.tiles[s][i], byte_of(slot->tile, i), "tile %llu, byte %u",
			     (unsigned long long)slot->tile, i);
	feed_rig.seen[slot->tile]++;
	feed_rig.seen_bytes[slot->tile] = bytes;
	hr_release_u32(&slot->state, HR_SLOT_COMPUTED);
	do
		hr_yield();
	while (hr_acquire_u32(&feed_rig.holds) == 2);
	if (feed_rig.pipe.written && !slot->write_failed)
		hr_release_sys_u64(&feed_rig.written[s], slot->tile + 1);
	hr_release_u32(&slot->state, HR_SLOT_FREE);
}

static void *take(void *unused)
{
	uint32_t closed = 0;

	while (closed < SLOTS)
		for (uint32_t s = 0; s < SLOTS; s++) {
			const uint32_t state = hr_acquire_u32(&feed_rig.slot[s].state);

			if (state == HR_SLOT_CLOSING) {
				hr_release_u32(&feed_rig.slot[s].state, HR_SLOT_CLOSED);
				closed++;
			} else if (state == HR_SLOT_FILLED &&
				   hr_acquire_u32(&feed_rig.holds) != 1) {
				compute(s);
			} else {
				hr_yield();
			}
		}
	return NULL;
}

static void *work(void *unused)
{
	feed_rig_role();
	return NULL;
}

void feed_rig_set_up(uint64_t bytes)
{
	memset(&feed_rig, 0, sizeof feed_rig);
	feed_rig.words.total = HR_NO_TILE;
	feed_rig.role = (struct hr_feed_role){ .ring = RING,
					       .row_bytes = ROW,
					       .out_num = 1,
					       .out_den = 2,
					       .entries = feed_rig.entries[0],
					       .pages = (uint8_t *)feed_rig.page[0],
					       .words = &feed_rig.words,
					       .offer = feed_rig.offer };
	feed_rig.pipe.tiles = (bytes + TILE - 1) / TILE;
	feed_rig.pipe.slots = SLOTS;
	feed_rig.pipe.sources = 1;
	feed_rig.pipe.source[0].tile_bytes = TILE;
	feed_rig.pipe.source[0].extent.bytes = bytes;
	feed_rig.pipe.has_sink = 1;
	feed_rig.pipe.sink_tile_bytes = TILE / 2;
	feed_rig.pipe.sink.bytes = bytes / 2;
	feed_rig.pipe.blocks[HR_ROLE_PREFETCH] = feed_rig.pipe.workers[HR_ROLE_PREFETCH] = 1;
	feed_rig.pipe.slot = feed_rig.slot;
	feed_rig.pipe.status = &feed_rig.status;
	feed_rig.pipe.control = &feed_rig.control;
	feed_rig.pipe.written = feed_rig.written;
	feed_rig.pipe.feed = &feed_rig.role;
	feed_rig.pipe.fed_tiles = &feed_rig.words.total;
}

void feed_rig_start(void)
{
	cr_assert_eq(pthread_create(&feed_rig.computer, NULL, take, NULL), 0);
	cr_assert_eq(pthread_create(&feed_rig.worker, NULL, work, NULL), 0);
}

void feed_rig_finish(void)
{
	pthread_join(feed_rig.worker, NULL);
	pthread_join(feed_rig.computer, NULL);
	cr_expect_eq(hr_acquire_sys_u32(&feed_rig.status.ended), 1);
}

/* ---- the host */

void feed_rig_order(enum hr_feed_order what)
{
	hr_release_sys_u32(&feed_rig.words.order,
			   (feed_rig.words.order / HR_FEED_ORDERS + 1) * HR_FEED_ORDERS + what);
}

bool feed_rig_is_done(void)
{
	return hr_acquire_sys_u32(&feed_rig.words.obeyed) == feed_rig.words.order;
}

void feed_rig_wait_done(void)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;

	while (!feed_rig_is_done()) {
		cr_assert_lt(hr_now_ns(), end, "the feed_rig.worker does not obey");
		hr_yield();
	}
}

static struct hr_feed_head *head(void)
{
	return (struct hr_feed_head *)(void *)feed_rig.entries[feed_rig.words.set];
}

/* A producer with memory of its own, all zero. */
void feed_rig_attach(uint32_t credits)
{
	feed_rig.words.set = (feed_rig.words.set + 1) % SETS;
	memset(head(), 0, sizeof feed_rig.entries[0]);
	memset(feed_rig_the_page(), 0, sizeof feed_rig.page[0]);
	memset(feed_rig.tiles, 0xee, sizeof feed_rig.tiles);
	head()->epoch = EPOCH + ++feed_rig.producers;
	feed_rig.words.credits = credits;
	feed_rig.taken = 0;
	feed_rig_order(HR_FEED_OFFER);
}

/* After it no worker accesses the memory of the producer. */
void feed_rig_detach(void)
{
	feed_rig_order(HR_FEED_CLOSE);
	feed_rig_wait_done();
	memset(head(), 0xff, sizeof feed_rig.entries[0]);
	memset(feed_rig_the_page(), 0xff, sizeof feed_rig.page[0]);
}

/* All tiles before it are committed. */
uint64_t feed_rig_next_tile(void)
{
	return hr_acquire_sys_u64(&feed_rig.words.next);
}

/* Whole rounds of the worker: it has seen all that was stored before. */
void feed_rig_let_it_run(void)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;
	const uint64_t before = hr_acquire_sys_u64(&feed_rig.status.heartbeat);

	while (hr_acquire_sys_u64(&feed_rig.status.heartbeat) < before + 4) {
		cr_assert_lt(hr_now_ns(), end, "the feed_rig.worker does not move");
		hr_yield();
	}
}

/* ---- a producer */

struct hr_feed_commits *feed_rig_the_page(void)
{
	return (struct hr_feed_commits *)(void *)feed_rig.page[feed_rig.words.set];
}

static const struct hr_tap_entry *feed_rig_entry_of(uint64_t n)
{
	const struct hr_tap_entry *first = (const void *)(head() + 1);

	return &first[n % RING];
}

bool feed_rig_is_there(uint64_t n)
{
	return hr_acquire_sys_u64(&feed_rig_entry_of(n)->sequence) == n + 1;
}

struct hr_tap_entry feed_rig_next_entry(void)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;

	while (!feed_rig_is_there(feed_rig.taken)) {
		cr_assert_lt(hr_now_ns(), end, "entry %llu does not come",
			     (unsigned long long)feed_rig.taken);
		hr_yield();
	}
	return *feed_rig_entry_of(feed_rig.taken++);
}

uint32_t feed_rig_last(void)
{
	return hr_acquire_sys_u32(&head()->last);
}

void feed_rig_commit(const struct hr_tap_entry *e, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes && i < TILE; i++)
		feed_rig.tiles[e->slot][i] = byte_of(e->tile, i);
	hr_release_sys_u64(&feed_rig_the_page()->commit[e->slot], HR_FEED_COMMIT(e->gen, bytes));
}

void feed_rig_end(void)
{
	hr_release_sys_u64(&feed_rig_the_page()->end, head()->epoch);
}

void feed_rig_commit_next(uint64_t tile)
{
	const struct hr_tap_entry e = feed_rig_next_entry();

	cr_assert_eq(e.tile, tile);
	feed_rig_commit(&e, e.bytes);
}

void feed_rig_expect_seen(uint64_t count)
{
	for (uint32_t t = 0; t < TILES_MAX; t++)
		cr_assert_eq(feed_rig.seen[t], t < count ? 1 : 0, "tile %u: %u", t,
			     feed_rig.seen[t]);
}
