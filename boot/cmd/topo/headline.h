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

#endif
