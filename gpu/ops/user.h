/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/ops/user.h - files of user operators: checked, loaded, and kept until the process ends. Host
 * only; during boot only, from one thread.
 */
#ifndef GPU_OPS_USER_H
#define GPU_OPS_USER_H

#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"
#include "gpu/ops/operator.h"
#include "config/operator.h"

#define HR_OP_FILE_MAX (64u << 20) /* maximum bytes of an operator file */

/* Check a description: names, shapes and limits, without calls. 0, or -EINVAL. */
int hr_op_user_check(const struct hr_operator *op, struct hr_error *e);

/*
 * Load the operator of a file, or find it when it is already loaded: a sealed copy is checked and
 * loaded, so that no process can exchange the file in between. *op stays valid until the process ends.
 * 0; -ENOENT and others: the file cannot be read; -EACCES: another user could change it
 * (config/base/files.h); -EINVAL: not an operator, another interface, or an invalid
 * description; -EFBIG;
 * -ENOSPC: HR_OPERATORS_MAX are loaded; -ENOTSUP: this build cannot load any; -ENOMEM.
 */
int hr_op_user_load(const char *path, const struct hr_operator **op, struct hr_error *e);

/* The i-th loaded operator, from 0; NULL: none. Any thread may call it after boot. */
const struct hr_operator *hr_op_user_get(uint32_t i);

/* The CRC-32C of the file of the operator; 0 for an operator that was not loaded. */
uint32_t hr_op_user_checksum(const struct hr_operator *op);

/* ---- check the bytes of an operator file */

/*
 * Check the bytes of an operator file without loading it: a complete x86-64 shared object (all of
 * its parts lie within the file) with the note of an operator of this interface. 0, or -EINVAL with
 * a text that is the rest of a line "FILE ...".
 */
int hr_op_file_check(const uint8_t *file, size_t bytes, struct hr_error *e);

/* ---- the loader of libc, or of a static binary, which has none */

/*
 * Load a checked file with the loader of libc, and find its description. fd stays open until the
 * file is closed. -EINVAL, with the text of the loader; -ENOMEM, -EMFILE, -EAGAIN: it
 * ran short of that; -ENOTSUP: a static binary.
 */
int hr_op_user_open(int fd, void **handle, const struct hr_operator **op, struct hr_error *e);
void hr_op_user_close(void *handle);

#endif
