/*
 * boot/cmd/load.h - loads the configuration of a command: a file, or the embedded default.
 */
#ifndef BOOT_CMD_LOAD_H
#define BOOT_CMD_LOAD_H

#include "boot/engine/bringup/stages.h"
#include "config/file/file.h"

/* Configurations that are loaded from now on may have ${rank} and ${local_rank} in device strings. */
void hr_load_set_rank(const struct hr_config_rank *rank);

/*
 * Make an appliance with the configuration read and the log level set; the caller frees it with
 * free(). file NULL: the embedded configuration. pipeline NULL: all pipelines are selected. NULL on
 * error, with everything logged and the exit code in *code.
 */
struct hr_appliance *hr_load(const char *file, const char *pipeline, int *code);

/*
 * The same with all pipelines selected, for the supervisor: another process reads the configuration
 * (boot/appliance/supervisor/reader.h), and user operators are not loaded. *last_resort is the
 * value of the configuration, also after mistakes elsewhere in it. It is the default when the
 * configuration gives none or is not readable.
 */
struct hr_appliance *hr_load_to_boot(const char *file, enum hr_boot_end *last_resort, int *code);

/* Read a configuration into *config, in this process, and check that an appliance can be made of it;
 * file: const char *, NULL: the built-in one. Errors are logged. Returns as hr_config_read() and
 * hr_appliance_init(). */
int hr_load_read(struct hr_config *config, void *file, struct hr_error *e);

#endif
