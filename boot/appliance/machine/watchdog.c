/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/machine/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"

/* A driver without the magic close keeps the watchdog armed, so it resets the machine. */
static void disarm(struct hr_watchdog *w)
{
	if (write(w->fd, "V", 1) != 1)
		hr_warn("%s: cannot disarm it: %s", w->path, strerror(errno));
	close(w->fd);
	w->fd = -1;
}

void hr_watchdog_open(struct hr_watchdog *w, const char *path, uint64_t timeout_ns)
{
	int seconds = (int)(timeout_ns / HR_NS_PER_S);

	*w = (struct hr_watchdog){ .path = path, .fd = -1 };
	if (!timeout_ns)
		return;
	w->fd = open(path, O_WRONLY | O_CLOEXEC);
	if (w->fd < 0 || ioctl(w->fd, WDIOC_SETTIMEOUT, &seconds) != 0) {
		hr_error("%s: %s; nothing resets this machine if it hangs", path, strerror(errno));
		if (w->fd >= 0)
			disarm(w);
		return;
	}
	/* The driver may have rounded the timeout. */
	w->feed_ns = HR_NS_PER_S * (unsigned)(seconds > 0 ? seconds : 1) / 3;
	hr_info("%s: %d s", path, seconds);
}

void hr_watchdog_feed(struct hr_watchdog *w, uint64_t now_ns)
{
	if (w->fd < 0 || now_ns < w->next_ns)
		return;
	/* Any byte except V feeds the watchdog, also in drivers without the ioctl. */
	if (write(w->fd, "", 1) == 1) {
		w->next_ns = now_ns + w->feed_ns;
		w->error = 0;
		return;
	}
	/* Feeding is due again at the next look, because each second counts now. */
	if (w->error != errno)
		hr_error("%s: cannot feed it: %s; it will reset this machine", w->path,
			 strerror(errno));
	w->error = errno;
}

void hr_watchdog_close(struct hr_watchdog *w)
{
	if (w->fd >= 0)
		disarm(w);
}
