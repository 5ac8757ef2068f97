/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/smart.h"

#include <stddef.h>
#include <string.h>

#include "config/base/log.h"
#include "nvme/queue/wire.h"

_Static_assert(sizeof(struct nvme_smart_log) == HR_SMART_BYTES, "log page 02h");

static uint64_t read128(const uint8_t *field)
{
	uint64_t half[2];

	memcpy(half, field, sizeof half);
	return half[1] ? UINT64_MAX : half[0];
}

void hr_smart_parse(struct hr_smart *smart, const void *page)
{
	const struct nvme_smart_log *log = page;

	*smart = (struct hr_smart){
		.known = 1,
		.critical_warning = log->critical_warning,
		.temperature_k = log->temperature[0] | (uint64_t)log->temperature[1] << 8,
		.spare_percent = log->avail_spare,
		.spare_threshold_percent = log->spare_thresh,
		.used_percent = log->percent_used,
		.media_errors = read128(log->media_errors),
		.unsafe_shutdowns = read128(log->unsafe_shutdowns),
		.power_on_hours = read128(log->power_on_hours),
	};
}

static const struct {
	const char *name, *set, *cleared;
} warning[HR_SMART_WARNINGS] = {
	{ "spare", "spare is below its threshold", "spare is above its threshold again" },
	{ "temperature", "temperature is beyond a threshold",
	  "temperature is within its thresholds again" },
	{ "reliability", "reliability is degraded by media or internal errors",
	  "reliability is not degraded any more" },
	{ "read_only", "media are read-only", "media are not read-only any more" },
	{ "backup", "the backup of volatile memory has failed",
	  "the backup of volatile memory works again" },
};

const char *hr_smart_warning(uint32_t i)
{
	return i < HR_SMART_WARNINGS ? warning[i].name : NULL;
}

static void log_warnings(const char *name, const struct hr_smart *was, const struct hr_smart *now)
{
	const uint64_t changed = was->critical_warning ^ now->critical_warning;

	for (uint32_t i = 0; i < HR_SMART_WARNINGS; i++)
		if (changed >> i & 1)
			hr_warn("%s: health: %s (critical warning %02xh, %u K, spare %u %%)", name,
				now->critical_warning >> i & 1 ? warning[i].set
							       : warning[i].cleared,
				(unsigned)now->critical_warning, (unsigned)now->temperature_k,
				(unsigned)now->spare_percent);
}

void hr_smart_log(const char *name, const struct hr_smart *was, const struct hr_smart *now)
{
	log_warnings(name, was, now);
	if (now->media_errors > was->media_errors)
		hr_warn("%s: health: %llu media errors, before %llu", name,
			(unsigned long long)now->media_errors,
			(unsigned long long)was->media_errors);
	if (now->used_percent >= 100 && was->used_percent < 100)
		hr_warn("%s: health: %u %% of the endurance is used", name,
			(unsigned)now->used_percent);
}
