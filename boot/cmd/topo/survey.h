/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/survey.h - evaluates all pairs of a machine in one pass and groups equal pairs.
 *
 * Two pairs are equal when verdict, deciding rule, flows that the mode uses, kernel verdict,
 * distance and degradation are equal. Equal pairs form a class; each class has a headline. A class
 * is a list of rectangles; a rectangle means each of its GPUs with each of its SSDs. Rows and
 * columns of the matrix are equal when all their cells have the same text.
 *
 * A survey keeps counts and ranges of indices, not pairs, so its memory does not grow with the
 * number of pairs. Elements beyond the limits below are counted and not listed.
 */
#ifndef BOOT_CMD_TOPO_SURVEY_H
#define BOOT_CMD_TOPO_SURVEY_H

#include "boot/cmd/topo/topo.h"

#define HR_CLASSES_MAX 256u   /* distinct kinds of pairs */
#define HR_RECTANGLES_MAX 16u /* rectangles stored per class */
#define HR_RANGES_MAX 16u     /* ranges stored per set of indices */

/* Indices into the topology's list of GPUs or SSDs, as ascending ranges. */
struct hr_set {
	struct {
		uint32_t from, to; /* both included */
	} range[HR_RANGES_MAX];
	uint32_t ranges; /* ranges of the set; those beyond HR_RANGES_MAX are not stored */
	uint32_t count;	 /* indices in the set */
};

struct hr_rectangle {
	struct hr_set gpu, ssd;
	uint64_t hash; /* of the SSDs */
};

struct hr_class {
	struct hr_pair pair; /* the first pair, with its findings */
	uint64_t pairs;	     /* pairs in the class */
	bool same_switch;    /* the pairs share a switch */
	uint32_t rectangles; /* stored in rectangle[] */
	bool cut;	     /* there are more rectangles */
	struct hr_rectangle *rectangle;
};

struct hr_survey {
	struct hr_topo_sum sum;
	uint64_t with_switch[HR_VERDICTS],
		without_switch[HR_VERDICTS];   /* pairs by verdict, with a switch and without */
	uint64_t cut[HR_VERDICTS];	       /* pairs whose bridges the capture lacks */
	uint64_t guest[HR_VERDICTS];	       /* pairs whose bridges are emulated */
	uint64_t unlisted;		       /* pairs of classes beyond HR_CLASSES_MAX */
	struct hr_class class[HR_CLASSES_MAX]; /* in the order of the headlines */
	uint32_t classes;
	uint32_t *column, *row;	   /* [gpus], [ssds]: column of a GPU, row of an SSD */
	uint32_t columns, rows;	   /* different columns and rows */
	uint32_t *gpu_of, *ssd_of; /* [columns], [rows]: first GPU or SSD with it */
};

/* Evaluate all wanted pairs. NULL: out of memory. */
struct hr_survey *hr_survey_new(const struct hr_topo *t);
void hr_survey_free(struct hr_survey *s);

/* Index of an evaluated pair's class; HR_CLASSES_MAX: its class is not listed. */
uint32_t hr_survey_class(const struct hr_survey *s, const struct hr_topo *t,
			 const struct hr_pair *p);

/* Text of a matrix cell: "PIX  BLOCKED(window)*". text[64]; returns text. */
char *hr_survey_cell(const struct hr_topo *t, const struct hr_pair *p, char *text);

/* Write the set as names, "NVME0-5,12", in at most `capacity` bytes; the rest becomes "+N". */
char *hr_set_text(const char *prefix, const struct hr_set *set, char *text, size_t capacity);
/* Add index `at`, which is larger than all indices of the set. */
void hr_set_add(struct hr_set *set, uint32_t at);

/* GPUs and network cards; counts no further than one more than are shown without --peers. */
uint32_t hr_topo_cards(const struct hr_topo *t);

/* True when the list of functions has that index. */
bool hr_topo_lists(const int32_t *list, uint32_t count, int32_t index);

/*
 * True when the machine has no NVMe controller, and two GPUs or a GPU and a network card; false when
 * they are too many to be shown without --peers.
 */
bool hr_topo_has_other_pairs(const struct hr_topo *t);

#endif
