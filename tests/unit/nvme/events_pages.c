/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a controller command by command, and what follows from each log page. The controller is
 * a queue pair in plain memory; tests/unit/nvme/events.c has a whole one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <nvme/types.h>
#include <stdio.h>
#include <string.h>

#include "config/base/bytes.h"
#include "config/base/limits.h"
#include "nvme/admin.h"
#include "nvme/events.h"
#include "nvme/queue/wire.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

#define START_NS (1000 * HR_NS_PER_S)
#define EVENT_BUS 0x12345000ull
#define NAMESPACES 4u

TestSuite(event_pages, .timeout = 60);

static struct hr_sqe sq[HR_PAGE / sizeof(struct hr_sqe)] __attribute__((aligned(HR_PAGE)));
static struct hr_cqe cq[HR_PAGE / sizeof(struct hr_cqe)] __attribute__((aligned(HR_PAGE)));
static uint8_t admin_page[HR_PAGE], event_page[HR_PAGE + 4] __attribute__((aligned(8)));
static uint8_t bar[2 * HR_PAGE] __attribute__((aligned(8)));
static uint32_t bell[2], fetched, posted;
static struct hr_transport transport;
static struct hr_ctrl ctrl;
static struct hr_ns ns[NAMESPACES];
static uint16_t cid_of_event; /* of the oldest request that is open */
static uint16_t feature_status;
static struct hr_sqe feature;

static void post(uint16_t cid, uint32_t dw0, uint16_t status)
{
	cq[posted % HR_ADMIN_ENTRIES] = (struct hr_cqe){
		.dw0 = dw0,
		.sqhd = (uint16_t)fetched,
		.cid = cid,
		.status = (uint16_t)(status << 1 | !(posted / HR_ADMIN_ENTRIES % 2)),
	};
	posted++;
}

/* The commands that were sent since the last call, as text; requests for events are "event". */
static const char *sent(struct hr_sqe *last)
{
	static char text[256];
	size_t n = 0;

	text[0] = '\0';
	while (fetched != bell[0]) {
		const struct hr_sqe *sqe = &sq[fetched];

		*last = *sqe;
		fetched = (fetched + 1) % HR_ADMIN_ENTRIES;
		if (sqe->opcode == nvme_admin_async_event)
			n += (size_t)snprintf(text + n, sizeof text - n, " event");
		else
			n += (size_t)snprintf(text + n, sizeof text - n, " %02x %08x %08x",
					      sqe->opcode, sqe->nsid, sqe->cdw10);
	}
	return text;
}

/* Answers Set Features while hr_ctrl_aer_enable() waits. */
static void answer(void *context)
{
	while (fetched != bell[0]) {
		const struct hr_sqe *sqe = &sq[fetched];

		fetched = (fetched + 1) % HR_ADMIN_ENTRIES;
		feature = *sqe;
		post(sqe->cid, 0, feature_status);
	}
}

/* One request is open, unless requests is 0. All namespaces are of 100 blocks of 4 KiB. */
static void start(uint32_t requests)
{
	const struct hr_qp_memory memory = { sq, cq, ctrl.admin_table };
	struct hr_sqe last = { 0 };
	uint32_t value = 0x20000;

	memset(&ctrl, 0, sizeof ctrl);
	memset(sq, 0, sizeof sq);
	memset(cq, 0, sizeof cq);
	memset(bell, 0, sizeof bell);
	fetched = posted = 0;
	fake_clock_start(START_NS, answer, NULL);
	cr_assert_eq(hr_qp_init(&ctrl.admin, 0, HR_ADMIN_ENTRIES, &memory, HR_ADMIN_TIMEOUT_NS), 0);
	ctrl.admin.sq_doorbell = &bell[0];
	ctrl.admin.cq_doorbell = &bell[1];
	snprintf(transport.name, sizeof transport.name, "dev");
	transport.bar = bar;
	transport.bar_bytes = sizeof bar;
	memcpy(bar + NVME_REG_VS, &value, sizeof value);
	value = 1;
	memcpy(bar + NVME_REG_CC, &value, sizeof value);
	memcpy(bar + NVME_REG_CSTS, &value, sizeof value);
	ctrl.transport = &transport;
	ctrl.cc = 1;
	ctrl.health.name = "dev";
	hr_health_set(&ctrl.health, HR_STEP_START);
	ctrl.admin_data = admin_page;
	ctrl.event_data = event_page;
	ctrl.event_data_bus.addr = EVENT_BUS;
	ctrl.smart_next_ns = UINT64_MAX;
	for (uint32_t i = 0; i < NAMESPACES; i++)
		ns[i] = (struct hr_ns){ .nsid = 10 + i, .lba_shift = 12, .blocks = 100 };
	if (!requests)
		return;
	ctrl.events_on = true;
	ctrl.requests_wanted = requests;
	cr_assert_eq(hr_ctrl_aer_poll(&ctrl, NULL, test_error()), 0);
	cr_assert_str_eq(sent(&last), " event");
	cid_of_event = last.cid;
}

static void look(const struct hr_ns *of, int want, const char *want_sent, struct hr_sqe *last)
{
	const int err = hr_ctrl_aer_poll(&ctrl, of, test_error());
	const char *text = sent(last);

	cr_expect_eq(err, want, "%d: %s", err, test_error_text());
	cr_expect_str_eq(text, want_sent, "%s", text);
}

struct event_case {
	uint32_t dw0;
	const char *sent; /* the command for the log page */
	uint16_t status;  /* of that command */
	uint16_t at;	  /* of the log page: a byte that is not 0 */
	uint8_t value;
	int want;
	enum hr_log_level level;
	const char *says;
};

static void expect_event(const struct event_case *row)
{
	const unsigned count = fake_log_count();
	const bool again = row->want == 0;
	struct hr_sqe last = { 0 };

	post(cid_of_event, row->dw0, 0);
	memset(event_page, 0xee, HR_PAGE);
	if (row->sent[0]) {
		char want[64];

		snprintf(want, sizeof want, "%s%s", row->sent, " event");
		look(NULL, 0, want, &last);
		cr_expect(hr_is_zero(event_page, HR_PAGE), "the page is cleared first");
		cr_expect(ctrl.event_busy);
		/* the log page is the first of the two commands */
		cr_expect_eq(sq[(fetched + HR_ADMIN_ENTRIES - 2) % HR_ADMIN_ENTRIES].prp1,
			     EVENT_BUS);
		look(NULL, 0, "", &last);
		event_page[row->at] = row->value;
		post(sq[(fetched + HR_ADMIN_ENTRIES - 2) % HR_ADMIN_ENTRIES].cid, 0, row->status);
		cid_of_event = last.cid;
		look(NULL, row->want, "", &last);
	} else {
		look(NULL, row->want, again ? " event" : "", &last);
		cid_of_event = last.cid;
	}
	cr_expect_eq(ctrl.events, 0u);
	cr_expect_not(ctrl.event_busy);
	cr_expect_eq(ctrl.event_read, (uint32_t)HR_ADMIN_WAITED_FOR);
	if (row->want) {
		cr_expect_str_eq(test_error_text(), row->says, "%s", test_error_text());
		cr_expect_eq(fake_log_count(), count);
	} else {
		cr_expect_eq(fake_log_count(), count + (row->says != NULL), "%s", fake_log_last());
		if (row->says)
			cr_expect_str_eq(fake_log_last_of(row->level), row->says, "%s",
					 fake_log_last_of(row->level));
	}
}

#define ERRORS " 02 ffffffff 000f0001"
#define SMART " 02 ffffffff 007f0002"
#define FIRMWARE " 02 ffffffff 007f0003"
#define SQID 8 /* in an entry of the error log */

Test(event_pages, each_event_reads_its_log_page_and_says_what_it_means)
{
	static const struct event_case row[] = {
		{ 0x010000, ERRORS, 0, SQID, 7, -EPROTO, 0,
		  "dev: the controller reports that a doorbell was written wrongly (no such queue; "
		  "queue 7): another process writes to it, or this one is at fault" },
		{ 0x010100, ERRORS, 0, SQID + 1, 1, -EPROTO, 0,
		  "dev: the controller reports that a doorbell was written wrongly (impossible "
		  "value; queue 256): another process writes to it, or this one is at fault" },
		{ 0x010200, ERRORS, 0, 0, 0, 0, HR_LOG_WARN,
		  "dev: the controller reports an error (event information 02h)" },
		{ 0x010300, ERRORS, 0, 0, 0, -EIO, 0,
		  "dev: the controller reports a persistent internal error" },
		{ 0x010500, ERRORS, 0, 0, 0, 0, HR_LOG_WARN,
		  "dev: the controller reports an error (event information 05h)" },
		{ 0x020101, SMART, 0, 0, 2, 0, HR_LOG_WARN,
		  "dev: health: temperature is beyond a threshold (critical warning 02h, 0 K, "
		  "spare 0 %)" },
		{ 0x020101, SMART, 2, 0, 2, 0, HR_LOG_INFO,
		  "dev: does not give its health log page" },
		{ 0x030102, FIRMWARE, 0, 0, 0, 0, HR_LOG_WARN,
		  "dev: a firmware is being activated; commands may wait for it" },
		{ 0x040002, " 02 ffffffff 03ff0004", 0, 0, 10, 0, 0, NULL },
		{ 0x0c0302, "", 0, 0, 0, 0, HR_LOG_INFO, "dev: notice 03h" },
		{ 0x80f107, "", 0, 0, 0, 0, HR_LOG_INFO, "dev: event 0080f107" },
		{ 0x020006, SMART, 0, 0, 0, 0, HR_LOG_INFO, "dev: event 00020006" },
		{ 0x050000, "", 0, 0, 0, -EPROTO, 0,
		  "dev: the controller reports that a doorbell was written wrongly (no such queue; "
		  "queue 0): another process writes to it, or this one is at fault" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		start(1);
		expect_event(&row[i]);
		cr_expect_eq(ctrl.health.count[HR_FAULT_DOORBELL], row[i].want == -EPROTO, "%zu",
			     i);
		cr_expect_eq(ctrl.health.count[HR_FAULT_FATAL], row[i].want == -EIO, "%zu", i);
		cr_expect_eq(ctrl.smart_refused, row[i].status != 0, "%zu", i);
	}
}

Test(event_pages, the_health_log_is_read_now)
{
	start(1);
	ctrl.smart_next_ns = 0;
	memset(admin_page, 0xff, sizeof admin_page); /* of an earlier command */
	cr_expect_eq(hr_ctrl_read_smart(&ctrl, test_error()), 0);
	cr_expect(ctrl.smart.known == 1 && ctrl.smart.critical_warning == 0);
	cr_expect_eq(feature.opcode, nvme_admin_get_log_page);
	cr_expect_eq(feature.cdw10, 0x7f0002u);
	cr_expect_gt(ctrl.smart_next_ns, START_NS + HR_CTRL_SMART_NS - 1);
	feature_status = 9;
	cr_expect_eq(hr_ctrl_read_smart(&ctrl, test_error()), 0);
	cr_expect(ctrl.smart_refused);
	ctrl.smart_next_ns = 5;
	hr_qp_fail(&ctrl.admin, -ETIMEDOUT);
	cr_expect_eq(hr_ctrl_read_smart(&ctrl, test_error()), -ETIMEDOUT);
	cr_expect_eq(ctrl.smart_next_ns, 5u);
}

/* ---- changes of namespaces */

static void use(uint32_t at, uint32_t i)
{
	ctrl.event_ns[at].ns = &ns[i];
}

/* The event arrives, and the list is read. */
static void report_changed(const uint32_t *list, uint32_t count)
{
	struct hr_sqe last = { 0 };

	post(cid_of_event, 0x040002, 0);
	look(NULL, 0, " 02 ffffffff 03ff0004 event", &last);
	cid_of_event = last.cid;
	memcpy(event_page, list, count * sizeof *list);
	post(sq[(fetched + HR_ADMIN_ENTRIES - 2) % HR_ADMIN_ENTRIES].cid, 0, 0);
}

static void answer_namespace(const struct hr_sqe *asked, uint64_t blocks, uint8_t shift,
			     uint8_t attributes)
{
	struct nvme_id_ns *id = (void *)event_page;

	id->nsze = blocks;
	id->lbaf[0].ds = shift;
	id->nsattr = attributes;
	post(asked->cid, 0, 0);
}

Test(event_pages, a_namespace_is_compared_with_what_it_was)
{
	static const struct {
		uint64_t blocks;
		uint8_t shift, attributes;
		bool was_read_only;
		int want;
		enum hr_log_level level;
		const char *says;
	} row[] = {
		{ 100, 12, 0, false, 0, 0, NULL },
		{ 101, 12, 0, false, 0, 0, NULL },
		{ 100, 12, 1, true, 0, 0, NULL },
		{ 99, 12, 0, false, -ENXIO, HR_LOG_ERROR,
		  "dev: namespace 12 has changed: it now has 99 blocks of 4096 bytes, before 100 of "
		  "4096" },
		{ 1000, 9, 0, false, -ENXIO, HR_LOG_ERROR,
		  "dev: namespace 12 has changed: it now has 1000 blocks of 512 bytes, before 100 "
		  "of 4096" },
		{ 0, 12, 0, false, -ENXIO, HR_LOG_ERROR,
		  "dev: namespace 12 has changed and cannot be used any more: it is detached or "
		  "deleted" },
		{ 100, 13, 0, false, -ENXIO, HR_LOG_ERROR,
		  "dev: namespace 12 has changed and cannot be used any more: dev: namespace 12: "
		  "blocks of 2^13 bytes; 512 and 4096 are supported" },
		{ 100, 12, 1, false, 0, HR_LOG_WARN, "dev: namespace 12 is write protected now" },
		{ 100, 12, 0, true, 0, HR_LOG_WARN,
		  "dev: namespace 12 is not write protected any more" },
	};
	const uint32_t list[] = { 3, 12, 0 };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const unsigned count = fake_log_count();
		struct hr_sqe last = { 0 };

		start(1);
		use(1, 2);
		use(0, 1);
		ns[2].read_only = row[i].was_read_only;
		report_changed(list, 3);
		look(&ns[2], 0, " 06 0000000c 00000000", &last);
		cr_expect_eq(last.prp1, EVENT_BUS);
		cr_expect(hr_is_zero(event_page, HR_PAGE), "the page is cleared first");
		look(&ns[2], 0, "", &last);
		answer_namespace(&last, row[i].blocks, row[i].shift, row[i].attributes);
		look(&ns[2], row[i].want, "", &last);
		if (row[i].want)
			cr_expect_str_eq(
				test_error_text(),
				"dev: namespace 12 has changed and cannot be used any more");
		look(&ns[1], 0, "", &last);
		look(&ns[2], row[i].want, "", &last); /* each time */
		cr_expect_eq(fake_log_count(), count + (row[i].says != NULL), "row %zu", i);
		if (row[i].says)
			cr_expect_str_eq(fake_log_last_of(row[i].level), row[i].says, "%s",
					 fake_log_last_of(row[i].level));
		/* the same place is used again for a namespace without a history */
		hr_ctrl_aer_disable(&ctrl, &ns[2]);
		cr_expect_eq(hr_ctrl_aer_enable(&ctrl, &ns[3], test_error()), 0);
		cr_expect_eq(ctrl.event_ns[1].ns, &ns[3]);
		look(&ns[3], 0, "", &last);
	}
}

/* A list ends with 0; 1,024 entries have no end, and a single one may stand for all. */
Test(event_pages, the_namespaces_of_a_list_are_identified_one_by_one)
{
	static uint32_t full[HR_PAGE / 4];
	const uint32_t two[] = { 11, 13, 0, 12 }, all[] = { NVME_NSID_ALL }, none[] = { 0, 11 };
	const struct {
		const uint32_t *list;
		uint32_t count;
		const char *asked[3];
	} row[] = {
		{ two, 4, { " 06 0000000b 00000000", " 06 0000000d 00000000", "" } },
		{ all,
		  1,
		  { " 06 0000000b 00000000", " 06 0000000c 00000000", " 06 0000000d 00000000" } },
		{ none, 2, { "", "", "" } },
		{ full, HR_PAGE / 4, { " 06 0000000c 00000000", "", "" } },
	};

	for (uint32_t i = 0; i < HR_PAGE / 4; i++)
		full[i] = 1000 + i;
	full[HR_PAGE / 4 - 1] = 12;
	event_page[HR_PAGE] = 13; /* behind the list */
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_sqe last = { 0 };

		start(1);
		use(0, 1);
		use(7, 2);
		use(HR_CTRL_EVENT_NS - 1, 3);
		report_changed(row[i].list, row[i].count);
		for (unsigned k = 0; k < 3; k++) {
			look(&ns[0], 0, row[i].asked[k], &last);
			if (row[i].asked[k][0])
				answer_namespace(&last, 50, 12, 0);
		}
		look(&ns[3], row[i].list == two || row[i].list == all ? -ENXIO : 0, "", &last);
		cr_expect_eq(ctrl.events, 0u);
		look(&ns[1], row[i].list == two || row[i].list == all ? -ENXIO : 0, "", &last);
		look(&ns[2], row[i].list == full || row[i].list == all ? -ENXIO : 0, "", &last);
	}
}

Test(event_pages, a_namespace_that_is_not_in_use_any_more_is_not_judged)
{
	const unsigned count = fake_log_count();
	const uint32_t list[] = { 11, 0 };
	struct hr_sqe last = { 0 };

	start(1);
	use(0, 1);
	report_changed(list, 2);
	look(NULL, 0, " 06 0000000b 00000000", &last);
	hr_ctrl_aer_disable(&ctrl, &ns[1]);
	answer_namespace(&last, 0, 12, 0);
	look(&ns[1], 0, "", &last);
	cr_expect_eq(ctrl.events, 0u);
	cr_expect_eq(fake_log_count(), count);
}

/* A request waits for ever; the reading of a log page has a deadline. */
Test(event_pages, only_a_request_has_no_deadline)
{
	struct hr_sqe last = { 0 };
	struct hr_completion done = { 0 };

	start(1);
	fake_clock_advance(10 * HR_ADMIN_TIMEOUT_NS);
	cr_expect_not(hr_qp_find_expired(&ctrl.admin, START_NS + 10 * HR_ADMIN_TIMEOUT_NS, &done));
	ctrl.smart_next_ns = 0;
	look(NULL, 0, " 02 ffffffff 007f8002", &last);
	fake_clock_advance(HR_ADMIN_TIMEOUT_NS + HR_NS_PER_S);
	look(NULL, 0, "", &last);
	cr_expect_eq(ctrl.health.state, HR_HEALTH_NO_ADMIN);
	cr_expect_not_null(strstr(fake_log_last_of(HR_LOG_ERROR), "dev: admin get log page (cid "));
	look(NULL, 0, "", &last);
	cr_expect_eq(ctrl.health.count[HR_FAULT_ADMIN_QUEUE], 1u);
}

Test(event_pages, events_that_the_controller_has_are_configured)
{
	static const struct {
		uint32_t oaes;
		uint16_t status;
		uint32_t cdw11;
	} row[] = {
		{ 0, 0, 0x1f },		  { 0x100, 0, 0x11f }, { 0x200, 0, 0x21f },
		{ UINT32_MAX, 0, 0x31f }, { 0x300, 1, 0x31f },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const bool refused = row[i].status != 0;
		const unsigned count = fake_log_count();
		struct hr_sqe last = { 0 };

		start(0);
		ctrl.oaes = row[i].oaes;
		ctrl.aerl = 1;
		feature_status = row[i].status;
		cr_expect_eq(hr_ctrl_aer_enable(&ctrl, &ns[0], test_error()), 0, "row %zu", i);
		cr_expect_eq(feature.opcode, nvme_admin_set_features);
		cr_expect_eq(feature.cdw10, 0x0bu);
		cr_expect_eq(feature.cdw11, row[i].cdw11, "%x", feature.cdw11);
		cr_expect_eq(ctrl.events_on, !refused);
		cr_expect_eq(ctrl.events_refused, refused);
		cr_expect_eq(ctrl.requests, refused ? 0 : 2u);
		cr_expect_eq(fake_log_count(), count + refused);
		if (refused)
			cr_expect_str_eq(fake_log_last(),
					 "dev: does not configure asynchronous events: Invalid "
					 "Command Opcode (001)");
		sent(&last);
		feature.opcode = 0;
		/* a second namespace needs no command */
		cr_expect_eq(hr_ctrl_aer_enable(&ctrl, &ns[1], test_error()), 0);
		cr_expect_str_eq(sent(&last), "");
		cr_expect_eq(feature.opcode, 0);
		cr_expect_eq(ctrl.event_ns[1].ns, refused ? NULL : &ns[1]);
	}
	start(0);
	hr_qp_fail(&ctrl.admin, -ETIMEDOUT);
	cr_expect_eq(hr_ctrl_aer_enable(&ctrl, &ns[0], test_error()), -ETIMEDOUT);
	cr_expect_not(ctrl.events_on || ctrl.events_refused);
	cr_expect_null(ctrl.event_ns[0].ns);
}

Test(event_pages, requests_are_sent_again_after_a_reset)
{
	struct hr_sqe last = { 0 };

	start(0);
	ctrl.aerl = 1;
	feature_status = 0;
	cr_expect_eq(hr_ctrl_events_renew(&ctrl, test_error()), 0);
	cr_expect_str_eq(sent(&last), "", "there were none before");
	cr_assert_eq(hr_ctrl_aer_enable(&ctrl, &ns[0], test_error()), 0);
	cr_expect_str_eq(sent(&last), " event event");
	feature.opcode = 0;
	ctrl.events = 3;
	ctrl.event_busy = true;
	cr_expect_eq(hr_ctrl_events_renew(&ctrl, test_error()), 0);
	cr_expect_eq(feature.opcode, nvme_admin_set_features);
	cr_expect_str_eq(sent(&last), " event event");
	cr_expect(ctrl.requests == 2 && ctrl.events == 0 && !ctrl.event_busy);
}
