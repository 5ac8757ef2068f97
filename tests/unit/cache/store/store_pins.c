/* SPDX-License-Identifier: Apache-2.0 */
/* Pins: the extent of an object that is read gets no new object, while there is another gap. */
#include "cache/store/store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/store.h"

#define PAGES(n) ((uint64_t)(n)*HR_STORE_ALIGN)

static struct fake_store f;

static void begin(void)
{
	fake_store_init(&f, 4096);
}

static void end(void)
{
	fake_store_fini(&f);
}

TestSuite(pins, .init = begin, .fini = end, .timeout = 60);

/* Offset in pages of a new object, or an error. */
static long make(const char *name, uint64_t pages)
{
	struct hr_store_object *object;
	const int err = hr_store_create(&f.store, name, PAGES(pages), 0, true, &object, NULL);

	return err ? err : (long)((object->offset - f.store.data_offset) / HR_STORE_ALIGN);
}

/* Three objects of 10, 4 and 10 pages at 0, 10 and 14; the middle one is pinned, then removed. */
static uint32_t pin_the_middle(bool firm)
{
	uint64_t id;
	uint32_t pin;

	fake_store_put(&f, "a", PAGES(10));
	id = fake_store_put(&f, "b", PAGES(4));
	fake_store_put(&f, "c", PAGES(10));
	cr_assert_eq(hr_store_pin(&f.store, id, firm, &pin), 0);
	cr_assert_eq(hr_store_remove(&f.store, id, NULL), 0);
	return pin;
}

Test(pins, a_removed_object_keeps_its_space_while_it_is_pinned)
{
	const uint32_t pin = pin_the_middle(false);

	cr_expect_eq(make("d", 4), 24);
	cr_expect(hr_store_is_pinned(&f.store, pin));
	hr_store_unpin(&f.store, pin);
	cr_expect(!hr_store_is_pinned(&f.store, pin));
	cr_expect_eq(make("e", 4), 10);
}

Test(pins, a_gap_is_used_on_both_sides_of_a_pin)
{
	const uint32_t pin = pin_the_middle(false);

	cr_assert_eq(hr_store_remove(&f.store, hr_store_find(&f.store, "a")->id, NULL), 0);
	cr_assert_eq(hr_store_remove(&f.store, hr_store_find(&f.store, "c")->id, NULL), 0);
	cr_expect_eq(make("d", 11), 14, "before the pin are 10 pages");
	cr_expect_eq(make("e", 10), 0);
	cr_expect_eq(make("f", 1), 25);
	cr_expect_geq(make("g", 0), 0, "an empty object needs no space");
	cr_expect(hr_store_is_pinned(&f.store, pin));
}

Test(pins, a_pin_is_lost_when_a_new_object_fits_nowhere_else)
{
	const uint32_t pin = pin_the_middle(false);

	cr_expect_eq(make("d", 40), 24);
	cr_expect(hr_store_is_pinned(&f.store, pin));
	cr_expect_eq(make("e", 3), 10);
	cr_expect(!hr_store_is_pinned(&f.store, pin));
	hr_store_unpin(&f.store, pin);
}

Test(pins, a_firm_pin_is_never_lost)
{
	const uint32_t pin = pin_the_middle(true);

	cr_expect_eq(make("d", 40), 24);
	cr_expect_eq(make("e", 3), -ENOSPC);
	cr_expect(hr_store_is_pinned(&f.store, pin));
	hr_store_unpin(&f.store, pin);
	cr_expect_eq(make("e", 3), 10);
}

Test(pins, an_object_may_have_several_pins)
{
	const uint64_t id = fake_store_put(&f, "a", PAGES(64));
	uint32_t one, two;

	cr_assert_eq(hr_store_pin(&f.store, id, false, &one), 0);
	cr_assert_eq(hr_store_pin(&f.store, id, true, &two), 0);
	cr_expect_neq(one, two);
	cr_assert_eq(hr_store_remove(&f.store, id, NULL), 0);
	hr_store_unpin(&f.store, one);
	cr_expect_eq(make("b", 1), -ENOSPC);
	hr_store_unpin(&f.store, two);
	cr_expect_eq(make("b", 1), 0);
}

Test(pins, the_number_of_pins_is_limited)
{
	const uint64_t id = fake_store_put(&f, "a", PAGES(1));
	uint32_t pin;

	cr_expect_eq(hr_store_pin(&f.store, id + 1, false, &pin), -ENOENT);
	for (uint32_t i = 0; i < HR_STORE_PINS; i++)
		cr_assert_eq(hr_store_pin(&f.store, id, false, &pin), 0);
	cr_expect_eq(hr_store_pin(&f.store, id, false, &pin), -ENFILE);
	hr_store_unpin(&f.store, pin);
	cr_expect_eq(hr_store_pin(&f.store, id, false, &pin), 0);
}

/* Behind the first pin that is in the way a pin of a lower number may be in the way, too. */
Test(pins, a_gap_is_beside_all_pins_in_any_order)
{
	static const char *name[] = { "a", "b", "c", "d" };
	uint64_t id[4];
	uint32_t pin[4];

	for (unsigned i = 0; i < 4; i++)
		id[i] = fake_store_put(&f, name[i], PAGES(2));
	fake_store_put(&f, "rest", PAGES(50));
	for (unsigned i = 4; i-- > 1;)
		cr_assert_eq(hr_store_pin(&f.store, id[i], true, &pin[i]), 0);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(hr_store_remove(&f.store, id[i], NULL), 0);
	cr_expect_eq(make("e", 3), 58);
	cr_expect_eq(make("f", 2), 0);
	cr_expect_eq(make("g", 4), -ENOSPC);
	for (unsigned i = 1; i < 4; i++)
		cr_expect(hr_store_is_pinned(&f.store, pin[i]));
}

/* ---- several objects removed at once */

static unsigned asked;

static bool wanted(void *arg, const struct hr_store_object *object)
{
	asked++;
	return strchr(arg, object->name[0]) != NULL;
}

Test(pins, objects_are_removed_together_and_counted)
{
	static const char *name[] = { "a", "b", "c", "d" };
	const uint64_t generation = f.store.generation;
	uint32_t count = 9;
	uint64_t bytes = 9;
	char none[] = "x", some[] = "bd";

	for (unsigned i = 0; i < 4; i++)
		fake_store_put(&f, name[i], PAGES(i + 1));
	f.disk.writes = 0;
	asked = 0;
	cr_expect_eq(hr_store_remove_some(&f.store, wanted, none, &count, &bytes, NULL), 0);
	cr_expect(count == 0 && bytes == 0 && asked == 4 && f.disk.writes == 0);
	cr_expect_eq(hr_store_remove_some(&f.store, wanted, some, &count, &bytes, NULL), 0);
	cr_expect_eq(count, 2);
	cr_expect_eq(bytes, PAGES(6));
	cr_expect_eq(f.store.generation, generation + 9); /* one change */
	cr_expect_eq(fake_store_reopen(&f), 0);
	cr_expect_eq(f.store.count, 2);
	cr_expect_str_eq(f.store.object[0].name, "a");
	cr_expect_str_eq(f.store.object[1].name, "c");
	cr_expect_eq(f.store.next_id, 5);
	f.disk.fail_at = 1;
	f.disk.fail_status = -EIO;
	some[0] = 'a';
	cr_expect_eq(hr_store_remove_some(&f.store, wanted, some, &count, &bytes, NULL), -EIO);
	cr_expect_eq(f.store.count, 2);
}
