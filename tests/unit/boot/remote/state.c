/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that break and come back, and both sides' ends. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/remote/internal.h"
#include "tests/harness/link_rig.h"

#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER

static struct link_rig rig;

static void init(void)
{
	link_rig_init(&rig);
}

static void fini(void)
{
	link_rig_fini(&rig);
}

TestSuite(life, .init = init, .fini = fini, .timeout = 300);

/* Tile t goes from slot t to slot t; both sides have an event of it. */
static void move(uint64_t tile)
{
	cr_assert_eq(hr_link_offer(rig.link[R], (uint32_t)tile, tile), 0);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	cr_assert_eq(link_rig_send(&rig, (uint32_t)tile, tile, 1000), 0);
	cr_assert_eq(link_rig_until(&rig, R, HR_LINK_RECEIVED).tile, tile);
	cr_assert_eq(link_rig_until(&rig, S, HR_LINK_SENT).tile, tile);
}

Test(life, a_connection_that_is_cut_comes_back)
{
	link_rig_up(&rig);
	link_rig_until(&rig, S, HR_LINK_UP);
	move(0);
	cr_assert_eq(hr_link_offer(rig.link[R], 1, 1), 0);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	link_rig_fake()->cut = 2;
	cr_assert_eq(link_rig_send(&rig, 1, 1, RIG_TILE), 0);
	cr_expect_str_eq(link_rig_until(&rig, S, HR_LINK_DOWN).text,
			 "fake0: transport retry counter exceeded");
	cr_expect_eq(link_rig_send(&rig, 1, 1, RIG_TILE), -ENOTCONN);
	link_rig_until(&rig, R, HR_LINK_DOWN);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_UP).tile, 1);
	/* The offer is kept, and the tile is not known. */
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	cr_assert_eq(link_rig_send(&rig, 1, 1, RIG_TILE), 0);
	cr_expect_eq(link_rig_until(&rig, R, HR_LINK_RECEIVED).tile, 1);
	cr_expect(link_rig_holds(&rig, 1, 1, RIG_TILE));
	link_rig_until(&rig, S, HR_LINK_SENT);
	cr_expect_eq(hr_link_read_counters(rig.link[S]).repeated, 1);
	cr_expect_eq(hr_link_read_counters(rig.link[S]).broken, 1);
	cr_expect_eq(hr_link_read_counters(rig.link[S]).connections, 2);
	cr_expect_gt(hr_link_read_counters(rig.link[S]).last_recovery_ns, 0);
}

Test(life, a_tile_without_a_completion_that_has_arrived_is_not_sent_again)
{
	link_rig_up(&rig);
	cr_assert_eq(hr_link_offer(rig.link[R], 0, 0), 0);
	cr_assert_eq(hr_link_offer(rig.link[R], 1, 1), 0);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	/* The offers have their completions. */
	link_rig_idle(&rig, 100);
	link_rig_fake()->lose = 1;
	cr_assert_eq(link_rig_send(&rig, 0, 0, 10), 0);
	link_rig_until(&rig, R, HR_LINK_RECEIVED);
	link_rig_idle(&rig, 100);
	cr_assert_eq(link_rig_fake()->lose, 0);
	cr_expect_eq(hr_link_read_counters(rig.link[S]).tiles, 0);
	cr_assert_eq(link_rig_send(&rig, 1, 1, 10), 0);
	/* It is waited for, for a limited time. */
	link_rig_idle(&rig, 100);
	link_rig_pass(&rig, 2 * rig.setup[S].dead_ns);
	cr_expect_str_eq(link_rig_until(&rig, S, HR_LINK_DOWN).text, "fake0: a completion is lost");
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_UP).tile, 2);
	cr_expect_eq(link_rig_send(&rig, 0, 0, 10), -EALREADY);
	cr_expect_eq(link_rig_send(&rig, 1, 1, 10), -EALREADY);
	cr_expect_eq(hr_link_read_counters(rig.link[R]).tiles, 2);
	cr_expect_eq(hr_link_read_counters(rig.link[S]).repeated, 0);
}

Test(life, a_completion_that_never_comes_breaks_the_connection)
{
	link_rig_up(&rig);
	cr_assert_eq(hr_link_offer(rig.link[R], 0, 0), 0);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	link_rig_fake()->stall = 1;
	cr_assert_eq(link_rig_send(&rig, 0, 0, 10), 0);
	link_rig_pass(&rig, 12 * rig.setup[S].dead_ns);
	link_rig_fake()->stall = 0;
	cr_expect_str_eq(link_rig_until(&rig, S, HR_LINK_DOWN).text,
			 "fake0: no completion for 10000000 ms");
	link_rig_until(&rig, S, HR_LINK_UP);
}

/* Without its offers the sender waits, and the connection is alive. */
Test(life, an_offer_that_never_completes_breaks_the_connection)
{
	link_rig_up(&rig);
	link_rig_until(&rig, S, HR_LINK_UP);
	link_rig_fake()->stall = 1;
	cr_assert_eq(hr_link_offer(rig.link[R], 0, 0), 0);
	link_rig_pass(&rig, 12 * rig.setup[R].dead_ns);
	link_rig_fake()->stall = 0;
	cr_expect_str_eq(link_rig_until(&rig, R, HR_LINK_DOWN).text,
			 "fake0: no completion for 10000000 ms");
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	cr_expect_eq(link_rig_send(&rig, 0, 0, 10), 0);
	link_rig_until(&rig, R, HR_LINK_RECEIVED);
}

Test(life, a_silent_peer_is_dead_after_a_limit)
{
	link_rig_up(&rig);
	link_rig_until(&rig, S, HR_LINK_UP);
	while (!link_rig_step(&rig, R))
		rig.now_ns += rig.setup[R].dead_ns / RIG_PIECES;
	cr_expect_eq(rig.last[R].kind, HR_LINK_DOWN);
	cr_expect_str_eq(rig.text[R], "no message of the other side for 1000000 ms");
	link_rig_until(&rig, S, HR_LINK_DOWN);
	link_rig_until(&rig, S, HR_LINK_UP);
}

Test(life, heartbeats_keep_an_idle_connection)
{
	rig.setup[S].dead_ns = rig.setup[R].dead_ns = 3600000000000ull;
	link_rig_up(&rig);
	link_rig_pass(&rig, 10 * rig.setup[S].dead_ns);
	cr_expect_eq(hr_link_read_counters(rig.link[S]).broken, 0);
	cr_expect_eq(hr_link_read_counters(rig.link[R]).connections, 1);
}

/* As SIGSTOP of one process: this side hears nothing, because the other one stands still, too. */
Test(life, a_side_that_was_stopped_listens_before_its_verdict)
{
	const uint64_t dead_ns = 1000000000000ull;

	link_rig_up(&rig);
	link_rig_until(&rig, S, HR_LINK_UP);
	for (unsigned gap = 0; gap < 7; gap++) {
		rig.now_ns += 50 * dead_ns;
		for (unsigned i = 0; i < 1000; i++)
			cr_assert_not(link_rig_step(&rig, R), "gap %u: %s", gap, rig.text[R]);
	}
	/* Time in which it polls counts. */
	for (unsigned i = 0; !link_rig_step(&rig, R); i++) {
		cr_assert_lt(i, 2 * RIG_PIECES);
		rig.now_ns += dead_ns / RIG_PIECES;
	}
	cr_expect_eq(rig.last[R].kind, HR_LINK_DOWN);
	link_rig_until(&rig, R, HR_LINK_UP);
}

/* As a hypervisor that stops both machines, with tiles on the way. */
Test(life, a_connection_outlives_a_pause_of_both_sides)
{
	link_rig_up(&rig);
	for (uint64_t tile = 0; tile < 4; tile++) {
		cr_assert_eq(hr_link_offer(rig.link[R], (uint32_t)tile, tile), 0);
		link_rig_until(&rig, S, HR_LINK_OFFERED);
		cr_assert_eq(link_rig_send(&rig, (uint32_t)tile, tile, RIG_TILE), 0);
		rig.now_ns += 100 * rig.setup[S].dead_ns;
		cr_expect_eq(link_rig_until(&rig, R, HR_LINK_RECEIVED).tile, tile);
		link_rig_until(&rig, S, HR_LINK_SENT);
		link_rig_idle(&rig, 100);
	}
	cr_expect_eq(hr_link_read_counters(rig.link[S]).broken, 0);
	cr_expect_eq(hr_link_read_counters(rig.link[R]).broken, 0);
}

Test(life, a_sender_that_was_stopped_calls_before_it_gives_up)
{
	link_rig_open(&rig, R);
	link_rig_close(&rig, R);
	rig.setup[S].call_ns = 2 * rig.setup[S].dead_ns;
	link_rig_open(&rig, S);
	link_rig_idle(&rig, 10);
	rig.now_ns += 100 * rig.setup[S].call_ns;
	link_rig_idle(&rig, 10);
	rig.setup[R].address = rig.address;
	link_rig_open(&rig, R);
	link_rig_until(&rig, R, HR_LINK_UP);
}

Test(life, a_receiver_that_comes_back_without_tiles_ends_the_sender)
{
	struct hr_link_event event;

	link_rig_up(&rig);
	move(0);
	move(1);
	rig.setup[R].address = rig.address;
	link_rig_close(&rig, R);
	link_rig_open(&rig, R);
	hr_link_set_durable(rig.link[R], 1);
	event = link_rig_until(&rig, S, HR_LINK_FAILED);
	cr_expect_str_eq(event.text,
			 "link stream: the receiver has lost tile 1, which this run has given "
			 "back; it needs another run");
	cr_expect_eq(rig.error[S].kind, HR_ERROR_DEVICE);
	cr_expect_str_eq(rig.error[S].text, event.text);
}

Test(life, a_receiver_that_comes_back_with_its_tiles_goes_on)
{
	link_rig_up(&rig);
	move(0);
	move(1);
	rig.setup[R].address = rig.address;
	link_rig_close(&rig, R);
	link_rig_open(&rig, R);
	hr_link_set_durable(rig.link[R], 2);
	link_rig_until(&rig, S, HR_LINK_DOWN);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_UP).tile, 2);
	move(2);
}

Test(life, a_sender_that_comes_back_learns_what_has_arrived)
{
	link_rig_up(&rig);
	move(0);
	cr_assert_eq(hr_link_offer(rig.link[R], 2, 2), 0);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
	cr_assert_eq(link_rig_send(&rig, 2, 2, 10), 0);
	link_rig_until(&rig, R, HR_LINK_RECEIVED);
	link_rig_close(&rig, S);
	link_rig_open(&rig, S);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_UP).tile, 1);
	cr_expect(hr_link_receiver_has(rig.link[S], 0));
	cr_expect_not(hr_link_receiver_has(rig.link[S], 1));
	cr_expect(hr_link_receiver_has(rig.link[S], 2));
	move(1);
	move(3);
}

Test(life, both_ends_are_said_and_both_sides_know_it)
{
	struct hr_link_event event;

	link_rig_up(&rig);
	move(0);
	hr_link_end(rig.link[S], 1, 1000);
	event = link_rig_until(&rig, R, HR_LINK_END);
	cr_expect_eq(event.tile, 1);
	cr_expect_eq(event.total, 1000);
	hr_link_report_result(rig.link[R], 0, "all\tis\nwritten");
	event = link_rig_until(&rig, S, HR_LINK_REMOTE_ENDED);
	cr_expect_eq(event.code, 0);
	cr_expect_str_eq(event.text, "all is written");
	cr_expect_not(hr_link_both_ended(rig.link[S]));
	hr_link_report_result(rig.link[S], 4, "ssd0 has failed");
	event = link_rig_until(&rig, R, HR_LINK_REMOTE_ENDED);
	cr_expect_eq(event.code, 4);
	cr_expect_str_eq(event.text, "ssd0 has failed");
	while (!hr_link_both_ended(rig.link[S]) || !hr_link_both_ended(rig.link[R]))
		link_rig_idle(&rig, 1);
}

Test(life, ends_are_said_again_after_a_reconnect)
{
	link_rig_up(&rig);
	link_rig_until(&rig, S, HR_LINK_UP);
	move(0);
	/* Both are said while the connection is down. */
	link_rig_close(&rig, R);
	link_rig_until(&rig, S, HR_LINK_DOWN);
	hr_link_end(rig.link[S], 1, 1000);
	hr_link_report_result(rig.link[S], 0, NULL);
	rig.setup[R].address = rig.address;
	link_rig_open(&rig, R);
	hr_link_set_durable(rig.link[R], 1);
	hr_link_report_result(rig.link[R], 0, NULL);
	cr_expect_eq(link_rig_until(&rig, R, HR_LINK_END).tile, 1);
	link_rig_until(&rig, R, HR_LINK_REMOTE_ENDED);
	link_rig_until(&rig, S, HR_LINK_REMOTE_ENDED);
	while (!hr_link_both_ended(rig.link[S]) || !hr_link_both_ended(rig.link[R]))
		link_rig_idle(&rig, 1);
}

Test(life, a_side_that_has_heard_all_ends_without_the_other_one)
{
	link_rig_up(&rig);
	link_rig_until(&rig, S, HR_LINK_UP);
	hr_link_report_result(rig.link[R], 0, NULL);
	link_rig_until(&rig, S, HR_LINK_REMOTE_ENDED);
	link_rig_close(&rig, R);
	link_rig_until(&rig, S, HR_LINK_DOWN);
	hr_link_report_result(rig.link[S], 0, NULL);
	link_rig_idle(&rig, 100);
	cr_expect_not(hr_link_both_ended(rig.link[S]));
	link_rig_pass(&rig, 3 * rig.setup[S].dead_ns);
	link_rig_idle(&rig, 100);
	cr_expect(hr_link_both_ended(rig.link[S]));
}

Test(life, a_stream_of_another_length_ends_the_receiver)
{
	link_rig_up(&rig);
	hr_link_end(rig.link[S], 1000001, 1);
	cr_expect_str_eq(link_rig_until(&rig, R, HR_LINK_FAILED).text,
			 "link stream: the sender's stream has 1000001 tiles, this pipeline takes "
			 "1000000");
}

Test(life, a_sender_gives_up_after_its_limit)
{
	struct hr_link_event event;

	link_rig_open(&rig, R);
	link_rig_close(&rig, R);
	rig.setup[S].call_ns = 30000000000ull;
	link_rig_open(&rig, S);
	link_rig_idle(&rig, 1000);
	rig.now_ns += rig.setup[S].call_ns;
	event = link_rig_until(&rig, S, HR_LINK_FAILED);
	cr_expect(strstr(event.text, "no connection for 3"), "%s", event.text);
	cr_expect(strstr(event.text, "Connection refused"), "%s", event.text);
}

Test(life, a_receiver_gives_up_after_its_limit)
{
	rig.setup[R].call_ns = 30000000000ull;
	link_rig_open(&rig, R);
	link_rig_idle(&rig, 10);
	rig.now_ns += 2 * rig.setup[R].call_ns;
	link_rig_until(&rig, R, HR_LINK_FAILED);
}

Test(life, calls_back_off)
{
	unsigned calls = 0;

	link_rig_open(&rig, R);
	link_rig_close(&rig, R);
	link_rig_open(&rig, S);
	for (unsigned i = 0; i < 60; i++) {
		const uint64_t before = rig.link[S]->next_call_ns;

		rig.now_ns += 1000000000;
		link_rig_idle(&rig, 3);
		calls += rig.link[S]->next_call_ns != before;
	}
	/* 50 ms, doubled up to 2 s: one call in two seconds at the end. */
	cr_expect(calls >= 20 && calls <= 36, "%u calls", calls);
}

Test(life, a_port_that_goes_down_is_waited_for)
{
	link_rig_up(&rig);
	link_rig_fake()->port_down = 1;
	link_rig_fake()->fail = IBV_WC_RETRY_EXC_ERR;
	cr_assert_eq(hr_link_offer(rig.link[R], 0, 0), 0);
	link_rig_until(&rig, R, HR_LINK_DOWN);
	link_rig_idle(&rig, 20000);
	cr_expect_eq(hr_link_read_counters(rig.link[R]).connections, 1);
	link_rig_fake()->port_down = 0;
	link_rig_until(&rig, R, HR_LINK_UP);
	cr_expect_eq(link_rig_until(&rig, S, HR_LINK_OFFERED).tile, 0);
	move(1);
}

/* As the owner of a sender: what is not known to be there is sent, again and again. */
static void send_missing(uint64_t tiles)
{
	for (uint64_t t = 0; t < tiles; t++)
		if (!hr_link_receiver_has(rig.link[S], t))
			hr_link_send(rig.link[S], (uint32_t)t, t, 70000);
}

Test(life, nothing_is_lost_and_nothing_comes_twice_wherever_the_connection_breaks)
{
	const uint64_t tiles = RIG_SLOTS;

	for (unsigned at = 1; at < 40; at++) {
		uint64_t got = 0;

		link_rig_up(&rig);
		for (uint32_t t = 0; t < tiles; t++) {
			link_rig_fill(&rig, t, t, 70000);
			memset(rig.memory[R] + (size_t)t * RIG_STRIDE, 0, 70000);
			cr_assert_eq(hr_link_offer(rig.link[R], t, t), 0);
		}
		link_rig_fake()->cut = at;
		while (got < tiles) {
			send_missing(tiles);
			rig.now_ns += 1000000;
			link_rig_step(&rig, S);
			if (!link_rig_step(&rig, R) || rig.last[R].kind != HR_LINK_RECEIVED)
				continue;
			cr_assert(link_rig_holds(&rig, rig.last[R].slot, rig.last[R].tile, 70000));
			got++;
		}
		cr_expect_eq(hr_link_read_counters(rig.link[R]).tiles, tiles);
		link_rig_fake()->cut = 0;
		link_rig_close(&rig, S);
		link_rig_close(&rig, R);
		rig.setup[R].address = "127.0.0.1:0";
		rig.kept_count[S] = rig.kept_count[R] = 0;
	}
}
