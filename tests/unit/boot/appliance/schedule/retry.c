/* SPDX-License-Identifier: Apache-2.0 */
/* Permanent failures, the budget of restarts, and a watchdog that cannot be fed. */
#include "boot/appliance/schedule/retry.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "boot/appliance/machine/machine.h"
#include "config/base/clock.h"
#include "tests/fakes/log.h"

#define COUNT(array) (unsigned)(sizeof(array) / sizeof *(array))

TestSuite(retry, .timeout = 60);

Test(retry, failures_that_stay_and_failures_that_may_go_away)
{
	static const int stays[] = { 0x281,    0x280,	 0x002,	     0x080,   0x020,
				     0x182,    0x301,	 0x01c,	     -EINVAL, -EEXIST,
				     -ENOSPC,  -EROFS,	 -EACCES,    -ERANGE, -EPERM,
				     -EUCLEAN, -ENOTSUP, -ENOMEDIUM, -EBADMSG };
	static const int goes[] = { 0x006,   0x004,	 0x022,	 0x082,	  0x300,
				    0,	     -ENODEV,	 -ENXIO, -ENOENT, -EIO,
				    -EPROTO, -ETIMEDOUT, -EBUSY, -ENOMEM, -EINTR };

	for (unsigned i = 0; i < COUNT(stays); i++)
		cr_expect(hr_error_is_final(stays[i]), "%d", stays[i]);
	for (unsigned i = 0; i < COUNT(goes); i++)
		cr_expect_not(hr_error_is_final(goes[i]), "%d", goes[i]);
}

Test(retry, a_budget_ends_and_heals)
{
	const struct hr_config_boot boot = { .restarts = 2, .backoff_ns = 10, .heal_ns = 100 };
	struct hr_restarts b;
	uint64_t pause_ns;

	hr_restarts_begin(&b, &boot);
	cr_expect(hr_restarts_account(&b, 0, &pause_ns) && pause_ns == 10);
	cr_expect(hr_restarts_account(&b, 99, &pause_ns) && pause_ns == 20);
	cr_expect_not(hr_restarts_account(&b, 99, &pause_ns));
	cr_expect(hr_restarts_account(&b, 100, &pause_ns) && pause_ns == 10);
	cr_expect_eq(b.used, 1u);
}

/*
 * A failure to feed the watchdog is reported once. Feeding is tried again at every look, and a
 * success ends the failure.
 */
Test(retry, a_watchdog_that_cannot_be_fed_is_reported_once)
{
	const int deaf = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int hears = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct hr_watchdog w = { .path = "w", .fd = deaf, .feed_ns = 10 };

	for (unsigned i = 0; i < 5; i++)
		hr_watchdog_feed(&w, 20 + i);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 1u);
	w.fd = hears;
	hr_watchdog_feed(&w, 25);
	cr_expect_eq(w.next_ns, 35u);
	w.fd = deaf;
	hr_watchdog_feed(&w, 34);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 1u, "it was not due");
	hr_watchdog_feed(&w, 35);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 2u);
	hr_watchdog_close(&w);
	cr_expect_eq(w.fd, -1);
	close(hears);
}
