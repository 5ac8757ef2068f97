/*
 * headrace stop: asks a running appliance.
 */
#include "boot/cmd/client.h"
#include "boot/cmd/cmd.h"

static const char stop_help[] =
	"usage: headrace stop [--wait] [--json] [--appliance NAME]\n\n"
	"Stop a running appliance cleanly, as SIGTERM does: no new command is started, commands\n"
	"in flight end, written tiles are made durable. An appliance that is the first process of\n"
	"a machine powers it off.\n\n"
	"  --wait            end when the appliance has stopped\n"
	"  --json            print the reply as the appliance sends it\n" HR_CLIENT_HELP
		HR_EXIT_HELP;

const struct hr_command hr_cmd_stop = {
	.name = "stop",
	.summary = "stop a running appliance cleanly",
	.help = stop_help,
	.fn = hr_client_command,
};
