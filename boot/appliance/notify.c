#include "boot/appliance/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/log.h"

/* A path, or '@' and the name of an abstract socket (unix(7)). */
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
			hr_warn("NOTIFY_SOCKET: %s; nobody is told", strerror(errno));
	} else if (path) {
		hr_warn("NOTIFY_SOCKET '%.100s' is no socket address; nobody is told", path);
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
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
	if (length < 0)
		return;
	if ((size_t)length >= sizeof text)
		length = (int)sizeof text - 1;
	if (sendto(notify->fd, text, (size_t)length, MSG_NOSIGNAL,
		   (const struct sockaddr *)&notify->to, notify->length) < 0)
		hr_debug("NOTIFY_SOCKET: not sent: %s", text);
}

void hr_notify_alive(struct hr_notify *notify, uint64_t now_ns)
{
	if (!notify->keepalive_ns || now_ns < notify->next_alive_ns)
		return;
	notify->next_alive_ns = now_ns + notify->keepalive_ns;
	hr_notify_send(notify, "WATCHDOG=1");
}

void hr_notify_close(struct hr_notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}
