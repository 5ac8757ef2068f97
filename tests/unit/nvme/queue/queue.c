/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's side of a queue pair: every order of completions, and all faults of the controller.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "nvme/queue/queue.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/peer.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS 8000u
#define START_NS 1000000u

static struct hr_nvme_qp qp;
static struct peer peer;

static void setup(void)
{
	qprun->up();
	fake_clock_start(START_NS, NULL, NULL);
}

static void teardown(void)
{
	fake_clock_stop();
	qprun->down();
}

TestSuite(queue, .init = setup, .fini = teardown, .timeout = 60);

static int push(uint32_t token)
{
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, 1, token * 8ull, 8, 0x1000, 0);
	return qprun->push(&qp, true, &sqe, token);
}

/* Push n commands with tokens 0..n - 1 and write the doorbell; cid may be NULL. */
static void send(uint32_t n, int *cid)
{
	for (uint32_t i = 0; i < n; i++) {
		const int got = push(i);

		cr_assert_geq(got, 0);
		if (cid)
			cid[i] = got;
	}
	qprun->ring(&qp);
}

Test(queue, init_refuses_invalid_arguments)
{
	static _Alignas(4096) uint8_t memory[3 * HR_PAGE];
	static const struct {
		uint32_t entries;
		size_t sq, cq, table; /* misalignment */
		uint64_t timeout_ns;
		int want;
	} row[] = {
		{ 2, 0, 0, 0, 1, 0 },
		{ 64, 0, 0, 0, INT64_MAX, 0 },
		{ 0, 0, 0, 0, 1, -EINVAL },
		{ 1, 0, 0, 0, 1, -EINVAL },
		{ 4097, 0, 0, 0, 1, -EINVAL },
		{ UINT32_MAX, 0, 0, 0, 1, -EINVAL },
		{ 2, 64, 0, 0, 1, -EINVAL },
		{ 2, 0, 16, 0, 1, -EINVAL },
		{ 2, 0, 0, 4, 1, -EINVAL },
		{ 2, 0, 0, 0, 0, -EINVAL },
		{ 2, 0, 0, 0, 1ull << 63, -EINVAL },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_qp_memory at = {
			.sq = memory + row[i].sq,
			.cq = memory + HR_PAGE + row[i].cq,
			.table = memory + 2 * HR_PAGE + row[i].table,
		};

		cr_expect_eq(hr_qp_init(&qp, 1, row[i].entries, &at, row[i].timeout_ns),
			     row[i].want, "row %zu", i);
	}
}

Test(queue, rings_are_whole_pages_and_tables_have_room_for_each_command)
{
	static const struct {
		uint32_t entries;
		size_t sq, cq;
	} row[] = {
		{ 2, 4096, 4096 },    { 64, 4096, 4096 },    { 65, 8192, 4096 },
		{ 256, 16384, 4096 }, { 257, 20480, 8192 },  { 128, 8192, 4096 },
		{ 512, 32768, 8192 }, { 513, 36864, 12288 }, { 4096, 262144, 65536 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_qp_sq_bytes(row[i].entries), row[i].sq, "%u", row[i].entries);
		cr_expect_eq(hr_qp_cq_bytes(row[i].entries), row[i].cq, "%u", row[i].entries);
		cr_expect_eq(hr_qp_table_bytes(row[i].entries), 24u * row[i].entries, "%u",
			     row[i].entries);
	}
}

static bool holds_only(const uint8_t *from, const uint8_t *end, uint8_t byte)
{
	while (from < end && *from == byte)
		from++;
	return from == end;
}

/* Memory of an earlier queue: its completions would have the phase of new ones. */
Test(queue, init_clears_rings_and_table_and_no_byte_behind_them)
{
	static _Alignas(4096) uint8_t memory[6 * HR_PAGE];
	static const uint32_t entries[] = { 2, 3, 64, 65 };
	const struct hr_qp_memory at = { memory, memory + 2 * HR_PAGE, memory + 4 * HR_PAGE };

	for (size_t i = 0; i < ROWS(entries); i++) {
		const uint32_t n = entries[i];
		const uint8_t *end = (const uint8_t *)at.table + hr_qp_table_bytes(n);

		memset(memory, 0xff, sizeof memory);
		cr_assert_eq(hr_qp_init(&qp, 1, n, &at, 1), 0);
		cr_expect(holds_only(at.sq, memory + hr_qp_sq_bytes(n), 0), "%u", n);
		cr_expect(holds_only(memory + hr_qp_sq_bytes(n), at.cq, 0xff), "%u", n);
		cr_expect(holds_only(at.cq, (const uint8_t *)at.cq + hr_qp_cq_bytes(n), 0), "%u",
			  n);
		cr_expect(holds_only((const uint8_t *)at.cq + hr_qp_cq_bytes(n), at.table, 0xff),
			  "%u", n);
		cr_expect(holds_only(end, memory + sizeof memory, 0xff), "%u", n);
		for (uint32_t k = 0; k < n - 1; k++) {
			const struct hr_nvme_command want = { .cid = (uint16_t)k };

			cr_assert_eq(memcmp(&qp.inflight[k], &want, sizeof want), 0, "%u: %u", n,
				     k);
			cr_assert_eq(qp.free_ring[k], k, "%u: %u", n, k);
		}
	}
}

Test(queue, a_queue_handed_over_has_the_addresses_of_its_owner)
{
	static uint32_t bar[1024];
	const struct hr_qp_memory worker = { (void *)0x10000, (void *)0x20000, (void *)0x30000 };
	struct hr_nvme_qp before;

	peer_init(&peer, &qp, 8, TIMEOUT_NS);
	qp.sq_doorbell = &bar[6];
	qp.cq_doorbell = &bar[7];
	before = qp;
	hr_qp_relocate(&qp, &worker, bar, (void *)0x40000);
	cr_expect_eq((void *)qp.sq, (void *)0x10000);
	cr_expect_eq((void *)qp.cq, (void *)0x20000);
	cr_expect_eq((void *)qp.inflight, (void *)0x30000);
	cr_expect_eq((uintptr_t)qp.free_ring - 0x30000,
		     (uintptr_t)before.free_ring - (uintptr_t)before.inflight);
	cr_expect_eq((void *)qp.sq_doorbell, (void *)0x40018);
	cr_expect_eq((void *)qp.cq_doorbell, (void *)0x4001c);
	peer_fini(&peer);
}

Test(queue, commands_are_visible_only_after_ring_and_ring_writes_one_doorbell)
{
	peer_init(&peer, &qp, 8, TIMEOUT_NS);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_geq(push(i), 0);
	cr_expect_eq(peer.sq_doorbell, 0u);
	cr_expect_eq(peer_fetch(&peer), 0u);
	qprun->ring(&qp);
	cr_expect_eq(peer.sq_doorbell, 5u);
	cr_expect_eq(qp.stats.doorbells, 1u);
	cr_expect_eq(qp.stats.submitted, 5u);
	qprun->ring(&qp);
	cr_expect_eq(qp.stats.doorbells, 1u, "a ring without news rings");
	cr_assert_eq(peer_fetch(&peer), 5u);
	for (uint32_t i = 0; i < 5; i++) {
		cr_expect_eq(peer.pending[i].cdw10, i * 8);
		cr_expect_eq(peer.pending[i].cdw12, 7u);
		cr_expect_eq(peer.pending[i].opcode, nvme_cmd_read);
	}
	peer_fini(&peer);
}

Test(queue, a_full_queue_is_reported_and_a_lane_without_a_request_gets_no_entry)
{
	struct hr_sqe sqe = { 0 };

	for (uint32_t entries = 2; entries <= 64; entries++) {
		peer_init(&peer, &qp, entries, TIMEOUT_NS);
		cr_expect_eq(qprun->push(&qp, false, &sqe, 0), -EINVAL);
		for (uint32_t i = 0; i < entries - 1; i++) {
			cr_expect_eq(hr_qp_free_commands(&qp), entries - 1 - i);
			cr_assert_geq(push(i), 0);
		}
		cr_expect_eq(hr_qp_free_commands(&qp), 0u);
		cr_expect_eq(push(0), -EAGAIN, "%u entries", entries);
		cr_expect_eq(hr_qp_outstanding(&qp), entries - 1);
		qprun->ring(&qp);
		cr_expect_eq(peer_fetch(&peer), entries - 1);
		peer_fini(&peer);
	}
}

/* Over all generations of all indices, CID FFFFh never occurs and no CID repeats early. */
Test(queue, cids_never_are_ffff_and_repeat_only_after_all_generations)
{
	static const uint32_t depth[] = { 2, 3, 4, 5, 16, 17, 64 };
	static uint32_t last_use[65536];

	for (size_t d = 0; d < ROWS(depth); d++) {
		uint32_t generations;

		peer_init(&peer, &qp, depth[d], TIMEOUT_NS);
		generations = 65536u / (qp.index_mask + 1);
		memset(last_use, 0, sizeof(last_use));
		for (uint32_t use = 1; use <= 3 * generations * (depth[d] - 1); use++) {
			struct hr_completion done;
			const int cid = push(use);

			cr_assert(cid >= 0 && cid < 0xffff, "%u entries: CID %x", depth[d], cid);
			cr_assert(!last_use[cid] ||
					  use - last_use[cid] == generations * (depth[d] - 1),
				  "%u entries: CID %x again", depth[d], cid);
			last_use[cid] = use;
			qprun->ring(&qp);
			peer_fetch(&peer);
			peer_complete(&peer, 0, 0);
			cr_assert_eq(qprun->reap(&qp, &done), 1u);
			cr_assert_eq(done.token, use);
		}
		peer_fini(&peer);
	}
}

Test(queue, a_completion_carries_the_status_and_result_of_the_controller)
{
	struct hr_completion done;
	int cid;

	peer_init(&peer, &qp, 4, TIMEOUT_NS);
	send(1, &cid);
	peer_post(&peer, (struct hr_cqe){ .dw0 = 0xabcd1234,
					  .sqhd = 1,
					  .sqid = 3,
					  .cid = (uint16_t)cid,
					  .status = 0x8000 | 0x281 << 1 });
	cr_assert_eq(qprun->reap(&qp, &done), 1u);
	cr_expect_eq(done.dw0, qprun->has_dw0 ? 0xabcd1234u : 0);
	cr_expect_eq(done.cid, cid);
	cr_expect_eq(done.status, 0x281);
	cr_expect(done.dnr);
	cr_expect_eq(qp.stats.failed, 1u);
	peer_fini(&peer);
}

/* Send n commands, complete and reap them. */
static void pass(uint32_t count)
{
	struct hr_completion done;

	send(count, NULL);
	peer_fetch(&peer);
	for (uint32_t i = 0; i < count; i++)
		peer_complete(&peer, 0, 0);
	for (uint32_t i = 0; i < count;) {
		const uint32_t got = qprun->reap(&qp, &done);

		cr_assert_neq(got, 0u);
		i += got;
	}
}

Test(queue, reaped_entries_are_returned_before_the_completion_queue_can_be_full)
{
	struct hr_completion done;

	peer_init(&peer, &qp, 8, TIMEOUT_NS);
	pass(4);
	cr_expect_eq(qprun->reap(&qp, &done), 0u);
	qprun->ring(&qp);
	cr_expect_eq(peer.cq_doorbell, 0u, "room for 3 more");
	send(3, NULL);
	cr_expect_eq(peer.cq_doorbell, 0u, "which is enough for 3");
	cr_expect_eq(qp.stats.doorbells, 2u);
	send(1, NULL);
	cr_expect_eq(peer.cq_doorbell, 4u, "with the command that might lack it");
	cr_expect_eq(qp.stats.doorbells, 4u);
	cr_expect_eq(qp.stats.releases, 0u, "behind its fence");
	peer_fini(&peer);
}

Test(queue, stray_completions_are_returned_to_the_completion_queue)
{
	const struct hr_cqe stray = { .sqhd = 3, .sqid = 3 };
	struct hr_completion done;
	int cid;

	peer_init(&peer, &qp, 8, TIMEOUT_NS);
	pass(2);
	send(1, &cid);
	peer_fetch(&peer);
	for (uint32_t i = 0; i < 5; i++)
		peer_post(&peer, stray);
	cr_expect_not(peer_can_post(&peer));
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(qprun->reap(&qp, &done), 0u);
	cr_assert_eq(qprun->reap(&qp, &done), 0u);
	cr_expect_eq(qp.stats.late + qp.stats.stray, 5u);
	cr_expect_eq(peer.cq_doorbell, 7u, "although nothing is sent");
	cr_expect_eq(qp.stats.releases, 1u);
	peer_complete(&peer, 0, 0);
	cr_assert_eq(qprun->reap(&qp, &done), 1u);
	cr_expect_eq(done.cid, cid);
	peer_fini(&peer);
}

/* One fault of the controller each, on a queue of 8 with two commands sent and one completed. */
Test(queue, invalid_completions_break_the_queue_and_late_ones_are_dropped)
{
	enum { STRAY, LATE, ODD, BREAKS };
	static const struct {
		const char *what;
		uint16_t sqhd, sqid;
		uint32_t cid_xor; /* to the CID in flight; bit 16: to the completed one */
		int outcome;
	} row[] = {
		{ "completed twice", 2, 3, 1u << 16, STRAY },
		{ "never sent, in range", 2, 3, 0x0004, LATE }, /* index 5, generation 0 */
		{ "older generation", 2, 3, 0x0008, LATE },
		{ "index 7", 2, 3, 0x0006, BREAKS },
		{ "CID FFFF", 2, 3, 0xfff6, BREAKS },
		{ "SQHD behind the tail", 3, 3, 0, ODD },
		{ "SQHD before the newest", 1, 3, 0, ODD },
		{ "SQHD 8 of 8", 8, 3, 0, BREAKS },
		{ "SQHD FFFF", 0xffff, 3, 0, BREAKS },
		{ "SQID 0", 2, 0, 0, BREAKS },
		{ "SQID 4", 2, 4, 0, BREAKS },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_completion done;
		int cid[2];
		uint32_t base;

		peer_init(&peer, &qp, 8, TIMEOUT_NS);
		send(2, cid);
		peer_fetch(&peer);
		peer_complete(&peer, 0, 0);
		cr_assert_eq(qprun->reap(&qp, &done), 1u);
		base = (uint32_t)(row[i].cid_xor >> 16 ? cid[0] : cid[1]);
		peer_post(&peer, (struct hr_cqe){ .sqhd = row[i].sqhd,
						  .sqid = row[i].sqid,
						  .cid = (uint16_t)(base ^ row[i].cid_xor) });
		cr_expect_eq(qprun->reap(&qp, &done), row[i].outcome == ODD, "%s: credited",
			     row[i].what);
		cr_expect_eq(qp.error, row[i].outcome == BREAKS ? -EPROTO : 0, "%s", row[i].what);
		cr_expect_eq(qp.stats.stray, row[i].outcome == STRAY, "%s", row[i].what);
		cr_expect_eq(qp.stats.late, row[i].outcome == LATE, "%s", row[i].what);
		cr_expect_eq(qp.stats.odd, row[i].outcome == ODD, "%s", row[i].what);
		cr_expect_eq(hr_qp_outstanding(&qp), row[i].outcome != ODD, "%s", row[i].what);
		peer_fini(&peer);
	}
}

/* Move an idle queue of 8 to position 6, then send commands over the wrap. */
static void start_before_wrap(int *cid)
{
	struct hr_completion done;

	peer_init(&peer, &qp, 8, TIMEOUT_NS);
	for (uint32_t i = 0; i < 6; i++) {
		send(1, NULL);
		peer_fetch(&peer);
		peer_complete(&peer, 0, 0);
		cr_assert_eq(qprun->reap(&qp, &done), 1u);
	}
	send(3, cid);
}

Test(queue, sqhd_is_checked_over_the_wrap)
{
	static const struct {
		uint16_t sqhd;
		bool good, odd;
	} row[] = { { 6, true, false },	 { 7, true, false },  { 0, true, false },
		    { 1, true, false },	 { 2, true, true },   { 5, true, true },
		    { 8, false, false }, { 9, false, false }, { 0xffff, false, false } };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_completion done;
		int cid[3];

		start_before_wrap(cid);
		peer_post(&peer, (struct hr_cqe){
					 .sqhd = row[i].sqhd, .sqid = 3, .cid = (uint16_t)cid[0] });
		cr_expect_eq(qprun->reap(&qp, &done), row[i].good, "SQHD %u", row[i].sqhd);
		cr_expect_eq(qp.error, row[i].good ? 0 : -EPROTO, "SQHD %u", row[i].sqhd);
		cr_expect_eq(qp.stats.odd, row[i].odd, "SQHD %u", row[i].sqhd);
		peer_fini(&peer);
	}
}

Test(queue, no_completion_is_reaped_from_an_abandoned_queue)
{
	struct hr_completion done;

	peer_init(&peer, &qp, 8, TIMEOUT_NS);
	send(1, NULL);
	peer_fetch(&peer);
	peer_complete(&peer, 0, 0);
	hr_qp_fail(&qp, -ETIMEDOUT);
	cr_expect_eq(qprun->reap(&qp, &done), 0u);
	cr_expect_eq(push(0), -ETIMEDOUT);
	peer_fini(&peer);
}

Test(queue, the_text_of_a_broken_queue_names_the_broken_rule)
{
	static const struct {
		struct hr_cqe cqe;
		const char *want;
	} row[] = {
		{ { .sqhd = 1, .sqid = 9 }, "CQE 0: SQID 9 is not 3" },
		{ { .sqhd = 1, .sqid = 3, .cid = 0xff0f }, "CQE 0: CID ff0f was never sent" },
		{ { .sqhd = 8, .sqid = 3 }, "CQE 0: SQHD 8 is outside of the ring of 8 entries" },
	};
	char text[80];

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_completion done;

		peer_init(&peer, &qp, 8, TIMEOUT_NS);
		cr_expect_str_eq(hr_qp_error_text(&qp, text, sizeof(text)), "not broken");
		send(1, NULL);
		peer_post(&peer, row[i].cqe);
		cr_assert_eq(qprun->reap(&qp, &done), 0u);
		cr_expect_str_eq(hr_qp_error_text(&qp, text, sizeof(text)), row[i].want);
		hr_qp_fail(&qp, -ETIMEDOUT);
		cr_expect_str_eq(hr_qp_error_text(&qp, text, sizeof(text)), "given up");
		peer_fini(&peer);
	}
}

Test(queue, a_broken_queue_only_expires)
{
	struct hr_completion done;
	int cid[2];

	peer_init(&peer, &qp, 8, TIMEOUT_NS);
	send(2, cid);
	cr_assert_geq(push(2), 0);
	peer_post(&peer, (struct hr_cqe){ .sqhd = 8, .sqid = 3, .cid = (uint16_t)cid[0] });
	cr_assert_eq(qprun->reap(&qp, &done), 0u);
	cr_assert_eq(qp.error, -EPROTO);
	cr_expect_eq(push(3), -EPROTO);
	cr_expect_eq(hr_qp_free_commands(&qp), 0u);
	qprun->ring(&qp);
	cr_expect_eq(peer.sq_doorbell, 2u, "rung when broken");
	peer_post(&peer, (struct hr_cqe){ .sqhd = 2, .sqid = 3, .cid = (uint16_t)cid[1] });
	cr_expect_eq(qprun->reap(&qp, &done), 0u);
	cr_expect(qprun->expire(&qp, START_NS + TIMEOUT_NS, &done));
	cr_expect(qprun->expire(&qp, START_NS + TIMEOUT_NS, &done));
	cr_expect(!qprun->expire(&qp, START_NS + TIMEOUT_NS, &done), "never sent");
	peer_fini(&peer);
}

Test(queue, a_command_without_a_doorbell_is_never_credited)
{
	struct hr_completion done;
	int cid;

	peer_init(&peer, &qp, 8, TIMEOUT_NS);
	cid = push(7);
	peer_post(&peer, (struct hr_cqe){ .sqid = 3, .cid = (uint16_t)cid });
	cr_expect_eq(qprun->reap(&qp, &done), 0u);
	cr_expect_eq(qp.stats.stray, 1u);
	qprun->ring(&qp);
	peer_fetch(&peer);
	peer_complete(&peer, 0, 0);
	cr_assert_eq(qprun->reap(&qp, &done), 1u);
	cr_expect_eq(done.token, 7u);
	peer_fini(&peer);
}

Test(queue, a_deadline_passes_exactly_once_and_quarantines_the_command)
{
	struct hr_completion done;
	int cid[3];

	peer_init(&peer, &qp, 4, TIMEOUT_NS);
	send(2, cid);
	fake_clock_advance(1000);
	cid[2] = push(2);
	qprun->ring(&qp);
	cr_expect(!qprun->expire(&qp, START_NS + TIMEOUT_NS - 1, &done));
	cr_expect_eq(qp.next_scan_ns, START_NS + TIMEOUT_NS - 1 + TIMEOUT_NS / 8);
	cr_expect(!qprun->expire(&qp, START_NS + TIMEOUT_NS, &done), "scans each timeout / 8 only");
	fake_clock_advance(TIMEOUT_NS);
	memset(&done, 0xff, sizeof done);
	cr_assert(qprun->expire(&qp, START_NS + TIMEOUT_NS + TIMEOUT_NS / 8 - 1, &done));
	cr_expect_eq(done.cid, cid[0]);
	cr_expect_eq(done.token, 0u);
	cr_expect(!done.dw0 && !done.status && !done.dnr && !done.crd, "no completion");
	cr_assert(qprun->expire(&qp, START_NS + TIMEOUT_NS + TIMEOUT_NS / 8 - 1, &done),
		  "the next one at once");
	cr_expect_eq(done.cid, cid[1]);
	cr_expect(!qprun->expire(&qp, START_NS + TIMEOUT_NS + TIMEOUT_NS / 8 - 1, &done));
	cr_expect_eq(qp.stats.lost, 2u);
	cr_expect_eq(hr_qp_outstanding(&qp), 3u, "lost commands stay taken");
	cr_expect_eq(push(9), -EAGAIN);
	peer_fetch(&peer);
	peer_complete(&peer, 0, 0);
	cr_expect_eq(qprun->reap(&qp, &done), 0u, "a lost command's completion is late");
	cr_expect_eq(qp.stats.late, 1u);
	cr_expect_eq(hr_qp_outstanding(&qp), 3u);
	peer_complete(&peer, 0, 0); /* the last of pending[] took its place: command 2 */
	cr_assert_eq(qprun->reap(&qp, &done), 1u);
	cr_expect_eq(done.cid, cid[2]);
	cr_expect_eq(hr_qp_free_commands(&qp), 1u);
	peer_fini(&peer);
}
