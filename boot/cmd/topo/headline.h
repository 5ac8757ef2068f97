/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/headline.h - the verdicts in sentences: one headline for each class of equal pairs.
 *
 * The table, --json and the page of --html use the same sentences.
 */
#ifndef BOOT_CMD_TOPO_HEADLINE_H
#define BOOT_CMD_TOPO_HEADLINE_H

#include "boot/cmd/topo/survey.h"
#include "pci/topo/rules/explain.h"

#define HR_TEXT_COLUMNS 100u /* of the table */

struct hr_headline {
	char members[320];	    /* "GPU0-1 with NVME0-5, GPU2-3 with NVME6-11" */
	char what[640];		    /* "share a switch, but ACS sends the data through the CPU" */
	char rate[112];		    /* "6.6 GB/s alone, 2.8 GB/s each of 6 at once"; "": unknown */
	char terms[192];	    /* verdict, rule, kernel's verdict, distance, degradation */
	char remedy[640];	    /* "": no remedy needed */
	double alone_gbs;	    /* payload of the first pair alone, in GB/s; 0: unknown */
	double least_gbs, most_gbs; /* of each SSD when all SSDs of the class send; 0: unknown */
	bool bound; /* the rates are upper bounds: the capacity of root complexes is unknown */
};

/* Make the headline of a class. Rates take memory of the model. */
void hr_headline_make(struct hr_topo *t, const struct hr_class *c, struct hr_headline *h);
/*
 * Make the headlines of the first n classes (or fewer, if there are fewer); the caller frees them.
 * NULL: out of memory.
 */
struct hr_headline *hr_headlines_new(struct hr_topo *t, const struct hr_survey *s, uint32_t n);
/*
 * Write "48 pairs share a switch: 48 DIRECT; 144 do not: 144 RC_LISTED" to text[512]; returns text.
 */
char *hr_headline_answer(const struct hr_survey *s, char *text);

/* A rule that was found but did not decide, listed once with the number of functions. */
struct hr_note {
	uint8_t rule;
	struct hr_finding found; /* first finding */
	struct hr_pair pair;	 /* pair of the first finding */
	int32_t fn[16];
	unsigned fns; /* number of distinct functions; those beyond fn[] are not counted */
};
#define HR_NOTES_MAX 64u

/* ---- findings other than the deciding rules, and line breaks */

/*
 * Find the notes of all pairs, in the order of the rules. Returns their number in
 * note[HR_NOTES_MAX].
 */
unsigned hr_notes_find(const struct hr_topo *t, const struct hr_survey *s, struct hr_note *note);

/* Write the sentence of a note with the number of functions that it concerns, and its remedy ("":
 * none). */
void hr_note_text(const struct hr_topo *t, const struct hr_note *n, char *why, char *fix,
		  size_t capacity);

/*
 * Print text in lines of at most HR_TEXT_COLUMNS, broken at spaces. The first line continues after
 * `used` columns that the caller has printed; other lines begin with `indent` spaces. Ends with a
 * newline. A word longer than a line is not broken, because it may be a command to copy.
 */
void hr_print_wrapped(FILE *out, unsigned used, unsigned indent, const char *text);

#endif
