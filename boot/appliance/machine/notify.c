/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/machine/machine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"

#define WAIT_NS (10 * HR_NS_PER_MS)

/* Accept a path, or '@' and the name of an abstract socket (unix(7)). */
static bool set_address(struct hr_notify *notify, const char *path)
{
	const size_t length = strlen(path);

	if ((path[0] != '/' && path[0] != '@') || length < 2 ||
	    length >= sizeof(notify->to.sun_path))
		return false;
	notify->to.sun_family = AF_UNIX;
	memcpy(notify->to.sun_path, path, length);
	if (path[0] == '@')
		notify->to.sun_path[0] = '\0';
	notify->length = (unsigned)(offsetof(struct sockaddr_un, sun_path) + length);
	return true;
}

static uint64_t keepalive(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	char *end;
	unsigned long long us;

	if (!usec || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	us = strtoull(usec, &end, 10);
	return *end || us == 0 || us > UINT64_MAX / 1000 ? 0 : us * 1000 / 2;
}

void hr_notify_open(struct hr_notify *notify)
{
	const char *path = getenv("NOTIFY_SOCKET");

	memset(notify, 0, sizeof(*notify));
	notify->fd = -1;
	if (path && set_address(notify, path)) {
		notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		notify->keepalive_ns = keepalive();
		if (notify->fd < 0)
			hr_warn("NOTIFY_SOCKET: %s; the service manager gets no messages",
				strerror(errno));
	} else if (path) {
		hr_warn("NOTIFY_SOCKET '%.100s' is not a socket address; the service manager gets "
			"no messages",
			path);
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

/* False: there is no room for it now. */
static bool send_notify(const struct hr_notify *notify, const char *text)
{
	if (sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL,
		   (const struct sockaddr *)&notify->to, notify->length) >= 0)
		return true;
	if (errno == EAGAIN || errno == ENOBUFS)
		return false;
	hr_debug("NOTIFY_SOCKET: %s; not sent: %s", strerror(errno), text);
	return true;
}

/* True: no line is left. */
static bool put_unsent(struct hr_notify *notify)
{
	if (*notify->unsent && !send_notify(notify, notify->unsent))
		return false;
	*notify->unsent = '\0';
	return true;
}

static void keep_unsent(struct hr_notify *notify, const char *text)
{
	const size_t bytes = sizeof notify->unsent;
	size_t used = strlen(notify->unsent);

	if (used + 1 + strlen(text) >= bytes) {
		const bool ready = strstr(notify->unsent, "READY=1") != NULL;

		used = (size_t)snprintf(notify->unsent, bytes, "%s", ready ? "READY=1" : "");
	}
	snprintf(notify->unsent + used, bytes - used, "%s%s", used ? "\n" : "", text);
}

void hr_notify_send(struct hr_notify *notify, const char *format, ...)
{
	char text[HR_LOG_LINE_MAX];
	va_list args;
	int length;

	if (notify->fd < 0)
		return;
	va_start(args, format);
	length = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (length > 0 && (!put_unsent(notify) || !send_notify(notify, text)))
		keep_unsent(notify, text);
}

void hr_notify_alive(struct hr_notify *notify, uint64_t now_ns)
{
	if (notify->fd < 0 || !put_unsent(notify))
		return;
	if (notify->keepalive_ns && now_ns >= notify->next_alive_ns &&
	    send_notify(notify, "WATCHDOG=1"))
		notify->next_alive_ns = now_ns + notify->keepalive_ns;
}

void hr_notify_close(struct hr_notify *notify)
{
	if (notify->fd < 0)
		return;
	for (uint64_t ns = 0; !put_unsent(notify) && ns < HR_NOTIFY_CLOSE_NS; ns += WAIT_NS)
		hr_wait_ns(WAIT_NS);
	close(notify->fd);
	notify->fd = -1;
}
