/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seats of a tap: the one that a process gets, its memory and the message of welcome, what of it is
 * undone when that fails, and the end of the run.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/fakes/memfd.h"
#include "tests/harness/tap_seats_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(tap_seats, .init = begin, .fini = end, .timeout = 60);

Test(tap_seats, all_are_free_at_first)
{
	for (uint32_t i = 0; i < HR_TAP_SEATS; i++) {
		cr_expect_eq(table->consumer[i].peer.state, HR_LEND_FREE);
		cr_expect_eq(table->consumer[i].peer.fd, -1);
		cr_expect_eq(table->consumer[i].peer.pidfd, -1);
	}
	cr_expect_eq(hr_tap_consumer_seat(table), 0);
}

Test(tap_seats, the_first_free_seat_is_given)
{
	for (uint32_t k = 0; k < HR_TAP_SEATS; k++)
		table->consumer[k].peer.state = HR_LEND_GREETED + k % 4;
	cr_expect_eq(hr_tap_consumer_seat(table), -EBUSY);
	table->consumer[HR_TAP_SEATS - 1].peer.state = HR_LEND_FREE;
	cr_expect_eq(hr_tap_consumer_seat(table), HR_TAP_SEATS - 1);
	table->consumer[3].peer.state = table->consumer[9].peer.state = HR_LEND_FREE;
	cr_expect_eq(hr_tap_consumer_seat(table), 3);
}

static void expect_welcome(const struct hr_tap_message *m, const struct hr_tap_message *want)
{
	cr_expect_eq(m->magic, HR_TAP_MAGIC);
	cr_expect_eq(m->kind, HR_TAP_WELCOME);
	cr_expect_eq(m->version, HR_TAP_VERSION);
	cr_expect_eq(m->version_least, HR_TAP_VERSION);
	cr_expect_eq(m->credits, want->credits);
	cr_expect_eq(m->slots, SLOTS);
	cr_expect_eq(m->ring, SLOTS);
	cr_expect_eq(m->epoch, table->epoch);
	cr_expect_eq(m->tiles, 99);
	cr_expect_eq(m->first, 3);
	cr_expect_eq(m->stride, 8192);
	cr_expect_eq(m->tile_bytes, 4608);
	cr_expect_eq(m->columns, 12);
	cr_expect_eq(m->each, want->each);
	cr_expect_eq(m->memory, want->memory);
	cr_expect_eq(m->code, 0);
	cr_expect_eq(m->again, 0);
	cr_expect_str_eq(m->dtype, "bf16");
	cr_expect_str_eq(m->name, "work");
	cr_expect_eq(memcmp(m->text, want->text, sizeof m->text), 0);
}

static void set_numbers(void)
{
	run->tiles = 99;
	run->first_tile = 3;
	run->sink_tile_bytes = 4608;
	pipeline->tap.columns = 12;
	strcpy(pipeline->tap.dtype, "bf16");
}

/* The third seat, on the host: memory of its own, of which the consumer can change the page only. */
Test(tap_seats, welcome_comes_with_new_memory)
{
	const struct hr_tap_message want = { .credits = SLOTS - 2 };
	struct hr_tap_consumer *c = &table->consumer[2];
	struct hr_tap_head head;
	struct hr_tap_message m;
	const int pidfd = a_process(false);
	uint64_t wake = 77;
	int fds[HR_TAP_FDS];
	unsigned count;

	set_numbers();
	c->late = c->late_tile = c->peer.woken = c->share.rate = 5;
	c->peer.told_last = true;
	fake_clock_advance(9);
	cr_assert_eq(greet(2, "one\x1ftwo\x7f ~\xff", 0, pidfd), 0, "%s", test_error_text());
	cr_expect_str_eq(fake_memfd.names, "headrace tap entries;headrace tap page;");
	cr_assert_eq(come(2, &m, fds, &count), (ssize_t)sizeof m);
	cr_assert_eq(count, 3u);
	expect_welcome(&m, &want);
	/* both ends of the connection, three descriptors, and the process with the other end */
	cr_expect_eq(new_fds(), 2u + 3 + 1, "%u", new_fds());
	cr_expect_eq(isatty(fds[0]), isatty(STDERR_FILENO));
	cr_expect_eq(lseek(fds[1], 0, SEEK_END), SEAT_BYTES);
	cr_expect_eq(lseek(fds[2], 0, SEEK_END), SEAT_BYTES);
	cr_expect_eq(pwrite(fds[2], &wake, sizeof wake, 0), (ssize_t)sizeof wake);
	cr_expect_eq(page_at(2)->wake, 77);
	cr_expect_lt(pwrite(fds[1], &wake, sizeof wake, 0), 0);
	cr_expect_eq(pread(fds[1], &head, sizeof head, 0), (ssize_t)sizeof head);
	cr_expect_eq(head.magic, HR_TAP_MAGIC);
	cr_expect_eq(head.version, HR_TAP_VERSION);
	cr_expect_eq(head.epoch, table->epoch);
	cr_expect_eq(head.state, HR_TAP_RUNS);
	cr_expect_eq(head.last, 0);
	cr_expect(!is_mapped(head_at(1)) && !is_mapped(head_at(3)) && !is_mapped(page_at(1)) &&
		  !is_mapped(page_at(3)));
	for (unsigned i = 0; i < 3; i++)
		close(fds[i]);
	cr_expect_eq(c->peer.state, HR_LEND_GREETED);
	cr_expect_eq(c->peer.since_ns, BEGIN_NS + 9);
	cr_expect_eq(c->peer.pidfd, pidfd);
	cr_expect_eq(c->peer.credentials.user, 5);
	cr_expect_eq(c->peer.credentials.process, 72);
	cr_expect_str_eq(c->peer.name, "one?two? ~?");
	cr_expect(c->late == 0 && c->late_tile == 0 && c->peer.woken == 0 && !c->peer.told_last &&
		  c->share.rate == 0 && c->share.credits == 0);
	cr_expect_eq(run->tap.attached + run->tap.present, 0);
	cr_expect_eq(words->seat[2].order, 0);
	end_process(pidfd);
}

Test(tap_seats, a_name_has_an_end)
{
	static const char most[65] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

	cr_assert_eq(greet(0, most, 0, -1), 0);
	cr_expect_eq(strlen(table->consumer[0].peer.name), 63u);
	cr_expect_eq(strncmp(table->consumer[0].peer.name, most, 63), 0);
	cr_assert_eq(greet(1, "", 0, -1), 0);
	cr_expect_str_eq(table->consumer[1].peer.name, "");
}

Test(tap_seats, credits_are_those_asked_for_up_to_the_limit)
{
	static const struct {
		uint32_t slots, limit, asked;
		enum hr_tap_deliver deliver;
		uint32_t credits;
		bool fixed; /* all the time */
	} row[] = {
		{ 8, 0, 0, HR_TAP_ONE, 6, false }, { 8, 0, 1, HR_TAP_ONE, 1, true },
		{ 8, 0, 6, HR_TAP_ONE, 6, true },  { 8, 0, 7, HR_TAP_ONE, 6, true },
		{ 8, 3, 0, HR_TAP_ONE, 3, false }, { 8, 3, 4, HR_TAP_ONE, 3, true },
		{ 8, 0, 0, HR_TAP_EACH, 6, true }, { 8, 0, 2, HR_TAP_EACH, 2, true },
		{ 3, 0, 0, HR_TAP_ONE, 1, false }, { 2, 0, 0, HR_TAP_ONE, 1, false },
	};

	for (uint32_t i = 0; i < ROWS(row); i++) {
		struct hr_tap_message m;
		int fds[HR_TAP_FDS];
		unsigned count;

		run->slots = row[i].slots;
		pipeline->tap.credits = row[i].limit;
		pipeline->tap.deliver = row[i].deliver;
		cr_assert_eq(greet(i, "c", row[i].asked, -1), 0);
		cr_assert_gt(come(i, &m, fds, &count), 0);
		for (unsigned k = 0; k < count; k++)
			close(fds[k]);
		cr_expect_eq(m.credits, row[i].credits, "row %u: %u", i, m.credits);
		cr_expect_eq(m.each, row[i].deliver == HR_TAP_EACH, "row %u", i);
		cr_expect_eq(table->consumer[i].peer.credits, row[i].credits, "row %u", i);
		cr_expect_eq(table->consumer[i].share.most, row[i].credits, "row %u", i);
		cr_expect_eq(table->consumer[i].share.asked, row[i].fixed, "row %u", i);
	}
}

/* As at a bring-up for a GPU: so many sets as there are seats. */
static void fix_memory(void)
{
	const struct hr_sets_range range = { .entries_name = "entries",
					     .page_name = "page",
					     .entries = (uint8_t *)head_at(0),
					     .pages = (uint8_t *)page_at(0),
					     .entries_bytes = SEAT_BYTES,
					     .page_bytes = SEAT_BYTES,
					     .count = HR_TAP_SEATS };

	engine->tap_tiles[1].bytes = 1 << 21;
	cr_assert_eq(hr_sets_fill(&engine->tap_tiles[1].sets, &range, test_error()), 0);
}

static bool is_filled(const void *at, int byte, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const uint8_t *)at)[i] != byte)
			return false;
	return true;
}

/* The page of the consumer in a seat, which it passes on. */
static int greet_and_keep(uint32_t seat, struct hr_tap_message *m)
{
	int fds[HR_TAP_FDS];
	unsigned count;

	cr_assert_eq(greet(seat, "g", 4, a_process(true)), 0, "%s", test_error_text());
	cr_assert_gt(come(seat, m, fds, &count), 0);
	cr_assert_eq(count, 3u);
	close(fds[0]);
	close(fds[1]);
	return fds[2];
}

static void detach(uint32_t seat)
{
	tell(seat, HR_TAP_DETACH);
	step(seat, true);
	cr_assert_eq(table->consumer[seat].peer.state, HR_LEND_FREE);
	cr_expect_eq(table->consumer[seat].peer.fd, -1);
	cr_expect_eq(table->consumer[seat].peer.pidfd, -1);
}

Test(tap_seats, each_consumer_on_a_gpu_has_memory_of_its_own)
{
	struct hr_gpu_facts facts = { .uuid = "0123456789abcde" };
	struct hr_tap_message m, want = { .credits = 4, .memory = HR_TAP_MEMORY_CUDA };
	const uint64_t wake = 77;
	int kept;

	want.gpu.bytes = 1 << 21;
	memcpy(want.gpu.uuid, facts.uuid, sizeof want.gpu.uuid);
	table->facts = &facts;
	set_numbers();
	fix_memory();
	kept = greet_and_keep(1, &m);
	expect_welcome(&m, &want);
	cr_expect(is_open(STDERR_FILENO));
	cr_expect_eq(words->seat[1].set, 0);
	cr_expect_eq(head_at(0)->magic, HR_TAP_MAGIC);
	cr_expect_eq(head_at(0)->state, HR_TAP_RUNS);
	cr_expect(is_filled(&head_at(0)->last, 0, SEAT_BYTES - offsetof(struct hr_tap_head, last)));
	cr_expect(is_filled(page_at(0), 0, SEAT_BYTES));
	cr_expect(is_filled(head_at(1), 0, SEAT_BYTES) && is_filled(head_at(2), 0, SEAT_BYTES));
	/* a process with its page does not reach that of the seat's next consumer */
	detach(1);
	close(greet_and_keep(1, &m));
	cr_expect_eq(words->seat[1].set, 1);
	cr_expect_eq(head_at(1)->magic, HR_TAP_MAGIC);
	cr_expect_eq(pwrite(kept, &wake, sizeof wake, 0), (ssize_t)sizeof wake);
	cr_expect_eq(page_at(0)->wake, 77, "the GPU has it until the end of the run");
	cr_expect(is_filled(page_at(1), 0, SEAT_BYTES));
	close(kept);
}

Test(tap_seats, a_gpu_has_memory_for_so_many_consumers_in_a_run)
{
	struct hr_tap_message m;

	fix_memory();
	for (uint32_t i = 0; i < HR_TAP_SEATS; i++) {
		close(greet_and_keep(2, &m));
		cr_expect_eq(words->seat[2].set, i);
		detach(2);
	}
	cr_expect_eq(greet(2, "g", 0, -1), -EBUSY);
	cr_expect_str_eq(test_error_text(),
			 "memory for 16 clients on the GPU is used up: it is renewed when this "
			 "pipeline starts and no other runs");
	cr_expect_lt(strlen(test_error_text()), sizeof m.text);
	cr_expect_eq(table->consumer[2].peer.state, HR_LEND_FREE);
	cr_expect_eq(new_fds(), 1u, "the client's end: %u", new_fds());
	fix_memory();
	close(greet_and_keep(2, &m));
	cr_expect_eq(words->seat[2].set, 0);
	cr_expect(is_filled(&head_at(0)->last, 0, SEAT_BYTES - offsetof(struct hr_tap_head, last)));
}

Test(tap_seats, a_failure_leaves_the_seat_free)
{
	for (fake_memfd.fails = 1; fake_memfd.fails <= 2; fake_memfd.fails++) {
		fake_memfd.created = 0;
		cr_expect_eq(greet(0, "c", 0, -1), -EMFILE);
		cr_expect_str_eq(test_error_text(), "4096 bytes of memory that processes share: "
						    "Too many open files");
		cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
		cr_expect_eq(fake_memfd.created, fake_memfd.fails);
		cr_expect(!is_mapped(head_at(0)) && !is_mapped(page_at(0)), "failure %u",
			  fake_memfd.fails);
		cr_expect_eq(table->consumer[0].peer.state, HR_LEND_FREE);
		cr_expect_eq(table->consumer[0].peer.fd, -1);
		cr_expect_eq(table->consumer[0].peer.pidfd, -1);
		cr_expect_eq(new_fds(), 1u, "failure %u: %u", fake_memfd.fails, new_fds());
	}
}

/* The client has gone before its welcome. */
Test(tap_seats, a_lost_connection_leaves_the_seat_free)
{
	struct hr_tap_client client = { .credentials = { .process = 1 },
					.hello = { .kind = HR_TAP_HELLO } };
	int pair[2];

	for (uint32_t fixed = 0; fixed < 2; fixed++) {
		if (fixed)
			fix_memory();
		cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		close(pair[1]);
		client.fd = pair[0];
		cr_expect_eq(hr_tap_consumer_greet(table, 1, &client, -1, test_error()), -EPIPE);
		cr_expect_str_eq(test_error_text(), "Broken pipe");
		cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
		cr_expect_str_eq(fake_log_last(), "tap: a message of kind 2 is lost: Broken pipe");
		cr_expect(is_open(pair[0]));
		close(pair[0]);
		cr_expect_eq(new_fds(), fixed ? 2 * HR_TAP_SEATS : 0);
		cr_expect_eq(engine->tap_tiles[1].sets.spent, 0);
		cr_expect_eq(is_mapped(head_at(1)), fixed);
		cr_expect_eq(is_mapped(page_at(1)), fixed);
		cr_expect_eq(table->consumer[1].peer.state, HR_LEND_FREE);
		cr_expect_eq(table->consumer[1].peer.fd, -1);
	}
}

static void expect_end(uint32_t seat, uint16_t code, bool again, const char *text)
{
	struct hr_tap_message m;
	unsigned count;

	cr_assert_eq(come(seat, &m, NULL, &count), (ssize_t)sizeof m);
	cr_expect_eq(m.magic, HR_TAP_MAGIC);
	cr_expect_eq(m.kind, HR_TAP_END);
	cr_expect_eq(m.version, HR_TAP_VERSION);
	cr_expect_eq(m.code, code);
	cr_expect_eq(m.tiles, 41);
	cr_expect_eq(m.again, again);
	cr_expect_str_eq(m.text, text);
	cr_expect_eq(come(seat, &m, NULL, &count), 0); /* the connection has ended */
}

#define LONG                                                                                      \
	"0123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456" \
	"789 123456789 123456789 12345678"

/* A greeted consumer in seat 0, an attached one in the last seat. */
Test(tap_seats, all_consumers_hear_of_the_end)
{
	static const struct {
		enum hr_outcome outcome;
		enum hr_error_kind kind;
		const char *cause;
		bool again;
		uint16_t code;
		const char *text;
	} row[] = {
		{ HR_RUN_DONE, 0, "", false, 0, "" },
		{ HR_RUN_DONE, 0, "", true, 0, "" },
		{ HR_RUN_FAILED, HR_ERROR_DEVICE, "the ssd", true, 4, "the ssd" },
		{ HR_RUN_FAILED, HR_ERROR_MISSING, LONG "9", false, 3, LONG },
		{ HR_RUN_INTERRUPTED, 0, "", false, 1, "the run was interrupted" },
	};
	const uint32_t last = HR_TAP_SEATS - 1;

	run->done_tiles = 41;
	for (size_t i = 0; i < ROWS(row); i++) {
		const int process = a_process(false);

		run->outcome = HR_RUN_WAITING;
		cr_assert_eq(greet(0, "a", 0, -1), 0);
		attach(last, "b", 0, process);
		end_process(process);
		kinds(0);
		cr_expect_eq(run->tap.present, 1);
		run->outcome = row[i].outcome;
		run->cause.kind = row[i].kind;
		strcpy(run->cause.text, row[i].cause);
		hr_tap_consumers_end(table, row[i].again);
		expect_end(0, row[i].code, row[i].again, row[i].text);
		expect_end(last, row[i].code, row[i].again, row[i].text);
		cr_expect_eq(run->tap.present, 0);
		cr_expect(!is_mapped(head_at(0)) && !is_mapped(page_at(0)) &&
			  !is_mapped(head_at(last)) && !is_mapped(page_at(last)));
		for (uint32_t k = 0; k < HR_TAP_SEATS; k++) {
			cr_expect_eq(table->consumer[k].peer.state, HR_LEND_FREE);
			cr_expect_eq(table->consumer[k].peer.fd, -1);
			cr_expect_eq(table->consumer[k].peer.pidfd, -1);
		}
		cr_expect_eq(new_fds(), 2u); /* the consumers' ends */
	}
}

/* The state of the head is what a consumer reads that has lost its connection. */
Test(tap_seats, the_end_of_a_gpus_run_is_in_the_heads)
{
	static const struct {
		enum hr_outcome outcome;
		uint32_t state;
	} row[] = { { HR_RUN_DONE, HR_TAP_ENDED }, { HR_RUN_FAILED, HR_TAP_STOPPED } };

	fix_memory();
	for (uint32_t i = 0; i < ROWS(row); i++) {
		const int alive = a_process(false);

		run->outcome = HR_RUN_WAITING;
		attach(1, "alive", 0, alive);
		attach(2, "another", 0, -1);
		run->outcome = row[i].outcome;
		hr_tap_consumers_end(table, false);
		cr_expect_eq(table->consumer[1].peer.pidfd, -1);
		cr_expect_eq(head_at(2 * i)->state, row[i].state);
		cr_expect_eq(head_at(2 * i + 1)->state, row[i].state);
		cr_expect_eq(words->seat[1].order, 4 + 4 * i); /* LEND; the end is no order */
		end_process(alive);
	}
}
