/* What a controller tells by itself, and what the driver makes of it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/clock.h"
#include "boot/engine/ssd.h"
#include "nvme/admin.h"
#include "nvme/events.h"
#include "tests/fakes/log.h"

static struct hr_ssd ssd;
static uint8_t page[HR_PAGE] __attribute__((aligned(HR_PAGE)));

TestSuite(events, .timeout = 60);

static void up(const char *rules)
{
	struct hr_config_ssd config = { .nsid = 1, .queue_entries = 16, .timeout_ns = HR_NS_PER_S };
	char file[] = "/tmp/headrace-events-XXXXXX";
	const int fd = mkstemp(file);

	cr_assert(dprintf(fd, "%s", rules) >= 0);
	snprintf(config.device, sizeof config.device, "soft:memory,size=64M,faults=%s", file);
	cr_assert_eq(hr_ssd_up(&ssd, &config), 0);
	unlink(file);
	close(fd);
}

static void read_block(void)
{
	cr_assert_eq(ssd.blk->ops->read(ssd.blk, 0, page, sizeof page), 0);
}

/* Look until a message of that level is there; what the last look returned. */
static int look_until(enum hr_log_level level, const char *says)
{
	int err = 0;

	while (!err && !strstr(fake_log_last_of(level), says)) {
		err = hr_ctrl_events(ssd.ctrl, &ssd.ns);
		hr_wait_ns(HR_NS_PER_MS);
	}
	cr_expect(strstr(fake_log_last_of(level), says), "%s", fake_log_last_of(level));
	return err;
}

Test(events, health_warnings_are_logged_each_when_it_comes)
{
	up("on read nth 1: warn 0x4\non read nth 2: warn 0x8\n");
	cr_expect_eq(hr_ctrl_events(ssd.ctrl, &ssd.ns), 0);
	read_block();
	cr_expect_eq(look_until(HR_LOG_WARN, "reliability is degraded"), 0);
	read_block();
	cr_expect_eq(look_until(HR_LOG_WARN, "media are read-only"), 0);
	hr_ssd_down(&ssd);
}

Test(events, a_temperature_threshold_is_watched)
{
	up("");
	cr_assert_eq(hr_admin_set_feature(ssd.ctrl, NVME_FEAT_FID_TEMP_THRESH, 290, NULL), 0);
	cr_expect_eq(look_until(HR_LOG_WARN, "temperature is beyond a threshold"), 0);
	hr_ssd_down(&ssd);
}

Test(events, a_namespace_that_changes_is_looked_at)
{
	up("on read: protect\n");
	read_block();
	cr_expect_eq(look_until(HR_LOG_WARN, "namespace 1 is write protected now"), 0);
	cr_expect_gt(ssd.blk->ops->write(ssd.blk, 0, page, sizeof page, false), 0);
	hr_ssd_down(&ssd);
}

Test(events, a_namespace_that_shrinks_is_not_used_any_more)
{
	up("on read: protect\n");
	ssd.ns.blocks++; /* as if it had been larger at bring-up */
	read_block();
	cr_expect_eq(look_until(HR_LOG_ERROR, "namespace 1 has changed: it has 16384 blocks"),
		     -ENXIO);
	hr_ssd_down(&ssd);
}

Test(events, a_doorbell_that_was_written_wrongly_ends_it)
{
	uint32_t *bell;

	up("");
	bell = (uint32_t *)((uintptr_t)ssd.transport.bar + HR_DOORBELLS + 7 * 8);
	__atomic_store_n(bell, 3, __ATOMIC_RELEASE);
	cr_expect_eq(
		look_until(HR_LOG_ERROR, "doorbell was written wrongly (no such queue; queue 7)"),
		-EPROTO);
	hr_ssd_down(&ssd);
}

/* Events come in between commands that are waited for, which are none the worse. */
Test(events, commands_and_events_do_not_mix)
{
	up("on admin nth 9 count 400: warn 0x4\n");
	for (unsigned i = 0; i < 300; i++) {
		const uint32_t kelvin = i % 2 ? 290 : 400;
		uint32_t value = 0;

		cr_assert_eq(
			hr_admin_set_feature(ssd.ctrl, NVME_FEAT_FID_TEMP_THRESH, kelvin, NULL), 0);
		cr_assert_eq(hr_admin_get_feature(ssd.ctrl, NVME_FEAT_FID_TEMP_THRESH, &value), 0);
		cr_assert_eq(value, kelvin);
		cr_assert_eq(hr_ctrl_events(ssd.ctrl, &ssd.ns), 0);
	}
	hr_ssd_down(&ssd);
}
