/*
 * boot/appliance/machine/machine.h - the tasks of the first process of a machine: file
 * systems, console, modules, huge pages, zombies, and the end of the machine.
 *
 * The same works for PID 1 of a PID namespace; there reboot(2) ends the namespace.
 */
#ifndef BOOT_APPLIANCE_MACHINE_MACHINE_H
#define BOOT_APPLIANCE_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config/config.h"

/* True in the first process. */
bool hr_init_is(void);

/*
 * Mount /proc, /sys, /dev and /run unless they are mounted. Open the console when the kernel
 * started the process without one. Errors are logged and not returned: the console may still work.
 */
void hr_init_mount(void);

/*
 * The value of KEY= on a kernel command line (the last one wins), into value[bytes]. The kernel
 * passes words with a dot to no process, so hr_init_cmdline() reads /proc/cmdline. NULL: there is
 * no such word, or its value does not fit.
 */
const char *hr_init_option(const char *cmdline, const char *key, char *value, size_t bytes);
const char *hr_init_cmdline(const char *key, char *value, size_t bytes);

/* Load modules and reserve huge pages of the configuration. Tries all; 0, or the first error. */
int hr_init_prepare(const struct hr_config_boot *boot);

/* Reserve 2 MiB huge pages. 0; -ENOMEM: the kernel reserved fewer, which is logged; -errno. */
int hr_init_hugepages(uint64_t bytes);

/*
 * Collect orphans that have ended. Not a child of hr_fork(), whose status the function that has
 * started it reads; orphans after such a child are collected in a later call.
 */
void hr_init_reap(void);

/*
 * Flush disks, and end the machine as the configuration says. Does not return: when the kernel
 * refuses, an error is logged and the process sleeps for ever, because the first process must not
 * end.
 */
void hr_init_end(enum hr_boot_end end) __attribute__((noreturn));

/* "poweroff" and so on. */
const char *hr_init_end_name(enum hr_boot_end end);

#endif
