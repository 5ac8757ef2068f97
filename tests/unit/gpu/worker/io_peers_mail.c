/* Mailboxes between I/O workers of three gpus, epochs that they confirm, and the end of the run. The
 * texts are of tests/harness/io_rig.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "gpu/worker/io_peers.h"
#include "tests/harness/io_rig.h"

TestSuite(io_peers_mail, .fini = io_rig_down, .timeout = 60);

/* Of rows 0 .. 7 with four sets each, this gpu (1) is the home of 2 and 3, gpu 0 of 0, 1, 6 and 7. */
static const struct io_rig_shape second = { .group_shift = 2, .gpus = 3, .self = 1 };
static const struct io_rig_shape leader = { .group_shift = 2, .gpus = 3, .self = 1, .first = true };

/* A message of a gpu as it lies in its mailbox, with any lap. */
static void post(uint32_t gpu, uint32_t ring, uint64_t ticket, struct hr_peer_message m)
{
	struct hr_mailbox *box = &RIG->peers.from[gpu * 2 + W->role.index];

	*hr_peer_entry(box, ring, ticket) = hr_peer_pack(&m) | HR_PEER_LAP(ring, ticket)
								       << HR_PEER_LAP_SHIFT;
}

static struct hr_peer_message get(uint32_t page)
{
	return (struct hr_peer_message){ page, 1, HR_PEER_GET, false, 0, 0 };
}

/* ---- rings */

Test(io_peers_mail, messages_are_read_up_to_a_gap_and_taken_in_order)
{
	struct hr_peer_batch b;
	const uint32_t at[] = { 12, 13, 14 };

	io_rig_up(&second);
	RIG->peers.worker[1].taken[2][HR_TO_HOME] = 2 * HR_PEER_RING_TO - 2;
	for (uint32_t i = 0; i < 3; i++)
		post(2, HR_TO_HOME, 2 * HR_PEER_RING_TO - 2 + i, get(io_rig_page(at[i], 0)));
	post(2, HR_TO_HOME, 2 * HR_PEER_RING_TO + 2, get(io_rig_page(12, 1)));
	STEP(hr_peer_read(W, 2, HR_TO_HOME, &b), "= 3");
	cr_expect(b.count == 3 && b.gpu == 2);
	for (uint32_t i = 0; i < HR_IO_BATCH; i++) {
		cr_expect_eq(b.m[i].kind, i < 3 ? HR_PEER_GET : HR_PEER_NOTHING, "%u", i);
		cr_expect_eq(b.set[i], i < 3 ? at[i] : 0);
	}
	cr_expect_eq(b.m[1].page, io_rig_page(13, 0));
	STEP((hr_peer_take(W, HR_TO_HOME, 0, &b), 0), "= 0");
	cr_expect_eq(b.count, 0);
	cr_expect_eq(hr_peer_read(W, 2, HR_TO_HOME, &b), 3);
	STEP((hr_peer_take(W, HR_TO_HOME, 2, &b), 0), "= 0 taken2h 128 -> 2 tookh 128");
	cr_expect(b.count == 2 && b.m[1].kind == HR_PEER_GET && b.m[2].kind == HR_PEER_NOTHING);
	cr_expect_eq(hr_peer_read(W, 2, HR_TO_HOME, &b), 1);
	cr_expect_eq(hr_peer_read(W, 0, HR_TO_HOME, &b), 0);
	cr_expect_eq(hr_peer_read(W, 2, HR_FROM_HOME, &b), 0);
	/* of the lap before */
	post(2, HR_TO_HOME, HR_PEER_RING_TO + 1, get(io_rig_page(13, 0)));
	cr_expect_eq(hr_peer_read(W, 2, HR_TO_HOME, &b), 1);
}

Test(io_peers_mail, a_batch_has_so_many_messages)
{
	struct hr_peer_batch b;

	io_rig_up(&second);
	for (uint32_t i = 0; i < 40; i++)
		post(0, HR_TO_HOME, i, get(io_rig_page(12 + i % 4, 0)));
	cr_expect_eq(hr_peer_read(W, 0, HR_TO_HOME, &b), HR_IO_BATCH);
	cr_expect_eq(b.set[31], 15);
}

Test(io_peers_mail, messages_that_do_not_fit_end_the_run)
{
	static const struct {
		uint32_t gpu, ring, kind;
		uint32_t set; /* of the page; or the set itself, of DROP and DROPPED */
		uint32_t way, from_gpu, from_way;
		bool fits;
	} row[] = {
		{ 0, HR_TO_HOME, HR_PEER_GET, 12, 6, 2, 6, true },
		{ 0, HR_TO_HOME, HR_PEER_GET, 12, 7, 0, 0, false },
		{ 0, HR_TO_HOME, HR_PEER_GET, 12, 0, 3, 0, false },
		{ 0, HR_TO_HOME, HR_PEER_GET, 12, 0, 0, 7, false },
		{ 0, HR_TO_HOME, HR_PEER_NOTHING, 12, 0, 0, 0, false },
		{ 0, HR_TO_HOME, HR_PEER_DROP, 12, 0, 0, 0, true },
		{ 0, HR_TO_HOME, HR_PEER_DROP, 31, 0, 0, 0, false }, /* home is gpu 0 */
		{ 0, HR_TO_HOME, HR_PEER_DROP, 32, 0, 0, 0, false }, /* no set */
		{ 0, HR_TO_HOME, HR_PEER_DROP, 8, 0, 0, 0, false },  /* owner is worker 0 */
		{ 0, HR_TO_HOME, HR_PEER_FILL, 12, 0, 0, 0, false },
		{ 0, HR_FROM_HOME, HR_PEER_FILL, 5, 0, 0, 0, true },
		{ 0, HR_FROM_HOME, HR_PEER_FILL, 30, 0, 0, 0, true },
		{ 0, HR_FROM_HOME, HR_PEER_DROPPED, 5, 0, 0, 0, true },
		{ 0, HR_FROM_HOME, HR_PEER_DROPPED, 12, 0, 0, 0, false },
		{ 2, HR_FROM_HOME, HR_PEER_DROPPED, 5, 0, 0, 0, false },
		{ 2, HR_FROM_HOME, HR_PEER_DROPPED, 21, 0, 0, 0, true },
		{ 0, HR_FROM_HOME, HR_PEER_DROP, 5, 0, 0, 0, false },
		{ 0, HR_FROM_HOME, HR_PEER_GET, 5, 0, 0, 0, false },
		{ 0, HR_FROM_HOME, HR_PEER_KINDS, 5, 0, 0, 0, false },
		{ 1, HR_FROM_HOME, HR_PEER_GRANT, 12, 0, 0, 0, true },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_peer_batch b;
		struct hr_peer_message m = { 0,	   row[i].way,	    (enum hr_peer_kind)row[i].kind,
					     true, row[i].from_gpu, row[i].from_way };

		io_rig_up(&second);
		m.page = row[i].kind == HR_PEER_DROP || row[i].kind == HR_PEER_DROPPED
				 ? row[i].set
				 : io_rig_page(row[i].set, 1);
		post(row[i].gpu, row[i].ring, 0, m);
		cr_expect_eq(hr_peer_read(W, row[i].gpu, row[i].ring, &b), row[i].fits, "row %u",
			     i);
		cr_expect_eq(W->role.failed, !row[i].fits, "row %u", i);
		cr_expect_eq(W->role.status->failure.peer, row[i].fits ? 0 : row[i].gpu + 1);
		cr_expect_eq(W->role.status->failure.error, row[i].fits ? 0 : -EPROTO);
		if (row[i].fits) {
			cr_expect_eq(b.set[0], row[i].set);
			cr_expect(b.m[0].way == m.way && b.m[0].flag &&
				  b.m[0].from_gpu == m.from_gpu && b.m[0].from_way == m.from_way);
		}
		io_rig_down();
	}
	/* a page beyond the objects, behind one that fits */
	io_rig_up(&second);
	post(0, HR_TO_HOME, 0, get(io_rig_page(12, 0)));
	post(0, HR_TO_HOME, 1, get(200));
	STEP(hr_peer_read(W, 0, HR_TO_HOME, &(struct hr_peer_batch){ 0 }),
	     "= 0 w.stopped 0>1 w.peer 0>1 w.role.failed 0>1 words.stop 0>2 status1 failed "
	     "0>1 failure -71 role 3 source 0 page -1 lba 0 object 0 qid 11 cid 0 opcode 2 "
	     "peer 1");
}

Test(io_peers_mail, rings_have_room_for_what_was_not_taken)
{
	static const struct {
		uint64_t sent, taken;
		uint32_t to_home, from_home;
	} row[] = { { 0, 0, 64, 128 }, { 70, 10, 4, 68 }, { 74, 10, 0, 64 },
		    { 200, 10, 0, 0 }, { 138, 10, 0, 0 }, { 137, 10, 0, 1 } };

	io_rig_up(&second);
	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++)
		for (uint32_t ring = 0; ring < HR_PEER_RINGS; ring++) {
			RIG->peers.worker[1].sent[2][ring] = row[i].sent;
			io_rig_taken(2, ring, row[i].taken);
			cr_expect_eq(hr_peer_room(W, 2, ring),
				     ring == HR_TO_HOME ? row[i].to_home : row[i].from_home,
				     "row %u", i);
		}
}

Test(io_peers_mail, failures_name_the_gpu)
{
	io_rig_up(&second);
	STEP((hr_peer_fail(W, 2, 130, -ETIMEDOUT), 0),
	     "= 0 w.stopped 0>1 w.peer 0>3 w.role.failed 0>1 words.stop 0>2 status1 failed "
	     "0>1 failure -110 role 3 source 1 page 2 lba 5002 object 71 qid 11 cid 0 opcode "
	     "2 peer 3");
	io_rig_down();
	io_rig_up(&second);
	W->peer = 3;
	STEP((hr_peer_fail(W, HR_IO_NONE, 17, -EDEADLK), 0),
	     "= 0 w.stopped 0>1 w.peer 3>0 w.role.failed 0>1 words.stop 0>3 status1 failed "
	     "0>1 failure -35 role 3 source 0 page 17 lba 1136 object 70 qid 11 cid 0 opcode "
	     "2 peer 0");
}

/* ---- time */

Test(io_peers_mail, a_unit_of_time_is_at_most_a_quarter_of_the_deadline)
{
	static const struct {
		uint64_t timeout_ns;
		uint32_t shift;
	} row[] = { { 3, 0 }, { 4, 0 },		  { 7, 0 },
		    { 8, 1 }, { 4ull << 30, 30 }, { (4ull << 30) - 1, 29 } };

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		io_rig_up(&second);
		RIG->peers.timeout_ns = row[i].timeout_ns;
		W->peer_row = 99;
		hr_io_peers_start(W);
		cr_expect_eq(W->peer_shift, row[i].shift, "row %u: %u", i, W->peer_shift);
		cr_expect_eq(W->peer_time, (uint32_t)(IO_RIG_NOW >> row[i].shift));
		cr_expect_eq(W->peer_row, 1);
		io_rig_down();
	}
	io_rig_up(&second);
}

/* Make a page of this gpu late (epoch), or an entry of the directory. */
static void late(uint32_t set, bool home)
{
	const uint32_t page = io_rig_page(set, 0);
	struct hr_peer_way its = { home ? HR_PEER_REQUEST_PAGE : 0, home ? 0 : HR_PEER_ANSWER_CLEAN,
				   false, 0, 0 };

	its.time = (W->peer_time - 26) & HR_PEER_CLOCK;
	io_rig_put(page, 4, HR_PAGE_READY);
	RIG->peers.set[set].way[4] = hr_peer_way_bits(&its);
}

static void late_entry(uint32_t set)
{
	RIG->peers.directory[hr_peers_directory(&RIG->access.cache, 3, set) + 2 * HR_WAYS + 1] =
		(uint64_t)hr_page_position_of(&RIG->access.cache.shape, io_rig_page(set, 0)).tag
			<< 36 |
		(uint64_t)HR_PEER_FILLING << 33 | ((W->peer_time - 100) & 0xff);
}

Test(io_peers_mail, a_round_looks_at_one_row_for_late_answers)
{
	io_rig_up(&second);
	STEP(hr_io_peers(W, true), "= 0 w.peer_row 1>3");
	STEP(hr_io_peers(W, true), "= 0 w.peer_row 3>5");
	fake_clock_advance(1ull << 25);
	STEP(hr_io_peers(W, true), "= 0 w.peer_row 5>7 w.peer_time 119>123");
	STEP(hr_io_peers(W, true), "= 0 w.peer_row 7>1");
	STEP(hr_io_peers(W, false), "= 0 w.peer_row 1>3");
	W->role.cost.rounds = 17;
	STEP(hr_io_peers(W, false), "= 0");
	W->role.cost.rounds = 32;
	STEP(hr_io_peers(W, false), "= 0 w.peer_row 3>5");
	W->peer_row = 8; /* of a worker without rows */
	STEP(hr_io_peers(W, true), "= 0");
	W->stopped = W->stop_told = true;
	W->peer_row = 1;
	STEP(hr_io_peers(W, true), "= 0");
}

Test(io_peers_mail, late_answers_end_the_run)
{
	io_rig_up(&second);
	late(7, false);
	STEP(hr_io_peers(W, true),
	     "= 0 w.stopped 0>1 w.peer_row 1>3 w.peer 0>1 w.role.failed 0>1 words.stop 0>2 "
	     "status1 failed 0>1 failure -110 role 3 source 0 page 46 lba 1368 object 70 qid "
	     "11 cid 0 opcode 2 peer 1");
	io_rig_down();
	io_rig_up(&second);
	late(7, false); /* a worker of this gpu keeps the page */
	RIG->peers.words->passed[0] = RIG->peers.words->passed[2] = W->seen;
	STEP(hr_io_peers(W, true),
	     "= 0 w.stopped 0>1 w.peer_row 1>3 w.role.failed 0>1 words.stop 0>3 status1 "
	     "failed 0>1 failure -35 role 3 source 0 page 46 lba 1368 object 70 qid 11 cid 0 "
	     "opcode 2 peer 0");
	io_rig_down();
	io_rig_up(&second);
	late(4, true);
	STEP(hr_io_peers(W, true),
	     "= 0 w.stopped 0>1 w.peer_row 1>3 w.peer 0>1 w.role.failed 0>1 words.stop 0>2 "
	     "status1 failed 0>1 failure -110 role 3 source 0 page 47 lba 1376 object 70 qid "
	     "11 cid 0 opcode 2 peer 1");
	io_rig_down();
	io_rig_up(&second);
	late_entry(15);
	STEP(hr_io_peers(W, true), "= 0 w.peer_row 1>3");
	STEP(hr_io_peers(W, true),
	     "= 0 w.stopped 0>1 w.peer_row 3>5 w.peer 0>3 w.role.failed 0>1 words.stop 0>2 "
	     "status1 failed 0>1 failure -110 role 3 source 0 page 15 lba 1120 object 70 qid "
	     "11 cid 0 opcode 2 peer 3");
}

/* In a round the worker is a home first, then a holder, then it goes on with what waits. */
Test(io_peers_mail, a_round_takes_messages_of_all_gpus)
{
	io_rig_up(&second);
	post(0, HR_TO_HOME, 0, get(io_rig_page(12, 0)));
	post(2, HR_TO_HOME, 0, get(io_rig_page(15, 0)));
	STEP(hr_io_peers(W, false),
	     "= 1 w.peer_row 1>3 D12/0.1 FILLING p12 o1 t119 D15/2.1 FILLING p15 o1 t119 "
	     "taken0h 1 sent0p 1 -> 0 tookh 1 -> 0p0 FILL 12.1 taken2h 1 sent2p 1 -> 2 tookh "
	     "1 -> 2p0 FILL 15.1");
	io_rig_put(io_rig_page(21, 0), 2, HR_PAGE_READY);
	post(2, HR_FROM_HOME, 0,
	     (struct hr_peer_message){ io_rig_page(21, 0), 2, HR_PEER_CLEAN, false, 0, 0 });
	io_rig_put(io_rig_page(5, 0), 1, HR_PAGE_READY | HR_PAGE_SHARED);
	post(0, HR_FROM_HOME, 0,
	     (struct hr_peer_message){ io_rig_page(5, 0), 1, HR_PEER_GRANT, false, 0, 0 });
	W->ended = true;
	W->role.cost.rounds = 1;
	STEP(hr_io_peers(W, false),
	     "= 1 w.moved_ns 0>1000000000 w.pending 0>1 s5.1 READY+ p44>READY p44 s21.2 "
	     "READY p16>READY+ p16 list to 1 list[16] s21 taken0p 1 -> 0 tookp 1 sent2h 1 "
	     "taken2p 1 -> 2h0 CLEANED 16.2 -> 2 tookp 1");
	STEP(hr_io_peers(W, false), "= 0");
}

/* ---- the end of a run */

Test(io_peers_mail, worker_0_passes_the_end_of_a_run_on)
{
	io_rig_up(&leader);
	STEP((hr_io_peers_end(W), 0), "= 0");
	RIG->peers.words->stop = 1;
	STEP(hr_io_peers(W, false),
	     "= 0 w.stopped 0>1 w.stop_told 0>1 words.stop 0>1 words of 0: stop 0>1 words of "
	     "2: stop 0>1");
	STEP((hr_io_peers_end(W), 0), "= 0");
	io_rig_down();
	io_rig_up(&leader);
	W->stopped = true;
	RIG->m.words.stop = HR_CACHE_FAILED;
	STEP((hr_io_peers_end(W), 0),
	     "= 0 w.stop_told 0>1 words of 0: stop 0>1 words of 2: stop 0>1");
	io_rig_down();
	io_rig_up(&leader);
	RIG->m.words.stop = HR_CACHE_FAILED; /* not seen yet */
	RIG->peers.words->stop = 1;
	STEP((hr_io_peers_end(W), 0),
	     "= 0 w.stopped 0>1 w.stop_told 0>1 words of 0: stop 0>1 words of 2: stop 0>1");
	io_rig_down();
	io_rig_up(&second);
	RIG->peers.words->stop = 1;
	STEP((hr_io_peers_end(W), 0), "= 0");
}

static void drained(const struct io_rig_shape *shape)
{
	io_rig_up(shape);
	W->ended = W->unread = true;
	W->flushed = HR_IO_DRAIN;
}

Test(io_peers_mail, workers_tell_each_other_when_they_want_nothing)
{
	drained(&leader);
	STEP(hr_io_peers(W, false),
	     "= 0 w.peer_row 0>2 w.done_told 0>1 -> 0 done 1 -> 1 done 1 -> 2 done 1");
	RIG->peers.from[0].done = 1;
	STEP(hr_io_peers(W, false), "= 0 w.peer_row 2>4");
	RIG->peers.from[2 * 2].done = 1;
	STEP(hr_io_peers(W, false), "= 0 w.peer_row 4>6 w.peers_done 0>1");
}

Test(io_peers_mail, a_worker_with_work_does_not_tell_that_it_has_none)
{
	static const struct {
		bool leads, ended, unread;
		uint64_t flushed;
		uint32_t sent, unsent, asked;
		uint64_t pending;
		bool tells;
	} row[] = {
		{ true, true, true, HR_IO_DRAIN, 0, 0, 0, 0, true },
		{ true, true, false, HR_IO_DRAIN, 0, 0, 0, 0, false },
		{ false, true, false, HR_IO_DRAIN, 0, 0, 0, 0, true },
		{ false, false, false, HR_IO_DRAIN, 0, 0, 0, 0, false },
		{ false, true, true, HR_IO_DRAIN - 1, 0, 0, 0, 0, false },
		{ false, true, true, HR_IO_DRAIN, 1, 0, 0, 0, false },
		{ false, true, true, HR_IO_DRAIN, 0, 1, 0, 0, false },
		{ false, true, true, HR_IO_DRAIN, 0, 0, 1, 0, false },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		io_rig_up(row[i].leads ? &leader : &second);
		W->ended = row[i].ended;
		W->unread = row[i].unread;
		W->flushed = row[i].flushed;
		W->sent = row[i].sent;
		W->unsent = row[i].unsent;
		W->asked = row[i].asked;
		(void)hr_io_peers(W, false);
		cr_expect_eq(W->done_told, row[i].tells, "row %u", i);
		cr_expect_eq(RIG->peers.gpu[2].to[W->role.index].done, row[i].tells, "row %u", i);
		cr_expect(!W->peers_done);
		io_rig_down();
	}
	/* a set waits for a page to leave */
	drained(&second);
	RIG->m.set[5].tag[1] = HR_PAGE_WORD(IO_RIG_EPOCH + 5, HR_PAGE_LEFT | HR_PAGE_SHARED);
	W->unread = false;
	RIG->peers.pending[16] = 5;
	RIG->peers.worker[1].pending = 1;
	RIG->peers.set[5].listed = 1;
	STEP(hr_io_peers(W, false), "= 0 w.pending 0>1 w.peer_row 1>3 list to 2 list[17] s5");
}

/* ---- epochs */

static int epoch_of(bool ended)
{
	const struct hr_peers_epoch all = hr_io_peers_epoch(W, ended);

	return (int)(all.settled * 100 + all.ends * 10 + all.unread);
}

Test(io_peers_mail, epochs_are_sampled_and_then_confirmed)
{
	struct hr_peer_words *words;

	io_rig_up(&leader);
	words = RIG->peers.words;
	W->confirmed = W->seen;
	words->epoch[0] = 30;
	words->epoch[2] = 50;
	words->passed[0] = 35;
	words->passed[2] = 38;
	STEP(epoch_of(false), "= 3510 words of 1: sampled[0] 0>30 sampled[2] 0>50");
	words->epoch[0] = 31;
	W->seen++;
	STEP(epoch_of(false),
	     "= 3510 w.confirmed 40>41 words of 0: passed[1] 0>30 words of 1: sampled[0] "
	     "30>31 words of 2: passed[1] 0>50");
	STEP(epoch_of(false), "= 3510");
	STEP(epoch_of(true),
	     "= 3510 words of 0: passed[1] 30>4294967295 words of 2: passed[1] 50>4294967295");
	words->passed[0] = HR_EPOCH_ENDED;
	STEP(epoch_of(true), "= 3810");
	words->passed[2] = HR_EPOCH_ENDED;
	STEP(epoch_of(true), "= 4111");
	STEP(epoch_of(false), "= 4110");
}

Test(io_peers_mail, epochs_go_on_eight_times_before_the_others)
{
	static const struct {
		uint32_t first, second; /* passed, before the epoch that this gpu has seen */
		bool ends;
		uint32_t behind, settled;
	} row[] = { { 0, 0, true, HR_IO_NONE, 0 }, { 7, 0, true, HR_IO_NONE, 7 },
		    { 8, 3, true, 0, 8 },	   { 3, 8, true, 2, 8 },
		    { 9, 3, false, 0, 9 },	   { 3, 9, false, 2, 9 } };

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_peers_epoch all;

		io_rig_up(&leader);
		RIG->peers.words->passed[0] = W->seen - row[i].first;
		RIG->peers.words->passed[2] = W->seen - row[i].second;
		all = hr_io_peers_epoch(W, false);
		cr_expect_eq(all.ends, row[i].ends, "row %u", i);
		cr_expect_eq(W->seen - all.settled, row[i].settled, "row %u", i);
		cr_expect_eq(hr_io_peers_behind(W), row[i].behind, "row %u", i);
		RIG->peers.words->passed[0] = HR_EPOCH_ENDED;
		cr_expect_eq(hr_io_peers_behind(W), row[i].behind == 0 ? HR_IO_NONE : row[i].behind,
			     "row %u", i);
		io_rig_down();
	}
	io_rig_up(&leader);
}

Test(io_peers_mail, the_others_hear_of_the_next_epoch)
{
	io_rig_up(&leader);
	STEP((hr_io_peers_next_epoch(W), 0),
	     "= 0 words of 0: epoch[1] 0>41 words of 2: epoch[1] 0>41");
	W->seen = HR_EPOCH_ENDED - 1;
	STEP((hr_io_peers_next_epoch(W), 0),
	     "= 0 words of 0: epoch[1] 41>0 words of 2: epoch[1] 41>0");
}
