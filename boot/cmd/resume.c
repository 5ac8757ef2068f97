/*
 * headrace resume: asks a running appliance.
 */
#include "boot/cmd/client.h"
#include "boot/cmd/cmd.h"

static const char resume_help[] =
	"usage: headrace resume PIPELINE [--json] [--appliance NAME]\n\n"
	"Ask a running appliance to start a paused pipeline again when its schedule says so. Also\n"
	"lifts the suspension of a pipeline in whose run an engine has ended.\n\n"
	"  --json            print the reply as the appliance sends it\n" HR_CLIENT_HELP
		HR_EXIT_HELP;

const struct hr_command hr_cmd_resume = {
	.name = "resume",
	.summary = "permit the starts of a paused pipeline again",
	.help = resume_help,
	.fn = hr_client_command,
};
