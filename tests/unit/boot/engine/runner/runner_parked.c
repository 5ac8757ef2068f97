/* SPDX-License-Identifier: Apache-2.0 */
/* Runs whose workers leave the gpu and come back, and workers that hang. */
#include <unistd.h>

#include "config/base/error.h"
#include "boot/engine/runner/park.h"
#include "boot/engine/shared_memory.h"
#include "config/base/process.h"
#include "boot/engine/runner/stall.h"
#include "tests/harness/runner_rig.h"

TestSuite(runner_parked, .timeout = 60);

/* ---- parked runs */

static uint8_t memory[4 * 65536] __attribute__((aligned(4096)));
static unsigned downloads, download_fails_at;

static int download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
		    struct hr_error *e)
{
	downloads++;
	return downloads == download_fails_at ? hr_fail(e, HR_ERROR_DEVICE, -EIO, "no copy") : 0;
}

static const struct hr_backend_ops tap_ops = {
	.launch = launch, .launch_free = launch_free, .poll = poll, .download = download
};

static struct hr_tap_words *up_with_tap(void)
{
	struct hr_partition *p;

	up();
	p = &engine->partition[0];
	memset(memory, 0, sizeof memory);
	downloads = download_fails_at = 0;
	strcpy(pipeline->tap.name, "t");
	pipeline->other_gpu[0] = 1; /* not one of its gpus */
	run->tap.role.park = 1;
	engine->backend[0].ops = &tap_ops;
	run->layout.tap_words = hr_partition_add(p, HR_PLACE_CONTROL, sizeof(struct hr_tap_words),
						 64, "p", "words");
	run->layout.tap_lending = hr_partition_add(
		p, HR_PLACE_WORKER, 3 * sizeof(struct hr_tap_lending), 64, "p", "lending");
	run->layout.tap_pages = hr_partition_add(
		p, HR_PLACE_TAP_WORDS, HR_TAP_SEATS * hr_tap_page_bytes(3), 64, "p", "pages");
	p->region[HR_PLACE_CONTROL].cpu = memory;
	p->region[HR_PLACE_WORKER].cpu = memory + 65536;
	p->region[HR_PLACE_TAP_WORDS].cpu = memory + 2 * 65536;
	run->cpu.tap = (struct hr_tap_role *)(void *)(memory + 65536 + 4096);
	engine->memory[0].backend = &engine->backend[0];
	engine->memory[0].region[HR_PLACE_WORKER].cpu = memory + 65536;
	engine->memory[0].region[HR_PLACE_WORKER].worker = (uint8_t *)0x100000;
	return hr_run_tap_words(run);
}

/* The workers of that launch leave the gpu to go on later. */
static void leave(struct hr_tap_words *words, uint32_t number)
{
	words->leave_launch = number;
	ended[number - 1] = 1;
	cr_expect_eq(look(), HR_PARK_POLL_NS);
}

Test(runner_parked, a_run_that_has_left_comes_back)
{
	struct hr_tap_words *words = up_with_tap();

	hr_runner_start(&runner, 0);
	cr_expect_eq(control.launch_number, 1u);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(look(), HR_PARK_POLL_NS, "%d", i);
	leave(words, 1);
	cr_expect_eq(runner.running, 1u);
	cr_expect_eq(frees, 1u);
	cr_expect_eq(downloads, 2u);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(look(), HR_PARK_POLL_NS);
	cr_expect_eq(downloads, 2u);
	cr_expect_eq(launches, 1u);
	words->seat[3].order = 1; /* a consumer */
	cr_expect_eq(look(), HR_PARK_POLL_NS);
	cr_expect_eq(launches, 2u);
	cr_expect_eq(control.launch_number, 2u);
	cr_expect_eq(launched[1].argument, launched[0].argument);
	cr_expect_eq(launched[1].stop, &control.stop);
	words->seat[3].obeyed = 1;
	look();
	cr_expect_eq(launches, 2u);
	/* workers that end and have not left are at the end */
	ended[1] = 1;
	write_tiles(4, 4, 4);
	run->cpu.next_tile = 4;
	look();
	cr_expect_eq(frees, 2u);
	cr_expect_eq(runner.running, 0u);
	cr_expect_eq(run->outcome, HR_RUN_DONE);
	down();
}

Test(runner_parked, a_signal_brings_a_parked_run_back)
{
	struct hr_tap_words *words = up_with_tap();

	hr_runner_start(&runner, 0);
	leave(words, 1);
	cr_expect_eq(control.stop, HR_STOP_NONE);
	hr_signals_stop();
	look();
	cr_expect_eq(control.stop, HR_STOP_NEW);
	cr_expect_eq(launches, 2u);
	/* asked once; a run that stops does not wait for consumers */
	control.stop = HR_STOP_NONE;
	leave(words, 2);
	cr_expect_eq(control.stop, HR_STOP_NONE);
	cr_expect_eq(launches, 3u);
	down();
}

Test(runner_parked, a_lost_controller_brings_a_parked_run_back)
{
	struct hr_tap_words *words = up_with_tap();

	hr_runner_start(&runner, 0);
	leave(words, 1);
	set_register(0, 0x1c, 3);
	fake_clock_advance(20 * HR_NS_PER_MS);
	look();
	cr_expect_eq(control.stop, HR_STOP_ABANDON);
	cr_expect_eq(launches, 2u);
	down();
}

Test(runner_parked, a_parked_run_fails_with_its_gpu)
{
	for (int way = 0; way < 3; way++) {
		struct hr_tap_words *words = up_with_tap();

		hr_runner_start(&runner, 0);
		if (way < 2)
			download_fails_at = 1 + (unsigned)way;
		else
			launch_fails_at = 2;
		words->leave_launch = 1;
		ended[0] = 1;
		if (way == 2)
			words->seat[0].order = 1;
		look();
		cr_expect_eq(runner.running, 0u, "%d", way);
		cr_expect_eq(run->outcome, HR_RUN_FAILED);
		cr_expect_eq(run->error, -EIO);
		expect_logged(way < 2 ? "gpu 'g' failed after 0 of 4 tiles: no copy"
				      : "gpu 'g' failed after 0 of 4 tiles: no launch");
		cr_expect_eq(launches, way < 2 ? 1u : 2u);
		down();
	}
}

/* ---- workers that hang */

/* All workers have written a heartbeat, but for the last of them. */
static void begin_watch(struct hr_stall *watch)
{
	for (unsigned i = 0; i < 5; i++)
		status[i].heartbeat = i < 4;
	hr_stall_begin(watch, engine, run, BEGAN);
}

/* The longest name of a gpu. */
#define LONG "cuda:0 567890123456789012345678901234567890123456789012345678901"

static void expect_stuck(const char *format, bool several)
{
	char want[512];

	snprintf(want, sizeof want, format, several ? "gpu 'g' (" LONG ")" : LONG);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), want, "%s",
			 fake_log_last_of(HR_LOG_ERROR));
}

Test(runner_parked, a_worker_that_hangs_is_named)
{
	static struct hr_stall watch;
	static const struct {
		uint32_t role, index;
		const char *want;
	} row[] = {
		{ HR_ROLE_PREFETCH, 1,
		  "pipeline 'p0': prefetch worker 1 of %s has not moved for 1500 ms; controllers are "
		  "disabled" },
		{ HR_ROLE_COMPUTE, 0,
		  "pipeline 'p0': compute block 0 of %s, which began tile 77, has not moved for 1500 "
		  "ms; controllers are disabled" },
		{ HR_ROLE_WRITEBACK, 1,
		  "pipeline 'p0': write-back worker 1 of %s has not moved for 1500 ms; controllers "
		  "are disabled" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (unsigned several = 0; several < 2; several++) {
			up();
			strcpy(engine->backend[0].name, LONG);
			pipeline->other_gpus = several;
			engine->timeout_ns = 1500 * HR_NS_PER_MS;
			begin_watch(&watch);
			status[2].tile = 77;
			hr_stall_log(engine, &watch, row[i].role, row[i].index);
			expect_stuck(
				"pipeline 'p0': 1 of 5 workers have not started after 1500 ms: %s does "
				"not hold all blocks at once, or the operator's init does not end; "
				"controllers are disabled",
				several);
			status[4].heartbeat = 1;
			hr_stall_log(engine, &watch, row[i].role, row[i].index);
			expect_stuck(row[i].want, several);
			down();
		}
}
