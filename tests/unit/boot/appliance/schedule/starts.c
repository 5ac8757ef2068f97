/* SPDX-License-Identifier: Apache-2.0 */
/* The starts of pipelines on a disk: two pages that alternate, power cuts, foreign and damaged
 * contents. */
#include "boot/appliance/schedule/starts.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/engine.h"
#include "tests/harness/random.h"
#include "tests/harness/store.h"

static struct fake_store f;
static struct hr_starts starts, loaded;

static void begin(void)
{
	fake_store_init(&f, 512);
	memset(&starts, 0, sizeof starts);
	strcpy(starts.start[0].name, "p");
}

/* of power cuts; there is one thread here */
#ifdef __SANITIZE_THREAD__
#define SEEDS 60u
#else
#define SEEDS 400u
#endif

static void end(void)
{
	fake_store_fini(&f);
}

TestSuite(starts, .init = begin, .fini = end, .timeout = 60);

Test(starts, a_store_without_starts_has_none)
{
	cr_expect_eq(hr_starts_load(&f.store, &loaded, NULL), -ENOENT);
	cr_expect_eq(f.store.count, 0u, "reading makes no object");
}

Test(starts, the_newest_page_is_read_back)
{
	for (uint64_t n = 1; n < 10; n++) {
		starts.start[0].starts = n;
		cr_assert_eq(hr_starts_save(&f.store, &starts, NULL), 0);
		cr_expect_eq(starts.sequence, n);
		cr_assert_eq(fake_store_reopen(&f), 0);
		cr_assert_eq(hr_starts_load(&f.store, &loaded, NULL), 0);
		cr_expect_eq(memcmp(&loaded, &starts, sizeof loaded), 0);
		cr_expect_eq(f.store.count, 1u);
	}
}

/*
 * After the power cut all earlier saves are on the disk; the save during the power cut is there
 * whole or not at all.
 */
Test(starts, a_power_cut_leaves_the_last_page_or_the_one_before)
{
	unsigned before = 0, after = 0;

	for (uint64_t seed = 1; seed < SEEDS; seed++) {
		const uint64_t saves = seed % 5;
		int err;

		end();
		begin();
		for (uint64_t n = 0; n < saves; n++) {
			starts.start[0].starts++;
			cr_assert_eq(hr_starts_save(&f.store, &starts, NULL), 0);
		}
		starts.start[0].starts++;
		f.disk.seed = seed;
		f.disk.cut_at = f.disk.writes + f.disk.flushes + 1 + seed % (saves ? 2 : 12);
		hr_starts_save(&f.store, &starts, NULL);
		cr_assert_eq(fake_store_reopen(&f), 0);
		err = hr_starts_load(&f.store, &loaded, NULL);
		if (err == -ENOENT)
			loaded.start[0].starts = 0;
		else
			cr_assert_eq(err, 0);
		before += loaded.start[0].starts == saves;
		after += loaded.start[0].starts == saves + 1;
		cr_assert_eq(before + after, seed, "seed %llu", (unsigned long long)seed);
		starts = loaded;
		strcpy(starts.start[0].name, "p");
		starts.sequence = err ? 0 : loaded.sequence;
		cr_assert_eq(hr_starts_save(&f.store, &starts, NULL), 0, "the next one works");
	}
	cr_expect_gt(before, 0u);
	cr_expect_gt(after, 0u);
}

Test(starts, an_object_of_the_user_is_not_touched)
{
	struct hr_error e = { 0 };
	const uint64_t id = fake_store_put(&f, HR_STARTS_OBJECT, 2 * HR_PAGE);
	const uint64_t writes = f.disk.writes;

	cr_expect_eq(hr_starts_save(&f.store, &starts, &e), -EEXIST);
	cr_expect_not_null(strstr(e.text, "object 'headrace.starts' was not made by"), "%s",
			   e.text);
	cr_expect_eq(hr_starts_load(&f.store, &loaded, NULL), -EEXIST);
	cr_expect_eq(f.disk.writes, writes);
	cr_expect_not_null(hr_store_find_id(&f.store, id));
	e.printed = true;
}

Test(starts, each_value_that_nothing_here_writes_is_refused)
{
	static const struct {
		size_t offset;
		uint64_t value;
		const char *want;
	} row[] = {
#define ROW(member, value, want) { offsetof(struct hr_starts, start[3].member), value, want }
		ROW(planned_ns, 1ull << 63, "planned"),
		ROW(started_ns, 1ull << 63, "time of the last start"),
		ROW(ended_ns, UINT64_MAX, "time of the last start"),
		ROW(done, 1, "number of starts"),
		ROW(failures, 1, "number of starts"),
		ROW(failures_in_row, UINT64_MAX, "number of starts"),
		ROW(starts, 1ull << 63, "number of starts"),
		ROW(skipped, 1ull << 63, "number of starts"),
		ROW(outcome, HR_START_OUTCOMES, "outcome"),
		ROW(error, (uint64_t)INT64_MIN, "error"),
		ROW(error, 0x10000, "error"),
		ROW(flags, HR_START_FLAGS + 1, "flags"),
		ROW(name[0], 0x0a61616161616161, "name"),
		ROW(name[56], 0x6161616161616161, "name"),
#undef ROW
		{ offsetof(struct hr_starts, sequence), 1ull << 63, "sequence" },
	};
	uint8_t page[HR_PAGE];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_starts wrong = { .sequence = 1 };

		if (row[i].offset == offsetof(struct hr_starts, start[3].name[56]))
			memset(wrong.start[3].name, 'a', HR_NAME_MAX);
		memcpy((uint8_t *)&wrong + row[i].offset, &row[i].value, 8);
		cr_expect_str_eq(hr_starts_check(&wrong), row[i].want, "row %zu", i);
		hr_starts_put(&wrong, page);
		cr_expect_not(hr_starts_get(&loaded, page), "row %zu", i);
	}
}

Test(starts, a_damaged_page_is_refused)
{
	struct fake_random random = { fake_random_seed("starts") };
	uint8_t page[HR_PAGE];

	starts.sequence = 1;
	hr_starts_put(&starts, page);
	cr_assert(hr_starts_get(&loaded, page));
	for (int i = 0; i < 2000; i++) {
		const uint32_t at = fake_random_below(&random, HR_PAGE);
		const uint8_t bit = (uint8_t)(1u << fake_random_below(&random, 8));

		page[at] ^= bit;
		cr_assert_not(hr_starts_get(&loaded, page), "byte %u", at);
		page[at] ^= bit;
	}
	memset(page, 0, sizeof page);
	cr_expect_not(hr_starts_get(&loaded, page));
}

/* The first ssd that is up and may be written has them. */
Test(starts, the_first_writable_store_has_the_starts)
{
	static struct hr_engine engine;
	struct hr_error e = { 0 };
	struct hr_blk read_only = f.disk.blk;

	read_only.read_only = true;
	memset(&engine, 0, sizeof engine);
	engine.config.ssds = HR_SSDS_MAX;
	for (uint32_t d = 0; d < HR_SSDS_MAX; d++)
		engine.ssd[d].blk = &read_only;
	cr_expect_eq(hr_starts_write(&engine, &starts, &e), -ENODEV, "no ssd has a store");
	for (uint32_t d = 0; d < HR_SSDS_MAX; d++)
		engine.ssd[d].has_store = true;
	cr_expect_eq(hr_starts_write(&engine, &starts, &e), -ENODEV, "all are read-only");
	cr_expect(strstr(e.text, "no ssd has a writable object store"), "%s", e.text);
	e.printed = true;
	engine.ssd[HR_SSDS_MAX - 1].blk = &f.disk.blk;
	engine.ssd[HR_SSDS_MAX - 1].store = f.store;
	cr_expect_eq(hr_starts_write(&engine, &starts, NULL), 0);
	f.store = engine.ssd[HR_SSDS_MAX - 1].store;
	cr_assert_eq(hr_starts_load(&f.store, &loaded, NULL), 0);
	cr_expect_eq(loaded.sequence, 1u);
}

/* ---- several ssds */

static struct hr_engine two;
static struct fake_store g; /* of the second ssd */

static void begin_two(void)
{
	end();
	begin();
	fake_store_init(&g, 512);
	memset(&two, 0, sizeof two);
	two.config.ssds = 2;
	two.ssd[0].blk = &f.disk.blk;
	two.ssd[1].blk = &g.disk.blk;
	two.ssd[0].has_store = two.ssd[1].has_store = true;
	two.ssd[2] = two.ssd[1]; /* behind the last */
}

/* The stores as they are now; each is read and written by the appliance alone. */
static int read_two(void)
{
	two.ssd[0].store = f.store;
	two.ssd[1].store = two.ssd[2].store = g.store;
	memset(&loaded, 7, sizeof loaded);
	return hr_starts_read(&two, &loaded, NULL);
}

static void save(struct fake_store *to, uint64_t sequence)
{
	starts.sequence = sequence - 1;
	cr_assert_eq(hr_starts_save(&to->store, &starts, NULL), 0);
	cr_assert_eq(starts.sequence, sequence);
}

Test(starts, the_newest_of_all_ssds_is_read)
{
	static const struct hr_starts none;

	begin_two();
	cr_expect_eq(read_two(), -ENOENT);
	cr_expect_eq(memcmp(&loaded, &none, sizeof none), 0);
	save(&g, 5);
	cr_expect_eq(read_two(), 0, "one has none");
	cr_expect_eq(loaded.sequence, 5u);
	two.ssd[0].has_store = false;
	cr_expect_eq(read_two(), 0);
	two.ssd[0].has_store = true;
	two.ssd[1].health.state = HR_HEALTH_LOST;
	cr_expect_eq(read_two(), -ENOENT, "it cannot be read");
	two.ssd[1].health.state = HR_HEALTH_UP;
	save(&f, 6);
	cr_expect_eq(read_two(), 0);
	cr_expect_eq(loaded.sequence, 6u);
	save(&g, 7);
	cr_expect_eq(read_two(), 0);
	cr_expect_eq(loaded.sequence, 7u);
	two.config.ssds = 1;
	cr_expect_eq(read_two(), 0);
	cr_expect_eq(loaded.sequence, 6u);
	two.config.ssds = 0;
	cr_expect_eq(read_two(), -ENOENT);
	fake_store_fini(&g);
}

/* Starts that can be read somewhere are no error; a store without starts hides no error. */
Test(starts, an_error_counts_when_no_ssd_has_the_starts)
{
	begin_two();
	save(&f, 3);
	f.disk.bad_from = hr_store_find(&f.store, HR_STARTS_OBJECT)->offset;
	f.disk.bad_to = f.disk.bad_from + HR_PAGE;
	f.disk.fail_status = 0x281;
	cr_expect_eq(read_two(), 0x281);
	cr_expect_eq(loaded.sequence, 0u);
	two.config.ssds = 1;
	cr_expect_eq(read_two(), 0x281);
	two.config.ssds = 2;
	save(&g, 4);
	cr_expect_eq(read_two(), 0);
	cr_expect_eq(loaded.sequence, 4u);
	two.ssd[0].blk = &g.disk.blk; /* the other order */
	two.ssd[0].store = g.store;
	two.ssd[1].store = f.store;
	memset(&loaded, 7, sizeof loaded);
	cr_expect_eq(hr_starts_read(&two, &loaded, NULL), 0);
	cr_expect_eq(loaded.sequence, 4u);
	fake_store_fini(&g);
}

/* Both pages are blank before the object has a name, and each write that fails is an error. */
Test(starts, a_new_object_has_two_blank_pages)
{
	const struct hr_store_object *object;
	static uint8_t old[2 * HR_PAGE];
	unsigned named = 0;
	uint64_t writes;

	memset(old, 0xee, sizeof old);
	for (uint32_t i = 0; i < 2; i++) { /* what an earlier object left there */
		const uint64_t at = HR_STORE_DATA_ALIGN + i * HR_PAGE;

		cr_assert_eq(f.disk.blk.ops->write(&f.disk.blk, at, old, HR_PAGE, false, NULL), 0);
	}
	f.disk.writes = f.disk.flushes = 0;
	cr_assert_eq(hr_starts_save(&f.store, &starts, NULL), 0);
	writes = f.disk.writes + f.disk.flushes;
	object = hr_store_find(&f.store, HR_STARTS_OBJECT);
	cr_assert_eq(object->offset, HR_STORE_DATA_ALIGN, "where the old data was");
	cr_expect_eq(object->bytes, 2 * HR_PAGE);
	memset(old, 0, sizeof old);
	cr_expect_eq(memcmp(f.disk.seen + object->offset, old, HR_PAGE), 0, "page 0 is blank");
	cr_expect_neq(memcmp(f.disk.seen + object->offset + HR_PAGE, old, HR_PAGE), 0);
	for (uint64_t n = 1; n <= writes; n++) {
		end();
		begin();
		f.disk.writes = f.disk.flushes = 0;
		f.disk.fail_status = 0x281;
		f.disk.fail_at = n;
		memset(f.disk.seen + HR_STORE_DATA_ALIGN + HR_PAGE, 0xee, HR_PAGE);
		cr_expect_eq(hr_starts_save(&f.store, &starts, NULL), 0x281, "write %llu",
			     (unsigned long long)n);
		object = hr_store_find(&f.store, HR_STARTS_OBJECT);
		if (object && !(object->flags & HR_OBJECT_PENDING))
			named += f.disk.seen[object->offset + HR_PAGE] != 0xee;
		f.error.printed = true;
	}
	cr_expect_gt(named, 0u, "the write of the starts failed, on a blank page");
}

/* At each limit a value is accepted. */
Test(starts, values_at_their_limits_are_accepted)
{
	struct hr_start *start = &starts.start[HR_PIPELINES_MAX - 1];
	uint8_t page[HR_PAGE];

	starts.sequence = 1ull << 62;
	memset(start->name, '~', HR_NAME_MAX - 1);
	start->name[0] = ' ';
	start->planned_ns = start->started_ns = start->ended_ns = 1ull << 62;
	start->starts = start->skipped = 1ull << 62;
	start->done = start->failures = start->failures_in_row = start->starts;
	start->outcome = HR_START_OUTCOMES - 1;
	start->error = 0xffff;
	start->flags = HR_START_FLAGS;
	cr_expect_null(hr_starts_check(&starts));
	hr_starts_put(&starts, page);
	cr_expect(hr_starts_get(&loaded, page));
	cr_expect_eq(memcmp(&loaded, &starts, sizeof starts), 0);
	start->error = -4095;
	cr_expect_null(hr_starts_check(&starts));
	start->error = -4096;
	cr_expect_str_eq(hr_starts_check(&starts), "error");
	start->error = 0;
	start->done++;
	cr_expect_str_eq(hr_starts_check(&starts), "number of starts");
	start->done--;
	start->skipped++;
	cr_expect_str_eq(hr_starts_check(&starts), "number of starts");
	start->skipped--;
	start->ended_ns++;
	cr_expect_str_eq(hr_starts_check(&starts), "time of the last start");
	start->ended_ns--;
	start->planned_ns++;
	cr_expect_str_eq(hr_starts_check(&starts), "planned");
	start->planned_ns--;
	for (const char *c = "/\x1f\x7f\n"; *c; c++) {
		start->name[HR_NAME_MAX - 2] = *c;
		cr_expect_str_eq(hr_starts_check(&starts), "name");
	}
	start->name[HR_NAME_MAX - 2] = '.';
	cr_expect_null(hr_starts_check(&starts));
	starts.sequence++;
	cr_expect_str_eq(hr_starts_check(&starts), "sequence");
	starts.sequence = 0;
	hr_starts_put(&starts, page);
	cr_expect_not(hr_starts_get(&loaded, page), "nothing writes a page before the first");
}
