/*
 * What the host makes of a pipeline's end: which ssds it trusts no more, which failure came first,
 * what is durable, and what runs next. The backend launches nothing; each test leaves behind what
 * workers would have. No checksums of sources: nothing computes them.
 */
#include "boot/engine/names.h"
#include "boot/engine/runner.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/seal.h"
#include "config/clock.h"
#include "boot/engine/signals.h"
#include "nvme/ctrl.h"
#include "nvme/soft/soft.h"
#include "tests/fakes/log.h"

#define TILE (64u << 10)
#define TILES 16u

TestSuite(runner, .timeout = 60);

static struct hr_appliance *app;
static struct hr_backend_ops ops;
static const struct hr_backend_ops *real;
static unsigned launches;
static int (*leave)(struct hr_run *run); /* what workers leave; the result of poll() */

static void print(void *to, const char *line)
{
	fprintf(stderr, "%s\n", line);
}

static int launch_nothing(struct hr_backend *b, enum hr_kernel kernel, void *argument,
			  uint32_t blocks, uint32_t threads, uint32_t shared_bytes)
{
	launches++;
	return 0;
}

static struct hr_run *running(void)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].started_ns && !app->run[i].ended_ns)
			return &app->run[i];
	return NULL;
}

static int poll_script(struct hr_backend *b)
{
	return leave(running());
}

/* ---- appliances */

static const char two_sources[] =
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=16M\"; objects = (\n"
	"    { name = \"date\"; bytes = 400000; }, { name = \"discount\"; bytes = 400000; } ); },\n"
	"  { name = \"b\"; device = \"soft:memory,size=16M\"; objects = (\n"
	"    { name = \"quantity\"; bytes = 400000; }, { name = \"price\"; bytes = 800000; } ); "
	"},\n"
	"  { name = \"c\"; device = \"soft:memory,size=16M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"pipelines = ( { name = \"p\"; operator = \"filter_sum\"; tile = \"64K\"; verify = "
	"\"off\"; slots = 4;\n"
	"  source = ( { ssd = \"a\"; object = \"date\"; }, { ssd = \"a\"; object = \"discount\"; "
	"},\n"
	"    { ssd = \"b\"; object = \"quantity\"; }, { ssd = \"b\"; object = \"price\"; } );\n"
	"  args = { shipdate_from = 0; shipdate_before = 1; discount_from = 0; discount_to = 1;\n"
	"    quantity_below = 1; }; blocks = { prefetch = 2; }; } );\n";

#define SINK(name, to)                                                                            \
	"{ name = \"" name                                                                        \
	"\"; operator = \"copy\"; tile = \"64K\"; verify = \"off\"; slots = 4; source = { ssd = " \
	"\"a\"; object = \"in\"; }; sink = { ssd = \"b\"; object = \"" to                         \
	"\"; }; blocks = { writeback = 2; }; }"
#define SSDS                                                            \
	"appliance = { checkpoint = 0; };\n"                            \
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=16M\";\n" \
	"    objects = ( { name = \"in\"; bytes = \"1M\"; } ); },\n"    \
	"  { name = \"b\"; device = \"soft:memory,size=16M\"; },\n"     \
	"  { name = \"c\"; device = \"soft:memory,size=16M\";\n"        \
	"    objects = ( { name = \"in\"; bytes = \"1M\"; } ); } );\n"  \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"

static const char one_copy[] = SSDS "pipelines = ( " SINK("p", "out") " );\n";
/* The second reads what the first writes; the third has nothing to do with either. */
static const char chain[] = SSDS "pipelines = ( " SINK(
	"p", "out") ", { name = \"q\"; operator = \"crc32c\"; source = { ssd = \"b\"; object = "
		    "\"out\"; };\n  tile = \"64K\"; verify = \"off\"; }, { name = \"r\"; operator "
		    "= \"crc32c\"; source "
		    "= { ssd = \"c\"; object = \"in\"; }; tile = \"64K\"; verify = \"off\"; } );\n";

static void up(const char *text)
{
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	cr_assert_eq(hr_config_parse(&app->config, &hr_names, "f", text, strlen(text), print, NULL),
		     0);
	cr_assert_eq(hr_appliance_init(app, NULL), 0);
	cr_assert_eq(hr_appliance_up(app, HR_STAGE_QUEUES), 0);
	hr_unseal(); /* asserts may allocate */
	real = app->backend[0].ops;
	ops = *real;
	ops.launch = launch_nothing;
	ops.poll = poll_script;
	app->backend[0].ops = &ops;
	launches = 0;
}

static void down(void)
{
	app->backend[0].ops = real;
	hr_appliance_down(app);
	free(app);
}

/* ---- ssds that are not to be trusted */

static struct hr_nvme_qp *bad_qp;
static bool lost;

static int ends_with_bad_queue(struct hr_run *run)
{
	if (lost)
		bad_qp->stats.lost = 1;
	else
		bad_qp->broken = -EPROTO;
	return 1;
}

/* Of each ssd: enabled when its window on the memory of the pipelines is closed. */
static bool enabled[HR_SSDS_MAX];
static struct hr_transport_ops transport_ops;
static const struct hr_transport_ops *real_transport;

static void note_unmap(struct hr_transport *t, const struct hr_region *region)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (&app->ssd[d].transport == t && region != &app->ssd[d].region)
			enabled[d] = hr_reg_read32(t, NVME_REG_CC) & 1;
	real_transport->unmap(t, region);
}

static void watch_windows(void)
{
	real_transport = app->ssd[0].transport.ops;
	transport_ops = *real_transport;
	transport_ops.unmap = note_unmap;
	for (uint32_t d = 0; d < app->config.ssds; d++)
		app->ssd[d].transport.ops = &transport_ops;
	memset(enabled, 0, sizeof enabled);
}

/* Only the ssd behind it is failed, and it is disabled before memory that it knows is given back. */
static void expect_only(uint32_t bad, uint32_t used)
{
	watch_windows();
	cr_expect_eq(hr_run_all(app, false), 0);
	for (uint32_t d = 0; d < app->config.ssds; d++)
		cr_expect_eq(app->ssd[d].failed, d == bad, "ssd %u", d);
	down();
	for (uint32_t d = 0; d < 3; d++)
		cr_expect_eq(enabled[d], (used >> d & 1) && d != bad, "ssd %u of bad %u", d, bad);
}

Test(runner, a_bad_read_queue_fails_its_own_ssd)
{
	for (uint32_t i = 0; i < 8; i++) {
		up(two_sources);
		cr_assert_eq(app->run[0].ssds, 2u);
		lost = i / 4;
		bad_qp = &app->run[0].read_qp[i % 4]; /* worker 0: a, b; worker 1: a, b */
		leave = ends_with_bad_queue;
		expect_only(i % 2, 3);
	}
}

static uint32_t gone; /* the ssd whose power fails while workers run */

static int loses_an_ssd(struct hr_run *run)
{
	static uint32_t cut_of = UINT32_MAX;

	if (cut_of != gone)
		hr_soft_power_cut(&app->ssd[gone].transport, HR_SOFT_CUT_DROP, 1);
	cut_of = gone;
	return hr_acquire_sys_u32(&run->control->stop) == HR_STOP_WAITING;
}

/* Of a pipeline over several ssds each one is looked at while it runs, and no other. */
Test(runner, each_ssd_of_a_running_pipeline_is_watched)
{
	for (gone = 0; gone < 2; gone++) {
		up(two_sources);
		leave = loses_an_ssd;
		cr_expect_neq(hr_run_all(app, false), 0);
		for (uint32_t d = 0; d < 3; d++)
			cr_expect_eq(app->ssd[d].failed, d == gone, "ssd %u of %u", d, gone);
		cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
		down();
	}
}

Test(runner, a_bad_write_queue_fails_the_ssd_of_the_sink)
{
	for (uint32_t i = 0; i < 4; i++) {
		up(one_copy);
		lost = i / 2;
		bad_qp = &app->run[0].write_qp[i % 2];
		leave = ends_with_bad_queue;
		expect_only(1, 3);
	}
}

static int gpu_fails(struct hr_run *run)
{
	return -EIO;
}

Test(runner, after_a_gpu_failed_no_ssd_of_the_pipeline_is_trusted)
{
	up(one_copy);
	leave = gpu_fails;
	cr_expect_eq(hr_run_all(app, false), -EIO);
	cr_expect(app->ssd[0].failed && app->ssd[1].failed && !app->ssd[2].failed);
	down();
}

/* ---- failures */

static uint64_t fails_at[3]; /* tile of prefetch, compute and write-back; 0: that one works */

static int ends_with_failures(struct hr_run *run)
{
	for (uint32_t role = 0; role < HR_ROLES; role++) {
		struct hr_worker_status *status =
			&run->status[hr_pipe_first_status(run->pipe, role)];

		if (!fails_at[role])
			continue;
		status->failed = 1;
		status->failure = (struct hr_failure){ .error = 0x280 + (int)role,
						       .role = role,
						       .tile = fails_at[role],
						       .opcode = 1 };
	}
	run->pipe->next_tile = 7; /* and three are on their way */
	return 1;
}

Test(runner, the_failure_that_comes_first_in_the_data_is_told)
{
	static const uint64_t row[][3] = { { 3, 9, 9 }, { 9, 3, 9 }, { 9, 9, 3 },
					   { 3, 0, 9 }, { 9, 0, 3 }, { 0, 9, 3 } };
	static const int want[] = { 0x280, 0x281, 0x282, 0x280, 0x282, 0x282 };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		up(one_copy);
		memcpy(fails_at, row[i], sizeof fails_at);
		leave = ends_with_failures;
		cr_expect_eq(hr_run_all(app, false), want[i], "row %zu", i);
		cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
		cr_expect_eq(app->run[0].error, want[i]);
		cr_expect_eq(app->run[0].failure.tile, 3u, "row %zu", i);
		down();
	}
}

static uint64_t durable_bytes(void)
{
	const struct hr_object *object = hr_store_find_pending(&app->ssd[1].store, "out");

	return object ? object->durable_bytes : UINT64_MAX;
}

/* What is written of a failed run is kept, unless its own ssd has failed. */
Test(runner, a_failed_run_keeps_what_is_written)
{
	up(one_copy);
	memcpy(fails_at, (uint64_t[3]){ 3, 0, 0 }, sizeof fails_at);
	leave = ends_with_failures;
	cr_expect_eq(hr_run_all(app, false), 0x280);
	cr_expect_eq(app->run[0].durable_tiles, 7u);
	cr_expect_eq(durable_bytes(), 7u * TILE);
	down();
}

static int ends_with_failure_and_bad_queue(struct hr_run *run)
{
	ends_with_failures(run);
	return ends_with_bad_queue(run);
}

Test(runner, nothing_is_recorded_on_an_ssd_that_failed)
{
	up(one_copy);
	memcpy(fails_at, (uint64_t[3]){ 0, 0, 3 }, sizeof fails_at);
	lost = true;
	bad_qp = &app->run[0].write_qp[1];
	leave = ends_with_failure_and_bad_queue;
	cr_expect_eq(hr_run_all(app, false), 0x282);
	cr_expect_eq(app->run[0].durable_tiles, 0u);
	cr_expect_eq(durable_bytes(), 0u);
	down();
}

/* ---- checkpoints */

static uint64_t missing, durable_then; /* tiles that are not written; what was durable meanwhile */
static unsigned looks;

/* Some rounds with that many tiles missing, of which the slots know; then none is. */
static int ends_after_checkpoints(struct hr_run *run)
{
	const uint64_t tiles = run->tiles - run->first_tile - missing;

	hr_relaxed_sys_u64(&run->status[hr_pipe_first_status(run->pipe, HR_ROLE_WRITEBACK)].tiles,
			   tiles);
	for (uint32_t i = 0; i < run->pipe->slots; i++)
		hr_release_sys_u64(&run->written[i], run->tiles - i);
	if (looks++ < 4)
		return 0;
	durable_then = run->durable_tiles;
	hr_relaxed_sys_u64(&run->status[hr_pipe_first_status(run->pipe, HR_ROLE_WRITEBACK)].tiles,
			   run->tiles - run->first_tile);
	run->pipe->next_tile = run->tiles;
	return 1;
}

/* The slot that is farthest behind counts, unless every tile of this run is written. */
Test(runner, a_checkpoint_records_what_is_written_and_no_tile_more)
{
	static const struct {
		uint64_t first, missing, durable;
	} row[] = {
		{ 0, 1, TILES - 3 }, { 0, 2, TILES - 3 }, { 0, 0, TILES },
		{ 5, 1, TILES - 3 }, { 5, 5, TILES - 3 }, { 5, 0, TILES },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		up(one_copy);
		app->config.checkpoint_ns = 1;
		app->run[0].first_tile = row[i].first;
		missing = row[i].missing;
		looks = 0;
		leave = ends_after_checkpoints;
		cr_expect_eq(hr_run_all(app, false), 0);
		cr_expect_eq(durable_then, row[i].durable, "row %zu: %llu", i,
			     (unsigned long long)durable_then);
		cr_expect_eq(app->run[0].durable_tiles, TILES);
		down();
	}
}

/* ---- Ctrl-C */

/* Asks to stop at the first look; ends once the host has passed it on. */
static int stops_when_told(struct hr_run *run)
{
	if (!hr_signals_pending())
		raise(SIGINT);
	if (!run->control->stop)
		return 0;
	run->pipe->next_tile = 9;
	((struct hr_slot *)run->pipe->slot)[2].holds = 1;
	((struct hr_slot *)run->pipe->slot)[2].next_read = 5;
	run->status[0].bytes = 9 * TILE;
	return 1;
}

/* Without periodic checkpoints (checkpoint = 0) too. */
Test(runner, a_signal_records_what_is_written_to_the_tile)
{
	up(one_copy);
	hr_signals_catch();
	leave = stops_when_told;
	cr_expect_eq(hr_run_all(app, false), -EINTR);
	cr_expect_eq(app->run[0].outcome, HR_RUN_INTERRUPTED);
	cr_expect_eq(app->run[0].error, -EINTR);
	cr_expect_eq(app->run[0].durable_tiles, 5u);
	cr_expect_eq(durable_bytes(), 5u * TILE);
	cr_expect_eq(hr_run_bytes_read(&app->run[0]), 9u * TILE);
	cr_expect(
		strstr(fake_log_last_of(HR_LOG_WARN), "interrupted: 5 of 16 tiles of object 'out'"),
		"%s", fake_log_last());
	down();
}

static int write_fails(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes,
		       bool fua)
{
	return 0x280;
}

Test(runner, a_signal_whose_record_fails_is_that_error)
{
	struct hr_blk_ops broken;

	up(one_copy);
	broken = *app->ssd[1].blk->ops;
	broken.write = write_fails;
	app->ssd[1].blk->ops = &broken;
	hr_signals_catch();
	leave = stops_when_told;
	cr_expect_eq(hr_run_all(app, false), 0x280);
	cr_expect_eq(app->run[0].outcome, HR_RUN_INTERRUPTED);
	cr_expect_eq(app->run[0].error, 0x280);
	cr_expect_eq(app->run[0].durable_tiles, 0u);
	down();
}

static int works(struct hr_run *run)
{
	const uint32_t role = run->pipe->has_sink ? HR_ROLE_WRITEBACK : HR_ROLE_COMPUTE;

	run->status[hr_pipe_first_status(run->pipe, role)].tiles = run->tiles;
	run->pipe->next_tile = run->tiles;
	return 1;
}

Test(runner, nothing_is_launched_after_a_signal)
{
	up(chain);
	hr_signals_catch();
	raise(SIGTERM);
	leave = works;
	cr_expect_eq(hr_run_all(app, false), -EINTR);
	cr_expect_eq(launches, 0u);
	cr_expect_eq(app->run[0].outcome, HR_RUN_WAITING);
	down();
}

/* ---- which pipelines run */

static const char *fails_name; /* of a pipeline */
static char order[16];

static int works_but_one(struct hr_run *run)
{
	strcat(order, run->config->name);
	if (strcmp(run->config->name, fails_name) != 0)
		return works(run);
	memcpy(fails_at, (uint64_t[3]){ 3, 0, 0 }, sizeof fails_at);
	return ends_with_failures(run);
}

/* The order of the launches, when that one fails; and what it comes to. */
static const char *run_chain(const char *name, bool keep_going, const char *suspect, int want)
{
	up(chain);
	fails_name = name;
	leave = works_but_one;
	*order = '\0';
	app->keep_going = keep_going;
	for (uint32_t i = 0; i < 3; i++)
		app->run[i].suspect = strcmp(app->run[i].config->name, suspect) == 0;
	cr_expect_eq(hr_run_all(app, false), want, "%s", order);
	return order;
}

Test(runner, a_failure_ends_it_all)
{
	cr_expect_str_eq(run_chain("", false, "", 0), "pqr", "%s", order);
	down();
	cr_expect_str_eq(run_chain("p", false, "", 0x280), "p", "%s", order);
	cr_expect_eq(app->run[1].outcome, HR_RUN_WAITING);
	cr_expect_eq(app->run[2].outcome, HR_RUN_WAITING);
	down();
}

Test(runner, where_it_keeps_going_only_what_needs_it_stops)
{
	cr_expect_str_eq(run_chain("p", true, "", 0x280), "pr", "%s", order);
	cr_expect_eq(app->run[1].outcome, HR_RUN_WAITING);
	cr_expect_eq(app->run[2].outcome, HR_RUN_DONE);
	down();
	cr_expect_str_eq(run_chain("q", true, "", 0x280), "pqr", "%s", order);
	down();
}

/* And what reads the sink of a suspect comes behind it. */
Test(runner, suspects_run_last)
{
	cr_expect_str_eq(run_chain("", true, "p", 0), "rpq", "%s", order);
	down();
	cr_expect_str_eq(run_chain("", true, "q", 0), "prq", "%s", order);
	down();
}

Test(runner, without_an_ssd_or_a_gpu_that_failed_the_rest_runs)
{
	up(chain);
	app->keep_going = true;
	lost = true;
	bad_qp = &app->run[0].write_qp[0];
	leave = ends_with_bad_queue;
	hr_run_all(app, false);
	cr_expect_eq(app->run[1].outcome, HR_RUN_WAITING, "it reads from b");
	cr_expect_eq(app->run[2].outcome, HR_RUN_DONE);
	down();
	up(chain);
	app->keep_going = true;
	leave = gpu_fails;
	cr_expect_eq(hr_run_all(app, false), -EIO);
	cr_expect_eq(launches, 1u);
	cr_expect_eq(app->run[2].outcome, HR_RUN_WAITING);
	down();
}

/* ---- what was read */

Test(runner, bytes_are_those_of_all_sources)
{
	const struct hr_run *run;

	up(two_sources);
	run = &app->run[0];
	/* 8192 rows a tile, by the longest rows; the last tile has 1696. */
	cr_assert_eq(run->tiles, 13u);
	cr_expect_eq(hr_run_bytes(run, 0), 0u);
	cr_expect_eq(hr_run_bytes(run, 1), 8192u * 20);
	cr_expect_eq(hr_run_bytes(run, 13), 100000u * 20);
	cr_expect_eq(hr_run_bytes(run, 1000), 100000u * 20);
	cr_expect_eq(hr_run_bytes_read(run), 0u);
	down();
}

static int reads_all(struct hr_run *run)
{
	run->status[0].bytes = 7;
	run->status[1].bytes = 5;
	run->status[2].bytes = 1000; /* of compute */
	return works(run);
}

Test(runner, what_was_read_is_kept_after_the_way_down)
{
	up(two_sources);
	leave = reads_all;
	cr_expect_eq(hr_run_all(app, false), 0);
	app->backend[0].ops = real;
	hr_appliance_down(app);
	cr_expect_eq(hr_run_bytes_read(&app->run[0]), 12u);
	cr_expect_eq(app->run[0].through_tiles, 13u);
	free(app);
}
