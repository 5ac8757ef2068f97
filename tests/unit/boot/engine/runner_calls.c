/* Each call of a gpu's backend that a run makes may fail. */
#include "boot/engine/runner.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/names.h"
#include "boot/engine/seal.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

TestSuite(runner_calls, .timeout = 60);

static struct hr_appliance *app;
static struct hr_backend_ops ops;
static const struct hr_backend_ops *real;

/* The call of the gpu that fails: 1 upload, 2 launch, 3 poll, 4 download. */
static unsigned failing_call;
static unsigned calls[5];

static int call(unsigned which, struct hr_error *e)
{
	calls[which]++;
	return which == failing_call ? hr_fail(e, HR_ERROR_DEVICE, -EIO, "call %u failed", which)
				     : 0;
}

static int upload_or_fail(struct hr_backend *b, void *worker, const void *cpu, size_t bytes,
			  struct hr_error *e)
{
	return call(1, e);
}

static int launch_or_fail(struct hr_backend *b, const struct hr_launch_args *args,
			  struct hr_launch **launch, struct hr_error *e)
{
	const int err = call(2, e);

	static struct hr_launch handle;

	if (err)
		return err;
	handle = (struct hr_launch){ b, args->stop };
	*launch = &handle;
	return 0;
}

static int poll_or_fail(struct hr_launch *launch, struct hr_error *e)
{
	const int err = call(3, e);

	app->run[0].pipe->next_tile = app->run[0].pipe->tiles;
	return err ? err : 1;
}

static int download_or_fail(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
			    struct hr_error *e)
{
	return call(4, e);
}

static void free_nothing(struct hr_launch *launch)
{
}

static const char copy[] =
	"appliance = { checkpoint = 0; };\n"
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=16M\";\n"
	"    objects = ( { name = \"in\"; bytes = \"1M\"; } ); },\n"
	"  { name = \"b\"; device = \"soft:memory,size=16M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"pipelines = ( { name = \"p\"; operator = \"copy\"; tile = \"64K\"; verify = \"off\";\n"
	"  slots = 4; source = { ssd = \"a\"; object = \"in\"; };\n"
	"  sink = { ssd = \"b\"; object = \"out\"; }; } );\n";

static void up(void)
{
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	cr_assert_eq(
		hr_config_parse(&app->config, &hr_names, "f", copy, strlen(copy), test_error()), 0,
		"%s", test_error_text());
	cr_assert_eq(hr_appliance_init(app, NULL), 0);
	cr_assert_eq(hr_appliance_up(app, HR_STAGE_QUEUES), 0);
	hr_unseal(); /* assertions may allocate */
	real = app->backend[0].ops;
	ops = *real;
	ops.upload = upload_or_fail;
	ops.launch = launch_or_fail;
	ops.poll = poll_or_fail;
	ops.download = download_or_fail;
	ops.launch_free = free_nothing;
	app->backend[0].ops = &ops;
	memset(calls, 0, sizeof calls);
}

static void down(void)
{
	app->backend[0].ops = real;
	hr_appliance_down(app);
	free(app);
}

/* No call after the one that failed, and its error is that of the run. */
Test(runner_calls, each_call_of_a_gpu_may_fail)
{
	for (failing_call = 1; failing_call <= 4; failing_call++) {
		char says[32];

		up();
		cr_expect_eq(hr_run_all(app, false, NULL), -EIO, "call %u", failing_call);
		for (unsigned i = 1; i <= 4; i++)
			cr_expect_eq(calls[i], i <= failing_call ? 1u : 0u,
				     "call %u: %u times call %u", failing_call, calls[i], i);
		snprintf(says, sizeof says, "call %u failed", failing_call);
		cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), says), "%s",
			  fake_log_last_of(HR_LOG_ERROR));
		cr_expect_eq(app->run[0].outcome, HR_RUN_FAILED);
		cr_expect_not(app->run[0].settled);
		down();
	}
}
