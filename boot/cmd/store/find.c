/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/store/store.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/output.h"
#include "config/base/error.h"
#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/config.h"
#include "config/file/file.h"
#include "config/base/log.h"
#include "config/base/text.h"

#define QUEUE_ENTRIES 64u
#define TIMEOUT_NS (30 * HR_NS_PER_S)

/* Find the ssd in the configuration file. 0, or an exit code. */
static int find_configured_ssd(const struct hr_config *config,
			       const struct hr_store_request *request, struct hr_config_ssd *out)
{
	const char *known[HR_SSDS_MAX], *near;

	for (uint32_t i = 0; i < config->ssds; i++) {
		known[i] = config->ssd[i].name;
		if (strcmp(known[i], request->ssd) == 0) {
			*out = config->ssd[i];
			return 0;
		}
	}
	near = hr_nearest(request->ssd, known, config->ssds);
	hr_error("%s: there is no ssd '%s'%s%s%s", request->config, request->ssd,
		 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return HR_EXIT_USAGE;
}

static int find_ssd(const struct hr_store_request *request, struct hr_config_ssd *out,
		    char appliance[HR_NAME_MAX])
{
	struct hr_config *config;
	struct hr_error e = { 0 };
	int code;

	*out = (struct hr_config_ssd){ .nsid = request->nsid,
				       .queue_entries = QUEUE_ENTRIES,
				       .timeout_ns = TIMEOUT_NS,
				       .admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };
	if (!request->config) {
		if (strlen(request->ssd) >= sizeof out->device)
			return hr_usage_error("store", "the device string is too long (%u at most)",
					      HR_DEVICE_MAX - 1);
		memcpy(out->device, request->ssd, strlen(request->ssd) + 1);
		return 0;
	}
	config = calloc(1, sizeof *config);
	if (!config) {
		hr_error("out of memory for the configuration: %zu bytes", sizeof *config);
		return HR_EXIT_MISSING;
	}
	code = hr_error_report(&e, hr_config_read(config, &hr_lookup, request->config, &e));
	if (!code)
		code = find_configured_ssd(config, request, out);
	if (!code)
		memcpy(appliance, config->name, sizeof config->name);
	free(config);
	return code;
}

int hr_store_find_ssd(const struct hr_store_request *request, struct hr_config_ssd *out,
		      char appliance[HR_NAME_MAX])
{
	const int code = find_ssd(request, out, appliance);

	if (!code && request->timeout_ns)
		out->timeout_ns = out->admin_timeout_ns = request->timeout_ns;
	if (!code && request->serial)
		memcpy(out->serial, request->serial, strlen(request->serial) + 1);
	return code;
}
