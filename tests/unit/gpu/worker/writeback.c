/* Write-back, function by function: which writes it posts, what completions and errors change, and
 * the flush at the end. */
#include "nvme/queue.h"

static inline void rig_ring(const struct hr_nvme_qp *qp);
#define hr_qp_ring rig_ring
#include "gpu/worker/writeback.c"
#undef hr_qp_ring

#include "tests/harness/roles_rig.h"

HR_DEVICE void hr_compute_block(struct hr_pipe *pipe, uint32_t block)
{
	calls_note("compute %u of %u slots\n", block, pipe->slots);
}

HR_DEVICE void hr_prefetch_block(struct hr_pipe *pipe, uint32_t block)
{
	calls_note("prefetch %u of %u slots\n", block, pipe->slots);
}

#define RETRY 0x06 /* Internal Error */
#define MEDIA 0x280

static struct hr_slot *const mine = &rig.slot[3];
static struct hr_nvme_qp *const queue = &rig.qp[1];

static void begin(void)
{
	rig_begin(HR_ROLE_WRITEBACK);
	for (unsigned s = 0; s < RIG_SLOTS; s++)
		rig.slot[s].state = HR_SLOT_COMPUTED;
	mine->tile = 6;
	rig.slot[1].tile = 2;
}

TestSuite(writeback, .init = begin, .fini = rig_end, .timeout = 60);

#define WRITE_3(n) "write q1 object 99 12288+2048 buffer 3/39 flags 0: " #n "\n"
#define WRITE_1(n) "write q1 object 99 4096+2048 buffer 1/19 flags 0: " #n "\n"

/* ---- writes */

Test(writeback, the_output_of_a_tile_is_written_where_it_belongs)
{
	results(3, 0);
	cr_expect(writeback_post(&rig.w, queue, 3));
	EXPECT_LOG(WRITE_3(3));
	cr_expect(mine->writing == 3);
	cr_expect(mine->state == HR_SLOT_COMPUTED && rig.written[3] == 0);
	/* nothing to write */
	rig.slot[1].out_bytes = 0;
	rig.slot[1].state = HR_SLOT_COMPUTED;
	cr_expect(writeback_post(&rig.w, queue, 1));
	cr_expect(rig.slot[1].state == HR_SLOT_FREE && rig.written[1] == 3);
	cr_expect(rig.w.status->tiles == 1 && rig.w.status->bytes == 0);
}

Test(writeback, a_write_that_cannot_be_posted)
{
	mine->writing = 0;
	results(-EAGAIN, -EINVAL);
	cr_expect(!writeback_post(&rig.w, queue, 3));
	cr_expect(!rig.w.failed);
	cr_expect(!writeback_post(&rig.w, queue, 3));
	cr_expect(mine->writing == 0 && mine->state == HR_SLOT_COMPUTED);
	expect_failure(-EINVAL, 0, 6, 3000 + 6 * 4, 99, 2, 0, nvme_cmd_write);
}

Test(writeback, a_command_is_sent_again_with_the_arguments_of_its_tile)
{
	cr_expect(writeback_again(&rig.w, 3, HR_TOKEN(3, 1)));
	EXPECT_LOG("again q1 op 1 object 99 12288+2048 buffer 3/39 chunk 1 flags 0: 1\n");
	results(-EAGAIN, 0);
	cr_expect(!writeback_again(&rig.w, 3, HR_TOKEN(3, 1)));
	cr_expect(!writeback_again(&rig.w, 3, HR_TOKEN(3, 1)));
}

static void park(unsigned s, uint32_t parked, uint64_t until)
{
	rig.slot[s].parked = parked;
	for (uint32_t i = 0; i < parked; i++)
		rig.slot[s].parked_token[i] = HR_TOKEN(s, i);
	rig.slot[s].parked_until_ns = until;
	rig.slot[s].writing = 7;
	rig.w.parked += parked;
}

Test(writeback, parked_commands_are_sent_after_their_pause)
{
	park(1, 2, RIG_NOW + 1);
	park(3, 2, RIG_NOW);
	writeback_resend(&rig.w);
	cr_expect(rig.slot[1].parked == 2 && mine->parked == 0 && rig.w.parked == 2);
	cr_expect_eq(mine->writing, 7);
	EXPECT_LOG("again q1 op 1 object 99 12288+2048 buffer 3/39 chunk 1 flags 0: 1\n"
		   "again q1 op 1 object 99 12288+2048 buffer 3/39 chunk 0 flags 0: 1\n");
	fake_clock_advance(1);
	results(1, -EAGAIN);
	writeback_resend(&rig.w);
	cr_expect(rig.slot[1].parked == 1 && rig.w.parked == 1);
	calls_take();
	rig.slot[1].state = HR_SLOT_FREE; /* then the words are prefetch's */
	writeback_resend(&rig.w);
	EXPECT_LOG("");
	rig.slot[1].state = HR_SLOT_COMPUTED;
	writeback_resend(&rig.w);
	cr_expect(rig.slot[1].parked == 0 && rig.w.parked == 0);
	calls_take();
	mine->parked = 1; /* no command of this worker */
	writeback_resend(&rig.w);
	EXPECT_LOG("");
}

Test(writeback, a_tile_with_many_parked_commands_is_written_again)
{
	mine->parked = rig.w.parked = HR_PARKED_MAX + 2;
	mine->parked_until_ns = RIG_NOW;
	mine->writing = HR_PARKED_MAX + 3; /* one is at the controller */
	writeback_resend(&rig.w);
	cr_expect(mine->parked == HR_PARKED_MAX + 2 && mine->writing == HR_PARKED_MAX + 3);
	mine->writing--;
	mine->write_tries = 30;
	writeback_resend(&rig.w);
	EXPECT_LOG("");
	cr_expect(mine->parked == 0 && rig.w.parked == 0 && mine->writing == 0);
	results(3, 0);
	cr_expect(writeback_visit(&rig.w, queue, 3));
	EXPECT_LOG(WRITE_3(3));
	cr_expect(mine->writing == 3 && mine->write_tries == 30, "the deadline stays");
}

Test(writeback, after_a_failure_parked_commands_are_dropped_and_their_tiles_are_lost)
{
	park(1, 2, RIG_NOW);
	park(3, 1, RIG_NOW + 5);
	rig.w.failed = true;
	mine->spoiled = 1;
	mine->lost = 4; /* an earlier one */
	writeback_resend(&rig.w);
	EXPECT_LOG("");
	cr_expect(rig.slot[1].parked == 0 && mine->parked == 0 && rig.w.parked == 0);
	cr_expect(rig.slot[1].writing == 5 && mine->writing == 6);
	cr_expect(rig.slot[1].spoiled == 1 && rig.slot[1].lost == 2);
	cr_expect(mine->spoiled == 1 && mine->lost == 4);
}

/* ---- completions */

Test(writeback, the_last_completion_frees_the_slot_and_counts_the_tile)
{
	mine->writing = 2;
	completes(3, 0, 5, 0);
	cr_expect(writeback_reap(&rig.w, queue));
	cr_expect(mine->writing == 1 && mine->state == HR_SLOT_COMPUTED && rig.written[3] == 0);
	completes(3, 1, 6, 0);
	cr_expect(writeback_reap(&rig.w, queue));
	cr_expect(mine->writing == 0 && mine->state == HR_SLOT_FREE);
	cr_expect_eq(rig.written[3], 7);
	cr_expect(rig.w.status->tiles == 1 && rig.w.status->bytes == 2048);
	cr_expect(!writeback_reap(&rig.w, queue));
	cr_expect(!rig.w.failed && !rig.w.dead);
}

Test(writeback, a_tile_of_a_spoiled_slot_is_not_counted)
{
	mine->writing = 1;
	mine->spoiled = 1;
	completes(3, 0, 5, 0);
	cr_expect(writeback_reap(&rig.w, queue));
	cr_expect(mine->writing == 0 && mine->state == HR_SLOT_COMPUTED && rig.written[3] == 0);
}

Test(writeback, a_failed_write_is_parked_or_fails_the_pipeline)
{
	struct hr_done done = failed(3, 1, RETRY);

	mine->writing = 2;
	writeback_bad(&rig.w, queue, &done);
	cr_expect(mine->parked == 1 && mine->writing == 2 && mine->write_tries == 1);
	cr_expect(mine->read_tries == 0 && rig.w.parked == 1 && !rig.w.failed && !mine->spoiled);
	done.dnr = true;
	writeback_bad(&rig.w, queue, &done);
	cr_expect(mine->parked == 1 && mine->writing == 1 && mine->spoiled && mine->lost == 6);
	expect_failure(RETRY, 0, 6, 3000 + 6 * 4 + 2, 99, 2, 33, nvme_cmd_write);
}

Test(writeback, a_completion_with_an_error_is_progress)
{
	mine->writing = 1;
	completes(3, 0, 33, HR_STATUS_LOST);
	cr_expect(writeback_reap(&rig.w, queue));
	cr_expect(mine->writing == 0 && mine->state == HR_SLOT_COMPUTED);
	expect_failure(-ETIMEDOUT, 0, 6, 3000 + 6 * 4, 99, 2, 33, nvme_cmd_write);
}

Test(writeback, a_broken_queue_is_said_once)
{
	queue->broken = -EPROTO;
	cr_expect(!writeback_reap(&rig.w, queue));
	cr_expect(rig.w.dead);
	expect_failure(-EPROTO, 0, HR_NO_TILE, 0, 99, 2, 0, nvme_cmd_write);
	rig.w.failed = false;
	cr_expect(!writeback_reap(&rig.w, queue));
	cr_expect(!rig.w.failed);
}

/* ---- slots */

Test(writeback, a_visit_writes_a_computed_slot)
{
	cr_expect(writeback_visit(&rig.w, queue, 3));
	EXPECT_LOG(WRITE_3(1));
	mine->state = HR_SLOT_FILLED;
	cr_expect(!writeback_visit(&rig.w, queue, 3));
	EXPECT_LOG("");
	cr_expect(!rig.w.failed);
}

Test(writeback, after_a_failure_a_visit_drops_the_tile)
{
	for (unsigned i = 0; i < 2; i++) {
		begin();
		if (i == 0)
			rig.w.failed = true;
		else
			mine->out_bytes = HR_OUT_BROKEN;
		mine->parked = 2;
		rig.w.parked = 3;
		cr_expect(!writeback_visit(&rig.w, queue, 3));
		EXPECT_LOG("");
		cr_expect(mine->state == HR_SLOT_FREE && mine->spoiled && mine->lost == 6);
		cr_expect(mine->parked == 0 && rig.w.parked == 1);
		cr_expect(rig.w.failed && rig.written[3] == 0);
		cr_expect_eq(rig.pipe.stop, 0); /* compute has said so */
	}
}

Test(writeback, a_full_queue_ends_the_round_and_its_slot_is_the_first_of_the_next)
{
	uint32_t open = 0;

	results(1, -EAGAIN);
	cr_expect(writeback_slots(&rig.w, queue, &open));
	EXPECT_LOG(WRITE_1(1) WRITE_3(-11));
	cr_expect_eq(open, 2);
	cr_expect_eq(rig.w.first, 1);
	open = 0;
	cr_expect(writeback_slots(&rig.w, queue, &open));
	EXPECT_LOG(WRITE_3(1)); /* slot 1 is written */
	cr_expect(!writeback_slots(&rig.w, queue, &open));
	EXPECT_LOG("");
	rig.slot[1].writing = mine->writing = 0;
	rig.w.first = 0;
	results(-EAGAIN, 1);
	cr_expect(!writeback_slots(&rig.w, queue, &open));
	EXPECT_LOG(WRITE_1(-11)); /* no further slot is tried */
	cr_expect_eq(rig.w.first, 0);
	mine->state = HR_SLOT_CLOSED;
	rig.slot[1].state = HR_SLOT_CLOSING;
	open = 0;
	cr_expect(!writeback_slots(&rig.w, queue, &open));
	cr_expect_eq(open, 1);
}

Test(writeback, slots_whose_writes_never_complete_are_dropped)
{
	uint32_t open = 0;

	rig.slot[1].writing = mine->writing = 2;
	rig.w.failed = true;
	cr_expect(!writeback_slots(&rig.w, queue, &open));
	cr_expect(mine->state == HR_SLOT_COMPUTED);
	rig.w.dead = true;
	cr_expect(!writeback_slots(&rig.w, queue, &open));
	cr_expect(mine->state == HR_SLOT_FREE && rig.slot[1].state == HR_SLOT_FREE);
	cr_expect_eq(rig.slot[0].state, HR_SLOT_COMPUTED);
}

/* ---- the flush */

static unsigned late; /* reaps before the completion comes; the clock goes on 1 ms with each */

static void tick(void)
{
	fake_clock_advance(HR_NS_PER_MS);
	if (late && --late == 0)
		rig.dones++;
}

Test(writeback, a_flush_is_one_command_and_its_completion)
{
	struct hr_done done = { 0 };

	rig.reap = tick;
	late = 3;
	rig.done[0] = failed(0, 0, 0);
	cr_expect_eq(writeback_flush_once(&rig.w, queue, &done), 0);
	EXPECT_LOG("flush q1 object 99 buffer 0: 1\nring q1\n");
	cr_expect(rig.reaps == 3 && done.cid == 33);
	cr_expect(rig.w.cost.rounds == 3 && rig.w.cost.busy_rounds == 1);
	results(-EAGAIN, 1);
	cr_expect_eq(writeback_flush_once(&rig.w, queue, &done), -EAGAIN);
	cr_expect_eq(rig.reaps, 3);
	completes(0, 0, 33, HR_STATUS_LOST);
	cr_expect_eq(writeback_flush_once(&rig.w, queue, &done), -ETIMEDOUT);
	completes(0, 0, 33, MEDIA);
	cr_expect_eq(writeback_flush_once(&rig.w, queue, &done), MEDIA);
	queue->broken = -EPROTO;
	cr_expect_eq(writeback_flush_once(&rig.w, queue, &done), -EPROTO);
	queue->broken = 0;
	rig.control.stop = HR_STOP_WAITING; /* the host reports that nothing completes */
	late = 0;
	cr_expect_eq(writeback_flush_once(&rig.w, queue, &done), 0);
	cr_expect(rig.w.dead);
}

Test(writeback, only_a_sink_with_a_volatile_cache_is_flushed_and_only_after_success)
{
	rig.pipe.flush_at_end = 0;
	writeback_flush(&rig.w, queue);
	rig.pipe.flush_at_end = 1;
	rig.w.failed = true;
	writeback_flush(&rig.w, queue);
	EXPECT_LOG("");
	rig.w.failed = false;
	completes(0, 0, 33, 0);
	writeback_flush(&rig.w, queue);
	EXPECT_LOG("flush q1 object 99 buffer 0: 1\nring q1\n");
	cr_expect(!rig.w.failed);
}

Test(writeback, a_flush_that_may_succeed_later_is_repeated_after_pauses)
{
	/* { statuses }, 0 at the end: it succeeds */
	static const struct {
		uint16_t status[9];
		bool dnr;
		unsigned flushes;
		int error;
		uint64_t timeout_ns, least_ns;
	} row[] = {
		{ { RETRY, RETRY }, false, 3, 0, HR_NS_PER_S, 3 * HR_RETRY_PAUSE_NS },
		{ { RETRY }, true, 1, RETRY, HR_NS_PER_S, 0 },
		{ { MEDIA }, false, 1, MEDIA, HR_NS_PER_S, 0 },
		{ { RETRY, RETRY, RETRY, RETRY, RETRY, RETRY, RETRY, RETRY, RETRY },
		  false,
		  9,
		  RETRY,
		  HR_NS_PER_S,
		  255 * HR_RETRY_PAUSE_NS },
		{ { RETRY, RETRY }, false, 1, RETRY, HR_RETRY_PAUSE_NS - 1, 0 },
		{ { RETRY, 0 }, false, 2, 0, HR_RETRY_PAUSE_NS, HR_RETRY_PAUSE_NS },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		unsigned flushes = 0;

		begin();
		queue->timeout_ns = row[i].timeout_ns;
		for (unsigned k = 0; k < 9; k++) {
			rig.done[k] = failed(0, 0, row[i].status[k]);
			rig.done[k].dnr = row[i].dnr;
		}
		rig.dones = 9;
		writeback_flush(&rig.w, queue);
		for (const char *at = calls_text(); (at = strstr(at, "flush")); at++)
			flushes++;
		cr_expect_eq(flushes, row[i].flushes, "%zu: %u", i, flushes);
		if (row[i].error)
			expect_failure(row[i].error, 0, rig.slot[1].tile, 3000 + 2 * 4, 99, 2, 0,
				       nvme_cmd_flush);
		cr_expect_eq(rig.w.failed, row[i].error != 0, "%zu", i);
		cr_expect_geq(hr_now_ns() - RIG_NOW, row[i].least_ns, "%zu", i);
	}
}

Test(writeback, a_pause_ends_at_its_time_or_when_nothing_completes_any_more)
{
	cr_expect(writeback_pause(&rig.w, RIG_NOW));
	cr_expect_eq(rig.w.cost.rounds, 0);
	cr_expect(writeback_pause(&rig.w, RIG_NOW + HR_NS_PER_MS));
	cr_expect_geq(hr_now_ns(), RIG_NOW + HR_NS_PER_MS);
	rig.control.stop = HR_STOP_WAITING;
	cr_expect(!writeback_pause(&rig.w, RIG_NOW + HR_NS_PER_S));
	cr_expect_lt(hr_now_ns(), RIG_NOW + HR_NS_PER_S);
}

/* ---- a whole block */

static void nothing_completes(void)
{
	rig.control.stop = HR_STOP_WAITING;
	for (unsigned s = 0; s < RIG_SLOTS; s++)
		if (rig.slot[s].state == HR_SLOT_FREE)
			rig.slot[s].state = HR_SLOT_CLOSED;
}

Test(writeback, a_block_ends_when_the_host_reports_that_nothing_completes)
{
	rig.reap = nothing_completes;
	hr_writeback_block(&rig.pipe, 1);
	cr_expect(mine->state == HR_SLOT_CLOSED && mine->writing == 1);
	cr_expect(mine->spoiled && mine->lost == 6 && rig.slot[1].spoiled);
	cr_expect(rig.status[5].done && !rig.status[5].failed);
	cr_expect_null(strstr(calls_text(), "flush"));
}

/* Complete what is written; compute three further tiles of each slot, then close it. */
static void complete(void)
{
	for (unsigned s = 0; s < RIG_SLOTS; s++) {
		if (rig.slot[s].state == HR_SLOT_FREE) {
			rig.slot[s].tile += RIG_SLOTS;
			rig.slot[s].state =
				rig.slot[s].tile < 15 ? HR_SLOT_COMPUTED : HR_SLOT_CLOSED;
		}
		if (rig.slot[s].writing && rig.done_at == rig.dones)
			completes(s, 0, 1, 0);
	}
	if (strstr(calls_text(), "flush") && rig.done_at == rig.dones)
		completes(0, 0, 1, 0);
}

Test(writeback, a_block_writes_all_tiles_of_its_slots_flushes_and_ends)
{
	for (unsigned worker = 0; worker < 2; worker++) {
		unsigned writes = 0;

		begin();
		for (unsigned s = 0; s < RIG_SLOTS; s++)
			rig.slot[s].tile = s;
		rig.reap = complete;
		hr_pipe_block(&rig.pipe, 4 + worker);
		for (const char *at = calls_text(); (at = strstr(at, "write")); at++)
			writes++;
		cr_expect_eq(writes, worker ? 6 : 9);
		cr_expect_eq(rig.status[4 + worker].tiles, writes);
		cr_expect_eq(rig.status[4 + worker].bytes, writes * 2048ull);
		for (unsigned s = 0; s < RIG_SLOTS; s++)
			cr_expect_eq(rig.written[s], s % 2 == worker ? s + 11 : 0, "%u", s);
		cr_expect_not_null(strstr(calls_text(), worker ? "flush q1" : "flush q0"));
		cr_expect(rig.status[4 + worker].done && !rig.status[5 - worker].done);
		cr_expect(!rig.status[4 + worker].failed);
	}
}
