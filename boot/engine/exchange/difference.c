/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/exchange/difference.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/limits.h"

static uint64_t word_at(const uint8_t *data, size_t at)
{
	uint64_t word;

	memcpy(&word, data + at, sizeof word);
	return word;
}

/* True when each 4-byte word that differs has this value. */
static bool all_are(const uint8_t *want, const uint8_t *found, size_t bytes, uint32_t value)
{
	for (size_t i = 0; i < bytes; i += 4) {
		uint32_t a, b;

		memcpy(&a, want + i, sizeof a);
		memcpy(&b, found + i, sizeof b);
		if (a != b && b != value)
			return false;
	}
	return true;
}

/* True when the bytes that differ are those of before. */
static bool is_stale(const uint8_t *want, const uint8_t *found, const uint8_t *before, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (found[i] != want[i] && found[i] != before[i])
			return false;
	return true;
}

/* The page of the expected data that equals the page at `found`; bytes: none. */
static size_t page_of(const uint8_t *want, size_t bytes, const uint8_t *found)
{
	for (size_t page = 0; page + HR_PAGE <= bytes; page += HR_PAGE)
		if (memcmp(want + page, found, HR_PAGE) == 0)
			return page;
	return bytes;
}

static enum hr_difference_kind kind_of(struct hr_difference *d, const uint8_t *want,
				       const uint8_t *found, const uint8_t *before, size_t bytes,
				       size_t page, uint64_t at)
{
	const size_t some = bytes - page < HR_PAGE ? bytes - page : HR_PAGE;
	size_t from;

	if (all_are(want + page, found + page, some, UINT32_MAX))
		return HR_DIFFERENCE_ONES;
	if (before && is_stale(want + page, found + page, before + page, some))
		return HR_DIFFERENCE_STALE;
	if (all_are(want + page, found + page, some, 0))
		return HR_DIFFERENCE_ZEROS;
	from = some == HR_PAGE ? page_of(want, bytes, found + page) : bytes;
	if (from == bytes)
		return HR_DIFFERENCE_OTHER;
	d->moved_from = at + from;
	return HR_DIFFERENCE_MOVED;
}

void hr_difference_note(struct hr_difference *d, const void *want, const void *found,
			const void *before, size_t bytes, uint64_t at)
{
	const uint8_t *a = want, *b = found;

	for (size_t page = 0; page < bytes; page += HR_PAGE) {
		const size_t some = bytes - page < HR_PAGE ? bytes - page : HR_PAGE;
		size_t i = page;

		d->pages++;
		if (memcmp(a + page, b + page, some) == 0)
			continue;
		if (d->differing++)
			continue;
		while (a[i] == b[i])
			i++;
		d->kind = kind_of(d, a, b, before, bytes, page, at);
		d->at = at + i;
		d->expected = word_at(a, i / 8 * 8);
		d->found = word_at(b, i / 8 * 8);
	}
}

const char *hr_difference_word(enum hr_difference_kind kind)
{
	static const char *const word[HR_DIFFERENCE_KINDS] = {
		"", "all-ones", "stale", "late", "moved", "zeros", "stray", "unknown", "other",
	};

	return word[kind];
}

/* The likely cause. */
static const char *cause(const struct hr_difference *d, bool reads, char *text, size_t bytes)
{
	switch (d->kind) {
	case HR_DIFFERENCE_ONES:
		return reads ? "all ones: the read was aborted by the root complex"
			     : "all ones: the data come from a read that was aborted by the root "
			       "complex";
	case HR_DIFFERENCE_STALE:
		return reads ? "stale: the blocks still hold the data of before"
			     : "stale: the memory still holds the data of before, the write was "
			       "dropped";
	case HR_DIFFERENCE_LATE:
		snprintf(text, bytes,
			 "late: stale at the completion of the command, equal %llu ms later",
			 (unsigned long long)(d->late_ns / HR_NS_PER_MS));
		return text;
	case HR_DIFFERENCE_MOVED:
		snprintf(text, bytes, "moved: these are the data of byte 0x%llx: pages are swapped",
			 (unsigned long long)d->moved_from);
		return text;
	case HR_DIFFERENCE_ZEROS:
		return reads ? "zeros: the data are missing" : "zeros were written";
	case HR_DIFFERENCE_STRAY:
		return "stray: memory beside the transfer was written";
	default:
		return "other data";
	}
}

char *hr_difference_text(const struct hr_difference *d, int reads, char *text, size_t bytes)
{
	char detail[128];

	if (d->kind == HR_DIFFERENCE_NONE) {
		snprintf(text, bytes, "equal");
		return text;
	}
	if (d->kind == HR_DIFFERENCE_UNKNOWN) {
		snprintf(text, bytes,
			 "byte 0x%llx: the data that the ssd read differ from those in GPU memory "
			 "(Compare Failure, which does not show them; a scratch area would)",
			 (unsigned long long)d->at);
		return text;
	}
	snprintf(text, bytes,
		 "%llu of %llu pages differ, the first at byte 0x%llx: expected %016llx, got "
		 "%016llx: %s",
		 (unsigned long long)d->differing, (unsigned long long)d->pages,
		 (unsigned long long)d->at, (unsigned long long)d->expected,
		 (unsigned long long)d->found, cause(d, reads != 0, detail, sizeof detail));
	return text;
}
