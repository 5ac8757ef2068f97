/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "boot/cmd/post/post.h"
#include "boot/engine/exclude.h"
#include "boot/engine/bringup/disks.h"
#include "config/base/process.h"
#include "config/base/clock.h"
#include "nvme/transport/transport.h"

#define PAIRS_NS (2 * HR_NS_PER_S)

static const char help[] =
	"usage: headrace post [CONFIG] [--json] [--bind]\n\n"
	"Power-on self-test, one line per step: CPU, memory, clock, the backend of each gpu, known\n"
	"answers of the operators, and the network device of each remote sink and source, which\n"
	"proves that it reaches memory. For each ssd: bring-up and identify, a queue round trip,\n"
	"SMART, the object store, a loopback (write, read, compare) in the store's scratch area, and\n"
	"the object map. For each gpu and ssd: the data that the ssd writes to GPU memory and reads\n"
	"from it, from 4 KiB on, up to 64 MiB in 2 s for all pairs ('headrace topo --prove' has no\n"
	"limit). Only the scratch area is written; an ssd without a store is not written to.\n"
	"Two ssds on one disk are refused, as by run. Without CONFIG the built-in configuration is\n"
	"tested, which needs no hardware.\n\n"
	"  --json         print one JSON object instead\n" HR_BIND_HELP HR_EXIT_HELP;

static int finish_post(struct hr_post *post, struct hr_json *report)
{
	int code = post->failed ? hr_error_report(&post->cause, post->error) : HR_EXIT_DONE;

	if (hr_signals_pending() && code == HR_EXIT_DONE)
		code = HR_EXIT_FAILED;
	if (!report) {
		printf("%u passed, %u failed, %u skipped\n", post->passed, post->failed,
		       post->skipped);
		return code;
	}
	hr_json_close(report);
	hr_json_u64(report, "passed", post->passed);
	hr_json_u64(report, "failed", post->failed);
	hr_json_u64(report, "skipped", post->skipped);
	hr_json_i64(report, "exit_code", code);
	return hr_report_end(report, code, code ? code : HR_EXIT_FAILED);
}

static int run_post(const char *file, bool json)
{
	struct hr_json report;
	static struct hr_post state; /* one per process */
	int code;

	state.out = stdout;
	state.pairs_ns = PAIRS_NS;
	state.engine = hr_load(file, NULL, &code);
	if (!state.engine)
		return code;
	for (uint32_t d = 0; d < state.engine->config.ssds; d++) {
		if (hr_disk_check_device(state.engine, d) != 0) {
			hr_stage_error_log(state.engine);
			free(state.engine);
			return HR_EXIT_USAGE;
		}
	}
	hr_signals_catch();
	hr_signals_announce();
	if (json) {
		hr_report_begin(&report, "post");
		hr_json_string(&report, "configuration", state.engine->config.file);
		hr_json_array(&report, "steps");
		state.steps = &report;
	}
	hr_post_machine(&state);
	hr_post_ssds(&state);
	code = finish_post(&state, state.steps);
	free(state.engine);
	return code;
}

static int cmd_post(int argc, char **argv)
{
	bool json = false;
	const struct hr_option options[] = { { "json", .flag = &json },
					     { "bind", .call = hr_transport_allow_bind },
					     { NULL } };
	const char *file = NULL;
	const int code = hr_options_parse(argc, argv, options, "one configuration", &file);

	return code ? code : run_post(file, json);
}

const struct hr_command hr_cmd_post = {
	.name = "post",
	.summary = "power-on self-test, one line per step",
	.help = help,
	.fn = cmd_post,
};
