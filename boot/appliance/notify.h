/*
 * boot/appliance/notify.h - telling a service manager how far we are: the datagrams of
 * sd_notify(3).
 *
 * Without NOTIFY_SOCKET in the environment nothing is sent. Nothing here allocates.
 */
#ifndef BOOT_APPLIANCE_NOTIFY_H
#define BOOT_APPLIANCE_NOTIFY_H

#include <stdint.h>
#include <sys/un.h>

struct hr_notify {
	int fd; /* -1: nobody listens */
	struct sockaddr_un to;
	unsigned length;	/* of `to` */
	uint64_t keepalive_ns;	/* how often WATCHDOG=1 is due: half of WATCHDOG_USEC; 0: never */
	uint64_t next_alive_ns; /* when it is due next */
};

/*
 * Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and take them out of the environment. An
 * address that is none (not absolute, not abstract, too long) is logged and nobody listens.
 */
void hr_notify_open(struct hr_notify *notify);

/* Send lines like "READY=1\nSTATUS=text"; at most HR_LOG_LINE_MAX bytes. A manager that does not
 * read is not waited for. */
void hr_notify_send(struct hr_notify *notify, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* WATCHDOG=1 when it is due. */
void hr_notify_alive(struct hr_notify *notify, uint64_t now_ns);

void hr_notify_close(struct hr_notify *notify);

#endif
