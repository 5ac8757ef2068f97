#include "boot/appliance/lend/consumer.h"

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

/* ---- memory of a seat */

static uint64_t ring_bytes(const struct hr_run *run)
{
	return hr_tap_ring_bytes(run->tap.role.ring);
}

static uint64_t page_bytes(const struct hr_run *run)
{
	return hr_tap_page_bytes(run->slots);
}

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

static void unmap_seat(const struct hr_tap_table *table, uint32_t seat)
{
	const struct hr_run *run = table->run;

	if (has_sets(table))
		return;
	hr_tap_memory_drop(head_of(run, seat), ring_bytes(run));
	hr_tap_memory_drop(page_of(run, seat), page_bytes(run));
}

/* New objects for each consumer: an earlier one may still have those of the seat mapped. */
static int make_seat(const struct hr_run *run, uint32_t seat, int fds[HR_TAP_FDS],
		     struct hr_error *e)
{
	struct hr_tap_head *head = head_of(run, seat);

	fds[1] = hr_tap_memory_create("headrace tap entries", head, ring_bytes(run),
				      HR_TAP_READ_ONLY, e);
	if (fds[1] < 0)
		return fds[1];
	fds[2] = hr_tap_memory_create("headrace tap page", page_of(run, seat), page_bytes(run),
				      HR_TAP_WRITABLE, e);
	if (fds[2] >= 0)
		return 0;
	close(fds[1]);
	hr_tap_memory_drop(head, ring_bytes(run));
	return fds[2];
}

/* The client has got the descriptors, or not. */
static void close_seat(const struct hr_tap_table *table, const int fds[HR_TAP_FDS], bool sent)
{
	if (!has_sets(table)) {
		close(fds[1]);
		close(fds[2]);
	} else if (sent) {
		hr_sets_spend(&tiles_of(table)->sets);
	}
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
		err = make_seat(run, seat, fds, e);
	if (err)
		return err;
	head = head_of(run, seat);
	head->magic = HR_TAP_MAGIC;
	head->version = HR_TAP_VERSION;
	head->epoch = table->epoch;
	head->state = HR_TAP_RUNS;
	return 0;
}

/* ---- sockets */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* A forked child of this process may hold a copy of the descriptor. */
static void hang_up(int *fd)
{
	if (*fd >= 0)
		shutdown(*fd, SHUT_RDWR);
	close_fd(fd);
}

/* A consumer whose socket has no room for it loses the message. */
static int say(int fd, const struct hr_tap_message *m, const int *fds, unsigned count)
{
	const int err = fd < 0 ? -ENOTCONN : hr_scm_send(fd, m, sizeof *m, fds, count);

	if (err)
		hr_debug("tap: a message of kind %u is lost: %s", m->kind, strerror(-err));
	return err;
}

/* ---- consumers */

static const char *describe(const struct hr_tap_consumer *c, char *text, size_t bytes)
{
	snprintf(text, bytes, "'%s' (process %d of user %u)", c->name, (int)c->credentials.process,
		 (unsigned)c->credentials.user);
	return text;
}

static const char *tap_name(struct hr_tap_table *table)
{
	return table->run->config->tap.name;
}

static void set_state(struct hr_tap_consumer *c, enum hr_tap_consumer_state state)
{
	c->state = state;
	c->since_ns = hr_now_ns();
}

/* Time in its state; the state may be newer than the step. */
static uint64_t age_ns(uint64_t since_ns, uint64_t now_ns)
{
	return now_ns > since_ns ? now_ns - since_ns : 0;
}

static void order(struct hr_tap_table *table, uint32_t seat, enum hr_tap_order what)
{
	struct hr_tap_seat *words = words_of(table->run, seat);
	const uint32_t last = words->order / HR_TAP_ORDERS;

	hr_release_sys_u32(&words->order, (last + 1) * HR_TAP_ORDERS + (uint32_t)what);
}

/* The worker does not access the memory of the seat any more. The runner starts and ends runs in
 * this thread. */
static bool is_closed(struct hr_tap_table *table, uint32_t seat)
{
	const struct hr_tap_seat *words = words_of(table->run, seat);

	return !table->run->started_ns || table->run->ended_ns ||
	       hr_acquire_sys_u32(&words->obeyed) == words->order;
}

static void free_seat(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	unmap_seat(table, seat);
	hang_up(&c->fd);
	close_fd(&c->pidfd);
	c->state = HR_TAP_FREE;
}

/* Its connection has ended, or it has: no further tile is lent to it. */
static void leave(struct hr_tap_table *table, struct hr_tap_consumer *c)
{
	if (c->state == HR_TAP_ATTACHED)
		table->run->tap.present--;
}

/* Take the tiles of the consumer back. */
static void close_consumer(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	char text[2 * HR_NAME_MAX];

	hr_info("tap '%s': consumer %s has gone", tap_name(table), describe(c, text, sizeof text));
	hang_up(&c->fd);
	if (c->state == HR_TAP_GREETED) {
		free_seat(table, c, seat);
		return;
	}
	leave(table, c);
	order(table, seat, HR_TAP_CLOSE);
	set_state(c, HR_TAP_CLOSING);
}

/* End the connection of a consumer that breaks the protocol. */
static void drop_consumer(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat,
			  const char *why)
{
	struct hr_tap_message m = { 0 };
	char text[2 * HR_NAME_MAX];

	hr_warn("tap '%s': consumer %s is dropped: %s", tap_name(table),
		describe(c, text, sizeof text), why);
	hr_tap_message_begin(&m, HR_TAP_REVOKED, HR_TAP_VERSION);
	snprintf(m.text, sizeof m.text, "%s", why);
	say(c->fd, &m, NULL, 0);
	table->run->tap.revoked++;
	hr_relaxed_u32(&head_of(table->run, seat)->state, HR_TAP_STOPPED);
	hang_up(&c->fd);
	if (c->state == HR_TAP_ATTACHED)
		order(table, seat, HR_TAP_HOLD);
	leave(table, c);
	set_state(c, HR_TAP_LEAVING);
}

static bool has_ended(const struct hr_tap_consumer *c)
{
	return c->pidfd >= 0 && hr_wait_readable(c->pidfd, 0);
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
	char text[2 * HR_NAME_MAX];

	table->run->tap.attached++;
	table->run->tap.present++;
	hr_tap_allot_begin(&c->share, slots_to_share(table),
			   is_shared(table) ? (uint32_t)table->run->tap.present : 1);
	/* a worker looks at the credits of free seats, too */
	hr_release_sys_u32(&words_of(table->run, seat)->credits, c->share.credits);
	order(table, seat, HR_TAP_LEND);
	set_state(c, HR_TAP_ATTACHED);
	hr_info("tap '%s': consumer %s is attached, %u credits", tap_name(table),
		describe(c, text, sizeof text), c->credits);
}

/* Messages of a consumer that was welcomed. */
static void listen_to(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	struct hr_tap_message m = { 0 };
	const int came = hr_tap_message_receive(c->fd, &m);

	if (!came)
		return;
	if (came < 0 && came != -EPROTO) {
		if (c->state == HR_TAP_ATTACHED)
			order(table, seat, HR_TAP_HOLD);
		leave(table, c);
		close_fd(&c->fd);
		set_state(c, HR_TAP_LEAVING);
	} else if (came > 0 && m.kind == HR_TAP_READY && c->state == HR_TAP_GREETED) {
		attach(table, c, seat);
	} else if (came > 0 && m.kind == HR_TAP_DETACH) {
		close_consumer(table, c, seat);
	} else {
		drop_consumer(table, c, seat,
			      "it sent a message that the protocol does not have here");
	}
}

/* The worker has carried out the newest order, so the words are those of this consumer. */
static bool is_obeyed(const struct hr_tap_table *table, uint32_t seat)
{
	const struct hr_tap_seat *words = words_of(table->run, seat);

	return hr_acquire_sys_u32(&words->obeyed) == words->order;
}

/* Name the consumer once for each tile. */
static void check_lease(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	const struct hr_tap_seat *words = words_of(table->run, seat);
	const uint64_t lease_ns = table->run->config->tap.lease_ns;
	const uint64_t held_ns = hr_acquire_sys_u64(&words->oldest_ns);
	const uint64_t tile = hr_acquire_sys_u64(&words->oldest_tile);
	char text[2 * HR_NAME_MAX];

	if (!lease_ns || held_ns < lease_ns || !is_obeyed(table, seat) ||
	    (c->late && c->late_tile == tile))
		return;
	c->late++;
	c->late_tile = tile;
	table->run->tap.late++;
	hr_warn("tap '%s': consumer %s holds tile %llu for %llu ms, and %llu tiles in all",
		tap_name(table), describe(c, text, sizeof text), (unsigned long long)tile,
		(unsigned long long)(held_ns / HR_NS_PER_MS),
		(unsigned long long)(hr_acquire_sys_u64(&words->lent) -
				     hr_acquire_sys_u64(&words->returned)));
}

/* The page is untrusted: a wrong word only brings its owner a message more, or one less, at each
 * step. A message that does not fit is lost, because the socket can be read then. */
static void wake(struct hr_tap_table *table, struct hr_tap_consumer *c, uint32_t seat)
{
	const uint64_t wanted = hr_acquire_sys_u64(&page_of(table->run, seat)->wake);
	const bool is_last = hr_acquire_sys_u32(&head_of(table->run, seat)->last) != 0;
	struct hr_tap_message m;
	bool is_there;

	if (!wanted || !is_obeyed(table, seat))
		return;
	is_there = wanted != c->woken &&
		   hr_acquire_sys_u64(&words_of(table->run, seat)->lent) >= wanted;
	if (is_there || (is_last && !c->told_last)) {
		hr_tap_message_begin(&m, HR_TAP_TILES, HR_TAP_VERSION);
		say(c->fd, &m, NULL, 0);
	}
	c->woken = is_there ? wanted : c->woken;
	c->told_last = is_last;
}

/* It has the seat, and the worker knows it. */
static bool is_served(const struct hr_tap_table *table, uint32_t seat)
{
	return table->consumer[seat].state == HR_TAP_ATTACHED && is_obeyed(table, seat);
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

	if (c->state == HR_TAP_FREE)
		return;
	if (events && c->state <= HR_TAP_ATTACHED)
		listen_to(table, c, seat);
	if (c->state == HR_TAP_GREETED && age_ns(c->since_ns, now_ns) >= HR_TAP_READY_NS)
		drop_consumer(table, c, seat, "it did not map the tiles in time");
	if (c->state == HR_TAP_ATTACHED) {
		check_lease(table, c, seat);
		wake(table, c, seat);
	}
	if (c->state != HR_TAP_CLOSING && c->state != HR_TAP_FREE &&
	    ((events && has_ended(c)) ||
	     (c->state == HR_TAP_LEAVING && age_ns(c->since_ns, now_ns) >= HR_TAP_QUARANTINE_NS)))
		close_consumer(table, c, seat);
	if (c->state == HR_TAP_CLOSING && is_closed(table, seat))
		free_seat(table, c, seat);
}

/* ---- begin and end */

void hr_tap_consumers_begin(struct hr_tap_table *table)
{
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		table->consumer[seat].fd = table->consumer[seat].pidfd = -1;
}

int hr_tap_consumer_seat(const struct hr_tap_table *table)
{
	for (uint32_t i = 0; i < HR_TAP_SEATS; i++)
		if (table->consumer[i].state == HR_TAP_FREE)
			return (int)i;
	return -EBUSY;
}

static void copy_name(char name[HR_NAME_MAX], const char *from, size_t bytes)
{
	const size_t length = strnlen(from, bytes < HR_NAME_MAX ? bytes : HR_NAME_MAX - 1);

	for (size_t i = 0; i < length; i++)
		name[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	name[length] = '\0';
}

static void describe_tap(const struct hr_tap_table *table, uint32_t credits,
			 struct hr_tap_message *m)
{
	const struct hr_run *run = table->run;
	const struct hr_config_tap *tap = &run->config->tap;

	hr_tap_message_begin(m, HR_TAP_WELCOME, HR_TAP_VERSION);
	m->credits = credits;
	m->slots = run->slots;
	m->ring = run->tap.role.ring;
	m->epoch = table->epoch;
	m->tiles = run->tiles;
	m->first = run->first_tile;
	m->stride = hr_layout_tile_bytes(run->sink_tile_bytes);
	m->tile_bytes = run->sink_tile_bytes;
	m->columns = tap->columns;
	m->each = tap->deliver == HR_TAP_EACH;
	if (table->facts) {
		m->memory = HR_TAP_MEMORY_CUDA;
		m->gpu.bytes = tiles_of(table)->bytes;
		memcpy(m->gpu.uuid, table->facts->uuid, sizeof m->gpu.uuid);
	}
	snprintf(m->dtype, sizeof m->dtype, "%s", tap->dtype);
	snprintf(m->name, sizeof m->name, "%s", run->config->name);
}

int hr_tap_consumer_greet(struct hr_tap_table *table, uint32_t seat,
			  const struct hr_tap_message *hello, const struct hr_credentials *peer,
			  int fd, int pidfd, struct hr_error *e)
{
	struct hr_tap_consumer *c = &table->consumer[seat];
	struct hr_tap_message m = { 0 };
	int fds[HR_TAP_FDS], err;

	memset(c, 0, sizeof *c);
	c->fd = c->pidfd = -1;
	err = map_seat(table, seat, fds, e);
	if (err)
		return err;
	c->credits = hr_run_tap_credits(table->run);
	if (hello->credits && hello->credits < c->credits)
		c->credits = hello->credits;
	c->share.most = c->credits;
	c->share.asked = hello->credits || !is_shared(table);
	describe_tap(table, c->credits, &m);
	err = say(fd, &m, fds, HR_TAP_FDS);
	close_seat(table, fds, !err);
	if (err) {
		unmap_seat(table, seat);
		return hr_fail(e, HR_ERROR_FAILED, err, "%s", strerror(-err));
	}
	c->fd = fd;
	c->pidfd = pidfd;
	c->credentials = *peer;
	copy_name(c->name, hello->name, sizeof hello->name);
	set_state(c, HR_TAP_GREETED);
	return 0;
}

static void end_consumer(struct hr_tap_table *table, uint32_t seat, bool again)
{
	struct hr_tap_consumer *c = &table->consumer[seat];
	const struct hr_run *run = table->run;
	const bool whole = run->outcome == HR_RUN_DONE;
	struct hr_tap_message m = { 0 };

	hr_tap_message_begin(&m, HR_TAP_END, HR_TAP_VERSION);
	m.code = (uint16_t)(whole ? 0 : run->cause.kind ? run->cause.kind : HR_ERROR_FAILED);
	m.tiles = run->done_tiles;
	m.again = again;
	if (!whole)
		snprintf(m.text, sizeof m.text, "%.*s", (int)sizeof m.text - 1,
			 run->cause.kind ? run->cause.text : "the run was interrupted");
	hr_release_sys_u32(&head_of(run, seat)->state, whole ? HR_TAP_ENDED : HR_TAP_STOPPED);
	say(c->fd, &m, NULL, 0);
	leave(table, c);
	free_seat(table, c, seat);
}

bool hr_tap_consumer_snapshot(const struct hr_tap_table *table, uint32_t seat,
			      struct hr_record_consumer *to)
{
	const struct hr_tap_consumer *c = &table->consumer[seat];

	if (c->state != HR_TAP_ATTACHED)
		return false;
	to->attached = 1;
	to->pipeline = table->pipeline;
	to->user = c->credentials.user;
	to->process = (uint64_t)c->credentials.process;
	memcpy(to->name, c->name, sizeof to->name);
	to->count.credits = words_of(table->run, seat)->credits;
	to->count.late = c->late;
	if (is_obeyed(table, seat))
		hr_counters_snapshot_consumer(&to->count, table->run, seat);
	return true;
}

void hr_tap_consumers_end(struct hr_tap_table *table, bool again)
{
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		if (table->consumer[seat].state != HR_TAP_FREE)
			end_consumer(table, seat, again);
}
