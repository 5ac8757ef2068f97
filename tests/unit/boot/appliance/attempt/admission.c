/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which requested start begins next.
 */
#include "boot/appliance/attempt/admission.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(admit, .timeout = 60);

#define NONE HR_PIPELINES_MAX

/* A makes x, B reads x; C, D and E have objects of their own. */
enum { A, B, C, D, E, PIPELINES };

static struct hr_config config;
static struct hr_admission a;

static void reads(uint32_t i, const char *object)
{
	config.pipeline[i].sources = 1;
	strcpy(config.pipeline[i].source[0].object, object);
}

static void makes(uint32_t i, const char *object)
{
	config.pipeline[i].has_sink = true;
	strcpy(config.pipeline[i].sink.object, object);
}

static void begin(uint32_t parallel)
{
	memset(&config, 0, sizeof config);
	memset(&a, 0, sizeof a);
	config.pipelines = PIPELINES;
	config.parallel = parallel;
	reads(A, "in");
	makes(A, "x");
	reads(B, "x");
	reads(C, "c");
	reads(D, "d");
	reads(E, "e");
	a.config = &config;
	a.planned = (1u << PIPELINES) - 1;
}

static void request(uint32_t i, uint64_t number)
{
	a.waiting |= 1u << i;
	a.request[i] = number;
}

static void start(uint32_t i)
{
	a.waiting &= ~(1u << i);
	a.running |= 1u << i;
}

static void end(uint32_t i)
{
	a.running &= ~(1u << i);
}

Test(admit, nothing_begins_without_a_request)
{
	begin(4);
	cr_expect_eq(hr_admission_next(&a), NONE);
}

Test(admit, requests_begin_in_their_order_and_those_of_one_request_in_the_order_of_the_file)
{
	begin(4);
	request(E, 1);
	request(D, 2);
	request(C, 2);
	cr_expect_eq(hr_admission_next(&a), E);
	start(E);
	cr_expect_eq(hr_admission_next(&a), C);
	start(C);
	cr_expect_eq(hr_admission_next(&a), D);
}

Test(admit, as_many_run_as_the_configuration_permits)
{
	begin(2);
	request(C, 1);
	request(D, 1);
	request(E, 1);
	start(C);
	cr_expect_eq(hr_admission_next(&a), D, "beside a pipeline that runs");
	start(D);
	cr_expect_eq(hr_admission_next(&a), NONE);
	end(C);
	cr_expect_eq(hr_admission_next(&a), E);
}

/* C starts again as soon as it has ended, and one pipeline runs at a time. */
Test(admit, a_pipeline_that_starts_again_at_once_starves_no_other)
{
	uint64_t number = 1;
	unsigned others = 0;

	begin(1);
	request(C, number);
	request(E, number);
	for (int i = 0; i < 10; i++) {
		const uint32_t next = hr_admission_next(&a);

		cr_assert_neq(next, NONE);
		start(next);
		end(next);
		others += next == E;
		request(next, ++number);
	}
	cr_expect_eq(others, 5u);
}

Test(admit, a_reader_waits_for_the_writer_and_later_ones_pass_it)
{
	begin(4);
	request(A, 1);
	start(A);
	request(B, 2);
	request(C, 3);
	cr_expect_eq(hr_admission_next(&a), C, "B waits for A, which runs");
	end(A);
	cr_expect_eq(hr_admission_next(&a), B);
}

/* Each new x takes the place of x.1, and the oldest version loses its space. */
Test(admit, a_reader_of_an_older_version_does_not_run_beside_the_writer)
{
	begin(4);
	config.pipeline[A].sink.keep = 3;
	reads(C, "x.2");
	reads(D, "x.3");
	request(C, 1);
	start(C);
	request(A, 2);
	cr_expect_eq(hr_admission_next(&a), NONE, "x.2 is the oldest version, and C reads it");
	request(D, 3);
	cr_expect_eq(hr_admission_next(&a), D, "x.3 is no version of x");
	end(C);
	cr_expect_eq(hr_admission_next(&a), A);
	start(A);
	request(C, 4);
	cr_expect_eq(hr_admission_next(&a), D, "C waits for A");
}

Test(admit, a_writer_does_not_pass_a_reader_that_waits)
{
	begin(1);
	request(C, 1);
	start(C);
	request(B, 2);
	request(A, 3);
	end(C);
	cr_expect_eq(hr_admission_next(&a), B);
	start(B);
	config.parallel = 2;
	cr_expect_eq(hr_admission_next(&a), NONE, "A writes what B reads");
}

Test(admit, a_start_that_needs_a_new_plan_waits_until_nothing_runs)
{
	begin(4);
	request(C, 1);
	start(C);
	request(D, 2);
	a.planned &= ~(1u << D);
	cr_expect_eq(hr_admission_next(&a), NONE);
	end(C);
	cr_expect_eq(hr_admission_next(&a), D);
}

Test(admit, later_ones_pass_it_while_an_earlier_one_runs_and_then_none)
{
	begin(4);
	request(C, 1);
	start(C);
	request(D, 2);
	request(E, 3);
	a.planned &= ~(1u << D);
	cr_expect_eq(hr_admission_next(&a), E);
	start(E);
	cr_expect_eq(hr_admission_next(&a), NONE);
	end(E);
	request(E, 4);
	cr_expect_eq(hr_admission_next(&a), E, "C still runs");
	start(E);
	end(C);
	request(C, 5);
	cr_expect_eq(hr_admission_next(&a), NONE, "only E runs, which has passed D");
	end(E);
	cr_expect_eq(hr_admission_next(&a), D);
	start(D);
	a.planned |= 1u << D;
	cr_expect_eq(hr_admission_next(&a), C, "in the new plan");
}

Test(admit, the_first_pipeline_of_the_file_is_an_earlier_one_too)
{
	begin(4);
	request(A, 1);
	start(A);
	request(D, 2);
	request(E, 3);
	a.planned &= ~(1u << D);
	cr_expect_eq(hr_admission_next(&a), E, "A still runs");
}

Test(admit, a_start_that_depends_on_it_does_not_pass)
{
	begin(4);
	request(C, 1);
	start(C);
	request(A, 2);
	a.planned &= ~(1u << A);
	request(B, 3);
	request(E, 4);
	cr_expect_eq(hr_admission_next(&a), E, "B reads what A makes");
	a.waiting &= ~(1u << E);
	cr_expect_eq(hr_admission_next(&a), NONE);
}

Test(admit, the_second_one_does_not_let_starts_pass_the_first_one)
{
	begin(4);
	request(E, 3);
	start(E);
	request(C, 2);
	request(D, 4);
	request(A, 5);
	a.planned &= ~(1u << C | 1u << D);
	cr_expect_eq(hr_admission_next(&a), NONE, "E has passed C, and is earlier than D");
}

Test(admit, a_pass_needs_a_place)
{
	begin(2);
	request(C, 1);
	start(C);
	request(D, 2);
	a.planned &= ~(1u << D);
	request(E, 3);
	cr_expect_eq(hr_admission_next(&a), E);
	start(E);
	request(A, 4);
	cr_expect_eq(hr_admission_next(&a), NONE);
}

Test(admit, a_suspect_runs_alone)
{
	begin(4);
	request(C, 1);
	start(C);
	request(D, 2);
	request(E, 3);
	a.suspects = 1u << D;
	cr_expect_eq(hr_admission_next(&a), E, "it passes D while C runs");
	a.waiting = 1u << D;
	cr_expect_eq(hr_admission_next(&a), NONE, "C runs");
	end(C);
	cr_expect_eq(hr_admission_next(&a), D);
	start(D);
	request(E, 3);
	cr_expect_eq(hr_admission_next(&a), NONE, "nothing begins beside it");
	end(D);
	cr_expect_eq(hr_admission_next(&a), E);
}

/* ---- long times, in steps */

#define STEPS 20000u

struct pace {
	uint32_t every; /* steps between the requests; 0: again as soon as it has ended */
	uint32_t takes;
	bool alone;			       /* each start needs a new plan */
	uint32_t since, ends, starts, longest; /* request, end, number of starts, longest wait */
};

static void take_requests(struct pace *pace, uint32_t now, uint64_t *number)
{
	for (uint32_t i = 0; i < PIPELINES; i++) {
		struct pace *p = &pace[i];

		if (!p->takes || (a.waiting | a.running) >> i & 1 || (p->every && now % p->every))
			continue;
		request(i, ++*number);
		p->since = now;
		a.planned &= ~((uint32_t)p->alone << i);
	}
}

static void begin_next(struct pace *pace, uint32_t now)
{
	uint32_t i;

	while ((i = hr_admission_next(&a)) != NONE) {
		struct pace *p = &pace[i];

		cr_assert(a.planned >> i & 1 || !a.running, "a new plan needs silence");
		cr_assert_not(a.running && a.suspects >> i & 1, "a suspect runs alone");
		a.planned |= 1u << i;
		start(i);
		p->starts++;
		p->ends = now + p->takes;
		p->longest = now - p->since > p->longest ? now - p->since : p->longest;
	}
}

static void live(struct pace *pace)
{
	uint64_t number = 0;

	for (uint32_t now = 0; now < STEPS; now++) {
		for (uint32_t i = 0; i < PIPELINES; i++)
			if (a.running >> i & 1 && pace[i].ends == now)
				end(i);
		take_requests(pace, now, &number);
		begin_next(pace, now);
	}
}

/* C is long, and starts again at once; E is short, and often; D needs a new plan each time. */
Test(admit, a_start_that_needs_a_new_plan_starves_nothing_and_does_not_starve)
{
	struct pace pace[PIPELINES] = { [C] = { .takes = 1000 },
					[D] = { .every = 300, .takes = 7, .alone = true },
					[E] = { .every = 10, .takes = 4 } };

	begin(4);
	live(pace);
	cr_expect_leq(pace[D].longest, 1000u + 4, "C, and then E");
	cr_expect_leq(pace[E].longest, 4u, "its own run that D waits for");
	cr_expect_geq(pace[E].starts, STEPS / 10 - STEPS / 1000);
	cr_expect_geq(pace[C].starts, STEPS / 1010);
	cr_expect_geq(pace[D].starts, STEPS / 1310);
}

/* The same with a suspect: E waits also for the end of D. */
Test(admit, a_suspect_starves_nothing_and_does_not_starve)
{
	struct pace pace[PIPELINES] = { [C] = { .takes = 1000 },
					[D] = { .every = 300, .takes = 7 },
					[E] = { .every = 10, .takes = 4 } };

	begin(4);
	a.suspects = 1u << D;
	live(pace);
	cr_expect_leq(pace[D].longest, 1000u + 4);
	cr_expect_leq(pace[E].longest, 4u + 7);
	cr_expect_geq(pace[D].starts, STEPS / 1310);
}

/* All start again at once. Each of the two waits for the other one, and for starts that pass. */
Test(admit, two_that_need_new_plans_take_turns)
{
	struct pace pace[PIPELINES] = { [A] = { .takes = 50, .alone = true },
					[C] = { .takes = 40 },
					[D] = { .takes = 7, .alone = true },
					[E] = { .takes = 3 } };

	begin(4);
	live(pace);
	for (uint32_t i = 0; i < PIPELINES; i++) {
		if (!pace[i].takes)
			continue;
		cr_expect_leq(pace[i].longest, 2 * (50u + 40 + 7 + 3), "pipeline %u", i);
		cr_expect_geq(pace[i].starts, STEPS / 250, "pipeline %u", i);
	}
}

Test(admit, readers_of_a_failed_pipeline_are_those_that_waited_for_it)
{
	begin(4);
	makes(B, "y");
	reads(C, "y");
	request(A, 2);
	start(A);
	request(B, 3);
	request(C, 4);
	request(D, 1);
	end(A);
	cr_expect_eq(hr_admission_readers(&a, A), 1u << B | 1u << C, "B directly, C over B");
	request(B, 1);
	cr_expect_eq(hr_admission_readers(&a, A), 0u,
		     "B was requested before A: it takes the old object");
}
