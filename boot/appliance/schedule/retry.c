/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/schedule/retry.h"

#include <errno.h>

#include "config/base/text.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/queue/status.h"

#define PAUSE_MIN_NS (10 * HR_NS_PER_MS)
#define PAUSE_MAX_NS (60 * HR_NS_PER_S)

/* The status has no Do Not Retry bit any more; workers have obeyed it. */
static bool status_is_final(uint16_t status)
{
	switch (hr_status_classify(status, false)) {
	case HR_STATUS_OK:
	case HR_STATUS_RETRY:
		return false;
	case HR_STATUS_NO_RETRY:
	case HR_STATUS_MEDIA:
	case HR_STATUS_FATAL:
		break;
	}
	return true;
}

bool hr_error_is_final(int err)
{
	if (err > 0)
		return status_is_final((uint16_t)err);
	switch (-err) {
	case EINVAL:
	case ENOTSUP:
	case EPERM:
	case EACCES:
	case EEXIST:
	case ENOSPC:
	case ENFILE:
	case EROFS:
	case ESTALE: /* another host writes to the disk, and would do so again */
	case ERANGE:
	case EBADMSG:
	case EILSEQ:
	case EUCLEAN:
	case ENOMEDIUM:
	case EMEDIUMTYPE:
		return true;
	default:
		return false;
	}
}

uint64_t hr_pause_ns(const struct hr_config_boot *boot, uint64_t failures)
{
	uint64_t pause = boot->backoff_ns < PAUSE_MIN_NS ? PAUSE_MIN_NS : boot->backoff_ns;

	for (uint64_t n = 1; n < failures && pause < HR_PAUSE_MAX_NS; n++)
		pause *= 2;
	return pause < HR_PAUSE_MAX_NS ? pause : HR_PAUSE_MAX_NS;
}

void hr_suspension_log(const struct hr_config *config, uint32_t i, uint64_t deaths,
		       uint64_t pause_ns)
{
	char span[32];

	hr_error("pipeline '%s' is suspended for %s: the engine ended in its run, %llu in a row; "
		 "'headrace resume %s' lifts that",
		 config->pipeline[i].name, hr_span_format(span, sizeof span, pause_ns),
		 (unsigned long long)deaths, config->pipeline[i].name);
}

void hr_restarts_begin(struct hr_restarts *b, const struct hr_config_boot *boot)
{
	b->boot = boot;
	b->used = 0;
	b->pause_ns = boot->backoff_ns;
}

bool hr_restarts_account(struct hr_restarts *b, uint64_t ran_ns, uint64_t *pause_ns)
{
	if (b->boot->heal_ns && ran_ns >= b->boot->heal_ns)
		hr_restarts_begin(b, b->boot);
	if (b->used == b->boot->restarts)
		return false;
	b->used++;
	*pause_ns = b->pause_ns;
	b->pause_ns = b->pause_ns * 2 < PAUSE_MAX_NS ? b->pause_ns * 2 : PAUSE_MAX_NS;
	return true;
}
