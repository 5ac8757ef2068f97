/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations over software controllers of one image: what the holder, another host and an operator
 * may do. Commands that fail are in ssd_reservation_faults.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "nvme/soft/soft.h"
#include "tests/fakes/log.h"
#include "tests/harness/reservation_rig.h"

TestSuite(reservation, .init = setup, .fini = teardown, .timeout = 60);

/* ---- the host under test */

Test(reservation, only_the_holder_writes_and_releases_at_the_end)
{
	struct hr_resv_holder holder;
	struct hr_resv_host self;
	unsigned registered;

	up(&a, ",reservations=1");
	up(&b, ",reservations=1");
	become(&b, 0xb0);
	cr_assert_eq(hr_ssd_reserve(&a, test_error()), 0);
	cr_expect_eq(hr_ssd_reserve(&a, test_error()), 0, "once is enough");
	look(&b, &holder, &registered);
	hr_resv_self(&self);
	cr_expect_eq(holder.type, NVME_RESERVATION_RTYPE_WE);
	cr_expect_eq(holder.key, self.key);
	cr_expect_arr_eq(holder.id, self.id, 16);
	cr_expect_eq(registered, 1);
	cr_expect_eq(page[9], 0, "PTPLS: not persistent");
	cr_expect_eq(write_page(&a), 0);
	cr_expect_eq(read_page(&b), 0);
	cr_expect_eq(write_page(&b), CONFLICT);
	cr_expect(strstr(test_error_text(), "another host holds the reservation"), "%s",
		  test_error_text());
	hr_ssd_down(&a);
	look(&b, &holder, &registered);
	cr_expect_eq(holder.type, 0);
	cr_expect_eq(registered, 0);
	cr_expect_eq(write_page(&b), 0);
}

/* A controller may refuse Set Features of a Host Identifier that has registrations. */
Test(reservation, a_controller_of_two_namespaces_gets_one_host_identifier)
{
	struct hr_soft_stats before, after;
	struct hr_resv_holder holder;
	unsigned registered;

	up(&a, ",reservations=1,namespaces=2");
	up_beside(&a2, &a, ",reservations=1,namespaces=2");
	up(&b, ",reservations=1,namespaces=2");
	become(&b, 0xb0);
	cr_assert_eq(hr_ssd_reserve(&a, test_error()), 0);
	cr_expect_eq(write_page(&b), CONFLICT);
	look(&a2, &holder, &registered);
	cr_expect_eq(holder.type, 0, "each namespace has reservations of its own");
	hr_soft_stats(&a.transport, &before);
	cr_assert_eq(hr_ssd_reserve(&a2, test_error()), 0, "%s", test_error_text());
	hr_soft_stats(&a.transport, &after);
	cr_expect_eq(after.commands - before.commands, 3, "Report, Register, Acquire");
	cr_expect_eq(write_page(&a2), 0);
	hr_ssd_down(&a2);
	cr_expect_eq(write_page(&a), 0, "the other one stays reserved");
	look(&b, &holder, &registered);
	cr_expect_eq(holder.type, NVME_RESERVATION_RTYPE_WE);
	cr_expect_eq(registered, 1);
}

/* CTRATT says how long an identifier the controller takes: 8 or 16 bytes, and no byte more is sent. */
Test(reservation, a_host_identifier_has_the_length_that_the_controller_takes)
{
	struct hr_sqe sqe = { .opcode = nvme_cmd_resv_report, .cdw10 = HR_PAGE / 4 - 1 };
	struct hr_resv_holder holder;
	struct hr_resv_host self;
	bool mine;

	hr_resv_self(&self);
	for (uint8_t bytes = 8; bytes <= 16; bytes += 8) {
		up(&a, ",reservations=1");
		a.ctrl->long_host_id = bytes == 16;
		cr_assert_eq(hr_ssd_reserve(&a, test_error()), 0, "%s", test_error_text());
		cr_expect_arr_eq(a.ctrl->admin_data, self.id, bytes);
		for (unsigned i = bytes; i < HR_PAGE; i++)
			cr_assert_eq(((uint8_t *)a.ctrl->admin_data)[i], 0, "%u: %u", bytes, i);
		sqe.cdw11 = bytes == 16;
		cr_assert_eq(hr_nvme_blk_command(&a.disk, &sqe, page, sizeof page, true, NULL), 0);
		cr_assert_eq(hr_resv_parse(page, sizeof page, bytes == 16, self.id, &holder, &mine),
			     0);
		cr_expect(mine);
		cr_expect_eq(holder.id_bytes, bytes);
		cr_expect_arr_eq(holder.id, self.id, bytes);
		cr_expect_eq(write_page(&a), 0);
		hr_ssd_down(&a);
	}
}

Test(reservation, this_machine_is_the_same_each_time)
{
	struct hr_resv_host one, two;

	hr_resv_self(&one);
	hr_resv_self(&two);
	cr_expect_eq(one.key, two.key);
	cr_expect_neq(one.key, 0);
	cr_expect_arr_eq(one.id, two.id, sizeof one.id);
}

Test(reservation, another_holder_is_named_with_the_remedy_and_keeps_its_reservation)
{
	struct hr_resv_holder holder;
	unsigned registered;

	for (uint8_t type = 1; type <= 6; type++) {
		other_holds(type);
		up(&a, ",reservations=1");
		cr_expect_eq(hr_ssd_reserve(&a, test_error()), -EBUSY, "type %u", type);
		cr_expect(strstr(test_error_text(), hr_resv_type_name(type)), "%s",
			  test_error_text());
		cr_expect(strstr(test_error_text(), "0x0123456789abcdef"), "%s", test_error_text());
		cr_expect(strstr(test_error_text(), "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0"));
		cr_expect(strstr(test_error_text(), "headrace store unlock --nsid 1 soft:"));
		look(&b, &holder, &registered);
		cr_expect_eq(holder.key, OTHER_KEY);
		cr_expect_eq(registered, 1, "type %u", type);
		hr_ssd_down(&a);
		hr_ssd_down(&b);
	}
}

/* A killed process has released no reservation, but its lock of the machine is gone. */
static void die(struct hr_ssd *ssd)
{
	close(ssd->reservation.lock);
	ssd->reservation.held = false;
	hr_ssd_down(ssd);
}

Test(reservation, the_same_machine_takes_its_reservation_back_after_a_crash)
{
	struct hr_resv_holder holder;
	unsigned registered;

	up(&b, ",reservations=1"); /* the power of the namespace stays on */
	become(&b, 0xb0);
	up(&a, ",reservations=1");
	cr_assert_eq(hr_ssd_reserve(&a, test_error()), 0);
	die(&a);
	look(&b, &holder, &registered);
	cr_assert_eq(holder.type, NVME_RESERVATION_RTYPE_WE);
	up(&a, ",reservations=1");
	cr_expect_eq(write_page(&a), CONFLICT, "a new controller has no Host Identifier");
	cr_assert_eq(hr_ssd_reserve(&a, test_error()), 0);
	cr_expect_eq(write_page(&a), 0);
	hr_ssd_down(&a);
	look(&b, &holder, &registered);
	cr_expect_eq(registered, 0);
}

/* A reservation of an older program on this machine. */
Test(reservation, a_reservation_of_this_machine_is_taken_back_with_any_key_and_type)
{
	struct hr_resv_holder holder;
	struct hr_resv_host self;
	unsigned registered;

	hr_resv_self(&self);
	up(&b, ",reservations=1");
	for (uint8_t type = 1; type <= 6; type++) {
		up(&a, ",reservations=1");
		struct hr_sqe sqe = { .opcode = nvme_admin_set_features,
				      .prp1 = a.ctrl->admin_data_bus.addr,
				      .cdw10 = NVME_FEAT_FID_HOST_ID,
				      .cdw11 = 1 };
		memcpy(a.ctrl->admin_data, self.id, 16);
		cr_assert_eq(hr_admin(a.ctrl, &sqe, NULL, NULL), 0);
		cr_assert_eq(enroll(&a, 77), 0);
		cr_assert_eq(acquire(&a, 77, type), 0);
		cr_assert_eq(hr_ssd_reserve(&a, test_error()), 0, "type %u: %s", type,
			     test_error_text());
		become(&b, 0xb0);
		look(&b, &holder, &registered);
		cr_expect_eq(holder.type, NVME_RESERVATION_RTYPE_WE);
		cr_expect_eq(holder.key, self.key);
		cr_expect_eq(registered, 1);
		hr_ssd_down(&a);
	}
}

Test(reservation, a_second_process_of_the_machine_is_refused)
{
	up(&a, ",reservations=1");
	up(&b, ",reservations=1");
	cr_assert_eq(hr_ssd_reserve(&a, test_error()), 0);
	cr_expect_eq(hr_ssd_reserve(&b, test_error()), -EBUSY);
	cr_expect(strstr(test_error_text(), "another process or controller of this machine"), "%s",
		  test_error_text());
	hr_ssd_down(&a);
	cr_expect_eq(hr_ssd_reserve(&b, test_error()), 0);
}

Test(reservation, a_takeover_ends_writes_without_repetitions_and_is_left_alone)
{
	struct hr_resv_holder holder;
	struct hr_soft_stats before, after;
	struct hr_resv_host self;
	unsigned registered;

	hr_resv_self(&self);
	up(&a, ",reservations=1");
	up(&b, ",reservations=1");
	become(&b, 0xb0);
	cr_assert_eq(hr_ssd_reserve(&a, test_error()), 0);
	cr_assert_eq(enroll(&b, OTHER_KEY), 0);
	cr_assert_eq(preempt(&b, OTHER_KEY, self.key, 1), 0);
	hr_soft_stats(&a.transport, &before);
	cr_expect_eq(write_page(&a), CONFLICT);
	hr_soft_stats(&a.transport, &after);
	cr_expect_eq(after.errors - before.errors, 1, "sent once");
	cr_expect_eq(hr_status_retries(CONFLICT, false), 0, "nor do workers repeat it");
	hr_ssd_down(&a);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "0x0123456789abcdef"), "%s",
		  fake_log_last_of(HR_LOG_WARN));
	look(&b, &holder, &registered);
	cr_expect_eq(holder.key, OTHER_KEY);
}

Test(reservation, an_operator_may_clear_each_type)
{
	struct hr_resv_holder holder;
	unsigned registered;

	for (uint8_t type = 1; type <= 6; type++) {
		other_holds(type);
		up(&a2, ",reservations=1"); /* of types 5 and 6 each registrant is a holder */
		become(&a2, 0xc0);
		cr_assert_eq(enroll(&a2, 9), 0);
		up(&a, ",reservations=1");
		cr_assert_eq(hr_ssd_unlock(&a, &holder, test_error()), 0, "type %u: %s", type,
			     test_error_text());
		cr_expect_eq(holder.type, type);
		cr_expect_eq(holder.key, OTHER_KEY);
		look(&b, &holder, &registered);
		cr_expect_eq(holder.type, 0);
		cr_expect_eq(registered, type < 5, "type %u", type);
		cr_expect_eq(hr_ssd_unlock(&a, &holder, test_error()), 0);
		cr_expect_eq(holder.type, 0, "there is none any more");
		cr_expect_eq(hr_ssd_reserve(&a, test_error()), 0);
		hr_ssd_down(&a2);
		hr_ssd_down(&a);
		hr_ssd_down(&b);
	}
}

Test(reservation, a_controller_without_reservations_gets_no_command)
{
	struct hr_soft_stats before, after;
	struct hr_resv_holder holder;

	up(&a, "");
	hr_soft_stats(&a.transport, &before);
	cr_expect_eq(hr_ssd_reserve(&a, test_error()), 0);
	cr_expect_not(a.reservation.held);
	cr_expect_eq(hr_ssd_unlock(&a, &holder, test_error()), -ENOTSUP);
	hr_soft_stats(&a.transport, &after);
	cr_expect_eq(after.commands, before.commands);
	cr_expect_eq(send(&a, nvme_cmd_resv_register, 0, 0, 1), NVME_SC_INVALID_OPCODE);
}

Test(reservation, a_namespace_without_a_useful_type_gets_no_command)
{
	static const struct {
		uint8_t rescap, type;
	} row[] = { { 0, 0 }, { 0xf9, 0 }, { 0xfd, 2 }, { 0xff, 1 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		up(&a, ",reservations=1");
		a.disk.ns.rescap = row[i].rescap;
		cr_expect_eq(hr_ssd_reserve(&a, test_error()), 0);
		cr_expect_eq(a.reservation.held, row[i].type != 0, "row %zu", i);
		cr_expect_eq(a.reservation.type, row[i].type, "row %zu", i);
		hr_ssd_down(&a);
	}
}

Test(reservation, a_write_protected_namespace_needs_no_reservation)
{
	up(&a, ",reservations=1");
	a.ns.read_only = true;
	cr_expect_eq(hr_ssd_reserve(&a, test_error()), 0);
	cr_expect_not(a.reservation.held);
}

/* ---- the software controller */

Test(reservation, each_type_lets_the_right_hosts_read_and_write)
{
	static const struct {
		uint8_t type;
		int stranger_reads, stranger_writes, registrant_reads, registrant_writes;
	} row[] = {
		{ 1, 0, CONFLICT, 0, CONFLICT }, { 2, CONFLICT, CONFLICT, CONFLICT, CONFLICT },
		{ 3, 0, CONFLICT, 0, 0 },	 { 4, CONFLICT, CONFLICT, 0, 0 },
		{ 5, 0, CONFLICT, 0, 0 },	 { 6, CONFLICT, CONFLICT, 0, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		other_holds(row[i].type);
		up(&a, ",reservations=1");
		cr_expect_eq(read_page(&a), row[i].stranger_reads, "row %zu", i);
		cr_expect_eq(write_page(&a), row[i].stranger_writes, "row %zu", i);
		become(&a, 0xa0);
		cr_assert_eq(enroll(&a, 5), 0);
		cr_expect_eq(read_page(&a), row[i].registrant_reads, "row %zu", i);
		cr_expect_eq(write_page(&a), row[i].registrant_writes, "row %zu", i);
		cr_expect_eq(write_page(&b), 0, "row %zu: the holder", i);
		hr_ssd_down(&a);
		hr_ssd_down(&b);
	}
}

Test(reservation, a_host_without_an_identifier_loses_its_reservation_with_its_controller)
{
	struct hr_resv_holder holder;
	unsigned registered;

	up(&a, ",reservations=1");
	up(&b, ",reservations=1");
	cr_assert_eq(enroll(&a, 1), 0);
	cr_assert_eq(acquire(&a, 1, 1), 0);
	cr_expect_eq(write_page(&b), CONFLICT, "two controllers without one are two hosts");
	hr_ssd_down(&a);
	look(&b, &holder, &registered);
	cr_expect_eq(holder.type, 0);
	cr_expect_eq(registered, 0);
}
