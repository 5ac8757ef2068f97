/*
 * config/file/operators.h - reads the list `operators`, and finds operators by name; for files of
 * config/ only.
 */
#ifndef CONFIG_FILE_OPERATORS_H
#define CONFIG_FILE_OPERATORS_H

#include "config/config.h"
#include "config/file/group.h"

/* The built-in operator of that name; NULL: none. */
const struct hr_operator *hr_config_operator_find(const struct hr_config *config, const char *name);

/* Read user operator i from its group and load it. After a mistake it has no description. */
void hr_config_operator_read(struct hr_config *config, const struct hr_group *group, unsigned i);

#endif
