/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a machine on a reserved namespace, which no second process or controller takes: its
 * name is that of the namespace, by the best identifier that it has.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/ssd.h"
#include "config/base/clock.h"
#include "tests/harness/error.h"

static char image[2][64];
static struct hr_ssd ssd[2];

static void setup(void)
{
	for (unsigned i = 0; i < 2; i++) {
		snprintf(image[i], sizeof image[i], "/tmp/hr_lock%u.XXXXXX", i);
		close(mkstemp(image[i]));
	}
}

static void teardown(void)
{
	for (unsigned i = 0; i < 2; i++)
		unlink(image[i]);
}

TestSuite(reservation_lock, .init = setup, .fini = teardown, .timeout = 60);

/* What identifies a namespace; one letter fills each identifier, '\0' leaves it out. */
struct names {
	char nguid, uuid, eui64;
	const char *serial;
};

static void up(unsigned i, const struct names *names)
{
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = 64,
					.timeout_ns = 60 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };
	struct hr_ns *ns = &ssd[i].disk.ns;

	snprintf(config.device, sizeof config.device, "soft:%s,size=4M,reservations=1", image[i]);
	cr_assert_eq(hr_ssd_up(&ssd[i], &config, test_error()), 0, "%s", test_error_text());
	ns->shared = true;
	memset(ns->nguid, names->nguid, sizeof ns->nguid);
	memset(ns->uuid, names->uuid, sizeof ns->uuid);
	memset(ns->eui64, names->eui64, sizeof ns->eui64);
	snprintf(ssd[i].ctrl->serial, sizeof ssd[i].ctrl->serial, "%s", names->serial);
}

/* The second of two namespaces with these names is refused when they are the same one. */
static void expect(const struct names *one, const struct names *other, int want, size_t row)
{
	up(0, one);
	up(1, other);
	cr_expect_eq(hr_ssd_reserve(&ssd[0], test_error()), 0, "row %zu: %s", row,
		     test_error_text());
	cr_expect_eq(hr_ssd_reserve(&ssd[1], test_error()), want, "row %zu: %s", row,
		     test_error_text());
	hr_ssd_down(&ssd[1]);
	hr_ssd_down(&ssd[0]);
}

Test(reservation_lock, a_namespace_is_known_by_its_best_identifier)
{
	static const struct {
		struct names one, other;
		int want;
	} row[] = {
		{ { 'n', 'u', 'e', "s" }, { 'n', 'v', 'f', "t" }, -EBUSY },
		{ { 'n', 'u', 'e', "s" }, { 'm', 'u', 'e', "s" }, 0 },
		{ { 0, 'u', 'e', "s" }, { 0, 'u', 'f', "t" }, -EBUSY },
		{ { 0, 'u', 'e', "s" }, { 0, 'v', 'e', "s" }, 0 },
		{ { 0, 0, 'e', "s" }, { 0, 0, 'e', "t" }, -EBUSY },
		{ { 0, 0, 'e', "s" }, { 0, 0, 'f', "s" }, 0 },
		/* without an identifier: by the serial number, all of it */
		{ { 0, 0, 0, "serial 1" }, { 0, 0, 0, "serial 1" }, -EBUSY },
		{ { 0, 0, 0, "serial 1" }, { 0, 0, 0, "serial 2" }, 0 },
		{ { 0, 0, 0, "s" }, { 0, 0, 0, "st" }, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		expect(&row[i].one, &row[i].other, row[i].want, i);
}
