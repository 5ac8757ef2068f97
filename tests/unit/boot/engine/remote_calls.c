/* Streams call by call: opening, checks, and what a sender waits for. */
#include "tests/harness/remote_calls_rig.h"

TestSuite(remote_calls, .timeout = 60);

/* ---- opening */

#define OPEN_S "key(k) s.memory open "
#define OPEN_T "key(k) t.memory open "

Test(remote_calls, links_are_opened_as_configured_and_closed_again, .fini = end)
{
	up();
	cr_assert_eq(hr_remote_open(app), 0, "%s", app->error.text);
	cr_expect_str_eq(calls_take(), OPEN_S OPEN_T);
	cr_expect_eq(setup.side, HR_LINK_RECEIVER);
	cr_expect_str_eq(setup.name, "t");
	cr_expect_str_eq(setup.address, "B");
	cr_expect_null(setup.device);
	cr_expect_eq(setup.tile_bytes, 8193u);
	cr_expect_eq(setup.tiles, 10u);
	cr_expect_eq(setup.depth, 5u);
	cr_expect_eq(setup.call_ns, 7u);
	cr_expect_eq((const void *)setup.peer, app->config.remotes.peer);
	cr_expect_eq(setup.peers, 1u);
	cr_expect_eq(setup.key[HR_LINK_KEY_BYTES - 1], 7);
	cr_expect_eq(setup.memory.slots, 4u);
	hr_remote_down(app); /* nothing was started */
	cr_expect_str_eq(calls_take(), "close s.forget close t.forget ");
	hr_remote_down(app);
	cr_expect_str_eq(calls_take(), "");
	app->run[TAKE].selected = false;
	strcpy(app->config.remotes.device, "rdma");
	cr_assert_eq(hr_remote_open(app), 0);
	cr_expect_eq(setup.side, HR_LINK_SENDER);
	cr_expect_str_eq(setup.name, "s");
	cr_expect_str_eq(setup.address, "A");
	cr_expect_str_eq(setup.device, "rdma");
	cr_expect_eq(setup.tile_bytes, 4097u);
	cr_expect_eq(setup.depth, 3u);
	hr_remote_down(app);
	cr_expect_str_eq(calls_take(), OPEN_S "close s.forget ");
}

#define SAYS_S "f:11: pipeline 'p0': remote 's' (A): no "
#define SAYS_T "f:12: pipeline 'p1': remote 't' (B): no "

Test(remote_calls, a_link_that_is_not_opened_ends_bring_up_or_is_left_out, .fini = end)
{
	static const struct {
		unsigned fails_at;
		bool keep_going, others;
		int want;
		const char *calls, *says;
	} row[] = {
		{ 1, false, true, -EIO, "key(k) ", SAYS_S "key" },
		{ 2, false, true, -EIO, "key(k) s.memory ", SAYS_S "memory" },
		{ 3, false, true, -EIO, OPEN_S "close s.forget ", SAYS_S "link" },
		{ 4, false, true, -EIO, OPEN_S "key(k) ", SAYS_T "key" },
		{ 6, false, true, -EIO, OPEN_S OPEN_T "close t.forget ", SAYS_T "link" },
		{ 3, true, true, 0, OPEN_S "close s.forget refuse0 " OPEN_T, "" },
		{ 3, true, false, -EIO, OPEN_S "close s.forget refuse0 ", "" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		up();
		fails_at = row[i].fails_at;
		app->keep_going = row[i].keep_going;
		any_selected = row[i].others;
		cr_expect_eq(hr_remote_open(app), row[i].want, "%zu", i);
		cr_expect_str_eq(calls_take(), row[i].calls, "%zu", i);
		cr_expect_str_eq(app->error.text, row[i].says);
		cr_expect_eq(app->error.kind, *row[i].says ? HR_ERROR_MISSING : HR_ERROR_NONE);
		fails_at = 0;
		hr_remote_down(app);
	}
}

Test(remote_calls, check_proves_memory_of_the_kind_that_tiles_have, .fini = end)
{
	struct hr_remote_report report;

	up();
	cr_expect_eq(hr_remote_check(app), 0);
	cr_expect_str_eq(calls_take(), "key(k) probe -gpu key(k) probe -gpu ");
	cr_expect_eq(probed.side, HR_LINK_RECEIVER);
	cr_expect_str_eq(probed.address, "B");
	cr_expect_null(probed.device);
	cr_expect_eq(probed.slots, 4u);
	cr_expect_eq(probed.slot_bytes, 12288u);
	cr_expect_null(probed.memory);
	hr_remote_take(app, &app->run[TAKE], &report);
	cr_expect(report.open && !report.up);
	cr_expect_str_eq(report.described, "device");
	app->run[TAKE].selected = false;
	app->backend[1].ops = &gpu_ops;
	strcpy(app->config.remotes.device, "rdma");
	cr_expect_eq(hr_remote_check(app), 0);
	cr_expect_str_eq(calls_take(), "gpu(4 8192) key(k) probe -gpu ");
	cr_expect_eq(probed.side, HR_LINK_SENDER);
	cr_expect_str_eq(probed.address, "A");
	cr_expect_str_eq(probed.device, "rdma");
	cr_expect_not_null(probed.memory);
	for (unsigned n = 1; n <= 3; n++) {
		static const char *const want[] = { "gpu(4 8192) -gpu ", "gpu(4 8192) key(k) -gpu ",
						    "gpu(4 8192) key(k) probe -gpu " };
		static const char *const says[] = { SAYS_S "gpu memory", SAYS_S "key",
						    SAYS_S "device" };

		hr_error_clear(&app->error);
		app->run[TAKE].selected = true;
		calls = 0;
		fails_at = n;
		cr_expect_eq(hr_remote_check(app), -EIO, "%u", n);
		cr_expect_str_eq(calls_take(), want[n - 1]);
		cr_expect_str_eq(app->error.text, says[n - 1]);
		hr_remote_take(app, &app->run[SEND], &report);
		cr_expect_not(report.open);
	}
}

Test(remote_calls, post_tests_the_device_with_two_slots, .fini = end)
{
	char text[32];

	up();
	cr_expect_eq(hr_remote_test(&app->config, &app->config.pipeline[SEND], text, sizeof text,
				    test_error()),
		     0);
	cr_expect_str_eq(calls_take(), "backend(cuda:1 1) gpu(2 65536) key(k) probe -gpu ");
	cr_expect_str_eq(text, "device");
	cr_expect_eq(close_count, 1);
	for (unsigned n = 1; n <= 4; n++) {
		calls = 0;
		fails_at = n;
		cr_expect_eq(hr_remote_test(&app->config, &app->config.pipeline[SEND], text,
					    sizeof text, test_error()),
			     -EIO);
		cr_expect_eq(close_count, n, "%u: it is closed when it was open", n);
	}
}

/* ---- start: what a sender waits for */

Test(remote_calls, a_sender_begins_where_the_receiver_ends, .fini = end)
{
	static const struct {
		bool resumes, feed;
		uint64_t tiles, have, first;
		const char *calls;
	} row[] = {
		{ false, false, 10, 4, 1, "" },	       { true, true, 10, 4, 1, "" },
		{ true, false, 10, 4, 4, "decide " },  { true, false, 10, 9, 9, "decide " },
		{ true, false, 10, 10, 9, "decide " }, { true, false, 10, 0, 0, "decide " },
		{ true, false, 0, 0, 1, "" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		open_all();
		app->run[TAKE].durable_tiles = 6;
		app->run[SEND].durable_tiles = 5;
		app->run[SEND].tiles = row[i].tiles;
		app->run[SEND].first_tile = 1;
		strcpy(app->config.pipeline[SEND].feed.name, row[i].feed ? "f" : "");
		resumes = row[i].resumes;
		have = row[i].have;
		cr_assert_eq(hr_remote_start(app), 0, "%zu", i);
		cr_expect_eq(hr_now_ns(), BEGAN + 3 * HR_NS_PER_MS, "the receiver does not wait");
		cr_expect_eq(strncmp(calls_text(), "s.thread durable6 t.thread ", 27), 0, "%s",
			     calls_text());
		cr_expect_str_eq(calls_take() + 27, row[i].calls, "%zu", i);
		cr_expect_eq(app->run[SEND].first_tile, row[i].first, "%zu", i);
		cr_expect_eq(app->run[TAKE].first_tile, 0u);
		cr_expect_eq(stream[SEND]->durable, 5u);
		cr_expect_eq(stream[TAKE]->durable_told, 6u);
		cr_expect_not(stream[SEND]->ended);
		down();
	}
	open_all();
	resumes = true;
	fails_at = 3;
	cr_expect_eq(hr_remote_start(app), -EIO, "of the checksums");
	down();
	open_all();
	app->run[SEND].outcome = HR_RUN_COMPLETE;
	cr_expect_eq(hr_remote_start(app), 0);
	cr_expect(stream[SEND]->ended && !stream[SEND]->code && !stream[TAKE]->ended);
	down();
}

Test(remote_calls, the_wait_for_a_receiver_ends_with_a_signal_or_an_error, .fini = end)
{
	open_all();
	meets_after = 1999; /* less than two seconds */
	cr_expect_eq(hr_remote_start(app), 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0u);
	down();
	open_all();
	meets_after = 5000;
	cr_expect_eq(hr_remote_start(app), 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1u, "it says so once");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "pipeline 'p0': no receiver of remote 's' at A yet: waiting");
	down();
	open_all();
	interrupted = true;
	cr_expect_eq(hr_remote_start(app), -EINTR);
	cr_expect_eq(app->error.kind, HR_ERROR_NONE);
	down();
	open_all();
	errs_after = 2;
	cr_expect_eq(hr_remote_start(app), -ECONNRESET);
	cr_expect_str_eq(app->error.text, "f:11: pipeline 'p0': broken");
	cr_expect_eq(app->error.kind, HR_ERROR_DEVICE);
	down();
	open_all();
	errs_after = 2;
	app->keep_going = true;
	cr_expect_eq(hr_remote_start(app), 0);
	cr_expect(strstr(calls_text(), "refuse0 "), "%s", calls_text());
	down();
}

Test(remote_calls, a_thread_that_does_not_start_is_an_error, .fini = end)
{
	open_all();
	fails_at = 1;
	cr_expect_eq(hr_remote_start(app), -EAGAIN);
	cr_expect_str_eq(calls_take(), "s.thread ");
	cr_expect_str_eq(app->error.text,
			 "f:11: pipeline 'p0': thread: Resource temporarily unavailable");
	cr_expect_eq(app->error.kind, HR_ERROR_FAILED);
	stream[SEND]->over = true;
	hr_remote_down(app);
	cr_expect_str_eq(calls_take(), "close s.forget close t.forget ", "it is not joined");
}
