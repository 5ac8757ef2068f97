/* SPDX-License-Identifier: Apache-2.0 */
/* --watch: the kernel's messages, and the times of readings. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "boot/cmd/topo_watch.h"
#include "pci/machine.h"

#define MS HR_NS_PER_MS
#define S HR_NS_PER_S

TestSuite(topo_watch, .timeout = 60);

static const char function[] = "add@/devices/pci0000:00/0000:00:01.0\0ACTION=add\0"
			       "DEVPATH=/devices/pci0000:00/0000:00:01.0\0SUBSYSTEM=pci\0SEQNUM=1";
static const char controller[] = "remove@/devices/x/nvme/nvme0\0ACTION=remove\0SUBSYSTEM=nvme";
static const char disk[] = "change@/devices/x/nvme0n1\0ACTION=change\0SUBSYSTEM=block";

Test(topo_watch, messages_about_functions_cause_a_reread)
{
	static const struct {
		const char *message;
		size_t bytes;
		bool want;
	} row[] = {
		{ function, sizeof function, true },
		{ function, sizeof function - 1, true }, /* without the last NUL */
		{ controller, sizeof controller, true },
		{ controller, sizeof controller - 1, true },
		{ disk, sizeof disk, false },
		{ "add@/x\0SUBSYSTEM=pci_bus", 24, false },
		{ "add@/x\0SUBSYSTEM=pc", 19, false }, /* cut before its end */
		{ "add@/x\0XSUBSYSTEM=pci", 22, false },
		{ "", 0, false },
		{ "\0\0\0\0", 4, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_uevent_concerns(row[i].message, row[i].bytes), row[i].want,
			     "row %zu", i);
}

Test(topo_watch, all_waiting_messages_are_read_and_reported_once)
{
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	cr_expect_eq(hr_uevent_drain(pair[0]), 0, "nothing waits");
	cr_assert_eq(send(pair[1], disk, sizeof disk, 0), (ssize_t)sizeof disk);
	cr_expect_eq(hr_uevent_drain(pair[0]), 0, "a disk is no function");
	for (unsigned i = 0; i < 5; i++) {
		cr_assert_gt(send(pair[1], disk, sizeof disk, 0), 0);
		cr_assert_gt(send(pair[1], function, sizeof function, 0), 0);
	}
	cr_expect_eq(hr_uevent_drain(pair[0]), 1);
	cr_expect_eq(hr_uevent_drain(pair[0]), 0, "no message is left");
	close(pair[0]);
	close(pair[1]);
	cr_expect_eq(hr_uevent_drain(pair[0]), -EBADF);
}

Test(topo_watch, a_message_longer_than_any_counts_as_a_change)
{
	static char large[20000];
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	memset(large, 'x', sizeof large);
	cr_assert_eq(send(pair[1], large, sizeof large, 0), (ssize_t)sizeof large);
	cr_expect_eq(hr_uevent_drain(pair[0]), 1);
	close(pair[0]);
	close(pair[1]);
}

Test(topo_watch, without_a_message_the_bus_is_read_each_period)
{
	struct hr_watch_times w = { .period_ns = 30 * S };

	hr_watch_read(&w, 100 * S);
	cr_expect_eq(hr_watch_left(&w, 100 * S), 30 * S);
	cr_expect_eq(hr_watch_left(&w, 129 * S), S);
	cr_expect_eq(hr_watch_left(&w, 130 * S), 0);
	cr_expect_eq(hr_watch_left(&w, 200 * S), 0);
}

Test(topo_watch, a_message_waits_for_those_that_follow_it)
{
	struct hr_watch_times w = { .period_ns = 30 * S };

	hr_watch_read(&w, 100 * S);
	hr_watch_message(&w, 110 * S);
	cr_expect_eq(hr_watch_left(&w, 110 * S), 200 * MS);
	hr_watch_message(&w, 110 * S + 150 * MS);
	cr_expect_eq(hr_watch_left(&w, 110 * S + 150 * MS), 200 * MS);
	cr_expect_eq(hr_watch_left(&w, 110 * S + 350 * MS), 0);
	hr_watch_read(&w, 110 * S + 360 * MS);
	cr_expect_eq(hr_watch_left(&w, 110 * S + 360 * MS), 30 * S, "the message is answered");
}

Test(topo_watch, a_storm_of_messages_is_read_once_a_second)
{
	struct hr_watch_times w = { .period_ns = 30 * S };
	unsigned readings = 0;

	hr_watch_read(&w, 0);
	for (uint64_t now = 0; now < 10 * S; now += MS) {
		hr_watch_message(&w, now);
		if (hr_watch_left(&w, now) > 0)
			continue;
		readings++;
		/* A reading of 300 ms: messages during it belong to the next burst. */
		now += 300 * MS;
		hr_watch_read(&w, now);
	}
	cr_expect_geq(readings, 7);
	cr_expect_leq(readings, 10);
}

Test(topo_watch, the_period_ends_even_when_messages_keep_coming)
{
	struct hr_watch_times w = { .period_ns = 1 * S };

	hr_watch_read(&w, 0);
	hr_watch_message(&w, 950 * MS);
	cr_expect_eq(hr_watch_left(&w, 950 * MS), 50 * MS);
}
