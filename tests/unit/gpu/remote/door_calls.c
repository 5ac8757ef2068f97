/* The strangers of a receiver, step by step: connections and greetings are the test's. */
#include "gpu/remote/door.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "gpu/remote/flow.h"
#include "gpu/remote/wake.h"

#include "tests/harness/calls.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define MS HR_NS_PER_MS
#define NOW (100000 * MS)

static struct hr_link *link_;
static struct {
	int accept; /* a descriptor, or -errno */
	uint64_t began_ns;
	uint32_t from; /* address */
	int step, take, takes, greet;
	enum hr_link_greeting greeting; /* after a message */
	uint32_t refusal;
} will;

int hr_talk_accept(struct hr_link_talk *talk, int listener, uint64_t now_ns)
{
	cr_expect(listener == 5 && now_ns == link_->now_ns);
	if (will.accept < 0)
		return will.accept;
	memset(talk, 0, sizeof *talk);
	talk->fd = will.accept;
	talk->began_ns = will.began_ns;
	talk->peer.sin_addr.s_addr = htonl(will.from);
	talk->peer.sin_port = htons(99);
	will.accept = -EAGAIN;
	calls_note("accept;");
	return 0;
}

void hr_talk_close(struct hr_link_talk *talk)
{
	if (talk->fd >= 0)
		calls_note("close %d;", talk->fd);
	talk->fd = -1;
}

int hr_talk_step(struct hr_link_talk *talk, uint64_t now_ns)
{
	cr_expect_eq(now_ns, link_->now_ns);
	calls_note("step %d;", talk->fd);
	return will.step;
}

int hr_talk_take(struct hr_link_talk *talk, struct hr_link_message *message)
{
	if (will.takes <= 0)
		return will.take;
	will.takes--;
	calls_note("take;");
	return 1;
}

void hr_talk_flush(struct hr_link_talk *talk)
{
	calls_note("flush %d;", talk->fd);
}

int hr_greet_take(struct hr_link_talk *talk, const struct hr_link_self *self,
		  const struct hr_link_message *message, uint64_t now_ns)
{
	cr_expect(self == &link_->self && now_ns == link_->now_ns);
	talk->greeting = will.greeting;
	talk->refusal.code = will.refusal;
	return will.greet;
}

int hr_wake_watch(struct hr_link *link, int fd, enum hr_link_wake kind)
{
	calls_note("watch %d %d;", fd, (int)kind);
	return 0;
}

void hr_flow_event(struct hr_link *link, struct hr_link_event event)
{
	cr_expect_eq(event.kind, HR_LINK_REFUSED_ONE);
	calls_note("(%s)", event.text);
}

static void begin(void)
{
	free(link_);
	link_ = calloc(1, sizeof *link_);
	cr_assert_not_null(link_);
	link_->listener = 5;
	link_->now_ns = NOW;
	link_->dead_ns = 1000 * MS;
	for (unsigned i = 0; i < HR_LINK_STRANGERS; i++)
		link_->stranger[i].fd = -1;
	memset(&will, 0, sizeof will);
	will.accept = -EAGAIN;
	will.began_ns = NOW;
	will.from = 0x0a000102;
	calls_take();
}

static void end(void)
{
	free(link_);
	link_ = NULL;
}

TestSuite(door_calls, .init = begin, .fini = end, .timeout = 60);

/* Stranger i has a connection since so long. */
static struct hr_link_talk *stranger(unsigned i, uint64_t ms, enum hr_link_greeting greeting)
{
	struct hr_link_talk *talk = &link_->stranger[i];

	talk->fd = 10 + (int)i;
	talk->began_ns = NOW - ms * MS;
	talk->greeting = greeting;
	talk->peer.sin_addr.s_addr = htonl(0x0a000200 + i);
	talk->peer.sin_port = htons(7);
	return talk;
}

Test(door_calls, a_stranger_gets_the_first_free_room)
{
	stranger(0, 1, HR_LINK_GREETING);
	stranger(2, 1, HR_LINK_GREETING);
	will.accept = 33;
	cr_expect_null(hr_door_step(link_));
	EXPECT_CALLS("accept;watch 33 1;step 10;flush 10;step 33;flush 33;step 12;flush 12;");
	cr_expect_eq(link_->stranger[1].fd, 33);
	hr_door_close(link_);
	EXPECT_CALLS("close 10;close 33;close 12;");
	hr_door_close(link_);
	EXPECT_CALLS("");
}

Test(door_calls, the_oldest_stranger_leaves_when_all_rooms_are_taken)
{
	for (unsigned oldest = 0; oldest < HR_LINK_STRANGERS; oldest++) {
		char want[64];

		begin();
		for (unsigned i = 0; i < HR_LINK_STRANGERS; i++)
			stranger(i, i == oldest ? 200 : 100 + i, HR_LINK_GREETING);
		will.accept = 33;
		hr_door_step(link_);
		snprintf(want, sizeof want, "accept;close %u;watch 33 1;", 10 + oldest);
		cr_expect(strncmp(calls_text(), want, strlen(want)) == 0, "%s", calls_text());
		cr_expect_eq(link_->stranger[oldest].fd, 33);
		cr_expect_eq(link_->count.refused, 1);
	}
}

Test(door_calls, an_address_may_connect_when_it_is_listed)
{
	static const struct {
		uint32_t from, peers;
		bool may;
	} row[] = { { 0x0a000101, 2, true },
		    { 0x0a000102, 2, true },
		    { 0x0a000103, 2, false },
		    { 0x0a000103, 0, true },
		    { 0x0a000102, 1, false } };

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		link_->setup.peers = row[i].peers;
		for (uint32_t p = 0; p < 3; p++)
			link_->peer_address[p].s_addr = htonl(0x0a000101 + p);
		will.from = row[i].from;
		will.accept = 33;
		hr_door_step(link_);
		cr_expect_eq(link_->stranger[0].fd, row[i].may ? 33 : -1, "row %zu", i);
		cr_expect_eq(link_->count.refused, !row[i].may);
		if (!row[i].may)
			cr_expect(strstr(calls_text(), "(10.0.1."), "%s", calls_text());
	}
	begin();
	link_->setup.peers = 1;
	will.accept = 33;
	hr_door_step(link_);
	EXPECT_CALLS(
		"accept;(10.0.1.2:99: refused: its address is not one of those that may connect)"
		"close 33;");
}

Test(door_calls, a_refusal_is_told_once_a_second)
{
	const struct sockaddr_in peer = { .sin_port = htons(8),
					  .sin_addr.s_addr = htonl(0x7f000001) };

	hr_door_tell(link_, &peer, "first");
	EXPECT_CALLS("(127.0.0.1:8: refused: first)");
	link_->now_ns = NOW + 1000 * MS - 1;
	hr_door_tell(link_, &peer, "second");
	EXPECT_CALLS("");
	link_->now_ns = NOW + 1000 * MS;
	hr_door_tell(link_, &peer, "third");
	EXPECT_CALLS("(127.0.0.1:8: refused: third)");
	cr_expect_eq(link_->refused_told_ns, NOW + 1000 * MS);
	cr_expect_eq(link_->count.refused, 3);
}

#define TOLD(why) "(10.0.2.0:7: refused: " why ")close 10;"

Test(door_calls, a_greeting_ends_in_each_way)
{
	static const struct {
		int step, take, takes, greet;
		enum hr_link_greeting greeting;
		uint32_t refusal;
		uint64_t ms; /* since it has connected */
		const char *log;
		bool proven;
	} row[] = {
		{ 0, 0, 0, 0, HR_LINK_GREETING, 0, 2000, "step 10;flush 10;", false },
		{ 0, 0, 0, 0, HR_LINK_GREETING, 0, 2001,
		  "step 10;flush 10;" TOLD("it has not proved the key in time"), false },
		{ 0, 0, 2, 0, HR_LINK_GREETING, 0, 1, "step 10;take;take;flush 10;", false },
		{ 0, 0, 1, 0, HR_LINK_PROVEN, 0, 9000, "step 10;take;flush 10;", true },
		{ -EIO, 0, 1, 0, HR_LINK_PROVEN, 0, 1, "step 10;take;flush 10;close 10;", false },
		{ -EIO, 0, 1, 0, HR_LINK_GREETING, 0, 1,
		  "step 10;take;flush 10;" TOLD("it has closed the connection"), false },
		{ 0, -EPROTO, 0, 0, HR_LINK_GREETING, 0, 1,
		  "step 10;flush 10;" TOLD("no HELLO of a sender"), false },
		{ 0, 0, 2, -EIO, HR_LINK_GREETING, 0, 1,
		  "step 10;take;flush 10;" TOLD("no HELLO of a sender"), false },
		{ 0, 0, 2, 0, HR_LINK_REFUSED, HR_LINK_REFUSE_VERSION, 1,
		  "step 10;take;flush 10;" TOLD("another version of the protocol"), false },
		{ 0, 0, 1, 0, HR_LINK_REFUSED_BY, HR_LINK_REFUSE_KEY, 1,
		  "step 10;take;flush 10;" TOLD("another key"), false },
		{ 0, 0, 1, 0, HR_LINK_REFUSED, HR_LINK_REFUSE_NAME, 1,
		  "step 10;take;flush 10;" TOLD("another name of the stream"), false },
		{ 0, 0, 1, 0, HR_LINK_REFUSED, HR_LINK_REFUSE_TILE_BYTES, 1,
		  "step 10;take;flush 10;" TOLD("another size of tiles"), false },
		{ 0, 0, 1, 0, HR_LINK_REFUSED, HR_LINK_REFUSE_TILES, 1,
		  "step 10;take;flush 10;" TOLD("more tiles than this pipeline takes"), false },
		{ 0, 0, 1, 0, HR_LINK_REFUSED, HR_LINK_REFUSE_SIDE, 1,
		  "step 10;take;flush 10;" TOLD("it is a receiver, too"), false },
		{ 0, 0, 1, 0, HR_LINK_REFUSED, HR_LINK_REFUSE_BUSY, 1,
		  "step 10;take;flush 10;" TOLD("no HELLO of a sender"), false },
		{ 0, 0, 1, 0, HR_LINK_REFUSED, HR_LINK_REFUSALS, 1,
		  "step 10;take;flush 10;" TOLD("no HELLO of a sender"), false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		stranger(0, row[i].ms, HR_LINK_GREETING);
		will.step = row[i].step;
		will.take = row[i].take;
		will.takes = row[i].takes;
		will.greet = row[i].greet;
		will.greeting = row[i].greeting;
		will.refusal = row[i].refusal;
		cr_expect_eq(hr_door_step(link_), row[i].proven ? &link_->stranger[0] : NULL,
			     "row %zu", i);
		EXPECT_CALLS(row[i].log);
	}
}

Test(door_calls, of_two_that_have_proved_the_key_the_newer_one_stays)
{
	static const struct {
		uint64_t ms[3];
		unsigned stays;
	} row[] = {
		{ { 3, 2, 1 }, 2 }, { { 1, 2, 3 }, 0 }, { { 2, 1, 3 }, 1 }, { { 5, 5, 5 }, 2 }
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		begin();
		for (unsigned s = 0; s < 3; s++)
			stranger(s, row[i].ms[s], HR_LINK_PROVEN);
		cr_expect_eq(hr_door_step(link_), &link_->stranger[row[i].stays], "row %zu", i);
		for (unsigned s = 0; s < 3; s++)
			cr_expect_eq(link_->stranger[s].fd >= 0, s == row[i].stays, "row %zu", i);
	}
}
