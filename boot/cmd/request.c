/*
 * headrace trigger: asks a running appliance.
 */
#include "boot/cmd/client.h"
#include "boot/cmd/cmd.h"

static const char trigger_help[] =
	"usage: headrace trigger PIPELINE [--wait] [--json] [--appliance NAME]\n\n"
	"Ask a running appliance (headrace boot) to start a pipeline, whatever its schedule says.\n"
	"While a start that was asked for has not begun, further requests are the same start;\n"
	"during a run of the pipeline the next start follows it. A paused pipeline is not\n"
	"started.\n\n"
	"  --wait            end when that start has ended, with its result as exit code\n"
	"  --json            print the reply as the appliance sends it\n" HR_CLIENT_HELP
		HR_EXIT_HELP;

const struct hr_command hr_cmd_trigger = {
	.name = "trigger",
	.summary = "start a pipeline of a running appliance",
	.help = trigger_help,
	.fn = hr_client_command,
};
