/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/process.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "config/base/log.h"

/* The kernel runs a handler on any thread, so these are atomic. */
static int pending;
static bool hung_up;
static bool announces; /* the first SIGINT, because a second one ends the process */

static void remember(int signal_number)
{
	__atomic_store_n(&pending, signal_number, __ATOMIC_RELAXED);
}

void hr_signals_catch(void)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = remember, .sa_flags = (int)SA_RESETHAND };
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
		sigaction(caught[i], &action, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

void hr_signals_announce(void)
{
	/* a signal does not end the first process */
	__atomic_store_n(&announces, getpid() != 1, __ATOMIC_RELAXED);
}

void hr_signals_hold(void)
{
	struct sigaction action = { .sa_handler = remember };

	__atomic_store_n(&announces, false, __ATOMIC_RELAXED);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void note_hangup(int signal_number)
{
	__atomic_store_n(&hung_up, true, __ATOMIC_RELAXED);
}

void hr_signals_reload_on_hangup(void)
{
	const struct sigaction action = { .sa_handler = note_hangup };

	sigaction(SIGHUP, &action, NULL);
}

bool hr_signals_consume_reload(void)
{
	return __atomic_exchange_n(&hung_up, false, __ATOMIC_RELAXED);
}

void hr_signals_stop(void)
{
	int none = 0;

	__atomic_compare_exchange_n(&pending, &none, SIGTERM, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

int hr_signals_which(void)
{
	return __atomic_load_n(&pending, __ATOMIC_RELAXED);
}

bool hr_signals_pending(void)
{
	const int recorded = hr_signals_which();

	if (recorded == SIGINT && __atomic_exchange_n(&announces, false, __ATOMIC_RELAXED))
		hr_warn("interrupted: ending cleanly; a second Ctrl-C ends at once");
	return recorded != 0;
}
