/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/watchdog.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/clock.h"

struct fake_watchdog fake_watchdog;
static int fifo = -1, timeout_s;
static uint64_t last_ns;

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *data;

	va_start(args, request);
	data = va_arg(args, void *);
	va_end(args);
	if (request != WDIOC_SETTIMEOUT)
		return (int)syscall(SYS_ioctl, fd, request, data);
	if (fake_watchdog.error) {
		errno = fake_watchdog.error;
		return -1;
	}
	fake_watchdog.seconds = *(int *)data;
	if (timeout_s)
		*(int *)data = timeout_s;
	return 0;
}

void fake_watchdog_open(const char *path, int driver_seconds)
{
	cr_assert_eq(mkfifo(path, 0600), 0);
	fifo = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	cr_assert_geq(fifo, 0);
	timeout_s = driver_seconds;
}

void fake_watchdog_look(void)
{
	char byte;

	while (fifo >= 0 && read(fifo, &byte, 1) == 1) {
		const uint64_t now = hr_now_ns();

		if (fake_watchdog.bytes && now - last_ns > fake_watchdog.longest_ns)
			fake_watchdog.longest_ns = now - last_ns;
		fake_watchdog.bytes++;
		fake_watchdog.last = byte;
		last_ns = now;
	}
}
