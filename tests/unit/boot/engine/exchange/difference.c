/* SPDX-License-Identifier: Apache-2.0 */
/* Data that differ: their kind, place and words, for each cause that has a name. */
#include "boot/engine/exchange/difference.h"

#include <criterion/criterion.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/limits.h"

#define PAGES 4u
#define BYTES (PAGES * (size_t)HR_PAGE)

static uint8_t want[BYTES], found[BYTES], before[BYTES];
static struct hr_difference d;
static char text[400];

static void begin(void)
{
	for (size_t i = 0; i < BYTES; i++) {
		want[i] = (uint8_t)(i * 7 + i / HR_PAGE + 1);
		before[i] = (uint8_t)(i * 13 + 128);
	}
	memcpy(found, want, BYTES);
	memset(&d, 0, sizeof d);
}

static const char *say(bool reads)
{
	return hr_difference_text(&d, reads, text, sizeof text);
}

TestSuite(difference, .init = begin, .timeout = 10);

Test(difference, equal_data_have_no_kind)
{
	hr_difference_note(&d, want, found, before, BYTES, 0);
	cr_expect_eq(d.kind, HR_DIFFERENCE_NONE);
	cr_expect_eq(d.pages, PAGES);
	cr_expect_eq(d.differing, 0);
	cr_expect_str_eq(say(false), "equal");
	cr_expect_str_eq(hr_difference_word(d.kind), "");
}

/* One page is changed, from a byte of it on; the expected kind with and without the old data. */
Test(difference, each_cause_has_its_kind)
{
	static const struct {
		enum hr_difference_kind kind;
		const char *word, *sentence;
	} row[] = {
		{ HR_DIFFERENCE_ONES, "all-ones", "the read was aborted by the root complex" },
		{ HR_DIFFERENCE_STALE, "stale", "stale: the blocks still hold the data of before" },
		{ HR_DIFFERENCE_ZEROS, "zeros", "zeros: the data are missing" },
		{ HR_DIFFERENCE_MOVED, "moved", "moved: these are the data of byte 0x103000" },
		{ HR_DIFFERENCE_OTHER, "other", "other data" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint8_t *page = found + HR_PAGE;

		begin();
		switch (row[i].kind) {
		case HR_DIFFERENCE_ONES:
			memset(page, 0xff, HR_PAGE);
			break;
		case HR_DIFFERENCE_STALE:
			memcpy(page, before + HR_PAGE, HR_PAGE);
			break;
		case HR_DIFFERENCE_ZEROS:
			memset(page, 0, HR_PAGE);
			break;
		case HR_DIFFERENCE_MOVED:
			memcpy(page, want + 3 * (size_t)HR_PAGE, HR_PAGE);
			break;
		default:
			page[100] ^= 0x55;
			break;
		}
		hr_difference_note(&d, want, found, before, BYTES, 1 << 20);
		cr_expect_eq(d.kind, row[i].kind, "%s: kind %d", row[i].word, d.kind);
		cr_expect_eq(d.differing, 1);
		cr_expect_geq(d.at, (1u << 20) + HR_PAGE);
		cr_expect_str_eq(hr_difference_word(d.kind), row[i].word);
		cr_expect(strstr(say(true), row[i].sentence), "%s", text);
		cr_expect(strstr(text, "1 of 4 pages differ"), "%s", text);
	}
}

Test(difference, the_first_page_decides_and_all_are_counted)
{
	memset(found + HR_PAGE, 0xff, HR_PAGE);
	memset(found + 2 * (size_t)HR_PAGE, 0, HR_PAGE);
	hr_difference_note(&d, want, found, NULL, BYTES / 2, 0);
	hr_difference_note(&d, want + BYTES / 2, found + BYTES / 2, NULL, BYTES / 2, BYTES / 2);
	cr_expect_eq(d.kind, HR_DIFFERENCE_ONES);
	cr_expect_eq(d.differing, 2);
	cr_expect_eq(d.pages, PAGES);
	cr_expect_eq(d.at, HR_PAGE);
	cr_expect_eq(d.found, UINT64_MAX);
	cr_expect(strstr(say(false), "got ffffffffffffffff: all ones: the data come from a read"),
		  "%s", text);
}

/* Words of the expected data that are all ones themselves, a single word, and a part of a page. */
Test(difference, parts_of_a_page_are_judged_by_the_words_that_differ)
{
	memset(want + 8, 0xff, 8);
	memset(found + 8, 0xff, 24);
	hr_difference_note(&d, want, found, before, BYTES, 0);
	cr_expect_eq(d.kind, HR_DIFFERENCE_ONES);
	cr_expect_eq(d.at, 16);
	memset(&d, 0, sizeof d);
	hr_difference_note(&d, want, found, before, 24, 0);
	cr_expect_eq(d.pages, 1);
	cr_expect_eq(d.at, 16);
}

Test(difference, kinds_of_the_caller_have_sentences)
{
	d = (struct hr_difference){
		.kind = HR_DIFFERENCE_LATE, .differing = 1, .pages = 1, .late_ns = 55 * HR_NS_PER_MS
	};
	cr_expect(strstr(say(false),
			 "late: stale at the completion of the command, equal 55 ms later"),
		  "%s", text);
	d.kind = HR_DIFFERENCE_UNKNOWN;
	d.at = 0x3000;
	cr_expect(strstr(say(true), "byte 0x3000: the data that the ssd read differ"), "%s", text);
	d.kind = HR_DIFFERENCE_STRAY;
	cr_expect(strstr(say(false), "memory beside the transfer was written"), "%s", text);
	hr_difference_text(&d, 0, text, 20);
	cr_expect_eq(strlen(text), 19);
}
