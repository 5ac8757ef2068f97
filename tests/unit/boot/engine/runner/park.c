/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that have left the gpu: what they read, and when it is time to launch again. */
#include "boot/engine/runner/park.h"

#include <errno.h>

#include "tests/harness/error.h"
#include "tests/harness/words_rig.h"

TestSuite(park, .timeout = 60);

#define LATER 1000000000ull

Test(park, a_run_has_left_with_the_number_of_its_launch)
{
	begin();
	tap_role.park = 1;
	run->tap.role.park = 1;
	control.launch_number = 7;
	hr_run_tap_words(run)->leave_launch = 7;
	cr_expect(hr_park_has_left(run));
	hr_run_tap_words(run)->leave_launch = 6;
	cr_expect_not(hr_park_has_left(run));
	hr_run_tap_words(run)->leave_launch = 7;
	run->tap.role.park = 0;
	cr_expect_not(hr_park_has_left(run));
	run->tap.role.park = 1;
	run->pipe = NULL;
	cr_expect_not(hr_park_has_left(run));
	run->pipe = &pipe_words;
	pipeline->tap.name[0] = '\0';
	cr_expect_not(hr_park_has_left(run));
	end();
}

Test(park, a_launch_of_a_run_with_a_tap_has_the_next_number)
{
	struct hr_park park = { .parked = true };

	begin();
	control.launch_number = 7;
	hr_park_launch(&park, run);
	cr_expect_eq(control.launch_number, 8u);
	cr_expect_not(park.parked);
	pipeline->tap.name[0] = '\0';
	park.parked = true;
	hr_park_launch(&park, run);
	cr_expect_eq(control.launch_number, 8u);
	cr_expect_not(park.parked);
	end();
}

/* ---- what is read */

static struct {
	void *cpu;
	const void *worker;
	size_t bytes;
} copied[3];
static unsigned copies, fails_at;

static int download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
		    struct hr_error *e)
{
	cr_expect_eq(b, &engine->backend[1]);
	cr_assert_lt(copies, 3u);
	copied[copies].cpu = cpu;
	copied[copies].worker = worker;
	copied[copies++].bytes = bytes;
	return copies == fails_at ? hr_fail(e, HR_ERROR_DEVICE, -EIO, "lost") : 0;
}

Test(park, what_is_lent_and_the_role_are_read)
{
	static const struct hr_backend_ops ops = { .download = download };
	struct hr_park park = { .first_ns = 5 };
	struct hr_places *places;
	uint8_t *cpu;

	begin();
	pipeline->gpu = 1; /* its memory, and no other */
	engine->backend[1].ops = &ops;
	places = &engine->memory[1];
	places->backend = &engine->backend[1];
	cpu = engine->partition[0].region[HR_PLACE_WORKER].cpu;
	places->region[HR_PLACE_WORKER] =
		(struct hr_region){ .cpu = cpu, .worker = cpu + 0x100000, .bytes = 0x20000 };
	run->cpu.tap = (struct hr_tap_role *)(void *)(cpu + 0x8000);
	for (fails_at = 0; fails_at < 3; fails_at++) {
		copies = 0;
		park.parked = false;
		park.first_ns = 5;
		cr_expect_eq(hr_park_begin(&park, engine, run, test_error()), fails_at ? -EIO : 0);
		cr_expect(park.parked);
		cr_expect_eq(park.first_ns, 0u);
		cr_expect_eq(copies, fails_at == 1 ? 1u : 2u);
		cr_expect_eq(copied[0].cpu, lending());
		cr_expect_eq(copied[0].worker, (uint8_t *)lending() + 0x100000);
		cr_expect_eq(copied[0].bytes, SLOTS * sizeof(struct hr_tap_lending));
		cr_expect(copies == 1 || copied[1].cpu == cpu + 0x8000);
		cr_expect(copies == 1 || copied[1].worker == cpu + 0x108000);
		cr_expect(copies == 1 || copied[1].bytes == sizeof(struct hr_tap_role));
	}
	end();
}

/* ---- orders */

Test(park, an_order_or_more_credits_end_the_wait)
{
	static const uint32_t seats[] = { 0, 1, HR_TAP_SEATS - 1 };
	struct hr_park park = { .parked = true };

	for (size_t i = 0; i < sizeof seats / sizeof *seats; i++) {
		struct hr_tap_seat *seat;

		begin();
		seat = &hr_run_tap_words(run)->seat[seats[i]];
		cr_expect_not(hr_park_must_launch(&park, run, 1));
		seat->order = 5;
		cr_expect(hr_park_must_launch(&park, run, 1));
		seat->obeyed = 5;
		cr_expect_not(hr_park_must_launch(&park, run, 1));
		seat->obeyed = 6;
		cr_expect(hr_park_must_launch(&park, run, 1));
		seat->obeyed = 5;
		seat->credits = 4;
		tap_role.own[seats[i]].credits = 3;
		cr_expect_not(hr_park_must_launch(&park, run, 1)); /* it has no consumer */
		tap_role.own[seats[i]].lends = 1;
		cr_expect(hr_park_must_launch(&park, run, 1));
		tap_role.own[seats[i]].credits = 4;
		cr_expect_not(hr_park_must_launch(&park, run, 1));
		tap_role.own[seats[i]].credits = 5; /* less takes nothing back */
		cr_expect_not(hr_park_must_launch(&park, run, 1));
		cr_expect_eq(park.first_ns, 0u);
		end();
	}
}

/* ---- tiles that come back */

#define LAST (HR_TAP_SEATS - 1)

Test(park, half_of_the_tiles_or_all_of_a_consumer_end_the_wait)
{
	static const struct {
		uint32_t seats[SLOTS]; /* masks */
		struct {
			uint32_t seat, slot, gen; /* gen 0: no tile comes back */
		} back[3];
		bool counts, over;
	} row[] = {
		/* nothing lent; something lent, nothing back */
		{ { 0, 0, 0 }, { { 0 } }, false, false },
		{ { 1, 1, 1 }, { { 0 } }, false, false },
		/* one of three, two of three of one consumer */
		{ { 1, 1, 1 }, { { 0, 0, 10 } }, true, false },
		{ { 1, 1, 1 }, { { 0, 2, 12 } }, true, false },
		{ { 1, 1, 1 }, { { 0, 0, 10 }, { 0, 1, 11 } }, true, true },
		/* half of two; given back as failed */
		{ { 1, 0, 1 }, { { 0, 0, 10 } }, true, true },
		{ { 1, 0, 1 }, { { 0, 2, 12 | HR_TAP_FAILED } }, true, true },
		/* another generation, of a slot that is not lent, of a seat that has none */
		{ { 1, 0, 1 }, { { 0, 0, 9 } }, false, false },
		{ { 1, 0, 1 }, { { 0, 1, 11 } }, false, false },
		{ { 1, 0, 1 }, { { 1, 0, 10 } }, false, false },
		/* each to two consumers: one of six; all of one */
		{ { 3, 3, 3 }, { { 1, 1, 11 } }, true, false },
		{ { 3, 3, 3 }, { { 1, 1, 11 }, { 0, 1, 11 } }, true, false },
		{ { 3, 3, 3 }, { { 1, 1, 11 }, { 0, 1, 11 }, { 0, 0, 10 } }, true, true },
		{ { 2, 1, 1 }, { { 1, 0, 10 } }, true, true },
		{ { 2, 1, 1 }, { { 0, 1, 11 } }, true, false },
		/* the last seat */
		{ { 1u << LAST, 1, 1 }, { { LAST, 0, 10 } }, true, true },
		{ { 1u << LAST, 1u << LAST, 1u << LAST }, { { LAST, 1, 11 } }, true, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_park park = { .parked = true };

		begin();
		for (uint32_t s = 0; s < SLOTS; s++) {
			lending()[s].seats = row[i].seats[s];
			lending()[s].gen = 10 + s;
		}
		/* of a slot that the run does not have */
		lending()[SLOTS] = (struct hr_tap_lending){ .seats = 1, .gen = 1 };
		*given_back(0, SLOTS) = 1;
		for (uint32_t k = 0; k < 3; k++)
			if (row[i].back[k].gen)
				*given_back(row[i].back[k].seat, row[i].back[k].slot) =
					row[i].back[k].gen;
		cr_expect_eq(hr_park_must_launch(&park, run, LATER), row[i].over, "row %zu", i);
		cr_expect_eq(park.first_ns, row[i].counts ? LATER : 0u, "row %zu", i);
		/* the first tile that has come back does not wait for ever */
		cr_expect_eq(hr_park_must_launch(&park, run, LATER + HR_PARK_GATHER_NS - 1),
			     row[i].over, "row %zu", i);
		cr_expect_eq(hr_park_must_launch(&park, run, LATER + HR_PARK_GATHER_NS),
			     row[i].counts, "row %zu", i);
		cr_expect_eq(park.first_ns, row[i].counts ? LATER : 0u, "row %zu", i);
		end();
	}
}
