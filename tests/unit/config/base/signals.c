/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that the kernel delivers to any thread of the process, as requests to stop. */
#include "config/base/process.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>

TestSuite(signals, .init = hr_signals_catch, .timeout = 60);

/* Under ThreadSanitizer, a handler that races with the functions of other threads fails. */
static void *raise_here(void *signal_number)
{
	pthread_kill(pthread_self(), *(const int *)signal_number);
	return NULL;
}

static void raise_in_thread(int signal_number)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, raise_here, &signal_number), 0);
	while (signal_number == SIGHUP ? !hr_signals_consume_reload() : !hr_signals_pending())
		;
	pthread_join(thread, NULL);
}

Test(signals, a_signal_to_any_thread_is_a_request_to_stop)
{
	cr_expect_not(hr_signals_pending());
	hr_signals_hold();
	raise_in_thread(SIGINT);
	cr_expect_eq(hr_signals_which(), SIGINT);
	raise_in_thread(SIGTERM);
	hr_signals_stop();
	cr_expect(hr_signals_which(), "the recorded one stays");
}

Test(signals, a_hangup_is_taken_once)
{
	hr_signals_reload_on_hangup();
	raise_in_thread(SIGHUP);
	cr_expect_not(hr_signals_consume_reload());
	cr_expect_not(hr_signals_pending());
}

Test(signals, a_stop_without_a_signal)
{
	hr_signals_stop();
	cr_expect_eq(hr_signals_which(), SIGTERM);
	cr_expect(hr_signals_pending());
}
