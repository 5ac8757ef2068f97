/*
 * boot/appliance/init.h - what only the first process of a machine does: file systems, console,
 * modules, huge pages, zombies, and the machine's end.
 *
 * As PID 1 of a PID namespace the same happens within it (reboot(2) then ends the namespace).
 */
#ifndef BOOT_APPLIANCE_INIT_H
#define BOOT_APPLIANCE_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config/config.h"

/* This is the first process. */
bool hr_init_is(void);

/*
 * Mount /proc, /sys, /dev and /run where they are not, and give a process that the kernel has
 * started without one its console. What does not work is logged: the console may still work.
 */
void hr_init_mount(void);

/*
 * The value of KEY= on a kernel command line (the last one wins), into value[bytes]. The kernel
 * hands words with a dot to nobody, so hr_init_cmdline() reads /proc/cmdline. NULL: there is none,
 * or it does not fit.
 */
const char *hr_init_option(const char *cmdline, const char *key, char *value, size_t bytes);
const char *hr_init_cmdline(const char *key, char *value, size_t bytes);

/* Modules and huge pages of the configuration. 0, or the first error, after all were tried. */
int hr_init_prepare(const struct hr_config_boot *boot);

/* Reserve 2 MiB huge pages. 0; -ENOMEM: the kernel found fewer, which is logged; -errno. */
int hr_init_hugepages(uint64_t bytes);

/* Collect children that have ended, but for `kept`, whose end another function asks for; 0: none. Those
 * behind it are collected once it is. */
void hr_init_reap(pid_t kept);

/*
 * Flush disks, and end the machine as the configuration says. Does not return: when the kernel
 * refuses, that is logged, and the process sleeps for ever, for the first process must not end.
 */
void hr_init_end(enum hr_boot_end end) __attribute__((noreturn));

/* "poweroff" and the like. */
const char *hr_init_end_name(enum hr_boot_end end);

#endif
