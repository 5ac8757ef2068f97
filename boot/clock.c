#include "boot/clock.h"

#include <sys/prctl.h>
#include <time.h>

uint64_t hr_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * HR_NS_PER_S + (uint64_t)ts.tv_nsec;
}

void hr_wait_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / HR_NS_PER_S),
			       .tv_nsec = (long)(ns % HR_NS_PER_S) };

	nanosleep(&ts, NULL);
}

void hr_wait_precisely(void)
{
	prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
}
