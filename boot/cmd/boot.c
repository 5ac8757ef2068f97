/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace boot: the appliance, unattended; as a service, or as the first process of the machine.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/derived.h"
#include "config/base/clock.h"
#include "boot/cmd/cmd.h"
#include "boot/appliance/machine/machine.h"
#include "config/base/log.h"
#include "config/base/process.h"
#include "boot/appliance/supervise.h"

#define CONFIG_DEFAULT "/etc/headrace.conf"
#define READ_IT_NS (5 * HR_NS_PER_S) /* time to read the console before the last resort */

static const char help[] =
	"usage: headrace boot [CONFIG] [--log FORM]\n"
	"       headrace boot --modules CONFIG\n\n"
	"Run the appliance that CONFIG describes: self-test, bring-up, pipelines, and restarts\n"
	"after failures, as the group `boot` of the configuration says. Each message begins with\n"
	"two times in seconds: since the start of the kernel, and since the start of headrace;\n"
	"before them comes the wall clock in UTC, unless the journal adds it. `appliance.log`\n"
	"selects the messages.\n"
	"Without CONFIG the built-in configuration runs.\n\n"
	"  --modules      check CONFIG and list the kernel modules that it names, for the builder of\n"
	"                 an image; nothing is started\n" HR_LOG_HELP "\n"
	"As a service: boot/appliance/headrace.service is a unit for systemd. Readiness, status and\n"
	"keepalive messages are sent to NOTIFY_SOCKET. SIGTERM and SIGINT stop the appliance\n"
	"cleanly, at any time: no new command is started, commands in flight end, written tiles are\n"
	"made durable, and the exit code is 0. SIGHUP reads CONFIG again (headrace reload).\n\n"
	"A pipeline that fails does not stop the others. A failure that a restart cannot change (a\n"
	"block that cannot be read, an object that does not exist) is reported, and that pipeline\n"
	"is not run again. After any other failure the pipelines that are not done run again after\n"
	"growing pauses, at most `restarts` times; run time of `heal` without a failure resets the\n"
	"count. An absent ssd or gpu is awaited (`wait_s`). The exit code is that of the first\n"
	"failure.\n\n"
	"A pipeline with one of the keys every, at, after, on and forever starts each time when it\n"
	"is due; then the appliance runs until it is stopped, and its engine stays. The state of\n"
	"all starts survives restarts and power cuts.\n\n"
	"Each attempt is made by an engine, a child process. When it ends abnormally (a crash, a\n"
	"signal, a hang, a GPU fault), one line tells the cause, its controllers are stopped, and\n"
	"the pipeline that caused it, or else all that ran, are suspended for `backoff`, doubled\n"
	"with each such end in a row up to an hour, while the others go on; `headrace resume`\n"
	"lifts that. Without a pipeline that ran the end is a temporary failure. `headrace\n"
	"status`, `stop` and the other requests of the control socket are answered all the time\n"
	"(group `control` of the configuration).\n\n"
	"As the first process of the machine (kernel command line: rdinit=/init or init=PATH),\n"
	"headrace first sets up the file systems, the console, and the kernel modules and huge\n"
	"pages of the configuration, and at the end powers off or reboots the machine. Then SIGINT\n"
	"(Ctrl-Alt-Del) reboots and SIGTERM powers off. Options on the kernel command line:\n\n"
	"  headrace.config=FILE       the configuration, " CONFIG_DEFAULT "; `builtin` for\n"
	"                             the built-in one\n"
	"  headrace.log=FORM          as --log\n"
	"  headrace.last_resort=END   poweroff, reboot, halt or shell: action when the appliance\n"
	"                             cannot run; replaces last_resort of the\n"
	"                             configuration\n" HR_EXIT_HELP;

/* Standard input cannot be read again. */
static bool can_reload(const char *file)
{
	return file && strcmp(file, "-") != 0;
}

static int supervise_opened(struct hr_supervisor *s)
{
	const struct hr_config *config = &s->engine->config;
	int code;

	if (can_reload(config->file)) {
		s->repeat.read = hr_load_read;
		s->repeat.read_to = (char *)(uintptr_t)config->file;
	}
	code = hr_supervise(s);
	if (code == HR_EXIT_DONE && config->boot.after == HR_BOOT_STAY)
		hr_supervise_stay(s);
	hr_supervise_close(s);
	if (s->mute && !s->first) {
		hr_error("standard output: cannot write");
		code = code == HR_EXIT_DONE ? HR_EXIT_FAILED : code;
	}
	return code;
}

static int supervise(struct hr_engine *engine, bool first)
{
	struct hr_supervisor *s; /* too large for a stack */
	int code;

	if (engine->config.pipelines == 0) {
		hr_error("%s: there are no pipelines to run", engine->config.file);
		return HR_EXIT_USAGE;
	}
	s = malloc(sizeof *s);
	if (!s) {
		hr_error("out of memory for the supervisor");
		return HR_EXIT_MISSING;
	}
	code = hr_supervise_open(s, engine, first, HR_WATCHDOG_DEVICE) == 0 ? supervise_opened(s)
									    : HR_EXIT_MISSING;
	free(s);
	return code;
}

/* systemd passes device and inode of the journal's socket, which adds the time to each line. */
static bool is_journal(void)
{
	const char *named = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return named && sscanf(named, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

static void set_times(void)
{
	hr_log_set_stamp(hr_exec_ns());
	if (!is_journal())
		hr_log_set_wall();
}

static struct hr_engine *load_for_boot(const char *file, enum hr_boot_end *last_resort, int *code)
{
	struct hr_engine *engine;

	set_times();
	engine = hr_load_to_boot(file, last_resort, code);
	if (engine)
		hr_log_set_level(hr_config_boot_log(&engine->config));
	hr_signals_catch();
	hr_signals_announce();
	hr_signals_reload_on_hangup();
	return engine;
}

static int as_service(const char *file)
{
	enum hr_boot_end unused; /* a service does not end the machine */
	int code;
	struct hr_engine *engine = load_for_boot(file, &unused, &code);

	if (!engine)
		return code;
	code = supervise(engine, false);
	free(engine);
	return code;
}

/* The last resort from the kernel command line, or else from the configuration. */
static enum hr_boot_end last_resort(enum hr_boot_end configured)
{
	char word[32];

	if (hr_pid1_cmdline("headrace.last_resort", word, sizeof word))
		for (int end = 0; end <= HR_BOOT_SHELL; end++)
			if (strcmp(word, hr_pid1_end_name((enum hr_boot_end)end)) == 0)
				return (enum hr_boot_end)end;
	return configured;
}

static void end_boot(enum hr_boot_end how, enum hr_boot_end configured, int code)
	__attribute__((noreturn));
static void end_boot(enum hr_boot_end how, enum hr_boot_end configured, int code)
{
	const int signal_number = hr_signals_which();

	if (signal_number) {
		how = signal_number == SIGINT ? HR_BOOT_REBOOT : HR_BOOT_POWEROFF;
	} else if (code != HR_EXIT_DONE) {
		how = last_resort(configured);
		hr_error("the appliance does not run (code %d); %s in %llu s", code,
			 hr_pid1_end_name(how), READ_IT_NS / HR_NS_PER_S);
		for (uint64_t begun = hr_now_ns();
		     !hr_signals_pending() && hr_now_ns() - begun < READ_IT_NS;)
			hr_wait_ns(HR_NS_PER_S / 10);
	}
	hr_info("%s", hr_pid1_end_name(how));
	hr_pid1_end(how);
}

static void as_first(const char *file) __attribute__((noreturn));
static void as_first(const char *file)
{
	static char named[512];
	char word[32];
	enum hr_boot_end after = HR_BOOT_POWEROFF, configured;
	struct hr_engine *engine;
	int code, err;

	if (hr_pid1_cmdline("headrace.log", word, sizeof word))
		hr_option_log("boot", word);
	set_times();
	hr_log_set_level(HR_LOG_INFO);
	hr_pid1_mount();
	reboot(RB_DISABLE_CAD); /* the kernel sends SIGINT on Ctrl-Alt-Del */
	if (!file)
		file = hr_pid1_cmdline("headrace.config", named, sizeof named);
	if (!file)
		file = CONFIG_DEFAULT;
	hr_info("headrace is the first process, %s", file);
	engine = load_for_boot(strcmp(file, "builtin") == 0 ? NULL : file, &configured, &code);
	if (engine) {
		after = engine->config.boot.after;
		err = hr_pid1_prepare(&engine->config.boot);
		hr_info("modules and huge pages %s, %.1f ms after the start",
			err ? "incomplete" : "ready", (double)(hr_now_ns() - hr_exec_ns()) / 1e6);
		code = supervise(engine, true);
	}
	end_boot(after, configured, code);
}

static int list_modules(const char *file)
{
	int code;
	struct hr_engine *engine = hr_load(file, NULL, &code);

	if (!engine)
		return code;
	for (uint32_t i = 0; i < engine->config.boot.modules; i++)
		puts(engine->config.boot.module[i].name);
	free(engine);
	return HR_EXIT_DONE;
}

static int cmd_boot(int argc, char **argv)
{
	bool modules = false;
	const char *file = NULL, *log = NULL;
	const struct hr_option options[] = { { "modules", .flag = &modules },
					     { "log", .text = &log },
					     { NULL } };
	int code;

	/* The kernel passes unknown words of its command line as arguments; they are ignored. */
	if (hr_pid1_is_self())
		as_first(argc == 2 ? argv[1] : NULL);
	code = hr_options_parse(argc, argv, options, "one configuration", &file);
	if (!code)
		code = hr_option_log("boot", log);
	if (code)
		return code;
	return modules ? list_modules(file) : as_service(file);
}

const struct hr_command hr_cmd_boot = {
	.name = "boot",
	.summary = "run the appliance, unattended: as a service, or as the first process",
	.help = help,
	.fn = cmd_boot,
};
