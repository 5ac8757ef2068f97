/* The states of a link before it is up, step by step. */
#include "tests/harness/life_rig.h"

TestSuite(life_steps, .init = begin, .fini = end, .timeout = 60);

/* ---- without a connection */

Test(life_steps, a_sender_calls_when_its_pause_is_over)
{
	link_->next_call_ns = NOW + 1;
	link_->lost_ns = NOW;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("");
	link_->next_call_ns = NOW;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("call greet watch(7,2) ");
	cr_expect(link_->state == HR_LINK_IS_GREETING && link_->since_ns == NOW);
	again(HR_LINK_IS_DOWN, R);
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("door "); /* a receiver waits */
}

Test(life_steps, pauses_between_calls_double_up_to_two_seconds)
{
	static const uint64_t pause[] = { 50, 100, 200, 400, 800, 1600, 2000, 2000 };

	for (unsigned i = 0; i < 8; i++) {
		will.call = i % 2 ? 0 : -ECONNREFUSED;
		will.begin = i % 2 ? -ENOBUFS : 0;
		link_->now_ns = link_->next_call_ns = NOW + i;
		cr_expect(!hr_life_step(link_));
		EXPECT_CALLS(i % 2 ? "call greet close " : "call close ");
		EXPECT_TEXT(i % 2 ? "10.0.1.2:4711: No buffer space available"
				  : "10.0.1.2:4711: Connection refused");
		cr_expect_eq(link_->next_call_ns - link_->now_ns, pause[i] * MS);
		cr_expect_eq(link_->state, HR_LINK_IS_DOWN);
	}
}

Test(life_steps, a_limit_without_a_connection_is_the_end)
{
	static const struct {
		uint64_t call_ms, without_ms, connections;
		const char *why;
		enum hr_error_kind kind;
		const char *text;
	} row[] = {
		{ 0, 90000, 0, "x", HR_ERROR_NONE, "" },
		{ 500, 500, 0, "x", HR_ERROR_NONE, "" },
		{ 500, 501, 0, "x", HR_ERROR_MISSING, "link stream: no connection for 501 ms: x" },
		{ 500, 501, 1, "", HR_ERROR_DEVICE, "link stream: no connection for 501 ms" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		again(HR_LINK_IS_DOWN, S);
		link_->next_call_ns = UINT64_MAX;
		link_->setup.call_ns = row[i].call_ms * MS;
		link_->lost_ns = NOW - row[i].without_ms * MS;
		link_->count.connections = row[i].connections;
		snprintf(link_->text, sizeof link_->text, "%s", row[i].why);
		cr_expect(!hr_life_step(link_));
		cr_expect_eq(link_->failure.kind, row[i].kind, "%zu", i);
		cr_expect_str_eq(link_->failure.text, row[i].text);
		cr_expect_eq(link_->state, row[i].kind ? HR_LINK_IS_FAILED : HR_LINK_IS_DOWN);
		if (row[i].kind)
			cr_expect_eq(
				strncmp(calls_text(), "close door-close break destroy event", 36),
				0);
	}
}

Test(life_steps, a_link_that_has_said_and_heard_all_ends_without_a_connection)
{
	link_->next_call_ns = UINT64_MAX;
	link_->done_set = true;
	link_->lost_ns = NOW - 2 * DEAD - 1;
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_DOWN);
	link_->done_heard = true;
	link_->lost_ns++;
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_DOWN);
	link_->lost_ns--;
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_ENDED);
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("step ");
	link_->state = HR_LINK_IS_FAILED;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("");
}

/* ---- greeting */

Test(life_steps, a_greeting_ends_in_each_way)
{
	static const struct {
		int takes, take, step;
		enum hr_link_greeting greeting;
		uint32_t code;
		uint64_t began_ms;
		bool connecting, more;
		enum hr_link_state state;
		uint64_t refused;
		const char *text, *log;
	} row[] = {
		{ 0, 0, 0, HR_LINK_GREETING, 0, 0, false, false, HR_LINK_IS_GREETING, 0, "",
		  "step " },
		{ 1, 0, 0, HR_LINK_GREETING, 0, 0, false, true, HR_LINK_IS_GREETING, 0, "",
		  "step take " },
		{ 1, 0, 0, HR_LINK_PROVEN, 0, 0, false, true, HR_LINK_IS_OPENING, 0, "",
		  "step take " },
		{ 1, -EPROTO, 0, HR_LINK_GREETING, 0, 0, false, false, HR_LINK_IS_DOWN, 1,
		  "10.0.1.2:4711: it does not speak the protocol of a link", "step take close " },
		{ -EPROTO, 0, 0, HR_LINK_GREETING, 0, 0, false, false, HR_LINK_IS_DOWN, 1,
		  "10.0.1.2:4711: it does not speak the protocol of a link", "step close " },
		{ 0, 0, -ECONNRESET, HR_LINK_GREETING, 0, 0, false, false, HR_LINK_IS_DOWN, 0,
		  "10.0.1.2:4711: Connection reset by peer", "step close " },
		{ 0, 0, 0, HR_LINK_GREETING, 0, 2000, true, false, HR_LINK_IS_GREETING, 0, "",
		  "step " },
		{ 0, 0, 0, HR_LINK_GREETING, 0, 2001, true, false, HR_LINK_IS_DOWN, 0,
		  "10.0.1.2:4711: no answer", "step close " },
		{ 0, 0, 0, HR_LINK_GREETING, 0, 2001, false, false, HR_LINK_IS_DOWN, 0,
		  "10.0.1.2:4711: it does not greet", "step close " },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		again(HR_LINK_IS_GREETING, S);
		hears(HR_LINK_HELLO);
		will.takes = row[i].takes;
		will.take = row[i].take;
		will.step = row[i].step;
		will.greeting = row[i].greeting;
		link_->talk.began_ns = NOW - row[i].began_ms * MS;
		link_->talk.connecting = row[i].connecting;
		cr_expect_eq(hr_life_step(link_), row[i].more, "%zu", i);
		cr_expect_eq(link_->state, row[i].state, "%zu", i);
		cr_expect_eq(link_->count.refused, row[i].refused, "%zu", i);
		EXPECT_TEXT(row[i].text);
		EXPECT_CALLS(row[i].log);
	}
}

Test(life_steps, a_refusal_is_the_end_unless_the_receiver_is_busy)
{
	for (unsigned by = 0; by < 2; by++) {
		for (uint32_t code = HR_LINK_REFUSE_VERSION; code < HR_LINK_REFUSALS; code++) {
			char text[256];

			again(HR_LINK_IS_GREETING, S);
			link_->talk.greeting = by ? HR_LINK_REFUSED_BY : HR_LINK_REFUSED;
			link_->talk.refusal.code = code;
			cr_expect(hr_life_step(link_));
			cr_expect_eq(link_->count.refused, 1);
			snprintf(text, sizeof text, "10.0.1.2:4711: the receiver %s: %s",
				 by ? "refuses" : "is refused", hr_link_refusal_text(code));
			EXPECT_TEXT(text);
			if (code == HR_LINK_REFUSE_BUSY) {
				cr_expect_eq(link_->state, HR_LINK_IS_DOWN);
				continue;
			}
			cr_expect_eq(link_->state, HR_LINK_IS_FAILED);
			cr_expect_eq(link_->failure.kind, HR_ERROR_USAGE);
		}
	}
}

/* ---- opening */

Test(life_steps, both_sides_open_a_queue_pair_and_say_so)
{
	again(HR_LINK_IS_GREETING, S);
	memset(link_->table, 1, HR_LINK_TABLE_BYTES);
	link_->said_end = link_->said_done = link_->said_bye = link_->heard_bye = true;
	link_->heard_open = true;
	link_->talk.greeting = HR_LINK_PROVEN;
	cr_expect(hr_life_step(link_));
	cr_expect(!link_->heard_open && !link_->said_end && !link_->said_done);
	cr_expect(!link_->said_bye && !link_->heard_bye);
	cr_expect(((uint8_t *)link_->table)[0] == 0 &&
		  ((uint8_t *)link_->table)[HR_LINK_TABLE_BYTES - 1] == 0);
	calls_take();
	hears(HR_LINK_OPEN);
	will.message.opening.stride = 4096;
	will.message.opening.psn = 77;
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("step make connect open ");
	cr_expect(link_->peer.psn == 77 && link_->heard_open);
	link_->broke_ns = 5;
	link_->counted_ns = 25;
	link_->count.broken = 1;
	link_->backoff_ns = 9;
	link_->have.low = 6;
	link_->unsent[0] = 5; /* arrived */
	link_->unsent[1] = 8;
	link_->unsent_count = 2;
	hears(HR_LINK_READY);
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("step say5 flow event1(6,0,) ");
	cr_expect(link_->state == HR_LINK_IS_FLOW && link_->was_up && link_->backoff_ns == 0);
	cr_expect(link_->count.connections == 1 && link_->count.last_recovery_ns == 20);
	cr_expect(link_->count.again == 1 && link_->unsent_count == 0);
}

Test(life_steps, an_opening_that_fails_breaks_the_connection)
{
	static const struct {
		enum hr_link_side side;
		unsigned kind;
		uint32_t stride;
		bool heard;
		int make, connect, say, step, takes;
		uint64_t ms;
		const char *text, *log;
	} row[] = {
		{ S, HR_LINK_OPEN, 4095, false, 0, 0, 0, 0, 1, 0,
		  "the receiver's slots are too small", "step close break " },
		{ S, HR_LINK_OPEN, 4096, true, 0, 0, 0, 0, 1, 0, "a second OPEN",
		  "step close break " },
		{ S, HR_LINK_OPEN, 4096, false, -EIO, 0, 0, 0, 1, 0, "no queue pair",
		  "step make close break " },
		{ S, HR_LINK_OPEN, 4096, false, 0, -EPROTO, 0, 0, 1, 0,
		  "a message that does not belong there", "step make connect close break " },
		{ R, HR_LINK_OPEN, 1, false, 0, -EPROTO, 0, 0, 1, 0,
		  "a message that does not belong there", "door step connect close break " },
		{ R, HR_LINK_OPEN, 1, false, 0, 0, -ENOBUFS, 0, 1, 0,
		  "a message that does not belong there", "door step connect say5 close break " },
		{ R, HR_LINK_READY, 1, false, 0, 0, 0, 0, 1, 0,
		  "a message that does not belong there", "door step close break " },
		{ R, HR_LINK_SAY_END, 1, true, 0, 0, 0, 0, 1, 0,
		  "a message that does not belong there", "door step close break " },
		{ R, HR_LINK_SAY_DONE, 1, true, 0, 0, 0, 0, 1, 0,
		  "a message that does not belong there", "door step close break " },
		{ R, HR_LINK_HELLO, 1, true, 0, 0, 0, 0, 1, 0,
		  "a message that does not belong there", "door step close break " },
		{ R, 0, 1, true, 0, 0, 0, 0, -EBADMSG, 0, "a message with a wrong code",
		  "door step close break " },
		{ R, 0, 1, true, 0, 0, 0, -ECONNRESET, 0, 0,
		  "the connection to the other side is lost: Connection reset by peer",
		  "door step close break " },
		{ R, 0, 1, true, 0, 0, 0, 0, 0, 10001, "the other side does not open a queue pair",
		  "door step close break " },
		{ R, 0, 1, true, 0, 0, 0, 0, 0, 10000, "", "door step " },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		again(HR_LINK_IS_OPENING, row[i].side);
		hears(row[i].kind);
		will.takes = row[i].takes;
		will.message.opening.stride = row[i].stride;
		will.make = row[i].make;
		will.connect = row[i].connect;
		will.say = row[i].say;
		will.step = row[i].step;
		link_->heard_open = row[i].heard;
		link_->since_ns = NOW - row[i].ms * MS;
		cr_expect(!hr_life_step(link_), "%zu", i);
		EXPECT_TEXT(row[i].text);
		EXPECT_CALLS(row[i].log);
		cr_expect_eq(link_->state, *row[i].text ? HR_LINK_IS_BROKEN : HR_LINK_IS_OPENING,
			     "%zu", i);
		cr_expect_eq(link_->count.broken, 0); /* it was not up */
	}
}
