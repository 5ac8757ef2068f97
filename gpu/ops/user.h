/*
 * gpu/ops/user.h - files of user operators: judged, loaded, and kept until the process ends.
 * Host only; during boot only, from one thread.
 */
#ifndef GPU_OPS_USER_H
#define GPU_OPS_USER_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/ops/op_user.h"

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
int hr_op_user_judge(const struct hr_op_user *user, char *message);

/*
 * Load the operator of a file, or find it loaded. *desc stays valid for as long as the process
 * lives. 0, or with message: -ENOENT and the like: the file cannot be read; -EINVAL: it is no
 * operator, of another interface, describes the impossible, or may be changed by everyone; -ENOSPC:
 * HR_OPERATORS_MAX are loaded; -ENOTSUP: this build cannot load any; -ENOMEM.
 */
int hr_op_user_load(const char *path, const struct hr_op_desc **desc, char *message);

/* The operator of an id that hr_op_user_load() gave out, or NULL. Any thread after boot. */
const struct hr_op_desc *hr_op_user_get(uint32_t id);

/* Its worker code on the host backend, for gpu/ops/dispatch.c; nothing, and 0, without one. */
void hr_op_loaded_init(uint32_t op, const void *args, void *state);
uint32_t hr_op_loaded_tile(uint32_t op, const void *args, void *state,
			   const struct hr_op_tile *tile);
void hr_op_loaded_finish(uint32_t op, const struct hr_op_all *all);

/*
 * The loader of libc: a judged file into the process, and its description. -EINVAL, with what the
 * loader says in message; -ENOTSUP: a static binary.
 */
int hr_op_user_open(const char *path, void **handle, const struct hr_op_user **user, char *message);
void hr_op_user_close(void *handle);

/* The result of a user operator, for hr_op_print() and hr_op_json(). */
void hr_op_user_print(const struct hr_op_user *user, const struct hr_op_all *all, FILE *out);
void hr_op_user_json(const struct hr_op_user *user, const struct hr_op_all *all, void *json_object);

#endif
