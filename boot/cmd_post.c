#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot/clock.h"
#include "boot/cmd.h"
#include "boot/json.h"
#include "boot/load.h"
#include "boot/post.h"
#include "boot/signals.h"
#include "nvme/status.h"

static const char help[] =
	"usage: headrace post [CONFIG] [--json]\n\n"
	"Power-on self-test, one line a step: CPU, memory, clock, the backend of each gpu, known\n"
	"answers of the operators, and for each ssd: bring-up and identify, a queue round trip, "
	"SMART,\n"
	"the object store, a loopback (write, read, compare) in the store's scratch area, and the\n"
	"object map. Nothing else is written; without a store nothing at all. Without CONFIG the\n"
	"built-in configuration is tested, which needs no hardware.\n\n"
	"  --json   print one JSON object instead\n" HR_EXIT_HELP;

/* One finding: a line, or an element of the report. */
static void show(struct hr_post *post, const char *step, const char *subject, int result, double ms,
		 const char *detail)
{
	const char *word = result == 0 ? "OK" : result == HR_POST_SKIP ? "SKIP" : "FAIL";
	struct json_object *out;

	if (result == HR_POST_SKIP)
		post->skipped++;
	else if (result == 0)
		post->passed++;
	else if (post->failed++ == 0)
		post->code = hr_exit_code(result);
	if (!post->steps) {
		printf("%-4s %-10s %-14s %9.3f ms  %s\n", word, step, subject, ms, detail);
		fflush(stdout);
		return;
	}
	out = hr_json_append(post->steps);
	hr_json_string(out, "step", step);
	hr_json_string(out, "subject", subject);
	hr_json_string(out, "outcome", word);
	hr_json_double(out, "duration_ms", ms, 3);
	hr_json_string(out, "detail", detail);
}

static double since_ms(uint64_t began)
{
	return (double)(hr_now_ns() - began) / 1e6;
}

static void test_machine(struct hr_post *post)
{
	static const struct {
		const char *name;
		int (*fn)(struct hr_appliance *app, char *detail);
	} step[] = {
		{ "cpu", hr_post_cpu },
		{ "memory", hr_post_memory },
		{ "clock", hr_post_clock },
	};

	for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		int result = step[i].fn(post->app, detail);

		show(post, step[i].name, "-", result, since_ms(began), detail);
	}
}

static void test_gpus(struct hr_post *post)
{
	for (uint32_t g = 0; g < post->app->config.gpus; g++) {
		const struct hr_config_gpu *gpu = &post->app->config.gpu[g];
		char message[HR_LOG_LINE_MAX] = "", detail[HR_POST_DETAIL];
		uint64_t began = hr_now_ns();
		struct hr_backend backend;
		int err = hr_backend_open(&backend, gpu->device, 1, message);

		if (err) {
			snprintf(detail, sizeof detail, "%.*s", (int)sizeof detail - 1, message);
		} else {
			snprintf(detail, sizeof detail, "%s, up to %u blocks", backend.name,
				 backend.max_blocks);
			backend.ops->close(&backend);
		}
		show(post, "backend", gpu->name, err, since_ms(began), detail);
	}
}

static void test_operators(struct hr_post *post)
{
	for (int id = 0; id < HR_OP_COUNT; id++) {
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		int result = hr_post_operator((enum hr_op_id)id, detail);

		show(post, "operator", hr_op_get((enum hr_op_id)id)->name, result, since_ms(began),
		     detail);
	}
}

static void test_ssd(struct hr_post *post, uint32_t d)
{
	static const struct {
		const char *name;
		int (*fn)(struct hr_appliance *app, uint32_t d, char *detail);
		bool needed; /* by the steps after it */
	} step[] = {
		{ "controller", hr_post_controller, true }, { "queue", hr_post_queue, true },
		{ "smart", hr_post_smart, false },	    { "store", hr_post_store, false },
		{ "loopback", hr_post_loopback, false },    { "map", hr_post_verify, false },
	};

	for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		int result = step[i].fn(post->app, d, detail);

		show(post, step[i].name, post->app->config.ssd[d].name, result, since_ms(began),
		     detail);
		if (result && step[i].needed)
			break;
	}
	hr_ssd_down(&post->app->ssd[d]);
}

static int finish(struct hr_post *post, struct json_object *report)
{
	int code = post->failed ? post->code : HR_EXIT_DONE;

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
	struct hr_post state = { 0 };
	int code;

	state.app = hr_load(file, NULL, &code);
	if (!state.app)
		return code;
	hr_signals_catch();
	if (json) {
		report = hr_json_new();
		hr_json_string(report, "configuration", state.app->config.file);
		state.steps = hr_json_array(report, "steps");
	}
	test_machine(&state);
	test_gpus(&state);
	test_operators(&state);
	for (uint32_t d = 0; d < state.app->config.ssds && !hr_signals_pending(); d++)
		test_ssd(&state, d);
	code = finish(&state, report);
	free(state.app);
	return code;
}

static int cmd_post(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { NULL, 0, NULL, 0 } };
	bool json = false;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option != 'j')
			return hr_usage_error("post", "unknown option '%s'", argv[optind - 1]);
		json = true;
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
