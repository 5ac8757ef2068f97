/* Commands of an I/O worker: which pages share one, what a controller gets, and what completions,
 * failures and epochs change. The texts are of tests/harness/io_rig.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "nvme/status.h"
#include "tests/harness/io_rig.h"

#define NS_NOT_READY 0x82u /* temporary */
#define INTERNAL 0x06u	   /* the same, with a maximum number of tries */
#define MEDIA 0x281u
#define DNR 0x4000u

TestSuite(io_commands, .fini = io_rig_down, .timeout = 60);

static const struct io_rig_shape plain = { 0 };

/* A batch of pages, each with the way `page % 7`, until HR_NO_PAGE. A page + NO_WAY has none. */
#define NO_WAY 1000000u
#define BATCH(...) batch((const uint32_t[]){ __VA_ARGS__, HR_NO_PAGE })

static const struct hr_io_batch *batch(const uint32_t *page)
{
	static struct hr_io_batch b;

	memset(&b, 0, sizeof b);
	for (uint32_t s = 0; s < HR_IO_SLICES; s++)
		b.page[s] = HR_NO_PAGE;
	for (; page[b.count] != HR_NO_PAGE; b.count++) {
		const uint32_t p = page[b.count] % NO_WAY;

		b.page[b.count] = p;
		b.way[b.count] = page[b.count] < NO_WAY ? p % HR_WAYS : HR_WAYS;
	}
	return &b;
}

/* Begin to read pages, which are READING then. */
static int begin_read(const struct hr_io_batch *b)
{
	for (uint32_t i = 0; i < b->count; i++)
		io_rig_put(b->page[i], b->way[i], HR_PAGE_READING);
	hr_io_begin(W, b, nvme_cmd_read);
	return 0;
}

static int begin_write(const struct hr_io_batch *b)
{
	for (uint32_t i = 0; i < b->count; i++)
		io_rig_put(b->page[i], b->way[i], HR_PAGE_WRITING);
	hr_io_begin(W, b, nvme_cmd_write);
	return 0;
}

/* ---- pages to commands */

Test(io_commands, neighbours_of_a_group_share_a_command)
{
	io_rig_up(&plain);
	STEP((hr_io_begin(W, BATCH(17), nvme_cmd_read), 0),
	     "= 0 w.unused 8>7 w.sent 0>1 unused [0 1 2 3 4 5 6] count.reads 0>1 "
	     "count.read_commands 0>1 c7 SENT page 17+1 read [3] q1 #7 op2 n7 L1136+8 F150");
	STEP((hr_io_begin(W, BATCH(26, 24, 25, 28, 32, 31 + NO_WAY, 23), nvme_cmd_read), 0),
	     "= 0 w.unused 7>3 w.sent 1>5 unused [0 1 2] count.reads 1>7 count.read_commands "
	     "1>5 c3 SENT page 23+1 read [2] c4 SENT page 32+1 read [4] c5 SENT page 28+1 "
	     "read c6 SENT page 24+3 read [345] q1 #6 op2 n7 L1192+24 F171 list112 F179 F187 "
	     "q1 #5 op2 n7 L1224+8 F196 q1 #4 op2 n7 L1256+8 F95 q1 #3 op2 n7 L1184+8 F135");
	STEP((hr_io_begin(W, BATCH(40 + NO_WAY, 41 + NO_WAY), nvme_cmd_read), 0), "= 0");
}

Test(io_commands, a_whole_group_is_one_command)
{
	uint32_t all[33];

	io_rig_up(&plain);
	STEP((hr_io_begin(W, BATCH(63, 47, 46, 45, 44, 43, 42, 41, 40, 48), nvme_cmd_read), 0),
	     "= 0 w.unused 8>5 w.sent 0>3 unused [0 1 2 3 4] count.reads 0>10 "
	     "count.read_commands 0>3 c5 SENT page 48+1 read [6] c6 SENT page 40+8 read "
	     "[56012345] c7 SENT page 63+1 read q1 #7 op2 n7 L1504+8 F42 q1 #6 op2 n7 "
	     "L1320+64 F215 list112 F223 F168 F176 F184 F192 F200 F208 q1 #5 op2 n7 L1384+8 "
	     "F20");
	io_rig_down();
	io_rig_up(&(struct io_rig_shape){ .group_shift = 5, .merge = 32, .first = true });
	for (uint32_t s = 0; s < 32; s++)
		all[s] = 32 + s;
	all[32] = HR_NO_PAGE;
	STEP((hr_io_begin(W, batch(all), nvme_cmd_read), 0),
	     "= 0 w.unused 8>7 w.sent 0>1 unused [0 1 2 3 4 5 6] count.reads 0>32 "
	     "count.read_commands 0>1 c7 SENT page 32+32 read "
	     "[45601234560123456012345601234560] q1 #7 op2 n7 L1256+256 F25 list224 F33 F41 "
	     "F42 F50 F58 F66 F74 F82 F90 F91 F99 F107 F115 F123 F131 F139 F140 F148 F156 "
	     "F164 F172 F180 F188 F189 F197 F205 F213 F221 F5 F13 F14");
}

Test(io_commands, a_command_has_no_more_pages_than_fit)
{
	io_rig_up(&(struct io_rig_shape){ .merge = 2 });
	STEP((hr_io_begin(W, BATCH(17, 18, 19, 20, 21, 23), nvme_cmd_read), 0),
	     "= 0 w.unused 8>4 w.sent 0>4 unused [0 1 2 3] count.reads 0>6 "
	     "count.read_commands 0>4 c4 SENT page 23+1 read [2] c5 SENT page 21+1 read c6 "
	     "SENT page 19+2 read [56] c7 SENT page 17+2 read [34] q1 #7 op2 n7 L1136+16 "
	     "F150 F158 q1 #6 op2 n7 L1152+16 F166 F118 q1 #5 op2 n7 L1168+8 F119 q1 #4 op2 "
	     "n7 L1184+8 F135");
	io_rig_down();
	io_rig_up(&(struct io_rig_shape){ .merge = 1 });
	STEP((hr_io_begin(W, BATCH(17, 16), nvme_cmd_read), 0),
	     "= 0 w.unused 8>6 w.sent 0>2 unused [0 1 2 3 4 5] count.reads 0>2 "
	     "count.read_commands 0>2 c6 SENT page 16+1 read [2] c7 SENT page 17+1 read [3] "
	     "q1 #7 op2 n7 L1136+8 F150 q1 #6 op2 n7 L1128+8 F142");
}

Test(io_commands, each_object_is_on_its_ssd_and_ends_with_its_capacity)
{
	io_rig_up(&plain);
	STEP((hr_io_begin(W, BATCH(99, 98, 128, 191, 96), nvme_cmd_read), 0),
	     "= 0 w.unused 8>4 w.sent 0>4 unused [0 1 2 3] count.reads 0>5 "
	     "count.read_commands 0>4 c4 SENT page 96+1 read [5] c5 SENT page 191+1 read [2] "
	     "c6 SENT page 128+1 read [2] c7 SENT page 98+2 read [01] q0 #6 op2 n8 L5000+1 "
	     "F44 q0 #5 op2 n8 L5063+1 F79 q1 #7 op2 n7 L1784+9 F56 F64 q1 #4 op2 n7 L1768+8 "
	     "F103");
	STEP((hr_io_ring_all(W), 0), "= 0 q0 rung q1 rung");
}

Test(io_commands, pages_of_several_pieces_have_lists)
{
	io_rig_up(&(struct io_rig_shape){ .page_shift = 13, .merge = 4 });
	STEP((hr_io_begin(W, BATCH(17, 24, 25, 26, 99), nvme_cmd_read), 0),
	     "= 0 w.unused 8>5 w.sent 0>3 unused [0 1 2 3 4] count.reads 0>5 "
	     "count.read_commands 0>3 c5 SENT page 99+1 read [1] c6 SENT page 24+3 read "
	     "[345] c7 SENT page 17+1 read [3] q1 #7 op2 n7 L1272+16 F188 F189 q1 #6 op2 n7 "
	     "L1384+48 F118 list112 F119 F134 F135 F150 F151 q1 #5 op2 n7 L2584+1 F16");
	io_rig_down();
	io_rig_up(&(struct io_rig_shape){ .page_shift = 13, .merge = 4, .staging = true });
	STEP((hr_io_begin(W, BATCH(17, 24, 25, 26, 99), nvme_cmd_read), 0),
	     "= 0 w.unused 8>5 w.sent 0>3 unused [0 1 2 3 4] count.reads 0>5 "
	     "count.read_commands 0>3 c5 SENT page 99+1 read [1] c6 SENT page 24+3 read "
	     "[345] c7 SENT page 17+1 read [3] q1 #7 op2 n7 L1272+16 S30 S31 q1 #6 op2 n7 "
	     "L1384+48 S28 list112 S29 S60 S61 S92 S93 q1 #5 op2 n7 L2584+1 S26");
	io_rig_down();
	io_rig_up(&(struct io_rig_shape){ .staging = true });
	STEP((hr_io_begin(W, BATCH(17, 24, 25, 32, 33, 34), nvme_cmd_read), 0),
	     "= 0 w.unused 8>5 w.sent 0>3 unused [0 1 2 3 4] count.reads 0>6 "
	     "count.read_commands 0>3 c5 SENT page 32+3 read [456] c6 SENT page 24+2 read "
	     "[34] c7 SENT page 17+1 read [3] q1 #7 op2 n7 L1136+8 S15 q1 #6 op2 n7 L1192+16 "
	     "S14 S30 q1 #5 op2 n7 L1256+24 S13 list104 S29 S45");
}

Test(io_commands, writes_wait_for_an_epoch)
{
	io_rig_up(&plain);
	W->sweep = 1;
	STEP((hr_io_begin(W, BATCH(17, 18, 24, 130), nvme_cmd_write), 0),
	     "= 0 w.unused 8>5 w.unsent 0>3 w.writing[1] 0>3 unused [0 1 2 3 4] "
	     "count.write_commands 0>3 c5 SETTLING page 130+1 write [4] sweep 0>1 until 0>42 "
	     "c6 SETTLING page 24+1 write [3] sweep 0>1 until 0>42 c7 SETTLING page 17+2 "
	     "write [34] sweep 0>1 until 0>42");
	STEP(hr_io_send_due(W), "= 0");
	W->settled = IO_RIG_EPOCH + 1;
	STEP(hr_io_send_due(W), "= 0");
	W->settled = IO_RIG_EPOCH + 2;
	STEP(hr_io_send_due(W),
	     "= 1 w.unsent 3>0 w.sent 0>3 c5 SENT until 42>0 c6 SENT until 42>0 c7 SENT "
	     "until 42>0 q0 #5 op1 n8 L5002+1 F4 q1 #6 op1 n7 L1192+8 F171 q1 #7 op1 n7 "
	     "L1136+16 F150 F158");
	STEP(hr_io_send_due(W), "= 0");
}

Test(io_commands, writes_do_not_wait_after_the_last_compute_worker)
{
	io_rig_up(&plain);
	STEP((hr_io_begin(W, BATCH(17), nvme_cmd_write), 0),
	     "= 0 w.unused 8>7 w.unsent 0>1 w.writing[0] 0>1 unused [0 1 2 3 4 5 6] "
	     "count.write_commands 0>1 c7 SETTLING page 17+1 write [3] until 0>42");
	W->ended = true;
	STEP(hr_io_send_due(W),
	     "= 1 w.unsent 1>0 w.sent 0>1 c7 SENT until 42>0 q1 #7 op1 n7 L1136+8 F150");
	W->ended = false;
	W->unread = true;
	STEP((hr_io_begin(W, BATCH(18), nvme_cmd_write), 0),
	     "= 0 w.unused 7>6 w.unsent 0>1 w.writing[0] 1>2 unused [0 1 2 3 4 5] "
	     "count.write_commands 1>2 c6 SETTLING page 18+1 write [4] until 0>42");
	STEP(hr_io_send_due(W),
	     "= 1 w.unsent 1>0 w.sent 1>2 c6 SENT until 42>0 q1 #6 op1 n7 L1144+8 F158");
}

/* Commands of another owner fill the queue of ssd 1 but for `room`. */
static void fill_queue(uint32_t room)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_read };

	while (hr_qp_room(&W->qp[1]) > room)
		cr_assert_geq(hr_qp_push(&W->qp[1], true, &sqe, 99), 0);
}

Test(io_commands, a_command_without_room_in_its_queue_is_parked)
{
	io_rig_up(&plain);
	fill_queue(1);
	STEP((hr_io_begin(W, BATCH(17, 24, 130, 32), nvme_cmd_read), 0),
	     "= 0 w.unused 8>4 w.unsent 0>2 w.sent 0>2 unused [0 1 2 3] count.reads 0>4 "
	     "count.read_commands 0>4 c4 PARKED page 32+1 read [4] c5 SENT page 130+1 read "
	     "[4] c6 PARKED page 24+1 read [3] c7 SENT page 17+1 read [3] q0 #5 op2 n8 "
	     "L5002+1 F4 q1 #7 op2 n7 L1136+8 F150");
	STEP(hr_io_send_due(W), "= 1");
	io_rig_complete(1, 99, 0);
	(void)hr_qp_reap(&W->qp[1], &(struct hr_done){ 0 });
	STEP(hr_io_send_due(W), "= 1 w.unsent 2>1 w.sent 2>3 c4 SENT q1 #4 op2 n7 L1256+8 F95");
	W->stopped = true;
	STEP(hr_io_send_due(W), "= 1 w.unused 4>5 w.unsent 1>0 unused [0 1 2 3 6] c6 UNUSED");
	STEP(hr_io_send_due(W), "= 0");
}

/* ---- completions */

Test(io_commands, pages_that_were_read_are_ready)
{
	io_rig_up(&plain);
	begin_read(BATCH(17, 18, 19, 130, 24));
	STEP(hr_io_reap_all(W), "= 0");
	fake_clock_advance(5);
	io_rig_complete(1, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 5>6 w.sent 3>2 w.moved_ns 0>1000000005 unused [0 1 2 3 4 7] "
	     "count.settles 0>1 s21.3 READING p17>READY p17 s22.4 READING p18>READY p18 "
	     "s23.5 READING p19>READY p19 c7 UNUSED at 0>3");
	fake_clock_advance(5);
	io_rig_complete(0, 6, 0);
	io_rig_complete(1, 5, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 6>8 w.sent 2>0 w.moved_ns 1000000005>1000000010 unused [0 1 2 3 4 "
	     "7 6 5] count.settles 1>3 s0.4 READING p130>READY p130 s24.3 READING p24>READY "
	     "p24 c5 UNUSED at 0>1 c6 UNUSED at 0>1");
}

Test(io_commands, pages_that_were_written_are_ready_unless_they_changed)
{
	io_rig_up(&plain);
	begin_write(BATCH(17, 18, 19, 20));
	W->sweep = 1;
	begin_write(BATCH(130));
	W->settled += 2;
	(void)hr_io_send_due(W);
	io_rig_put(18, 18 % 7, HR_PAGE_REDIRTY);
	io_rig_put(19, 19 % 7, HR_PAGE_WRITING | HR_PAGE_SHARED);
	io_rig_put(20, 20 % 7, HR_PAGE_REDIRTY | HR_PAGE_SHARED);
	io_rig_complete(1, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 6>7 w.sent 2>1 w.moved_ns 0>1000000000 w.writing[0] 1>0 unused [0 "
	     "1 2 3 4 5 7] count.write_backs 0>4 count.settles 0>1 s16.6 REDIRTY+ p20>DIRTY+ "
	     "p20 s21.3 WRITING p17>READY p17 s22.4 REDIRTY p18>DIRTY p18 s23.5 WRITING+ "
	     "p19>READY+ p19 c7 UNUSED at 0>4");
	io_rig_complete(0, 6, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 7>8 w.sent 1>0 w.writing[1] 1>0 unused [0 1 2 3 4 5 7 6] "
	     "count.write_backs 4>5 count.settles 1>2 s0.4 WRITING p130>READY p130 c6 UNUSED "
	     "at 0>1");
}

Test(io_commands, staging_memory_is_copied_to_frames)
{
	io_rig_up(&(struct io_rig_shape){ .staging = true });
	begin_read(BATCH(17, 18, 19, 130));
	for (uint32_t i = 0; i < 8 * 16; i++)
		memset(RIG->m.staging + i * HR_PAGE, 0x40 + (int)i, HR_PAGE);
	io_rig_complete(1, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 6>7 w.sent 2>1 w.moved_ns 0>1000000000 unused [0 1 2 3 4 5 7] "
	     "count.settles 0>1 s21.3 READING p17>READY p17 s22.4 READING p18>READY p18 "
	     "s23.5 READING p19>READY p19 c7 UNUSED at 0>3 F150 = 79 F158 = 95 F166 = 111");
	io_rig_complete(0, 6, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 7>8 w.sent 1>0 unused [0 1 2 3 4 5 7 6] count.settles 1>2 s0.4 "
	     "READING p130>READY p130 c6 UNUSED at 0>1 F4 = 78");
}

Test(io_commands, frames_are_copied_to_staging_memory_before_a_write)
{
	io_rig_up(&(struct io_rig_shape){ .staging = true });
	begin_write(BATCH(17, 18, 130));
	W->settled += 2;
	STEP(hr_io_send_due(W),
	     "= 1 w.unsent 2>0 w.sent 0>2 c6 SENT until 42>0 c7 SENT until 42>0 q0 #6 op1 n8 "
	     "L5002+1 S14 q1 #7 op1 n7 L1136+16 S15 S31 S14 = 130 S15 = 17 S31 = 18");
	/* a repetition sends the same bytes */
	io_rig_put(17, 3, HR_PAGE_REDIRTY);
	RIG->m.frame[0][17] = 1;
	io_rig_complete(1, 7, NS_NOT_READY);
	(void)hr_io_reap_all(W);
	fake_clock_advance(HR_RETRY_PAUSE_NS);
	STEP(hr_io_send_due(W),
	     "= 1 w.unsent 1>0 w.sent 1>2 c7 SENT until 1001000000>0 q1 #7 op1 n7 L1136+16 "
	     "S15 S31");
}

Test(io_commands, a_write_from_staging_memory_leaves_the_frame_alone)
{
	io_rig_up(&(struct io_rig_shape){ .staging = true });
	begin_write(BATCH(17, 18));
	W->settled += 2;
	(void)hr_io_send_due(W);
	memset(RIG->m.staging, 0x33, sizeof RIG->m.staging);
	io_rig_complete(1, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 7>8 w.sent 1>0 w.moved_ns 0>1000000000 w.writing[0] 1>0 unused [0 "
	     "1 2 3 4 5 6 7] count.write_backs 0>2 count.settles 0>1 s21.3 WRITING p17>READY "
	     "p17 s22.4 WRITING p18>READY p18 c7 UNUSED at 0>2");
}

/* CIDs wrap. */
Test(io_commands, a_command_may_have_the_cid_0)
{
	struct hr_nvme_qp *qp;

	io_rig_up(&plain);
	qp = &W->qp[1];
	qp->free_ring[qp->free_head & qp->index_mask] = (uint16_t) - (qp->index_mask + 1);
	STEP((hr_io_begin(W, BATCH(17), nvme_cmd_read), 0),
	     "= 0 w.unused 8>7 w.sent 0>1 unused [0 1 2 3 4 5 6] count.reads 0>1 "
	     "count.read_commands 0>1 c7 SENT page 17+1 read [3] q1 #7 op2 n7 L1136+8 F150");
	cr_expect_eq(qp->sq[0].cid, 0);
}

/* A copy of many pages does the worker's part in epochs. */
Test(io_commands, an_epoch_does_not_wait_for_long_copies)
{
	static const struct {
		uint32_t pages, epochs;
	} row[] = { { 5, 0 }, { 6, 1 }, { 7, 1 } };

	for (uint32_t i = 0; i < 3; i++) {
		io_rig_up(&(struct io_rig_shape){ .staging = true });
		begin_read(batch(
			(const uint32_t[]){ 40, 41, 42, 43, 44, row[i].pages > 5 ? 45 : HR_NO_PAGE,
					    row[i].pages > 6 ? 46 : HR_NO_PAGE, HR_NO_PAGE }));
		RIG->m.words.epoch++;
		io_rig_complete(1, 7, 0);
		cr_expect(hr_io_reap_all(W));
		cr_expect_eq(W->seen - IO_RIG_EPOCH, row[i].epochs, "%u pages", row[i].pages);
		if (i < 2)
			io_rig_down();
	}
}

/* ---- failures */

Test(io_commands, a_temporary_failure_is_repeated_after_a_pause)
{
	io_rig_up(&plain);
	W->qp[1].crdt[2] = 3;
	W->qp[1].timeout_ns = IO_RIG_TIMEOUT * 16;
	begin_read(BATCH(17, 18));
	io_rig_complete(1, 7, NS_NOT_READY);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unsent 0>1 w.sent 1>0 w.moved_ns 0>1000000000 c7 PARKED tries 0>1 until "
	     "0>1001000000 first_ns 0>1000000000");
	fake_clock_advance(HR_RETRY_PAUSE_NS - 1);
	STEP(hr_io_send_due(W), "= 0");
	fake_clock_advance(1);
	STEP(hr_io_send_due(W),
	     "= 1 w.unsent 1>0 w.sent 0>1 c7 SENT until 1001000000>0 q1 #7 op2 n7 L1136+16 "
	     "F150 F158");
	io_rig_complete(1, 7, NS_NOT_READY | 2 << 11);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unsent 0>1 w.sent 1>0 w.moved_ns 1000000000>1001000000 c7 PARKED tries "
	     "1>2 until 0>1301000000");
	fake_clock_advance(300000000);
	STEP(hr_io_send_due(W),
	     "= 1 w.unsent 1>0 w.sent 0>1 c7 SENT until 1301000000>0 q1 #7 op2 n7 L1136+16 "
	     "F150 F158");
	io_rig_complete(1, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 7>8 w.sent 1>0 w.moved_ns 1001000000>1301000000 unused [0 1 2 3 4 "
	     "5 6 7] count.settles 0>1 s21.3 READING p17>READY p17 s22.4 READING p18>READY "
	     "p18 c7 UNUSED at 0>2");
}

static uint32_t fails(uint32_t queue, uint32_t token, uint16_t status)
{
	uint32_t times = 0;

	do {
		io_rig_complete(queue, token, status);
		(void)hr_io_reap_all(W);
		times++;
		fake_clock_advance(HR_RETRY_PAUSE_NS << times);
	} while (hr_io_send_due(W));
	return times;
}

Test(io_commands, a_command_has_so_many_tries)
{
	io_rig_up(&plain);
	W->qp[1].timeout_ns = HR_NS_PER_S * 10;
	begin_read(BATCH(17));
	cr_expect_eq(fails(1, 7, INTERNAL), HR_RETRIES + 1);
	cr_expect_eq(W->command[7].tries, HR_RETRIES);
	cr_expect_eq(W->command[7].first_ns, IO_RIG_NOW);
	io_rig_down();
	io_rig_up(&plain);
	begin_read(BATCH(17));
	cr_expect_eq(fails(1, 7, MEDIA), HR_MEDIA_RETRIES + 1);
	io_rig_down();
	/* pauses end within the deadline of the first failure: 1 + 2 + 4 + ... ms */
	io_rig_up(&plain);
	W->qp[1].timeout_ns = 7000000;
	begin_read(BATCH(17));
	io_rig_complete(1, 7, NS_NOT_READY);
	(void)hr_io_reap_all(W);
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect_eq(W->command[7].tries, i + 1);
		fake_clock_advance(HR_RETRY_PAUSE_NS << i);
		cr_expect(hr_io_send_due(W));
		io_rig_complete(1, 7, NS_NOT_READY);
		(void)hr_io_reap_all(W);
	}
	cr_expect_eq(W->command[7].tries, 3);
	cr_expect(W->role.failed);
}

Test(io_commands, a_page_that_cannot_be_read_has_an_error)
{
	io_rig_up(&plain);
	begin_read(BATCH(17));
	io_rig_complete(1, 7, MEDIA | DNR);
	STEP(hr_io_reap_all(W),
	     "= 1 w.stopped 0>1 w.unused 7>8 w.sent 1>0 w.moved_ns 0>1000000000 "
	     "w.role.failed 0>1 unused [0 1 2 3 4 5 6 7] count.errors 0>1 words.stop 0>2 "
	     "status1 failed 0>1 failure 641 role 3 source 0 page 17 lba 1136 object 70 qid "
	     "12 cid 16 opcode 2 peer 0 s21.3 READING p17>ERROR p17 c7 UNUSED F150 mixed 129 "
	     "after 1");
	cr_expect_eq(memcmp(RIG->m.frame[0] + hr_page_frame(io_rig_set(17), 17 % HR_WAYS) * HR_PAGE,
			    &(struct hr_page_error){ MEDIA, 17, 1000 + 17 * 8 },
			    sizeof(struct hr_page_error)),
		     0);
}

Test(io_commands, pages_of_a_failed_command_are_sent_one_by_one)
{
	io_rig_up(&plain);
	begin_read(BATCH(132, 130, 131));
	io_rig_complete(0, 7, MEDIA | DNR);
	STEP(hr_io_reap_all(W),
	     "= 1 w.moved_ns 0>1000000000 c7 single 0>1 q0 #7 op2 n8 L5002+1 F4");
	io_rig_complete(0, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 count.settles 0>1 s0.4 READING p130>READY p130 c7 at 0>1 q0 #7 op2 n8 "
	     "L5003+1 F12");
	io_rig_complete(0, 7, MEDIA | DNR);
	STEP(hr_io_reap_all(W),
	     "= 1 w.stopped 0>1 w.unused 7>8 w.sent 1>0 w.role.failed 0>1 unused [0 1 2 3 4 "
	     "5 6 7] count.errors 0>1 words.stop 0>2 status1 failed 0>1 failure 641 role 3 "
	     "source 1 page 3 lba 5003 object 71 qid 11 cid 18 opcode 2 peer 0 s1.5 READING "
	     "p131>ERROR p131 c7 UNUSED F12 mixed 129 after 1");
	cr_expect_eq(
		memcmp(RIG->m.frame[0] + hr_page_frame(io_rig_set(131), 131 % HR_WAYS) * HR_PAGE,
		       &(struct hr_page_error){ MEDIA, 131, 5003 }, sizeof(struct hr_page_error)),
		0);
}

Test(io_commands, pages_that_cannot_be_written_are_dirty_again)
{
	io_rig_up(&plain);
	begin_write(BATCH(17, 18));
	W->settled += 2;
	(void)hr_io_send_due(W);
	io_rig_complete(1, 7, MEDIA | DNR);
	STEP(hr_io_reap_all(W),
	     "= 1 w.moved_ns 0>1000000000 c7 single 0>1 q1 #7 op1 n7 L1136+8 F150");
	io_rig_put(18, 18 % 7, HR_PAGE_REDIRTY);
	io_rig_complete(1, 7, MEDIA | DNR);
	STEP(hr_io_reap_all(W),
	     "= 1 w.stopped 0>1 w.unused 7>8 w.sent 1>0 w.role.failed 0>1 w.writing[0] 1>0 "
	     "unused [0 1 2 3 4 5 6 7] words.stop 0>2 status1 failed 0>1 failure 641 role 3 "
	     "source 0 page 17 lba 1136 object 70 qid 12 cid 17 opcode 1 peer 0 s21.3 "
	     "WRITING p17>DIRTY p17 s22.4 REDIRTY p18>DIRTY p18 c7 UNUSED");
}

Test(io_commands, after_a_stop_commands_end_with_their_completions)
{
	io_rig_up(&plain);
	begin_read(BATCH(17, 18, 24, 32));
	W->stopped = true;
	io_rig_complete(1, 7, NS_NOT_READY);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unsent 0>1 w.sent 3>2 w.moved_ns 0>1000000000 c7 PARKED tries 0>1 until "
	     "0>1001000000 first_ns 0>1000000000");
	STEP(hr_io_send_due(W), "= 1 w.unused 5>6 w.unsent 1>0 unused [0 1 2 3 4 7] c7 UNUSED");
	io_rig_complete(1, 6, MEDIA | DNR);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 6>7 w.sent 2>1 w.role.failed 0>1 unused [0 1 2 3 4 7 6] "
	     "count.errors 0>1 words.stop 0>2 status1 failed 0>1 failure 641 role 3 source 0 "
	     "page 24 lba 1192 object 70 qid 12 cid 17 opcode 2 peer 0 s24.3 READING "
	     "p24>ERROR p24 c6 UNUSED F171 mixed 129 after 1");
	W->command[5].single = 1;
	W->command[5].pages = 2;
	W->command[5].way[1] = 5;
	io_rig_put(33, 5, HR_PAGE_READING);
	io_rig_complete(1, 5, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.sent 1>0 count.settles 0>1 s13.4 READING p32>READY p32 c5 at 0>1");
}

Test(io_commands, the_frame_of_a_lost_command_stays_out_of_use)
{
	io_rig_up(&plain);
	begin_read(BATCH(17, 18));
	hr_io_ring_all(W);
	fake_clock_advance(IO_RIG_TIMEOUT + 1);
	STEP(hr_io_reap_all(W),
	     "= 1 w.stopped 0>1 w.sent 1>0 w.moved_ns 0>1064000001 w.role.failed 0>1 "
	     "words.stop 0>2 status1 failed 0>1 failure -110 role 3 source 0 page 17 lba "
	     "1136 object 70 qid 12 cid 16 opcode 2 peer 0");
}

Test(io_commands, a_queue_that_breaks_ends_the_worker)
{
	io_rig_up(&plain);
	begin_read(BATCH(130));
	hr_io_ring_all(W);
	peer_fetch(&RIG->peer[0]);
	peer_post(&RIG->peer[0], (struct hr_cqe){ .sqhd = 0xffff, .sqid = 11, .cid = 0 });
	STEP(hr_io_reap_all(W),
	     "= 0 w.stopped 0>1 w.role.failed 0>1 w.role.dead 0>1 words.stop 0>2 status1 "
	     "failed 0>1 failure -71 role 3 source 0 page -1 lba 0 object 0 qid 11 cid 0 "
	     "opcode 2 peer 0 q0 broken -71");
	STEP(hr_io_reap_all(W), "= 0");
}

Test(io_commands, a_flush_is_no_command_of_pages)
{
	io_rig_up(&plain);
	begin_read(BATCH(130));
	W->flush_left = W->flush_sent = 3;
	W->sent++;
	cr_assert_eq(hr_io_flush_post(&W->qp[0], &RIG->access.cache.extent[1], 1), 1);
	io_rig_complete(0, HR_TOKEN(1, 0), 0);
	io_rig_complete(0, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 7>8 w.sent 2>0 w.moved_ns 0>1000000000 w.flush_left 3>2 "
	     "w.flush_sent 3>2 unused [0 1 2 3 4 5 6 7] count.settles 0>1 s0.4 READING "
	     "p130>READY p130 c7 UNUSED at 0>1");
}

/* ---- failure records */

Test(io_commands, the_first_failure_is_recorded)
{
	io_rig_up(&plain);
	W->peer = 2;
	STEP((hr_io_fail(W, 1, nvme_cmd_write, 130, 77, -EPROTO), 0),
	     "= 0 w.stopped 0>1 w.role.failed 0>1 words.stop 0>2 status1 failed 0>1 failure "
	     "-71 role 3 source 1 page 2 lba 5002 object 71 qid 12 cid 77 opcode 1 peer 2");
	STEP((hr_io_fail(W, 0, nvme_cmd_read, 17, 78, -ETIMEDOUT), 0), "= 0");
}

Test(io_commands, failures_without_a_page_and_deadlocks_have_words_of_their_own)
{
	io_rig_up(&plain);
	STEP((hr_io_fail(W, 0, nvme_cmd_flush, HR_NO_PAGE, 3, 0x281), 0),
	     "= 0 w.stopped 0>1 w.role.failed 0>1 words.stop 0>2 status1 failed 0>1 failure "
	     "641 role 3 source 0 page -1 lba 0 object 0 qid 11 cid 3 opcode 0 peer 0");
	io_rig_down();
	io_rig_up(&plain);
	STEP((hr_io_fail(W, 0, nvme_cmd_read, 99, 0, -EDEADLK), 0),
	     "= 0 w.stopped 0>1 w.role.failed 0>1 words.stop 0>3 status1 failed 0>1 failure "
	     "-35 role 3 source 0 page 99 lba 1792 object 70 qid 11 cid 0 opcode 2 peer 0");
	io_rig_down();
	io_rig_up(&plain);
	RIG->m.words.stop = HR_CACHE_ENDS;
	STEP((hr_io_fail(W, 0, nvme_cmd_read, 100, 0, -EDEADLK), 0),
	     "= 0 w.stopped 0>1 w.role.failed 0>1 status1 failed 0>1 failure -35 role 3 "
	     "source 0 page -1 lba 0 object 0 qid 11 cid 0 opcode 2 peer 0");
}
