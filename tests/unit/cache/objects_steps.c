/* cache/objects.h with one lane, function by function: which states of a page serve which use, and what
 * a worker writes to shared words. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/harness/objects_steps_rig.h"

TestSuite(objects_steps, .timeout = 60);

/* ---- look-ups */

Test(objects_steps, a_page_is_found_in_any_way_and_only_with_data)
{
	for (uint32_t way = 0; way < HR_WAYS; way++)
		for (uint32_t kind = 0; kind < 16; kind++) {
			const bool has = (kind & 7) >= HR_PAGE_READY;
			struct hr_found found;

			up(0);
			put(way, kind);
			put_other((way + 1) % HR_WAYS, HR_PAGE_READY);
			found = hr_cache_find(&t.cache, t.page);
			cr_expect_eq(found.word, has ? *tag_of(way) : 0, "way %u, %u", way, kind);
			cr_expect_eq(found.tag, has ? tag_of(way) : NULL);
			cr_expect_eq(found.frame,
				     has ? t.frame[0][t.at.set * HR_WAYS + way] : NULL);
			cr_expect_eq(t.set[0][t.at.set].recency, has ? 1u << way : 0);
			cr_expect_eq(hr_cache_word(&t.cache, t.page),
				     (kind & 7) >= HR_PAGE_READING ? *tag_of(way) : 0);
			/* a page that leaves, or has left, is absent */
			cr_expect_eq(hr_cache_is_absent(words_of_set(), t.at.tag),
				     kind < HR_PAGE_READING, "kind %u", kind);
			cr_expect_eq(found.absent, !has && kind < HR_PAGE_READING);
			cr_expect(hr_cache_is_absent(words_of_set(), t.at.tag + 2));
			cr_expect_eq(hr_cache_word_in(words_of_set(), t.at.tag + 2), 0);
		}
}

Test(objects_steps, a_hit_on_the_page_used_last_writes_nothing)
{
	up(0);
	t.cache.policy = HR_POLICY_LRU;
	t.set[0][t.at.set].recency = hr_policy_init(HR_POLICY_LRU);
	put(5, HR_PAGE_READY);
	(void)hr_cache_find(&t.cache, t.page);
	cr_expect_eq(t.set[0][t.at.set].recency,
		     hr_policy_touch(HR_POLICY_LRU, hr_policy_init(HR_POLICY_LRU), 5));
}

Test(objects_steps, a_writer_makes_a_page_dirty_unless_it_is_shared)
{
	for (uint32_t kind = 0; kind < 16; kind++) {
		const bool may = kind >= HR_PAGE_READY && kind < 8;
		uint32_t word, after;

		up(0);
		put(3, kind);
		word = *tag_of(3);
		after = may ? word | 1 : word;
		cr_expect_eq(hr_cache_dirty(tag_of(3), word), may, "kind %u", kind);
		cr_expect_eq(*tag_of(3), after, "kind %u", kind);
	}
	/* the word has changed since */
	up(0);
	put(3, HR_PAGE_WRITING);
	cr_expect(hr_cache_dirty(tag_of(3), HR_PAGE_WORD(t.at.tag, HR_PAGE_READY)));
	cr_expect_eq(HR_PAGE_KIND(*tag_of(3)), HR_PAGE_REDIRTY);
	put_other(3, HR_PAGE_READY);
	cr_expect(!hr_cache_dirty(tag_of(3), HR_PAGE_WORD(t.at.tag, HR_PAGE_READY)));
	cr_expect_eq(HR_PAGE_KIND(*tag_of(3)), HR_PAGE_READY);
	put(3, HR_PAGE_LEFT);
	cr_expect(!hr_cache_dirty(tag_of(3), HR_PAGE_WORD(t.at.tag, HR_PAGE_READY)));
	put(3, HR_PAGE_READY | HR_PAGE_SHARED);
	cr_expect(!hr_cache_dirty(tag_of(3), HR_PAGE_WORD(t.at.tag, HR_PAGE_READY)));
}

/* Result of a use of a page in each state, and the state after it: readers, writers, writers of all. */
Test(objects_steps, each_state_serves_some_uses)
{
	static const struct {
		uint32_t kind;
		enum hr_page_state read, write, whole;
		uint32_t after_write, after_whole;
	} row[] = {
		{ HR_PAGE_FREE, 0, 0, 0, HR_PAGE_FREE, HR_PAGE_FREE },
		{ HR_PAGE_LEFT, 0, 0, 0, HR_PAGE_LEFT, HR_PAGE_LEFT },
		{ HR_PAGE_READING, 2, 2, 2, HR_PAGE_READING, HR_PAGE_READING },
		{ HR_PAGE_OFFERED, 0, 0, HR_PAGE_READY, HR_PAGE_OFFERED, HR_PAGE_READING },
		{ HR_PAGE_ERROR, 3, 3, 3, HR_PAGE_ERROR, HR_PAGE_ERROR },
		{ HR_PAGE_READY, 4, 4, 4, HR_PAGE_DIRTY, HR_PAGE_DIRTY },
		{ HR_PAGE_DIRTY, 4, 4, 4, HR_PAGE_DIRTY, HR_PAGE_DIRTY },
		{ HR_PAGE_WRITING, 4, 4, 4, HR_PAGE_REDIRTY, HR_PAGE_REDIRTY },
		{ HR_PAGE_REDIRTY, 4, 4, 4, HR_PAGE_REDIRTY, HR_PAGE_REDIRTY },
		{ HR_PAGE_READY | HR_PAGE_SHARED, 4, 0, 0, HR_PAGE_READY | HR_PAGE_SHARED,
		  HR_PAGE_READY | HR_PAGE_SHARED },
		{ HR_PAGE_DIRTY | HR_PAGE_SHARED, 4, 0, 0, HR_PAGE_DIRTY | HR_PAGE_SHARED,
		  HR_PAGE_DIRTY | HR_PAGE_SHARED },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++)
		for (uint32_t kind = 0; kind < 3; kind++) {
			const enum hr_page_state want = kind == 0   ? row[i].read
							: kind == 1 ? row[i].write
								    : row[i].whole;
			const uint32_t after = kind == 0   ? row[i].kind
					       : kind == 1 ? row[i].after_write
							   : row[i].after_whole;
			struct hr_use use = hr_use_none();
			uint8_t *frame;

			up(0);
			put(6, row[i].kind);
			frame = t.frame[0][t.at.set * HR_WAYS + 6];
			memset(frame, 0x77, PAGE_BYTES);
			use.page = t.page;
			use.writes = kind > 0;
			use.whole = kind == 2;
			use.bytes = kind == 2 ? 0 : 4;
			use.in_page = 8;
			use.value = 0x12345678;
			cr_expect_eq(hr_use_page(&t.cache, &use, t.at), want, "row %u, %u", i,
				     kind);
			cr_expect_eq(HR_PAGE_KIND(*tag_of(6)), after, "row %u, %u", i, kind);
			cr_expect_eq(HR_PAGE_TAG(*tag_of(6)), t.at.tag);
			cr_expect_eq(use.frame, want == HR_PAGE_READY ? frame : NULL);
			cr_expect_eq(use.tag, want == HR_PAGE_READY ? tag_of(6) : NULL);
			cr_expect_eq(use.claimed, kind == 2 && row[i].kind == HR_PAGE_OFFERED);
			cr_expect_eq(use.value,
				     kind == 0 && want == HR_PAGE_READY ? 0x77777777 : 0x12345678);
			cr_expect_eq(frame[8], kind == 1 && want == HR_PAGE_READY ? 0x78 : 0x77);
			cr_expect(frame[7] == 0x77 && frame[12] == 0x77);
		}
}

Test(objects_steps, a_claimed_page_is_dirty_when_it_is_filled)
{
	up(0);
	put(2, HR_PAGE_READING);
	hr_cache_filled(tag_of(2));
	cr_expect_eq(*tag_of(2), HR_PAGE_WORD(t.at.tag, HR_PAGE_DIRTY));
	cr_expect_eq(hr_objects_fail(&t.objects, -EIO, 3, 7), -EIO);
	cr_expect_eq(hr_objects_fail(&t.objects, -ERANGE, 4, 8), -EIO);
	cr_expect(t.objects.error == -EIO && t.objects.error_object == 3 &&
		  t.objects.error_index == 7);
}

Test(objects_steps, elements_have_four_or_eight_bytes)
{
	uint64_t word[2] = { 0x1122334455667788, 5 };
	uint8_t *at = (uint8_t *)word;

	cr_expect_eq(hr_element_at(at, 4, false, 9), 0x55667788);
	cr_expect_eq(hr_element_at(at, 8, false, 9), 0x1122334455667788);
	cr_expect_eq(hr_element_at(at, 0, true, 9), 9);
	cr_expect_eq(hr_element_at(at, 4, true, 0xaabbccddeeff0011), 0xaabbccddeeff0011);
	cr_expect_eq(word[0], 0x11223344eeff0011);
	cr_expect_eq(hr_element_at(at, 8, true, 3), 3);
	cr_expect(word[0] == 3 && word[1] == 5);
}

/* ---- quiescent states */

Test(objects_steps, a_worker_publishes_the_epoch_that_it_has_not_seen)
{
	up(0);
	t.worker[1].seen = 7;
	hr_cache_quiescent(&t.objects, EPOCH);
	cr_expect_eq(t.worker[1].seen, 7, "the worker has stored this epoch before");
	t.words.epoch = EPOCH + 1;
	t.objects.unpublished = 5;
	cr_expect_eq(hr_cache_look(&t.objects, true), 0);
	cr_expect(t.worker[1].seen == EPOCH + 1 && t.objects.seen == EPOCH + 1);
	cr_expect_eq(t.objects.unpublished, 0);
	cr_expect(t.worker[0].seen == 0 && t.worker[2].seen == 0);
	t.words.epoch = EPOCH + 2;
	t.words.stop = 3;
	t.objects.unpublished = 5;
	cr_expect_eq(hr_cache_look(&t.objects, false), 3);
	cr_expect(t.worker[1].seen == EPOCH + 1 && t.objects.unpublished == 5);
	cr_expect_eq(hr_cache_look(&t.objects, true), 3);
	cr_expect(t.worker[1].seen == EPOCH + 2 && t.objects.unpublished == 0);
}

/* An operator that uses pages in place makes no other call that sees the stop. */
Test(objects_steps, a_quiescent_state_publishes_and_sees_the_stop)
{
	static const struct {
		uint32_t stop;
		int error;
	} row[] = { { HR_CACHE_RUNS, 0 },
		    { HR_CACHE_ENDS, -ECANCELED },
		    { HR_CACHE_FAILED, -ECANCELED },
		    { HR_CACHE_DEADLOCK, -EDEADLK } };

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		up(0);
		t.words.epoch = EPOCH + 1;
		t.words.stop = row[i].stop;
		t.objects.held = 2;
		t.objects.unpublished = 5;
		hr_quiescent(&t.objects);
		cr_expect_eq(t.objects.error, row[i].error, "row %u", i);
		cr_expect(t.objects.held == 0 && t.objects.unpublished == 0);
		cr_expect_eq(t.worker[1].seen, EPOCH + 1);
	}
}

Test(objects_steps, every_sixteenth_access_looks_at_the_shared_words)
{
	for (uint32_t held = 0; held < 2; held++) {
		up(0);
		t.objects.held = held;
		t.words.epoch = EPOCH + 1;
		for (uint32_t i = 0; i < 15; i++)
			hr_cache_used(&t.objects);
		cr_expect(t.objects.seen == EPOCH && t.objects.unpublished == 15);
		hr_cache_used(&t.objects);
		cr_expect_eq(t.worker[1].seen, held ? 0 : EPOCH + 1);
		cr_expect_eq(t.objects.unpublished, 0);
		t.words.stop = HR_CACHE_ENDS;
		for (uint32_t i = 0; i < 16; i++) {
			cr_expect_eq(t.objects.error, 0);
			hr_cache_used(&t.objects);
		}
		cr_expect_eq(t.objects.error, -ECANCELED);
	}
}

Test(objects_steps, a_step_of_waiting_publishes_and_sees_the_stop)
{
	uint32_t spins = 4;

	up(0);
	t.words.epoch = EPOCH + 1;
	cr_expect_eq(hr_cache_pause(&t.objects, true, &spins), 0);
	cr_expect(spins == 5 && t.idles == 1 && t.worker[1].seen == 0);
	cr_expect_eq(hr_cache_pause(&t.objects, false, &spins), 0);
	cr_expect(spins == 6 && t.worker[1].seen == EPOCH + 1);
	t.words.stop = HR_CACHE_DEADLOCK;
	cr_expect_eq(hr_cache_pause(&t.objects, false, &spins), HR_CACHE_DEADLOCK);
	cr_expect(spins == 6 && t.idles == 2);
}
