/* Write-back of an I/O worker: which dirty pages it writes, and the steps of a flush. The texts are of
 * tests/harness/io_rig.h. */
#include "gpu/worker/io_writeback.c" /* its steps; the library's copy is not linked */

#include <criterion/criterion.h>
#include <string.h>

#include "nvme/retry.h"
#include "nvme/status.h"
#include "tests/harness/io_rig.h"

#define NS_NOT_READY 0x82u /* temporary */
#define INTERNAL 0x06u	   /* the same, with a maximum number of tries */
#define MEDIA 0x281u
#define DNR 0x4000u
#define OTHERS 100u

TestSuite(io_writeback, .fini = io_rig_down, .timeout = 60);

static const struct io_rig_shape plain = { 0 }, first = { .first = true };

/* A page in way `page % 7`. */
static void put(uint32_t page, uint32_t state)
{
	io_rig_put(page, page % HR_WAYS, state);
}

/* Other pages in so many ways of a set, from 0 on. */
static void fill(uint32_t set, uint32_t ways, uint32_t state)
{
	for (uint32_t way = 0; way < ways; way++)
		RIG->m.set[set].tag[way] = HR_PAGE_WORD(OTHERS + way, state);
}

/* ---- the sweep */

Test(io_writeback, a_row_is_looked_at_after_the_other)
{
	io_rig_up(&plain);
	STEP(hr_io_writeback(W, true), "= 0 w.row 1>3");
	STEP(hr_io_writeback(W, true), "= 0 w.row 3>1");
	STEP(hr_io_writeback(W, false), "= 0 w.row 1>3");
	W->role.cost.rounds = 15;
	STEP(hr_io_writeback(W, false), "= 0");
	W->role.cost.rounds = 32;
	STEP(hr_io_writeback(W, false), "= 0 w.row 3>1");
	W->row = 4; /* of a worker without rows */
	STEP(hr_io_writeback(W, true), "= 0");
}

/* Frames of pages that left, and of epochs that have passed, become FREE. */
Test(io_writeback, frames_that_all_have_given_up_are_free)
{
	io_rig_up(&plain);
	io_rig_leave(8, 0, IO_RIG_EPOCH);
	io_rig_leave(8, 6, IO_RIG_EPOCH + 1);
	io_rig_leave(15, 3, 7);
	RIG->m.set[9].tag[2] = HR_PAGE_WORD(IO_RIG_EPOCH, HR_PAGE_LEFT | HR_PAGE_SHARED);
	io_rig_leave(16, 1, IO_RIG_EPOCH);
	STEP(hr_io_writeback(W, true), "= 0 w.row 1>3 s8.0 LEFT@40>FREE s15.3 LEFT@7>FREE");
	W->unread = true;
	W->row = 1;
	STEP(hr_io_writeback(W, true), "= 0 w.row 1>3 s8.6 LEFT@41>FREE");
}

/* Pages 35 .. 39 are in sets 8 .. 12 of row 1, pages 95 and 88 .. 94 in its sets 8 .. 15. */
Test(io_writeback, sets_with_few_clean_frames_are_written_with_their_neighbours)
{
	io_rig_up(&plain);
	put(35, HR_PAGE_DIRTY);
	put(36, HR_PAGE_DIRTY);
	put(37, HR_PAGE_READY);
	put(38, HR_PAGE_DIRTY);
	put(95, HR_PAGE_DIRTY);
	put(88, HR_PAGE_DIRTY);
	STEP(hr_io_writeback(W, true), "= 0 w.row 1>3");
	W->row = 1;
	/* with the page that it has, four frames of set 11 are busy, then five */
	fill(11, 2, HR_PAGE_READING);
	RIG->m.set[11].tag[6] = HR_PAGE_WORD(OTHERS, HR_PAGE_WRITING);
	STEP(hr_io_writeback(W, true), "= 0 w.row 1>3");
	W->row = 1;
	RIG->m.set[11].tag[5] = HR_PAGE_WORD(OTHERS, HR_PAGE_REDIRTY);
	STEP(hr_io_writeback(W, true),
	     "= 1 w.unused 8>6 w.unsent 0>2 w.row 1>3 w.flush_again 0>1 w.writing[0] 0>2 "
	     "unused [0 1 2 3 4 5] count.write_commands 0>2 s8.0 DIRTY p35>WRITING p35 s9.1 "
	     "DIRTY p36>WRITING p36 s11.3 DIRTY p38>WRITING p38 c6 SETTLING page 38+1 write "
	     "[3] until 0>42 c7 SETTLING page 35+2 write [01] until 0>42");
}

Test(io_writeback, shared_pages_that_are_dirty_are_written_for_other_gpus)
{
	io_rig_up(&plain);
	put(35, HR_PAGE_DIRTY);
	put(36, HR_PAGE_DIRTY | HR_PAGE_SHARED);
	put(95, HR_PAGE_DIRTY);
	STEP(hr_io_writeback(W, true),
	     "= 1 w.unused 8>7 w.unsent 0>1 w.row 1>3 w.writing[0] 0>1 unused [0 1 2 3 4 5 "
	     "6] count.write_commands 0>1 s8.0 DIRTY p35>WRITING p35 s9.1 DIRTY+ "
	     "p36>WRITING+ p36 c7 SETTLING page 35+2 write [01] until 0>42");
}

Test(io_writeback, an_urgent_row_comes_before_the_sweep)
{
	io_rig_up(&plain);
	fill(26, 4, HR_PAGE_WRITING);
	put(io_rig_page(26, 0), HR_PAGE_DIRTY);
	W->urgent = 3;
	STEP(hr_io_writeback(W, false),
	     "= 1 w.unused 8>7 w.unsent 0>1 w.urgent 3>4294967295 w.writing[0] 0>1 unused [0 "
	     "1 2 3 4 5 6] count.write_commands 0>1 s26.5 DIRTY p26>WRITING p26 c7 SETTLING "
	     "page 26+1 write [5] until 0>42");
	STEP(hr_io_writeback(W, false), "= 0 w.row 1>3");
}

/* Half of the commands are for writes; all after the last compute worker. */
Test(io_writeback, so_many_commands_write)
{
	static const struct {
		uint32_t commands, writing[2], asked, unused;
		bool ended;
		uint32_t begun;
	} row[] = {
		{ 8, { 0, 0 }, 0, 8, false, 4 }, { 7, { 0, 0 }, 0, 7, false, 4 },
		{ 8, { 1, 2 }, 0, 5, false, 1 }, { 8, { 2, 2 }, 0, 4, false, 0 },
		{ 8, { 3, 2 }, 0, 3, false, 0 }, { 8, { 0, 0 }, 0, 8, true, 8 },
		{ 8, { 0, 0 }, 0, 3, false, 3 }, { 8, { 0, 0 }, 6, 8, true, 2 },
		{ 1, { 0, 0 }, 0, 1, false, 1 },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		io_rig_up(&(struct io_rig_shape){ .commands = row[i].commands, .merge = 1 });
		for (uint32_t set = 8; set < 16; set++) {
			put(io_rig_page(set, 0), HR_PAGE_DIRTY);
			put(io_rig_page(set, 1), HR_PAGE_DIRTY);
		}
		W->writing[0] = row[i].writing[0];
		W->writing[1] = row[i].writing[1];
		W->asked = row[i].asked;
		W->unused = row[i].unused;
		W->ended = row[i].ended;
		W->flush_wanted = 1;
		hr_io_writeback(W, false);
		cr_expect_eq(row[i].unused - W->unused, row[i].begun, "row %u: %u", i,
			     row[i].unused - W->unused);
		cr_expect_eq(W->writing[0], row[i].writing[0] + row[i].begun, "row %u", i);
		if (i + 1 < sizeof row / sizeof *row)
			io_rig_down();
	}
}

/* A worker writes a page again after its row was read: no part of the group is written for it. */
Test(io_writeback, a_page_that_changes_meanwhile_is_not_written)
{
	static const uint32_t changed[] = { HR_PAGE_REDIRTY, HR_PAGE_DIRTY | HR_PAGE_SHARED };

	for (uint32_t i = 0; i < sizeof changed / sizeof *changed; i++) {
		struct hr_io_batch b;
		struct io_row r;
		uint32_t tag, busy = 0;

		if (i)
			io_rig_down();
		io_rig_up(&plain);
		put(35, HR_PAGE_DIRTY);
		put(36, HR_PAGE_DIRTY);
		io_read_row(W, 1, &r);
		cr_assert(io_choose(&r, true, &tag));
		put(36, changed[i]);
		memset(&b, 0, sizeof b);
		io_mark(W, 1, &r, tag, 8, &b);
		for (uint32_t s = 0; s < HR_IO_SLICES; s++) {
			cr_expect_eq(b.page[s], b.set[s] == 8 ? 35 : HR_NO_PAGE, "set %u: page %u",
				     b.set[s], b.page[s]);
			busy += b.page[s] != HR_NO_PAGE;
		}
		cr_expect_eq(busy, 1u);
	}
}

/* With room for fewer commands than pages of the group, the first pages are written. */
Test(io_writeback, the_rest_of_a_group_is_written_later)
{
	io_rig_up(&(struct io_rig_shape){ .commands = 4 });
	for (uint32_t page = 35; page < 40; page++)
		put(page, HR_PAGE_DIRTY);
	W->flush_wanted = 5;
	STEP(hr_io_writeback(W, false),
	     "= 1 w.unused 4>2 w.unsent 0>2 w.row 1>3 w.flush_step 0>1 w.flush_row 0>1 "
	     "w.flush 0>5 w.writing[0] 0>2 unused [0 1] count.write_commands 0>2 s8.0 DIRTY "
	     "p35>WRITING p35 s9.1 DIRTY p36>WRITING p36 s10.2 DIRTY p37>WRITING p37 c2 "
	     "SETTLING page 37+1 write [2] until 0>42 c3 SETTLING page 35+2 write [01] until "
	     "0>42");
	STEP(hr_io_writeback(W, false), "= 0 w.row 3>1");
}

/* ---- flushes */

Test(io_writeback, a_flush_writes_all_rows_and_then_the_caches_of_the_ssds)
{
	io_rig_up(&first);
	put(io_rig_page(0, 0), HR_PAGE_DIRTY);
	put(io_rig_page(23, 4), HR_PAGE_DIRTY);
	put(io_rig_page(9, 0), HR_PAGE_DIRTY);
	W->flush_wanted = 3;
	STEP(hr_io_writeback(W, false),
	     "= 1 w.unused 8>6 w.unsent 0>2 w.row 0>2 w.sweep 0>1 w.flush_step 0>2 w.flush "
	     "0>3 w.writing[0] 0>2 unused [0 1 2 3 4 5] count.write_commands 0>2 s0.0 DIRTY "
	     "p0>WRITING p0 s23.2 DIRTY p170>WRITING p170 c6 SETTLING page 170+1 write [2] "
	     "until 0>42 c7 SETTLING page 0+1 write until 0>42");
	STEP(hr_io_writeback(W, false), "= 0 w.row 2>0");
	W->settled += 2;
	(void)hr_io_send_due(W);
	io_rig_complete(1, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 6>7 w.sent 2>1 w.moved_ns 0>1000000000 w.writing[0] 2>1 unused [0 "
	     "1 2 3 4 5 7] count.write_backs 0>1 count.settles 0>1 s0.0 WRITING p0>READY p0 "
	     "c7 UNUSED at 0>1");
	STEP(hr_io_writeback(W, false), "= 0 w.row 0>2");
	io_rig_complete(0, 6, 0);
	(void)hr_io_reap_all(W);
	STEP(hr_io_writeback(W, false), "= 1 w.row 2>0 w.flush_step 2>3 w.flush_left 0>3");
	RIG->m.flushed[1] = 2;
	STEP(hr_io_writeback(W, false), "= 0 w.row 0>2");
	RIG->m.flushed[1] = 3;
	STEP(hr_io_writeback(W, false),
	     "= 1 w.sent 0>2 w.row 2>0 w.flush_step 3>4 w.flush_sent 0>3 q0 #16384 op0 n8 "
	     "L0+1 q1 #16384 op0 n7 L0+1");
	STEP(hr_io_writeback(W, false), "= 0 w.row 0>2");
	io_rig_complete(1, HR_TOKEN(1, 0), 0);
	STEP(hr_io_reap_all(W), "= 1 w.sent 2>1 w.flush_left 3>1 w.flush_sent 3>1");
	STEP(hr_io_writeback(W, false), "= 0 w.row 2>0");
	io_rig_complete(0, HR_TOKEN(1, 0), 0);
	(void)hr_io_reap_all(W);
	STEP(hr_io_writeback(W, false), "= 1 w.row 0>2 w.flush_step 4>0 w.flushed 0>3 flushed0 3");
	STEP(hr_io_writeback(W, false), "= 0 w.row 2>0");
}

Test(io_writeback, other_workers_write_pages_only)
{
	io_rig_up(&plain);
	RIG->access.flush[1] = 0;
	W->flush_wanted = 3;
	STEP(hr_io_writeback(W, false),
	     "= 0 w.row 1>3 w.sweep 0>1 w.flush_row 0>1 w.flush 0>3 w.flushed 0>3 flushed1 3");
	W->ended = true;
	STEP(hr_io_writeback(W, false),
	     "= 0 w.row 3>1 w.sweep 1>0 w.flush 3>-1 w.flushed 3>-1 flushed1 -1");
	STEP(hr_io_writeback(W, false), "= 0 w.row 1>3");
	io_rig_down();
	io_rig_up(&(struct io_rig_shape){ .index = 2, .io_workers = 3, .group_shift = 4 });
	put(io_rig_page(0, 0), HR_PAGE_DIRTY);
	W->row = 2;
	W->flush_wanted = 3;
	STEP(hr_io_writeback(W, true), "= 0 w.flush_row 0>2 w.flush 0>3 w.flushed 0>3 flushed2 3");
}

Test(io_writeback, only_ssds_with_a_cache_are_flushed)
{
	io_rig_up(&first);
	RIG->access.cache.io_workers = 1;
	RIG->access.flush[0] = 0;
	W->flush_wanted = 1;
	STEP(hr_io_writeback(W, false),
	     "= 1 w.sent 0>1 w.row 0>1 w.sweep 0>1 w.flush_step 0>4 w.flush 0>1 w.flush_left "
	     "0>2 w.flush_sent 0>2 q1 #16384 op0 n7 L0+1");
	io_rig_down();
	io_rig_up(&first);
	RIG->access.cache.io_workers = 1;
	RIG->access.flush[0] = RIG->access.flush[1] = 0;
	W->flush_wanted = 1;
	STEP(hr_io_writeback(W, false),
	     "= 0 w.row 0>1 w.sweep 0>1 w.flush 0>1 w.flushed 0>1 flushed0 1");
}

/* A page that is written again during its write is DIRTY after it, so the rows are swept once more. */
Test(io_writeback, pages_that_change_during_their_write_are_written_again)
{
	io_rig_up(&plain);
	put(io_rig_page(28, 0), HR_PAGE_REDIRTY);
	W->flush_wanted = 1;
	STEP(hr_io_writeback(W, false),
	     "= 1 w.row 1>3 w.sweep 0>1 w.flush_step 0>1 w.flush_row 0>1 w.flush_again 0>2 "
	     "w.flush 0>1");
	STEP(hr_io_writeback(W, false),
	     "= 1 w.row 3>1 w.sweep 1>0 w.flush_step 1>0 w.flushed 0>1 flushed1 1");
	STEP(hr_io_writeback(W, false), "= 0 w.row 1>3");
	STEP(hr_io_writeback(W, true), "= 0 w.row 3>1");
	W->flush_wanted = 2;
	STEP(hr_io_writeback(W, false), "= 1 w.row 1>3 w.sweep 0>1 w.flush_step 0>1 w.flush 1>2");
}

/* Rows after the eighth are swept in the next round. */
Test(io_writeback, a_round_of_a_flush_sweeps_eight_rows)
{
	io_rig_up(&(struct io_rig_shape){ .flat = true });
	W->flush_wanted = 1;
	STEP(hr_io_writeback(W, false),
	     "= 1 w.row 1>3 w.flush_step 0>1 w.flush_row 0>17 w.flush 0>1");
	STEP(hr_io_writeback(W, false),
	     "= 1 w.row 3>5 w.sweep 0>1 w.flush_step 1>0 w.flush_row 17>1 w.flushed 0>1 "
	     "flushed1 1");
}

/* Writes of sweeps before, which are still on their way, do not count. */
Test(io_writeback, a_flush_waits_for_the_writes_of_its_sweep)
{
	io_rig_up(&plain);
	W->sweep = 1;
	W->writing[0] = 1;
	W->flush_wanted = 1;
	STEP(hr_io_writeback(W, false),
	     "= 0 w.row 1>3 w.sweep 1>0 w.flush_row 0>1 w.flush 0>1 w.flushed 0>1 flushed1 1");
	io_rig_down();
	io_rig_up(&plain);
	W->sweep = 1;
	W->writing[1] = 1;
	W->flush_wanted = 1;
	STEP(hr_io_writeback(W, false),
	     "= 1 w.row 1>3 w.sweep 1>0 w.flush_step 0>2 w.flush_row 0>1 w.flush 0>1");
	W->writing[1] = 0;
	STEP(hr_io_writeback(W, false), "= 1 w.row 3>1 w.flush_step 2>0 w.flushed 0>1 flushed1 1");
}

static struct hr_done done_with(uint16_t status, bool dnr, uint8_t crd)
{
	return (struct hr_done){
		.token = HR_TOKEN(1, 0), .cid = 33, .status = status, .dnr = dnr, .crd = crd
	};
}

static int flush_done(uint32_t queue, struct hr_done done)
{
	W->sent++;
	W->flush_sent |= 1u << queue;
	io_rig_keep();
	hr_io_flush_done(W, queue, &done);
	return 0;
}

static void flushing(void)
{
	io_rig_up(&first);
	RIG->access.cache.io_workers = 1;
	W->flush_step = HR_IO_FLUSH_DEVICE;
	W->flush = W->flush_wanted = 1;
	W->flush_left = 3;
	W->qp[1].crdt[2] = 3;
	W->qp[0].timeout_ns = W->qp[1].timeout_ns = HR_NS_PER_S;
}

Test(io_writeback, a_flush_that_fails_is_repeated)
{
	flushing();
	STEP(flush_done(0, done_with(NS_NOT_READY, false, 0)),
	     "= 0 w.sent 1>0 w.flush_sent 1>0 w.flush_tries 0>1 w.flush_again_ns "
	     "0>1001000000 w.flush_first_ns 0>1000000000");
	fake_clock_advance(HR_RETRY_PAUSE_NS - 1);
	STEP(hr_io_writeback(W, false), "= 0 w.row 0>1");
	fake_clock_advance(1);
	STEP(hr_io_writeback(W, false),
	     "= 0 w.sent 0>2 w.row 1>2 w.flush_sent 0>3 q0 #16384 op0 n8 L0+1 q1 #16384 op0 "
	     "n7 L0+1");
	fake_clock_advance(10);
	STEP(flush_done(1, done_with(NS_NOT_READY, false, 2)),
	     "= 0 w.sent 3>2 w.flush_sent 3>1 w.flush_tries 1>2 w.flush_again_ns "
	     "1001000000>1301000010");
	STEP(flush_done(1, done_with(0, false, 0)),
	     "= 0 w.sent 3>2 w.flush_left 3>1 w.flush_sent 3>1");
	STEP(flush_done(0, done_with(0, false, 0)),
	     "= 0 w.sent 3>2 w.flush_left 1>0 w.flush_sent 1>0");
	STEP(hr_io_writeback(W, false), "= 1 w.row 2>3 w.flush_step 4>0 w.flushed 0>1 flushed0 1");
}

Test(io_writeback, a_flush_that_cannot_succeed_ends_the_run)
{
	static const struct {
		uint32_t tries;
		uint16_t status;
		bool dnr, fails;
		uint64_t timeout_ns;
		int error;
	} row[] = {
		{ 0, MEDIA, false, true, HR_NS_PER_S, MEDIA },
		{ 0, NS_NOT_READY, true, true, HR_NS_PER_S, NS_NOT_READY },
		{ 7, INTERNAL, false, false, HR_NS_PER_S, 0 },
		{ 8, INTERNAL, false, true, HR_NS_PER_S, INTERNAL },
		{ 99, NS_NOT_READY, false, false, HR_NS_PER_S, 0 },
		{ 0, HR_STATUS_LOST, false, true, HR_NS_PER_S, -ETIMEDOUT },
		{ 0, NS_NOT_READY, false, false, HR_RETRY_PAUSE_NS, 0 },
		{ 0, NS_NOT_READY, false, true, HR_RETRY_PAUSE_NS - 1, NS_NOT_READY },
		/* the first failure was 10 ns ago */
		{ 1, NS_NOT_READY, false, false, 2 * HR_RETRY_PAUSE_NS + 10, 0 },
		{ 1, NS_NOT_READY, false, true, 2 * HR_RETRY_PAUSE_NS + 9, NS_NOT_READY },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		flushing();
		W->flush_tries = row[i].tries;
		W->flush_first_ns = IO_RIG_NOW - 10;
		W->qp[1].timeout_ns = row[i].timeout_ns;
		flush_done(1, done_with(row[i].status, row[i].dnr, 0));
		cr_expect_eq(W->role.failed, row[i].fails, "row %u", i);
		cr_expect_eq(W->role.status->failure.error, row[i].error, "row %u", i);
		cr_expect_eq(W->flush_tries, row[i].tries + !row[i].fails, "row %u", i);
		cr_expect_eq(W->flush_left, 3, "row %u", i);
		io_rig_down();
	}
	flushing();
	STEP(flush_done(1, done_with(MEDIA, false, 0)),
	     "= 0 w.stopped 0>1 w.sent 1>0 w.flush_sent 2>0 w.role.failed 0>1 words.stop 0>2 "
	     "status0 failed 0>1 failure 641 role 3 source 0 page -1 lba 0 object 0 qid 12 "
	     "cid 33 opcode 0 peer 0");
	io_rig_down();
	flushing();
	W->stopped = true;
	STEP(flush_done(1, done_with(MEDIA, false, 0)), "= 0 w.sent 1>0 w.flush_sent 2>0");
}

Test(io_writeback, a_flush_without_room_in_its_queue_comes_later)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_read };

	flushing();
	while (hr_qp_room(&W->qp[0]))
		cr_assert_geq(hr_qp_push(&W->qp[0], true, &sqe, 99), 0);
	STEP(hr_io_writeback(W, false),
	     "= 0 w.sent 0>1 w.row 0>1 w.flush_sent 0>2 q1 #16384 op0 n7 L0+1");
	io_rig_complete(0, 99, 0);
	(void)hr_qp_reap(&W->qp[0], &(struct hr_done){ 0 });
	STEP(hr_io_writeback(W, false),
	     "= 0 w.sent 1>2 w.row 1>2 w.flush_sent 2>3 q0 #16384 op0 n8 L0+1");
}
