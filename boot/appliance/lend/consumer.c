/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/consumer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/appliance/lend/peer.h"
#include "boot/engine/shared_memory.h"
#include "config/base/log.h"

/* ---- memory of a seat */

static struct hr_tap_head *head_of(const struct hr_run *run, uint32_t seat)
{
	return (struct hr_tap_head *)(void *)hr_run_tap_entries_of(run, seat);
}

static struct hr_tap_returns *page_of(const struct hr_run *run, uint32_t seat)
{
	return (struct hr_tap_returns *)(void *)hr_run_tap_page_of(run, seat);
}

static struct hr_tap_seat *words_of(const struct hr_run *run, uint32_t seat)
{
	return &hr_run_tap_words(run)->seat[seat];
}

static struct hr_tap_tiles *tiles_of(const struct hr_tap_table *table)
{
	return &table->engine->tap_tiles[table->pipeline];
}

/* The objects were made at bring-up: the consumer gets a set that no other one has had. On the host
 * backend a seat has one place, and each consumer gets new objects there. */
static bool has_sets(const struct hr_tap_table *table)
{
	return tiles_of(table)->sets.count != 0;
}

static void set_words(const struct hr_tap_table *table, uint32_t seat, uint32_t set)
{
	hr_relaxed_sys_u32(&words_of(table->run, seat)->set, set);
}

static struct hr_sets *sets_of(const struct hr_tap_table *table)
{
	return has_sets(table) ? &tiles_of(table)->sets : NULL;
}

#define OBJECTS 2u /* of a seat; the tiles are the tap's */

static void list_seat(const struct hr_run *run, uint32_t seat,
		      struct hr_lend_object object[OBJECTS])
{
	object[0] =
		(struct hr_lend_object){ "headrace tap entries", head_of(run, seat),
					 hr_tap_ring_bytes(run->tap.role.ring), HR_TAP_READ_ONLY };
	object[1] = (struct hr_lend_object){ "headrace tap page", page_of(run, seat),
					     hr_tap_page_bytes(run->slots), HR_TAP_WRITABLE };
}

static void unmap_seat(const struct hr_tap_table *table, uint32_t seat)
{
	struct hr_lend_object object[OBJECTS];

	if (has_sets(table))
		return;
	list_seat(table->run, seat, object);
	hr_lend_memory_drop(object, OBJECTS);
}

static int make_seat(const struct hr_run *run, uint32_t seat, int *fds, struct hr_error *e)
{
	struct hr_lend_object object[OBJECTS];

	list_seat(run, seat, object);
	return hr_lend_memory_make(object, OBJECTS, fds, e);
}

static int map_seat(struct hr_tap_table *table, uint32_t seat, int fds[HR_TAP_FDS],
		    struct hr_error *e)
{
	const struct hr_run *run = table->run;
	struct hr_tap_head *head;
	uint32_t set = seat;
	int err = 0;

	fds[0] = tiles_of(table)->fd;
	if (has_sets(table))
		err = hr_sets_next(&tiles_of(table)->sets, &set, &fds[1], e);
	if (err)
		return err;
	set_words(table, seat, set);
	if (!has_sets(table))
		err = make_seat(run, seat, &fds[1], e);
	if (err)
		return err;
	head = head_of(run, seat);
	head->magic = HR_TAP_MAGIC;
	head->version = HR_TAP_VERSION;
	head->epoch = table->epoch;
	head->state = HR_TAP_RUNS;
	return 0;
}

/* ---- consumers */

static const char *tap_name(struct hr_tap_table *table)
{
	return table->run->config->tap.name;
}

static void order_seat(struct hr_tap_table *table, uint32_t seat, enum hr_tap_order what)
{
	hr_lend_order(&words_of(table->run, seat)->order, what);
}

/* The worker has carried out the newest order, so the words are those of this consumer. */
static bool is_obeyed(const struct hr_tap_table *table, uint32_t seat)
{
	const struct hr_tap_seat *words = words_of(table->run, seat);

	return hr_lend_is_obeyed(&words->order, &words->obeyed);
}

static bool is_closed(const struct hr_tap_table *table, uint32_t seat)
{
	const struct hr_tap_seat *words = words_of(table->run, seat);

	return hr_lend_is_closed(table->run, &words->order, &words->obeyed);
}

static void free_seat(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	unmap_seat(table, seat);
	hr_lend_peer_hang_up(&c->peer);
	hr_lend_peer_forget_process(&c->peer);
	c->peer.state = HR_LEND_FREE;
}

/* Its connection has ended, or it has: no further tile is lent to it. */
static void leave(struct hr_tap_table *table, struct hr_tap_consumer *c)
{
	if (c->peer.state == HR_LEND_ATTACHED)
		table->run->tap.present--;
}

/* Take the tiles of the consumer back. */
static void close_consumer(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	char text[HR_LEND_TEXT];

	hr_info("%s has gone", hr_lend_peer_text(&c->peer, text));
	hr_lend_peer_hang_up(&c->peer);
	if (c->peer.state == HR_LEND_GREETED) {
		free_seat(table, c, seat);
		return;
	}
	leave(table, c);
	order_seat(table, seat, HR_TAP_CLOSE);
	hr_lend_peer_set_state(&c->peer, HR_LEND_CLOSING);
}

/* Its tiles stay for a time: its process may still read them. */
static void let_leave(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	if (c->peer.state == HR_LEND_ATTACHED)
		order_seat(table, seat, HR_TAP_HOLD);
	leave(table, c);
	hr_lend_peer_hang_up(&c->peer);
	hr_lend_peer_set_state(&c->peer, HR_LEND_LEAVING);
}

/* End the connection of a consumer that breaks the protocol. */
static void drop_consumer(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat,
			  const char *why)
{
	hr_lend_peer_revoke(&c->peer, why);
	table->run->tap.revoked++;
	hr_relaxed_u32(&head_of(table->run, seat)->state, HR_TAP_STOPPED);
	let_leave(table, c, seat);
}

/* With deliver = "each" all consumers hold the same tiles. */
static bool is_shared(const struct hr_tap_table *table)
{
	return table->run->config->tap.deliver == HR_TAP_ONE;
}

/* Two slots keep the pipeline moving. */
static uint32_t slots_to_share(const struct hr_tap_table *table)
{
	return table->run->slots > 2 ? table->run->slots - 2 : 1;
}

static void attach(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	char text[HR_LEND_TEXT];

	table->run->tap.attached++;
	table->run->tap.present++;
	hr_tap_allot_begin(&c->share, slots_to_share(table),
			   is_shared(table) ? (uint32_t)table->run->tap.present : 1);
	/* a worker looks at the credits of free seats, too */
	hr_release_sys_u32(&words_of(table->run, seat)->credits, c->share.credits);
	order_seat(table, seat, HR_TAP_LEND);
	hr_lend_peer_set_state(&c->peer, HR_LEND_ATTACHED);
	hr_info("%s is attached, %u credits", hr_lend_peer_text(&c->peer, text), c->peer.credits);
}

/* A consumer that was welcomed. One message in a step. */
static void listen_to(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	switch (hr_lend_peer_hear(&c->peer)) {
	case HR_LEND_NOTHING:
		break;
	case HR_LEND_END:
		let_leave(table, c, seat);
		break;
	case HR_LEND_READY:
		attach(table, c, seat);
		break;
	case HR_LEND_DETACH:
		close_consumer(table, c, seat);
		break;
	case HR_LEND_WRONG:
		drop_consumer(table, c, seat,
			      "it sent a message that the protocol does not have here");
	}
}

/* Name the consumer once for each tile. */
static void check_lease(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	const struct hr_tap_seat *words = words_of(table->run, seat);
	const uint64_t lease_ns = table->run->config->tap.lease_ns;
	const uint64_t held_ns = hr_acquire_sys_u64(&words->oldest_ns);
	const uint64_t tile = hr_acquire_sys_u64(&words->oldest_tile);
	char text[HR_LEND_TEXT];

	if (!lease_ns || held_ns < lease_ns || !is_obeyed(table, seat) ||
	    (c->late && c->late_tile == tile))
		return;
	c->late++;
	c->late_tile = tile;
	table->run->tap.late++;
	hr_warn("%s holds tile %llu for %llu ms, and %llu tiles in all",
		hr_lend_peer_text(&c->peer, text), (unsigned long long)tile,
		(unsigned long long)(held_ns / HR_NS_PER_MS),
		(unsigned long long)(hr_acquire_sys_u64(&words->lent) -
				     hr_acquire_sys_u64(&words->returned)));
}

static void wake(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	const uint64_t wanted = hr_acquire_sys_u64(&page_of(table->run, seat)->wake);
	const bool is_last = hr_acquire_sys_u32(&head_of(table->run, seat)->last) != 0;

	if (is_obeyed(table, seat))
		hr_lend_peer_wake(&c->peer, wanted,
				  hr_acquire_sys_u64(&words_of(table->run, seat)->lent), is_last);
}

/* It has the seat, and the worker knows it. */
static bool is_served(const struct hr_tap_table *table, uint32_t seat)
{
	return table->consumer[seat].peer.state == HR_LEND_ATTACHED && is_obeyed(table, seat);
}

/* The word `waits` is untrusted: a wrong one brings its owner as many credits as it could ask
 * for. */
static void allot_to_waiting(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	const struct hr_tap_seat *words = words_of(table->run, seat);

	c->share.returned = hr_acquire_sys_u64(&words->returned);
	if (hr_acquire_sys_u32(&page_of(table->run, seat)->waits))
		hr_tap_allot_more(&c->share, hr_acquire_sys_u64(&words->lent) - c->share.returned);
}

void hr_tap_consumers_allot(struct hr_tap_table *table, uint64_t now_ns)
{
	struct hr_tap_allotment *share[HR_TAP_SEATS];
	uint32_t count = 0;

	if (!is_shared(table))
		return;
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++) {
		if (!is_served(table, seat))
			continue;
		allot_to_waiting(table, &table->consumer[seat], seat);
		share[count++] = &table->consumer[seat].share;
	}
	if (now_ns - table->shared_ns >= HR_TAP_ALLOT_NS) {
		hr_tap_allot(share, count, slots_to_share(table));
		table->shared_ns = now_ns;
	}
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		if (is_served(table, seat))
			hr_release_sys_u32(&words_of(table->run, seat)->credits,
					   table->consumer[seat].share.credits);
}

/* The orders of the state LEAVING are those of a consumer that was attached; one that was only
 * greeted has none, and CLOSE does nothing for it. */
void hr_tap_consumer_step(struct hr_tap_table *table, uint32_t seat, bool events, uint64_t now_ns)
{
	struct hr_tap_consumer *c = &table->consumer[seat];
	struct hr_lend_peer *peer = &c->peer;

	if (peer->state == HR_LEND_FREE)
		return;
	if (events && peer->state <= HR_LEND_ATTACHED)
		listen_to(table, c, seat);
	if (hr_lend_peer_is_late(peer, now_ns))
		drop_consumer(table, c, seat, "it did not map the tiles in time");
	if (peer->state == HR_LEND_ATTACHED) {
		check_lease(table, c, seat);
		wake(table, c, seat);
	}
	if (peer->state != HR_LEND_CLOSING && peer->state != HR_LEND_FREE &&
	    ((events && hr_lend_peer_has_ended(peer)) ||
	     (peer->state == HR_LEND_LEAVING &&
	      hr_lend_age_ns(peer->since_ns, now_ns) >= HR_TAP_QUARANTINE_NS)))
		close_consumer(table, c, seat);
	if (peer->state == HR_LEND_CLOSING && is_closed(table, seat))
		free_seat(table, c, seat);
}

/* ---- begin and end */

void hr_tap_consumers_begin(struct hr_tap_table *table)
{
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		hr_lend_peer_begin(&table->consumer[seat].peer, &hr_lend_tap, tap_name(table));
}

int hr_tap_consumer_seat(const struct hr_tap_table *table)
{
	for (uint32_t i = 0; i < HR_TAP_SEATS; i++)
		if (table->consumer[i].peer.state == HR_LEND_FREE)
			return (int)i;
	return -EBUSY;
}

static void describe_tap(const struct hr_tap_table *table, struct hr_tap_message *m)
{
	const struct hr_run *run = table->run;
	const struct hr_config_tap *tap = &run->config->tap;

	hr_lend_welcome_begin(m, &hr_lend_tap, run, run->sink_tile_bytes);
	m->credits = hr_run_tap_credits(run);
	m->ring = run->tap.role.ring;
	m->epoch = table->epoch;
	m->first = run->first_tile;
	m->columns = tap->columns;
	m->each = tap->deliver == HR_TAP_EACH;
	if (table->facts)
		hr_lend_welcome_gpu(m, table->facts, tiles_of(table)->bytes);
	snprintf(m->dtype, sizeof m->dtype, "%s", tap->dtype);
}

int hr_tap_consumer_greet(struct hr_tap_table *table, uint32_t seat,
			  const struct hr_tap_client *client, int pidfd, struct hr_error *e)
{
	struct hr_tap_consumer *c = &table->consumer[seat];
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS], err;

	memset(c, 0, sizeof *c);
	hr_lend_peer_begin(&c->peer, &hr_lend_tap, tap_name(table));
	err = map_seat(table, seat, fds, e);
	if (err)
		return err;
	describe_tap(table, &m);
	err = hr_lend_peer_welcome(&c->peer, client, pidfd, &m, fds, e);
	hr_lend_memory_sent(sets_of(table), &fds[1], OBJECTS, !err);
	if (err) {
		unmap_seat(table, seat);
		return err;
	}
	c->share.most = c->peer.credits;
	c->share.asked = client->hello.credits || !is_shared(table);
	return 0;
}

static void end_consumer(struct hr_tap_table *table, uint32_t seat, bool again)
{
	struct hr_tap_consumer *c = &table->consumer[seat];
	const struct hr_run *run = table->run;

	hr_release_sys_u32(&head_of(run, seat)->state,
			   run->outcome == HR_RUN_DONE ? HR_TAP_ENDED : HR_TAP_STOPPED);
	hr_lend_peer_end(&c->peer, run, run->done_tiles, again);
	leave(table, c);
	free_seat(table, c, seat);
}

bool hr_tap_consumer_snapshot(const struct hr_tap_table *table, uint32_t seat,
			      struct hr_record_consumer *to)
{
	const struct hr_tap_consumer *c = &table->consumer[seat];
	const struct hr_lend_peer *peer = &c->peer;

	if (peer->state != HR_LEND_ATTACHED)
		return false;
	to->attached = 1;
	to->pipeline = table->pipeline;
	to->user = peer->credentials.user;
	to->process = (uint64_t)peer->credentials.process;
	memcpy(to->name, peer->name, sizeof to->name);
	to->count.credits = words_of(table->run, seat)->credits;
	to->count.late = c->late;
	if (is_obeyed(table, seat))
		hr_counters_snapshot_consumer(&to->count, table->run, seat);
	return true;
}

void hr_tap_consumers_end(struct hr_tap_table *table, bool again)
{
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		if (table->consumer[seat].peer.state != HR_LEND_FREE)
			end_consumer(table, seat, again);
}
