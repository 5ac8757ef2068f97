/* Bookkeeping that the roles of a pipeline share: counts, slots, parked commands. One lane. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "config/clock.h"
#include "gpu/worker/role.h"

#define SLOTS 11u
#define WORKERS 4u /* prefetch */

static struct hr_pipe pipe;
static struct hr_pipe_control control;
static struct hr_worker_status status[16];
static struct hr_slot slot[SLOTS];
static struct hr_role_worker w;
static struct hr_nvme_qp qp;

static void begin(void)
{
	memset(&pipe, 0, sizeof pipe);
	memset(&control, 0, sizeof control);
	memset(status, 0, sizeof status);
	memset(slot, 0, sizeof slot);
	memset(&qp, 0, sizeof qp);
	qp.timeout_ns = HR_NS_PER_S;
	pipe.slot = slot;
	pipe.slots = SLOTS;
	pipe.status = status;
	pipe.control = &control;
	pipe.blocks[HR_ROLE_PREFETCH] = WORKERS;
	pipe.blocks[HR_ROLE_COMPUTE] = 2;
	pipe.blocks[HR_ROLE_WRITEBACK] = 1;
	memset(&w, 0xff, sizeof w);
	w.failed = w.dead = true;
	hr_role_worker_set(&w, &pipe, HR_ROLE_PREFETCH, 1, WORKERS);
}

TestSuite(role, .init = begin, .timeout = 60);

Test(role, a_worker_starts_with_nothing)
{
	cr_expect_eq(w.pipe, &pipe);
	cr_expect_eq(w.status, &status[hr_pipe_first_status(&pipe, HR_ROLE_PREFETCH) + 1]);
	cr_expect_eq(w.role, (uint32_t)HR_ROLE_PREFETCH);
	cr_expect_eq(w.index, 1u);
	cr_expect_eq(w.count, WORKERS);
	cr_expect_eq(w.first, 0u);
	cr_expect_eq(w.spins, 0u);
	cr_expect_eq(w.parked, 0u);
	cr_expect_not(w.failed);
	cr_expect_not(w.dead);
	cr_expect_eq(w.launch, 0u);
	cr_expect_eq(w.tiles, 0u);
	cr_expect_eq(w.bytes, 0u);
	cr_expect_eq(w.cost.rounds, 0u);
	cr_expect_eq(w.cost.busy_rounds, 0u);
	cr_expect_eq(w.cost.cycles, 0u);
	cr_expect_eq(w.cost.busy_cycles, 0u);
}

/* Launch 0: no tap; launch 1: the first; later ones continue. */
Test(role, only_a_later_launch_goes_on_with_the_counts)
{
	struct hr_worker_status *mine = w.status;
	uint8_t ring;

	for (uint32_t launch = 0; launch < 4; launch++) {
		control.launch = launch;
		pipe.tap = launch ? (struct hr_tap_role *)(void *)&ring : NULL;
		*mine = (struct hr_worker_status){ .tiles = 7,
						   .bytes = 70,
						   .cost = { 1, 2, 3, 4 } };
		hr_role_worker_set(&w, &pipe, HR_ROLE_PREFETCH, 1, WORKERS);
		cr_expect_eq(w.launch, launch);
		cr_expect_eq(w.tiles, launch > 1 ? 7u : 0u, "launch %u", launch);
		cr_expect_eq(w.bytes, launch > 1 ? 70u : 0u, "launch %u", launch);
		cr_expect_eq(w.cost.rounds, launch > 1 ? 3u : 0u, "launch %u", launch);
		cr_expect_eq(w.cost.busy_rounds, launch > 1 ? 4u : 0u, "launch %u", launch);
		for (pipe.parked = 0; pipe.parked < 4; pipe.parked++)
			cr_expect_eq(hr_role_leaves(&w), launch && pipe.parked == launch,
				     "launch %u", launch);
	}
}

/* hr_cycles() is 0 on the CPU. */
Test(role, costs_of_launches_add_up)
{
	w.cost = (struct hr_worker_cost){ 100, 50, 9, 4 };
	hr_role_leave(&w);
	cr_expect_eq(w.status->cost.cycles, 100u);
	cr_expect_eq(w.status->cost.busy_cycles, 50u);
	cr_expect_eq(w.status->cost.rounds, 9u);
	cr_expect_eq(w.status->cost.busy_rounds, 4u);
	cr_expect_eq(w.status->done, 0u);
	hr_role_beat(&w, true);
	hr_role_done(&w);
	cr_expect_eq(w.status->cost.rounds, 10u);
	cr_expect_eq(w.status->cost.busy_rounds, 5u);
	cr_expect_eq(w.status->cost.busy_cycles, 50u);
	cr_expect_eq(w.status->done, 1u);
}

Test(role, tiles_and_rounds_are_counted_and_published)
{
	hr_role_count(&w, 4096);
	hr_role_count(&w, 100);
	cr_expect_eq(w.status->tiles, 2u);
	cr_expect_eq(w.status->bytes, 4196u);
	hr_role_beat(&w, false);
	hr_role_beat(&w, false);
	cr_expect_geq(w.spins, 2u);
	hr_role_beat(&w, true);
	cr_expect_eq(w.spins, 0u);
	cr_expect_eq(w.status->heartbeat, 3u);
	cr_expect_eq(w.cost.rounds, 3u);
	cr_expect_eq(w.cost.busy_rounds, 1u);
}

/* Each slot has one worker, and each worker visits its slots once, from `first` on. */
Test(role, slots_are_divided_among_workers)
{
	for (uint32_t workers = 1; workers <= SLOTS + 2; workers++) {
		uint32_t visits[SLOTS] = { 0 };

		for (uint32_t index = 0; index < workers; index++) {
			uint32_t n, s;

			w.index = index;
			w.count = workers;
			n = hr_role_slots(&w);
			for (w.first = 0; w.first < n; w.first++) {
				uint32_t sum = 0;

				cr_expect_eq(hr_role_nth(&w, 0, n), w.first);
				for (uint32_t k = 0; k < n; k++)
					sum += 1u << hr_role_nth(&w, k, n);
				cr_expect_eq(sum, (1u << n) - 1, "each of %u once", n);
				cr_expect_eq(hr_role_nth(&w, n, n), n);
				cr_expect_eq(hr_role_nth(&w, n + 1, n), n);
			}
			for (uint32_t j = 0; j < n; j++) {
				slot[index + j * workers].state = HR_SLOT_COMPUTED;
				cr_expect_eq(hr_role_look(&w, j, &s), (uint32_t)HR_SLOT_COMPUTED);
				cr_assert_lt(s, SLOTS);
				visits[s]++;
				slot[s].state = HR_SLOT_FREE;
			}
			cr_expect_eq(hr_role_look(&w, n, &s), (uint32_t)HR_SLOT_CLOSED);
		}
		for (uint32_t s = 0; s < SLOTS; s++)
			cr_expect_eq(visits[s], 1u, "%u workers, slot %u", workers, s);
	}
}

Test(role, a_worker_stops_by_its_failure_by_the_pipeline_or_by_the_host)
{
	cr_expect_not(hr_role_stopped(&w));
	pipe.stop = 1;
	cr_expect(hr_role_stopped(&w));
	pipe.stop = 0;
	w.failed = true;
	cr_expect(hr_role_stopped(&w));
	w.failed = false;
	for (uint32_t stop = HR_STOP_NOT; stop <= HR_STOP_WAITING; stop++) {
		control.stop = stop;
		hr_role_check_stop(&w, true);
		cr_expect(!w.failed && !w.dead, "not in a round with progress");
		hr_role_check_stop(&w, false);
		cr_expect_eq(w.failed, stop == HR_STOP_WAITING, "stop %u", stop);
		cr_expect_eq(w.dead, stop == HR_STOP_WAITING, "stop %u", stop);
	}
}

Test(role, a_completion_is_copied_whole)
{
	const struct hr_done mine = {
		.token = 0x12345678, .cid = 0xabcd, .status = 0x7fe, .dnr = true, .crd = 3, .dw0 = 9
	};
	struct hr_done done;

	memset(&done, 0xff, sizeof done);
	hr_done_of_lane(&done, &mine, 0);
	cr_expect_eq(done.token, mine.token);
	cr_expect_eq(done.cid, mine.cid);
	cr_expect_eq(done.status, mine.status);
	cr_expect(done.dnr);
	cr_expect_eq(done.crd, mine.crd);
	cr_expect_eq(done.dw0, 0u);
	cr_expect_eq(hr_role_error(&done), 0x7fe);
	done.status = HR_STATUS_LOST;
	cr_expect_eq(hr_role_error(&done), -ETIMEDOUT);
}

/* A status that is repeated, and the pause of its first repetition. */
#define AGAIN 0x006u
#define NOT_READY 0x082u

Test(role, a_failed_command_is_parked_until_its_pause_ends)
{
	const struct hr_done done = { .token = 77, .status = AGAIN },
			     next = { .token = 78, .status = AGAIN };
	uint32_t tries = 0, token = 0;
	uint64_t until;

	cr_assert_gt(hr_status_retries(AGAIN, false), 1u);
	cr_assert(hr_role_park(&w, &slot[1], &tries, &qp, &done));
	cr_expect_eq(tries, 1u);
	cr_expect_eq(w.parked, 1u);
	cr_expect_eq(slot[1].parked, 1u);
	until = slot[1].parked_until_ns;
	cr_expect_gt(until, slot[1].failed_first_ns);
	cr_expect_not(hr_role_parked(&slot[1], until - 1, &token));
	cr_expect_eq(token, 0u);
	cr_expect(hr_role_parked(&slot[1], until, &token));
	cr_expect_eq(token, 77u);
	cr_assert(hr_role_park(&w, &slot[1], &tries, &qp, &next));
	cr_expect_eq(slot[1].parked, 2u);
	cr_expect_eq(w.parked, 2u);
	cr_expect_geq(slot[1].parked_until_ns, until, "the longest pause of all");
	cr_expect(hr_role_parked(&slot[1], UINT64_MAX, &token));
	cr_expect_eq(token, 78u);
	hr_role_unpark(&w, &slot[1], 1);
	cr_expect(hr_role_parked(&slot[1], UINT64_MAX, &token));
	cr_expect_eq(token, 77u);
	cr_expect_eq(w.parked, 1u);
	hr_role_unpark(&w, &slot[1], 1);
	cr_expect_not(hr_role_parked(&slot[1], UINT64_MAX, &token));
	cr_expect_eq(w.parked, 0u);
}

/* The list of a slot has a limit: beyond it the whole tile is sent again, when nothing of it is at the
 * controller. */
Test(role, a_tile_with_many_failed_commands_is_parked_as_a_whole)
{
	uint32_t tries = 0, token = 0;
	uint64_t until;

	qp.timeout_ns = UINT64_MAX;
	for (uint32_t i = 0; i <= HR_PARKED_MAX; i++) {
		const struct hr_done done = { .token = 70 + i, .status = NOT_READY };

		cr_expect_not(hr_role_parked_whole(&slot[1], UINT64_MAX, i), "%u", i);
		cr_assert(hr_role_park(&w, &slot[1], &tries, &qp, &done), "%u", i);
	}
	until = slot[1].parked_until_ns;
	cr_expect_not(hr_role_parked(&slot[1], UINT64_MAX, &token));
	cr_expect_not(hr_role_parked_whole(&slot[1], until, HR_PARKED_MAX + 2));
	cr_expect_not(hr_role_parked_whole(&slot[1], until - 1, HR_PARKED_MAX + 1));
	cr_expect(hr_role_parked_whole(&slot[1], until, HR_PARKED_MAX + 1));
	cr_expect_eq(w.parked, HR_PARKED_MAX + 1);
}

/* Not: a final status, with DNR, after all tries, by a worker that has failed, beyond the deadline. */
Test(role, a_command_that_is_not_sent_again_is_not_parked)
{
	struct hr_done done = { .token = 77, .status = AGAIN };
	const uint32_t most = hr_status_retries(AGAIN, false);

	for (unsigned i = 0; i < 6; i++) {
		uint32_t tries = i == 2 ? most : i == 5 ? most - 1 : 0;
		const uint32_t before = tries;

		begin();
		done.status = i == 0 ? 0x002 : AGAIN; /* invalid field */
		done.dnr = i == 1;
		w.failed = i == 3;
		qp.timeout_ns = i == 4 ? 0 : UINT64_MAX;
		cr_expect_eq(hr_role_park(&w, &slot[0], &tries, &qp, &done), i == 5, "case %u", i);
		cr_expect_eq(tries, i == 5 ? before + 1 : before, "case %u", i);
		cr_expect_eq(w.parked, i == 5 ? 1u : 0u, "case %u", i);
		cr_expect_eq(slot[0].parked, i == 5 ? 1u : 0u, "case %u", i);
	}
}

Test(role, the_deadline_counts_from_the_first_failure)
{
	const struct hr_done done = { .token = 1, .status = AGAIN };
	uint32_t tries = 1;

	slot[0].failed_first_ns = hr_clock_ns() - 2 * qp.timeout_ns;
	cr_expect_not(hr_role_park(&w, &slot[0], &tries, &qp, &done));
	tries = 0; /* the first failure is now */
	cr_expect(hr_role_park(&w, &slot[0], &tries, &qp, &done));
}
