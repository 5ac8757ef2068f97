/* Rounds of an I/O worker: shared words, epochs, the host's stop, and its end. The texts are of
 * tests/harness/io_rig.h. */
#include "gpu/worker/io.c"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/io_rig.h"

TestSuite(io_rounds, .fini = io_rig_down, .timeout = 60);

static const struct io_rig_shape plain = { 0 }, first = { .first = true };
static const struct io_rig_shape peers = { .group_shift = 2, .gpus = 3, .first = true };

/* ---- begin and end */

Test(io_rounds, a_worker_begins_with_its_share_and_all_commands)
{
	for (uint32_t gpus = 0; gpus < 3; gpus += 2) {
		struct hr_io_worker want, got;

		io_rig_up(&(struct io_rig_shape){ .gpus = gpus });
		memset(&want, 0, sizeof want);
		hr_role_worker_start(&want.role, &RIG->m.status[1], HR_ROLE_IO, 1, 2);
		want.access = &RIG->access;
		want.command = RIG->m.command[1];
		want.block = hr_block_memory();
		want.seen = want.settled = HR_EPOCH_FIRST;
		want.unused = 8;
		want.reserve = want.row = 1;
		want.urgent = HR_IO_NONE;
		if (gpus) {
			want.peer_shift = 23;
			want.peer_time = IO_RIG_NOW >> 23;
			want.peer_row = 1;
		}
		memset(&got, 0xee, sizeof got);
		memset(want.block, 0xee, sizeof *want.block);
		io_start(&got, &RIG->access, 1);
		cr_expect_eq(memcmp(&got, &want, sizeof want), 0);
		for (uint32_t i = 0; i < sizeof(struct hr_io_counters); i++)
			cr_assert_eq(((const uint8_t *)&want.block->count)[i], 0);
		for (uint32_t i = 0; i < HR_IO_COMMANDS_MAX; i++)
			cr_assert_eq(want.block->unused[i], i < 8 ? i : 0xee, "%u", i);
		if (!gpus)
			io_rig_down();
	}
}

Test(io_rounds, a_worker_ends_when_the_run_does)
{
	io_rig_up(&plain);
	RIG->m.words.stop = HR_CACHE_ENDS;
	STEP((hr_io_run(&RIG->access, 1), 0),
	     "= 0 words.epoch 40>41 worker5 seen 4294967295 ended 0 counters1 status1 done "
	     "0>1 heartbeat 0>1");
	io_rig_down();
	io_rig_up(&(struct io_rig_shape){ .gpus = 2, .first = true });
	RIG->m.words.stop = HR_CACHE_FAILED;
	STEP((hr_io_run(&RIG->access, 0), 0),
	     "= 0 words.settled 40>0 worker4 seen 4294967295 ended 0 counters0 status0 done "
	     "0>1 heartbeat 0>1 words of 1: stop 0>1");
	io_rig_down();
	/* the host says that commands will not complete */
	io_rig_up(&(struct io_rig_shape){ .gpus = 2, .first = true });
	RIG->m.control.stop = HR_STOP_WAITING;
	STEP((hr_io_run(&RIG->access, 0), 0),
	     "= 0 words.settled 40>0 words.stop 0>1 worker4 seen 4294967295 ended 0 "
	     "counters0 status0 done 0>1 heartbeat 0>1 words of 1: stop 0>1");
}

Test(io_rounds, a_worker_is_over_when_it_has_no_work)
{
	static const struct {
		bool dead, stopped;
		uint32_t sent, unsent;
		uint64_t flushed;
		bool peers, peers_done, over;
	} row[] = {
		{ true, false, 3, 3, 0, true, false, true },
		{ false, true, 0, 0, 0, true, false, true },
		{ false, true, 1, 0, 0, false, false, false },
		{ false, true, 0, 1, 0, false, false, false },
		{ false, false, 0, 0, HR_IO_DRAIN - 1, false, false, false },
		{ false, false, 0, 0, HR_IO_DRAIN, false, false, true },
		{ false, false, 0, 0, HR_IO_DRAIN, true, false, false },
		{ false, false, 0, 0, HR_IO_DRAIN, true, true, true },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		io_rig_up(row[i].peers ? &peers : &plain);
		W->role.dead = row[i].dead;
		W->stopped = row[i].stopped;
		W->sent = row[i].sent;
		W->unsent = row[i].unsent;
		W->flushed = row[i].flushed;
		W->peers_done = row[i].peers_done;
		cr_expect_eq(io_over(W), row[i].over, "row %u", i);
		io_rig_down();
	}
	io_rig_up(&plain);
}

/* ---- the reserve */

Test(io_rounds, sets_of_a_worker)
{
	static const struct {
		struct io_rig_shape shape;
		uint32_t sets;
	} row[] = { { { 0 }, 16 },
		    { { .first = true }, 16 },
		    { { .io_workers = 3, .index = 1 }, 8 },
		    { { .io_workers = 3, .first = true }, 16 },
		    { { .io_workers = 3, .index = 2, .group_shift = 4 }, 0 },
		    { { .flat = true }, 16 } };

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		io_rig_up(&row[i].shape);
		cr_expect_eq(io_sets(W), row[i].sets, "row %u: %u", i, io_sets(W));
		io_rig_down();
	}
	io_rig_up(&plain);
}

Test(io_rounds, the_reserve_follows_the_pages_that_entered)
{
	static const struct {
		uint32_t entered, epochs, leaving;
		uint32_t now, reserve;
		bool calm;
	} row[] = {
		/* 16 sets: 1 + (2 * leaving + 12) / 16, calm below 2 */
		{ 0, 1, 0, 0, 1, true },     { 0, 1, 2, 1, 1, true },	 { 1, 1, 0, 2, 2, false },
		{ 2, 1, 3, 5, 2, false },    { 2, 1, 4, 5, 2, false },	 { 6, 2, 0, 5, 2, false },
		{ 7, 2, 0, 5, 2, false },    { 8, 2, 0, 6, 2, false },	 { 6, 1, 1, 10, 3, false },
		{ 6, 1, 0, 9, 2, false },    { 12, 1, 0, 18, 4, false }, { 11, 1, 0, 17, 3, false },
		{ 90, 1, 0, 135, 4, false }, { 90, 100, 0, 0, 1, true },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		io_rig_up(&plain);
		W->entered = row[i].entered;
		W->leaving = row[i].leaving;
		io_choose_reserve(W, row[i].epochs);
		cr_expect_eq(W->entered, 0);
		cr_expect_eq(W->leaving, row[i].now, "row %u: %u", i, W->leaving);
		cr_expect_eq(W->reserve, row[i].reserve, "row %u: %u", i, W->reserve);
		cr_expect_eq(W->calm, row[i].calm, "row %u", i);
		io_rig_down();
	}
	io_rig_up(&(struct io_rig_shape){ .io_workers = 3, .index = 2, .group_shift = 4 });
	W->reserve = 3;
	io_choose_reserve(W, 1);
	cr_expect_eq(W->reserve, 1, "a worker without sets");
}

/* ---- shared words */

Test(io_rounds, a_worker_looks_at_the_shared_words)
{
	struct hr_cache_words *words;

	io_rig_up(&plain);
	words = &RIG->m.words;
	words->epoch = IO_RIG_EPOCH + 1;
	W->scan = W->scan_ended = 1;
	STEP((io_look(W), 0), "= 0 w.seen 40>41 w.scan 1>0 w.scan_ended 1>0");
	words->settled = IO_RIG_EPOCH + 2;
	W->entered = 4;
	STEP((io_look(W), 0), "= 0 w.settled 40>42 w.reserve 1>2 w.entered 4>0 w.leaving 0>3");
	words->flush_wanted = 5ull << 32 | 7;
	STEP((io_look(W), 0), "= 0 w.flush_wanted 0>21474836487");
	words->stop = HR_CACHE_DEADLOCK;
	STEP((io_look(W), 0), "= 0 w.stopped 0>1");
	words->stop = 0;
	words->ended = HR_CACHE_UNWRITTEN;
	STEP((io_look(W), 0), "= 0 w.ended 0>1");
	words->ended = HR_CACHE_UNREAD;
	STEP((io_look(W), 0), "= 0 w.unread 0>1");
	io_rig_down();
	io_rig_up(&first);
	RIG->m.words.epoch = IO_RIG_EPOCH + 3;
	STEP((io_look(W), 0), "= 0 w.seen 40>43 count.epochs 0>3");
}

/* ---- epochs: compute workers 0 .. 3, I/O workers 4 and 5 */

static void sees(uint32_t worker, uint32_t epoch)
{
	RIG->m.worker[worker].seen = epoch;
}

Test(io_rounds, a_worker_publishes_the_epoch_after_its_share)
{
	io_rig_up(&plain);
	RIG->m.words.epoch = IO_RIG_EPOCH + 1;
	sees(0, 0);
	sees(2, IO_RIG_EPOCH + 1);
	STEP((hr_io_epoch(W), 0), "= 0 w.seen 40>41 w.scan 0>1 count.behind 0>3");
	STEP((hr_io_epoch(W), 0), "= 0");
	sees(3, IO_RIG_EPOCH + 1);
	STEP((hr_io_epoch(W), 0),
	     "= 0 w.published 40>41 w.scan 1>0 count.behind 3>4 worker5 seen 41 ended 0");
	STEP((hr_io_epoch(W), 0), "= 0");
	sees(4, IO_RIG_EPOCH + 1);
	STEP((hr_io_epoch(W), 0), "= 0 words.epoch 41>42 words.settled 40>41");
	STEP((hr_io_epoch(W), 0), "= 0 w.seen 41>42 w.settled 40>41 w.calm 0>1 count.behind 4>2");
}

Test(io_rounds, the_share_of_a_worker_ends_with_its_compute_workers)
{
	io_rig_up(&plain);
	RIG->m.words.epoch = IO_RIG_EPOCH + 1;
	sees(2, HR_EPOCH_ENDED);
	sees(3, IO_RIG_EPOCH + 1);
	STEP((hr_io_epoch(W), 0),
	     "= 0 w.seen 40>41 w.published 40>41 count.behind 0>4 worker5 seen 41 ended 0");
	io_rig_down();
	io_rig_up(&plain);
	RIG->m.words.epoch = IO_RIG_EPOCH + 1;
	sees(2, HR_EPOCH_ENDED);
	sees(3, HR_EPOCH_ENDED);
	STEP((hr_io_epoch(W), 0),
	     "= 0 w.seen 40>41 w.published 40>41 count.behind 0>4 worker5 seen 41 ended 1");
	RIG->m.worker[4].share_ended = 1;
	sees(4, IO_RIG_EPOCH + 1);
	STEP((hr_io_epoch(W), 0), "= 0 words.epoch 41>42 words.settled 40>41 words.ended 0>2");
	STEP((hr_io_epoch(W), 0),
	     "= 0 w.seen 41>42 w.settled 40>41 w.published 41>42 w.ended 0>1 w.unread 0>1 "
	     "w.calm 0>1 worker5 seen 42 ended 1");
}

/* An I/O worker that has ended counts by its share's end, and not by its epoch. */
Test(io_rounds, workers_that_have_ended_keep_no_epoch)
{
	io_rig_up(&plain);
	sees(4, HR_EPOCH_ENDED);
	STEP((hr_io_epoch(W), 0), "= 0 count.behind 0>4");
	RIG->m.worker[4].share_ended = 1;
	STEP((hr_io_epoch(W), 0), "= 0 words.epoch 40>41");
}

/* Another worker has begun the next epoch. */
Test(io_rounds, one_worker_begins_the_next_epoch)
{
	io_rig_up(&plain);
	W->scan = 1;
	RIG->m.words.epoch = IO_RIG_EPOCH + 1;
	STEP((io_next_epoch(W), 0), "= 0 w.scan 1>0");
}

Test(io_rounds, a_round_looks_at_four_workers)
{
	io_rig_up(&(struct io_rig_shape){ .first = true, .io_workers = 1, .computers = 9 });
	RIG->m.words.epoch = HR_EPOCH_ENDED - 1;
	for (uint32_t i = 0; i < 9; i++)
		sees(i, HR_EPOCH_ENDED - 1);
	sees(8, HR_EPOCH_ENDED);
	STEP((hr_io_epoch(W), 0), "= 0 w.seen 40>4294967294 w.scan 0>4 count.epochs 0>4294967254");
	STEP((hr_io_epoch(W), 0), "= 0 w.scan 4>8");
	STEP((hr_io_epoch(W), 0),
	     "= 0 w.published 40>4294967294 w.scan 8>0 count.behind 0>9 words.epoch "
	     "4294967294>0 words.settled 40>4294967294 worker9 seen 4294967294 ended 0");
}

Test(io_rounds, shares_of_compute_workers)
{
	struct hr_page_cache cache = { .computers = 7, .io_workers = 3 };

	cr_expect_eq(io_share(&cache, 0), 0);
	cr_expect_eq(io_share(&cache, 1), 2);
	cr_expect_eq(io_share(&cache, 2), 4);
	cr_expect_eq(io_share(&cache, 3), 7);
	cache.computers = 3000000000u;
	cr_expect_eq(io_share(&cache, 2), 2000000000u);
}

Test(io_rounds, with_several_gpus_worker_0_changes_the_epoch)
{
	io_rig_up(&peers);
	RIG->peers.words->passed[1] = RIG->peers.words->passed[2] = IO_RIG_EPOCH - 9;
	sees(5, IO_RIG_EPOCH - 1);
	STEP((hr_io_epoch(W), 0), "= 0 w.scan 0>1 count.behind 0>5");
	sees(5, IO_RIG_EPOCH);
	STEP((hr_io_epoch(W), 0), "= 0 w.confirmed 0>40 w.scan 1>2 words.settled 40>31");
	RIG->peers.words->passed[1] = IO_RIG_EPOCH - 3;
	STEP((hr_io_epoch(W), 0), "= 0 w.settled 40>31 w.calm 0>1");
	RIG->peers.words->passed[2] = IO_RIG_EPOCH - 2;
	STEP((hr_io_epoch(W), 0),
	     "= 0 w.scan 2>0 words.epoch 40>41 words.settled 31>37 words of 1: epoch[0] 0>41 "
	     "words of 2: epoch[0] 0>41");
	io_rig_down();
	io_rig_up(&peers);
	RIG->m.worker[4].share_ended = RIG->m.worker[5].share_ended = 1;
	RIG->peers.words->passed[1] = IO_RIG_EPOCH;
	RIG->peers.words->passed[2] = HR_EPOCH_ENDED;
	STEP((io_next_epoch(W), 0),
	     "= 0 w.confirmed 0>40 words.epoch 40>41 words.ended 0>1 words of 1: epoch[0] "
	     "0>41 passed[0] 0>4294967295 words of 2: epoch[0] 0>41 passed[0] 0>4294967295");
	RIG->peers.words->passed[1] = HR_EPOCH_ENDED;
	STEP((io_next_epoch(W), 0), "= 0 words.ended 1>2");
	io_rig_down();
	io_rig_up(&(struct io_rig_shape){ .gpus = 3, .group_shift = 2 });
	STEP((io_next_epoch(W), 0), "= 0");
}

/* ---- the host */

Test(io_rounds, worker_0_passes_the_stop_of_the_host_on)
{
	io_rig_up(&first);
	STEP((io_check_stop(W, false), 0), "= 0");
	RIG->m.control.stop = HR_STOP_NEW;
	STEP((io_check_stop(W, true), 0), "= 0 w.stopped 0>1 words.stop 0>1");
	RIG->m.control.stop = HR_STOP_WAITING;
	STEP((io_check_stop(W, false), 0), "= 0 w.role.dead 0>1");
	io_rig_down();
	io_rig_up(&first);
	RIG->m.words.stop = HR_CACHE_FAILED;
	RIG->m.control.stop = HR_STOP_WAITING;
	STEP((io_check_stop(W, false), 0), "= 0 w.stopped 0>1 w.role.dead 0>1");
	io_rig_down();
	io_rig_up(&plain);
	RIG->m.control.stop = HR_STOP_NEW;
	STEP((io_check_stop(W, false), 0), "= 0");
	RIG->m.control.stop = HR_STOP_WAITING;
	STEP((io_check_stop(W, true), 0), "= 0");
	STEP((io_check_stop(W, false), 0), "= 0 w.role.dead 0>1");
}

Test(io_rounds, the_host_sees_all_counters)
{
	const struct hr_io_counters *seen;

	io_rig_up(&(struct io_rig_shape){ .page_shift = 13, .merge = 4 });
	seen = &RIG->m.counters[1];
	for (uint32_t i = 0; i < sizeof *seen / sizeof(uint64_t); i++)
		((uint64_t *)(void *)&W->block->count)[i] = 100 + i;
	STEP((io_publish(W), 0), "= 0 counters1 status1 tiles 0>206 bytes 0>1687552");
	cr_expect_eq(memcmp(seen, &W->block->count, sizeof *seen), 0);
}

Test(io_rounds, pauses_are_short_while_work_is_under_way)
{
	static const struct {
		uint32_t waiting, unsent, flush_step, asked, sent, spins, want;
		bool peers;
	} row[] = {
		{ 0, 0, 0, 0, 1, 500, 500, false }, { 1, 0, 0, 0, 0, 500, 64, false },
		{ 0, 1, 0, 0, 0, 500, 64, false },  { 0, 0, 1, 0, 0, 500, 64, false },
		{ 0, 0, 0, 1, 0, 500, 64, true },   { 0, 0, 0, 0, 0, 500, 500, true },
		{ 1, 0, 0, 0, 0, 63, 63, false },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		io_rig_up(row[i].peers ? &peers : &plain);
		W->waiting = row[i].waiting;
		W->unsent = row[i].unsent;
		W->flush_step = row[i].flush_step;
		W->asked = row[i].asked;
		W->sent = row[i].sent;
		W->role.spins = row[i].spins;
		io_limit_pause(W);
		cr_expect_eq(W->role.spins, row[i].want, "row %u: %u", i, W->role.spins);
		io_rig_down();
	}
	io_rig_up(&plain);
}

/* ---- rounds */

Test(io_rounds, a_round_takes_requests_and_the_next_one_their_completions)
{
	io_rig_up(&plain);
	STEP((io_round(W), 0),
	     "= 0 w.row 1>3 w.role.spins 0>1 w.role.cost.rounds 0>1 words.epoch 40>41 "
	     "status1 heartbeat 0>1");
	io_rig_request(36, 0);
	STEP((io_round(W), 0),
	     "= 0 w.seen 40>41 w.unused 8>7 w.sent 0>1 w.taken 0>1 w.told 0>1 w.room 0>1 "
	     "w.entered 0>1 w.moved_ns 0>1000000000 w.role.spins 1>0 w.role.cost.rounds 1>2 "
	     "w.role.cost.busy_rounds 0>1 room0 s9 wants 1 unused [0 1 2 3 4 5 6] "
	     "count.requests 0>1 count.reads 0>1 count.read_commands 0>1 count.behind 0>2 "
	     "count.serves 0>1 ring1.taken 1 counters1 status1 heartbeat 1>2 tiles 0>1 bytes "
	     "0>4096 s9.6 FREE>READING p36 s9.recency 0>40 c7 SENT page 36+1 read [6] q1 #7 "
	     "op2 n7 L1288+8 F69 q1 rung");
	io_rig_complete(1, 7, 0);
	STEP((io_round(W), 0),
	     "= 0 w.unused 7>8 w.sent 1>0 w.room 1>0 w.role.cost.rounds 2>3 "
	     "w.role.cost.busy_rounds 1>2 unused [0 1 2 3 4 5 6 7] count.settles 0>1 "
	     "counters1 status1 heartbeat 2>3 s9.6 READING p36>READY p36 c7 UNUSED at 0>1");
	STEP((io_round(W), 0),
	     "= 0 w.row 3>1 w.role.spins 0>1 w.role.cost.rounds 3>4 status1 heartbeat 3>4");
	W->ended = true;
	io_rig_request(37, 0);
	STEP((io_round(W), 0),
	     "= 0 w.row 1>3 w.sweep 0>1 w.flush_row 0>1 w.flush 0>-1 w.flushed 0>-1 "
	     "w.role.spins 1>2 w.role.cost.rounds 4>5 flushed1 -1 status1 heartbeat 4>5");
	io_rig_down();
	io_rig_up(&plain);
	io_rig_request(37, 0);
	W->stopped = true;
	W->flush_wanted = 3;
	STEP((io_round(W), 0),
	     "= 0 w.flush_wanted 3>0 w.role.spins 0>1 w.role.cost.rounds 0>1 words.epoch "
	     "40>41 status1 heartbeat 0>1");
}

Test(io_rounds, a_round_writes_and_sends)
{
	io_rig_up(&plain);
	io_rig_put(36, 0, HR_PAGE_DIRTY);
	W->ended = true;
	STEP((io_round(W), 0),
	     "= 0 w.unused 8>7 w.sent 0>1 w.row 1>3 w.sweep 0>1 w.flush_step 0>2 w.flush_row "
	     "0>1 w.flush 0>-1 w.role.cost.rounds 0>1 w.role.cost.busy_rounds 0>1 "
	     "w.writing[0] 0>1 unused [0 1 2 3 4 5 6] count.write_commands 0>1 words.epoch "
	     "40>41 counters1 status1 heartbeat 0>1 s9.0 DIRTY p36>WRITING p36 c7 SENT page "
	     "36+1 write q1 #7 op1 n7 L1288+8 F63 q1 rung");
	W->role.cost.rounds = 1;
	STEP((io_round(W), 0), "= 0 w.seen 40>41 w.row 3>1 w.role.spins 0>1 w.role.cost.rounds 1>2 "
			       "count.behind 0>2 counters1 status1 heartbeat 1>2");
	io_rig_complete(1, 7, 0);
	STEP((io_round(W), 0),
	     "= 0 w.unused 7>8 w.sent 1>0 w.moved_ns 0>1000000000 w.flush_step 2>0 w.flushed "
	     "0>-1 w.role.spins 1>0 w.role.cost.rounds 2>3 w.role.cost.busy_rounds 1>2 "
	     "w.writing[0] 1>0 unused [0 1 2 3 4 5 6 7] count.write_backs 0>1 count.settles "
	     "0>1 flushed1 -1 counters1 status1 heartbeat 2>3 tiles 0>1 bytes 0>4096 s9.0 "
	     "WRITING p36>READY p36 c7 UNUSED at 0>1");
}

/* A completion is a reason to look at the epoch before requests, and the duties look again. */
Test(io_rounds, a_round_with_a_completion_looks_at_the_epoch_twice)
{
	io_rig_up(&plain);
	io_rig_request(36, 0);
	STEP((io_round(W), 0),
	     "= 0 w.unused 8>7 w.sent 0>1 w.taken 0>1 w.told 0>1 w.room 0>1 w.entered 0>1 "
	     "w.moved_ns 0>1000000000 w.row 1>3 w.role.cost.rounds 0>1 "
	     "w.role.cost.busy_rounds 0>1 room0 s9 wants 1 unused [0 1 2 3 4 5 6] "
	     "count.requests 0>1 count.reads 0>1 count.read_commands 0>1 count.serves 0>1 "
	     "words.epoch 40>41 ring1.taken 1 counters1 status1 heartbeat 0>1 tiles 0>1 bytes "
	     "0>4096 s9.6 FREE>READING p36 s9.recency 0>40 c7 SENT page 36+1 read [6] q1 #7 "
	     "op2 n7 L1288+8 F69 q1 rung");
	io_rig_complete(1, 7, 0);
	for (uint32_t i = 0; i < 5; i++)
		sees(i, IO_RIG_EPOCH + 1);
	STEP((io_round(W), 0),
	     "= 0 w.seen 40>42 w.settled 40>41 w.published 40>41 w.unused 7>8 w.sent 1>0 "
	     "w.room 1>0 w.reserve 1>2 w.entered 1>0 w.leaving 0>2 w.role.cost.rounds 1>2 "
	     "w.role.cost.busy_rounds 1>2 unused [0 1 2 3 4 5 6 7] count.behind 0>2 "
	     "count.settles 0>1 words.epoch 41>42 words.settled 40>41 worker5 seen 41 ended 0 "
	     "counters1 status1 heartbeat 1>2 s9.6 READING p36>READY p36 c7 UNUSED at 0>1");
}

/* With one ssd a worker without other work takes requests one by one. */
Test(io_rounds, a_single_request_is_served_by_itself)
{
	io_rig_up(&plain);
	RIG->access.ssds = 1;
	RIG->access.queue_of[0] = 0;
	STEP((io_round(W), 0),
	     "= 0 w.row 1>3 w.role.spins 0>1 w.role.cost.rounds 0>1 words.epoch 40>41 "
	     "status1 heartbeat 0>1");
	io_rig_request(136, 0);
	STEP((io_round(W), 0),
	     "= 0 w.seen 40>41 w.unused 8>7 w.sent 0>1 w.taken 0>1 w.told 0>1 w.object 0>1 "
	     "w.role.spins 1>0 w.role.cost.rounds 1>2 w.role.cost.busy_rounds 0>1 unused [0 "
	     "1 2 3 4 5 6] count.requests 0>1 count.reads 0>1 count.read_commands 0>1 "
	     "count.behind 0>2 count.serves 0>1 ring1.taken 1 counters1 status1 heartbeat "
	     "1>2 tiles 0>1 bytes 0>4096 s10.6 FREE>READING p136 s10.recency 0>40 c7 SENT "
	     "page 136+1 read [6] q0 #7 op2 n8 L5008+1 F76 q0 rung");
	io_rig_complete(0, 7, 0);
	STEP((io_round(W), 0),
	     "= 0 w.unused 7>8 w.sent 1>0 w.moved_ns 0>1000000000 w.role.cost.rounds 2>3 "
	     "w.role.cost.busy_rounds 1>2 unused [0 1 2 3 4 5 6 7] count.settles 0>1 "
	     "counters1 status1 heartbeat 2>3 s10.6 READING p136>READY p136 c7 UNUSED at 0>1");
	STEP((io_round(W), 0),
	     "= 0 w.row 3>1 w.role.spins 0>1 w.role.cost.rounds 3>4 status1 heartbeat 3>4");
	RIG->m.words.flush_wanted = 1;
	STEP((io_round(W), 0),
	     "= 0 w.row 1>3 w.sweep 0>1 w.flush_row 0>1 w.flush_wanted 0>1 w.flush 0>1 "
	     "w.flushed 0>1 w.role.spins 1>2 w.role.cost.rounds 4>5 flushed1 1 status1 "
	     "heartbeat 4>5");
	RIG->m.words.stop = HR_CACHE_ENDS;
	STEP((io_round(W), 0),
	     "= 0 w.stopped 0>1 w.role.spins 2>3 w.role.cost.rounds 5>6 status1 heartbeat "
	     "5>6");
}
