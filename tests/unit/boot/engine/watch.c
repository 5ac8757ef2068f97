/*
 * Workers that do not move and a gpu that fails while a pipeline runs: both end the run in bounded
 * time, are named, and lose nothing that was written.
 */
#include "boot/engine/names.h"
#include "boot/engine/watch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/clock.h"
#include "boot/engine/runner.h"

TestSuite(watch, .timeout = 60);

/* ---- hr_watch_look() alone */

static struct hr_worker_status status[7];
static struct hr_pipe pipe_of = { .blocks = { 1, 3, 1 }, .workers = { 2, 8, 2 } };
static struct hr_run run_of = { .pipe = &pipe_of, .status = status };
static struct hr_watch watch;

static struct hr_appliance *appliance(void)
{
	struct hr_appliance *app = calloc(1, sizeof *app);

	cr_assert_not_null(app);
	app->config.ssds = 2;
	app->config.ssd[0].timeout_ns = 1000;
	app->config.ssd[1].timeout_ns = 4000;
	return app;
}

static void all_move(uint32_t except)
{
	for (uint32_t i = 0; i < 7; i++)
		status[i].heartbeat += i != except;
}

Test(watch, each_worker_has_to_move_or_to_have_ended)
{
	static const enum hr_role role[] = { HR_ROLE_PREFETCH, HR_ROLE_PREFETCH, HR_ROLE_COMPUTE,
					     HR_ROLE_COMPUTE,  HR_ROLE_COMPUTE,	 HR_ROLE_WRITEBACK,
					     HR_ROLE_WRITEBACK };
	static const uint32_t number[] = { 0, 1, 0, 1, 2, 0, 1 };
	struct hr_appliance *app = appliance();
	uint32_t index;

	app->patience_ns = 100;
	for (uint32_t i = 0; i < 7; i++) {
		const uint64_t limit = role[i] == HR_ROLE_COMPUTE ? 100 : 8100;

		memset(status, 0, sizeof status);
		hr_watch_begin(&watch, app, &run_of, 50);
		for (uint64_t now = 50; now < 50 + limit; now += 25, all_move(i))
			cr_assert_eq(hr_watch_look(&watch, now, &index), HR_ROLES, "%u at %llu", i,
				     (unsigned long long)now);
		cr_expect_eq(hr_watch_look(&watch, 50 + limit, &index), role[i]);
		cr_expect_eq(index, number[i]);
		status[i].done = 1;
		cr_expect_eq(hr_watch_look(&watch, 50 + limit, &index), HR_ROLES);
	}
	free(app);
}

Test(watch, patience_is_more_than_all_deadlines)
{
	struct hr_appliance *app = appliance();

	hr_watch_begin(&watch, app, &run_of, 0);
	cr_expect_eq(watch.patience_ns[HR_ROLE_PREFETCH], 8000 + HR_PATIENCE_NS);
	cr_expect_eq(watch.patience_ns[HR_ROLE_COMPUTE], HR_TILE_PATIENCE_NS);
	free(app);
}

/* ---- a whole appliance, whose backend does not do what it should */

static struct hr_backend_ops ops;
static const struct hr_backend_ops *real;
static struct hr_appliance *app;
static unsigned polls;

static int launch_nothing(struct hr_backend *b, enum hr_kernel kernel, void *argument,
			  uint32_t blocks, uint32_t threads, uint32_t shared_bytes)
{
	return 0;
}

static int never_ends(struct hr_backend *b)
{
	return 0;
}

static int fails_soon(struct hr_backend *b)
{
	return ++polls < 3 ? 0 : -EIO;
}

/* The GPU is gone when its results are fetched. */
static int fails_to_copy(struct hr_backend *b, void *to, const void *from, size_t bytes)
{
	return -EIO;
}

static void print(void *to, const char *line)
{
	fprintf(stderr, "%s\n", line);
}

static void up(void)
{
	static const char text[] =
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\"; timeout_ms = 20000;\n"
		"  objects = ( { name = \"in\"; bytes = \"1M\"; } ); } );\n"
		"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
		"pipelines = ( { name = \"p\"; source = { object = \"in\"; }; operator = "
		"\"copy\";\n"
		"  sink = { object = \"out\"; }; tile = \"64K\"; slots = 4; } );\n";

	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	cr_assert_eq(
		hr_config_parse(&app->config, &hr_names, "f", text, sizeof text - 1, print, NULL),
		0);
	cr_assert_eq(hr_appliance_init(app, NULL), 0);
	cr_assert_eq(hr_appliance_up(app, HR_STAGE_QUEUES), 0);
	real = app->backend[0].ops;
	ops = *real;
	app->backend[0].ops = &ops;
}

static void down(void)
{
	app->backend[0].ops = real;
	hr_appliance_down(app);
	free(app);
}

/* What workers may have told before: five tiles are written. */
static void pretend_progress(void)
{
	app->run[0].written[0] = 8;
	app->run[0].written[1] = 5;
	app->run[0].written[2] = 6;
	app->run[0].written[3] = 7;
}

Test(watch, a_gpu_that_fails_ends_the_run_with_what_is_written)
{
	up();
	ops.launch = launch_nothing;
	ops.poll = fails_soon;
	pretend_progress();
	cr_expect_eq(hr_run_all(app, false), -EIO);
	cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app->run[0].error, -EIO);
	cr_expect_eq(app->run[0].durable_tiles, 5);
	cr_expect(app->ssd[0].failed, "its queues are not to be trusted");
	down();
}

Test(watch, results_that_cannot_be_fetched_fail_the_run)
{
	up();
	ops.download = fails_to_copy;
	cr_expect_eq(hr_run_all(app, false), -EIO);
	cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(app->run[0].durable_tiles, 16, "all of it was written");
	down();
}

/* Nothing can end such a worker, so the process ends, in its child here. */
Test(watch, a_worker_that_hangs_ends_the_process_in_time)
{
	char text[4096] = "";
	int fd[2], code = 0;
	size_t at = 0;
	ssize_t n;
	pid_t child;

	cr_assert_eq(pipe(fd), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		up();
		app->patience_ns = 50 * HR_NS_PER_MS;
		ops.launch = launch_nothing;
		ops.poll = never_ends;
		pretend_progress();
		hr_run_all(app, false);
		_exit(99);
	}
	close(fd[1]);
	while ((n = read(fd[0], text + at, sizeof text - 1 - at)) > 0)
		at += (size_t)n;
	close(fd[0]);
	cr_assert_eq(waitpid(child, &code, 0), child);
	cr_expect(WIFEXITED(code) && WEXITSTATUS(code) == 4, "status %x", (unsigned)code);
	/* Prefetch and write-back have two deadlines of 20 s more. */
	cr_expect(strstr(text, "pipeline 'p': compute block 0 of host:1, which began tile 0, has "
			       "not moved for 50 ms"),
		  "%s", text);
	cr_expect(strstr(text, "5 of 16 tiles of object 'out' are durable"), "%s", text);
}
