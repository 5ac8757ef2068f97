/*
 * boot/cmd/topo/survey.h - all pairs of a machine in one pass: which of them are equal.
 *
 * Two pairs are equal when verdict, deciding rule, flows that the mode uses, kernel verdict,
 * distance and degradation are. Equal pairs form a class; a headline speaks of one class. A class
 * is a list of blocks: each GPU of a block with each SSD of it. Rows and columns of the matrix are
 * equal when all their cells read the same.
 *
 * A survey keeps counts and runs of indices, never the pairs themselves, so that its memory does
 * not grow with them. Bounds: what is beyond them is counted, and not listed.
 */
#ifndef BOOT_CMD_TOPO_SURVEY_H
#define BOOT_CMD_TOPO_SURVEY_H

#include "boot/cmd/topo/topo.h"

#define HR_CLASSES_MAX 256u /* kinds of pairs that are told apart */
#define HR_BLOCKS_MAX 16u   /* of a class that are kept */
#define HR_RUNS_MAX 16u	    /* of a set of indices that are kept */

/* Indices into the engine's list of GPUs or SSDs, as runs in rising order. */
struct hr_set {
	struct {
		uint32_t from, to; /* both included */
	} run[HR_RUNS_MAX];
	uint32_t runs;	/* of the set; those beyond HR_RUNS_MAX are not kept */
	uint32_t count; /* indices in the set */
};

struct hr_block {
	struct hr_set gpu, ssd;
	uint64_t hash; /* of the SSDs */
};

struct hr_class {
	struct hr_pair pair; /* the first one, with all that was found */
	uint64_t pairs;	     /* of the class */
	bool near;	     /* they share a switch */
	uint32_t blocks;     /* in block[] */
	bool cut;	     /* there are more */
	struct hr_block *block;
};

struct hr_survey {
	struct hr_topo_sum sum;
	uint64_t near[HR_VERDICTS],
		far[HR_VERDICTS];  /* pairs by verdict, with a switch and without */
	uint64_t cut[HR_VERDICTS]; /* pairs of which the capture does not show whether */
	uint64_t unlisted;	   /* pairs of kinds beyond HR_CLASSES_MAX */
	struct hr_class class[HR_CLASSES_MAX]; /* in the order in which headlines stand */
	uint32_t classes;
	uint32_t *column, *row;	   /* [gpus], [ssds]: column of a GPU, row of an SSD */
	uint32_t columns, rows;	   /* that differ */
	uint32_t *gpu_of, *ssd_of; /* [columns], [rows]: first index with it */
};

/* Judge all pairs that are wanted. NULL: out of memory. */
struct hr_survey *hr_survey_new(const struct hr_topo *t);
void hr_survey_free(struct hr_survey *s);

/* Index of the class that a judged pair belongs to, or HR_CLASSES_MAX: of none that is listed. */
uint32_t hr_survey_class(const struct hr_survey *s, const struct hr_topo *t,
			 const struct hr_pair *p);

/* What the matrix says of a pair: "PIX  BLOCKED(window)*". text[64]; returns text. */
char *hr_survey_cell(const struct hr_topo *t, const struct hr_pair *p, char *text);

/* "NVME0-5,12": the set as names, at most `capacity` bytes; what does not fit is "+N". */
char *hr_set_text(const char *prefix, const struct hr_set *set, char *text, size_t capacity);
/* Put index `at`, larger than all in the set, into it. */
void hr_set_add(struct hr_set *set, uint32_t at);

#endif
