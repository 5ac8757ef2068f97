/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `headrace store rm`: removes objects by name, or all incomplete objects.
 */
#include <inttypes.h>
#include <stdio.h>

#include "boot/cmd/store/store.h"
#include "config/base/error.h"
#include "config/base/process.h"

static int remove_pending(struct hr_store_backend *access, const struct hr_store_request *request)
{
	uint64_t bytes = 0, count = 0;
	const int code = access->remove_pending(access->to, request->older_ns, &count, &bytes);

	if (!code)
		printf("%s: %" PRIu64 " incomplete objects removed, %" PRIu64 " bytes\n",
		       access->disk, count, bytes);
	return code;
}

/* A device that has failed ends the command. */
int hr_store_cmd_rm(struct hr_store_backend *access, const struct hr_store_request *request)
{
	int worst = HR_EXIT_DONE;

	if (request->pending && request->args == 0)
		return remove_pending(access, request);
	for (int i = 0; i < request->args && worst < HR_EXIT_DEVICE && !hr_signals_pending(); i++) {
		const int code = access->remove(access->to, request->arg[i], request->pending);

		worst = code > worst ? code : worst;
	}
	return worst;
}
