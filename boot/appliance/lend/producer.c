/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/producer.h"

#include <stdio.h>
#include <string.h>

#include "boot/appliance/lend/peer.h"
#include "boot/engine/layout/sizes.h"
#include "boot/engine/shared_memory.h"
#include "config/base/log.h"

/* ---- memory */

/* Tiles, entries and page, in the order of the descriptors of WELCOME. */
static void list_objects(const struct hr_run *run, struct hr_lend_object object[HR_TAP_FDS])
{
	const uint64_t tile = hr_layout_tile_bytes(run->source[0].tile_bytes);

	object[0] = (struct hr_lend_object){ "headrace feed tiles", run->cpu.slot[0].in[0].data,
					     run->slots * tile, HR_TAP_WRITABLE };
	object[1] =
		(struct hr_lend_object){ "headrace feed entries", hr_run_feed_entries(run),
					 hr_tap_ring_bytes(run->feed.role.ring), HR_TAP_READ_ONLY };
	object[2] = (struct hr_lend_object){ "headrace feed page", hr_run_feed_page(run),
					     hr_feed_page_bytes(run->slots), HR_TAP_WRITABLE };
}

static struct hr_feed_head *head_of(const struct hr_feed_producer *p)
{
	return (struct hr_feed_head *)(void *)hr_run_feed_entries(p->run);
}

static struct hr_feed_words *words_of(const struct hr_feed_producer *p)
{
	return hr_run_feed_words(p->run);
}

/* The objects were made at bring-up. */
static bool is_fixed(const struct hr_feed_producer *p)
{
	return p->memory->up;
}

static void unmap(const struct hr_feed_producer *p)
{
	struct hr_lend_object object[HR_TAP_FDS];

	if (is_fixed(p))
		return;
	list_objects(p->run, object);
	hr_lend_memory_drop(object, HR_TAP_FDS);
}

static int make(const struct hr_feed_producer *p, int fds[HR_TAP_FDS], struct hr_error *e)
{
	struct hr_lend_object object[HR_TAP_FDS];

	list_objects(p->run, object);
	return hr_lend_memory_make(object, HR_TAP_FDS, fds, e);
}

/* Objects of the bring-up: tiles, which no other process has mapped, as hr_feed_owner_check() has
 * found, and words that no other process has had. */
static int take_set(const struct hr_feed_producer *p, int fds[HR_TAP_FDS], struct hr_error *e)
{
	uint32_t set = 0;
	const int err = hr_sets_next(&p->memory->sets, &set, &fds[1], e);

	if (err)
		return err;
	fds[0] = p->memory->tiles;
	words_of(p)->set = set;
	return 0;
}

static int map(const struct hr_feed_producer *p, int fds[HR_TAP_FDS], struct hr_error *e)
{
	const int err = is_fixed(p) ? take_set(p, fds, e) : make(p, fds, e);
	struct hr_feed_head *head;

	if (err)
		return err;
	head = head_of(p);
	head->magic = HR_TAP_MAGIC;
	head->version = HR_FEED_VERSION;
	head->epoch = p->epoch;
	head->state = HR_TAP_RUNS;
	head->durable = p->run->durable_tiles;
	return 0;
}

/* ---- states */

static void hang_up(struct hr_feed_producer *p)
{
	struct hr_lend_peer *peer = &p->peer;

	if (peer->fd < 0)
		return;
	p->run->feed.present = 0;
	hr_lend_peer_hang_up(peer);
	if (is_fixed(p)) {
		hr_feed_owner_set(&p->owner, peer->credentials.process, peer->pidfd, p->detached,
				  hr_now_ns());
		peer->pidfd = -1;
	}
	hr_lend_peer_forget_process(peer);
}

static void forget(struct hr_feed_producer *p)
{
	unmap(p);
	hang_up(p);
	p->peer.state = HR_LEND_FREE;
}

/* Keep what it has committed. */
static void close_producer(struct hr_feed_producer *p)
{
	char text[HR_LEND_TEXT];

	hr_info("%s has gone", hr_lend_peer_text(&p->peer, text));
	hang_up(p);
	if (p->peer.state == HR_LEND_GREETED) {
		forget(p);
		return;
	}
	hr_lend_order(&words_of(p)->order, HR_FEED_CLOSE);
	hr_lend_peer_set_state(&p->peer, HR_LEND_CLOSING);
}

static void drop_producer(struct hr_feed_producer *p, const char *why)
{
	hr_lend_peer_revoke(&p->peer, why);
	p->run->feed.revoked++;
	hr_release_sys_u32(&head_of(p)->state, HR_TAP_STOPPED);
	close_producer(p);
}

static void attach(struct hr_feed_producer *p)
{
	char text[HR_LEND_TEXT];

	words_of(p)->credits = p->peer.credits;
	/* of the producer before, whose orders the worker has carried out, or has never seen */
	words_of(p)->fault = HR_FEED_SOUND;
	words_of(p)->offered = words_of(p)->committed = 0;
	hr_lend_order(&words_of(p)->order, HR_FEED_OFFER);
	hr_lend_peer_set_state(&p->peer, HR_LEND_ATTACHED);
	p->run->feed.attached++;
	p->run->feed.present = 1;
	p->leases = p->committed = 0;
	p->committed_ns = p->peer.since_ns;
	hr_info("%s is attached, %u credits", hr_lend_peer_text(&p->peer, text), p->peer.credits);
}

/* True when a message came: a producer that attaches and goes at once has sent two, and the next one
 * must not be refused for it. Each message but READY ends the connection. */
static bool listen_to(struct hr_feed_producer *p)
{
	const enum hr_lend_heard heard = hr_lend_peer_hear(&p->peer);

	p->detached = heard == HR_LEND_DETACH;
	if (heard == HR_LEND_END || heard == HR_LEND_DETACH)
		close_producer(p);
	else if (heard == HR_LEND_READY)
		attach(p);
	else if (heard == HR_LEND_WRONG)
		drop_producer(p, "it sent a message that the protocol does not have here");
	return heard != HR_LEND_NOTHING;
}

static void check_fault(struct hr_feed_producer *p)
{
	const struct hr_feed_words *words = words_of(p);
	const uint32_t fault = hr_acquire_sys_u32(&words->fault);
	const unsigned long long tile = hr_fresh_u64(&words->fault_tile);
	char why[128];

	if (fault == HR_FEED_SOUND)
		return;
	if (fault == HR_FEED_LENGTH)
		snprintf(why, sizeof why,
			 "it committed tile %llu with a length that is not whole rows of the tile",
			 tile);
	else
		snprintf(why, sizeof why,
			 "it ended the feed at tile %llu, but a later tile is committed", tile);
	drop_producer(p, why);
}

static void check_lease(struct hr_feed_producer *p, uint64_t now_ns)
{
	const struct hr_feed_words *words = words_of(p);
	const uint64_t lease_ns = p->run->config->feed.lease_ns;
	const uint64_t committed = hr_acquire_sys_u64(&words->committed);
	const uint64_t offered = hr_acquire_sys_u64(&words->offered);
	char text[HR_LEND_TEXT];

	if (committed != p->committed || offered <= committed) {
		p->committed = committed;
		p->committed_ns = now_ns;
		p->late = false;
	} else if (lease_ns && !p->late && hr_lend_age_ns(p->committed_ns, now_ns) >= lease_ns) {
		p->late = true;
		p->leases++;
		p->run->feed.late++;
		hr_warn("%s holds %llu tiles and has committed none for %llu ms",
			hr_lend_peer_text(&p->peer, text),
			(unsigned long long)(offered - committed),
			(unsigned long long)((now_ns - p->committed_ns) / HR_NS_PER_MS));
	}
}

static void wake(struct hr_feed_producer *p)
{
	const struct hr_feed_commits *page =
		(const struct hr_feed_commits *)(const void *)hr_run_feed_page(p->run);
	const struct hr_feed_words *words = words_of(p);
	const uint64_t wanted = hr_acquire_sys_u64(&page->wake);
	const bool is_last = hr_acquire_sys_u32(&head_of(p)->last) != 0;

	if (hr_lend_is_obeyed(&words->order, &words->obeyed))
		hr_lend_peer_wake(&p->peer, wanted, hr_acquire_sys_u64(&words->offered), is_last);
}

bool hr_feed_producer_snapshot(const struct hr_feed_producer *p, struct hr_record_producer *to)
{
	const struct hr_lend_peer *peer = &p->peer;

	memset(to, 0, sizeof *to);
	if (peer->state != HR_LEND_ATTACHED)
		return false;
	to->attached = 1;
	to->process = peer->credentials.process > 0 ? (uint64_t)peer->credentials.process : 0;
	to->user = peer->credentials.user;
	memcpy(to->name, peer->name, sizeof to->name);
	hr_counters_snapshot_producer(&to->count, p->run);
	to->count.credits = peer->credits;
	to->count.late = p->leases;
	if (to->count.held)
		to->count.idle_ns = hr_lend_age_ns(p->committed_ns, hr_now_ns());
	return true;
}

static bool is_present(const struct hr_feed_producer *p)
{
	return p->peer.state == HR_LEND_GREETED || p->peer.state == HR_LEND_ATTACHED;
}

static bool is_closed(const struct hr_feed_producer *p)
{
	const struct hr_feed_words *words = words_of(p);

	return hr_lend_is_closed(p->run, &words->order, &words->obeyed);
}

void hr_feed_producer_step(struct hr_feed_producer *p, bool events, uint64_t now_ns)
{
	while (events && is_present(p) && listen_to(p))
		;
	if (hr_lend_peer_is_late(&p->peer, now_ns))
		drop_producer(p, "it did not map the tiles in time");
	if (p->peer.state == HR_LEND_ATTACHED)
		check_fault(p);
	if (p->peer.state == HR_LEND_ATTACHED) {
		check_lease(p, now_ns);
		wake(p);
	}
	if (is_present(p) && events && hr_lend_peer_has_ended(&p->peer))
		close_producer(p);
	if (is_present(p))
		hr_release_sys_u64(&head_of(p)->durable, p->run->durable_tiles);
	if (p->peer.state == HR_LEND_CLOSING && is_closed(p))
		forget(p);
}

/* ---- begin and end */

static void describe_feed(const struct hr_feed_producer *p, struct hr_tap_message *m)
{
	const struct hr_run *run = p->run;
	const struct hr_config_feed *feed = &run->config->feed;

	hr_lend_welcome_begin(m, &hr_lend_feed, run, run->source[0].tile_bytes);
	m->credits = hr_run_feed_credits(run);
	m->ring = run->feed.role.ring;
	m->epoch = p->epoch;
	m->first = hr_acquire_sys_u64(&words_of(p)->next);
	m->columns = feed->columns;
	if (is_fixed(p))
		hr_lend_welcome_gpu(m, p->facts, p->memory->bytes);
	snprintf(m->dtype, sizeof m->dtype, "%s", feed->dtype);
}

int hr_feed_producer_greet(struct hr_feed_producer *p, const struct hr_tap_client *client,
			   int pidfd, struct hr_error *e)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS];
	int err = hr_feed_owner_check(&p->owner, client->credentials.process,
				      p->facts && p->facts->mps, hr_now_ns(), e);

	if (!err)
		err = map(p, fds, e);
	if (err)
		return err;
	hr_lend_peer_begin(&p->peer, &hr_lend_feed, p->run->config->feed.name);
	describe_feed(p, &m);
	err = hr_lend_peer_welcome(&p->peer, client, pidfd, &m, fds, e);
	hr_lend_memory_sent(is_fixed(p) ? &p->memory->sets : NULL, fds, HR_TAP_FDS, !err);
	if (err) {
		unmap(p);
		return err;
	}
	hr_feed_owner_forget(&p->owner);
	p->late = p->detached = false;
	return 0;
}

void hr_feed_producer_end(struct hr_feed_producer *p)
{
	const struct hr_run *run = p->run;
	const bool whole = run->outcome == HR_RUN_DONE;

	if (p->peer.state == HR_LEND_FREE)
		return;
	hr_release_sys_u64(&head_of(p)->durable, run->durable_tiles);
	hr_release_sys_u32(&head_of(p)->state, whole ? HR_TAP_ENDED : HR_TAP_STOPPED);
	hr_lend_peer_end(&p->peer, run, whole ? run->tiles : run->durable_tiles, false);
	forget(p);
}
