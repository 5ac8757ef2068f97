/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running pipeline look by look, with a stopped clock: pauses, stops, checkpoints, and controllers
 * that fail.
 */
#include "config/base/process.h"
#include "tests/harness/runner_rig.h"

TestSuite(runner_steps, .timeout = 60);

/* ---- start */

Test(runner_steps, a_start_launches_with_the_shape_of_the_run)
{
	up();
	run->threads = 96;
	run->shared_bytes = 777;
	run->gpu[0].entry = 5;
	run->blocks[HR_ROLE_WRITEBACK] = 4;
	run->ended_ns = run->done_tiles = run->read_bytes = 9;
	hr_fail_known(&run->cause, HR_ERROR_FAILED, -EIO, "of the last run");
	hr_runner_start(&runner, 0);
	cr_expect_eq(launches, 1u);
	cr_expect_eq(launched[0].entry, 5);
	cr_expect_eq(launched[0].argument, (uint8_t *)0x100040);
	cr_expect_eq(launched[0].blocks, 6u);
	cr_expect_eq(launched[0].threads, 96u);
	cr_expect_eq(launched[0].shared_bytes, 777u);
	cr_expect_eq(launched[0].stop, &control.stop);
	cr_expect_eq(run->started_ns, BEGAN);
	cr_expect_eq(run->ended_ns + run->done_tiles + run->read_bytes, 0u);
	cr_expect_eq(run->cause.kind, HR_ERROR_NONE);
	cr_expect_eq(runner.running, 1u);
	cr_expect_eq(runner.started, 1u);
	cr_expect_eq(control.launch_number, 0u);
	cr_expect_eq(frees, 0u);
	cr_expect_null(strstr(fake_log_last_of(HR_LOG_WARN), "resumes"));
	down();
}

Test(runner_steps, a_run_that_resumes_says_so)
{
	up();
	run->first_tile = 1;
	hr_runner_start(&runner, 0);
	expect_warning("pipeline 'p0' resumes at tile 1 of 4");
	down();
	up();
	run->parts = 2; /* it begins with its part */
	run->part = 1;
	run->first_tile = 2;
	hr_warn("none");
	hr_runner_start(&runner, 0);
	expect_warning("none");
	down();
}

/* ---- pauses */

Test(runner_steps, pauses_double_up_to_half_a_millisecond)
{
	static const uint64_t want[] = { 20000, 40000, 80000, 160000, 320000, 500000, 500000 };

	up();
	hr_runner_start(&runner, 0);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		cr_expect_eq(look(), want[i], "%zu", i);
	write_tiles(0, 0, 4); /* nothing is left */
	look();
	cr_expect_eq(look(), 20000u);
	down();
}

/* Half of the time that the rest will take: 2 of 4 tiles in 100 us, then in 120 and 160 us. */
Test(runner_steps, pauses_end_before_the_run)
{
	up();
	hr_runner_start(&runner, 0);
	write_tiles(2, 2, 2);
	fake_clock_advance(100000);
	cr_expect_eq(look(), 20000u);
	cr_expect_eq(look(), 40000u);
	cr_expect_eq(look(), 60000u);
	cr_expect_eq(look(), 80000u);
	down();
	up();
	run->first_tile = 1; /* one tile is left */
	hr_runner_start(&runner, 0);
	write_tiles(2, 2, 2);
	fake_clock_advance(100000);
	cr_expect_eq(look(), 20000u);
	cr_expect_eq(look(), 25000u);
	cr_expect_eq(look(), 30000u);
	down();
}

/* ---- the first submission */

Test(runner_steps, the_first_submission_is_noted_once)
{
	for (int gpu = 0; gpu < 2; gpu++) {
		up();
		engine->backend[0].lanes = gpu ? 32 : 1;
		hr_runner_start(&runner, 0);
		look();
		cr_expect_eq(run->first_submit_ns, 0u);
		control.first_submit_ns = 777;
		look(); /* of a gpu the host's clock counts */
		cr_expect_eq(run->first_submit_ns, gpu ? BEGAN + 20000 : 777);
		control.first_submit_ns = 999;
		look();
		cr_expect_eq(run->first_submit_ns, gpu ? BEGAN + 20000 : 777);
		down();
	}
}

/* ---- the end */

Test(runner_steps, a_run_that_has_ended_is_concluded_without_a_pause)
{
	up();
	hr_runner_start(&runner, 0);
	look();
	write_tiles(4, 4, 4);
	run->cpu.next_tile = 4;
	ended[0] = 1;
	fake_clock_advance(50);
	control.first_submit_ns = 5;
	cr_expect_eq(look(), 0u);
	cr_expect_eq(runner.running, 0u);
	cr_expect_not(runner.ending);
	cr_expect_eq(frees, 1u);
	cr_expect(run->workers_ended);
	cr_expect_eq(run->ended_ns, BEGAN + 20050);
	cr_expect_eq(run->first_submit_ns, 5u);
	expect_end(HR_RUN_DONE, 0, 4);
	cr_expect_eq(look(), 500000u); /* nothing runs */
	cr_expect_eq(frees, 1u);
	down();
}

/* ---- stops */

/* ---- checkpoints */

Test(runner_steps, checkpoints_come_in_their_interval)
{
	up();
	engine->config.checkpoint_ns = 1000000;
	hr_runner_start(&runner, 0);
	write_tiles(2, 2, 2);
	fake_clock_advance(999999);
	look();
	cr_expect_eq(run->durable_tiles, 0u);
	fake_clock_advance(1);
	look();
	cr_expect_eq(run->durable_tiles, 2u);
	write_tiles(3, 4, 3);
	fake_clock_advance(900000);
	look();
	cr_expect_eq(run->durable_tiles, 2u);
	fake_clock_advance(100000);
	look();
	cr_expect_eq(run->durable_tiles, 3u);
	down();
}

/* No interval, no sink, and the stop of a signal, which stays. */
Test(runner_steps, runs_without_checkpoints)
{
	for (int way = 0; way < 3; way++) {
		up();
		engine->config.checkpoint_ns = way ? 1 : 0;
		hr_runner_start(&runner, 0);
		if (way == 1)
			pipeline->has_sink = false;
		if (way == 2)
			hr_signals_stop();
		write_tiles(2, 2, 2);
		fake_clock_advance(1000000);
		look();
		cr_expect_eq(run->durable_tiles, 0u, "%d", way);
		down();
	}
}

Test(runner_steps, a_checkpoint_that_fails_stops_the_run)
{
	up();
	engine->config.checkpoint_ns = 1000;
	hr_runner_start(&runner, 0);
	write_tiles(2, 2, 2);
	test_runs_fail(1, 0, 0x281);
	fake_clock_advance(1000);
	look();
	cr_expect_eq(control.stop, HR_STOP_NEW);
	cr_expect_eq(runner.running, 1u);
	ended[0] = 1;
	look();
	expect_end(HR_RUN_FAILED, 0x281, 0);
	down();
}

/* ---- controllers */

Test(runner_steps, a_controller_that_fails_ends_the_waits_of_workers)
{
	up();
	hr_runner_start(&runner, 0);
	look();
	set_register(1, 0x1c, 3); /* CSTS.CFS */
	fake_clock_advance(20 * HR_NS_PER_MS - 20001);
	look();
	cr_expect_eq(control.stop, HR_STOP_NONE, "it is looked at each 20 ms");
	look();
	cr_expect_eq(control.stop, HR_STOP_ABANDON);
	expect_logged("pipeline 'p0': ssd 'b' is lost: t1: controller fatal status (CSTS "
		      "00000003)");
	cr_expect(run->cause.printed);
	cr_expect_eq(run->cause.kind, HR_ERROR_DEVICE);
	cr_expect_eq(engine->ssd[0].health.state, HR_HEALTH_UP);
	cr_expect_neq(engine->ssd[1].health.state, HR_HEALTH_UP);
	/* it is neither looked at again, nor are there checkpoints, nor other stops */
	set_register(0, 0x1c, 3);
	fake_clock_advance(40 * HR_NS_PER_MS);
	engine->config.checkpoint_ns = 1;
	write_tiles(2, 2, 2);
	hr_signals_stop();
	look();
	cr_expect_eq(control.stop, HR_STOP_ABANDON);
	cr_expect_eq(run->durable_tiles, 0u);
	cr_expect_eq(engine->ssd[0].health.state, HR_HEALTH_UP);
	ended[0] = 1;
	look();
	cr_expect_eq(run->outcome, HR_RUN_FAILED);
	cr_expect_eq(run->error, -EIO);
	down();
}

Test(runner_steps, each_lost_controller_of_the_run_has_a_line)
{
	up();
	hr_runner_start(&runner, 0);
	set_register(0, 0x1c, UINT32_MAX);
	set_register(1, 0x14, 0);
	look();
	cr_expect_str_eq(
		run->cause.text,
		"pipeline 'p0': ssd 'a' is lost: t0: CSTS reads all ones: the device is gone, or its "
		"function is being reset; check slot, power and 'dmesg', and start the run again when "
		"'headrace check' finds it\n"
		"pipeline 'p0': ssd 'b' is lost: t1: CC.EN is 0: the controller was reset: another "
		"process or driver uses it, or the function was reset",
		"%s", run->cause.text);
	cr_expect_eq(control.stop, HR_STOP_ABANDON);
	for (uint32_t d = 0; d < 2; d++)
		cr_expect_eq(engine->ssd[d].health.count[HR_FAULT_NAMESPACE], 0u);
	down();
	/* one that the run does not use */
	up();
	run->ssds = 1;
	pipeline->sources = 1;
	pipeline->has_sink = false;
	hr_runner_start(&runner, 0);
	set_register(1, 0x14, 0);
	look();
	cr_expect_eq(control.stop, HR_STOP_NONE);
	cr_expect_eq(run->cause.kind, HR_ERROR_NONE);
	down();
}

/* A checkpoint has failed and its cause is printed; then the controller fails: a line of its own. */
Test(runner_steps, a_loss_after_a_failed_checkpoint_is_logged)
{
	up();
	engine->config.checkpoint_ns = 1000;
	hr_runner_start(&runner, 0);
	look();
	write_tiles(2, 2, 2);
	test_runs_fail(1, 0, 0x281);
	fake_clock_advance(1000);
	look();
	cr_expect_eq(control.stop, HR_STOP_NEW);
	fake_clock_advance(20 * HR_NS_PER_MS);
	look(); /* prints the cause */
	cr_expect(run->cause.printed);
	set_register(0, 0x1c, 3);
	fake_clock_advance(20 * HR_NS_PER_MS);
	look();
	cr_expect_eq(control.stop, HR_STOP_ABANDON);
	expect_logged("pipeline 'p0': ssd 'a' is lost: t0: controller fatal status (CSTS "
		      "00000003)");
	down();
}

Test(runner_steps, a_namespace_that_changed_is_a_fault_of_it)
{
	up();
	ctrl[0].events_on = true;
	ctrl[0].admin = broken_queue;
	ctrl[0].event_ns[0].ns = &engine->ssd[0].ns;
	ctrl[0].event_ns[0].lost = true;
	engine->ssd[0].ns.nsid = 3;
	hr_runner_start(&runner, 0);
	look();
	cr_expect_str_eq(
		run->cause.text,
		"pipeline 'p0': ssd 'a' is lost: t0: namespace 3 has changed and cannot be "
		"used any more",
		"%s", run->cause.text);
	cr_expect_eq(engine->ssd[0].health.count[HR_FAULT_NAMESPACE], 1u);
	cr_expect_eq(engine->ssd[1].health.count[HR_FAULT_NAMESPACE], 0u);
	cr_expect_eq(control.stop, HR_STOP_ABANDON);
	down();
}

Test(runner_steps, a_critical_warning_stops_the_run)
{
	for (int stops = 0; stops < 2; stops++) {
		up();
		engine->config.health.action[2] = stops ? HR_WARNING_STOP : HR_WARNING_PAUSE;
		ctrl[1].smart.known = true;
		ctrl[1].smart.critical_warning = 4;
		hr_runner_start(&runner, 0);
		look();
		cr_expect_eq(control.stop, stops ? HR_STOP_NEW : HR_STOP_NONE);
		if (stops)
			expect_logged("pipeline 'p0' is stopped: ssd 'b' has a critical warning, "
				      "and health.reliability is \"stop\"");
		ended[0] = stops;
		look();
		cr_expect(!stops || run->outcome == HR_RUN_FAILED);
		cr_expect(!stops || run->error == -EPERM);
		down();
	}
}
