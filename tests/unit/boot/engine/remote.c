/* The service of streams: its thread, what bring-up waits for, and what both sides get to know, over a
 * link without a network. */
#include "boot/engine/remote.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/engine/counters.h"
#include "boot/engine/signals.h"
#include "config/clock.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/link.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"
#include "tests/harness/link_rig.h"
#include "tests/harness/remote_rig.h"

#define TILES 10u

static char folder[] = "/tmp/headrace-remote-XXXXXX", key[64], text[2048];
static struct hr_error e;

enum { SEND, TAKE, OTHER }; /* pipelines */

static void write_key(size_t bytes, mode_t mode)
{
	static const uint8_t data[64] = { 1, 2, 3 };
	int fd;

	remove(key);
	fd = open(key, O_CREAT | O_WRONLY, 0600);
	cr_assert_eq(write(fd, data, bytes), (ssize_t)bytes);
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

/* An appliance with a sender, a receiver and another pipeline, of which only some are selected. */
static void up(unsigned selected)
{
	snprintf(
		text, sizeof text,
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\";\n"
		"  objects = ( { name = \"in\"; bytes = \"640K\"; } ); } );\n"
		"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
		"remote = { key = \"%s\"; peers = [ \"10.0.0.9\" ]; call = \"7s\"; };\n"
		"pipelines = ( { name = \"send\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
		"  source = { object = \"in\"; };\n"
		"  sink = { remote = \"127.0.0.1:4791\"; name = \"s\"; depth = 3; }; },\n"
		" { name = \"take\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
		"  source = { remote = \"127.0.0.1:4792\"; name = \"t\"; bytes = \"1M\"; };\n"
		"  sink = { object = \"out\"; }; },\n"
		" { name = \"other\"; operator = \"crc32c\"; tile = \"64K\"; slots = 4;\n"
		"  source = { object = \"in\"; }; } );\n",
		key);
	remote_rig_up(text);
	for (unsigned i = 0; i < 3; i++)
		rig_app.run[i].selected = selected >> i & 1;
}

static void init(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(key, sizeof key, "%s/key", folder);
	write_key(HR_LINK_KEY_BYTES, 0400);
	hr_error_clear(&e);
}

static void fini(void)
{
	hr_remote_down(&rig_app);
	remote_rig_down();
	remove(key);
	rmdir(folder);
}

TestSuite(remote, .init = init, .fini = fini, .timeout = 120);

#define UNTIL(condition)                          \
	do {                                      \
		while (!(condition))              \
			hr_wait_ns(HR_NS_PER_MS); \
	} while (0)

static const struct hr_link_event is_up = { .kind = HR_LINK_UP };

/* Open and start the streams; the link comes up. */
static void start(void)
{
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	fake_link_say(is_up);
	cr_assert_eq(hr_remote_start(&rig_app), 0, "%s", rig_app.error.text);
}

static void start_one(unsigned pipeline)
{
	up(1u << pipeline);
	start();
	hr_remote_begin(&rig_app, &rig_app.run[pipeline]);
}

static int look(unsigned pipeline)
{
	hr_error_clear(&e);
	return hr_remote_look(&rig_app, &rig_app.run[pipeline], &e);
}

static struct hr_remote_report take(unsigned pipeline)
{
	struct hr_remote_report report;

	hr_remote_take(&rig_app, &rig_app.run[pipeline], &report);
	return report;
}

/* ---- opening */

Test(remote, the_link_of_a_sender_is_opened_as_the_configuration_says)
{
	struct fake_link_seen seen;

	up(1u << SEND | 1u << OTHER);
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	seen = fake_link_look();
	cr_expect_eq(seen.opens, 1, "the other pipeline has no link");
	cr_expect_eq(seen.setup.side, HR_LINK_SENDER);
	cr_expect_str_eq(seen.name, "s");
	cr_expect_str_eq(seen.address, "127.0.0.1:4791");
	cr_expect_null(seen.setup.device);
	cr_expect_eq(seen.setup.tile_bytes, 65536);
	cr_expect_eq(seen.setup.tiles, TILES);
	cr_expect_eq(seen.setup.depth, 3);
	cr_expect_eq(seen.setup.call_ns, 7 * HR_NS_PER_S);
	cr_expect_eq(seen.setup.memory.slots, 4);
	cr_expect_eq(seen.setup.key[2], 3);
	cr_expect(take(SEND).open);
	cr_expect_not(take(OTHER).open);
}

Test(remote, the_link_of_a_receiver_takes_the_most_tiles_of_its_configured_peers)
{
	struct fake_link_seen seen;

	up(1u << TAKE);
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	seen = fake_link_look();
	cr_expect_eq(seen.setup.side, HR_LINK_RECEIVER);
	cr_expect_str_eq(seen.name, "t");
	cr_expect_eq(seen.setup.tiles, 16);
	cr_expect_eq(seen.setup.peers, 1);
	cr_expect_str_eq(seen.setup.peer[0], "10.0.0.9");
}

static void not_opened(int err, enum hr_error_kind kind, const char *why)
{
	up(1u << SEND);
	cr_expect_eq(hr_remote_open(&rig_app), err);
	cr_expect_eq(rig_app.error.kind, kind);
	cr_expect(strstr(rig_app.error.text, "f:7: pipeline 'send': remote 's' (127.0.0.1:4791): "),
		  "%s", rig_app.error.text);
	cr_expect(strstr(rig_app.error.text, why), "%s", rig_app.error.text);
	cr_expect_not(take(SEND).open);
	cr_expect(rig_app.run[SEND].selected);
}

Test(remote, a_key_file_that_others_may_access_ends_bring_up)
{
	write_key(HR_LINK_KEY_BYTES, 0404);
	not_opened(-EACCES, HR_ERROR_USAGE, "may be accessed by other users");
	cr_expect_eq(fake_link_look().opens, 0);
}

Test(remote, a_key_file_of_another_length_ends_bring_up)
{
	write_key(HR_LINK_KEY_BYTES + 1, 0400);
	not_opened(-EMSGSIZE, HR_ERROR_USAGE, "expected exactly 32 bytes");
}

Test(remote, a_link_that_cannot_be_opened_ends_bring_up)
{
	up(1u << SEND);
	fake_link_fail(FAKE_LINK_OPEN, -ENODEV);
	cr_expect_eq(hr_remote_open(&rig_app), -ENODEV);
	cr_expect_eq(rig_app.error.kind, HR_ERROR_MISSING);
	cr_expect(strstr(rig_app.error.text, "no link in this test"), "%s", rig_app.error.text);
	cr_expect_not(take(SEND).open);
}

Test(remote, only_the_pipeline_is_left_out_when_others_go_on)
{
	up(1u << SEND | 1u << OTHER);
	rig_app.keep_going = true;
	fake_link_fail(FAKE_LINK_OPEN, -ENODEV);
	cr_expect_eq(hr_remote_open(&rig_app), 0);
	cr_expect_not(rig_app.run[SEND].selected);
	cr_expect(rig_app.run[OTHER].selected);
	cr_expect_eq(hr_remote_start(&rig_app), 0);
}

Test(remote, without_another_pipeline_that_ends_bring_up)
{
	up(1u << SEND);
	rig_app.keep_going = true;
	fake_link_fail(FAKE_LINK_OPEN, -ENODEV);
	cr_expect_eq(hr_remote_open(&rig_app), -ENODEV);
}

/* ---- counters */

Test(remote, each_counter_of_a_link_is_taken)
{
	static const struct hr_link_counters link = {
		.tiles = 1,
		.bytes = 2,
		.connections = 3,
		.broken = 4,
		.again = 5,
		.not_ready = 6,
		.refused = 7,
		.flushes = 8,
		.down_ns = 9,
		.up_ns = 10,
		.last_recovery_ns = 11,
	};
	struct hr_counters c;

	start_one(SEND);
	fake_link_count(link);
	UNTIL(take(SEND).link.last_recovery_ns == 11);
	for (int copies = 0; copies < 2; copies++) {
		rig_app.run[SEND].copies = copies;
		hr_counters_take(&c, &rig_app, &rig_app.run[SEND]);
		cr_expect_eq(c.remote.copies, copies ? 1u : 0u);
	}
	cr_expect_eq(c.remote.up, 1u);
	cr_expect_eq(c.remote.tiles, 1u);
	cr_expect_eq(c.remote.bytes, 2u);
	cr_expect_eq(c.remote.connections, 3u);
	cr_expect_eq(c.remote.broken, 4u);
	cr_expect_eq(c.remote.again, 5u);
	cr_expect_eq(c.remote.not_ready, 6u);
	cr_expect_eq(c.remote.refused, 7u);
	cr_expect_eq(c.remote.flushes, 8u);
	cr_expect_eq(c.remote.down_ns, 9u);
	cr_expect_eq(c.remote.up_ns, 10u);
	cr_expect_eq(c.remote.recovery_ns, 11u);
}

/* ---- start */

static uint64_t first_tile_after(uint64_t receiver_has)
{
	up(1u << SEND);
	rig_app.run[SEND].first_tile = 4; /* not the receiver's word */
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	fake_link_say((struct hr_link_event){ .kind = HR_LINK_UP, .tile = receiver_has });
	cr_assert_eq(hr_remote_start(&rig_app), 0, "%s", rig_app.error.text);
	return rig_app.run[SEND].first_tile;
}

Test(remote, a_sender_begins_at_the_first_tile_that_the_receiver_lacks)
{
	cr_expect_eq(first_tile_after(7), 7);
}

Test(remote, a_sender_begins_at_the_first_tile_of_a_receiver_that_has_none)
{
	cr_expect_eq(first_tile_after(0), 0);
}

Test(remote, a_sender_has_one_tile_at_least_to_wait_with_for_the_receiver)
{
	cr_expect_eq(first_tile_after(TILES), TILES - 1);
}

Test(remote, a_receiver_does_not_wait_for_its_sender)
{
	up(1u << TAKE);
	rig_app.run[TAKE].durable_tiles = 5;
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	cr_expect_eq(hr_remote_start(&rig_app), 0);
	cr_expect_eq(fake_link_look().durable, 5);
}

Test(remote, a_signal_ends_the_wait_for_a_receiver)
{
	up(1u << SEND);
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	hr_signals_stop();
	cr_expect_eq(hr_remote_start(&rig_app), -EINTR);
	cr_expect_eq(rig_app.error.kind, HR_ERROR_NONE, "%s", rig_app.error.text);
}

Test(remote, an_error_of_the_link_ends_the_wait_for_a_receiver)
{
	up(1u << SEND);
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	fake_link_say((struct hr_link_event){
		.kind = HR_LINK_FAILED, .code = HR_ERROR_USAGE, .text = "another key" });
	cr_expect_eq(hr_remote_start(&rig_app), -EINVAL);
	cr_expect_eq(rig_app.error.kind, HR_ERROR_USAGE);
	cr_expect_str_eq(rig_app.error.text,
			 "f:7: pipeline 'send': remote 's' (127.0.0.1:4791): another key");
}

/* ---- the run */

Test(remote, a_stream_without_an_error_lets_the_run_go_on)
{
	start_one(SEND);
	UNTIL(fake_link_look().ended); /* the thread moves tiles now */
	cr_expect_eq(look(SEND), 0);
	cr_expect_eq(e.kind, HR_ERROR_NONE);
	UNTIL(take(SEND).up);
	cr_expect_str_eq(take(SEND).described, "fake link");
	cr_expect_eq(take(SEND).link.connections, 1);
	fake_link_say((struct hr_link_event){ .kind = HR_LINK_DOWN, .text = "the cable" });
	UNTIL(!take(SEND).up);
	cr_expect_eq(look(SEND), 0, "the link calls again");
}

static void ends_with(struct hr_link_event event, int err, enum hr_error_kind kind, const char *why)
{
	char want[256];
	int got;

	start_one(SEND);
	fake_link_say(event);
	UNTIL((got = look(SEND)) != 0);
	cr_expect_eq(got, err);
	cr_expect_eq(e.kind, kind);
	snprintf(want, sizeof want, "pipeline 'send': remote 's' (127.0.0.1:4791): %s", why);
	cr_expect_str_eq(e.text, want);
}

Test(remote, a_link_that_fails_ends_the_run_so_that_another_try_is_made)
{
	ends_with((struct hr_link_event){ .kind = HR_LINK_FAILED,
					  .code = HR_ERROR_DEVICE,
					  .text = "no answer for 10 s" },
		  -ECONNRESET, HR_ERROR_DEVICE, "no answer for 10 s");
}

Test(remote, a_mistake_of_the_configuration_is_no_reason_for_another_try)
{
	ends_with((struct hr_link_event){ .kind = HR_LINK_FAILED,
					  .code = HR_ERROR_USAGE,
					  .text = "another tile size" },
		  -EINVAL, HR_ERROR_USAGE, "another tile size");
}

Test(remote, the_failure_of_the_other_side_ends_the_run_with_its_exit_code)
{
	ends_with((struct hr_link_event){ .kind = HR_LINK_PEER_DONE,
					  .code = HR_ERROR_DEVICE,
					  .text = "its ssd is gone" },
		  -ECONNABORTED, HR_ERROR_DEVICE,
		  "the run of the receiver has ended: its ssd is gone");
}

Test(remote, an_exit_code_that_there_is_not_is_a_failure)
{
	ends_with((struct hr_link_event){ .kind = HR_LINK_PEER_DONE, .code = 77 }, -ECONNABORTED,
		  HR_ERROR_FAILED, "the run of the receiver has ended: no reason given");
}

Test(remote, the_first_error_counts)
{
	start_one(SEND);
	fake_link_say((struct hr_link_event){
		.kind = HR_LINK_FAILED, .code = HR_ERROR_DEVICE, .text = "first" });
	fake_link_say((struct hr_link_event){
		.kind = HR_LINK_FAILED, .code = HR_ERROR_USAGE, .text = "second" });
	UNTIL(fake_link_is_quiet());
	cr_expect_eq(look(SEND), -ECONNRESET);
	cr_expect(strstr(e.text, "first"), "%s", e.text);
}

Test(remote, the_end_of_a_receiver_without_an_error_is_none)
{
	start_one(SEND);
	fake_link_say((struct hr_link_event){ .kind = HR_LINK_PEER_DONE });
	/* the connection goes then, and an error of the link says nothing more */
	fake_link_say((struct hr_link_event){
		.kind = HR_LINK_FAILED, .code = HR_ERROR_DEVICE, .text = "gone" });
	UNTIL(fake_link_is_quiet());
	cr_expect_eq(look(SEND), 0);
}

Test(remote, the_other_side_learns_what_is_durable)
{
	start_one(TAKE);
	rig_app.run[TAKE].durable_tiles = 9;
	cr_expect_eq(look(TAKE), 0);
	UNTIL(fake_link_look().durable == 9);
}

Test(remote, a_run_without_a_stream_is_not_touched)
{
	up(1u << OTHER);
	cr_expect_eq(hr_remote_open(&rig_app), 0);
	cr_expect_eq(hr_remote_start(&rig_app), 0);
	hr_remote_begin(&rig_app, &rig_app.run[OTHER]);
	cr_expect_eq(look(OTHER), 0);
	hr_remote_end(&rig_app, &rig_app.run[OTHER]);
	hr_remote_down(&rig_app);
	cr_expect_eq(fake_link_look().opens, 0);
	cr_expect_not(take(OTHER).open);
}

/* ---- the end */

/* The run has ended: what the other side gets to know. */
static struct fake_link_seen end_of(enum hr_outcome outcome, enum hr_error_kind kind,
				    const char *why)
{
	struct hr_run *run = &rig_app.run[SEND];

	start_one(SEND);
	run->outcome = outcome;
	if (why) {
		hr_fail(&run->cause, kind, -1, "%s", why);
		hr_error_add(&run->cause, kind, -1, "and another line");
	}
	hr_remote_end(&rig_app, run);
	hr_remote_down(&rig_app);
	cr_expect_eq(fake_link_look().closes, 1);
	cr_expect(fake_link_look().finished);
	return fake_link_look();
}

Test(remote, a_run_that_is_done_ends_with_0)
{
	const struct fake_link_seen seen = end_of(HR_RUN_DONE, HR_ERROR_NONE, NULL);

	cr_expect_eq(seen.code, 0);
	cr_expect_str_eq(seen.text, "");
}

Test(remote, a_run_that_fails_ends_with_its_exit_code_and_the_first_line_of_its_cause)
{
	const struct fake_link_seen seen = end_of(HR_RUN_FAILED, HR_ERROR_DEVICE, "ssd 'a': gone");

	cr_expect_eq(seen.code, HR_ERROR_DEVICE);
	cr_expect_str_eq(seen.text, "ssd 'a': gone");
}

Test(remote, a_run_that_is_interrupted_ends_with_1_and_says_so)
{
	const struct fake_link_seen seen = end_of(HR_RUN_INTERRUPTED, HR_ERROR_NONE, NULL);

	cr_expect_eq(seen.code, HR_ERROR_FAILED);
	cr_expect_str_eq(seen.text, "pipeline 'send' was interrupted");
}

Test(remote, a_run_that_does_not_begin_ends_with_1_and_says_so)
{
	up(1u << SEND);
	start();
	hr_remote_down(&rig_app);
	cr_expect_eq(fake_link_look().code, HR_ERROR_FAILED);
	cr_expect_str_eq(fake_link_look().text, "pipeline 'send' has not run");
	cr_expect_eq(fake_link_look().closes, 1);
}

Test(remote, a_sink_that_is_complete_ends_with_0_at_once)
{
	up(1u << TAKE);
	rig_app.run[TAKE].outcome = HR_RUN_COMPLETE;
	rig_app.run[TAKE].durable_tiles = 16;
	start();
	UNTIL(fake_link_look().finished);
	cr_expect_eq(fake_link_look().code, 0);
	cr_expect_eq(fake_link_look().durable, 16);
	hr_remote_down(&rig_app);
	cr_expect_eq(fake_link_look().code, 0, "the way down says nothing else");
}

Test(remote, the_way_down_does_not_wait_for_ever_for_the_other_side)
{
	start_one(SEND);
	fake_link_ends(false);
	rig_app.run[SEND].outcome = HR_RUN_DONE;
	hr_remote_end(&rig_app, &rig_app.run[SEND]);
	UNTIL(fake_link_look().finished);
	fake_clock_skip(4 * HR_NS_PER_S);
	hr_remote_down(&rig_app);
	cr_expect_eq(fake_link_look().closes, 1);
}

/* The thread leaves after the step in which it has told the link of the end. */
static void leaves_at_once(void)
{
	struct fake_link_seen seen;

	hr_remote_down(&rig_app);
	seen = fake_link_look();
	cr_expect(seen.finished);
	cr_expect_eq(seen.code, HR_ERROR_FAILED);
	cr_expect_eq(seen.steps - seen.finish_steps, 1);
	cr_expect_eq(seen.closes, 1);
}

Test(remote, a_run_that_is_stopped_without_a_connection_waits_for_none)
{
	up(1u << SEND);
	fake_link_ends(false);
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	hr_signals_stop();
	cr_expect_eq(hr_remote_start(&rig_app), -EINTR);
	leaves_at_once();
}

Test(remote, a_link_that_has_failed_has_no_last_words)
{
	start_one(SEND);
	fake_link_ends(false);
	fake_link_say((struct hr_link_event){
		.kind = HR_LINK_FAILED, .code = HR_ERROR_DEVICE, .text = "gone" });
	UNTIL(look(SEND) != 0);
	leaves_at_once();
}

/* Its sender has the rest of the time to learn that the object was whole. */
Test(remote, a_receiver_of_a_whole_object_waits_for_a_sender)
{
	up(1u << TAKE);
	rig_app.run[TAKE].outcome = HR_RUN_COMPLETE;
	fake_link_ends(false);
	cr_assert_eq(hr_remote_open(&rig_app), 0, "%s", rig_app.error.text);
	cr_expect_eq(hr_remote_start(&rig_app), 0);
	UNTIL(fake_link_look().finished);
	UNTIL(fake_link_look().steps > fake_link_look().finish_steps + 2);
	fake_clock_skip(4 * HR_NS_PER_S);
	hr_remote_down(&rig_app);
	cr_expect_eq(fake_link_look().closes, 1);
}

/* ---- check and post, over the fake network device */

Test(remote, check_proves_and_describes_the_path_of_each_stream)
{
	struct link_rig rig;

	link_rig_init(&rig);
	up(1u << SEND | 1u << OTHER);
	cr_expect_eq(hr_remote_check(&rig_app), 0, "%s", rig_app.error.text);
	cr_expect(take(SEND).open);
	cr_expect(strstr(take(SEND).described, "fake0 port 1"), "%s", take(SEND).described);
	cr_expect_not(take(OTHER).open);
	link_rig_fake()->deaf = 1;
	cr_expect_eq(hr_remote_check(&rig_app), -EIO);
	cr_expect(strstr(rig_app.error.text, "f:7: pipeline 'send': remote 's' (127.0.0.1:4791): "
					     "fake0: loopback: "),
		  "%s", rig_app.error.text);
	cr_expect_eq(rig_app.error.kind, HR_ERROR_DEVICE);
	write_key(1, 0400);
	hr_error_clear(&rig_app.error);
	cr_expect_eq(hr_remote_check(&rig_app), -EMSGSIZE);
	link_rig_fini(&rig);
}

Test(remote, post_tests_the_device_of_one_pipeline)
{
	struct link_rig rig;
	char said[256] = "";

	link_rig_init(&rig);
	up(1u << SEND);
	cr_expect_eq(hr_remote_test(&rig_app.config, &rig_app.config.pipeline[TAKE], said,
				    sizeof said, test_error()),
		     0, "%s", test_error_text());
	cr_expect(strstr(said, "fake0 port 1"), "%s", said);
	link_rig_fake()->deaf = 1;
	cr_expect_eq(hr_remote_test(&rig_app.config, &rig_app.config.pipeline[TAKE], said,
				    sizeof said, test_error()),
		     -EIO);
	strcpy(rig_app.config.gpu[0].device, "cuda:99");
	cr_expect_neq(hr_remote_test(&rig_app.config, &rig_app.config.pipeline[TAKE], said,
				     sizeof said, test_error()),
		      0);
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING, "%s", test_error_text());
	link_rig_fini(&rig);
}
