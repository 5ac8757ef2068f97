/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credits of the consumers of a tap: shares by rate, a simulation of consumers with different
 * speeds, and consumers that need several tiles together.
 */
#include "boot/appliance/lend/consumer.h"

#include <criterion/criterion.h>

#define SLOTS 14u

TestSuite(tap_credits, .timeout = 60);

static struct hr_tap_allotment a, b, c;
static struct hr_tap_allotment *const both[] = { &a, &b };
static struct hr_tap_allotment *const all[] = { &a, &b, &c };

static struct hr_tap_allotment consumer(uint32_t most, bool asked)
{
	return (struct hr_tap_allotment){ .most = most, .asked = asked };
}

Test(tap_credits, a_single_consumer_has_all)
{
	struct hr_tap_allotment *const one[] = { &a };

	a = consumer(SLOTS, false);
	hr_tap_allot_begin(&a, SLOTS, 1);
	cr_expect_eq(a.credits, SLOTS);
	a.returned = 5;
	hr_tap_allot(one, 1, SLOTS);
	cr_expect_eq(a.credits, SLOTS);
	hr_tap_allot(one, 1, SLOTS);
	cr_expect_eq(a.credits, SLOTS);
}

Test(tap_credits, nothing_changes_while_no_consumer_gives_back)
{
	a = consumer(SLOTS, false);
	b = consumer(SLOTS, false);
	hr_tap_allot_begin(&a, SLOTS, 2);
	hr_tap_allot_begin(&b, SLOTS, 2);
	for (int i = 0; i < 10; i++)
		hr_tap_allot(both, 2, SLOTS);
	cr_expect_eq(a.credits, SLOTS / 2);
	cr_expect_eq(b.credits, SLOTS / 2);
}

Test(tap_credits, credits_follow_the_rates)
{
	a = consumer(SLOTS, false);
	b = consumer(SLOTS, false);
	c = consumer(SLOTS, false);
	for (uint32_t i = 0; i < 3; i++)
		hr_tap_allot_begin(all[i], SLOTS, 3);
	cr_expect_eq(a.credits, 5u);
	for (int i = 0; i < 30; i++) {
		a.returned += 100;
		b.returned += 50;
		hr_tap_allot(all, 3, SLOTS);
	}
	cr_expect_eq(a.credits, 10u); /* 14 * 2 / 3, rounded up */
	cr_expect_eq(b.credits, 5u);
	cr_expect_eq(c.credits, 1u);
	/* a stopped consumer loses its share within a second */
	for (int i = 0; i < 10; i++) {
		b.returned += 50;
		hr_tap_allot(all, 3, SLOTS);
	}
	cr_expect_leq(a.credits, 2u);
	cr_expect_geq(b.credits, 12u);
}

Test(tap_credits, what_a_consumer_asked_for_stays)
{
	a = consumer(6, true);
	b = consumer(SLOTS, false);
	hr_tap_allot_begin(&a, SLOTS, 2);
	hr_tap_allot_begin(&b, SLOTS, 2);
	cr_expect_eq(a.credits, 6u);
	for (int i = 0; i < 10; i++) {
		b.returned += 1000;
		hr_tap_allot(both, 2, SLOTS);
	}
	cr_expect_eq(a.credits, 6u);
	cr_expect_eq(b.credits, SLOTS);
}

Test(tap_credits, a_consumer_that_collects_tiles_gets_as_many_as_it_may)
{
	a = consumer(SLOTS, false);
	b = consumer(9, false);
	hr_tap_allot_begin(&a, SLOTS, 2);
	hr_tap_allot_begin(&b, SLOTS, 2);
	for (int i = 0; i < 10; i++) {
		a.returned += 1000;
		hr_tap_allot(both, 2, SLOTS);
	}
	cr_expect_eq(b.credits, 1u);
	hr_tap_allot_more(&b, 0); /* it waits, and holds none: it is not the credits */
	cr_expect_eq(b.credits, 1u);
	for (uint64_t held = 1; held < 30; held++)
		hr_tap_allot_more(&b, held < 9 ? held : 9);
	cr_expect_eq(b.credits, 9u);
}

/* Consumers that need `work` steps for a tile, one after the other, and slots that each of them
 * holds while it works through its credits. Returns the tiles that both have done. */
static uint64_t simulate(bool adapts, uint32_t work_a, uint32_t work_b, uint32_t steps)
{
	struct {
		struct hr_tap_allotment *share;
		uint32_t work, left;
		uint64_t held;
	} of[2] = { { &a, work_a, 0, 0 }, { &b, work_b, 0, 0 } };
	uint64_t unused = SLOTS, done = 0;

	for (uint32_t i = 0; i < 2; i++) {
		*of[i].share = consumer(SLOTS, false);
		hr_tap_allot_begin(of[i].share, SLOTS, 2);
		if (!adapts)
			of[i].share->credits = SLOTS;
	}
	for (uint32_t t = 0; t < steps; t++) {
		for (uint32_t k = 0; k < 2; k++) {
			const uint32_t i = (t + k) % 2;

			/* a slot is filled again in each step: the ssd is the limit */
			if (of[i].held < of[i].share->credits && unused && t % 4 == 0) {
				unused--;
				of[i].held++;
				k = 2;
			}
		}
		for (uint32_t i = 0; i < 2; i++) {
			if (!of[i].held)
				continue;
			of[i].left = of[i].left ? of[i].left : of[i].work;
			if (--of[i].left)
				continue;
			of[i].held--;
			unused++;
			of[i].share->returned++;
			done++;
		}
		if (adapts && t % 200 == 199)
			hr_tap_allot(both, 2, SLOTS);
	}
	return done;
}

/* With equal credits the slow one holds nearly all slots at the end. */
Test(tap_credits, a_slow_consumer_does_not_keep_the_slots_of_a_fast_one)
{
	const uint64_t same = simulate(false, 3, 2000, 20000);
	const uint64_t shared = simulate(true, 3, 2000, 20000);

	cr_expect_geq(shared, same);
	cr_expect_eq(b.credits, 1u);
	cr_expect_geq(a.credits, SLOTS - 1);
}
