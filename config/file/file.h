/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/file/file.h - reads a configuration: a file, or text in memory, and the user operators that it
 * names.
 */
#ifndef CONFIG_FILE_FILE_H
#define CONFIG_FILE_FILE_H

#include "config/config.h"

/*
 * Read and check a file, or with "-" standard input. `names` checks device strings and finds
 * operators. Relative paths in the file (images, operators, fault scripts) start at the file's
 * folder; those of a pipe or of standard input start at the working folder. The error has one line
 * for each mistake, in file order.
 * Returns 0; -EINVAL: mistakes; -ENOENT, -EACCES, -EISDIR, -EFBIG; -ENOMEM.
 * After an error only boot.last_resort of *config is valid: the value in the file when it could be
 * read, whatever other mistakes the file has, else the default.
 */
int hr_config_read(struct hr_config *config, const struct hr_config_lookup *names, const char *file,
		   struct hr_error *e);

/* The same for text in memory: `bytes` long, without a NUL. `file` begins the lines of mistakes. */
int hr_config_parse(struct hr_config *config, const struct hr_config_lookup *names,
		    const char *file, const char *text, size_t bytes, struct hr_error *e);

/*
 * Set all user operators to NULL: for a configuration that another process has read. Their
 * descriptions are in the memory of that process, until this process loads the files.
 */
void hr_config_operators_forget(struct hr_config *config);

/*
 * Load the files of all user operators. 0; -EINVAL: a file has changed since the configuration was
 * read; or the error of operator_load() (config/config.h).
 */
int hr_config_operators_load(struct hr_config *config, struct hr_error *e);

/* Call op->parse(). For an operator without parse(), every argument is a mistake. */
int hr_op_parse(const struct hr_operator *op, const struct hr_op_arg *arg, uint32_t count,
		void *args, void (*complain)(void *to, unsigned line, const char *text), void *to);

#endif
