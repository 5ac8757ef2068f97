/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix in the style of nvidia-smi topo -m: a row per set of equal SSDs, a column per set of
 * equal GPUs.
 */
#include "boot/cmd/topo/views/views.h"

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/headline.h"

#include <string.h>

#define GAP 2u
#define NAME_BYTES 20u
#define ROWS_MAX 32u  /* limit without --format matrix */
#define BLOCKS_MAX 2u /* sections of columns, one below the other; limit without --format matrix */

/* Forms of a cell, from long to short. The first form in which all columns fit is used. */
enum form { FULL, SHORT, VERDICT, FORMS };

const char *hr_matrix_word(enum hr_verdict verdict)
{
	static const char *const word[] = {
		[HR_DIRECT] = "DIRECT",		[HR_RC_LISTED] = "RC",
		[HR_REDIR_LISTED] = "REDIR",	[HR_RC_UNLISTED] = "RC?",
		[HR_REDIR_UNLISTED] = "REDIR?", [HR_WRITES_ONLY] = "WRITES",
		[HR_UNKNOWN] = "UNKNOWN",	[HR_VFIO_CONFLICT] = "VFIO",
		[HR_BLOCKED] = "BLOCKED",	[HR_SILENT_LOSS] = "LOSS"
	};

	return word[verdict];
}

static const char *cell(const struct hr_topo *t, const struct hr_pair *p, enum form form,
			char *text)
{
	const char *star = p->modifiers & HR_MOD_DEGRADED ? "*" : "";

	if (!hr_topo_wants(t, p))
		snprintf(text, 64, "-");
	else if (form == FULL)
		hr_survey_cell(t, p, text);
	else if (form == SHORT)
		snprintf(text, 64, "%-4s %s%s", hr_distance_word(&t->topology, p),
			 hr_matrix_word(p->verdict), star);
	else
		snprintf(text, 64, "%s%s", hr_matrix_word(p->verdict), star);
	return text;
}

struct matrix {
	const struct hr_topo *t;
	const struct hr_survey *s;
	enum form form;
	unsigned cell, name; /* columns of text */
	uint32_t side_by_side;
};

char *hr_matrix_name(const struct hr_topo *t, const struct hr_survey *s, bool row, uint32_t at,
		     char *text, size_t capacity)
{
	const uint32_t *of = row ? s->row : s->column;
	const uint32_t n = row ? t->topology.ssds : t->topology.gpus;
	struct hr_set set = { .count = 0 };

	for (uint32_t i = 0; i < n; i++)
		if (of[i] == at)
			hr_set_add(&set, i);
	return hr_set_text(row ? "NVME" : "GPU", &set, text, capacity);
}

static void evaluate(const struct matrix *x, uint32_t column, uint32_t row, struct hr_pair *p)
{
	const struct hr_topology *e = &x->t->topology;

	hr_pair_evaluate(e, e->gpu[x->s->gpu_of[column]], e->ssd[x->s->ssd_of[row]], p);
}

/* Width of the widest cell and name in a form. */
static void measure_matrix(struct matrix *x, enum form form)
{
	char text[64];
	struct hr_pair p;

	x->form = form;
	x->cell = x->name = 0;
	for (uint32_t i = 0; i < x->s->columns; i++) {
		size_t n = strlen(hr_matrix_name(x->t, x->s, false, i, text, NAME_BYTES));

		x->cell = n > x->cell ? (unsigned)n : x->cell;
		for (uint32_t j = 0; j < x->s->rows; j++) {
			evaluate(x, i, j, &p);
			n = strlen(cell(x->t, &p, form, text));
			x->cell = n > x->cell ? (unsigned)n : x->cell;
		}
	}
	for (uint32_t j = 0; j < x->s->rows; j++) {
		size_t n = strlen(hr_matrix_name(x->t, x->s, true, j, text, NAME_BYTES));

		x->name = n > x->name ? (unsigned)n : x->name;
	}
	x->side_by_side = (HR_TEXT_COLUMNS - x->name) / (x->cell + GAP);
}

static void print_columns(const struct matrix *x, uint32_t from, uint32_t to)
{
	char text[64];
	struct hr_pair p;

	fprintf(x->t->out, "%-*s", (int)x->name, "");
	for (uint32_t i = from; i < to; i++) {
		hr_matrix_name(x->t, x->s, false, i, text, NAME_BYTES);
		fprintf(x->t->out, "%*s%-*s", (int)GAP, "", i + 1 < to ? (int)x->cell : 0, text);
	}
	fputc('\n', x->t->out);
	for (uint32_t j = 0; j < x->s->rows; j++) {
		hr_matrix_name(x->t, x->s, true, j, text, NAME_BYTES);
		fprintf(x->t->out, "%-*s", (int)x->name, text);
		for (uint32_t i = from; i < to; i++) {
			int pad;

			evaluate(x, i, j, &p);
			cell(x->t, &p, x->form, text);
			pad = i + 1 < to ? (int)x->cell - (int)strlen(text) : 0;
			fprintf(x->t->out, "%*s%s%s%s%*s", (int)GAP, "",
				hr_topo_wants(x->t, &p) ? hr_topo_colour(x->t, p.verdict) : "",
				text, hr_topo_reset(x->t), pad, "");
		}
		fputc('\n', x->t->out);
	}
}

static bool choose_matrix_form(struct matrix *x)
{
	for (unsigned form = FULL; form < FORMS; form++) {
		measure_matrix(x, (enum form)form);
		if (x->side_by_side >= x->s->columns)
			return true;
	}
	return false;
}

bool hr_matrix_print(const struct hr_topo *t, const struct hr_survey *s, bool asked)
{
	struct matrix x = { .t = t, .s = s };

	if (s->sum.pairs == 0)
		return false;
	/* Measuring reads every cell, so a large matrix is not measured unless asked for. */
	if (!asked && (s->rows > ROWS_MAX || s->columns > ROWS_MAX)) {
		fprintf(t->out,
			"\nmatrix of %u rows and %u columns that differ: --format matrix prints "
			"it\n",
			s->rows, s->columns);
		return false;
	}
	choose_matrix_form(&x);
	if (!asked && x.side_by_side * BLOCKS_MAX < s->columns)
		return false;
	for (uint32_t from = 0; from < s->columns; from += x.side_by_side) {
		fputc('\n', t->out);
		print_columns(&x, from,
			      from + x.side_by_side < s->columns ? from + x.side_by_side
								 : s->columns);
	}
	return true;
}

/* Print the words of the legend that occur in this machine. */
static void print_distances(const struct hr_topo *t, const struct hr_survey *s)
{
	static const struct {
		const char *word, *meaning;
	} row[] = { { "PIX", "one switch" },	  { "PXB", "several switches" },
		    { "PHB", "one host bridge" }, { "NODE", "one NUMA node" },
		    { "SYS", "across sockets" },  { "?", "not known" } };
	bool any = false;

	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		bool used = false;

		for (uint32_t c = 0; c < s->classes && !used; c++)
			used = strcmp(hr_distance_word(&t->topology, &s->class[c].pair),
				      row[i].word) == 0;
		if (!used)
			continue;
		fprintf(t->out, "%s%s %s", any ? ", " : "", row[i].word, row[i].meaning);
		any = true;
	}
}

void hr_matrix_legend(const struct hr_topo *t, const struct hr_survey *s)
{
	struct matrix x = { .t = t, .s = s };

	if (s->sum.pairs == 0)
		return;
	print_distances(t, s);
	fprintf(t->out, "%s%s\n", s->sum.degraded ? "; * degraded" : "",
		t->same_switch_only ? "; - not wanted" : "");
	if (s->rows > ROWS_MAX || s->columns > ROWS_MAX ||
	    (choose_matrix_form(&x) && x.form == FULL))
		return;
	fputs("RC through the root complex, REDIR the same because of ACS or the IOMMU; ? the "
	      "kernel does\nnot trust it with peers\n",
	      t->out);
}

void hr_topo_matrix(const struct hr_topo *t)
{
	struct hr_survey *s = hr_survey_new(t);

	if (!s) {
		fputs("headrace: error: out of memory\n", stderr);
		return;
	}
	if (hr_matrix_print(t, s, true)) {
		fputc('\n', t->out);
		hr_matrix_legend(t, s);
	}
	hr_survey_free(s);
}
