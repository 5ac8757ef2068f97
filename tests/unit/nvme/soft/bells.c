/*
 * A software controller without threads, step by step: its doorbells one by one, the options in its
 * health log, and the memory that it takes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nvme/soft/internal.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define BUS 0x100000000ull

static unsigned allocations, fails_at; /* of aligned_alloc(), from 1; 0: none fails */

void *aligned_alloc(size_t alignment, size_t bytes)
{
	void *memory = NULL;

	if (++allocations == fails_at)
		return NULL;
	return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static struct soft *soft;
static struct hr_sqe ring[64];
static struct hr_cqe cring[64];
static uint8_t page[HR_PAGE] __attribute__((aligned(HR_PAGE)));

static void start(struct hr_soft_options options)
{
	options.block_bytes = 4096;
	options.mdts = 8;
	options.threads = options.threads ? options.threads : 1;
	options.bytes = 1 << 20;
	cr_assert_eq(soft_new(&soft, &options, test_error()), 0, "%s", test_error_text());
	soft->window[0] = (struct soft_window){ BUS, sizeof page, page, false };
}

static void finish(void)
{
	if (soft)
		soft_delete(soft);
	soft = NULL;
}

TestSuite(soft_bells, .fini = finish, .timeout = 60);

static uint32_t *bell(uint32_t qid, bool cq)
{
	return (uint32_t *)(void *)(soft->bar + 0x1000 +
				    (2 * qid + cq) * (4u << soft->options.dstrd));
}

/* Each doorbell of a queue that does not exist is reported by itself, set to 0, and no other one. */
Test(soft_bells, a_bell_without_a_queue_is_reported)
{
	for (uint32_t dstrd = 0; dstrd <= 8; dstrd += 4) {
		start((struct hr_soft_options){ .dstrd = dstrd });
		soft_start_cq(soft, 3, cring, 4);
		soft_start_sq(soft, 3, 3, ring, 4);
		*bell(3, false) = *bell(3, true) = 2;
		for (uint32_t qid = 0; qid <= HR_SOFT_QUEUES; qid++)
			for (unsigned cq = 0; cq < 2; cq++) {
				const uint64_t before = soft->errors;

				if (qid == 3)
					continue;
				*bell(qid, cq) = qid % 2 ? 5 : qid % 4 ? 1 : UINT32_MAX;
				soft_scan_doorbells(soft);
				cr_assert_eq(soft->errors, before + 1, "queue %u", qid);
				cr_assert_eq(*bell(qid, cq), 0u, "queue %u", qid);
				soft_scan_doorbells(soft);
				cr_assert_eq(soft->errors, before + 1, "queue %u", qid);
			}
		cr_expect(*bell(3, false) == 2 && *bell(3, true) == 2);
		for (uint32_t qid = 0; qid <= HR_SOFT_QUEUES; qid++)
			*bell(qid, false) = *bell(qid, true) = 7;
		soft_clear_doorbells(soft);
		for (uint32_t qid = 0; qid <= HR_SOFT_QUEUES; qid++)
			cr_assert(*bell(qid, false) == 0 && *bell(qid, true) == 0, "%u", qid);
		finish();
	}
}

/* A host may write a doorbell at any time, so one without a value is not written. */
Test(soft_bells, a_bell_that_is_zero_is_only_read)
{
	start((struct hr_soft_options){ 0 });
	cr_assert_eq(mprotect(soft->bar + 0x1000, soft->bar_bytes - 0x1000, PROT_READ), 0);
	soft_scan_doorbells(soft);
	cr_expect_eq(soft->errors, 0u);
}

/*
 * The active namespace list of an identify command goes to the doorbells, as if the host wrote them
 * meanwhile: the tail of queue 0 is 1 then. A later doorbell value may use a CID again.
 */
Test(soft_bells, a_cid_may_come_again_with_the_next_value_of_a_bell)
{
	start((struct hr_soft_options){ 0 });
	soft->running = true;
	soft->window[0] = (struct soft_window){ BUS, HR_PAGE, soft->bar + 0x1000, false };
	soft_start_cq(soft, 0, cring, 16);
	soft_start_sq(soft, 0, 0, ring, 4);
	for (uint16_t i = 0; i < 4; i++)
		ring[i] = (struct hr_sqe){ .opcode = nvme_admin_get_features,
					   .cid = (uint16_t)(7 + i),
					   .cdw10 = NVME_FEAT_FID_ARBITRATION };
	*bell(0, false) = 3;
	cr_expect(soft_admin_poll(soft->poller));
	ring[0].cid = 10;
	ring[3] = (struct hr_sqe){ .opcode = nvme_admin_identify,
				   .cid = 10,
				   .prp1 = BUS,
				   .cdw10 = NVME_IDENTIFY_CNS_NS_ACTIVE_LIST };
	*bell(0, false) = 0;
	cr_expect(soft_admin_poll(soft->poller));
	cr_expect_eq(*bell(0, false), 1u);
	cr_expect_eq(soft->cq[0].tail, 5u);
	for (unsigned i = 0; i < 5; i++)
		cr_expect_eq(cring[i].status >> 1, 0u, "command %u: %04x", i, cring[i].status);
	cr_expect_eq(cring[3].cid, 10);
	cr_expect_eq(cring[4].cid, 10);
}

/* The completions of the request and of the abort command need two entries. */
Test(soft_bells, a_request_for_an_event_is_aborted_with_room_for_both_completions)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_abort_cmd, .cdw10 = 23u << 16 };

	for (uint32_t posted = 0; posted < 5; posted++) {
		const bool fits = posted < 3;
		uint32_t dw0 = 7;

		start((struct hr_soft_options){ 0 });
		soft_start_cq(soft, 0, cring, 5);
		soft_start_sq(soft, 0, 0, ring, 8);
		soft->aer[0] = 23;
		soft->aers = 1;
		soft->cq[0].tail = posted;
		cr_expect_eq(soft_admin(soft, &sqe, &dw0), 0, "%u posted", posted);
		cr_expect_eq(dw0, !fits, "%u posted: %u", posted, dw0);
		cr_expect_eq(soft->aers, !fits, "%u posted", posted);
		cr_expect_eq(soft->cq[0].tail, posted + fits, "%u posted", posted);
		finish();
	}
}

Test(soft_bells, a_queue_begins_with_its_bells_at_zero)
{
	start((struct hr_soft_options){ 0 });
	for (uint32_t qid = 1; qid <= 3; qid++)
		*bell(qid, false) = *bell(qid, true) = 7;
	soft_start_cq(soft, 2, cring, 8);
	cr_expect(*bell(2, true) == 0 && *bell(2, false) == 7);
	soft_start_sq(soft, 2, 2, ring, 16);
	cr_expect_eq(*bell(2, false), 0u);
	cr_expect(*bell(1, true) == 7 && *bell(1, false) == 7 && *bell(3, true) == 7);
	cr_expect(soft->cq[2].phase == 1 && soft->cq[2].users == 1 && soft->cq[2].entries == 8);
	cr_expect(soft->sq[2].entries == 16 && soft->sq[2].cqid == 2 &&
		  soft->sq[2].hint == soft->window);
	soft_start_sq(soft, 1, 2, ring, 16);
	cr_expect_eq(soft->cq[2].users, 2u);
	cr_expect_eq(soft->cq[1].users, 0u);
}

/* A tail or head outside of the queue is reported once, and ignored. */
Test(soft_bells, commands_are_ready_while_their_completions_have_room)
{
	static const struct {
		uint32_t tail, head, posted; /* bells, and the tail of the CQ */
		uint32_t ready, errors;
	} row
		[] = {
			{ 0, 0, 0, 0, 0 }, { 1, 0, 0, 1, 0 },
			{ 7, 0, 0, 4, 0 }, /* a CQ of 5 entries has room for 4 */
			{ 7, 0, 3, 1, 0 }, { 7, 0, 4, 0, 0 },
			{ 7, 3, 4, 3, 0 }, { 7, 4, 4, 4, 0 },
			{ 8, 0, 0, 0, 1 }, { UINT32_MAX, 0, 0, 0, 1 },
			{ 7, 4, 3, 1, 1 }, /* more was consumed than posted */
			{ 7, 5, 4, 0, 1 }, { 9, 9, 2, 0, 2 },
		};

	start((struct hr_soft_options){ 0 });
	for (size_t i = 0; i < ROWS(row); i++) {
		const uint64_t before = soft->errors;

		soft_start_cq(soft, 1, cring, 5);
		soft_start_sq(soft, 1, 1, ring, 8);
		soft->cq[1].tail = row[i].posted;
		*bell(1, false) = row[i].tail;
		*bell(1, true) = row[i].head;
		cr_expect_eq(soft_ready(soft, &soft->sq[1]), row[i].ready, "row %zu", i);
		cr_expect_eq(soft->errors, before + row[i].errors, "row %zu", i);
		cr_expect_eq(soft_ready(soft, &soft->sq[1]), row[i].ready, "row %zu", i);
		cr_expect_eq(soft->errors, before + row[i].errors, "row %zu: reported once", i);
	}
	/* both go around: the tail is before the head */
	soft->sq[1].head = 6;
	*bell(1, false) = 1;
	soft->cq[1].head = soft->cq[1].bell.seen = *bell(1, true) = 4;
	soft->cq[1].tail = 1;
	cr_expect_eq(soft_ready(soft, &soft->sq[1]), 2u);
	*bell(1, true) = 0;
	cr_expect_eq(soft_ready(soft, &soft->sq[1]), 3u);
}

/* ---- the health log */

static const struct nvme_smart_log *health(void)
{
	const struct hr_sqe sqe = { .opcode = nvme_admin_get_log_page,
				    .nsid = NVME_NSID_ALL,
				    .prp1 = BUS,
				    .cdw10 = 127u << 16 | NVME_LOG_LID_SMART };

	memset(page, 0xff, sizeof page);
	cr_assert_eq(soft_get_log(soft, &sqe), 0);
	return (const void *)page;
}

Test(soft_bells, the_health_log_has_what_the_options_say)
{
	static const struct {
		struct hr_soft_options options;
		uint8_t spare, used, critical;
		uint16_t kelvin;
	} row[] = {
		{ { .kelvin = 0 }, 100, 0, 0, 300 },
		{ { .spare_gone = 90, .used = 7, .kelvin = 342 }, 10, 7, 0, 342 },
		{ { .spare_gone = 91, .used = 255, .kelvin = 343 }, 9, 255, 3, 343 },
		{ { .spare_gone = 100, .used = 100, .kelvin = 600 }, 0, 100, 3, 600 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct nvme_smart_log *log;

		start(row[i].options);
		soft_features_reset(soft);
		log = health();
		cr_expect_eq(log->avail_spare, row[i].spare, "row %zu", i);
		cr_expect_eq(log->spare_thresh, 10);
		cr_expect_eq(log->percent_used, row[i].used, "row %zu", i);
		cr_expect_eq(log->critical_warning, row[i].critical, "row %zu: %u", i,
			     log->critical_warning);
		cr_expect_eq(log->temperature[0] | log->temperature[1] << 8, row[i].kelvin);
		cr_expect_eq(log->host_reads[0], 0);
		finish();
	}
}

/* Counters of all threads; data in units of 1,000 blocks of 512 bytes, rounded up. */
Test(soft_bells, the_health_log_adds_up_the_threads)
{
	start((struct hr_soft_options){ .threads = 3 });
	for (uint32_t i = 0; i < 3; i++)
		soft->poller[i].stats = (struct hr_soft_stats){ .reads = 1 + i,
								.writes = 10 + i,
								.read_bytes = 512000 * (i == 2),
								.written_bytes = i == 1 };
	cr_expect_eq(health()->host_reads[0], 6);
	cr_expect_eq(health()->host_writes[0], 33);
	cr_expect_eq(health()->data_units_read[0], 1);
	cr_expect_eq(health()->data_units_written[0], 1);
	soft->poller[0].stats.read_bytes = 1;
	soft->poller[0].stats.written_bytes = 512000;
	cr_expect_eq(health()->data_units_read[0], 2);
	cr_expect_eq(health()->data_units_written[0], 2);
}

/* ---- memory */

Test(soft_bells, memory_that_is_missing_is_an_error)
{
	const struct hr_soft_options options = {
		.block_bytes = 512, .threads = 2, .mdts = 1, .bytes = 4096
	};

	for (fails_at = 1; fails_at <= 2; fails_at++) {
		struct soft *made = NULL;

		allocations = 0;
		cr_expect_eq(soft_new(&made, &options, test_error()), -ENOMEM);
		cr_expect_eq(allocations, fails_at);
		cr_expect_str_eq(test_error_text(),
				 fails_at == 1 ? "soft: out of memory"
					       : "soft: cannot set up the controller: Cannot "
						 "allocate memory",
				 "%s", test_error_text());
		cr_expect_null(made);
	}
	fails_at = 0;
}
