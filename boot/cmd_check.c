#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot/cmd.h"
#include "boot/json.h"
#include "boot/load.h"
#include "boot/report.h"

static const char help[] =
	"usage: headrace check [CONFIG] [--json]\n\n"
	"Read and check a configuration, bring up its ssds and gpus, look up the objects, and "
	"print\n"
	"what `run` would use: ssds, the path of each pipeline, and the static partition of memory "
	"as\n"
	"a map. Nothing is run and nothing is written. Without CONFIG the built-in configuration "
	"is\n"
	"checked, which needs no hardware.\n\n"
	"  --json        print one JSON object instead\n"
	"  --operators   list the operators, their sources and arguments\n" HR_EXIT_HELP;

static void print_operators(void)
{
	for (int id = 0; id < HR_OP_COUNT; id++) {
		const struct hr_op_desc *op = hr_op_get((enum hr_op_id)id);

		printf("%s%s\n  %s\n", id ? "\n" : "", op->name, op->help);
	}
}

static int check(const char *file, bool json)
{
	struct hr_appliance *app;
	int code, err;

	app = hr_load(file, NULL, &code);
	if (!app)
		return code;
	err = hr_appliance_up(app, HR_STAGE_PARTITION);
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
						 { "operators", no_argument, NULL, 'o' },
						 { NULL, 0, NULL, 0 } };
	bool json = false;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			json = true;
			break;
		case 'o':
			print_operators();
			return HR_EXIT_DONE;
		default:
			return hr_usage_error("check", "unknown option '%s'", argv[optind - 1]);
		}
	}
	if (argc - optind > 1)
		return hr_usage_error("check", "one configuration expected, %d given",
				      argc - optind);
	return check(optind < argc ? argv[optind] : NULL, json);
}

const struct hr_command hr_cmd_check = {
	.name = "check",
	.summary = "check a configuration; print partition map and paths",
	.help = help,
	.fn = cmd_check,
};
