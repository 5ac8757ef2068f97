#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/harness/runner.c reports each kind of failure: tests that fail on purpose are built with it
# and the thread sanitizer, and its output about each is compared with the expected one. It also notes which tests have
# threads, runs only these on request, prints the texts of assertions, and does the same
# when several tests run at a time.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/tests.c" <<'EOF'
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static int ready, shared;

static void setup(void)
{
	ready = 1;
}

static void *count(void *unused)
{
	for (int i = 0; i < 1000; i++)
		shared++;
	return unused;
}

static void *assert_in_thread(void *unused)
{
	cr_assert(0);
	return unused;
}

static void in_thread(void *(*body)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, body, NULL);
	if (body == count)
		count(NULL);
	pthread_join(thread, NULL);
}

TestSuite(t, .timeout = 20, .init = setup);
Test(t, passes) { cr_assert(ready); cr_expect_str_eq("a", "a"); }
Test(t, raises, .signal = SIGTERM) { raise(SIGTERM); }
Test(t, exits, .exit_code = 3) { _exit(3); }
Test(t, is_skipped) { cr_skip_test("not here"); }
Test(t, is_disabled, .disabled = true) { cr_assert(0); }
Test(t, bad_assert) { cr_assert_eq(1, 2); abort(); }
Test(t, bad_expect) { cr_expect_str_eq("a", "b"); cr_expect(1); cr_expect(0, "text %d", 7); cr_expect_null("c"); }
Test(t, bad_in_thread) { in_thread(assert_in_thread); }
Test(t, bad_fini, .fini = abort) { }
Test(t, crash) { raise(SIGKILL); }
Test(t, hang, .timeout = 0.3) { sleep(30); }
Test(t, race) { in_thread(count); }
Test(t, does_not_raise, .signal = SIGTERM) { }
Test(t, does_not_exit, .exit_code = 3) { }
EOF

cat >"$dir/want" <<'EOF'
[----]   ("a") == ("b") is false with "a" and "b"
[----]   failed: "c"
[----]   failed: (1) == (2)
[----]   failed: 0
[----]   text 7
[====] Skipped: 2
[====] Synthesis: Tested: 12 | Passing: 3 | Failing: 9 | Crashing: 3
[====] Threads: in 2 tests
[====] Threads: t/bad_in_thread
[====] Threads: t/race
[FAIL] t::bad_assert: assertion failed
[FAIL] t::bad_expect: assertion failed
[FAIL] t::bad_fini: crashed: signal 6
[FAIL] t::bad_in_thread: assertion failed
[FAIL] t::crash: crashed: signal 9
[FAIL] t::does_not_exit: exit status 0
[FAIL] t::does_not_raise: exit status 0
[FAIL] t::hang: timed out
[FAIL] t::race: exit status 66
[SKIP] not here
EOF

gcc -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=thread -pthread -iquote . -include tests/harness/asserts.h \
    -Wl,--wrap=pthread_create -o "$dir/tests" "$dir/tests.c" tests/harness/runner.c
for jobs in 4 1; do
    ! "$dir/tests" --jobs $jobs >"$dir/log" 2>&1 || { echo "runner.sh: failing tests, but exit status 0"; exit 1; }
    grep -E '^\[(FAIL|SKIP|====|----\]  )' "$dir/log" | LC_ALL=C sort >"$dir/got"
    diff -u "$dir/want" "$dir/got"
done

# Only passing tests: exit status 0. The log says that they have no threads, so tests/threads.sh does not name them.
mkdir "$dir/unit"
"$dir/tests" --filter 't/passes' >"$dir/unit/passes.log" 2>&1
cp "$dir/log" "$dir/unit/fails.log"
[ "$(tests/threads.sh "$dir" unit/passes unit/fails unit/none | tr '\n' ' ')" = "unit/fails unit/none " ] || {
    echo "runner.sh: threads.sh names other tests"
    exit 1
}
# Only the tests with threads of that log; all tests of a log that does not count them.
ran() {
    "$dir/tests" "$@" 2>&1 | sed -nE 's/^\[====\] Synthesis: Tested: ([0-9]+) .*/\1/p'
}
sed '/Threads: in/d' "$dir/unit/fails.log" >"$dir/unit/broken.log"
of=$dir/unit
[ "$(ran --threads-of "$of/fails.log") $(ran --threads-of "$of/fails.log" --filter 't/*race') \
$(ran --threads-of "$of/broken.log" --filter 't/[pe]*') $(ran --threads-of "$of/none.log" --filter 't/[pe]*')" = "2 1 2 2" ] || {
    echo "runner.sh: --threads-of runs other tests"
    exit 1
}
# No test at all is a failure.
if "$dir/tests" --threads-of "$dir/unit/passes.log" >"$dir/log" 2>&1 || "$dir/tests" --filter 't/none' >"$dir/log" 2>&1; then
    echo "runner.sh: no test, but exit status 0"
    exit 1
fi
