/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/machine/machine.h - what the first process of a machine does, its service
 * manager, its watchdog.
 */
#ifndef BOOT_APPLIANCE_MACHINE_MACHINE_H
#define BOOT_APPLIANCE_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "config/config.h"
#include "config/base/clock.h"
#include "config/base/log.h"

/* ---- the tasks of the first process of a machine: file
 * systems, console, modules, huge pages, zombies, and the end of the machine.
 *
 * The same works for PID 1 of a PID namespace; there reboot(2) ends the namespace.
 */

/* True in the first process. */
bool hr_pid1_is_self(void);

/*
 * Mount /proc, /sys, /dev and /run unless they are mounted. Open the console when the kernel
 * started the process without one. Errors are logged and not returned: the console may still work.
 */
void hr_pid1_mount(void);

/*
 * The value of KEY= on a kernel command line (the last one wins), into value[bytes]. The kernel
 * passes words with a dot to no process, so hr_pid1_cmdline() reads /proc/cmdline. NULL: there is
 * no such word, or its value does not fit.
 */
const char *hr_pid1_option(const char *cmdline, const char *key, char *value, size_t bytes);
const char *hr_pid1_cmdline(const char *key, char *value, size_t bytes);

/* Load modules and reserve huge pages of the configuration. Tries all; 0, or the first error. */
int hr_pid1_prepare(const struct hr_config_boot *boot);

/* Reserve 2 MiB huge pages. 0; -ENOMEM: the kernel reserved fewer, which is logged; -errno. */
int hr_pid1_hugepages(uint64_t bytes);

/*
 * Collect orphans that have ended. Not a child of hr_fork(), whose status the function that has
 * started it reads; orphans after such a child are collected in a later call.
 */
void hr_pid1_reap(void);

/*
 * Flush disks, and end the machine as the configuration says. Does not return: when the kernel
 * refuses, an error is logged and the process sleeps for ever, because the first process must not
 * end.
 */
void hr_pid1_end(enum hr_boot_end end) __attribute__((noreturn));

/* "poweroff" and so on. */
const char *hr_pid1_end_name(enum hr_boot_end end);

/* ---- loads kernel modules as the first process, where there is no modprobe */

/*
 * Load a module and the modules it depends on. name is an absolute path (only that file is loaded),
 * or a name as modprobe takes it ('-' and '_' are the same), which is looked up in
 * FOLDER/modules.dep, written by depmod. A module that is loaded already, or is part of the kernel
 * (FOLDER/modules.builtin), is not an error. options are for the module itself, not for its
 * dependencies.
 * 0; -ENOENT: no such module; -errno of finit_module(2). Errors are logged.
 */
int hr_module_load(const char *folder, const char *name, const char *options);

/* Write "/lib/modules/RELEASE" of the running kernel to path; returns path. */
const char *hr_module_folder(char *path, size_t bytes);

/*
 * The files to load for a module name, in the order of loading; the last is the module. `each` gets
 * each file as a path relative to the folder. A nonzero return value of `each` stops the loop and
 * is the result. 0; -ENOENT: the module is not in modules.dep; -EINVAL: modules.dep is malformed;
 * -errno: modules.dep is not readable.
 */
int hr_module_files(const char *folder, const char *name, int (*each)(void *to, const char *file),
		    void *to);

/* ---- sends state to a service manager, with the datagrams of
 * sd_notify(3).
 *
 * Without NOTIFY_SOCKET in the environment nothing is sent. Never allocates.
 */

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

/* ---- the hardware watchdog, which resets the machine unless it is fed
 * (Linux Documentation/watchdog/watchdog-api.rst).
 */

#define HR_WATCHDOG_DEVICE "/dev/watchdog"

struct hr_watchdog {
	const char *path;
	int fd;		  /* -1: not used */
	uint64_t feed_ns; /* interval of feeding: a third of the timeout */
	uint64_t next_ns; /* time of the next feeding */
	int error;	  /* errno of the last failed feeding; 0: it succeeded */
};

/*
 * Arm the watchdog at `path` (the caller's) with this timeout, in whole seconds; the driver may
 * round it. 0 ns: the watchdog is not used. An error is logged, and the watchdog is not used.
 */
void hr_watchdog_open(struct hr_watchdog *w, const char *path, uint64_t timeout_ns);

/* Feed the watchdog when that is due. An error is logged once, until feeding succeeds again. */
void hr_watchdog_feed(struct hr_watchdog *w, uint64_t now_ns);

/* Disarm the watchdog with the magic close. */
void hr_watchdog_close(struct hr_watchdog *w);

#endif
