/*
 * boot/cmd/post/operators.h - the step of the self-test of an operator (boot/cmd/post/step.h).
 */
#ifndef BOOT_CMD_POST_OPERATORS_H
#define BOOT_CMD_POST_OPERATORS_H

#include <stdint.h>

#include "config/base/error.h"

/* Known answers of one operator's worker code. */
int hr_post_operator(uint32_t id, char *detail, struct hr_error *e);

#endif
