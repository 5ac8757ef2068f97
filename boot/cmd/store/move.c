/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/base/error.h"
#include "boot/engine/runner/progress.h"
#include "config/base/process.h"
#include "config/base/clock.h"
#include "config/base/log.h"

/* 0, or an exit code: both names are the same one. */
static int check_names(const struct hr_store_request *request)
{
	if (strcmp(request->arg[0], request->arg[1]) != 0)
		return 0;
	hr_error("'%s': both names are the same; expected another one", request->arg[0]);
	return HR_EXIT_USAGE;
}

int hr_store_cmd_mv(struct hr_store_backend *access, const struct hr_store_request *request)
{
	const int code = check_names(request);

	return code ? code
		    : access->rename(access->to, request->arg[0], request->arg[1],
				     request->replace);
}

struct copy {
	const struct hr_store_request *request;
	struct hr_progress progress;
	uint64_t began_ns;
	bool begun;
};

static bool show_copy_progress(void *arg, uint64_t done, uint64_t total)
{
	struct copy *c = arg;
	const uint64_t now_ns = hr_now_ns();

	if (!c->begun)
		hr_progress_begin(&c->progress, !c->request->quiet, c->request->arg[1], 0, total,
				  now_ns);
	c->begun = true;
	hr_progress_update(&c->progress, done, now_ns);
	return !hr_signals_pending();
}

int hr_store_cmd_cp(struct hr_store_backend *access, const struct hr_store_request *request)
{
	struct copy c = { .request = request, .began_ns = hr_now_ns() };
	const struct hr_store_listener listener = { .progress = show_copy_progress, .arg = &c };
	struct hr_store_object made = { 0 };
	char rate[24];
	int code = check_names(request);

	if (!code)
		code = access->copy(access->to, request->arg[0], request->arg[1], request->replace,
				    &listener, &made);
	if (c.begun)
		hr_progress_end(&c.progress);
	if (code)
		return code;
	hr_rate_format(rate, sizeof rate,
		       (double)made.bytes * 1e9 / (double)(hr_now_ns() - c.began_ns + 1));
	printf("%s: %" PRIu64 " bytes, CRC-32C %08x, %s\n", request->arg[1], made.bytes, made.crc,
	       rate);
	return HR_EXIT_DONE;
}
