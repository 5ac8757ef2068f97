/*
 * headrace pause: asks a running appliance.
 */
#include "boot/cmd/client.h"
#include "boot/cmd/cmd.h"

static const char pause_help[] =
	"usage: headrace pause PIPELINE [--json] [--appliance NAME]\n\n"
	"Ask a running appliance to begin no further start of a pipeline, until `headrace resume`. A\n"
	"run that goes on ends normally.\n\n"
	"  --json            print the reply as the appliance sends it\n" HR_CLIENT_HELP
		HR_EXIT_HELP;

const struct hr_command hr_cmd_pause = {
	.name = "pause",
	.summary = "begin no further start of a pipeline",
	.help = pause_help,
	.fn = hr_client_command,
};
