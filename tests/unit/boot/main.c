/* The table of commands: which one runs with which words, each help and error, and the descriptors. */
#include <fcntl.h>
#include <stdbool.h>

static int test_open(const char *path, int flags);
static bool test_is_first(void);

#define main headrace_main
#define open test_open
#define hr_init_is test_is_first
int headrace_main(int argc, char **argv);
#include "boot/main.c"
#undef main
#undef open
#undef hr_init_is

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/harness/calls.h"

static int open_error[3]; /* of the next calls of open(): 0: none; -1: another descriptor */
static unsigned opens;
static bool is_first;

static int test_open(const char *path, int flags)
{
	const int error = opens < 3 ? open_error[opens] : 0;

	opens++;
	calls_note("%s:%x ", path, (unsigned)flags);
	if (error == -1)
		return 99;
	errno = error;
	return error ? -1 : open(path, flags);
}

static bool test_is_first(void)
{
	return is_first;
}

/* ---- the commands */

static int result; /* of each command */
static int (*at_run)(void);

static int run(const char *name, int argc, char **argv)
{
	calls_note("%s(", name);
	for (int i = 0; i < argc; i++)
		calls_note("%s%s", i ? " " : "", argv[i]);
	calls_note(")");
	return at_run ? at_run() : result;
}

#define FAKE(n, own)                                                                              \
	static int run_##n(int argc, char **argv)                                                 \
	{                                                                                         \
		return run(#n, argc, argv);                                                       \
	}                                                                                         \
	const struct hr_command hr_cmd_##n = { #n, "summary of " #n, "help of " #n "\n", run_##n, \
					       own };
FAKE(topo, false)
FAKE(check, false)
FAKE(run, false)
FAKE(store, true)
FAKE(post, false)
FAKE(bench, false)
FAKE(boot, false)
FAKE(status, false)
FAKE(trigger, false)
FAKE(pause, false)
FAKE(resume, false)
FAKE(reload, false)
FAKE(stop, false)

/* ---- what is printed */

static char printed[2][4096]; /* on stdout, on stderr */

static void take_text(int fd, char *to)
{
	const ssize_t n = pread(fd, to, sizeof printed[0] - 1, 0);

	to[n > 0 ? n : 0] = '\0';
	close(fd);
}

/* Call main() with these words; stdout goes to `out` (-1: kept). Returns the exit code. */
static int call_with(int out, int argc, const char *const *words)
{
	const int kept[2] = { dup(1), dup(2) };
	const int to[2] = { out < 0 ? memfd_create("out", 0) : out, memfd_create("err", 0) };
	char *argv[8] = { NULL };
	int code;

	for (int i = 0; i < argc; i++)
		argv[i] = strdup(words[i]);
	fflush(NULL);
	dup2(to[0], 1);
	dup2(to[1], 2);
	code = headrace_main(argc, argv);
	fflush(NULL);
	clearerr(stdout);
	dup2(kept[0], 1);
	dup2(kept[1], 2);
	close(kept[0]);
	close(kept[1]);
	take_text(to[0], printed[0]);
	take_text(to[1], printed[1]);
	for (int i = 0; i < argc; i++)
		free(argv[i]);
	return code;
}

#define CALL(...)                                                                      \
	call_with(-1, (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
		  (const char *[]){ __VA_ARGS__ })

static void expect(int code, int want, const char *calls, const char *out, const char *err)
{
	const char *got = calls_take();

	cr_expect_eq(code, want, "%d", code);
	cr_expect_str_eq(got, calls, "%s", got);
	cr_expect_str_eq(printed[0], out, "%s", printed[0]);
	cr_expect_str_eq(printed[1], err, "%s", printed[1]);
}

TestSuite(main, .timeout = 60);

#define HELP                                                                                     \
	"usage: headrace COMMAND [ARGUMENTS]\n"                                                  \
	"       headrace COMMAND --help\n"                                                       \
	"       headrace --version\n\n"                                                          \
	"The firmware-like runtime of a storage+GPU appliance: brings up NVMe controllers,\n"    \
	"partitions memory statically and runs fixed pipelines whose workers drive the\n"        \
	"queues themselves.\n\nCommands:\n"                                                      \
	"  topo     summary of topo\n  check    summary of check\n  run      summary of run\n"   \
	"  store    summary of store\n  post     summary of post\n  bench    summary of bench\n" \
	"  boot     summary of boot\n  status   summary of status\n"                             \
	"  trigger  summary of trigger\n  pause    summary of pause\n"                           \
	"  resume   summary of resume\n  reload   summary of reload\n"                           \
	"  stop     summary of stop\n" HR_EXIT_HELP

Test(main, help_and_version)
{
	expect(CALL("headrace"), HR_EXIT_USAGE, "", "", HELP);
	expect(CALL("headrace", "--help"), HR_EXIT_DONE, "", HELP, "");
	expect(CALL("headrace", "-h"), HR_EXIT_DONE, "", HELP, "");
	expect(CALL("headrace", "help"), HR_EXIT_DONE, "", HELP, "");
	expect(CALL("headrace", "--help", "x"), HR_EXIT_DONE, "", HELP, "");
	expect(CALL("headrace", "--version"), HR_EXIT_DONE, "", "headrace 0.1.0\n", "");
	expect(CALL("headrace", "help", "run"), HR_EXIT_DONE, "", "help of run\n", "");
	expect(CALL("headrace", "help", "stop", "x"), HR_EXIT_DONE, "", "help of stop\n", "");
	cr_expect_eq(signal(SIGXFSZ, SIG_DFL), SIG_IGN);
}

Test(main, each_command_gets_its_words)
{
	static const char *const name[] = { "topo",   "check",	"run",	  "store",   "post",
					    "bench",  "boot",	"status", "trigger", "pause",
					    "resume", "reload", "stop" };

	for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
		char want[64];

		result = (int)i % 5;
		snprintf(want, sizeof want, "%s(%s a -b)", name[i], name[i]);
		expect(CALL("headrace", name[i], "a", "-b"), result, want, "", "");
		snprintf(want, sizeof want, "%s(%s)", name[i], name[i]);
		expect(CALL("headrace", name[i]), result, want, "", "");
	}
}

Test(main, help_of_a_command)
{
	expect(CALL("headrace", "run", "--help"), 0, "", "help of run\n", "");
	expect(CALL("headrace", "run", "x", "-h"), 0, "", "help of run\n", "");
	expect(CALL("headrace", "run", "x", "--", "-h"), 0, "run(run x -- -h)", "", "");
	expect(CALL("headrace", "run", "-h", "--"), 0, "", "help of run\n", "");
	expect(CALL("headrace", "store", "put", "--help"), 0, "store(store put --help)", "", "");
	expect(CALL("headrace", "run", "--helpx"), 0, "run(run --helpx)", "", "");
}

Test(main, words_that_are_no_command)
{
	static const char *const sub[] = { "format", "put",    "get", "ls",
					   "rm",     "verify", "df",  "unlock" };
	char want[256];

	for (size_t i = 0; i < sizeof sub / sizeof *sub; i++) {
		snprintf(want, sizeof want,
			 "headrace: error: '%s' is not a headrace command; did you mean 'store "
			 "%s'?\nTry 'headrace --help'.\n",
			 sub[i], sub[i]);
		expect(CALL("headrace", sub[i]), HR_EXIT_USAGE, "", "", want);
	}
	expect(CALL("headrace", "frmat"), HR_EXIT_USAGE, "", "",
	       "headrace: error: 'frmat' is not a headrace command; did you mean 'store "
	       "format'?\nTry 'headrace --help'.\n");
	expect(CALL("headrace", "ge"), HR_EXIT_USAGE, "", "",
	       "headrace: error: 'ge' is not a headrace command\nTry 'headrace --help'.\n");
	expect(CALL("headrace", "rin"), HR_EXIT_USAGE, "", "",
	       "headrace: error: 'rin' is not a headrace command; did you mean 'run'?\nTry "
	       "'headrace --help'.\n");
	expect(CALL("headrace", "verifi"), HR_EXIT_USAGE, "", "",
	       "headrace: error: 'verifi' is not a headrace command; did you mean 'store "
	       "verify'?\nTry 'headrace --help'.\n");
	expect(CALL("headrace", "sttop"), HR_EXIT_USAGE, "", "",
	       "headrace: error: 'sttop' is not a headrace command; did you mean 'stop'?\nTry "
	       "'headrace --help'.\n");
	expect(CALL("headrace", "zzzzzzzz"), HR_EXIT_USAGE, "", "",
	       "headrace: error: 'zzzzzzzz' is not a headrace command\nTry 'headrace --help'.\n");
	expect(CALL("headrace", "help", "zzzzzzzz"), HR_EXIT_USAGE, "", "",
	       "headrace: error: 'zzzzzzzz' is not a headrace command\nTry 'headrace --help'.\n");
	expect(CALL("headrace", "--versio"), HR_EXIT_USAGE, "", "",
	       "headrace: error: '--versio' is not a headrace command\nTry 'headrace --help'.\n");
}

/* ---- standard output */

#define FULL(...)                                                                  \
	call_with(open("/dev/full", O_WRONLY),                                     \
		  (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
		  (const char *[]){ __VA_ARGS__ })
#define CANNOT "headrace: error: standard output: cannot write\n"

static int print(void)
{
	puts("text");
	return result;
}

static int print_and_flush(void)
{
	puts("text");
	fflush(stdout);
	return result;
}

Test(main, output_that_cannot_be_written)
{
	expect(FULL("headrace", "--version"), HR_EXIT_FAILED, "", "", CANNOT);
	expect(FULL("headrace", "--help"), HR_EXIT_FAILED, "", "", CANNOT);
	expect(FULL("headrace", "help", "run"), HR_EXIT_FAILED, "", "", CANNOT);
	expect(FULL("headrace", "run", "-h"), HR_EXIT_FAILED, "", "", CANNOT);
	expect(FULL("headrace", "run"), HR_EXIT_DONE, "run(run)", "", "");
	at_run = print;
	expect(FULL("headrace", "run"), HR_EXIT_FAILED, "run(run)", "", CANNOT);
	at_run = print_and_flush;
	expect(FULL("headrace", "run"), HR_EXIT_FAILED, "run(run)", "", CANNOT);
	result = HR_EXIT_DEVICE;
	expect(FULL("headrace", "run"), HR_EXIT_DEVICE, "run(run)", "", CANNOT);
}

/* ---- the first process */

Test(main, the_first_process)
{
	is_first = true;
	result = 3;
	expect(CALL("headrace"), 3, "boot(headrace)", "", "");
	expect(CALL("headrace", "quiet", "x"), 3, "boot(headrace)", "", "");
	expect(CALL("headrace", "run", "x"), 3, "run(run x)", "", "");
	expect(CALL("headrace", "boot", "x"), 3, "boot(boot x)", "", "");
	expect(CALL("headrace", "--version"), 0, "", "headrace 0.1.0\n", "");
	expect(CALL("headrace", "-x"), HR_EXIT_USAGE, "", "",
	       "headrace: error: '-x' is not a headrace command\nTry 'headrace --help'.\n");
}

/* ---- descriptors 0 to 2 */

/* Without these descriptors; then they are as before. Returns the exit code, and their modes. */
static int call_without(unsigned closed, int modes[3], const char *word)
{
	char *argv[] = { (char *)(uintptr_t) "headrace", (char *)(uintptr_t)word, NULL };
	int kept[3], code;

	fflush(NULL);
	for (int fd = 0; fd < 3; fd++) {
		kept[fd] = fcntl(fd, F_DUPFD, 20);
		if (closed >> fd & 1)
			close(fd);
	}
	opens = 0;
	code = headrace_main(2, argv);
	for (int fd = 0; fd < 3; fd++) {
		modes[fd] = fcntl(fd, F_GETFL);
		if (closed >> fd & 1)
			close(fd);
		dup2(kept[fd], fd);
		close(kept[fd]);
	}
	return code;
}

Test(main, closed_descriptors_are_held)
{
	static const struct {
		unsigned closed;
		int errors[3];
		int code;
		const char *calls;
	} row[] = {
		{ 0, { 0 }, 0, "run(run)" },
		{ 1, { 0 }, 0, "/dev/null:1 run(run)" },
		{ 2, { 0 }, 0, "/dev/null:0 run(run)" },
		{ 4, { 0 }, 0, "/dev/null:0 run(run)" },
		{ 7, { 0 }, 0, "/dev/null:1 /dev/null:0 /dev/null:0 run(run)" },
		{ 1, { ENOENT }, 0, "/dev/null:1 /:200000 run(run)" },
		{ 1, { ENOENT, EMFILE }, 1, "/dev/null:1 /:200000 " },
		{ 4, { -1, -1 }, 1, "/dev/null:0 /:200000 " },
		{ 5, { EMFILE, EMFILE }, 1, "/dev/null:1 /:200000 " },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *got;
		int modes[3], code;

		memcpy(open_error, row[i].errors, sizeof open_error);
		code = call_without(row[i].closed, modes, "run");
		got = calls_take();
		cr_expect_eq(code, row[i].code, "row %zu", i);
		cr_expect_str_eq(got, row[i].calls, "row %zu: %s", i, got);
		for (int fd = 0; fd < 3 && !row[i].errors[0]; fd++)
			if (row[i].closed >> fd & 1)
				cr_expect_eq(modes[fd] & O_ACCMODE, fd ? O_RDONLY : O_WRONLY,
					     "row %zu: %d", i, fd);
	}
}

/* The first process of a machine has no console yet, when it boots. */
Test(main, the_first_process_opens_its_console)
{
	int modes[3];

	is_first = true;
	call_without(7, modes, "boot");
	cr_expect_str_eq(calls_take(), "boot(boot)");
	call_without(2, modes, "run");
	cr_expect_str_eq(calls_take(), "/dev/null:0 run(run)");
	is_first = false;
	call_without(2, modes, "boot");
	cr_expect_str_eq(calls_take(), "/dev/null:0 boot(boot)");
}
