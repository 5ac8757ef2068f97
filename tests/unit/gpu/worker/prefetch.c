/* Prefetch, function by function: which reads it posts, what completions and errors change. */
#include "nvme/queue.h"

static inline void rig_ring(const struct hr_nvme_qp *qp);
#define hr_qp_ring rig_ring
#include "gpu/worker/prefetch.c"
#undef hr_qp_ring

#include "tests/harness/roles_rig.h"

HR_DEVICE void hr_compute_block(struct hr_pipe *pipe, uint32_t block)
{
	calls_note("compute %u of %u slots\n", block, pipe->slots);
}

HR_DEVICE void hr_writeback_block(struct hr_pipe *pipe, uint32_t block)
{
	calls_note("writeback %u of %u slots\n", block, pipe->slots);
}

#define RETRY 0x06 /* Internal Error */
#define MEDIA 0x281

static struct hr_slot *const mine = &rig.slot[3];

static void begin(void)
{
	rig_begin(HR_ROLE_PREFETCH);
	for (unsigned s = 0; s < RIG_SLOTS; s++)
		rig.slot[s].state = HR_SLOT_FREE;
	mine->next_read = 6;
	mine->holds = 1;
	mine->tile = 4;
}

TestSuite(prefetch, .init = begin, .fini = rig_end, .timeout = 60);

/* Number of a buffer of slot 3 in texts. */
static const char *read_of(unsigned source, unsigned long long offset, unsigned bytes, int n)
{
	static char text[2][128];

	snprintf(text[source], sizeof text[0], "read q%u object %u %llu+%u buffer %u/%u: %d\n",
		 source ? 2 : 3, 70 + source, offset, bytes, 3 * HR_SOURCES_MAX + source,
		 30 + source, n);
	return text[source];
}

static void expect_reads(const char *first, const char *second)
{
	char text[512];

	snprintf(text, sizeof text, "%s%s", first, second);
	EXPECT_LOG(text);
}

/* ---- reads */

Test(prefetch, all_sources_of_a_tile_are_read_over_their_queues)
{
	results(2, 1);
	cr_expect(prefetch_post(&rig.w, 3));
	expect_reads(read_of(0, 6 * 8192, 8192, 2), read_of(1, 6 * 4096, 4096, 1));
	cr_expect(mine->tile == 6 && mine->posted == 2 && mine->reading == 3);
	cr_expect(mine->state == HR_SLOT_FREE && mine->holds == 1);
	cr_expect(!rig.w.failed);
}

Test(prefetch, the_last_tile_is_shorter_and_a_tile_behind_it_has_no_bytes)
{
	mine->next_read = 9;
	results(0, 0);
	cr_expect(prefetch_post(&rig.w, 3));
	expect_reads(read_of(0, 9 * 8192, 8092, 0), read_of(1, 9 * 4096, 4096, 0));
	/* without a command the slot is whole */
	cr_expect(mine->state == HR_SLOT_FILLED && mine->posted == 0 && mine->holds == 0);
	cr_expect_eq(rig.w.status->tiles, 1);
	cr_expect_eq(rig.w.status->bytes, 8092 + 4096);
	cr_expect(!rig.w.failed);
}

Test(prefetch, sources_without_room_are_read_later)
{
	results(-EAGAIN, 1);
	cr_expect(!prefetch_post(&rig.w, 3));
	expect_reads(read_of(0, 6 * 8192, 8192, -EAGAIN), "");
	cr_expect(mine->posted == 0 && mine->reading == 0);
	results(2, -EAGAIN);
	cr_expect(prefetch_post(&rig.w, 3));
	cr_expect(mine->posted == 1 && mine->reading == 2 && !rig.w.failed);
	calls_take();
	mine->read_tries = 3; /* of source 0, which counts for the tile */
	results(4, 1);
	cr_expect(prefetch_post(&rig.w, 3));
	expect_reads(read_of(1, 6 * 4096, 4096, 4), "");
	cr_expect(mine->posted == 2 && mine->reading == 6 && mine->read_tries == 3);
}

Test(prefetch, an_error_of_a_post_fails_the_pipeline)
{
	results(2, -ERANGE);
	cr_expect(prefetch_post(&rig.w, 3));
	cr_expect(mine->posted == 1 && mine->reading == 2);
	expect_failure(-ERANGE, 1, 6, 2000 + 6 * 8, 71, 3, 0, nvme_cmd_read);
	cr_expect_eq(rig.status[0].failed, 0);
}

Test(prefetch, a_failure_is_recorded_once)
{
	results(-EINVAL, 1);
	cr_expect(!prefetch_post(&rig.w, 3));
	results(-ERANGE, 1);
	cr_expect(!prefetch_post(&rig.w, 3));
	expect_failure(-EINVAL, 0, 6, 1000 + 6 * 16, 70, 4, 0, nvme_cmd_read);
}

/* ---- repetitions */

#define AGAIN(queue, object, at, source, chunk, n)                                              \
	"again q" #queue " op 2 object " #object " " at " buffer %u/3" #source " chunk " #chunk \
	" flags 0: " #n "\n"

static void expect_again(const char *format, unsigned source)
{
	char text[256];

	snprintf(text, sizeof text, format, 3 * HR_SOURCES_MAX + source);
	EXPECT_LOG(text);
}

Test(prefetch, a_command_is_sent_again_with_the_arguments_of_its_tile)
{
	mine->tile = 9;
	cr_expect(prefetch_again(&rig.w, 3, HR_TOKEN(3 * HR_SOURCES_MAX, 1)));
	expect_again(AGAIN(3, 70, "73728+8092", 0, 1, 1), 0);
	results(-EAGAIN, 0);
	cr_expect(!prefetch_again(&rig.w, 3, HR_TOKEN(3 * HR_SOURCES_MAX + 1, 0)));
	expect_again(AGAIN(2, 71, "36864+4096", 1, 0, -11), 1);
	cr_expect(!prefetch_again(&rig.w, 3, HR_TOKEN(3 * HR_SOURCES_MAX + 1, 0)));
}

/* Commands of source 0 of a slot, parked until `until`. */
static void park(unsigned s, uint32_t parked, uint64_t until)
{
	rig.slot[s].parked = parked;
	for (uint32_t i = 0; i < parked; i++)
		rig.slot[s].parked_token[i] = HR_TOKEN(s * HR_SOURCES_MAX, i);
	rig.slot[s].parked_until_ns = until;
	rig.slot[s].reading = 7;
	rig.w.parked += parked;
}

Test(prefetch, parked_commands_are_sent_after_their_pause)
{
	park(1, 2, RIG_NOW + 1);
	park(3, 2, RIG_NOW);
	prefetch_resend(&rig.w, false);
	cr_expect(rig.slot[1].parked == 2 && mine->parked == 0 && rig.w.parked == 2);
	cr_expect_eq(mine->reading, 7); /* they are outstanding all the time */
	cr_expect_not_null(strstr(calls_text(), "chunk 1 flags 0: 1\nagain"));
	calls_take();
	fake_clock_advance(1);
	results(1, -EAGAIN);
	prefetch_resend(&rig.w, false);
	cr_expect(rig.slot[1].parked == 1 && rig.w.parked == 1);
	calls_take();
	rig.slot[1].state = HR_SLOT_COMPUTED; /* then the words are write-back's */
	prefetch_resend(&rig.w, false);
	EXPECT_LOG("");
	rig.slot[1].state = HR_SLOT_FREE;
	prefetch_resend(&rig.w, false);
	cr_expect(rig.slot[1].parked == 0 && rig.w.parked == 0);
	calls_take();
	rig.slot[3].parked = 1; /* no command of this worker */
	prefetch_resend(&rig.w, false);
	EXPECT_LOG("");
}

Test(prefetch, a_tile_with_many_parked_commands_is_read_again)
{
	mine->parked = rig.w.parked = HR_PARKED_MAX + 2;
	mine->parked_until_ns = RIG_NOW;
	mine->holds = 1;
	mine->posted = 2;
	mine->reading = HR_PARKED_MAX + 3; /* one is at the controller */
	prefetch_resend(&rig.w, false);
	cr_expect(mine->parked == HR_PARKED_MAX + 2 && mine->reading == HR_PARKED_MAX + 3);
	mine->reading--;
	mine->read_tries = 30;
	prefetch_resend(&rig.w, false);
	EXPECT_LOG("");
	cr_expect(mine->parked == 0 && rig.w.parked == 0 && mine->reading == 0);
	results(2, 1);
	cr_expect(prefetch_visit(&rig.w, 3, false));
	expect_reads(read_of(0, 6 * 8192, 8192, 2), read_of(1, 6 * 4096, 4096, 1));
	cr_expect(mine->reading == 3 && mine->read_tries == 30, "the deadline stays");
}

Test(prefetch, after_a_stop_or_a_failure_parked_commands_are_dropped)
{
	for (unsigned i = 0; i < 2; i++) {
		rig_begin(HR_ROLE_PREFETCH);
		park(1, 2, RIG_NOW);
		park(3, 1, RIG_NOW + 5);
		rig.w.failed = i;
		prefetch_resend(&rig.w, !i);
		EXPECT_LOG("");
		cr_expect(rig.slot[1].parked == 0 && mine->parked == 0 && rig.w.parked == 0);
		cr_expect(rig.slot[1].reading == 5 && mine->reading == 6);
	}
}

/* ---- completions */

Test(prefetch, a_failed_read_is_parked_or_fails_the_pipeline)
{
	struct hr_done done = failed(3 * HR_SOURCES_MAX, 1, RETRY);

	mine->reading = 2;
	mine->tile = 6;
	prefetch_bad(&rig.w, &rig.qp[3], &done);
	cr_expect(mine->parked == 1 && mine->reading == 2 && mine->read_tries == 1);
	cr_expect(mine->write_tries == 0 && rig.w.parked == 1 && !rig.w.failed);
	cr_expect_eq(mine->parked_token[0], done.token);
	done.dnr = true;
	prefetch_bad(&rig.w, &rig.qp[3], &done);
	cr_expect(mine->parked == 1 && mine->reading == 1);
	expect_failure(RETRY, 0, 6, 1000 + 6 * 16 + 8, 70, 4, 33, nvme_cmd_read);
}

Test(prefetch, a_lost_read_of_the_second_source_names_it)
{
	const struct hr_done done = failed(3 * HR_SOURCES_MAX + 1, 0, HR_STATUS_LOST);

	mine->reading = 1;
	mine->tile = 5;
	prefetch_bad(&rig.w, &rig.qp[2], &done);
	cr_expect_eq(mine->reading, 0);
	cr_expect_eq(mine->state, HR_SLOT_FREE);
	expect_failure(-ETIMEDOUT, 1, 5, 2000 + 5 * 8, 71, 3, 33, nvme_cmd_read);
}

Test(prefetch, the_last_completion_fills_the_slot)
{
	mine->reading = 2;
	mine->posted = 2;
	completes(3 * HR_SOURCES_MAX + 1, 0, 5, 0);
	cr_expect(prefetch_reap(&rig.w, &rig.qp[2]));
	cr_expect(mine->reading == 1 && mine->state == HR_SLOT_FREE);
	completes(3 * HR_SOURCES_MAX, 0, 6, 0);
	cr_expect(prefetch_reap(&rig.w, &rig.qp[3]));
	cr_expect(mine->reading == 0 && mine->state == HR_SLOT_FILLED);
	cr_expect(mine->posted == 0 && mine->holds == 0);
	cr_expect_eq(rig.w.status->bytes, 8192 + 4096);
	cr_expect(!prefetch_reap(&rig.w, &rig.qp[3]));
	cr_expect_eq(rig.w.status->tiles, 1);
}

Test(prefetch, a_slot_whose_sources_are_not_all_posted_is_not_filled)
{
	mine->reading = 1;
	mine->posted = 1;
	completes(3 * HR_SOURCES_MAX, 0, 5, 0);
	cr_expect(prefetch_reap(&rig.w, &rig.qp[3]));
	cr_expect(mine->reading == 0 && mine->state == HR_SLOT_FREE && mine->posted == 1);
}

Test(prefetch, after_a_failure_no_slot_is_filled)
{
	mine->reading = 1;
	mine->posted = 2;
	rig.w.failed = true;
	completes(3 * HR_SOURCES_MAX, 0, 5, 0);
	cr_expect(prefetch_reap(&rig.w, &rig.qp[3]));
	cr_expect(mine->reading == 0 && mine->state == HR_SLOT_FREE && mine->posted == 2);
}

Test(prefetch, a_completion_with_an_error_is_counted_as_progress)
{
	mine->reading = 1;
	mine->posted = 2;
	completes(3 * HR_SOURCES_MAX, 0, 33, MEDIA | 0x4000);
	cr_expect(prefetch_reap(&rig.w, &rig.qp[3]));
	cr_expect(mine->reading == 0 && mine->state == HR_SLOT_FREE);
	expect_failure(MEDIA | 0x4000, 0, 4, 1000 + 4 * 16, 70, 4, 33, nvme_cmd_read);
}

Test(prefetch, each_queue_is_reaped_and_a_broken_one_is_named_by_its_source)
{
	mine->reading = 1;
	completes(3 * HR_SOURCES_MAX, 0, 5, 0);
	cr_expect(prefetch_reap_all(&rig.w));
	cr_expect_eq(rig.reaps, 2);
	cr_expect(!prefetch_reap_all(&rig.w));
	rig.qp[0].broken = -EPROTO; /* of the other worker */
	cr_expect(!prefetch_reap_all(&rig.w));
	cr_expect(!rig.w.failed && !rig.w.dead);
	rig.qp[3].broken = -EPROTO;
	rig.qp[2].broken = -EIO;
	cr_expect(!prefetch_reap_all(&rig.w));
	cr_expect(rig.w.dead);
	/* queue 0 is that of source 1 */
	expect_failure(-EIO, 1, HR_NO_TILE, 0, 71, 3, 0, nvme_cmd_read);
	rig.w.failed = false;
	cr_expect(!prefetch_reap_all(&rig.w));
	cr_expect(!rig.w.failed); /* said once */
}

Test(prefetch, the_second_queue_is_that_of_the_first_source)
{
	rig.qp[3].broken = -EPROTO;
	cr_expect(!prefetch_reap_all(&rig.w));
	expect_failure(-EPROTO, 0, HR_NO_TILE, 0, 70, 4, 0, nvme_cmd_read);
	cr_expect_eq(prefetch_source_of_queue(&rig.pipe, 9), 1);
}

/* ---- slots */

Test(prefetch, a_free_slot_wants_a_tile_or_its_end)
{
	static const struct {
		uint32_t holds, posted, reading;
		bool dead, stopped, wants;
	} row[] = {
		{ 0, 0, 0, false, false, true }, { 1, 0, 0, false, false, true },
		{ 1, 1, 2, false, false, true }, { 1, 2, 2, false, false, false },
		{ 1, 2, 2, false, true, false }, { 1, 2, 0, false, true, true },
		{ 0, 0, 1, false, true, false }, { 1, 2, 2, true, true, true },
		{ 0, 2, 0, false, false, true },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		mine->holds = row[i].holds;
		mine->posted = row[i].posted;
		mine->reading = row[i].reading;
		rig.w.dead = row[i].dead;
		cr_expect_eq(prefetch_wants(&rig.w, mine, row[i].stopped), row[i].wants, "%zu", i);
	}
}

Test(prefetch, a_slot_takes_the_next_tile_while_there_is_one)
{
	prefetch_take(&rig.pipe, NULL);
	prefetch_take(&rig.pipe, mine); /* it holds one */
	cr_expect(rig.pipe.next_tile == 0 && mine->next_read == 6);
	mine->holds = 0;
	rig.pipe.next_tile = 9;
	cr_expect(prefetch_tiles_left(&rig.pipe));
	prefetch_take(&rig.pipe, mine);
	cr_expect(rig.pipe.next_tile == 10 && mine->next_read == 9 && mine->holds == 1);
	cr_expect(!prefetch_tiles_left(&rig.pipe));
	mine->holds = 0;
	prefetch_take(&rig.pipe, mine);
	cr_expect(mine->next_read == 9 && mine->holds == 0);
}

Test(prefetch, a_visit_reads_or_closes_a_free_slot)
{
	static const struct {
		uint32_t state, holds;
		bool stopped;
		uint64_t next_tile;
		bool posts;
		uint32_t ends;
	} row[] = {
		{ HR_SLOT_FREE, 1, false, 10, true, HR_SLOT_FREE },
		{ HR_SLOT_FREE, 1, true, 0, false, HR_SLOT_CLOSING },
		{ HR_SLOT_FREE, 0, false, 9, false, HR_SLOT_FREE },
		{ HR_SLOT_FREE, 0, false, 10, false, HR_SLOT_CLOSING },
		{ HR_SLOT_FILLED, 1, false, 0, false, HR_SLOT_FILLED },
		{ HR_SLOT_FILLED, 0, true, 10, false, HR_SLOT_FILLED },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		mine->state = row[i].state;
		mine->holds = row[i].holds;
		mine->posted = 0;
		rig.pipe.next_tile = row[i].next_tile;
		calls_take();
		cr_expect_eq(prefetch_visit(&rig.w, 3, row[i].stopped), row[i].posts, "%zu", i);
		cr_expect_eq(mine->state, row[i].ends, "%zu", i);
		cr_expect_eq(calls_text()[0] != '\0', row[i].posts, "%zu", i);
	}
}

Test(prefetch, a_full_queue_ends_the_round_and_its_slot_is_the_first_of_the_next)
{
	uint32_t open = 0;

	mine->holds = 0;
	rig.slot[3].state = rig.slot[1].state = HR_SLOT_FREE;
	rig.w.first = 1; /* slot 3 */
	results(1, -EAGAIN);
	cr_expect(prefetch_slots(&rig.w, false, &open));
	cr_expect_eq(open, 2);
	cr_expect_eq(rig.w.first, 1);
	cr_expect(mine->holds && mine->posted == 1 && !rig.slot[1].holds);
	cr_expect_eq(rig.pipe.next_tile, 1);
	open = 0;
	cr_expect(prefetch_slots(&rig.w, false, &open));
	cr_expect(mine->posted == 2 && rig.slot[1].holds && rig.slot[1].posted == 2);
	cr_expect_eq(rig.pipe.next_tile, 2);
	open = 0;
	cr_expect(!prefetch_slots(&rig.w, false, &open));
	cr_expect_eq(open, 2);
	mine->state = HR_SLOT_CLOSING;
	rig.slot[1].state = HR_SLOT_CLOSED;
	open = 0;
	cr_expect(!prefetch_slots(&rig.w, false, &open));
	cr_expect_eq(open, 0);
	mine->state = HR_SLOT_COMPUTED;
	cr_expect(!prefetch_slots(&rig.w, true, &open));
	cr_expect_eq(open, 1);
}

Test(prefetch, no_slot_takes_a_tile_after_a_stop)
{
	uint32_t open = 0;

	mine->holds = 0;
	cr_expect(!prefetch_slots(&rig.w, true, &open));
	cr_expect_eq(rig.pipe.next_tile, 0);
	cr_expect(mine->state == HR_SLOT_CLOSING && rig.slot[1].state == HR_SLOT_CLOSING);
	cr_expect_eq(rig.slot[0].state, HR_SLOT_FREE);
}

Test(prefetch, the_first_worker_passes_the_stop_of_the_host_on)
{
	cr_expect(!prefetch_stopped(&rig.w));
	rig.control.stop = HR_STOP_NEW;
	cr_expect(!prefetch_stopped(&rig.w));
	cr_expect_eq(rig.pipe.stop, 0);
	rig.w.index = 0;
	cr_expect(prefetch_stopped(&rig.w));
	cr_expect_eq(rig.pipe.stop, 1);
	rig.w.index = 1;
	rig.control.stop = 0;
	cr_expect(prefetch_stopped(&rig.w));
}

/* ---- a whole block */

/* Complete the reads of the slots that are read, and let slots go on without compute. */
static void complete(void)
{
	fake_clock_advance(HR_NS_PER_MS);
	for (unsigned s = 0; s < RIG_SLOTS; s++) {
		if (rig.slot[s].state == HR_SLOT_FILLED)
			rig.slot[s].state = HR_SLOT_FREE;
		for (unsigned i = 0; i < 2 && rig.slot[s].reading && rig.done_at == rig.dones; i++)
			completes(s * HR_SOURCES_MAX, 0, 1, 0);
	}
}

Test(prefetch, a_block_reads_all_tiles_and_ends)
{
	for (unsigned worker = 0; worker < 2; worker++) {
		begin();
		mine->holds = 0;
		rig.reap = complete;
		hr_pipe_block(&rig.pipe, worker);
		cr_expect_eq(rig.pipe.next_tile, worker ? 10 + 2 : 10 + 3, "%llu",
			     (unsigned long long)rig.pipe.next_tile);
		for (unsigned s = 0; s < RIG_SLOTS; s++)
			cr_expect_eq(rig.slot[s].state,
				     s % 2 == worker ? HR_SLOT_CLOSING : HR_SLOT_FREE);
		cr_expect_eq(rig.status[worker].tiles, 10);
		cr_expect_eq(rig.status[worker].bytes, 10 * 12288 - 100);
		cr_expect_eq(rig.status[worker].done, 1);
		cr_expect_eq(rig.status[1 - worker].done, 0);
		cr_expect_eq(rig.control.first_submit_ns, worker ? 0 : RIG_NOW);
		cr_expect_gt(rig.status[worker].cost.busy_rounds, 0);
	}
}

Test(prefetch, blocks_beyond_their_role_belong_to_the_next)
{
	for (unsigned block = 2; block < 6; block++)
		hr_pipe_block(&rig.pipe, block);
	EXPECT_LOG("compute 0 of 5 slots\ncompute 1 of 5 slots\nwriteback 0 of 5 slots\n"
		   "writeback 1 of 5 slots\n");
}

Test(prefetch, both_queues_are_rung)
{
	prefetch_ring_all(&rig.w);
	EXPECT_LOG("ring q2\nring q3\n");
}

static void nothing_completes(void)
{
	rig.control.stop = HR_STOP_WAITING;
}

Test(prefetch, a_block_ends_when_the_host_reports_that_nothing_completes)
{
	rig.reap = nothing_completes;
	mine->holds = 0;
	hr_prefetch_block(&rig.pipe, 1);
	cr_expect(mine->state == HR_SLOT_CLOSING && mine->reading == 2);
	cr_expect_eq(rig.slot[1].state, HR_SLOT_CLOSING);
	cr_expect(rig.status[1].done && !rig.status[1].failed);
	cr_expect_eq(rig.pipe.next_tile, 2);
}

static void next_launch(void)
{
	rig.pipe.parked = 2;
}

Test(prefetch, a_block_leaves_its_launch_and_goes_on_in_the_next)
{
	uint8_t tap;

	rig.pipe.tap = (struct hr_tap_role *)(void *)&tap;
	rig.control.launch = 2; /* not the first: nothing starts */
	rig.reap = next_launch;
	rig.status[0].tiles = 5;
	hr_prefetch_block(&rig.pipe, 0);
	cr_expect_eq(rig.status[0].done, 0);
	cr_expect_eq(rig.control.first_submit_ns, 0);
	cr_expect_eq(rig.slot[0].posted, 2);
	cr_expect_eq(rig.status[0].cost.rounds, 1);
}
