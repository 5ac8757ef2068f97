/*
 * headrace boot: the appliance, unattended; as a service, or as the first process of the machine.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>

#include "config/clock.h"
#include "boot/cmd/cmd.h"
#include "boot/appliance/init.h"
#include "boot/cmd/load.h"
#include "config/log.h"
#include "boot/engine/signals.h"
#include "boot/engine/start.h"
#include "boot/appliance/supervise.h"

#define CONFIG_DEFAULT "/etc/headrace.conf"
#define READ_IT_NS (5 * HR_NS_PER_S) /* time to read the console before the last resort */

static const char help[] =
	"usage: headrace boot [CONFIG]\n"
	"       headrace boot --modules CONFIG\n\n"
	"Be the appliance that CONFIG describes: self-test, bring-up, pipelines, and anew after a\n"
	"failure, as the group `boot` of the configuration says. Messages carry the seconds since\n"
	"the kernel started and since headrace did. Without CONFIG the built-in configuration "
	"runs.\n\n"
	"  --modules   check CONFIG and list the kernel modules that it names, for whoever makes "
	"an\n"
	"              image; nothing is started\n\n"
	"As a service: boot/appliance/headrace.service is a unit for systemd; readiness, status "
	"and keepalive\n"
	"are told over NOTIFY_SOCKET. SIGTERM and SIGINT stop in order, at any time: nothing new "
	"is\n"
	"started, commands in flight end, written tiles are made durable, and the exit code is 0.\n"
	"SIGHUP is ignored.\n\n"
	"A pipeline that fails does not stop the others. A failure that a restart cannot change "
	"(a\n"
	"block that cannot be read, an object that is not there) is reported, and that pipeline "
	"is\n"
	"not run again. After any other failure the pipelines that are not done are tried again, "
	"with\n"
	"growing pauses: `restarts` times, and as often again after `heal` without a failure. An "
	"ssd\n"
	"that is absent is waited for (`wait_s`). The exit code is that of the first failure.\n\n"
	"Each attempt is made by an engine, a child process of its own. However it ends (a crash, "
	"a\n"
	"signal, a hang, a GPU fault), one line says what happened, its controllers are stopped, "
	"and\n"
	"that counts as a failure which may go away. `headrace status` answers all the time.\n\n"
	"As the first process of the machine (kernel command line: rdinit=/init or init=PATH): "
	"the\n"
	"file systems, the console, and the kernel modules and huge pages of the configuration "
	"come\n"
	"first, and the machine is powered off or rebooted in the end. Then SIGINT (Ctrl-Alt-Del)\n"
	"reboots and SIGTERM powers off. On the kernel command line:\n\n"
	"  headrace.config=FILE       the configuration, " CONFIG_DEFAULT "; `builtin` for\n"
	"                             the built-in one\n"
	"  headrace.last_resort=END   poweroff, reboot, halt or shell, when the appliance cannot "
	"run:\n"
	"                             in place of what the configuration says, or cannot "
	"say\n" HR_EXIT_HELP;

static int supervise(struct hr_appliance *app, bool first)
{
	static struct hr_supervisor supervisor; /* one a process */
	int code;

	if (app->config.pipelines == 0) {
		hr_error("%s: there are no pipelines to run", app->config.file);
		return HR_EXIT_USAGE;
	}
	if (hr_supervise_open(&supervisor, app, first, HR_WATCHDOG_PATH) != 0)
		return HR_EXIT_MISSING;
	code = hr_supervise(&supervisor);
	if (code == HR_EXIT_DONE && app->config.boot.after == HR_BOOT_STAY)
		hr_supervise_stay(&supervisor);
	hr_supervise_close(&supervisor);
	if (supervisor.mute && !first) {
		hr_error("standard output: cannot write");
		code = code == HR_EXIT_DONE ? HR_EXIT_FAILED : code;
	}
	return code;
}

static struct hr_appliance *load(const char *file, enum hr_boot_end *last_resort, int *code)
{
	struct hr_appliance *app;

	hr_log_set_stamp(hr_start_ns());
	app = hr_load_to_boot(file, last_resort, code);
	if (app && app->config.log < HR_LOG_INFO)
		hr_log_set_level(HR_LOG_INFO);
	hr_signals_catch();
	signal(SIGHUP, SIG_IGN);
	return app;
}

static int as_service(const char *file)
{
	enum hr_boot_end unused; /* the machine is not ours */
	int code;
	struct hr_appliance *app = load(file, &unused, &code);

	if (!app)
		return code;
	code = supervise(app, false);
	free(app);
	return code;
}

/* What the command line of the kernel asks for, or else the configuration. */
static enum hr_boot_end last_resort(enum hr_boot_end configured)
{
	char word[32];

	if (hr_init_cmdline("headrace.last_resort", word, sizeof word))
		for (int end = 0; end <= HR_BOOT_SHELL; end++)
			if (strcmp(word, hr_init_end_name((enum hr_boot_end)end)) == 0)
				return (enum hr_boot_end)end;
	return configured;
}

static void end(enum hr_boot_end how, enum hr_boot_end configured, int code)
	__attribute__((noreturn));
static void end(enum hr_boot_end how, enum hr_boot_end configured, int code)
{
	const int signal_number = hr_signals_which();

	if (signal_number) {
		how = signal_number == SIGINT ? HR_BOOT_REBOOT : HR_BOOT_POWEROFF;
	} else if (code != HR_EXIT_DONE) {
		how = last_resort(configured);
		hr_error("the appliance does not run (code %d); %s in %llu s", code,
			 hr_init_end_name(how), READ_IT_NS / HR_NS_PER_S);
		for (uint64_t begun = hr_now_ns();
		     !hr_signals_pending() && hr_now_ns() - begun < READ_IT_NS;)
			hr_wait_ns(HR_NS_PER_S / 10);
	}
	hr_info("%s", hr_init_end_name(how));
	hr_init_end(how);
}

static void as_first(const char *file) __attribute__((noreturn));
static void as_first(const char *file)
{
	static char named[512];
	enum hr_boot_end after = HR_BOOT_POWEROFF, configured;
	struct hr_appliance *app;
	int code, err;

	hr_log_set_stamp(hr_start_ns());
	hr_log_set_level(HR_LOG_INFO);
	hr_init_mount();
	reboot(RB_DISABLE_CAD); /* Ctrl-Alt-Del becomes SIGINT */
	if (!file)
		file = hr_init_cmdline("headrace.config", named, sizeof named);
	if (!file)
		file = CONFIG_DEFAULT;
	hr_info("headrace is the first process, %s", file);
	app = load(strcmp(file, "builtin") == 0 ? NULL : file, &configured, &code);
	if (app) {
		after = app->config.boot.after;
		err = hr_init_prepare(&app->config.boot);
		hr_info("modules and huge pages %s, %.1f ms after the start",
			err ? "incomplete" : "ready", (double)(hr_now_ns() - hr_start_ns()) / 1e6);
		code = supervise(app, true);
	}
	end(after, configured, code);
}

static int list_modules(const char *file)
{
	int code;
	struct hr_appliance *app = hr_load(file, NULL, &code);

	if (!app)
		return code;
	for (uint32_t i = 0; i < app->config.boot.modules; i++)
		puts(app->config.boot.module[i].name);
	free(app);
	return HR_EXIT_DONE;
}

static int cmd_boot(int argc, char **argv)
{
	static const struct option options[] = { { "modules", no_argument, NULL, 'm' },
						 { NULL, 0, NULL, 0 } };
	bool modules = false;
	int option;

	/* The kernel's leftovers are no mistakes of anybody. */
	if (hr_init_is())
		as_first(argc == 2 ? argv[1] : NULL);
	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option != 'm')
			return hr_usage_error("boot", "unknown option '%s'", argv[optind - 1]);
		modules = true;
	}
	if (argc - optind > 1)
		return hr_usage_error("boot", "one configuration expected, %d given",
				      argc - optind);
	if (modules)
		return list_modules(optind < argc ? argv[optind] : NULL);
	return as_service(optind < argc ? argv[optind] : NULL);
}

const struct hr_command hr_cmd_boot = {
	.name = "boot",
	.summary = "be the appliance, unattended: as a service, or as the first process",
	.help = help,
	.fn = cmd_boot,
};
