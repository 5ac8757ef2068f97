/*
 * headrace reload: asks a running appliance.
 */
#include "boot/cmd/client.h"
#include "boot/cmd/cmd.h"

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
	"  --wait            until the new configuration is in force\n"
	"  --json            print the reply as the appliance sends it\n" HR_CLIENT_HELP
		HR_EXIT_HELP;

const struct hr_command hr_cmd_reload = {
	.name = "reload",
	.summary = "let a running appliance read its configuration again",
	.help = reload_help,
	.fn = hr_client_command,
};
