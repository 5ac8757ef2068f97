#include "boot/appliance/lend/producer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/protocol/tap_message.h"
#include "config/base/scm.h"
#include "boot/engine/layout/sizes.h"
#include "boot/engine/shared_memory.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "gpu/tap/memory.h"

/* ---- memory */

struct object {
	const char *name;
	void *at;
	uint64_t bytes;
	enum hr_tap_memory_use use;
};

/* Tiles, entries and page, in the order of the descriptors of WELCOME. */
static void list_objects(const struct hr_run *run, struct object object[HR_TAP_FDS])
{
	const uint64_t tile = hr_layout_tile_bytes(run->source[0].tile_bytes);

	object[0] = (struct object){ "headrace feed tiles", run->cpu.slot[0].in[0].data,
				     run->slots * tile, HR_TAP_WRITABLE };
	object[1] = (struct object){ "headrace feed entries", hr_run_feed_entries(run),
				     hr_tap_ring_bytes(run->feed.role.ring), HR_TAP_READ_ONLY };
	object[2] = (struct object){ "headrace feed page", hr_run_feed_page(run),
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

static void unmap(const struct hr_feed_producer *p, unsigned count)
{
	struct object object[HR_TAP_FDS];

	if (is_fixed(p))
		return;
	list_objects(p->run, object);
	for (unsigned i = 0; i < count; i++)
		hr_tap_memory_drop(object[i].at, object[i].bytes);
}

static void close_fds(int fds[HR_TAP_FDS], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

/* New objects: an earlier producer may still have its own mapped. */
static int make(const struct hr_feed_producer *p, int fds[HR_TAP_FDS], struct hr_error *e)
{
	struct object object[HR_TAP_FDS];

	list_objects(p->run, object);
	for (unsigned i = 0; i < HR_TAP_FDS; i++) {
		fds[i] = hr_tap_memory_create(object[i].name, object[i].at, object[i].bytes,
					      object[i].use, e);
		if (fds[i] >= 0)
			continue;
		close_fds(fds, i);
		unmap(p, i);
		return fds[i];
	}
	return 0;
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

/* The producer has got the descriptors, or not. */
static void close_objects(const struct hr_feed_producer *p, int fds[HR_TAP_FDS], bool sent)
{
	if (!is_fixed(p))
		close_fds(fds, HR_TAP_FDS);
	else if (sent)
		hr_sets_spend(&p->memory->sets);
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

/* ---- messages */

/* A producer whose socket has no room for it loses the message. */
static int say(int fd, const struct hr_tap_message *m, const int *fds, unsigned count)
{
	const int err = fd < 0 ? -ENOTCONN : hr_scm_send(fd, m, sizeof *m, fds, count);

	if (err)
		hr_debug("feed: a message of kind %u is lost: %s", m->kind, strerror(-err));
	return err;
}

/* A forked child of this process may hold a copy of the descriptor. */
static void hang_up(struct hr_feed_producer *p)
{
	if (p->fd < 0)
		return;
	p->run->feed.present = 0;
	shutdown(p->fd, SHUT_RDWR);
	close(p->fd);
	if (is_fixed(p))
		hr_feed_owner_set(&p->owner, p->credentials.process, p->pidfd, p->detached,
				  hr_now_ns());
	else if (p->pidfd >= 0)
		close(p->pidfd);
	p->fd = p->pidfd = -1;
}

/* ---- states */

static const char *describe(const struct hr_feed_producer *p, char *text, size_t bytes)
{
	snprintf(text, bytes, "feed '%s': producer '%s' (process %d of user %u)",
		 p->run->config->feed.name, p->name, (int)p->credentials.process,
		 (unsigned)p->credentials.user);
	return text;
}

static void set_state(struct hr_feed_producer *p, enum hr_feed_producer_state state)
{
	p->state = state;
	p->since_ns = hr_now_ns();
}

/* Time in its state; the state may be newer than the step. */
static uint64_t age_ns(uint64_t since_ns, uint64_t now_ns)
{
	return now_ns > since_ns ? now_ns - since_ns : 0;
}

static void order(const struct hr_feed_producer *p, enum hr_feed_order what)
{
	struct hr_feed_words *words = words_of(p);
	const uint32_t last = words->order / HR_FEED_ORDERS;

	hr_release_sys_u32(&words->order, (last + 1) * HR_FEED_ORDERS + (uint32_t)what);
}

/* The worker does not access the memory any more. The runner starts and ends runs in this thread. */
static bool is_closed(const struct hr_feed_producer *p)
{
	const struct hr_feed_words *words = words_of(p);

	return !p->run->started_ns || p->run->ended_ns ||
	       hr_acquire_sys_u32(&words->obeyed) == words->order;
}

static void forget(struct hr_feed_producer *p)
{
	unmap(p, HR_TAP_FDS);
	hang_up(p);
	p->state = HR_FEED_ABSENT;
}

/* Keep what it has committed. */
static void close_producer(struct hr_feed_producer *p)
{
	char text[3 * HR_NAME_MAX];

	hr_info("%s has gone", describe(p, text, sizeof text));
	hang_up(p);
	if (p->state == HR_FEED_GREETED) {
		forget(p);
		return;
	}
	order(p, HR_FEED_CLOSE);
	set_state(p, HR_FEED_CLOSING);
}

static void drop(struct hr_feed_producer *p, const char *why)
{
	struct hr_tap_message m = { 0 };
	char text[3 * HR_NAME_MAX];

	hr_warn("%s is dropped: %s", describe(p, text, sizeof text), why);
	hr_tap_message_begin(&m, HR_TAP_REVOKED, HR_FEED_VERSION);
	snprintf(m.text, sizeof m.text, "%s", why);
	say(p->fd, &m, NULL, 0);
	p->run->feed.revoked++;
	hr_release_sys_u32(&head_of(p)->state, HR_TAP_STOPPED);
	close_producer(p);
}

static void attach(struct hr_feed_producer *p)
{
	char text[3 * HR_NAME_MAX];

	words_of(p)->credits = p->credits;
	/* of the producer before, whose orders the worker has carried out, or has never seen */
	words_of(p)->fault = HR_FEED_SOUND;
	words_of(p)->offered = words_of(p)->committed = 0;
	order(p, HR_FEED_OFFER);
	set_state(p, HR_FEED_ATTACHED);
	p->run->feed.attached++;
	p->run->feed.present = 1;
	p->woken = p->leases = 0;
	p->told_last = false;
	p->committed = 0;
	p->committed_ns = p->since_ns;
	hr_info("%s is attached, %u credits", describe(p, text, sizeof text), p->credits);
}

/* True when a message came: a producer that attaches and goes at once has sent two, and the next one
 * must not be refused for it. Each message but READY ends the connection. */
static bool listen_to(struct hr_feed_producer *p)
{
	struct hr_tap_message m = { 0 };
	const int came = hr_tap_message_receive(p->fd, &m);

	if (!came)
		return false;
	p->detached = came > 0 && m.kind == HR_TAP_DETACH;
	if ((came < 0 && came != -EPROTO) || p->detached)
		close_producer(p);
	else if (came > 0 && m.kind == HR_TAP_READY && p->state == HR_FEED_GREETED)
		attach(p);
	else
		drop(p, "it sent a message that the protocol does not have here");
	return true;
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
	drop(p, why);
}

static void check_lease(struct hr_feed_producer *p, uint64_t now_ns)
{
	const struct hr_feed_words *words = words_of(p);
	const uint64_t lease_ns = p->run->config->feed.lease_ns;
	const uint64_t committed = hr_acquire_sys_u64(&words->committed);
	const uint64_t offered = hr_acquire_sys_u64(&words->offered);
	char text[3 * HR_NAME_MAX];

	if (committed != p->committed || offered <= committed) {
		p->committed = committed;
		p->committed_ns = now_ns;
		p->late = false;
	} else if (lease_ns && !p->late && age_ns(p->committed_ns, now_ns) >= lease_ns) {
		p->late = true;
		p->leases++;
		p->run->feed.late++;
		hr_warn("%s holds %llu tiles and has committed none for %llu ms",
			describe(p, text, sizeof text), (unsigned long long)(offered - committed),
			(unsigned long long)((now_ns - p->committed_ns) / HR_NS_PER_MS));
	}
}

/* The page is untrusted: a wrong word only brings its owner a message more, or one less, at each
 * step. A message that does not fit is lost, because the socket can be read then. */
static void wake(struct hr_feed_producer *p)
{
	const struct hr_feed_commits *page =
		(const struct hr_feed_commits *)(const void *)hr_run_feed_page(p->run);
	const uint64_t wanted = hr_acquire_sys_u64(&page->wake);
	const bool is_last = hr_acquire_sys_u32(&head_of(p)->last) != 0;
	struct hr_tap_message m;
	bool is_there;

	if (!wanted || hr_acquire_sys_u32(&words_of(p)->obeyed) != words_of(p)->order)
		return;
	is_there = wanted != p->woken && hr_acquire_sys_u64(&words_of(p)->offered) >= wanted;
	if (is_there || (is_last && !p->told_last)) {
		hr_tap_message_begin(&m, HR_TAP_TILES, HR_FEED_VERSION);
		say(p->fd, &m, NULL, 0);
	}
	p->woken = is_there ? wanted : p->woken;
	p->told_last = is_last;
}

bool hr_feed_producer_snapshot(const struct hr_feed_producer *p, struct hr_record_producer *to)
{
	memset(to, 0, sizeof *to);
	if (p->state != HR_FEED_ATTACHED)
		return false;
	to->attached = 1;
	to->process = p->credentials.process > 0 ? (uint64_t)p->credentials.process : 0;
	to->user = p->credentials.user;
	memcpy(to->name, p->name, sizeof to->name);
	hr_counters_snapshot_producer(&to->count, p->run);
	to->count.credits = p->credits;
	to->count.late = p->leases;
	if (to->count.held)
		to->count.idle_ns = age_ns(p->committed_ns, hr_now_ns());
	return true;
}

static bool has_ended(const struct hr_feed_producer *p)
{
	return p->pidfd >= 0 && hr_wait_readable(p->pidfd, 0);
}

static bool is_present(const struct hr_feed_producer *p)
{
	return p->state == HR_FEED_GREETED || p->state == HR_FEED_ATTACHED;
}

void hr_feed_producer_step(struct hr_feed_producer *p, bool events, uint64_t now_ns)
{
	while (events && is_present(p) && listen_to(p))
		;
	if (p->state == HR_FEED_GREETED && age_ns(p->since_ns, now_ns) >= HR_FEED_READY_NS)
		drop(p, "it did not map the tiles in time");
	if (p->state == HR_FEED_ATTACHED)
		check_fault(p);
	if (p->state == HR_FEED_ATTACHED) {
		check_lease(p, now_ns);
		wake(p);
	}
	if (is_present(p) && events && has_ended(p))
		close_producer(p);
	if (is_present(p))
		hr_release_sys_u64(&head_of(p)->durable, p->run->durable_tiles);
	if (p->state == HR_FEED_CLOSING && is_closed(p))
		forget(p);
}

/* ---- begin and end */

static void copy_name(char name[HR_NAME_MAX], const char *from, size_t bytes)
{
	const size_t length = strnlen(from, bytes < HR_NAME_MAX ? bytes : HR_NAME_MAX - 1);

	for (size_t i = 0; i < length; i++)
		name[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	name[length] = '\0';
}

static void describe_feed(const struct hr_feed_producer *p, struct hr_tap_message *m)
{
	const struct hr_run *run = p->run;
	const struct hr_config_feed *feed = &run->config->feed;

	hr_tap_message_begin(m, HR_FEED_WELCOME, HR_FEED_VERSION);
	m->credits = p->credits;
	m->slots = run->slots;
	m->ring = run->feed.role.ring;
	m->epoch = p->epoch;
	m->tiles = run->tiles;
	m->first = hr_acquire_sys_u64(&words_of(p)->next);
	m->stride = hr_layout_tile_bytes(run->source[0].tile_bytes);
	m->tile_bytes = run->source[0].tile_bytes;
	m->columns = feed->columns;
	if (is_fixed(p)) {
		m->memory = HR_TAP_MEMORY_CUDA;
		m->gpu.bytes = p->memory->bytes;
		memcpy(m->gpu.uuid, p->facts->uuid, sizeof m->gpu.uuid);
	}
	snprintf(m->dtype, sizeof m->dtype, "%s", feed->dtype);
	snprintf(m->name, sizeof m->name, "%s", run->config->name);
}

int hr_feed_producer_greet(struct hr_feed_producer *p, const struct hr_tap_message *hello,
			   const struct hr_credentials *peer, int fd, int pidfd, struct hr_error *e)
{
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS];
	int err = hr_feed_owner_check(&p->owner, peer->process, p->facts && p->facts->mps,
				      hr_now_ns(), e);

	if (!err)
		err = map(p, fds, e);
	if (err)
		return err;
	p->credits = hr_run_feed_credits(p->run);
	if (hello->credits && hello->credits < p->credits)
		p->credits = hello->credits;
	describe_feed(p, &m);
	err = say(fd, &m, fds, HR_TAP_FDS);
	close_objects(p, fds, !err);
	if (err) {
		unmap(p, HR_TAP_FDS);
		return hr_fail(e, HR_ERROR_FAILED, err, "%s", strerror(-err));
	}
	hr_feed_owner_forget(&p->owner);
	p->fd = fd;
	p->pidfd = pidfd;
	p->credentials = *peer;
	p->late = p->detached = false;
	copy_name(p->name, hello->name, sizeof hello->name);
	set_state(p, HR_FEED_GREETED);
	return 0;
}

void hr_feed_producer_end(struct hr_feed_producer *p)
{
	const struct hr_run *run = p->run;
	const bool whole = run->outcome == HR_RUN_DONE;
	struct hr_tap_message m = { 0 };

	if (p->state == HR_FEED_ABSENT)
		return;
	hr_tap_message_begin(&m, HR_TAP_END, HR_FEED_VERSION);
	m.code = (uint16_t)(whole ? 0 : run->cause.kind ? run->cause.kind : HR_ERROR_FAILED);
	m.tiles = whole ? run->tiles : run->durable_tiles;
	if (!whole)
		snprintf(m.text, sizeof m.text, "%.*s", (int)sizeof m.text - 1,
			 run->cause.kind ? run->cause.text : "the run was interrupted");
	hr_release_sys_u64(&head_of(p)->durable, run->durable_tiles);
	hr_release_sys_u32(&head_of(p)->state, whole ? HR_TAP_ENDED : HR_TAP_STOPPED);
	say(p->fd, &m, NULL, 0);
	forget(p);
}
