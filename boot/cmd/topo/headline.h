/*
 * boot/cmd/topo/headline.h - the answer in words: one headline for each class of equal pairs.
 *
 * The same words stand in the table, in --json and in the page of --html.
 */
#ifndef BOOT_CMD_TOPO_HEADLINE_H
#define BOOT_CMD_TOPO_HEADLINE_H

#include "boot/cmd/topo/survey.h"

#define HR_TEXT_COLUMNS 100u /* of the table */

struct hr_headline {
	char members[320]; /* "GPU0-1 with NVME0-5, GPU2-3 with NVME6-11" */
	char what[640];	   /* "share a switch, but ACS sends the data through the CPU" */
	char rate[96];	   /* "6.6 GB/s alone, 2.8 GB/s each of 6 at once"; "": not known */
	char terms[192];   /* verdict, rule, kernel's verdict, distance, degradation */
	char remedy[640];  /* "": none is needed */
	double alone_gbs;  /* payload of the first pair by itself, in GB/s; 0: not known */
	double least_gbs, most_gbs; /* of each SSD when all SSDs of the class send at once; 0 */
	bool bound; /* these are upper bounds: what root complexes carry in all is not known */
};

/* Rates take memory of the model. */
void hr_headline_make(struct hr_topo *t, const struct hr_class *c, struct hr_headline *h);
/* Headlines of the first n classes (fewer when there are not so many); the caller frees. NULL: out
 * of memory. */
struct hr_headline *hr_headlines_new(struct hr_topo *t, const struct hr_survey *s, uint32_t n);
/* "48 pairs share a switch: 48 DIRECT; 144 do not: 144 RC_LISTED"; text[512]; returns text. */
char *hr_headline_answer(const struct hr_survey *s, char *text);

/* A rule that was found beside those that decide: once, with the number of functions. */
struct hr_note {
	uint8_t rule;
	struct hr_finding found; /* the first place */
	struct hr_pair pair;	 /* on the way of which it was found */
	int32_t fn[16];
	unsigned fns; /* distinct functions; those beyond fn[] are not counted */
};
#define HR_NOTES_MAX 64u
/* Returns how many are in note[HR_NOTES_MAX], in order of the rules. */
unsigned hr_notes_find(const struct hr_topo *t, const struct hr_survey *s, struct hr_note *note);
/* The sentence of a note with the number of places, and its remedy ("" when there is none). */
void hr_note_text(const struct hr_topo *t, const struct hr_note *n, char *why, char *fix,
		  size_t capacity);

/*
 * The matrix, its equal rows and equal columns collapsed, in HR_TEXT_COLUMNS: cells are shortened
 * when they do not fit, then columns stand in several blocks. One that is not asked for is left out
 * when it is large. false: nothing was printed.
 */
bool hr_matrix_print(const struct hr_topo *t, const struct hr_survey *s, bool asked);
/* A verdict in a word that fits a cell: "REDIR", "RC?". */
const char *hr_matrix_word(enum hr_verdict verdict);
/* What its words mean. */
void hr_matrix_legend(const struct hr_topo *t, const struct hr_survey *s);
/* A verdict in at most 7 columns: "REDIR?". */
const char *hr_matrix_word(enum hr_verdict verdict);
/* Name of a row or a column: "NVME0-5"; returns text. */
char *hr_matrix_name(const struct hr_topo *t, const struct hr_survey *s, bool row, uint32_t at,
		     char *text, size_t capacity);

/*
 * Print text in lines of at most HR_TEXT_COLUMNS, broken at spaces: the first line stands behind
 * `used` columns that the caller has printed, others behind `indent` spaces. Ends in a newline.
 * A word longer than a line is not broken: it may be a command to copy.
 */
void hr_print_wrapped(FILE *out, unsigned used, unsigned indent, const char *text);

#endif
