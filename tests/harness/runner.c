/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/runner.c - runs Criterion's registered tests without libcriterion.
 *
 * Criterion 2.4 maps its shared arena at a fixed address that the thread sanitizer reserves, so a
 * test program linked with both does not start. It also starts the program again for each test,
 * which takes the address sanitizer longer than most tests. Builds with a sanitizer link this file
 * instead. It finds the tests and suites in Criterion's linker sections, runs each in a child
 * process, and applies .init, .fini, .timeout, .signal, .exit_code and .disabled
 * like Criterion. After a data race the child exits with 66 (the sanitizer's exit code), which is a
 * failure.
 *
 * A line "Threads: SUITE/NAME" follows each test with threads (tests/harness/threads.h), and the last
 * line counts them; the line before it has the form of Criterion's summary. Exit status 1 when a test
 * did not pass.
 * Usage: PROGRAM [--filter SUITE/NAME-PATTERN] [--threads-of LOG] [--jobs N]
 * LOG: the output of another build of the program; only its tests with threads run. All run, after a
 * note, when LOG does not end with that count. N: so many tests run at a time, and what one prints
 * comes in one piece when it ends.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness/asserts.h"
#include "tests/harness/before.h"
#include "tests/harness/threads.h"

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));
extern const struct test_before *const __start_tests_before[] __attribute__((weak));
extern const struct test_before *const __stop_tests_before[] __attribute__((weak));

struct criterion_options criterion_options;

#define JOBS_MAX 16u /* tests that run at a time */
#define TESTS_MAX (1u << 14)

/*
 * Messages of a child to its parent, in shared memory; atomic, because tests assert in threads,
 * too.
 */
static struct verdict {
	int failed_asserts, skipped, threads;
} * verdicts, *verdict; /* of each slot; of the current test */

static const struct criterion_test *current;
static const struct criterion_test_extra_data *current_suite;
static pid_t main_thread;
static jmp_buf after_test;

#define THREADS "\n[====] Threads: "

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
/* A child that a test ends with _exit() also writes its line counts, in builds that count lines. Weak:
 * a test may have a function of its own. */
void __gcov_exit(void) __attribute__((weak));

__attribute__((weak)) void _exit(int status)
{
	if (__gcov_exit)
		__gcov_exit();
	syscall(SYS_exit_group, status);
	__builtin_unreachable();
}
#endif

/* ---- threads: the linker (--wrap) gives each call of pthread_create() to this function */

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*begin)(void *), void *argument);

void test_has_threads(void)
{
	if (verdict)
		__atomic_store_n(&verdict->threads, 1, __ATOMIC_RELAXED);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*begin)(void *), void *argument)
{
	test_has_threads();
	return __real_pthread_create(thread, attributes, begin, argument);
}

/* ---- functions that a compiled test calls */

/* Text of an assertion without a text of its own: the expression and, for strings, the values. */
char *cr_translate_assert_msg(int index, ...)
{
	const char *expression, *actual, *expected;
	char *text;
	va_list args;
	int n;

	va_start(args, index);
	expression = va_arg(args, const char *);
	if (index == CRITERION_ASSERT_MSG_EXPR_AS_STRINGS_FALSE) {
		actual = va_arg(args, const char *);
		expected = va_arg(args, const char *);
		n = asprintf(&text, "%s is false with \"%s\" and \"%s\"", expression,
			     actual ? actual : "NULL", expected ? expected : "NULL");
	} else {
		n = asprintf(&text, "failed: %s", expression);
	}
	va_end(args);
	if (n < 0)
		abort();
	return text;
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	fprintf(stderr, "[----] %s:%u: Assertion Failed\n[----]   %s\n", stats->file, stats->line,
		stats->message);
	__atomic_fetch_add(&verdict->failed_asserts, 1, __ATOMIC_RELAXED);
}

void test_assert_failed(const char *file, unsigned line, char *message, const char *format, ...)
{
	struct criterion_assert_stats stats = { .file = file, .line = line, .message = message };
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	if (text[1])
		stats.message = text + 1;
	criterion_send_assert(&stats);
	free(text);
	free(message);
}

void criterion_continue_test(void)
{
}

/* As in Criterion: a failed assertion ends the test, and .fini still runs. */
void criterion_abort_test(void)
{
	if (gettid() != main_thread)
		_exit(EXIT_FAILURE);
	longjmp(after_test, 1);
}

void criterion_skip_test(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("[SKIP] ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	__atomic_store_n(&verdict->skipped, 1, __ATOMIC_RELAXED);
	criterion_abort_test();
}

void criterion_internal_test_setup(void)
{
	if (current_suite && current_suite->init)
		current_suite->init();
	if (current->data->init)
		current->data->init();
}

void criterion_internal_test_main(void (*body)(void))
{
	if (!setjmp(after_test))
		body();
}

void criterion_internal_test_teardown(void)
{
	if (current->data->fini)
		current->data->fini();
	if (current_suite && current_suite->fini)
		current_suite->fini();
}

/* ---- running */

static const struct criterion_test_extra_data *suite_of(const struct criterion_test *test)
{
	/* cppcheck-suppress comparePointers ; the linker puts both ends around one array */
	for (struct criterion_suite **s = __start_cr_sts; s < __stop_cr_sts; s++)
		if (*s && !strcmp((*s)->name, test->category))
			return (*s)->data;
	return NULL;
}

static void call_before(const struct criterion_test *test)
{
	/* cppcheck-suppress comparePointers ; the linker puts both ends around one array */
	for (const struct test_before *const *b = __start_tests_before; b < __stop_tests_before;
	     b++)
		if (!strcmp((*b)->file, test->data->description))
			(*b)->call();
}

/* The tests that run now. */
static struct slot {
	const struct criterion_test *test; /* NULL: free */
	pid_t child;
	struct timespec end; /* of its time; 0: there is no end */
	FILE *output;	     /* NULL: it prints what it prints */
} slot[JOBS_MAX];

static void child_begin(struct slot *s)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the kernel kills the test when the runner dies */
	main_thread = gettid();
	if (s->output) {
		dup2(fileno(s->output), STDOUT_FILENO);
		dup2(fileno(s->output), STDERR_FILENO);
	}
	for (unsigned i = 0; i < JOBS_MAX; i++)
		if (slot[i].output)
			close(fileno(slot[i].output));
	call_before(s->test);
}

static double timeout_of(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);

	return test->data->timeout > 0 ? test->data->timeout : (suite ? suite->timeout : 0);
}

/* False: no process could be started. */
static bool start(struct slot *s, const struct criterion_test *test, bool apart)
{
	const double seconds = timeout_of(test);

	current = test;
	current_suite = suite_of(test);
	verdict = &verdicts[s - slot];
	*verdict = (struct verdict){ 0 };
	*s = (struct slot){ .test = test, .output = apart ? tmpfile() : NULL };
	if (seconds > 0) {
		clock_gettime(CLOCK_MONOTONIC, &s->end);
		s->end.tv_sec += (time_t)seconds;
		s->end.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
	}
	fflush(NULL);
	s->child = fork();
	if (s->child)
		return s->child > 0;
	child_begin(s);
	test->test();
	exit(EXIT_SUCCESS); /* not _exit: the sanitizer reports during exit */
}

/* Nanoseconds until the end of a test's time, at most a second. */
static int64_t left_ns(const struct slot *s)
{
	struct timespec now;
	int64_t left;

	if (!s->end.tv_sec)
		return 1000000000;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (s->end.tv_sec - now.tv_sec > 1)
		return 1000000000;
	left = (s->end.tv_sec - now.tv_sec) * 1000000000 + s->end.tv_nsec - now.tv_nsec;
	return left < 1000000000 ? left : 1000000000;
}

/* True: the test has ended, or its time. *in_time: it was not killed. */
static bool has_ended(const struct slot *s, int *status, bool *in_time)
{
	*in_time = true;
	if (waitpid(s->child, status, WNOHANG) == 0) {
		if (left_ns(s) > 0)
			return false;
		*in_time = false;
		kill(-s->child, SIGKILL);
		waitpid(s->child, status, 0);
	}
	kill(-s->child, SIGKILL); /* kill processes that the test did not end */
	return true;
}

static void print_output(struct slot *s)
{
	char text[4096];
	size_t n;

	if (!s->output)
		return;
	rewind(s->output);
	while ((n = fread(text, 1, sizeof text, s->output)) > 0)
		fwrite(text, 1, n, stderr);
	fclose(s->output);
	s->output = NULL;
}

/* Reason of a failure, or NULL. */
static const char *failure(const struct criterion_test *test, bool in_time, int status)
{
	const struct criterion_test_extra_data *suite = suite_of(test);
	int want_signal = test->data->signal ? test->data->signal : suite ? suite->signal : 0;
	int want_exit = test->data->exit_code ? test->data->exit_code
			: suite		      ? suite->exit_code
					      : 0;
	static char why[64];

	if (!in_time)
		return "timed out";
	if (verdict->failed_asserts)
		return "assertion failed";
	if (WIFSIGNALED(status)) {
		snprintf(why, sizeof why, "crashed: signal %d", WTERMSIG(status));
		return WTERMSIG(status) == want_signal ? NULL : why;
	}
	snprintf(why, sizeof why, "exit status %d", WEXITSTATUS(status));
	return !want_signal && WEXITSTATUS(status) == want_exit ? NULL : why;
}

enum outcome { PASSED, FAILED, CRASHED, SKIPPED };

static unsigned count[4], with_threads;

static void judge(struct slot *s, bool in_time, int status)
{
	const struct criterion_test *test = s->test;
	const char *why;

	verdict = &verdicts[s - slot];
	why = failure(test, in_time, status);
	print_output(s);
	if (why)
		fprintf(stderr, "[FAIL] %s::%s: %s\n", test->category, test->name, why);
	if (verdict->threads) {
		fprintf(stderr, THREADS "%s/%s\n", test->category, test->name);
		with_threads++;
	}
	count[why		 ? (WIFSIGNALED(status) ? CRASHED : FAILED)
	      : verdict->skipped ? SKIPPED
				 : PASSED]++;
	s->test = NULL;
}

static bool is_disabled(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);

	return test->data->disabled || (suite && suite->disabled);
}

/* Judge the tests that have ended; wait until there is one. Returns a free slot, or NULL when none of
 * `jobs` runs. */
static struct slot *wait_slot(unsigned jobs)
{
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		struct timespec left = { 0 };
		int64_t ns = 1000000000;
		struct slot *ended = NULL;
		unsigned running = 0;

		for (unsigned i = 0; i < jobs; i++) {
			bool in_time;
			int status = 0;

			if (!slot[i].test)
				continue;
			running++;
			if (has_ended(&slot[i], &status, &in_time)) {
				judge(&slot[i], in_time, status);
				ended = &slot[i];
			} else if (left_ns(&slot[i]) < ns) {
				ns = left_ns(&slot[i]);
			}
		}
		if (ended || !running)
			return ended;
		left.tv_sec = ns / 1000000000;
		left.tv_nsec = ns > 0 ? ns % 1000000000 : 0;
		sigtimedwait(&chld, NULL, &left);
	}
}

static struct slot *free_slot(unsigned jobs)
{
	for (unsigned i = 0; i < jobs; i++)
		if (!slot[i].test)
			return &slot[i];
	return wait_slot(jobs);
}

static void run(const struct criterion_test *test, unsigned jobs)
{
	struct slot *s;

	if (is_disabled(test)) {
		count[SKIPPED]++;
		return;
	}
	s = free_slot(jobs);
	if (!start(s, test, jobs > 1)) {
		perror("fork");
		print_output(s);
		s->test = NULL;
		count[CRASHED]++;
	}
}

/* ---- the tests that have threads, according to the output of another build */

static struct {
	char *text;
	size_t bytes;
} threads_log;

static bool in_threads_log(const char *rest_of_line)
{
	char line[600];
	const int n = snprintf(line, sizeof line, THREADS "%s\n", rest_of_line);

	return memmem(threads_log.text, threads_log.bytes, line, (size_t)n) != NULL;
}

/* Returns false, and leaves threads_log empty, when the file has no count of tests with threads. */
static bool read_threads_log(const char *path)
{
	FILE *log = fopen(path, "r");
	struct stat size;

	if (!log)
		return false;
	if (!fstat(fileno(log), &size) && (threads_log.text = malloc((size_t)size.st_size + 1)))
		threads_log.bytes = fread(threads_log.text, 1, (size_t)size.st_size, log);
	fclose(log);
	if (threads_log.text &&
	    memmem(threads_log.text, threads_log.bytes, THREADS "in ", strlen(THREADS "in ")))
		return true;
	free(threads_log.text);
	threads_log.text = NULL;
	return false;
}

struct options {
	const char *filter, *threads_of;
	unsigned jobs;
};

static struct options options_of(int argc, char **argv)
{
	struct options o = { .filter = "*", .jobs = 1 };

	for (int i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], "--filter"))
			o.filter = argv[++i];
		else if (!strcmp(argv[i], "--threads-of"))
			o.threads_of = argv[++i];
		else if (!strcmp(argv[i], "--jobs"))
			o.jobs = (unsigned)strtoul(argv[++i], NULL, 10);
	}
	if (o.jobs < 1 || o.jobs > JOBS_MAX)
		o.jobs = 1;
	return o;
}

static bool is_wanted(const struct options *o, const struct criterion_test *test)
{
	char path[512];

	if (!test)
		return false;
	snprintf(path, sizeof path, "%s/%s", test->category, test->name);
	return !fnmatch(o->filter, path, 0) && (!threads_log.text || in_threads_log(path));
}

static bool file_runs(const struct criterion_test *test)
{
	for (unsigned i = 0; i < JOBS_MAX; i++)
		if (slot[i].test &&
		    !strcmp(slot[i].test->data->description, test->data->description))
			return true;
	return false;
}

/* Tests of one file do not run at the same time, because they may use the same names. */
static void run_all(const struct options *o)
{
	/* cppcheck-suppress comparePointers ; the linker puts both ends around one array */
	const size_t tests = (size_t)(__stop_cr_tst - __start_cr_tst);
	static bool left[TESTS_MAX];
	size_t i;

	if (tests > TESTS_MAX)
		abort();
	for (i = 0; i < tests; i++)
		left[i] = is_wanted(o, __start_cr_tst[i]);
	do {
		for (i = 0; i < tests && (!left[i] || file_runs(__start_cr_tst[i])); i++)
			;
		if (i < tests) {
			left[i] = false;
			run(__start_cr_tst[i], o->jobs);
		}
	} while (i < tests || wait_slot(o->jobs));
}

int main(int argc, char **argv)
{
	const struct options o = options_of(argc, argv);
	unsigned tested;
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	if (o.threads_of && !read_threads_log(o.threads_of))
		fprintf(stderr, "note: no count of tests with threads in %s: all tests run\n",
			o.threads_of);
	verdicts = mmap(NULL, JOBS_MAX * sizeof *verdicts, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (verdicts == MAP_FAILED) {
		perror("mmap");
		return EXIT_FAILURE;
	}
	run_all(&o);
	tested = count[PASSED] + count[FAILED] + count[CRASHED];
	fprintf(stderr, "[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n",
		tested, count[PASSED], count[FAILED] + count[CRASHED], count[CRASHED]);
	if (count[SKIPPED])
		fprintf(stderr, "[====] Skipped: %u\n", count[SKIPPED]);
	fprintf(stderr, THREADS "in %u tests\n", with_threads);
	return tested + count[SKIPPED] && tested == count[PASSED] ? EXIT_SUCCESS : EXIT_FAILURE;
}
