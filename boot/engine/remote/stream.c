/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/remote/stream.h"

#include <stdarg.h>
#include <stdio.h>

#include "config/base/seam.h"
#include "config/derived.h"

const struct hr_config_remote *hr_remote_config(const struct hr_run *run)
{
	return hr_config_sends(run->config) ? &run->config->to : &run->config->from;
}

const char *hr_remote_name(const struct hr_run *run)
{
	return hr_config_sends(run->config) ? run->config->tap.name : run->config->feed.name;
}

void hr_remote_lock(struct hr_remote *r)
{
	hr_mutex_lock(&r->lock);
}

void hr_remote_unlock(struct hr_remote *r)
{
	pthread_mutex_unlock(&r->lock);
}

void hr_remote_fail(struct hr_remote *r, enum hr_error_kind kind, int err, const char *format, ...)
{
	char text[HR_ERROR_BYTES / 2];
	va_list args;

	if (r->failed)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	r->failed = true;
	hr_remote_lock(r);
	r->err = err;
	hr_fail(&r->error, kind, err, "remote '%s' (%s): %s", hr_remote_name(r->run),
		hr_remote_config(r->run)->address, text);
	hr_remote_unlock(r);
}
