/*
 * tests/harness/life_rig.h - the states of a link step by step: talk, door, queue pair and flow are
 * the rig's, which logs their calls and decides their results. The clock is link_->now_ns. A test
 * includes it once: it contains gpu/remote/life.c.
 */
#ifndef TESTS_HARNESS_LIFE_RIG_H
#define TESTS_HARNESS_LIFE_RIG_H

#include "gpu/remote/life.c"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/harness/calls.h"

#define MS HR_NS_PER_MS
#define DEAD (1000 * MS)
#define NOW (100000 * MS)
#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER

static struct hr_link *link_;
static struct hr_link_talk *proven; /* of the door */
static struct {
	int call, begin, answer, take, say, step, poll, offers, make, open_say, connect, refuse;
	int takes; /* of hr_talk_take(): once */
	struct hr_link_message message;
	bool lost_tiles, not_drained;
	unsigned look;
	enum hr_link_greeting greeting; /* after hr_greet_take() */
} will;

/* ---- what the link calls */

int hr_talk_call(struct hr_link_talk *talk, const struct sockaddr_in *to, uint64_t now_ns)
{
	cr_expect(talk == &link_->talk && to == &link_->address && now_ns == link_->now_ns);
	calls_note("call ");
	talk->fd = 7;
	return will.call;
}

void hr_talk_close(struct hr_link_talk *talk)
{
	calls_note(talk == &link_->talk ? "close " : "close(other) ");
	talk->fd = -1;
}

int hr_talk_step(struct hr_link_talk *talk, uint64_t now_ns)
{
	cr_expect(talk == &link_->talk && now_ns == link_->now_ns);
	calls_note("step ");
	return will.step;
}

void hr_talk_flush(struct hr_link_talk *talk)
{
	cr_expect(talk == &link_->talk);
	calls_note("flush ");
}

int hr_talk_take(struct hr_link_talk *talk, struct hr_link_message *message)
{
	const int n = will.takes;

	cr_expect(talk == &link_->talk);
	*message = will.message;
	will.takes = 0;
	return n;
}

int hr_talk_say(struct hr_link_talk *talk, enum hr_link_kind kind, const void *body,
		uint64_t now_ns)
{
	cr_expect(talk == &link_->talk && now_ns == link_->now_ns);
	cr_expect_eq(body, kind == HR_LINK_SAY_END    ? (const void *)&link_->end
			   : kind == HR_LINK_SAY_DONE ? (const void *)&link_->done
						      : NULL);
	calls_note("say%u ", (unsigned)kind);
	return will.say;
}

int hr_greet_begin(struct hr_link_talk *talk, const struct hr_link_self *self, uint64_t now_ns)
{
	cr_expect(talk == &link_->talk && self == &link_->self && now_ns == link_->now_ns);
	calls_note("greet ");
	return will.begin;
}

int hr_greet_take(struct hr_link_talk *talk, const struct hr_link_self *self,
		  const struct hr_link_message *message, uint64_t now_ns)
{
	cr_expect(self == &link_->self && message->head.kind == will.message.head.kind && now_ns);
	calls_note("take ");
	talk->greeting = will.greeting;
	return will.take;
}

int hr_greet_answer(struct hr_link_talk *talk, const struct hr_link_self *self, uint64_t now_ns)
{
	cr_expect(talk == &link_->talk && self == &link_->self && now_ns == link_->now_ns);
	calls_note("answer ");
	return will.answer;
}

void hr_greet_refuse(struct hr_link_talk *talk, enum hr_link_refusal why, uint32_t value,
		     uint64_t now_ns)
{
	cr_expect(talk == proven && now_ns == link_->now_ns);
	calls_note("refuse(%u,%u) ", (unsigned)why, value);
}

struct hr_link_talk *hr_door_step(struct hr_link *link)
{
	struct hr_link_talk *it = proven;

	cr_expect_eq(link, link_);
	calls_note("door ");
	return it;
}

void hr_door_close(struct hr_link *link)
{
	cr_expect_eq(link, link_);
	calls_note("door-close ");
}

void hr_rdma_qp_break(struct hr_rdma_qp *qp)
{
	cr_expect_eq(qp, &link_->qp);
	calls_note("break ");
}

void hr_rdma_qp_destroy(struct hr_rdma_qp *qp)
{
	calls_note("destroy ");
	qp->qp = NULL;
}

void hr_rdma_qp_wake(struct hr_rdma_qp *qp)
{
	cr_expect_eq(qp, &link_->qp);
	calls_note("qp-wake ");
}

bool hr_rdma_qp_drained(const struct hr_rdma_qp *qp)
{
	cr_expect_eq(qp, &link_->qp);
	return !will.not_drained;
}

void hr_flow_event(struct hr_link *link, struct hr_link_event e)
{
	cr_expect_eq(link, link_);
	calls_note("event%u(%llu,%d,%s) ", (unsigned)e.kind, (unsigned long long)e.tile, e.code,
		   e.text ? e.text : "");
}

void hr_flow_begin(struct hr_link *link)
{
	cr_expect_eq(link, link_);
	calls_note("flow ");
}

void hr_flow_end(struct hr_link *link)
{
	cr_expect_eq(link, link_);
	calls_note("flow-end ");
}

void hr_flow_check_end(struct hr_link *link)
{
	cr_expect_eq(link, link_);
	calls_note("check-end ");
}

int hr_flow_poll(struct hr_link *link)
{
	calls_note("poll ");
	if (will.poll)
		snprintf(link->text, sizeof link->text, "a completion");
	return will.poll;
}

int hr_flow_offers(struct hr_link *link)
{
	cr_expect_eq(link, link_);
	calls_note("offers ");
	return will.offers;
}

int hr_opening_make(struct hr_link *link, struct hr_error *e)
{
	calls_note("make ");
	return will.make == -EIO ? hr_fail(e, HR_ERROR_FAILED, -EIO, "no queue pair") : will.make;
	(void)link;
}

int hr_opening_say(struct hr_link *link)
{
	cr_expect_eq(link, link_);
	calls_note("open ");
	return will.open_say;
}

int hr_opening_connect(struct hr_link *link, struct hr_error *e)
{
	cr_expect(link == link_ && e);
	calls_note("connect ");
	return will.connect;
}

bool hr_opening_take(struct hr_link *link, const struct hr_link_opening *opening)
{
	cr_expect_eq(opening, &link->peer);
	if (will.lost_tiles)
		snprintf(link->text, sizeof link->text, "it lost a tile");
	return !will.lost_tiles;
}

int hr_wake_watch(struct hr_link *link, int fd, enum hr_link_wake kind)
{
	cr_expect_eq(link, link_);
	calls_note("watch(%d,%u) ", fd, (unsigned)kind);
	return 0;
}

unsigned hr_wake_look(struct hr_link *link)
{
	cr_expect_eq(link, link_);
	return will.look;
}

/* ---- the fixture */

static inline void begin(void)
{
	memset(&will, 0, sizeof will);
	calls_take();
	proven = NULL;
	link_ = calloc(1, sizeof *link_);
	cr_assert_not_null(link_);
	link_->table = calloc(1, HR_LINK_TABLE_BYTES);
	memcpy(link_->self.hello.name, "stream", 7);
	link_->address.sin_addr.s_addr = htonl(0x0a000102);
	link_->address.sin_port = htons(4711);
	link_->now_ns = NOW;
	link_->listened_ns = NOW;
	link_->talk.heard_ns = link_->talk.said_ns = link_->talk.began_ns = NOW;
	link_->talk.fd = 7;
	link_->dead_ns = DEAD;
	link_->listener = -1;
	link_->setup.side = S;
	link_->setup.tiles = 100;
	link_->setup.tile_bytes = 4096;
	link_->peer.stride = 4096;
	memcpy(link_->qp.device.name, "rdma0", 6);
}

static inline void end(void)
{
	free(link_->table);
	free(link_);
}

static inline void again(enum hr_link_state state, enum hr_link_side side)
{
	end();
	begin();
	link_->state = state;
	link_->setup.side = side;
	if (side == R)
		link_->listener = 3;
}

static inline void hears(unsigned kind)
{
	will.takes = 1;
	will.message.head.kind = (uint16_t)kind;
}

#define EXPECT_TEXT(what) cr_expect_str_eq(link_->text, what, "%s", link_->text)

#endif
