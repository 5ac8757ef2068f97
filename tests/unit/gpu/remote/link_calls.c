/* The public calls of a link, one by one: talk, device, life and door are the test's, which logs their
 * calls and decides results. */
#include "gpu/remote/link.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "config/clock.h"
#include "gpu/remote/door.h"
#include "gpu/remote/internal.h"
#include "gpu/remote/life.h"
#include "gpu/remote/loopback.h"
#include "gpu/remote/wake.h"
#include "tests/harness/calls.h"
#include "tests/fakes/clock.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER
#define LIFE_MAX 64u /* steps of one call */

static struct {
	int address, local, load, loopback, listen, watch;
	bool life[LIFE_MAX + 2];  /* results of hr_life_step() */
	unsigned lives, event_at; /* in this step there is an event; 0: in none */
	unsigned polls;		  /* until the queue pair is drained */
	int poll;
} will;
static struct hr_link *link_;
static struct hr_link_setup setup;
static struct hr_error error;

static int result(int err, struct hr_error *e)
{
	return err ? hr_fail(e, HR_ERROR_MISSING, err, "asked to fail") : 0;
}

int hr_talk_address(const char *text, struct sockaddr_in *address, struct hr_error *e)
{
	calls_note("address %s;", text);
	address->sin_port = htons(4711);
	cr_expect_eq(inet_pton(AF_INET, "10.0.1.2", &address->sin_addr), 1);
	return result(will.address, e);
}

int hr_talk_local(const struct sockaddr_in *to, struct in_addr *local, struct hr_error *e)
{
	calls_note("local;");
	cr_expect_eq(ntohs(to->sin_port), 4711);
	cr_expect_eq(inet_pton(AF_INET, "10.0.1.1", local), 1);
	return result(will.local, e);
}

int hr_talk_listen(struct sockaddr_in *at, struct hr_error *e)
{
	calls_note("listen;");
	at->sin_port = htons(4712);
	return will.listen ? result(will.listen, e) : open("/dev/null", O_RDONLY);
}

int hr_talk_step(struct hr_link_talk *talk, uint64_t now_ns)
{
	calls_note("talk %d %llu;", talk->fd, (unsigned long long)now_ns);
	return 0;
}

void hr_talk_close(struct hr_link_talk *talk)
{
	calls_note("hang up;");
}

int hr_wake_watch(struct hr_link *link, int fd, enum hr_link_wake kind)
{
	calls_note("watch %d;", (int)kind);
	cr_expect(fd >= 0 && fd == link->listener && link->epoll >= 0);
	return will.watch;
}

int hr_verbs_load(struct hr_verbs *verbs, struct hr_error *e)
{
	calls_note("load;");
	return result(will.load, e);
}

void hr_verbs_unload(struct hr_verbs *verbs)
{
	calls_note("unload;");
}

int hr_rdma_loopback(const struct hr_verbs *verbs, const char *name, struct in_addr address,
		     const struct hr_link_memory *memory, struct hr_error *e)
{
	char text[INET_ADDRSTRLEN];

	calls_note("loopback %s %s %u;", name ? name : "any",
		   inet_ntop(AF_INET, &address, text, sizeof text), memory->slots);
	return result(will.loopback, e);
}

bool hr_life_step(struct hr_link *link)
{
	cr_assert_lt(will.lives, LIFE_MAX + 2);
	if (++will.lives == will.event_at)
		link->event[link->events++] = (struct hr_link_event){ .kind = HR_LINK_SENT };
	return will.life[will.lives - 1];
}

void hr_life_say(struct hr_link *link)
{
	calls_note("say;");
}

void hr_rdma_qp_break(struct hr_rdma_qp *qp)
{
	calls_note("break;");
}

bool hr_rdma_qp_drained(const struct hr_rdma_qp *qp)
{
	return will.polls == 0;
}

int hr_rdma_qp_poll(struct hr_rdma_qp *qp, struct hr_rdma_done *done)
{
	will.polls--;
	return will.poll;
}

void hr_rdma_qp_destroy(struct hr_rdma_qp *qp)
{
	calls_note("destroy;");
}

void hr_door_close(struct hr_link *link)
{
	calls_note("door;");
}

static uint8_t memory[64];

static void begin(void)
{
	memset(&will, 0, sizeof will);
	memset(&error, 0, sizeof error);
	calls_take();
	setup = (struct hr_link_setup){ .side = R,
					.name = "stream",
					.address = "10.0.1.2:0",
					.key = { 1, 2, 3 },
					.memory = { .base = memory,
						    .bytes = 4096,
						    .dmabuf = -1,
						    .slots = 4,
						    .stride = 1024 },
					.tile_bytes = 1000,
					.tiles = 50 };
}

TestSuite(link_calls, .init = begin, .timeout = 60);

#define BEGIN_R "address 10.0.1.2:0;load;loopback any 10.0.1.2 4;listen;watch 1;"
#define BEGIN_S "address 10.0.1.2:0;local;load;loopback any 10.0.1.1 4;"
#define END "break;destroy;hang up;door;unload;"

static void open_as(enum hr_link_side side)
{
	setup.side = side;
	cr_assert_eq(hr_link_open(&link_, &setup, &error), 0, "%s", error.text);
	calls_take();
}

static int load(void *to, uint64_t at, void *data, size_t bytes)
{
	return 0;
}

static int store(void *to, uint64_t at, const void *data, size_t bytes)
{
	return 0;
}

Test(link_calls, each_limit_of_a_setup)
{
	static const char range[] = "link stream: slots, tiles or memory out of range";
	static const char names[] = "link: the name has 1 to 63 characters";
	static char name[HR_NAME_MAX + 1];
	const struct hr_link_setup good = setup;

#define REFUSED(change, want)                                                         \
	do {                                                                          \
		setup = good;                                                         \
		change;                                                               \
		memset(&error, 0, sizeof error);                                      \
		cr_expect_eq(hr_link_open(&link_, &setup, &error), -EINVAL, #change); \
		cr_expect_eq(error.kind, HR_ERROR_USAGE);                             \
		cr_expect_str_eq(error.text, want, #change ": %s", error.text);       \
		EXPECT_CALLS("");                                                     \
	} while (0)
#define TAKEN(change)                                                           \
	do {                                                                    \
		setup = good;                                                   \
		change;                                                         \
		cr_expect_eq(hr_link_open(&link_, &setup, &error), 0, #change); \
		hr_link_close(link_);                                           \
	} while (0)
	TAKEN(setup.memory.slots = 1; setup.memory.bytes = 1024);
	TAKEN(setup.memory.slots = HR_LINK_SLOTS_MAX; setup.memory.bytes = 1024 * 1024);
	TAKEN(setup.tile_bytes = 1024);
	TAKEN(setup.tile_bytes = 1; setup.memory.stride = HR_RDMA_INLINE);
	TAKEN(setup.tile_bytes = setup.memory.stride = HR_TILE_MAX;
	      setup.memory.bytes = 4ull * HR_TILE_MAX);
	TAKEN(setup.tiles = 1);
	TAKEN(setup.tiles = UINT64_MAX / 2);
	TAKEN(setup.depth = HR_LINK_SLOTS_MAX);
	TAKEN(setup.memory.dmabuf = 0; setup.memory.load = load; setup.memory.store = store);
	TAKEN(setup.name = "s");
	memset(name, 'n', HR_NAME_MAX - 1);
	TAKEN(setup.name = name);
	calls_take();
	REFUSED(setup.memory.slots = 0, range);
	REFUSED(setup.memory.slots = HR_LINK_SLOTS_MAX + 1;
		setup.memory.bytes = 1025 * 1024, range);
	REFUSED(setup.memory.bytes = 4095, range);
	REFUSED(setup.tile_bytes = 0, range);
	REFUSED(setup.tile_bytes = 1025, range);
	REFUSED(setup.tile_bytes = 1; setup.memory.stride = HR_RDMA_INLINE - 1, range);
	REFUSED(setup.tile_bytes = setup.memory.stride = HR_TILE_MAX + 1;
		setup.memory.bytes = 5ull * HR_TILE_MAX, range);
	REFUSED(setup.tiles = 0, range);
	REFUSED(setup.tiles = UINT64_MAX / 2 + 1, range);
	REFUSED(setup.depth = HR_LINK_SLOTS_MAX + 1, range);
	REFUSED(setup.memory.base = NULL, range);
	REFUSED(setup.memory.dmabuf = 0; setup.memory.load = load, range);
	REFUSED(setup.memory.dmabuf = 0; setup.memory.store = store, range);
	REFUSED(setup.peers = HR_REMOTE_PEERS_MAX + 1, range);
	REFUSED(setup.name = "", names);
	name[HR_NAME_MAX - 1] = 'n';
	REFUSED(setup.name = name, names);
}

Test(link_calls, a_receiver_listens_and_a_sender_finds_its_way)
{
	static const char peer[1][HR_NAME_MAX] = { "10.0.0.1" };

	setup.peer = peer;
	setup.depth = 5;
	setup.dead_ns = 123;
	setup.device = "dev7";
	cr_assert_eq(hr_link_open(&link_, &setup, &error), 0);
	EXPECT_CALLS("address 10.0.1.2:0;load;loopback dev7 10.0.1.2 4;listen;watch 1;");
	cr_expect_eq(link_->depth, 5);
	cr_expect_eq(link_->dead_ns, 123);
	cr_expect_eq(hr_link_port(link_), 4712);
	cr_expect(link_->table && ((uint8_t *)link_->table)[HR_LINK_TABLE_BYTES - 1] == 0);
	hr_link_close(link_);
	EXPECT_CALLS(END);
	setup.depth = 0;
	setup.dead_ns = 0;
	setup.device = NULL;
	setup.side = S;
	cr_assert_eq(hr_link_open(&link_, &setup, &error), 0);
	EXPECT_CALLS(BEGIN_S);
	cr_expect_eq(link_->depth, 8);
	cr_expect_eq(link_->dead_ns, HR_NS_PER_S);
	cr_expect_eq(hr_link_port(link_), 4711);
	cr_expect_eq(hr_link_fd(link_), link_->epoll);
	cr_expect(link_->listener == -1 && link_->talk.fd == -1);
	for (unsigned i = 0; i < HR_LINK_STRANGERS; i++)
		cr_expect_eq(link_->stranger[i].fd, -1);
	/* what a hello says; the caller's key and texts are not kept */
	cr_expect_eq(link_->self.hello.version, HR_LINK_VERSION);
	cr_expect_eq(link_->self.hello.side, S);
	cr_expect_eq(link_->self.hello.tiles, 50);
	cr_expect_eq(link_->self.hello.tile_bytes, 1000);
	cr_expect_neq(link_->self.hello.instance, 0);
	cr_expect_str_eq(link_->self.hello.name, "stream");
	cr_expect_eq(link_->setup.name, link_->self.hello.name);
	cr_expect_eq(link_->self.key, link_->key);
	cr_expect_arr_eq(link_->key, setup.key, sizeof setup.key);
	for (unsigned i = 0; i < HR_LINK_KEY_BYTES; i++)
		cr_expect_eq(link_->setup.key[i], 0);
	cr_expect(!link_->setup.device && !link_->setup.address && !link_->setup.peer);
	hr_link_close(link_);
	hr_link_close(NULL);
}

Test(link_calls, an_opening_ends_at_the_first_error)
{
	static const struct {
		int *of;
		const char *log, *text;
	} row[] = {
		{ &will.address, "address 10.0.1.2:0;", "asked to fail" },
		{ &will.load, "address 10.0.1.2:0;load;", "asked to fail" },
		{ &will.loopback, "address 10.0.1.2:0;load;loopback any 10.0.1.2 4;",
		  "asked to fail" },
		{ &will.listen, "address 10.0.1.2:0;load;loopback any 10.0.1.2 4;listen;",
		  "asked to fail" },
		{ &will.watch, BEGIN_R, "link stream: No space left on device" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		char want[256];

		begin();
		*row[i].of = -ENOSPC;
		cr_expect_eq(hr_link_open(&link_, &setup, &error), -ENOSPC, "row %zu", i);
		cr_expect_str_eq(error.text, row[i].text, "%s", error.text);
		snprintf(want, sizeof want, "%s" END, row[i].log);
		EXPECT_CALLS(want);
	}
	setup.side = S;
	will.watch = 0;
	will.local = -ENETUNREACH;
	cr_expect_eq(hr_link_open(&link_, &setup, &error), -ENETUNREACH);
	EXPECT_CALLS("address 10.0.1.2:0;local;" END);
}

Test(link_calls, peers_are_addresses)
{
	static const char peer[HR_REMOTE_PEERS_MAX][HR_NAME_MAX] = { "10.0.0.1", "10.0.0.2",
								     "10.0.0.x" };

	setup.peer = peer;
	setup.peers = 2;
	open_as(R);
	cr_expect_eq(ntohl(link_->peer_address[0].s_addr), 0x0a000001);
	cr_expect_eq(ntohl(link_->peer_address[1].s_addr), 0x0a000002);
	hr_link_close(link_);
	setup.peers = 3;
	cr_expect_eq(hr_link_open(&link_, &setup, &error), -EINVAL);
	cr_expect_eq(error.kind, HR_ERROR_USAGE);
	cr_expect_str_eq(error.text, "link stream: '10.0.0.x' is no IPv4 address of a peer");
	/* a sender has none */
	open_as(S);
	hr_link_close(link_);
}

/* ---- steps */

Test(link_calls, a_step_ends_with_an_event_without_work_or_after_64_pieces)
{
	static const struct {
		unsigned work, event_at, lives;
		bool more;
	} row[] = { { 0, 0, 1, false },
		    { 3, 0, 4, false },
		    { 0, 1, 1, true },
		    { 3, 2, 2, true },
		    { LIFE_MAX - 1, 0, LIFE_MAX, false },
		    { 99, 0, LIFE_MAX, true },
		    { 99, 1, 1, true } };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_link_event event = { .kind = HR_LINK_UP, .tile = 1 };

		begin();
		open_as(S);
		for (unsigned j = 0; j < row[i].work && j < LIFE_MAX + 2; j++)
			will.life[j] = true;
		will.event_at = row[i].event_at;
		cr_expect_eq(hr_link_step(link_, 1000, &event, &error), row[i].more, "row %zu", i);
		cr_expect_eq(will.lives, row[i].lives, "row %zu: %u", i, will.lives);
		cr_expect_eq(event.kind, row[i].event_at ? HR_LINK_SENT : HR_LINK_NOTHING);
		cr_expect_eq(event.tile, 0);
		hr_link_close(link_);
	}
}

Test(link_calls, events_are_taken_in_their_order_before_more_work)
{
	struct hr_link_event event;

	open_as(S);
	link_->events = 3;
	for (unsigned i = 0; i < 4; i++)
		link_->event[i] = (struct hr_link_event){ .kind = HR_LINK_OFFERED, .tile = 7 + i };
	link_->event[2].kind = HR_LINK_FAILED;
	hr_fail(&link_->failure, HR_ERROR_DEVICE, -EIO, "why");
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(error.kind, HR_ERROR_NONE);
		cr_expect(hr_link_step(link_, 1, &event, &error));
		cr_expect_eq(event.tile, 7 + i);
		cr_expect_eq(link_->events, 2 - i);
	}
	cr_expect_str_eq(error.text, "why");
	cr_expect_eq(error.kind, HR_ERROR_DEVICE);
	cr_expect_eq(will.lives, 0);
	cr_expect_eq(link_->counted_ns, 0);
	/* an earlier error stays, and none is wanted */
	for (unsigned i = 0; i < 2; i++) {
		link_->events = 1;
		link_->event[0].kind = HR_LINK_FAILED;
		hr_error_clear(&link_->failure);
		hr_fail(&link_->failure, HR_ERROR_FAILED, -EIO, "another");
		cr_expect(hr_link_step(link_, 1, &event, i ? NULL : &error));
		cr_expect_str_eq(error.text, "why");
	}
	hr_link_close(link_);
}

/* A gap counts as an eighth of the limit at most, and in the counters whole. */
Test(link_calls, time_passes_in_pieces)
{
	struct hr_link_event event;

	setup.dead_ns = 800;
	open_as(S);
	hr_link_step(link_, 5000, &event, &error);
	cr_expect(link_->now_ns == 5000 && link_->lost_ns == 5000 && link_->since_ns == 5000);
	cr_expect_eq(hr_link_count(link_).down_ns, 0);
	hr_link_step(link_, 5099, &event, &error);
	cr_expect_eq(link_->now_ns, 5099);
	hr_link_step(link_, 5300, &event, &error);
	cr_expect_eq(link_->now_ns, 5199);
	cr_expect(link_->lost_ns == 5000 && link_->since_ns == 5000);
	cr_expect_eq(hr_link_count(link_).down_ns, 300);
	cr_expect_eq(hr_link_count(link_).up_ns, 0);
	link_->state = HR_LINK_IS_FLOW;
	hr_link_step(link_, 5400, &event, &error);
	cr_expect_eq(link_->now_ns, 5299);
	cr_expect_eq(hr_link_count(link_).down_ns, 300);
	cr_expect_eq(hr_link_count(link_).up_ns, 100);
	hr_link_close(link_);
}

/* ---- ends */

Test(link_calls, a_sender_says_the_end_and_a_receiver_what_is_durable)
{
	open_as(S);
	hr_link_durable(link_, 9);
	cr_expect_not(hr_link_has(link_, 0));
	hr_link_end(link_, 7, 700);
	EXPECT_CALLS("say;");
	cr_expect(link_->end_known && link_->end.tiles == 7 && link_->end.bytes == 700);
	hr_link_close(link_);
	open_as(R);
	hr_link_end(link_, 7, 700);
	EXPECT_CALLS("");
	cr_expect(!link_->end_known && link_->end.tiles == 0);
	hr_link_durable(link_, 9);
	cr_expect(hr_link_has(link_, 8) && !hr_link_has(link_, 9));
	cr_expect_not(hr_link_ended(link_));
	link_->state = HR_LINK_IS_ENDED;
	cr_expect(hr_link_ended(link_));
	hr_link_close(link_);
}

Test(link_calls, the_end_of_the_run_is_said_once_as_plain_text)
{
	static const struct {
		int code;
		uint32_t said;
		const char *text, *plain;
	} row[] = { { 0, 0, NULL, "" },
		    { 1, 1, "a\nb\x1f\x7f\x7e\x80 c", "a b  ~\x80 c" },
		    { HR_ERROR_DEVICE, HR_ERROR_DEVICE, "x", "x" },
		    { HR_ERROR_DEVICE + 1, HR_ERROR_FAILED, "x", "x" },
		    { -1, HR_ERROR_FAILED, "", "" } };

	for (size_t i = 0; i < ROWS(row); i++) {
		open_as(S);
		hr_link_finish(link_, row[i].code, row[i].text);
		hr_link_finish(link_, 2, "again");
		EXPECT_CALLS("say;");
		cr_expect(link_->done_set);
		cr_expect_eq(link_->done.code, row[i].said, "row %zu", i);
		cr_expect_str_eq(link_->done.text, row[i].plain, "%s", link_->done.text);
		hr_link_close(link_);
	}
}

Test(link_calls, it_describes_itself_in_each_state)
{
	static const char *const state[] = { "down",   "greeting", "opening", "flow",
					     "broken", "ended",	   "failed" };
	char want[128];

	for (int side = S; side <= R; side++) {
		open_as(side);
		inet_pton(AF_INET, "10.0.9.9", &link_->talk.peer.sin_addr);
		link_->talk.peer.sin_port = htons(99);
		for (unsigned i = 0; i < ROWS(state); i++) {
			link_->state = i;
			snprintf(link_->qp.device.name, sizeof link_->qp.device.name,
				 i % 2 ? "dev0" : "");
			link_->qp.device.port = (uint8_t)i;
			snprintf(want, sizeof want, "%s port %u, %s, %s",
				 i % 2 ? "dev0" : "no device", i,
				 side == S ? "10.0.1.1 -> 10.0.1.2:4711"
					   : "10.0.1.2 <- 10.0.9.9:99",
				 state[i]);
			cr_expect_str_eq(hr_link_describe(link_), want, "%s", link_->description);
		}
		hr_link_close(link_);
	}
}

/* At most a second, in which nothing is polled without a pause. */
Test(link_calls, completions_are_collected_before_the_end)
{
	static const struct {
		unsigned polls;
		int poll;
		bool has_qp;
		unsigned left, waits;
	} row[] = { { 3, 1, true, 0, 0 },
		    { 3, 0, true, 0, 3 },
		    { 3, -EIO, true, 0, 3 },
		    { 3, 1, false, 3, 0 },
		    { 20000, 0, true, 10000, 10000 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t before;

		begin();
		open_as(S);
		link_->talk.fd = 55;
		link_->now_ns = 66;
		link_->qp.qp = row[i].has_qp ? (void *)memory : NULL;
		will.polls = row[i].polls;
		will.poll = row[i].poll;
		fake_clock_start(1000, NULL, NULL);
		before = fake_clock_waits();
		hr_link_close(link_);
		cr_expect_eq(fake_clock_waits() - before, row[i].waits, "row %zu", i);
		fake_clock_stop();
		cr_expect_eq(will.polls, row[i].left, "row %zu: %u", i, will.polls);
		EXPECT_CALLS("talk 55 66;" END);
	}
}

/* Descriptors are closed: the next one has the same number. */
Test(link_calls, nothing_is_left_open)
{
	const int before = dup(0);

	close(before);
	for (int side = S; side <= R; side++) {
		begin();
		open_as(side);
		hr_link_close(link_);
		begin();
		setup.side = side;
		will.watch = -ENOSPC;
		will.loopback = side == S ? -EIO : 0;
		cr_expect_lt(hr_link_open(&link_, &setup, &error), 0);
	}
	cr_expect_eq(dup(0), before);
	close(before);
}
