/* SPDX-License-Identifier: Apache-2.0 */
/* Object store: thousands of random changes against a model made of a list and a map of units. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/store/store.h"
#include "tests/fakes/memdisk.h"
#include "tests/harness/store.h"

#define UNITS (FAKE_STORE_DATA / HR_STORE_ALIGN)
#define OBJECTS FAKE_STORE_OBJECTS

#ifdef __SANITIZE_THREAD__
#define STEPS 2000u /* a step takes twenty times as long */
#else
#define STEPS 8000u
#endif

TestSuite(objmap_model, .timeout = 60);

static struct fake_store f;

struct item {
	uint64_t id, bytes, first;
	bool pending;
	char name;
};

static struct {
	uint64_t owner[UNITS]; /* id, or 0: free */
	struct item item[OBJECTS];
	unsigned items;
	uint64_t next_id;
} model;

static uint64_t units_of(uint64_t bytes)
{
	return (bytes + HR_STORE_ALIGN - 1) / HR_STORE_ALIGN;
}

static struct item *item_of(char name, bool pending)
{
	for (unsigned i = 0; i < model.items; i++)
		if (model.item[i].name == name && model.item[i].pending == pending)
			return &model.item[i];
	return NULL;
}

static void forget(struct item *item)
{
	for (uint64_t u = 0; u < UNITS; u++)
		if (model.owner[u] == item->id)
			model.owner[u] = 0;
	*item = model.item[--model.items];
}

static uint64_t first_gap(uint64_t units)
{
	for (uint64_t u = 0; u + units <= UNITS; u++) {
		uint64_t n = 0;

		while (n < units && model.owner[u + n] == 0)
			n++;
		if (n == units)
			return u;
	}
	return UNITS + 1;
}

static uint64_t largest_gap(void)
{
	uint64_t largest = 0, run = 0;

	for (uint64_t u = 0; u < UNITS; u++) {
		run = model.owner[u] ? 0 : run + 1;
		largest = run > largest ? run : largest;
	}
	return largest;
}

static int model_create(char name, uint64_t bytes, bool replace)
{
	struct item *stale = item_of(name, true);
	struct item kept = { 0 };
	uint64_t at;

	if (!replace && item_of(name, false))
		return -EEXIST;
	if (!replace && stale)
		return -EBUSY;
	if (stale) {
		kept = *stale;
		forget(stale);
	}
	at = first_gap(units_of(bytes));
	if (model.items == OBJECTS || at > UNITS) {
		const int err = model.items == OBJECTS ? -ENFILE : -ENOSPC;

		if (stale) { /* nothing was dropped */
			model.item[model.items++] = kept;
			for (uint64_t u = 0; u < units_of(kept.bytes); u++)
				model.owner[kept.first + u] = kept.id;
		}
		return err;
	}
	model.item[model.items++] = (struct item){ model.next_id, bytes, at, true, name };
	for (uint64_t u = 0; u < units_of(bytes); u++)
		model.owner[at + u] = model.next_id;
	model.next_id++;
	return 0;
}

static void model_finish(char name)
{
	struct item *whole = item_of(name, false);

	if (whole)
		forget(whole);
	item_of(name, true)->pending = false;
}

static void compare(unsigned step)
{
	struct hr_store_space space;
	uint64_t used = 0;

	cr_assert_eq(f.store.count, model.items, "step %u", step);
	for (unsigned i = 0; i < model.items; i++) {
		const struct item *item = &model.item[i];
		const char name[] = { item->name, 0 };
		const struct hr_store_object *o = item->pending
							  ? hr_store_find_pending(&f.store, name)
							  : hr_store_find(&f.store, name);

		cr_assert_not_null(o, "step %u: %s", step, name);
		cr_assert_eq(o->id, item->id, "step %u: %s", step, name);
		cr_assert_eq(o->bytes, item->bytes, "step %u: %s", step, name);
		cr_assert_eq(o->offset, f.store.data_offset + item->first * HR_STORE_ALIGN,
			     "step %u: %s at %llu", step, name, (unsigned long long)o->offset);
		used += units_of(item->bytes);
	}
	hr_store_space(&f.store, &space);
	cr_assert_eq(space.used, used * HR_STORE_ALIGN, "step %u", step);
	cr_assert_eq(space.largest_gap, largest_gap() * HR_STORE_ALIGN, "step %u", step);
}

static void step(unsigned n, unsigned *seed, unsigned seen[5])
{
	const char name[] = { (char)('a' + rand_r(seed) % 7), 0 };
	const struct item *pending = item_of(*name, true), *whole = item_of(*name, false);
	const unsigned choice = (unsigned)rand_r(seed) % 8;
	struct hr_store_object *object;

	if (choice < 4) {
		const bool replace = choice == 0;
		const unsigned units = rand_r(seed) % 4 ? 3 : 24;
		const uint64_t bytes = (unsigned)rand_r(seed) % (units * HR_STORE_ALIGN);
		const int want = model_create(*name, bytes, replace);
		const int got = hr_store_create(&f.store, name, bytes, 0, replace, &object, NULL);

		cr_assert_eq(got, want, "step %u: create %s: %d, should be %d", n, name, got, want);
		seen[want == 0	       ? 0
		     : want == -EEXIST ? 1
		     : want == -EBUSY  ? 2
		     : want == -ENOSPC ? 3
				       : 4]++;
	} else if (choice < 6 && pending) {
		cr_assert_eq(hr_store_finish(&f.store, pending->id, false, 0, NULL), 0, "step %u",
			     n);
		model_finish(*name);
	} else if (pending || whole) {
		struct item *victim = item_of(*name, !whole);

		cr_assert_eq(hr_store_remove(&f.store, victim->id, NULL), 0, "step %u", n);
		forget(victim);
	}
}

Test(objmap_model, space_and_names_are_as_in_the_model)
{
	unsigned seed = 3, seen[5] = { 0 };

	fake_store_init(&f, 4096);
	model.next_id = 1;
	for (unsigned n = 0; n < STEPS; n++) {
		step(n, &seed, seen);
		if (n % 16 == 0)
			cr_assert_eq(fake_store_reopen(&f), 0, "step %u", n);
		compare(n);
	}
	for (unsigned i = 0; i < 5; i++)
		cr_expect_gt(seen[i], STEPS / 800, "outcome %u came only %u times", i, seen[i]);
	fake_store_fini(&f);
}
