#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/report/json.h"
#include "boot/cmd/load.h"
#include "boot/cmd/report/report.h"
#include "boot/engine/stage_sinks.h"
#include "gpu/ops/operators.h"
#include "nvme/transport.h"

static const char help[] =
	"usage: headrace check [CONFIG] [--operators] [--json] [--bind]\n\n"
	"Read and check a configuration, bring up its ssds and gpus, look up the objects, and\n"
	"print what `run` would use: ssds, the path of each pipeline, and the static partition of\n"
	"memory as a map. Sinks and their space are judged as `run` judges them, on a copy of the\n"
	"object map, and refused with the same exit code. Nothing is run, written or made. "
	"Without\n"
	"CONFIG the built-in configuration is checked, which needs no hardware; '-' is standard\n"
	"input.\n\n"
	"  --json         print one JSON object instead\n"
	"  --operators    list the operators instead, with their sources and arguments: the "
	"built-in ones,\n"
	"                 and those of CONFIG\n" HR_BIND_HELP HR_EXIT_HELP;

static void print_operators(const struct hr_config *config)
{
	for (uint32_t id = 0; id < HR_OP_COUNT; id++) {
		const struct hr_operator *op = hr_op_get(id);

		printf("%s%s\n  %s\n", id ? "\n" : "", op->name, op->help);
	}
	for (uint32_t i = 0; config && i < config->ops; i++) {
		const struct hr_operator *op = config->op[i].op;

		printf("\n%s (%s: %s)\n  %s\n", op->name, config->op[i].file,
		       op->gpu == op->gpu_end ? "for the host backend only" : "for both backends",
		       op->help);
	}
}

static void operator_json(struct json_object *out, const struct hr_operator *op, const char *file)
{
	hr_json_string(out, "name", op->name);
	hr_json_string(out, "help", op->help);
	hr_json_u64(out, "sources_min", hr_op_sources_min(op));
	hr_json_u64(out, "sources_max", hr_op_sources_max(op));
	hr_json_bool(out, "produces_data", op->output == HR_OUT_DATA);
	hr_json_bool(out, "built_in", !file);
	if (file) {
		hr_json_string(out, "file", file);
		hr_json_u64(out, "gpu_bytes", (uint64_t)(op->gpu_end - op->gpu));
	}
}

static int print_operators_json(const struct hr_config *config)
{
	struct json_object *report = hr_json_new();
	struct json_object *all = hr_json_array(report, "operators");

	for (uint32_t id = 0; id < HR_OP_COUNT; id++)
		operator_json(hr_json_append(all), hr_op_get(id), NULL);
	for (uint32_t i = 0; config && i < config->ops; i++)
		operator_json(hr_json_append(all), config->op[i].op, config->op[i].file);
	return hr_json_print(report) == 0 ? HR_EXIT_DONE : HR_EXIT_FAILED;
}

/* The operators of a configuration; of none: the built-in ones. No device is looked at. */
static int list_operators(const char *file, bool json)
{
	struct hr_appliance *app = NULL;
	int code = HR_EXIT_DONE;

	if (file) {
		app = hr_load(file, NULL, &code);
		if (!app)
			return code;
	}
	code = HR_EXIT_DONE;
	if (json)
		code = print_operators_json(app ? &app->config : NULL);
	else
		print_operators(app ? &app->config : NULL);
	free(app);
	return code;
}

/* What the report says of GPUs beyond what bring-up needs to know. */
static int ask_roles(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < app->config.gpus; g++)
		if (app->gpu_up[g] && app->backend[g].ops->roles)
			err = app->backend[g].ops->roles(&app->backend[g]);
	return err;
}

static int check(const char *file, bool json)
{
	struct hr_appliance *app;
	int code, err;

	app = hr_load(file, NULL, &code);
	if (!app)
		return code;
	app->only_checks = true;
	err = hr_appliance_up(app, HR_STAGE_PARTITION);
	if (!err)
		err = hr_sinks_judge(app);
	if (!err)
		err = ask_roles(app);
	code = hr_exit_code(err);
	if (!err && json) {
		struct json_object *report = hr_json_new();

		hr_report_plan_json(app, report);
		if (hr_json_print(report) != 0)
			code = HR_EXIT_FAILED;
	} else if (!err) {
		hr_report_plan(app, stdout);
	}
	hr_appliance_down(app);
	free(app);
	return code;
}

static int cmd_check(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "bind", no_argument, NULL, 'B' },
						 { "operators", no_argument, NULL, 'o' },
						 { NULL, 0, NULL, 0 } };
	bool json = false, operators = false;
	const char *file;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'B':
			hr_transport_allow_bind();
			break;
		case 'j':
			json = true;
			break;
		case 'o':
			operators = true;
			break;
		default:
			return hr_usage_error("check", "unknown option '%s'", argv[optind - 1]);
		}
	}
	if (argc - optind > 1)
		return hr_usage_error("check", "one configuration expected, %d given",
				      argc - optind);
	file = optind < argc ? argv[optind] : NULL;
	return operators ? list_operators(file, json) : check(file, json);
}

const struct hr_command hr_cmd_check = {
	.name = "check",
	.summary = "check a configuration; print partition map and paths",
	.help = help,
	.fn = cmd_check,
};
