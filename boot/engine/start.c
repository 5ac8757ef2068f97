#include "boot/engine/start.h"

#include <time.h>
#include <unistd.h>

#include "config/clock.h"

static uint64_t start_ns;

void hr_start_mark(void)
{
	struct timespec used;

	start_ns = hr_now_ns();
	/* The first process used to be a thread of the kernel, whose time counts there. */
	if (getpid() == 1)
		return;
	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
		start_ns -= (uint64_t)used.tv_sec * HR_NS_PER_S + (uint64_t)used.tv_nsec;
}

uint64_t hr_start_ns(void)
{
	return start_ns;
}
