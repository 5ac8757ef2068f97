/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations: each command that fails, and a host that is faster. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "config/base/tick.h"
#include "tests/harness/reservation_rig.h"

TestSuite(reservation_faults, .init = setup, .fini = teardown, .timeout = 60);

static void up_with_fault(const char *rule)
{
	char options[128];

	snprintf(options, sizeof options, ",reservations=1,faults=%s", script);
	write_script(rule);
	up(&a, options);
}

/* The error names the command, and b sees that a is not registered any more. */
static void expect_failure(const char *named, uint8_t holder_type)
{
	struct hr_resv_holder holder;
	unsigned registered;

	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	cr_expect(strstr(test_error_text(), named), "%s: %s", named, test_error_text());
	look(&b, &holder, &registered);
	cr_expect_eq(registered, holder_type != 0, "%s", named);
	cr_expect_eq(holder.type, holder_type, "%s", named);
}

Test(reservation_faults, each_command_that_fails_is_named)
{
	static const struct {
		const char *rule, *named;
		int want;
	} row[] = {
		{ "on any opcode 0x0e: status 0x6 dnr", "reservation report: Internal Error", 6 },
		{ "on any opcode 0x0d: status 0x2 dnr", "reservation register: Invalid", 2 },
		{ "on any opcode 0x11: status 0x6 dnr", "reservation acquire: Internal", 6 },
		{ "on any opcode 0x11: status 0x83 dnr",
		  "reservation acquire: Reservation Conflict", CONFLICT },
	};

	up(&b, ",reservations=1");
	become(&b, 0xb0);
	for (size_t i = 0; i < ROWS(row); i++) {
		up_with_fault(row[i].rule);
		cr_expect_eq(hr_ssd_reserve(&a, test_error()), row[i].want, "row %zu", i);
		cr_expect_not(a.reservation.held);
		expect_failure(row[i].named, 0);
		cr_expect_eq(hr_ssd_reserve(&a, test_error()), 0, "row %zu: the lock is free again",
			     i);
		hr_ssd_down(&a);
	}
}

Test(reservation_faults, each_command_of_unlock_that_fails_is_named)
{
	static const struct {
		const char *rule, *named;
		int want;
		uint8_t type; /* of the reservation that stays */
	} row[] = {
		{ "on any opcode 0x0e: status 0x6 dnr", "reservation report: Internal Error", 6,
		  2 },
		{ "on any opcode 0x0d: status 0x6 dnr", "reservation register: Internal", 6, 2 },
		{ "on any opcode 0x11: status 0x6 dnr", "reservation acquire (preempt): Int", 6,
		  2 },
	};

	other_holds(2);
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_resv_holder holder;

		up_with_fault(row[i].rule);
		cr_expect_eq(hr_ssd_unlock(&a, &holder, test_error()), row[i].want, "row %zu", i);
		expect_failure(row[i].named, row[i].type);
		hr_ssd_down(&a);
	}
}

/*
 * Sends an identifier, and then reserves while the nth Set Features is refused: errors of that Set
 * Features. Bring-up sends Set Features as well, so each nth is tried.
 */
static unsigned refusals(const uint8_t id[16], const char *more)
{
	unsigned errors = 0;

	for (unsigned nth = 2; nth < 8; nth++) {
		struct hr_sqe sqe = { .opcode = nvme_admin_set_features,
				      .cdw10 = NVME_FEAT_FID_HOST_ID,
				      .cdw11 = 1 };
		char rule[128];

		snprintf(rule, sizeof rule, "on admin opcode 0x09 nth %u: status 0x2 dnr%s", nth,
			 more);
		up_with_fault(rule);
		sqe.prp1 = a.ctrl->admin_data_bus.addr;
		memcpy(a.ctrl->admin_data, id, 16);
		if (hr_admin(a.ctrl, &sqe, NULL, NULL) == 0 && hr_ssd_reserve(&a, test_error())) {
			cr_expect(strstr(test_error_text(), "set features, Host Identifier: "
							    "Invalid Field in Command"),
				  "%s", test_error_text());
			errors++;
		}
		hr_ssd_down(&a);
	}
	return errors;
}

/* A controller may keep the identifier that it has: of this host, or of another one. */
Test(reservation_faults, a_host_identifier_may_be_refused_when_it_is_there)
{
	static const uint8_t other[16] = { 0x77 };
	struct hr_resv_host self;

	hr_resv_self(&self);
	cr_expect_eq(refusals(self.id, ""), 0);
	cr_expect_eq(refusals(other, ""), 1);
	cr_expect_eq(refusals(self.id, "\non admin opcode 0x0a: status 0x6 dnr"), 1);
}

/* Before each command of a: once a is registered, the other host acquires the reservation. */
static void overtake(void *arg, uint64_t now_ns)
{
	struct hr_resv_holder holder;
	unsigned registered;

	(void)now_ns;
	look(&b, &holder, &registered);
	if (registered < 2)
		hr_tick_set(overtake, arg);
	else
		cr_assert_eq(acquire(&b, OTHER_KEY, 1), 0);
}

Test(reservation_faults, a_host_that_is_faster_keeps_it)
{
	struct hr_resv_holder holder;
	unsigned registered;

	up(&b, ",reservations=1");
	become(&b, 0xb0);
	cr_assert_eq(enroll(&b, OTHER_KEY), 0);
	up(&a, ",reservations=1");
	hr_tick_set(overtake, NULL);
	cr_expect_eq(hr_ssd_reserve(&a, test_error()), -EBUSY);
	hr_tick_set(NULL, NULL);
	cr_expect(strstr(test_error_text(), "0x0123456789abcdef"), "%s", test_error_text());
	look(&b, &holder, &registered);
	cr_expect_eq(holder.key, OTHER_KEY);
	cr_expect_eq(registered, 1);
}

Test(reservation_faults, a_lost_command_ends_the_disk)
{
	char options[128];

	snprintf(options, sizeof options, ",reservations=1,faults=%s", script);
	write_script("on any: cfs");
	up(&a, options);
	cr_expect_eq(hr_ssd_reserve(&a, test_error()), -EIO);
	cr_expect_not(a.reservation.held);
}
