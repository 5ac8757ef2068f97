/*
 * tests/harness/runner.c - runs Criterion's registered tests without libcriterion.
 *
 * Criterion 2.4 maps its shared arena at a fixed address that the thread sanitizer reserves, so a
 * test program linked with both does not start. It also starts the program again for each test,
 * which takes the address sanitizer longer than most tests. Builds with a sanitizer link this file
 * instead. It finds the tests and suites in Criterion's linker sections, runs each in a child
 * process, one at a time, and applies .init, .fini, .timeout, .signal, .exit_code and .disabled
 * like Criterion. After a data race the child exits with 66 (the sanitizer's exit code), which is a
 * failure.
 *
 * A line "Threads: SUITE/NAME" follows each test with threads (tests/harness/threads.h), and the last
 * line counts them; the line before it has the form of Criterion's summary. Exit status 1 when a test
 * did not pass.
 * Usage: PROGRAM [--filter SUITE/NAME-PATTERN] [--threads-of LOG]
 * LOG: the output of another build of the program; only its tests with threads run. All run, after a
 * note, when LOG does not end with that count.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
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
#include "tests/harness/threads.h"

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

struct criterion_options criterion_options;

/*
 * Messages of a child to its parent, in shared memory; atomic, because tests assert in threads,
 * too.
 */
static struct verdict {
	int failed_asserts, skipped, threads;
} * verdict;

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

static pid_t start(const struct criterion_test *test)
{
	pid_t child;

	current = test;
	current_suite = suite_of(test);
	*verdict = (struct verdict){ 0 };
	fflush(NULL);
	child = fork();
	if (child)
		return child;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the kernel kills the test when the runner dies */
	main_thread = gettid();
	test->test();
	exit(EXIT_SUCCESS); /* not _exit: the sanitizer reports during exit */
}

/* Wait for the child, at most its timeout (0: for ever). False: it was killed after the timeout. */
static bool wait_child(pid_t child, double seconds, int *status)
{
	struct timespec now, end, left;
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (time_t)seconds;
	end.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
	while (waitpid(child, status, WNOHANG) == 0) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		left.tv_sec = end.tv_sec - now.tv_sec;
		left.tv_nsec = end.tv_nsec - now.tv_nsec;
		while (left.tv_nsec < 0) {
			left.tv_nsec += 1000000000;
			left.tv_sec--;
		}
		if (seconds > 0 && left.tv_sec < 0) {
			kill(-child, SIGKILL);
			waitpid(child, status, 0);
			return false;
		}
		sigtimedwait(&chld, NULL, seconds > 0 ? &left : NULL);
	}
	kill(-child, SIGKILL); /* kill processes that the test did not end */
	return true;
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

static enum outcome run(const struct criterion_test *test)
{
	const struct criterion_test_extra_data *suite = suite_of(test);
	double timeout =
		test->data->timeout > 0 ? test->data->timeout : (suite ? suite->timeout : 0);
	const char *why;
	bool in_time;
	int status = 0;
	pid_t child;

	if (test->data->disabled || (suite && suite->disabled))
		return SKIPPED;
	child = start(test);
	if (child < 0) {
		perror("fork");
		return CRASHED;
	}
	in_time = wait_child(child, timeout, &status);
	why = failure(test, in_time, status);
	if (why) {
		fprintf(stderr, "[FAIL] %s::%s: %s\n", test->category, test->name, why);
		return WIFSIGNALED(status) ? CRASHED : FAILED;
	}
	return verdict->skipped ? SKIPPED : PASSED;
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
};

static struct options options_of(int argc, char **argv)
{
	struct options o = { .filter = "*" };

	for (int i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], "--filter"))
			o.filter = argv[++i];
		else if (!strcmp(argv[i], "--threads-of"))
			o.threads_of = argv[++i];
	}
	return o;
}

static void run_all(const struct options *o, unsigned count[4], unsigned *with_threads)
{
	char path[512];

	/* cppcheck-suppress comparePointers ; the linker puts both ends around one array */
	for (struct criterion_test **t = __start_cr_tst; t < __stop_cr_tst; t++) {
		if (!*t)
			continue;
		snprintf(path, sizeof path, "%s/%s", (*t)->category, (*t)->name);
		if (fnmatch(o->filter, path, 0) || (threads_log.text && !in_threads_log(path)))
			continue;
		verdict->threads = 0;
		count[run(*t)]++;
		if (verdict->threads) {
			fprintf(stderr, THREADS "%s\n", path);
			(*with_threads)++;
		}
	}
}

int main(int argc, char **argv)
{
	const struct options o = options_of(argc, argv);
	unsigned count[4] = { 0 }, with_threads = 0, tested;
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	if (o.threads_of && !read_threads_log(o.threads_of))
		fprintf(stderr, "note: no count of tests with threads in %s: all tests run\n",
			o.threads_of);
	verdict = mmap(NULL, sizeof *verdict, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (verdict == MAP_FAILED) {
		perror("mmap");
		return EXIT_FAILURE;
	}
	run_all(&o, count, &with_threads);
	tested = count[PASSED] + count[FAILED] + count[CRASHED];
	fprintf(stderr, "[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n",
		tested, count[PASSED], count[FAILED] + count[CRASHED], count[CRASHED]);
	if (count[SKIPPED])
		fprintf(stderr, "[====] Skipped: %u\n", count[SKIPPED]);
	fprintf(stderr, THREADS "in %u tests\n", with_threads);
	return tested + count[SKIPPED] && tested == count[PASSED] ? EXIT_SUCCESS : EXIT_FAILURE;
}
