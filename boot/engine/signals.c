#include "boot/engine/signals.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "config/log.h"

static volatile sig_atomic_t pending, hung_up;
static bool
	announces; /* a first SIGINT is to be announced, because a second one ends the process */

static void remember(int signal_number)
{
	pending = signal_number;
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
	announces = getpid() != 1; /* a signal does not end the first process */
}

void hr_signals_hold(void)
{
	struct sigaction action = { .sa_handler = remember };

	announces = false;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void note_hangup(int signal_number)
{
	hung_up = 1;
}

void hr_signals_reload_on_hangup(void)
{
	const struct sigaction action = { .sa_handler = note_hangup };

	sigaction(SIGHUP, &action, NULL);
}

bool hr_signals_take_reload(void)
{
	const bool taken = hung_up;

	hung_up = 0;
	return taken;
}

void hr_signals_stop(void)
{
	if (!pending)
		pending = SIGTERM;
}

int hr_signals_which(void)
{
	return pending;
}

bool hr_signals_pending(void)
{
	if (pending == SIGINT && __atomic_exchange_n(&announces, false, __ATOMIC_RELAXED))
		hr_warn("interrupted: ending cleanly; a second Ctrl-C ends at once");
	return pending != 0;
}
