/*
 * boot/cmd/load.h - the configuration of a command: a file, or the embedded default.
 */
#ifndef BOOT_CMD_LOAD_H
#define BOOT_CMD_LOAD_H

#include "boot/engine/stages.h"

/*
 * A new appliance with the configuration read and the log level set; to be freed with free().
 * file NULL: the embedded one. pipeline NULL: all of them are selected.
 * NULL on error, with everything logged and *code the exit code.
 */
struct hr_appliance *hr_load(const char *file, const char *pipeline, int *code);

/*
 * The same of all pipelines. *last_resort is what the configuration says of it, also on error: one
 * that has mistakes elsewhere still says what becomes of the machine. The default when it does not
 * say, or cannot be read at all.
 */
struct hr_appliance *hr_load_to_boot(const char *file, enum hr_boot_end *last_resort, int *code);

#endif
