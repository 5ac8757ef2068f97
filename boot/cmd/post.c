#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/report/json.h"
#include "boot/cmd/load.h"
#include "boot/cmd/post/post.h"
#include "boot/engine/disks.h"
#include "boot/engine/signals.h"
#include "nvme/transport.h"

static const char help[] =
	"usage: headrace post [CONFIG] [--json] [--bind]\n\n"
	"Power-on self-test, one line a step: CPU, memory, clock, the backend of each gpu, known\n"
	"answers of the operators, and for each ssd: bring-up and identify, a queue round trip, "
	"SMART,\n"
	"the object store, a loopback (write, read, compare) in the store's scratch area, and the\n"
	"object map. Nothing else is written; without a store nothing at all. Two ssds that are\n"
	"one disk are refused, as by run. Without CONFIG the built-in configuration is tested,\n"
	"which needs no hardware.\n\n"
	"  --json         print one JSON object instead\n" HR_BIND_HELP HR_EXIT_HELP;

static int finish(struct hr_post *post, struct json_object *report)
{
	int code = post->failed ? hr_exit_code(post->error) : HR_EXIT_DONE;

	if (hr_signals_pending() && code == HR_EXIT_DONE)
		code = HR_EXIT_FAILED;
	if (!report) {
		printf("%u passed, %u failed, %u skipped\n", post->passed, post->failed,
		       post->skipped);
		return code;
	}
	hr_json_u64(report, "passed", post->passed);
	hr_json_u64(report, "failed", post->failed);
	hr_json_u64(report, "skipped", post->skipped);
	hr_json_i64(report, "exit_code", code);
	if (hr_json_print(report) != 0 && code == HR_EXIT_DONE)
		code = HR_EXIT_FAILED;
	return code;
}

static int post(const char *file, bool json)
{
	struct json_object *report = NULL;
	struct hr_post state = { .out = stdout };
	int code;

	state.app = hr_load(file, NULL, &code);
	if (!state.app)
		return code;
	for (uint32_t d = 0; d < state.app->config.ssds; d++) {
		if (hr_disk_check_device(state.app, d) != 0) {
			free(state.app);
			return HR_EXIT_USAGE;
		}
	}
	hr_signals_catch();
	if (json) {
		report = hr_json_new();
		hr_json_string(report, "configuration", state.app->config.file);
		state.steps = hr_json_array(report, "steps");
	}
	hr_post_machine(&state);
	hr_post_ssds(&state);
	code = finish(&state, report);
	free(state.app);
	return code;
}

static int cmd_post(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "bind", no_argument, NULL, 'B' },
						 { NULL, 0, NULL, 0 } };
	bool json = false;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'B')
			hr_transport_allow_bind();
		else if (option == 'j')
			json = true;
		else
			return hr_usage_error("post", "unknown option '%s'", argv[optind - 1]);
	}
	if (argc - optind > 1)
		return hr_usage_error("post", "one configuration expected, %d given",
				      argc - optind);
	return post(optind < argc ? argv[optind] : NULL, json);
}

const struct hr_command hr_cmd_post = {
	.name = "post",
	.summary = "power-on self-test, one line a step",
	.help = help,
	.fn = cmd_post,
};
