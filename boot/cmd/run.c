#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/control.h"
#include "boot/appliance/feed_service.h"
#include "boot/appliance/store_service.h"
#include "boot/appliance/tap_service.h"
#include "boot/cmd/cmd.h"
#include "boot/cmd/load.h"
#include "boot/cmd/options.h"
#include "boot/cmd/report/json.h"
#include "boot/cmd/report/plan.h"
#include "boot/cmd/report/runs.h"
#include "boot/engine/pass.h"
#include "boot/engine/runner.h"
#include "boot/engine/seal.h"
#include "boot/engine/signals.h"
#include "config/clock.h"
#include "config/log.h"
#include "config/tick.h"
#include "nvme/transport.h"

static const char help[] =
	"usage: headrace run [CONFIG] [--pipeline NAME] [--json] [--map] [--quiet] [--bind]\n\n"
	"Bring up the appliance that CONFIG describes, and run its pipelines one after another to\n"
	"completion. Without CONFIG the built-in configuration runs, which needs no hardware.\n"
	"Progress is shown on stderr when stderr is a terminal. Results go to stdout, with the\n"
	"choice made for gpu device \"auto\" and its reason.\n\n"
	"  --pipeline NAME\n"
	"                 run only this pipeline\n"
	"  --json         print one JSON object instead of the table; `gpus` has the backend of\n"
	"                 each gpu, and a note when it was chosen or differs from the request\n"
	"  --map          before the run, also print the partition map of `headrace check`, with\n"
	"                 the addresses of each part for workers, CPU and ssds\n"
	"  --quiet        no progress line\n" HR_BIND_HELP "\n"
	"After Ctrl-C (or SIGTERM) no new command is started, commands in flight end, the output\n"
	"is made durable, and its size is printed; the exit code is then 1. The next run of the\n"
	"same pipeline over the same objects continues from there. `checkpoint` in the\n"
	"configuration sets how often progress is made durable during a run. A second Ctrl-C ends\n"
	"the process at once.\n" HR_EXIT_HELP;

struct request {
	const char *file, *pipeline;
	bool json, map, quiet;
};

static int report(const struct hr_appliance *app, const struct request *request, int code)
{
	struct hr_json out;

	if (!request->json) {
		hr_report_runs(app, HR_REPORT_ALL, stdout);
		return code;
	}
	hr_report_begin(&out);
	hr_report_runs_json(app, &out);
	if (request->map)
		hr_report_map_json(app, &out);
	hr_json_i64(&out, "exit_code", code);
	return hr_report_end(&out, code, code ? code : HR_EXIT_FAILED);
}

/* The map is printed before the last stage, because nothing may be allocated after that stage. */
static int bring_up(struct hr_appliance *app, const struct request *request)
{
	if (request->map && !request->json) {
		const int err = hr_appliance_up(app, HR_STAGE_MEMORY);

		if (err)
			return err;
		hr_report_map(app, stdout);
		printf("\n");
		fflush(stdout);
	}
	return hr_appliance_up(app, HR_STAGE_QUEUES);
}

static int stop(void *to, struct hr_error *e)
{
	hr_signals_stop();
	return 0;
}

/* Clients of the control socket that the service serves: from the periodic function to the
 * rounds. */
static int to_service[2] = { -1, -1 };
static struct hr_store_service service;
static struct hr_tap_service taps;
static struct hr_feed_service feeds;
static struct hr_tap_sockets sockets;

static int pass(void *to, const struct hr_request *request, int fd, struct hr_error *e)
{
	const int err = service.app ? hr_pass_send(to_service[0], request, sizeof *request, &fd, 1)
				    : -ENOTCONN;

	return err ? hr_fail(e, HR_ERROR_FAILED, err, "busy: the pipelines do not run now") : 0;
}

static void serve(void *to)
{
	hr_store_service_step(&service);
	hr_tap_service_step(&taps);
	hr_feed_service_step(&feeds);
}

static void open_service(struct hr_appliance *app)
{
	struct hr_error e = { 0 };
	int err = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, to_service);

	if (err)
		err = hr_fail(&e, HR_ERROR_MISSING, -errno, "store requests: socketpair: %s",
			      strerror(errno));
	if (!err)
		err = hr_store_service_open(&service, app, to_service[1], &e);
	if (err)
		hr_error_log(&e, HR_LOG_WARN);
	app->serve = serve;
}

/* The sockets of taps and feeds. */
static int open_sockets(struct hr_appliance *app, struct hr_error *e)
{
	bool selected[HR_PIPELINES_MAX] = { false };
	int err;

	for (uint32_t i = 0; i < app->config.pipelines; i++)
		selected[i] = app->run[i].selected;
	err = hr_tap_sockets_open(&sockets, &app->config, selected, e);
	if (err)
		return err;
	err = hr_tap_service_open(&taps, app, &sockets, false, e);
	if (!err)
		err = hr_feed_service_open(&feeds, app, e);
	if (err) {
		hr_tap_service_close(&taps);
		hr_tap_sockets_close(&sockets);
	}
	return err;
}

static int run(const struct request *request)
{
	static const struct hr_actions actions = { .stop = stop, .pass = pass };
	static struct hr_status status; /* one per process */
	static struct hr_control control;
	struct hr_appliance *app;
	struct hr_error e = { 0 };
	int code, err;

	app = hr_load(request->file, request->pipeline, &code);
	if (!app)
		return code;
	if (app->config.pipelines == 0) {
		hr_error("%s: there are no pipelines to run", app->config.file);
		free(app);
		return HR_EXIT_USAGE;
	}
	hr_signals_catch();
	hr_status_open(&status, app);
	hr_control_open(&control, &status, &actions);
	status.phase = HR_PHASE_RUNNING;
	status.engine = getpid();
	hr_tick_set(hr_control_tick, &control);
	open_service(app);
	status.service = &service;
	status.taps = &taps;
	err = bring_up(app, request);
	if (!err)
		err = open_sockets(app, &app->error);
	code = hr_error_report(&app->error, err);
	if (!err) {
		err = hr_run_all(app, !request->quiet, &e);
		code = hr_error_report(&e, err);
		hr_store_service_close(&service);
		hr_tap_service_close(&taps);
		hr_tap_sockets_close(&sockets);
		hr_feed_service_close(&feeds);
		hr_unseal();
		code = report(app, request, code);
	}
	hr_appliance_down(app);
	hr_tick_set(NULL, NULL);
	hr_control_close(&control);
	free(app);
	return code;
}

static int cmd_run(int argc, char **argv)
{
	struct request request = { 0 };
	const struct hr_option options[] = { { "pipeline", .text = &request.pipeline },
					     { "bind", .call = hr_transport_allow_bind },
					     { "json", .flag = &request.json },
					     { "map", .flag = &request.map },
					     { "quiet", .flag = &request.quiet },
					     { NULL } };
	const int code = hr_options(argc, argv, options, "one configuration", &request.file);

	return code ? code : run(&request);
}

const struct hr_command hr_cmd_run = {
	.name = "run",
	.summary = "run the pipelines of a configuration to completion",
	.help = help,
	.fn = cmd_run,
};
