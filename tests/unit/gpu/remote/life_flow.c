/* A link that is up, and one that breaks, step by step. */
#include "tests/harness/life_rig.h"

TestSuite(life_flow, .init = begin, .fini = end, .timeout = 60);

/* ---- a step */

Test(life_flow, an_idle_step_polls_once_and_flushes)
{
	again(HR_LINK_IS_FLOW, S);
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll flush ");
	again(HR_LINK_IS_FLOW, R);
	link_->door_ns = NOW;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll offers flush ");
	link_->now_ns += 25 * MS - 1;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll offers flush ");
	link_->now_ns++;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("door poll offers flush ");
	cr_expect(link_->door_ns == link_->now_ns && link_->listened_ns == link_->now_ns);
	link_->now_ns += 25 * MS - 1; /* the connection is read then, too */
	link_->door_ns = link_->now_ns;
	link_->listened_ns--;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("step poll offers flush ");
	link_->talk.in_bytes = 1; /* something was read before */
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll step offers flush ");
}

Test(life_flow, what_is_readable_is_read)
{
	again(HR_LINK_IS_FLOW, R);
	link_->door_ns = NOW;
	will.look = HR_LINK_WAKE_QUEUE;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll qp-wake poll offers flush ");
	will.look = HR_LINK_WAKE_TALK;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll step offers flush ");
	will.look = HR_LINK_WAKE_DOOR;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll door offers flush ");
	will.poll = 1; /* completions come first */
	will.look = 7;
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("poll ");
	will.poll = 0;
	will.offers = -EIO;
	will.look = 0;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll offers close break ");
	cr_expect_eq(link_->state, HR_LINK_IS_BROKEN);
}

Test(life_flow, a_connection_breaks_with_its_reason_and_is_counted)
{
	again(HR_LINK_IS_FLOW, S);
	link_->counted_ns = 55;
	will.poll = -EIO;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll close break ");
	EXPECT_TEXT("a completion");
	cr_expect(link_->state == HR_LINK_IS_BROKEN && link_->since_ns == NOW);
	cr_expect(link_->count.broken == 1 && link_->lost_ns == NOW && link_->broke_ns == 55);
}

/* ---- heartbeats and limits */

Test(life_flow, a_heartbeat_is_said_each_100_ms)
{
	again(HR_LINK_IS_FLOW, S);
	link_->talk.said_ns = NOW - 100 * MS + 1;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll flush ");
	link_->talk.said_ns--;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll say6 flush ");
	will.say = -ENOBUFS;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("poll say6 close break ");
	EXPECT_TEXT("the other side does not read");
}

Test(life_flow, a_silent_side_or_a_lost_completion_breaks_the_connection)
{
	again(HR_LINK_IS_FLOW, S);
	link_->talk.heard_ns = NOW - DEAD;
	link_->qp.sends = 1;
	link_->sends_ns = NOW - 10 * DEAD;
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_FLOW);
	link_->sends_ns--;
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_BROKEN);
	EXPECT_TEXT("rdma0: no completion for 10000 ms");
	again(HR_LINK_IS_FLOW, S);
	link_->sends_ns = NOW - 11 * DEAD; /* no request is without its completion */
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_FLOW);
	link_->talk.heard_ns = NOW - DEAD - 1;
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_BROKEN);
	EXPECT_TEXT("no message of the other side for 1000 ms");
}

/* ---- messages */

static void listens(enum hr_link_side side, unsigned kind)
{
	again(HR_LINK_IS_FLOW, side);
	link_->door_ns = NOW;
	will.look = HR_LINK_WAKE_TALK;
	hears(kind);
}

Test(life_flow, the_end_of_a_stream_is_taken_once)
{
	listens(R, HR_LINK_SAY_END);
	will.message.total = (struct hr_link_total){ 100, 5000 };
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("poll step check-end ");
	cr_expect(link_->end_heard && link_->end.tiles == 100 && link_->end.bytes == 5000);
	will.takes = 1; /* again, the same */
	cr_expect(hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_FLOW);
	calls_take();
	will.takes = 1;
	will.message.total.bytes++;
	cr_expect(hr_life_step(link_));
	EXPECT_TEXT("the sender says that its stream has 100 tiles, and said 100 before");
	cr_expect(link_->state == HR_LINK_IS_FAILED && link_->failure.kind == HR_ERROR_FAILED);
	listens(R, HR_LINK_SAY_END);
	link_->end_heard = true;
	link_->end = (struct hr_link_total){ 90, 5000 };
	will.message.total = (struct hr_link_total){ 91, 5000 };
	cr_expect(hr_life_step(link_));
	cr_expect_str_eq(link_->failure.text, "link stream: the sender says that its stream has 91 "
					      "tiles, and said 90 before");
	listens(R, HR_LINK_SAY_END);
	will.message.total.tiles = 101;
	cr_expect(hr_life_step(link_));
	cr_expect_str_eq(link_->failure.text,
			 "link stream: the sender's stream has 101 tiles, this "
			 "pipeline takes 100");
	cr_expect_eq(link_->failure.kind, HR_ERROR_USAGE);
	EXPECT_CALLS(
		"poll step close door-close break destroy "
		"event9(0,0,link stream: the sender's stream has 101 tiles, this pipeline takes "
		"100) ");
	listens(S, HR_LINK_SAY_END); /* a receiver has no stream */
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_BROKEN);
}

Test(life_flow, the_end_of_the_other_run_is_taken_once)
{
	listens(S, HR_LINK_SAY_DONE);
	will.message.ending.code = 4;
	snprintf(will.message.ending.text, sizeof will.message.ending.text, "a fault");
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("poll step event7(0,4,a fault) ");
	cr_expect(link_->done_heard);
	will.takes = 1;
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("poll step ");
	will.takes = 1;
	will.message.head.kind = HR_LINK_BEAT;
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("poll step ");
}

Test(life_flow, each_side_says_its_end_and_then_goodbye)
{
	again(HR_LINK_IS_DOWN, S);
	link_->end_known = link_->done_set = link_->done_heard = true;
	hr_life_say(link_);
	EXPECT_CALLS(""); /* later */
	link_->state = HR_LINK_IS_FLOW;
	will.say = -ENOBUFS;
	hr_life_say(link_);
	EXPECT_CALLS("say7 say8 ");
	will.say = 0;
	link_->done_heard = false;
	hr_life_say(link_);
	EXPECT_CALLS("say7 say8 ");
	hr_life_say(link_);
	EXPECT_CALLS("");
	link_->done_heard = true;
	hr_life_say(link_);
	EXPECT_CALLS("say9 ");
	cr_expect_eq(link_->state, HR_LINK_IS_FLOW);
	will.look = HR_LINK_WAKE_TALK;
	hears(HR_LINK_BYE);
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("poll step ");
	cr_expect(link_->heard_bye && link_->state == HR_LINK_IS_ENDED);
}

Test(life_flow, a_message_that_does_not_belong_there_breaks_the_connection)
{
	static const unsigned kind[] = { HR_LINK_HELLO, HR_LINK_PROOF, HR_LINK_REFUSE,
					 HR_LINK_READY, HR_LINK_KINDS };

	for (unsigned i = 0; i < sizeof kind / sizeof *kind; i++) {
		listens(S, kind[i]);
		cr_expect(!hr_life_step(link_));
		EXPECT_TEXT("a message that does not belong there");
		cr_expect_eq(link_->state, HR_LINK_IS_BROKEN);
	}
	listens(S, 0);
	will.takes = 0;
	will.step = -ETIMEDOUT;
	cr_expect(!hr_life_step(link_));
	EXPECT_TEXT("the connection to the other side is lost: Connection timed out");
}

/* ---- broken */

Test(life_flow, completions_are_collected_before_the_queue_pair_ends)
{
	static int some;

	again(HR_LINK_IS_BROKEN, S);
	link_->qp.qp = (void *)&some;
	link_->since_ns = NOW;
	link_->was_up = true;
	will.not_drained = true;
	snprintf(link_->text, sizeof link_->text, "the first cause");
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("qp-wake poll ");
	will.poll = -EIO;
	cr_expect(hr_life_step(link_)); /* there may be more */
	EXPECT_TEXT("the first cause");
	calls_take();
	will.poll = 1;
	link_->now_ns = NOW + DEAD + 1;
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("qp-wake poll ");
	will.poll = 0;
	link_->now_ns = NOW + DEAD;
	cr_expect(!hr_life_step(link_));
	cr_expect_eq(link_->state, HR_LINK_IS_BROKEN);
	calls_take();
	link_->now_ns++;
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("qp-wake poll destroy flow-end close event2(0,0,the first cause) ");
	cr_expect(link_->state == HR_LINK_IS_DOWN && !link_->was_up);
	cr_expect_eq(link_->next_call_ns, link_->now_ns + 50 * MS);
	again(HR_LINK_IS_BROKEN, S); /* all is drained, and it was not up */
	link_->qp.qp = (void *)&some;
	link_->since_ns = NOW;
	cr_expect(hr_life_step(link_));
	EXPECT_CALLS("destroy flow-end close ");
}

/* ---- another connection at the door */

Test(life_flow, a_receiver_without_a_connection_takes_the_one_at_the_door)
{
	struct hr_link_talk other = { .fd = 9 };

	again(HR_LINK_IS_DOWN, R);
	proven = &other;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("door close(other) watch(9,2) make answer open step ");
	cr_expect(link_->talk.fd == 9 && other.fd == -1 && link_->state == HR_LINK_IS_OPENING);
	for (unsigned i = 0; i < 3; i++) {
		again(HR_LINK_IS_DOWN, R);
		other.fd = 9;
		proven = &other;
		will.make = i == 0 ? -EIO : 0;
		will.answer = i == 1 ? -ENOBUFS : 0;
		will.open_say = i == 2 ? -ENOBUFS : 0;
		cr_expect(hr_life_step(link_)); /* broken: its next step is done, too */
		EXPECT_TEXT(i == 0 ? "no queue pair" : "No buffer space available");
		cr_expect_eq(link_->state, HR_LINK_IS_DOWN);
	}
}

Test(life_flow, a_second_sender_is_refused_and_the_first_one_replaced)
{
	struct hr_link_talk other = { .fd = 9 };

	again(HR_LINK_IS_FLOW, R);
	proven = &other;
	link_->talk.said.hello[S].instance = 4;
	other.said.hello[S].instance = 5;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("door refuse(6,0) close(other) poll offers flush ");
	cr_expect_eq(link_->state, HR_LINK_IS_FLOW);
	other.said.hello[S].instance = 4;
	link_->door_ns = 0;
	cr_expect(hr_life_step(link_));
	EXPECT_TEXT("the sender has connected again");
	EXPECT_CALLS("door close break destroy flow-end close ");
	cr_expect(link_->state == HR_LINK_IS_DOWN && link_->count.broken == 1);
	again(HR_LINK_IS_BROKEN, R); /* it waits */
	proven = &other;
	will.not_drained = true;
	link_->qp.qp = (void *)&other;
	link_->since_ns = NOW;
	cr_expect(!hr_life_step(link_));
	EXPECT_CALLS("door qp-wake poll ");
}
