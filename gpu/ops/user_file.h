/*
 * gpu/ops/user_file.h - check the bytes of an operator file.
 */
#ifndef GPU_OPS_USER_FILE_H
#define GPU_OPS_USER_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"

/*
 * Check the bytes of an operator file without loading it: a complete x86-64 shared object (all of
 * its parts lie within the file) with the note of an operator of this interface. 0, or -EINVAL with
 * a text that is the rest of a line "FILE ...".
 */
int hr_op_file_check(const uint8_t *file, size_t bytes, struct hr_error *e);

#endif
