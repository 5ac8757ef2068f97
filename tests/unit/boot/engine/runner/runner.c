/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's handling of a pipeline's end: the ssds that it stops using, the first failure, the
 * durable part, and the next pipelines. The backend launches nothing; each test writes the results
 * of workers. Sources have no checksums, because no worker computes them.
 */
#include "boot/engine/run.h"
#include "boot/engine/runner/runner.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/process.h"
#include "config/base/clock.h"
#include "nvme/ctrl.h"
#include "nvme/soft/soft.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"
#include "tests/harness/power.h"

#define TILE (16u << 10)
#define TILES 16u

TestSuite(runner, .timeout = 60);

static struct hr_engine *engine;
static struct hr_backend_ops ops;
static const struct hr_backend_ops *real;
static unsigned launches;
/* Writes the results of workers; returns the result of poll(). */
static int (*leave)(struct hr_run *run);

static int launch_nothing(struct hr_backend *b, const struct hr_launch_args *args,
			  struct hr_launch **launch, struct hr_error *e)
{
	static struct hr_launch handle;

	launches++;
	handle = (struct hr_launch){ b, args->stop };
	*launch = &handle;
	return 0;
}

static struct hr_run *running(void)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].started_ns && !engine->run[i].ended_ns)
			return &engine->run[i];
	return NULL;
}

static void free_nothing(struct hr_launch *launch)
{
}

static int poll_script(struct hr_launch *launch, struct hr_error *e)
{
	return leave(running());
}

/* ---- appliances */

static const char two_sources[] =
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=16M\"; objects = (\n"
	"    { name = \"date\"; bytes = 100000; }, { name = \"discount\"; bytes = 100000; } ); },\n"
	"  { name = \"b\"; device = \"soft:memory,size=16M\"; objects = (\n"
	"    { name = \"quantity\"; bytes = 100000; }, { name = \"price\"; bytes = 200000; } ); "
	"},\n"
	"  { name = \"c\"; device = \"soft:memory,size=16M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"pipelines = ( { name = \"p\"; operator = \"filter_sum\"; tile = \"16K\"; verify = "
	"\"off\"; slots = 4;\n"
	"  source = ( { ssd = \"a\"; object = \"date\"; }, { ssd = \"a\"; object = \"discount\"; "
	"},\n"
	"    { ssd = \"b\"; object = \"quantity\"; }, { ssd = \"b\"; object = \"price\"; } );\n"
	"  args = { shipdate_from = 0; shipdate_before = 1; discount_from = 0; discount_to = 1;\n"
	"    quantity_below = 1; }; blocks = { prefetch = 2; }; } );\n";

#define SINK(name, to)                                                                            \
	"{ name = \"" name                                                                        \
	"\"; operator = \"copy\"; tile = \"16K\"; verify = \"off\"; slots = 4; source = { ssd = " \
	"\"a\"; object = \"in\"; }; sink = { ssd = \"b\"; object = \"" to                         \
	"\"; }; blocks = { writeback = 2; }; }"
#define SSDS                                                             \
	"appliance = { checkpoint = 0; };\n"                             \
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=16M\";\n"  \
	"    objects = ( { name = \"in\"; bytes = \"256K\"; } ); },\n"   \
	"  { name = \"b\"; device = \"soft:memory,size=16M\"; },\n"      \
	"  { name = \"c\"; device = \"soft:memory,size=16M\";\n"         \
	"    objects = ( { name = \"in\"; bytes = \"256K\"; } ); } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"

static const char one_copy[] = SSDS "pipelines = ( " SINK("p", "out") " );\n";
/* The second pipeline reads the sink of the first; the third is independent of both. */
static const char chain[] = SSDS "pipelines = ( " SINK(
	"p", "out") ", { name = \"q\"; operator = \"crc32c\"; source = { ssd = \"b\"; object = "
		    "\"out\"; };\n  tile = \"16K\"; verify = \"off\"; }, { name = \"r\"; operator "
		    "= \"crc32c\"; source "
		    "= { ssd = \"c\"; object = \"in\"; }; tile = \"16K\"; verify = \"off\"; } );\n";

static void up(const char *text)
{
	engine = engine_new(text);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	hr_unseal(); /* assertions may allocate */
	real = engine->backend[0].ops;
	ops = *real;
	ops.launch = launch_nothing;
	ops.poll = poll_script;
	ops.launch_free = free_nothing;
	engine->backend[0].ops = &ops;
	launches = 0;
}

static void down(void)
{
	engine->backend[0].ops = real;
	hr_engine_down(engine);
	free(engine);
}

/* ---- ssds that failed */

static struct hr_nvme_qp *bad_qp;
static bool lost;

static int ends_with_bad_queue(struct hr_run *run)
{
	if (lost)
		bad_qp->stats.lost = 1;
	else
		bad_qp->error = -EPROTO;
	return 1;
}

/* Per ssd: still enabled when its window on the pipelines' memory is closed. */
static bool enabled[HR_SSDS_MAX];
static struct hr_transport_ops transport_ops;
static const struct hr_transport_ops *real_transport;

static void note_unmap(struct hr_transport *t, const struct hr_region *region)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (&engine->ssd[d].transport == t && region != &engine->ssd[d].region)
			enabled[d] = hr_reg_read32(t, NVME_REG_CC) & 1;
	real_transport->unmap(t, region);
}

static void watch_windows(void)
{
	real_transport = engine->ssd[0].transport.ops;
	transport_ops = *real_transport;
	transport_ops.unmap = note_unmap;
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		engine->ssd[d].transport.ops = &transport_ops;
	memset(enabled, 0, sizeof enabled);
}

/* Only this ssd has failed, and it is disabled before memory that it can reach is released. */
static void expect_only(uint32_t bad, uint32_t used)
{
	watch_windows();
	cr_expect_eq(hr_run_all(engine, false, NULL), 0);
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		cr_expect_eq(hr_health_failed(&engine->ssd[d].health), d == bad, "ssd %u", d);
	down();
	for (uint32_t d = 0; d < 3; d++)
		cr_expect_eq(enabled[d], (used >> d & 1) && d != bad, "ssd %u of bad %u", d, bad);
}

Test(runner, a_bad_read_queue_fails_its_own_ssd)
{
	for (uint32_t i = 0; i < 8; i++) {
		up(two_sources);
		cr_assert_eq(engine->run[0].ssds, 2u);
		lost = i / 4;
		bad_qp = &engine->run[0].cpu.read_qp[i % 4]; /* worker 0: a, b; worker 1: a, b */
		leave = ends_with_bad_queue;
		expect_only(i % 2, 3);
	}
}

static uint32_t gone; /* the ssd whose power fails while workers run */

static int loses_an_ssd(struct hr_run *run)
{
	static uint32_t cut_of = UINT32_MAX;

	if (cut_of != gone)
		power_cut(&engine->ssd[gone].transport, HR_SOFT_CUT_DROP, 1);
	cut_of = gone;
	return hr_acquire_sys_u32(&run->cpu.control->stop) == HR_STOP_ABANDON;
}

/* While a pipeline runs, its ssds are watched, and no other ssd is. */
Test(runner, each_ssd_of_a_running_pipeline_is_watched)
{
	for (gone = 0; gone < 2; gone++) {
		up(two_sources);
		leave = loses_an_ssd;
		cr_expect_neq(hr_run_all(engine, false, NULL), 0);
		for (uint32_t d = 0; d < 3; d++)
			cr_expect_eq(hr_health_failed(&engine->ssd[d].health), d == gone,
				     "ssd %u of %u", d, gone);
		cr_expect_eq(engine->run[0].outcome, HR_RUN_FAILED);
		down();
	}
}

Test(runner, a_bad_write_queue_fails_the_ssd_of_the_sink)
{
	for (uint32_t i = 0; i < 4; i++) {
		up(one_copy);
		lost = i / 2;
		bad_qp = &engine->run[0].cpu.write_qp[i % 2];
		leave = ends_with_bad_queue;
		expect_only(1, 3);
	}
}

static int gpu_fails(struct hr_run *run)
{
	return -EIO;
}

/* ---- failures */

/* Failing tile of prefetch, compute and write-back; 0: the role does not fail. */
static uint64_t fails_at[3];

static int ends_with_failures(struct hr_run *run)
{
	for (uint32_t role = 0; role < HR_ROLES; role++) {
		struct hr_worker_status *status =
			&run->cpu.status[hr_pipe_first_status(run->pipe, role)];

		if (!fails_at[role])
			continue;
		status->failed = 1;
		status->failure = (struct hr_failure){ .error = 0x280 + (int)role,
						       .role = role,
						       .tile = fails_at[role],
						       .opcode = 1 };
	}
	run->pipe->next_tile = 7; /* and three tiles are in flight */
	return 1;
}

Test(runner, the_failure_that_comes_first_in_the_data_is_reported)
{
	static const uint64_t row[][3] = { { 3, 9, 9 }, { 9, 3, 9 }, { 9, 9, 3 },
					   { 3, 0, 9 }, { 9, 0, 3 }, { 0, 9, 3 } };
	static const int want[] = { 0x280, 0x281, 0x282, 0x280, 0x282, 0x282 };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		up(one_copy);
		memcpy(fails_at, row[i], sizeof fails_at);
		leave = ends_with_failures;
		cr_expect_eq(hr_run_all(engine, false, NULL), want[i], "row %zu", i);
		cr_expect_eq(engine->run[0].outcome, HR_RUN_FAILED);
		cr_expect_eq(engine->run[0].error, want[i]);
		cr_expect_eq(engine->run[0].failure.tile, 3u, "row %zu", i);
		down();
	}
}

static uint64_t durable_bytes(void)
{
	const struct hr_store_object *object = hr_store_find_pending(&engine->ssd[1].store, "out");

	return object ? object->durable_bytes : UINT64_MAX;
}

/* The written part of a failed run is kept, unless its own ssd has failed. */
Test(runner, a_failed_run_keeps_its_written_data)
{
	up(one_copy);
	memcpy(fails_at, (uint64_t[3]){ 3, 0, 0 }, sizeof fails_at);
	leave = ends_with_failures;
	cr_expect_eq(hr_run_all(engine, false, NULL), 0x280);
	cr_expect_eq(engine->run[0].durable_tiles, 7u);
	cr_expect_eq(durable_bytes(), 7u * TILE);
	down();
}

/* ---- Ctrl-C */

/* Request a stop at the first look; end when the host has forwarded it. */
static int stops_when_told(struct hr_run *run)
{
	if (!hr_signals_pending())
		raise(SIGINT);
	if (!run->cpu.control->stop)
		return 0;
	run->pipe->next_tile = 9;
	((struct hr_slot *)run->pipe->slot)[2].has_tile = 1;
	((struct hr_slot *)run->pipe->slot)[2].read_tile = 5;
	run->cpu.status[0].bytes = 9 * TILE;
	return 1;
}

/* The same without periodic checkpoints (checkpoint = 0). */
Test(runner, a_signal_records_exactly_the_written_tiles)
{
	up(one_copy);
	hr_signals_catch();
	leave = stops_when_told;
	cr_expect_eq(hr_run_all(engine, false, NULL), -EINTR);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_INTERRUPTED);
	cr_expect_eq(engine->run[0].error, -EINTR);
	cr_expect_eq(engine->run[0].durable_tiles, 5u);
	cr_expect_eq(durable_bytes(), 5u * TILE);
	cr_expect_eq(hr_run_bytes_read(&engine->run[0]), 9u * TILE);
	cr_expect(
		strstr(fake_log_last_of(HR_LOG_WARN), "interrupted: 5 of 16 tiles of object 'out'"),
		"%s", fake_log_last());
	down();
}

static int works(struct hr_run *run)
{
	const uint32_t role = run->pipe->has_sink ? HR_ROLE_WRITEBACK : HR_ROLE_COMPUTE;

	run->cpu.status[hr_pipe_first_status(run->pipe, role)].tiles = run->tiles;
	run->pipe->next_tile = run->tiles;
	return 1;
}

Test(runner, no_pipeline_is_launched_after_a_signal)
{
	up(chain);
	hr_signals_catch();
	raise(SIGTERM);
	leave = works;
	cr_expect_eq(hr_run_all(engine, false, NULL), -EINTR);
	cr_expect_eq(launches, 0u);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_WAITING);
	down();
}

/* ---- which pipelines run */

static const char *fails_name; /* name of the failing pipeline */
static char order[16];

static int works_but_one(struct hr_run *run)
{
	strcat(order, run->config->name);
	if (strcmp(run->config->name, fails_name) != 0)
		return works(run);
	memcpy(fails_at, (uint64_t[3]){ 3, 0, 0 }, sizeof fails_at);
	return ends_with_failures(run);
}

/* The order of the launches when that pipeline fails, and the result. */
static const char *run_chain(const char *name, bool keep_going, const char *suspect, int want)
{
	up(chain);
	fails_name = name;
	leave = works_but_one;
	*order = '\0';
	engine->keep_going = keep_going;
	for (uint32_t i = 0; i < 3; i++)
		engine->run[i].suspect = strcmp(engine->run[i].config->name, suspect) == 0;
	cr_expect_eq(hr_run_all(engine, false, NULL), want, "%s", order);
	return order;
}

Test(runner, without_keep_going_a_failure_ends_all_pipelines)
{
	cr_expect_str_eq(run_chain("", false, "", 0), "pqr", "%s", order);
	down();
	cr_expect_str_eq(run_chain("p", false, "", 0x280), "p", "%s", order);
	cr_expect_eq(engine->run[1].outcome, HR_RUN_WAITING);
	cr_expect_eq(engine->run[2].outcome, HR_RUN_WAITING);
	down();
}

Test(runner, with_keep_going_only_dependent_pipelines_stop)
{
	cr_expect_str_eq(run_chain("p", true, "", 0x280), "pr", "%s", order);
	cr_expect_eq(engine->run[1].outcome, HR_RUN_WAITING);
	cr_expect_eq(engine->run[2].outcome, HR_RUN_DONE);
	down();
	cr_expect_str_eq(run_chain("q", true, "", 0x280), "pqr", "%s", order);
	down();
}

/* A pipeline that reads the sink of a suspect runs after it. */
Test(runner, suspected_pipelines_run_last)
{
	cr_expect_str_eq(run_chain("", true, "p", 0), "rpq", "%s", order);
	down();
	cr_expect_str_eq(run_chain("", true, "q", 0), "prq", "%s", order);
	down();
}

Test(runner, pipelines_without_the_failed_ssd_or_gpu_run)
{
	up(chain);
	engine->keep_going = true;
	lost = true;
	bad_qp = &engine->run[0].cpu.write_qp[0];
	leave = ends_with_bad_queue;
	hr_run_all(engine, false, NULL);
	cr_expect_eq(engine->run[1].outcome, HR_RUN_WAITING, "it reads from b");
	cr_expect_eq(engine->run[2].outcome, HR_RUN_DONE);
	down();
	up(chain);
	engine->keep_going = true;
	leave = gpu_fails;
	cr_expect_eq(hr_run_all(engine, false, NULL), -EIO);
	cr_expect_eq(launches, 1u);
	cr_expect_eq(engine->run[2].outcome, HR_RUN_WAITING);
	down();
}

/* ---- bytes read */

Test(runner, bytes_read_are_the_sum_of_all_sources)
{
	const struct hr_run *run;

	up(two_sources);
	run = &engine->run[0];
	/* 2048 rows per tile, by the longest rows; the last tile has 424. */
	cr_assert_eq(run->tiles, 13u);
	cr_expect_eq(hr_run_bytes(run, 0), 0u);
	cr_expect_eq(hr_run_bytes(run, 1), 2048u * 20);
	cr_expect_eq(hr_run_bytes(run, 13), 25000u * 20);
	cr_expect_eq(hr_run_bytes(run, 1000), 25000u * 20);
	cr_expect_eq(hr_run_bytes_read(run), 0u);
	down();
}
