/*
 * headrace reload: asks a running appliance.
 */
#include "boot/cmd/client.h"
#include "boot/cmd/cmd.h"

static const char help[] =
	"usage: headrace reload [--json] [--appliance NAME]\n\n"
	"Let a running appliance read its configuration again, as SIGHUP does. The schedule of\n"
	"its pipelines changes at once; every other setting that differs is listed, and stays as\n"
	"it is until the appliance is started again. A configuration with mistakes changes\n"
	"nothing.\n\n"
	"  --json            print the reply as the appliance sends it\n" HR_CLIENT_HELP
		HR_EXIT_HELP;

const struct hr_command hr_cmd_reload = {
	.name = "reload",
	.summary = "let a running appliance read its configuration again",
	.help = help,
	.fn = hr_client_command,
};
