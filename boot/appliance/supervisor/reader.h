/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/supervisor/reader.h - reads the configuration in a separate process.
 *
 * Reading a configuration loads the user operators that it names, and their code may crash or hang.
 * The supervisor is the first process of a machine, so it only takes the result. User operators in
 * the result have no description (hr_config_operators_forget()); each engine loads them.
 */
#ifndef BOOT_APPLIANCE_SUPERVISOR_READER_H
#define BOOT_APPLIANCE_SUPERVISOR_READER_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/base/clock.h"
#include "config/config.h"
#include "config/base/error.h"
#include "config/file/file.h"

/* Time limit of the process. A configuration may come through a pipe from a slow writer. */
#define HR_CONFIG_READER_NS (60 * HR_NS_PER_S)

/* Reads a configuration, and prints its error. */
typedef int hr_read_config(struct hr_config *config, void *to, struct hr_error *e);

/*
 * Call read(config, to, e) in a separate process, and wait for its end, at most `limit_ns`. Pointers
 * in the result point to memory of the caller (a file's name, tables of functions).
 * Returns the result of read(); -EOWNERDEAD: the process ended in another way; -ETIMEDOUT: it was
 * killed; -ENOMEM, -EAGAIN: no memory or process for it. The last four are logged. *e, empty
 * before, has the error of read() or these. After an error
 * only boot.last_resort of *config is valid, as after hr_config_read().
 */
int hr_config_read_in_child(struct hr_config *config, hr_read_config *read, void *to,
			    uint64_t limit_ns, struct hr_error *e);

/* The same without waiting. */
struct hr_config_reader {
	pid_t pid; /* 0: none runs */
	struct hr_reader_page *page;
	uint64_t since_ns, limit_ns;
};

/* Start the process. 0; -ENOMEM, -EAGAIN: nothing is logged. */
int hr_config_reader_start(struct hr_config_reader *reader, hr_read_config *read, void *to,
			   uint64_t limit_ns);

/* True: the process has ended, or was killed after its limit; *config and *result as of
 * hr_config_read_in_child(), and the error, which is printed. False: the process still reads. */
bool hr_config_reader_poll(struct hr_config_reader *reader, struct hr_config *config, int *result,
			   struct hr_error *e);

/* Kill the process, if one runs. */
void hr_config_reader_kill(struct hr_config_reader *reader);

#endif
