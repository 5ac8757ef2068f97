/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O queues: creation, deletion, their errors, and the behaviour of rings (NVMe Base 3.3, 5.4 -
 * 5.7).
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/conform.h"

#define RING (CONFORM_RINGS + 2)
#define QID_INVALID CONFORM_SPECIFIC(NVME_SC_QID_INVALID)
#define SIZE_INVALID CONFORM_SPECIFIC(NVME_SC_QUEUE_SIZE)

static struct conform c;

static void open_it(void)
{
	conform_open(&c);
}

static void close_it(void)
{
	conform_close(&c);
}

TestSuite(conformance_queues, .init = open_it, .fini = close_it, .timeout = 60);

static struct hr_sqe create(bool cq, uint32_t cdw10, uint32_t cdw11)
{
	const struct hr_sqe sqe = {
		.opcode = cq ? nvme_admin_create_cq : nvme_admin_create_sq,
		.prp1 = conform_bus(&c, RING),
		.cdw10 = cdw10,
		.cdw11 = cdw11,
	};

	return sqe;
}

Test(conformance_queues, bad_completion_queues_are_refused)
{
	const uint32_t mqes = (uint32_t)NVME_CAP_MQES(c.cap);
	const struct {
		const char *what;
		uint32_t cdw10, cdw11, offset;
		uint16_t status;
	} row[] = {
		{ "identifier 0", 15u << 16, 1, 0, QID_INVALID },
		{ "identifier ffff", 15u << 16 | 0xffff, 1, 0, QID_INVALID },
		{ "one entry", 1, 1, 0, SIZE_INVALID },
		{ "beyond MQES", (mqes + 1) << 16 | 1, 1, 0, SIZE_INVALID },
		{ "odd address", 15u << 16 | 1, 1, 512, NVME_SC_PRP_INVALID_OFFSET },
		{ "vector ffff", 15u << 16 | 1, 0xffff0003u, 0,
		  CONFORM_SPECIFIC(NVME_SC_INVALID_VECTOR) },
		{ "not contiguous", 15u << 16 | 1, 0, 0, NVME_SC_INVALID_FIELD },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct hr_sqe sqe = create(true, row[i].cdw10, row[i].cdw11);
		uint16_t status;

		if (mqes == 0xffff && row[i].cdw10 == 1 && i == 3)
			continue;
		if (!NVME_CAP_CQR(c.cap) && row[i].cdw11 == 0)
			continue;
		sqe.prp1 += row[i].offset;
		status = conform_admin(&c, &sqe, NULL);
		cr_expect_eq(status, row[i].status, "%s: %03x", row[i].what, status);
	}
}

Test(conformance_queues, bad_submission_queues_are_refused)
{
	const uint32_t mqes = (uint32_t)NVME_CAP_MQES(c.cap);
	const struct {
		const char *what;
		uint32_t cdw10, cdw11, offset;
		uint16_t status;
	} row[] = {
		{ "identifier 0", 15u << 16, 1u << 16 | 1, 0, QID_INVALID },
		{ "identifier ffff", 15u << 16 | 0xffff, 1u << 16 | 1, 0, QID_INVALID },
		{ "no such CQ", 15u << 16 | 1, 2u << 16 | 1, 0,
		  CONFORM_SPECIFIC(NVME_SC_CQ_INVALID) },
		{ "one entry", 1, 1u << 16 | 1, 0, SIZE_INVALID },
		{ "beyond MQES", (mqes + 1) << 16 | 1, 1u << 16 | 1, 0, SIZE_INVALID },
		{ "odd address", 15u << 16 | 1, 1u << 16 | 1, 64, NVME_SC_PRP_INVALID_OFFSET },
		{ "not contiguous", 15u << 16 | 1, 1u << 16, 0, NVME_SC_INVALID_FIELD },
	};

	cr_assert_eq(conform_create_cq(&c, 1, CONFORM_ENTRIES, RING + 1), 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct hr_sqe sqe = create(false, row[i].cdw10, row[i].cdw11);
		uint16_t status;

		if (!NVME_CAP_CQR(c.cap) && !(row[i].cdw11 & 1))
			continue;
		sqe.prp1 += row[i].offset;
		status = conform_admin(&c, &sqe, NULL);
		cr_expect_eq(status, row[i].status, "%s: %03x", row[i].what, status);
	}
}

/* The admin completion queue is not for I/O; controllers return one of two statuses (Base 5.5). */
Test(conformance_queues, completions_do_not_go_to_the_admin_queue)
{
	const struct hr_sqe sqe = create(false, 15u << 16 | 1, 1);
	const uint16_t status = conform_admin(&c, &sqe, NULL);

	cr_expect(status == QID_INVALID || status == CONFORM_SPECIFIC(NVME_SC_CQ_INVALID), "%03x",
		  status);
}

Test(conformance_queues, an_identifier_is_used_once)
{
	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_expect_eq(conform_create_cq(&c, 1, CONFORM_ENTRIES, RING), QID_INVALID);
	cr_expect_eq(conform_create_sq(&c, 1, 1, CONFORM_ENTRIES, RING), QID_INVALID);
}

Test(conformance_queues, queues_are_deleted_in_the_specified_order_only)
{
	static const uint16_t none[] = { 0, 2, 0xffff };

	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		cr_expect_eq(conform_delete(&c, false, none[i]), QID_INVALID);
		cr_expect_eq(conform_delete(&c, true, none[i]), QID_INVALID);
	}
	cr_expect_eq(conform_delete(&c, true, 1), CONFORM_SPECIFIC(NVME_SC_INVALID_QUEUE));
	cr_expect_eq(conform_delete(&c, false, 1), 0);
	cr_expect_eq(conform_delete(&c, false, 1), QID_INVALID);
	cr_expect_eq(conform_delete(&c, true, 1), 0);
	cr_expect_eq(conform_delete(&c, true, 1), QID_INVALID);
	cr_expect_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, CONFORM_DATA, 0), 0);
}

Test(conformance_queues, a_small_ring_wraps_many_times)
{
	for (uint16_t entries = 2; entries <= 5; entries++) {
		cr_assert_eq(conform_add_io(&c, &c.io, 1, entries), 0);
		for (unsigned i = 0; i < 50; i++)
			cr_assert_eq(conform_io(&c, nvme_cmd_read, i, 1, CONFORM_DATA, 0), 0,
				     "%u entries, command %u", entries, i);
		cr_assert_eq(conform_delete(&c, false, 1), 0);
		cr_assert_eq(conform_delete(&c, true, 1), 0);
	}
}

/* Completions may come in any order, each exactly once. */
Test(conformance_queues, a_full_batch_completes_each_command_once)
{
	bool seen[CONFORM_ENTRIES] = { false };
	struct hr_cqe cqe;

	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	for (uint32_t i = 0; i + 1 < CONFORM_ENTRIES; i++) {
		const struct hr_sqe sqe = conform_io_sqe(&c, nvme_cmd_read, i, 1, CONFORM_DATA + i);

		cr_assert_eq(conform_push(&c.io, &sqe), i + 1);
	}
	conform_ring(&c, &c.io);
	for (uint32_t i = 0; i + 1 < CONFORM_ENTRIES; i++) {
		cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe), "completion %u is missing", i);
		cr_assert(cqe.cid >= 1 && cqe.cid < CONFORM_ENTRIES, "CID %u", cqe.cid);
		cr_expect_not(seen[cqe.cid], "CID %u twice", cqe.cid);
		seen[cqe.cid] = true;
		cr_expect_eq(hr_cqe_status(cqe.status), 0);
	}
	conform_release(&c, &c.io);
	cr_expect_not(conform_peek(&c, &c.io, 20, &cqe), "one completion too many");
}

/* A completion queue that the host does not empty is never overwritten (3.3.1.2). */
Test(conformance_queues, a_full_completion_queue_waits_for_the_host)
{
	struct conform_queue *q = &c.io;
	struct hr_cqe cqe;

	cr_assert_eq(conform_create_cq(&c, 1, 4, RING + 1), 0);
	cr_assert_eq(conform_create_sq(&c, 1, 1, CONFORM_ENTRIES, RING), 0);
	memset(q, 0, sizeof(*q));
	q->sq = (struct hr_sqe *)conform_page(&c, RING);
	q->cq = (struct hr_cqe *)conform_page(&c, RING + 1);
	q->id = q->cqid = 1;
	q->entries = CONFORM_ENTRIES;
	q->phase = q->cid = 1;
	for (uint32_t i = 0; i < 10; i++) {
		const struct hr_sqe sqe = conform_io_sqe(&c, nvme_cmd_read, i, 1, CONFORM_DATA + i);

		conform_push(q, &sqe);
	}
	conform_ring(&c, q);
	q->entries = 4; /* entries of the completion queue from this one on */
	for (unsigned i = 0; i < 3; i++)
		cr_assert(conform_peek(&c, q, CONFORM_MS, &cqe));
	cr_expect_not(conform_peek(&c, q, 50, &cqe), "a fourth completion in a queue of four");
	for (unsigned i = 3; i < 10; i++) {
		conform_release(&c, q);
		cr_assert(conform_peek(&c, q, CONFORM_MS, &cqe), "completion %u is missing", i);
		cr_expect_eq(hr_cqe_status(cqe.status), 0);
	}
}

Test(conformance_queues, two_submission_queues_share_a_completion_queue)
{
	struct conform_queue second;
	unsigned of[3] = { 0 };
	struct hr_cqe cqe;

	cr_assert_eq(conform_add_io(&c, &c.io, 1, CONFORM_ENTRIES), 0);
	cr_assert_eq(conform_create_sq(&c, 2, 1, CONFORM_ENTRIES, RING + 2), 0);
	second = c.io;
	second.id = 2;
	second.sq = (struct hr_sqe *)conform_page(&c, RING + 2);
	for (uint32_t i = 0; i < 5; i++) {
		const struct hr_sqe sqe = conform_io_sqe(&c, nvme_cmd_read, i, 1, CONFORM_DATA + i);

		conform_push(&c.io, &sqe);
		conform_push(&second, &sqe);
	}
	conform_ring(&c, &c.io);
	conform_ring(&c, &second);
	for (unsigned i = 0; i < 10; i++) {
		cr_assert(conform_peek(&c, &c.io, CONFORM_MS, &cqe), "completion %u is missing", i);
		cr_assert(cqe.sqid == 1 || cqe.sqid == 2, "SQID %u", cqe.sqid);
		of[cqe.sqid]++;
		conform_release(&c, &c.io);
	}
	cr_expect_eq(of[1], 5);
	cr_expect_eq(of[2], 5);
	cr_expect_eq(conform_delete(&c, false, 1), 0);
	cr_expect_eq(conform_delete(&c, true, 1), CONFORM_SPECIFIC(NVME_SC_INVALID_QUEUE));
	cr_expect_eq(conform_delete(&c, false, 2), 0);
	cr_expect_eq(conform_delete(&c, true, 1), 0);
}
