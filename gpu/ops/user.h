/*
 * gpu/ops/user.h - files of user operators: judged, loaded, and kept until the process ends.
 * Host only; during boot only, from one thread.
 */
#ifndef GPU_OPS_USER_H
#define GPU_OPS_USER_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/ops/operator.h"

#define HR_OP_FILE_MAX (64u << 20) /* bytes of an operator file */

/*
 * Judge the bytes of an operator file without loading it: a whole x86-64 shared object (nothing that
 * it says it has lies behind its end) with the note of an operator of this interface. 0, or -EINVAL
 * with what is wrong in message (HR_LOG_LINE_MAX bytes), as the rest of a line "FILE ...".
 */
int hr_op_file_judge(const uint8_t *file, size_t bytes, char *message);

/*
 * Judge a description: names, shapes and limits, no calls. 0, or -EINVAL with what is wrong.
 */
int hr_op_user_judge(const struct hr_operator *op, char *message);

/*
 * Load the operator of a file, or find it loaded. *op stays valid for as long as the process
 * lives. 0, or with message: -ENOENT and the like: the file cannot be read; -EINVAL: it is no
 * operator, of another interface, describes the impossible, or may be changed by everyone; -ENOSPC:
 * HR_OPERATORS_MAX are loaded; -ENOTSUP: this build cannot load any; -ENOMEM.
 */
int hr_op_user_load(const char *path, const struct hr_operator **op, char *message);

/* The operator that was loaded as the i-th, from 0; NULL: there is none. Any thread after boot. */
const struct hr_operator *hr_op_user_get(uint32_t i);

/* The CRC-32C of the file that it was loaded from; 0 of an operator that was not loaded. */
uint32_t hr_op_user_checksum(const struct hr_operator *op);

/*
 * The loader of libc: a judged file into the process, and its description. -EINVAL, with what the
 * loader says in message; -ENOTSUP: a static binary.
 */
int hr_op_user_open(const char *path, void **handle, const struct hr_operator **op, char *message);
void hr_op_user_close(void *handle);

#endif
