/* A single request to an I/O worker with one lane: when it is taken by itself, and all that its way
 * changes. The texts are of tests/harness/io_rig.h; io_one_lanes.c has workers of several lanes. */
#include <criterion/criterion.h>
#include <string.h>

#include "cache/page_policy.h"
#include "tests/harness/io_rig.h"

TestSuite(io_one, .fini = io_rig_down, .timeout = 60);

#define OTHERS 100u /* tag of a page of no request in way 0 */
#define SET 10u

static uint32_t page, next_page; /* of object 0 in SET, and in the next set */

/* All objects are on one ssd. */
static void up(bool staging)
{
	io_rig_up(&(struct io_rig_shape){ .staging = staging });
	RIG->access.ssds = 1;
	RIG->access.queue_of[0] = 0;
	page = io_rig_page(SET, 0);
	next_page = io_rig_page(SET + 1, 0);
}

static void fill(uint32_t first, uint32_t end, uint32_t state)
{
	for (uint32_t way = first; way < end; way++)
		RIG->m.set[SET].tag[way] = HR_PAGE_WORD(OTHERS + way, state);
}

/* The completion of the next command of the queue pair waits, with a status. */
static void completes(uint16_t status)
{
	const struct hr_nvme_qp *qp = W->qp;
	const uint16_t last = qp->free_ring[qp->free_head & qp->index_mask];

	peer_post(&RIG->peer[0], (struct hr_cqe){ .sqhd = (uint16_t)(qp->sq_tail + 1),
						  .sqid = qp->id,
						  .cid = (uint16_t)(last + qp->index_mask + 1),
						  .status = (uint16_t)(status << 1) });
}

/* Two pages, one after the other, into a frame whose page has left and into a free one. */
static void reads(bool staging, const char *one, const char *two)
{
	up(staging);
	memset(RIG->m.staging, 0x44, sizeof RIG->m.staging);
	fill(0, 5, HR_PAGE_READY);
	io_rig_leave(SET, 5, IO_RIG_EPOCH);
	io_rig_leave(SET, 6, IO_RIG_EPOCH + 1);
	W->lag = 20;
	io_rig_request(page, 0);
	completes(0);
	STEP(hr_io_one(W), one);
	io_rig_request(99, 0);
	completes(0);
	STEP(hr_io_one(W), two);
}

Test(io_one, a_page_is_read_and_ready)
{
	reads(false,
	      "= 4 w.taken 0>1 w.told 0>1 w.moved_ns 0>1000000000 w.lag 20>12 count.requests "
	      "0>1 count.reads 0>1 count.read_commands 0>1 count.serves 0>1 count.settles 0>1 "
	      "ring1.taken 1 s10.5 LEFT@40>READY p37 s10.recency 0>20 q0 #0 op2 n7 L1296+8 "
	      "F75 q0 rung",
	      "= 4 w.taken 1>2 w.told 1>2 w.lag 12>4 count.requests 1>2 count.reads 1>2 "
	      "count.read_commands 1>2 count.serves 1>2 count.settles 1>2 ring1.taken 2 s9.6 "
	      "FREE>READY p99 s9.recency 0>40 q0 #0 op2 n7 L1792+1 F69 q0 rung");
	io_rig_down();
	reads(true,
	      "= 4 w.taken 0>1 w.told 0>1 w.moved_ns 0>1000000000 w.lag 20>12 count.requests "
	      "0>1 count.reads 0>1 count.read_commands 0>1 count.serves 0>1 count.settles 0>1 "
	      "ring1.taken 1 s10.5 LEFT@40>READY p37 s10.recency 0>20 q0 #0 op2 n7 L1296+8 "
	      "S15 q0 rung F75 = 68",
	      "= 4 w.taken 1>2 w.told 1>2 w.lag 12>4 count.requests 1>2 count.reads 1>2 "
	      "count.read_commands 1>2 count.serves 1>2 count.settles 1>2 ring1.taken 2 s9.6 "
	      "FREE>READY p99 s9.recency 0>40 q0 #0 op2 n7 L1792+1 S15 q0 rung F69 = 68");
}

Test(io_one, a_read_that_takes_long_is_left_to_the_next_rounds)
{
	up(false);
	io_rig_request(136, 0);
	STEP(hr_io_one(W),
	     "= 3 w.unused 8>7 w.sent 0>1 w.taken 0>1 w.told 0>1 w.object 0>1 unused [0 1 2 "
	     "3 4 5 6] count.requests 0>1 count.reads 0>1 count.read_commands 0>1 "
	     "count.serves 0>1 ring1.taken 1 s10.6 FREE>READING p136 s10.recency 0>40 c7 "
	     "SENT page 136+1 read [6] q0 #7 op2 n8 L5008+1 F76 q0 rung");
	STEP(hr_io_one(W), "= 0");
	io_rig_complete(0, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 7>8 w.sent 1>0 w.moved_ns 0>1000000000 unused [0 1 2 3 4 5 6 7] "
	     "count.settles 0>1 s10.6 READING p136>READY p136 c7 UNUSED at 0>1");
	io_rig_request(page, 0);
	completes(0x281);
	STEP(hr_io_one(W),
	     "= 3 w.unused 8>7 w.sent 0>1 w.taken 1>2 w.told 1>2 w.object 1>0 unused [0 1 2 "
	     "3 4 5 6] count.requests 1>2 count.reads 1>2 count.read_commands 1>2 "
	     "count.serves 1>2 ring1.taken 2 s10.5 FREE>READING p37 s10.recency 40>60 c7 "
	     "SENT page 37+1 read [5] at 1>0 q0 #7 op2 n7 L1296+8 F75 q0 rung");
}

/* When no other way is free or leaves, a page leaves. */
Test(io_one, the_last_frame_makes_another_page_leave)
{
	up(false);
	fill(0, 6, HR_PAGE_READY);
	io_rig_request(page, 0);
	completes(0);
	STEP(hr_io_one(W),
	     "= 4 w.taken 0>1 w.told 0>1 w.moved_ns 0>1000000000 count.requests 0>1 "
	     "count.reads 0>1 count.read_commands 0>1 count.evictions 0>1 count.serves 0>1 "
	     "count.settles 0>1 ring1.taken 1 s10.0 READY p94>LEFT@42 s10.6 FREE>READY p37 "
	     "s10.recency 0>140 q0 #0 op2 n7 L1296+8 F76 q0 rung");
	io_rig_down();
	up(false);
	fill(1, 6, HR_PAGE_READY);
	io_rig_leave(SET, 0, IO_RIG_EPOCH + 2);
	io_rig_request(page, 0);
	completes(0);
	STEP(hr_io_one(W),
	     "= 4 w.taken 0>1 w.told 0>1 w.moved_ns 0>1000000000 count.requests 0>1 "
	     "count.reads 0>1 count.read_commands 0>1 count.serves 0>1 count.settles 0>1 "
	     "ring1.taken 1 s10.6 FREE>READY p37 s10.recency 0>40 q0 #0 op2 n7 L1296+8 F76 "
	     "q0 rung");
}

Test(io_one, changes_of_shared_words_end_the_wait)
{
	up(false);
	STEP(hr_io_one(W), "= 1");
	io_rig_request(page, 0);
	RIG->m.ring[1].entry[0] = hr_request_entry(HR_REQUESTS, page); /* of another lap */
	STEP(hr_io_one(W), "= 1");
}

/* What the worker has to do besides. */
static void no_cause(void)
{
}

static void more_ssds(void)
{
	RIG->access.ssds = 2;
}

static void larger_pages(void)
{
	RIG->access.cache.shape.page_shift = 13;
}

static void a_command_is_sent(void)
{
	W->sent = 1;
}

static void a_command_is_used(void)
{
	W->unused--;
}

static void a_page_should_leave(void)
{
	W->room = true;
}

static void a_page_waits(void)
{
	W->waiting = 1;
}

static void a_command_is_unsent(void)
{
	W->unsent = 1;
}

static void a_flush_goes_on(void)
{
	W->flush_step = HR_IO_FLUSH_OTHERS;
}

static void a_row_is_urgent(void)
{
	W->urgent = 0;
}

static void compute_has_ended(void)
{
	W->ended = true;
}

static void the_run_stops(void)
{
	W->stopped = true;
}

static void the_queue_is_used(void)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_read };

	cr_assert_geq(hr_qp_push(W->qp, true, &sqe, 99), 0);
}

static void the_queue_is_broken(void)
{
	W->qp->broken = -EPROTO;
}

static void the_page_is_cached(void)
{
	io_rig_put(page, 0, HR_PAGE_READING);
}

static void the_page_has_an_error(void)
{
	io_rig_put(page, 6, HR_PAGE_ERROR);
}

static void another_request_waits(void)
{
	io_rig_request(next_page, 0);
}

static void all_of_the_page_is_written(void)
{
	RIG->m.ring[1].entry[0] |= HR_REQUEST_WHOLE;
}

static void the_page_is_written(void)
{
	RIG->m.ring[1].entry[0] |= HR_REQUEST_WRITE;
}

static void it_is_no_page(void)
{
	RIG->m.ring[1].entry[0] = hr_request_entry(0, 100);
}

static void all_frames_are_used(void)
{
	fill(0, HR_WAYS, HR_PAGE_READY);
	RIG->m.set[SET].tag[3] = HR_PAGE_WORD(IO_RIG_EPOCH + 1, HR_PAGE_LEFT);
	RIG->m.set[SET].tag[4] = HR_PAGE_WORD(OTHERS, HR_PAGE_OFFERED);
}

static void the_page_left(void)
{
	RIG->m.set[SET].tag[6] =
		HR_PAGE_WORD(hr_page_position_of(&RIG->access.cache.shape, page).tag, HR_PAGE_FREE);
}

Test(io_one, other_work_and_other_requests_are_left_to_batches)
{
	static void (*const cause[])(void) = {
		more_ssds,
		larger_pages,
		a_command_is_sent,
		a_command_is_used,
		a_page_should_leave,
		a_page_waits,
		a_command_is_unsent,
		a_flush_goes_on,
		a_row_is_urgent,
		compute_has_ended,
		the_run_stops,
		the_queue_is_used,
		the_queue_is_broken,
		the_page_is_cached,
		the_page_has_an_error,
		another_request_waits,
		all_of_the_page_is_written,
		the_page_is_written,
		it_is_no_page,
		all_frames_are_used,
	};
	static void (*const none[])(void) = { no_cause, the_page_left };

	for (uint32_t i = 0; i < sizeof cause / sizeof *cause; i++) {
		up(i % 2);
		io_rig_request(page, 0);
		cause[i]();
		io_rig_keep();
		cr_expect_eq(hr_io_one(W), HR_IO_ONE_NOT, "cause %u", i);
		io_rig_expect(0, "= 0", __FILE__, __LINE__);
		io_rig_down();
	}
	for (uint32_t i = 0; i < sizeof none / sizeof *none; i++) {
		up(i % 2);
		io_rig_request(page, 0);
		none[i]();
		cr_expect_eq(hr_io_one(W), HR_IO_ONE_BEGUN);
		io_rig_down();
	}
	up(false);
}

/* The first poll comes sooner when it finds the completion. */
Test(io_one, the_lag_falls_when_the_first_poll_finds_the_completion)
{
	static const uint32_t lag[] = { 20, 12, 4, 0, 0 };

	up(false);
	W->lag = 28;
	for (uint32_t i = 0; i < 5; i++) {
		io_rig_request(io_rig_page(SET + i, 1), 0);
		completes(0);
		cr_expect_eq(hr_io_one(W), HR_IO_ONE_DONE);
		cr_expect_eq(W->lag, lag[i], "%u: %u", i, W->lag);
	}
}
