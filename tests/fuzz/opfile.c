/*
 * Operator files: whatever the bytes are, judging them ends, reads nothing behind them, and says why
 * when it refuses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/log.h"
#include "gpu/ops/user.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char message[HR_LOG_LINE_MAX] = "";
	const int err = hr_op_file_judge(data, bytes, message);

	if (err != 0 && (err != -EINVAL || !message[0]))
		abort();
	if (err == 0 && message[0])
		abort();
	return 0;
}
