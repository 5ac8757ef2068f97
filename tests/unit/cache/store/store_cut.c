/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Object store: a power cut at any write or flush leaves the old state or the new one.
 *
 * A random history of changes runs once undisturbed, and its states are kept. Then it runs again
 * for each write and flush, and the power fails during it. Unflushed sectors survive by seed: none,
 * all, or some of them. The store that opens afterwards must have the state before or after the
 * interrupted change.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/store/store.h"
#include "tests/fakes/memdisk.h"
#include "tests/harness/store.h"

#define STEPS 24u
/* Few histories under TSan: the test has a single thread, and TSan takes twenty times as long. */
#ifdef __SANITIZE_THREAD__
#define HISTORIES 2u
#else
#define HISTORIES 12u
#endif

static struct fake_store f;

TestSuite(objmap_cut, .timeout = 120);

struct state {
	uint32_t count;
	uint64_t next_id;
	struct hr_store_object object[FAKE_STORE_OBJECTS];
};

static void keep(const struct fake_store *s, struct state *state)
{
	memset(state, 0, sizeof(*state));
	state->count = s->store.count;
	state->next_id = s->store.next_id;
	for (uint32_t i = 0; i < s->store.count; i++) {
		state->object[i] = s->store.object[i];
		state->object[i].created_ns = 0;
	}
}

static bool is_state(const struct fake_store *s, const struct state *state)
{
	struct state now;

	keep(s, &now);
	return memcmp(&now, state, sizeof(now)) == 0;
}

static const struct hr_store_object *any(const struct fake_store *s, unsigned *seed)
{
	return s->store.count ? &s->store.object[(unsigned)rand_r(seed) % s->store.count] : NULL;
}

/* One change, the same for the same seed and state; the store may refuse it. */
static int change(struct fake_store *s, unsigned seed)
{
	const struct hr_store_object *object;
	struct hr_store_object *made;
	char name[] = "a";
	const unsigned choice = (unsigned)rand_r(&seed) % 8;

	name[0] = (char)('a' + rand_r(&seed) % 5);
	object = any(s, &seed);
	if (choice < 3 || !object)
		return hr_store_create(&s->store, name,
				       (unsigned)rand_r(&seed) % (20 * HR_STORE_ALIGN), choice,
				       choice != 0, &made, NULL);
	if (choice == 3)
		return hr_store_remove(&s->store, object->id, NULL);
	if (choice == 4)
		return hr_store_progress(&s->store, object->id,
					 object->durable_bytes +
						 (object->bytes - object->durable_bytes) / 2,
					 choice, seed, NULL);
	return hr_store_finish(&s->store, object->id, choice == 5, seed, NULL);
}

/* Run a history up to its end or the cut. Returns the interrupted step, or STEPS. */
static unsigned run(unsigned history, struct state *states)
{
	for (unsigned step = 0; step < STEPS; step++) {
		const int err = change(&f, history * 1000 + step);

		if (err == -ENODEV)
			return step;
		if (states)
			keep(&f, &states[step + 1]);
	}
	return STEPS;
}

static void cut_at_every_write(unsigned history, uint64_t seed)
{
	static struct state states[STEPS + 1];
	uint64_t writes;

	fake_store_init(&f, history % 2 ? 512 : 4096);
	keep(&f, &states[0]);
	run(history, states);
	writes = f.disk.writes + f.disk.flushes;
	cr_assert_gt(writes, 3 * STEPS / 2, "history %u does next to nothing", history);
	fake_store_fini(&f);
	for (uint64_t k = 1; k <= writes; k++) {
		unsigned step;
		int err;

		fake_store_init(&f, history % 2 ? 512 : 4096);
		f.disk.cut_at = k;
		f.disk.seed = seed + k;
		step = run(history, NULL);
		cr_assert_lt(step, STEPS);
		err = fake_store_reopen(&f);
		cr_assert_eq(err, 0, "history %u, cut %llu: does not open: %d", history,
			     (unsigned long long)k, err);
		cr_assert(is_state(&f, &states[step]) || is_state(&f, &states[step + 1]),
			  "history %u, cut %llu in step %u: neither old nor new", history,
			  (unsigned long long)k, step);
		/* The store works after that. */
		fake_store_put(&f, "z", 0);
		cr_assert_eq(fake_store_reopen(&f), 0);
		cr_assert_not_null(hr_store_find(&f.store, "z"));
		fake_store_fini(&f);
	}
}

Test(objmap_cut, any_cut_leaves_the_old_or_the_new_map)
{
	for (unsigned history = 0; history < HISTORIES; history++)
		cut_at_every_write(history, history * 7919);
}

/*
 * Several cuts in sequence: the store is compared with a second disk on which the change was not
 * interrupted.
 */
Test(objmap_cut, cuts_may_follow_each_other)
{
	static struct fake_store twin;
	static struct state before, after;
	unsigned seed = 5, cuts = 0, done = 0;

	fake_store_init(&f, 4096);
	fake_store_init(&twin, 4096);
	for (unsigned i = 0; i < 600; i++) {
		const unsigned choice = (unsigned)rand_r(&seed);

		keep(&f, &before);
		memdisk_copy(&twin.disk, &f.disk);
		cr_assert_eq(fake_store_reopen(&twin), 0);
		change(&twin, choice);
		keep(&twin, &after);
		f.disk.cut_at = f.disk.writes + f.disk.flushes + 1 + (unsigned)rand_r(&seed) % 5;
		f.disk.seed = i;
		change(&f, choice);
		cuts += f.disk.off;
		if (!f.disk.off)
			memdisk_cut(&f.disk);
		cr_assert_eq(fake_store_reopen(&f), 0, "cut %u", i);
		cr_assert(is_state(&f, &before) || is_state(&f, &after), "cut %u", i);
		done += is_state(&f, &after);
	}
	cr_expect_gt(cuts, 100, "%u cuts", cuts);
	cr_expect_gt(done, 100, "%u done", done);
	fake_store_fini(&f);
	fake_store_fini(&twin);
}

/* Formatting over a store leaves the old store with all its data, the new one, or none. */
Test(objmap_cut, a_cut_format_leaves_the_old_store_the_new_store_or_no_store)
{
	unsigned found_old = 0, found_new = 0, found_none = 0;

	for (uint64_t k = 1; k <= 6; k++) {
		for (uint64_t seed = 0; seed < 40; seed++) {
			uint64_t generation;
			int err;

			fake_store_init(&f, 512);
			fake_store_put(&f, "a", 1);
			if (seed % 2)
				fake_store_put(&f, "b", 1);
			generation = f.store.generation;
			f.disk.cut_at = f.disk.writes + f.disk.flushes + k;
			f.disk.seed = seed * 31 + k;
			err = hr_store_format(&f.disk.blk, FAKE_STORE_OBJECTS, true, f.io, NULL);
			cr_assert_eq(err, -ENODEV);
			err = fake_store_reopen(&f);
			if (err) {
				cr_assert(err == -ENOMEDIUM || err == -EUCLEAN ||
						  err == -EMEDIUMTYPE,
					  "%d", err);
				found_none++;
			} else if (f.store.count == 0) {
				found_new++;
			} else {
				cr_assert_eq(f.store.generation, generation, "an older map");
				found_old++;
			}
			fake_store_fini(&f);
		}
	}
	cr_expect(found_old && found_new && found_none, "%u old, %u new, %u none", found_old,
		  found_new, found_none);
}
