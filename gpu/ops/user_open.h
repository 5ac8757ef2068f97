/*
 * gpu/ops/user_open.h - the loader of libc, or of a static binary, which has none.
 */
#ifndef GPU_OPS_USER_OPEN_H
#define GPU_OPS_USER_OPEN_H

#include "config/base/error.h"
#include "config/operator.h"

/*
 * Load a checked file with the loader of libc, and find its description. fd stays open until the
 * file is closed. -EINVAL, with the text of the loader; -ENOMEM, -EMFILE, -EAGAIN: it
 * ran short of that; -ENOTSUP: a static binary.
 */
int hr_op_user_open(int fd, void **handle, const struct hr_operator **op, struct hr_error *e);
void hr_op_user_close(void *handle);

#endif
