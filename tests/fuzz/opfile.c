/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operator files: for any bytes the check ends, reads nothing behind them, and gives a reason when it
 * refuses them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"
#include "gpu/ops/user.h"
#include "tests/harness/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const int err = hr_op_file_check(data, bytes, test_error());

	if (err != 0 && (err != -EINVAL || !test_error_text()[0]))
		abort();
	if (err == 0 && test_error_text()[0])
		abort();
	return 0;
}
