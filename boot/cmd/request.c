/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace trigger, pause, resume, stop, reload: ask a running appliance.
 */
#include "boot/cmd/client.h"
#include "boot/cmd/cmd.h"

#define COMMON_HELP                                                                      \
	"  --json            print the reply as the appliance sends it\n" HR_CLIENT_HELP \
		HR_EXIT_HELP

static const char trigger_help[] =
	"usage: headrace trigger PIPELINE [--wait] [--json] [--appliance NAME]\n\n"
	"Ask a running appliance (headrace boot) to start a pipeline, whatever its schedule says.\n"
	"While a start that was asked for has not begun, further requests are the same start;\n"
	"during a run of the pipeline the next start follows it. A paused pipeline is not\n"
	"started.\n\n"
	"  --wait            end when that start has ended, with its result as exit code\n" COMMON_HELP;

const struct hr_command hr_cmd_trigger = { "trigger", "start a pipeline of a running appliance",
					   trigger_help, hr_client_command, false };

static const char pause_help[] =
	"usage: headrace pause PIPELINE [--json] [--appliance NAME]\n\n"
	"Ask a running appliance to begin no further start of a pipeline, until `headrace resume`. A\n"
	"run that goes on ends normally.\n\n" COMMON_HELP;

const struct hr_command hr_cmd_pause = { "pause", "begin no further start of a pipeline",
					 pause_help, hr_client_command, false };

static const char resume_help[] =
	"usage: headrace resume PIPELINE [--json] [--appliance NAME]\n\n"
	"Ask a running appliance to start a paused pipeline again when its schedule says so. Also\n"
	"lifts the suspension of a pipeline in whose run an engine has ended.\n\n" COMMON_HELP;

const struct hr_command hr_cmd_resume = { "resume", "permit the starts of a paused pipeline again",
					  resume_help, hr_client_command, false };

static const char stop_help[] =
	"usage: headrace stop [--wait] [--json] [--appliance NAME]\n\n"
	"Stop a running appliance cleanly, as SIGTERM does: no new command is started, commands\n"
	"in flight end, written tiles are made durable. An appliance that is the first process of\n"
	"a machine powers it off.\n\n"
	"  --wait            end when the appliance has stopped\n" COMMON_HELP;

const struct hr_command hr_cmd_stop = { "stop", "stop a running appliance cleanly", stop_help,
					hr_client_command, false };

static const char reload_help[] =
	"usage: headrace reload [--wait] [--json] [--appliance NAME]\n\n"
	"Let a running appliance read its configuration again, as SIGHUP does. The schedule of\n"
	"its pipelines changes at once. Pipelines that are new, changed or removed, ssds, gpus,\n"
	"operators and memory need a new engine: no further start begins, and when no pipeline\n"
	"runs, the next engine takes them over. The reply lists the changes, the pipelines that\n"
	"still run, and settings that stay as they are until the appliance is started again (its\n"
	"name and log, boot, control). A configuration with mistakes changes nothing: they are\n"
	"listed with their lines, and the exit code is 2. When no engine comes up with the new\n"
	"configuration, the earlier one is in force again.\n\n"
	"  --wait            until the new configuration is in force\n" COMMON_HELP;

const struct hr_command hr_cmd_reload = { "reload",
					  "let a running appliance read its configuration again",
					  reload_help, hr_client_command, false };
