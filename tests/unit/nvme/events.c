/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of a controller, and the driver's reaction. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "boot/engine/devices/ssd.h"
#include "nvme/admin.h"
#include "nvme/events.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

static struct hr_ssd ssd;
static uint8_t page[HR_PAGE] __attribute__((aligned(HR_PAGE)));

TestSuite(events, .timeout = 60);

static void up(const char *rules)
{
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = 16,
					.timeout_ns = 60 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };
	char file[] = "/tmp/headrace-events-XXXXXX";
	const int fd = mkstemp(file);

	cr_assert(dprintf(fd, "%s", rules) >= 0);
	snprintf(config.device, sizeof config.device, "soft:memory,size=64M,faults=%s", file);
	cr_assert_eq(hr_ssd_up(&ssd, &config, test_error()), 0, "%s", test_error_text());
	unlink(file);
	close(fd);
}

static void read_block(void)
{
	cr_assert_eq(ssd.blk->ops->read(ssd.blk, 0, page, sizeof page, NULL), 0);
}

/* Look for events until there is a message of this level. Returns the result of the last look. */
static int look_until(enum hr_log_level level, const char *says)
{
	int err = 0;

	while (!err && !strstr(fake_log_last_of(level), says)) {
		err = hr_ctrl_aer_poll(ssd.ctrl, &ssd.ns, NULL);
		hr_wait_ns(HR_NS_PER_MS);
	}
	cr_expect(strstr(fake_log_last_of(level), says), "%s", fake_log_last_of(level));
	return err;
}

Test(events, each_health_warning_is_logged_when_its_event_arrives)
{
	up("on read nth 1: warn 0x4\non read nth 2: warn 0x8\n");
	cr_expect_eq(hr_ctrl_aer_poll(ssd.ctrl, &ssd.ns, NULL), 0);
	read_block();
	cr_expect_eq(look_until(HR_LOG_WARN, "reliability is degraded"), 0);
	read_block();
	cr_expect_eq(look_until(HR_LOG_WARN, "media are read-only"), 0);
	hr_ssd_down(&ssd);
}

/* AERL is zero-based. */
Test(events, as_many_requests_are_sent_as_the_controller_accepts)
{
	static const struct {
		uint8_t aerl, requests;
	} row[] = { { 0, 1 },
		    { 1, 2 },
		    { HR_CTRL_EVENTS - 2, HR_CTRL_EVENTS - 1 },
		    { HR_CTRL_EVENTS - 1, HR_CTRL_EVENTS },
		    { HR_CTRL_EVENTS, HR_CTRL_EVENTS },
		    { HR_CTRL_EVENTS + 1, HR_CTRL_EVENTS },
		    { 255, HR_CTRL_EVENTS } };
	uint32_t sent;

	up("");
	sent = ssd.ctrl->requests;
	cr_expect_geq(sent, 1u);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		hr_ctrl_aer_disable(ssd.ctrl, &ssd.ns);
		ssd.ctrl->events_on = false;
		ssd.ctrl->requests = HR_CTRL_EVENTS + 2; /* so that no more are sent */
		ssd.ctrl->aerl = row[i].aerl;
		cr_assert_eq(hr_ctrl_aer_enable(ssd.ctrl, &ssd.ns, NULL), 0);
		cr_expect_eq(ssd.ctrl->requests_wanted, row[i].requests, "AERL %u: %u", row[i].aerl,
			     ssd.ctrl->requests_wanted);
	}
	ssd.ctrl->requests = sent;
	hr_ssd_down(&ssd);
}

static bool is_watched(const struct hr_ns *ns)
{
	bool any = false;

	for (uint32_t i = 0; i < HR_CTRL_EVENT_NS; i++)
		any |= ssd.ctrl->event_ns[i].ns == ns;
	return any;
}

/* Each namespace is watched until its own end; one more than there are places is refused. */
Test(events, namespaces_are_watched_one_by_one)
{
	static struct hr_ns other[HR_CTRL_EVENT_NS];

	up("");
	for (uint32_t i = 0; i + 1 < HR_CTRL_EVENT_NS; i++)
		cr_assert_eq(hr_ctrl_aer_enable(ssd.ctrl, &other[i], test_error()), 0, "%u", i);
	cr_expect_eq(hr_ctrl_aer_enable(ssd.ctrl, &other[HR_CTRL_EVENT_NS - 1], test_error()),
		     -ENOSPC);
	cr_expect_not(is_watched(&other[HR_CTRL_EVENT_NS - 1]));
	for (uint32_t i = 0; i + 1 < HR_CTRL_EVENT_NS; i++) {
		cr_expect(is_watched(&other[i]), "%u", i);
		hr_ctrl_aer_disable(ssd.ctrl, &other[i]);
		cr_expect_not(is_watched(&other[i]), "%u", i);
		cr_expect(is_watched(&ssd.ns));
	}
	hr_ctrl_aer_disable(ssd.ctrl, &ssd.ns);
	cr_expect_not(is_watched(&ssd.ns));
	hr_ssd_down(&ssd);
}

Test(events, a_temperature_threshold_is_watched)
{
	up("");
	cr_assert_eq(hr_admin_set_feature(ssd.ctrl, NVME_FEAT_FID_TEMP_THRESH, 290, NULL, NULL), 0);
	cr_expect_eq(look_until(HR_LOG_WARN, "temperature is beyond a threshold"), 0);
	hr_ssd_down(&ssd);
}

Test(events, a_changed_namespace_is_identified_again)
{
	up("on read: protect\n");
	read_block();
	cr_expect_eq(look_until(HR_LOG_WARN, "namespace 1 is write protected now"), 0);
	cr_expect_gt(ssd.blk->ops->write(ssd.blk, 0, page, sizeof page, false, NULL), 0);
	hr_ssd_down(&ssd);
}

Test(events, a_namespace_that_shrinks_is_not_used_any_more)
{
	up("on read: protect\n");
	ssd.ns.blocks++; /* as if the namespace had been larger at bring-up */
	read_block();
	cr_expect_eq(look_until(HR_LOG_ERROR, "namespace 1 has changed: it now has 16384 blocks"),
		     -ENXIO);
	hr_ssd_down(&ssd);
}

Test(events, the_event_of_a_wrong_doorbell_fails_the_ssd)
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

/* Events arrive while commands are waited for, and must not affect these commands. */
Test(events, commands_and_events_do_not_mix)
{
	up("on admin opcode 0x0a count 400: warn 0x4\n");
	for (unsigned i = 0; i < 300; i++) {
		const uint32_t kelvin = i % 2 ? 290 : 400;
		uint32_t value = 0;

		cr_assert_eq(hr_admin_set_feature(ssd.ctrl, NVME_FEAT_FID_TEMP_THRESH, kelvin, NULL,
						  NULL),
			     0);
		cr_assert_eq(
			hr_admin_get_feature(ssd.ctrl, NVME_FEAT_FID_TEMP_THRESH, &value, NULL), 0);
		cr_assert_eq(value, kelvin);
		cr_assert_eq(hr_ctrl_aer_poll(ssd.ctrl, &ssd.ns, NULL), 0);
	}
	hr_ssd_down(&ssd);
}

/* ---- the health log */

static void read_health(void)
{
	ssd.ctrl->smart.known = 0;
	while (!ssd.ctrl->smart.known) {
		cr_assert_eq(hr_ctrl_aer_poll(ssd.ctrl, &ssd.ns, NULL), 0);
		hr_wait_ns(HR_NS_PER_MS);
	}
}

Test(events, the_health_log_is_read_at_once_and_then_each_minute)
{
	uint64_t first_ns;

	up("on read nth 1: status 0x281 dnr\n");
	read_health();
	cr_expect_eq(ssd.ctrl->smart.temperature_k, 300u);
	cr_expect_eq(ssd.ctrl->smart.spare_percent, 100u);
	cr_expect_eq(ssd.ctrl->smart.media_errors, 0u);
	first_ns = ssd.ctrl->smart_next_ns;
	cr_expect_gt(first_ns, hr_now_ns());
	cr_expect_leq(first_ns, hr_now_ns() + HR_CTRL_SMART_NS);
	ssd.blk->ops->read(ssd.blk, 0, page, sizeof page, NULL);
	ssd.ctrl->smart_next_ns = hr_now_ns(); /* one minute later */
	cr_expect_eq(look_until(HR_LOG_WARN, "health: 1 media errors, before 0"), 0);
	cr_expect_eq(ssd.ctrl->smart.media_errors, 1u);
	hr_ssd_down(&ssd);
}

Test(events, a_change_of_the_health_log_is_logged_once)
{
	unsigned warnings;

	up("on read nth 1: warn 0x4\n");
	read_block();
	cr_expect_eq(look_until(HR_LOG_WARN, "reliability is degraded"), 0);
	warnings = fake_log_count_of(HR_LOG_WARN);
	for (int i = 0; i < 3; i++) {
		ssd.ctrl->smart_next_ns = 0;
		read_health();
	}
	cr_expect_eq(ssd.ctrl->smart.critical_warning, 4u);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), warnings, "%s", fake_log_last());
	hr_ssd_down(&ssd);
}

Test(events, a_controller_without_asynchronous_events_is_read_each_minute_too)
{
	up("on admin opcode 0x09 nth 3: status 0x002 dnr\n");
	cr_expect(ssd.ctrl->events_refused);
	read_health();
	cr_expect_eq(ssd.ctrl->smart.temperature_k, 300u);
	hr_ssd_down(&ssd);
}

Test(events, a_controller_without_a_health_log_is_used_without_it)
{
	const uint64_t until_ns = hr_now_ns() + 20 * HR_NS_PER_MS;

	up("on admin opcode 0x02 count 1000: status 0x109 dnr\n");
	while (!ssd.ctrl->smart_refused)
		cr_assert_eq(hr_ctrl_aer_poll(ssd.ctrl, &ssd.ns, NULL), 0);
	ssd.ctrl->smart_next_ns = 0;
	while (hr_now_ns() < until_ns)
		cr_assert_eq(hr_ctrl_aer_poll(ssd.ctrl, &ssd.ns, NULL), 0);
	cr_expect_eq(ssd.ctrl->smart.known, 0u);
	cr_expect(strstr(fake_log_last(), "does not give its health log page"), "%s",
		  fake_log_last());
	read_block();
	hr_ssd_down(&ssd);
}
