#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "boot/engine/seal.h"
#include "config/clock.h"
#include "boot/cmd/cmd.h"
#include "boot/cmd/report/json.h"
#include "boot/cmd/load.h"
#include "config/log.h"
#include "boot/cmd/report/report.h"
#include "boot/engine/runner.h"
#include "boot/engine/signals.h"
#include "boot/appliance/status.h"
#include "config/tick.h"
#include "nvme/transport.h"

static const char help[] =
	"usage: headrace run [CONFIG] [--pipeline NAME] [--json] [--map] [--quiet] [--bind]\n\n"
	"Bring up the appliance that CONFIG describes and run its pipelines to completion, one "
	"after\n"
	"another. Without CONFIG the built-in configuration runs, which needs no hardware. "
	"Progress is\n"
	"shown on stderr when that is a terminal; results go to stdout, with what gpu device "
	"\"auto\"\n"
	"chose and why.\n\n"
	"  --pipeline NAME\n"
	"                 run only this one\n"
	"  --json         print one JSON object instead of the table; `gpus` says what runs "
	"worker\n"
	"                 blocks: backend, and note where that was chosen or is not as asked\n"
	"  --map          also print the partition map of `headrace check`, before anything runs,\n"
	"                 with the addresses that workers, the CPU and ssds have for each part\n"
	"  --quiet        no progress line\n" HR_BIND_HELP "\n"
	"Ctrl-C (or SIGTERM) starts nothing new, lets what is in flight end, makes it durable and\n"
	"says how much that is; the exit code is then 1. The next run of the same pipeline over "
	"the\n"
	"same objects goes on from there. How often progress is made durable besides is "
	"`checkpoint`\n"
	"in the configuration. A second Ctrl-C ends the process at once.\n" HR_EXIT_HELP;

struct wishes {
	const char *file, *pipeline;
	bool json, map, quiet;
};

static int report(const struct hr_appliance *app, const struct wishes *wishes, int code)
{
	struct json_object *object;

	if (!wishes->json) {
		hr_report_runs(app, HR_REPORT_ALL, stdout);
		return code;
	}
	object = hr_json_new();
	hr_report_runs_json(app, object);
	if (wishes->map)
		hr_report_map_json(app, object);
	hr_json_i64(object, "exit_code", code);
	if (hr_json_print(object) != 0 && code == HR_EXIT_DONE)
		code = HR_EXIT_FAILED;
	return code;
}

/* The map is printed before the last stage, after which nothing may allocate. */
static int bring_up(struct hr_appliance *app, const struct wishes *wishes)
{
	if (wishes->map && !wishes->json) {
		const int err = hr_appliance_up(app, HR_STAGE_MEMORY);

		if (err)
			return err;
		hr_report_map(app, stdout);
		printf("\n");
		fflush(stdout);
	}
	return hr_appliance_up(app, HR_STAGE_QUEUES);
}

static int run(const struct wishes *wishes)
{
	static struct hr_status status; /* one a process */
	struct hr_appliance *app;
	int code, err;

	app = hr_load(wishes->file, wishes->pipeline, &code);
	if (!app)
		return code;
	if (app->config.pipelines == 0) {
		hr_error("%s: there are no pipelines to run", app->config.file);
		free(app);
		return HR_EXIT_USAGE;
	}
	hr_signals_catch();
	hr_status_open(&status, app);
	status.phase = HR_PHASE_RUNNING;
	status.engine = getpid();
	hr_tick_set(hr_status_tick, &status);
	err = bring_up(app, wishes);
	code = hr_exit_code(err);
	if (!err) {
		err = hr_run_all(app, !wishes->quiet);
		code = err == -EINTR ? HR_EXIT_FAILED : hr_exit_code_up(err);
		hr_unseal();
		code = report(app, wishes, code);
	}
	hr_appliance_down(app);
	hr_tick_set(NULL, NULL);
	hr_status_close(&status);
	free(app);
	return code;
}

static int cmd_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "pipeline", required_argument, NULL, 'p' }, { "bind", no_argument, NULL, 'B' },
		{ "json", no_argument, NULL, 'j' },	      { "map", no_argument, NULL, 'm' },
		{ "quiet", no_argument, NULL, 'q' },	      { NULL, 0, NULL, 0 }
	};
	struct wishes wishes = { NULL, NULL, false, false, false };
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (option) {
		case 'p':
			wishes.pipeline = optarg;
			break;
		case 'B':
			hr_transport_allow_bind();
			break;
		case 'j':
			wishes.json = true;
			break;
		case 'm':
			wishes.map = true;
			break;
		case 'q':
			wishes.quiet = true;
			break;
		case ':':
			return hr_usage_error("run", "option '%s' needs a value", argv[optind - 1]);
		default:
			return hr_usage_error("run", "unknown option '%s'", argv[optind - 1]);
		}
	}
	if (argc - optind > 1)
		return hr_usage_error("run", "one configuration expected, %d given", argc - optind);
	if (optind < argc)
		wishes.file = argv[optind];
	return run(&wishes);
}

const struct hr_command hr_cmd_run = {
	.name = "run",
	.summary = "run the pipelines of a configuration to completion",
	.help = help,
	.fn = cmd_run,
};
