#include "config/base/process.h"

#include <unistd.h>

#include "config/base/seam.h"

static uint64_t start_ns;

void hr_start_mark(void)
{
	start_ns = hr_now_ns();
	/* As the first process, this process was a kernel thread, whose processor time counts
	 * here. */
	if (getpid() != 1)
		start_ns -= hr_cpu_ns();
}

uint64_t hr_start_ns(void)
{
	return start_ns;
}
