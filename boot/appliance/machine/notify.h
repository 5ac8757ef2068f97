/*
 * boot/appliance/machine/notify.h - sends state to a service manager, with the datagrams of
 * sd_notify(3).
 *
 * Without NOTIFY_SOCKET in the environment nothing is sent. Never allocates.
 */
#ifndef BOOT_APPLIANCE_MACHINE_NOTIFY_H
#define BOOT_APPLIANCE_MACHINE_NOTIFY_H

#include <stdint.h>
#include <sys/un.h>

#include "config/base/clock.h"
#include "config/base/log.h"

/* hr_notify_close() waits at most so long for a service manager that does not read. */
#define HR_NOTIFY_CLOSE_NS (2 * HR_NS_PER_S)

struct hr_notify {
	int fd; /* -1: there is no service manager */
	struct sockaddr_un to;
	unsigned length;	/* of `to` */
	uint64_t keepalive_ns;	/* interval of WATCHDOG=1: half of WATCHDOG_USEC; 0: never */
	uint64_t next_alive_ns; /* time of the next WATCHDOG=1 */
	/* lines for which the service manager's socket had no room; "": none */
	char unsent[HR_LOG_LINE_MAX + 16];
};

/*
 * Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and remove them from the environment. An
 * invalid address (neither absolute nor abstract, or too long) is logged, and nothing is sent.
 */
void hr_notify_open(struct hr_notify *notify);

/*
 * Send lines like "READY=1\nSTATUS=text"; at most HR_LOG_LINE_MAX bytes. Does not wait for a
 * service manager that does not read: the kernel keeps 10 messages for it
 * (net.unix.max_dgram_qlen), and further lines are sent when there is room. When they become too
 * many, READY=1 and the latest line are kept.
 */
void hr_notify_send(struct hr_notify *notify, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Send the lines that had no room, and WATCHDOG=1 when it is due. To be called often. */
void hr_notify_alive(struct hr_notify *notify, uint64_t now_ns);

/* Send the lines that had no room, if there is room within HR_NOTIFY_CLOSE_NS. */
void hr_notify_close(struct hr_notify *notify);

#endif
