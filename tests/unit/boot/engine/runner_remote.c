/* The failure of a stream stops the run that it belongs to: its workers start no new tile. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/engine/remote.h"
#include "boot/engine/runner.h"
#include "boot/engine/seal.h"
#include "tests/fakes/link.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"
#include "tests/harness/remote_rig.h"

TestSuite(runner_remote, .timeout = 60);

static struct hr_backend_ops ops;
static int ended;

static int launch(struct hr_backend *b, const struct hr_launch_args *args,
		  struct hr_launch **launched, struct hr_error *e)
{
	static struct hr_launch handle;

	handle = (struct hr_launch){ b, args->stop };
	*launched = &handle;
	return 0;
}

static int poll(struct hr_launch *launched, struct hr_error *e)
{
	return ended;
}

static void launch_free(struct hr_launch *launched)
{
}

/* A file of 32 bytes that only its owner reads. */
static void write_key(const char *path)
{
	const uint8_t key[32] = { 1, 2, 3 };
	const int fd = open(path, O_CREAT | O_WRONLY, 0400);

	cr_assert_eq(write(fd, key, sizeof key), (ssize_t)sizeof key);
	close(fd);
}

static void up(void)
{
	char folder[] = "/tmp/headrace-runner-XXXXXX", key[64], text[1024];

	cr_assert_not_null(mkdtemp(folder));
	snprintf(key, sizeof key, "%s/key", folder);
	write_key(key);
	snprintf(
		text, sizeof text,
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\"; } );\n"
		"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
		"remote = { key = \"%s\"; peers = [ \"10.0.0.9\" ]; };\n"
		"pipelines = ( { name = \"take\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
		"  source = { remote = \"127.0.0.1:4792\"; name = \"t\"; bytes = \"1M\"; };\n"
		"  sink = { object = \"out\"; }; } );\n",
		key);
	remote_rig_up(text);
	cr_assert_eq(hr_appliance_up(&rig_app, HR_STAGE_QUEUES), 0, "%s", rig_app.error.text);
	hr_unseal();
	remove(key);
	rmdir(folder);
	ops = *rig_app.backend[0].ops;
	ops.launch = launch;
	ops.poll = poll;
	ops.launch_free = launch_free;
}

Test(runner_remote, a_stream_that_fails_stops_its_run)
{
	const struct hr_backend_ops *real;
	struct hr_runner runner = { .app = &rig_app };
	uint32_t *stop;

	up();
	real = rig_app.backend[0].ops;
	rig_app.backend[0].ops = &ops;
	stop = &hr_run_control(&rig_app.run[0], 0)->stop;
	hr_runner_start(&runner, 0);
	for (int i = 0; i < 3; i++)
		hr_runner_look(&runner);
	cr_expect_eq(*stop, HR_STOP_NOT);
	cr_expect_eq(rig_app.run[0].cause.kind, HR_ERROR_NONE);
	fake_link_say((struct hr_link_event){
		.kind = HR_LINK_FAILED, .code = HR_ERROR_DEVICE, .text = "the port is down" });
	while (*stop == HR_STOP_NOT)
		hr_runner_look(&runner);
	cr_expect_eq(*stop, HR_STOP_NEW);
	cr_expect_eq(rig_app.run[0].cause.kind, HR_ERROR_DEVICE);
	cr_expect(strstr(rig_app.run[0].cause.text, "pipeline 'take': "), "%s",
		  rig_app.run[0].cause.text);
	cr_expect(strstr(rig_app.run[0].cause.text, "the port is down"), "%s",
		  rig_app.run[0].cause.text);
	ended = 1;
	while (runner.running)
		hr_runner_look(&runner);
	cr_expect_eq(rig_app.run[0].outcome, HR_RUN_FAILED);
	rig_app.backend[0].ops = real;
	hr_remote_down(&rig_app);
	remote_rig_down();
}
