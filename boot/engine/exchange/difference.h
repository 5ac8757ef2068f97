/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/exchange/difference.h - data that differ from the expected data, in words: the
 * first byte, the expected and the found word, and the likely cause.
 *
 * Pure: the caller gives the expected data, the data that it found, and those that were there
 * before. Pages of 4 KiB are judged by the words that differ; the kind is that of the first page.
 */
#ifndef BOOT_ENGINE_EXCHANGE_DIFFERENCE_H
#define BOOT_ENGINE_EXCHANGE_DIFFERENCE_H

#include <stddef.h>
#include <stdint.h>

enum hr_difference_kind {
	HR_DIFFERENCE_NONE,
	HR_DIFFERENCE_ONES,    /* every word that differs is ffffffff */
	HR_DIFFERENCE_STALE,   /* the data that were there before */
	HR_DIFFERENCE_LATE,    /* the same at first; set by the caller, when they are equal later */
	HR_DIFFERENCE_MOVED,   /* the data of another page */
	HR_DIFFERENCE_ZEROS,   /* every word that differs is zero */
	HR_DIFFERENCE_STRAY,   /* set by the caller: memory beside the transfer has changed */
	HR_DIFFERENCE_UNKNOWN, /* set by the caller: the found data are not known */
	HR_DIFFERENCE_OTHER,
	HR_DIFFERENCE_KINDS
};

/* All zero: nothing has been compared. */
struct hr_difference {
	enum hr_difference_kind kind;
	uint64_t pages, differing; /* pages compared, and those that differ */
	uint64_t at;		   /* first byte that differs, from the start of the transfer */
	uint64_t moved_from;	   /* of MOVED: start of the page with these data */
	uint64_t late_ns;	   /* of LATE: time after the completion */
	uint64_t expected, found;  /* the 8 bytes around byte `at`, as in memory */
};

/*
 * Compare `bytes` of a transfer (a multiple of 8), from byte `at` of it on, with the expected data.
 * before: the data that were there before the transfer; NULL: not known.
 */
void hr_difference_note(struct hr_difference *d, const void *want, const void *found,
			const void *before, size_t bytes, uint64_t at);

/* "all-ones", "stale", ...: the word of JSON; "" for NONE. */
const char *hr_difference_word(enum hr_difference_kind kind);

/*
 * Write the sentence. reads: the data are those that an ssd read, otherwise those that it wrote.
 * Returns text.
 */
char *hr_difference_text(const struct hr_difference *d, int reads, char *text, size_t bytes);

#endif
