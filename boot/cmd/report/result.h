/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/report/result.h - the result of an operator, as its report() gives it.
 */
#ifndef BOOT_CMD_REPORT_RESULT_H
#define BOOT_CMD_REPORT_RESULT_H

#include <stdio.h>

#include "config/base/json.h"
#include "config/operator.h"

/* Lines for people, without a newline at the end; nothing for an operator without a report. */
void hr_result_print(const struct hr_operator *op, const struct hr_op_all *all, FILE *out);

/* Members added to the object. Without `lists`: only those that are single values. */
void hr_result_json(const struct hr_operator *op, const struct hr_op_all *all, bool lists,
		    struct hr_json *object);

#endif
