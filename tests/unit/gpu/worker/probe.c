/* SPDX-License-Identifier: Apache-2.0 */
/* Worker code of the self-test, on the host backend. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "cache/crc32c.h"
#include "gpu/backend.h"
#include "gpu/worker/probe.h"
#include "tests/harness/error.h"
#include "tests/harness/launch.h"

#define BLOCKS 3u
#define PAGES 10u

static struct hr_backend backend;
static uint64_t from[PAGES][HR_PAGE / 8], to[PAGES + 1][HR_PAGE / 8];
static uint32_t crc[PAGES + 1], end[BLOCKS + 1], ping, pong;
static struct hr_probe probe;

static void up(void)
{
	cr_assert_eq(hr_backend_open(&backend, "host:2", BLOCKS, test_error()), 0, "%s",
		     test_error_text());
	for (uint32_t i = 0; i < PAGES * HR_PAGE / 8; i++)
		from[i * 8 / HR_PAGE][i % (HR_PAGE / 8)] = (i + 1) * 0x9e3779b97f4a7c15ull;
	memset(to, 0xee, sizeof to);
	memset(crc, 0xee, sizeof crc);
	probe = (struct hr_probe){ (const uint8_t *)from, (uint8_t *)to, crc,	PAGES, BLOCKS, 0,
				   HR_NS_PER_S / 20,	  &ping,	 &pong, end };
}

static void down(void)
{
	backend.ops->close(&backend);
}

static void run(void)
{
	struct hr_launch *launch;

	cr_assert_eq(launch_start(&backend, HR_ENTRY_PROBE, &probe, BLOCKS, 1, &launch), 0);
	cr_assert_eq(launch_end(launch), 1);
}

TestSuite(probe, .timeout = 60, .init = up, .fini = down);

Test(probe, the_probe_copies_exactly_its_pages_and_reports_their_checksums)
{
	run();
	cr_expect_eq(memcmp(from, to, sizeof from), 0);
	for (uint32_t p = 0; p < PAGES; p++)
		cr_expect_eq(crc[p], hr_crc32c(0, from[p], HR_PAGE), "page %u", p);
	cr_expect_eq(crc[PAGES], 0xeeeeeeee);
	cr_expect_eq(to[PAGES][0], 0xeeeeeeeeeeeeeeee);
	for (uint32_t b = 0; b < BLOCKS; b++)
		cr_expect_eq(end[b], HR_PROBE_DONE);
	cr_expect_eq(end[BLOCKS], 0);
}

Test(probe, the_probe_answers_each_question_once)
{
	struct hr_launch *launch;

	probe.rounds = 50;
	probe.timeout_ns = 10 * HR_NS_PER_S;
	cr_assert_eq(launch_start(&backend, HR_ENTRY_PROBE, &probe, BLOCKS, 1, &launch), 0);
	for (uint32_t round = 1; round <= probe.rounds; round++) {
		cr_assert_eq(hr_acquire_sys_u32(&pong), round - 1);
		hr_release_sys_u32(&ping, round);
		while (hr_acquire_sys_u32(&pong) == round - 1)
			hr_wait_ns(1000);
	}
	cr_assert_eq(launch_end(launch), 1);
	cr_expect_eq(pong, probe.rounds);
	cr_expect_eq(end[0], HR_PROBE_DONE);
}

Test(probe, the_probe_ends_without_a_question_after_its_limit)
{
	probe.rounds = 2;
	run();
	cr_expect_eq(end[0], HR_PROBE_UNANSWERED);
	cr_expect_eq(end[1], HR_PROBE_DONE);
	cr_expect_eq(pong, 0);
}
