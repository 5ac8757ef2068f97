/*
 * boot/load.h - the configuration of a command: a file, or the embedded default.
 */
#ifndef BOOT_LOAD_H
#define BOOT_LOAD_H

#include "boot/stages.h"

/*
 * A new appliance with the configuration read and the log level set; to be freed with free().
 * file NULL: the embedded one. pipeline NULL: all of them are selected.
 * NULL on error, with everything logged and *code the exit code.
 */
struct hr_appliance *hr_load(const char *file, const char *pipeline, int *code);

#endif
