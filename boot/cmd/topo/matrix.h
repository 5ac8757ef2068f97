/*
 * boot/cmd/topo/matrix.h - a matrix like that of nvidia-smi topo -m, with equal rows and columns
 * collapsed.
 */
#ifndef BOOT_CMD_TOPO_MATRIX_H
#define BOOT_CMD_TOPO_MATRIX_H

#include "boot/cmd/topo/headline.h"

#include "boot/cmd/topo/topo.h"

/* The matrix of all pairs on t->out. */
void hr_topo_matrix(const struct hr_topo *t);

/*
 * The matrix, its equal rows and equal columns collapsed, in HR_TEXT_COLUMNS: cells are shortened
 * when they do not fit, then columns stand in several blocks. One that is not asked for is left out
 * when it is large. false: nothing was printed.
 */
bool hr_matrix_print(const struct hr_topo *t, const struct hr_survey *s, bool asked);

/* What its words mean. */
void hr_matrix_legend(const struct hr_topo *t, const struct hr_survey *s);

/* A verdict in at most 7 columns: "REDIR?". */
const char *hr_matrix_word(enum hr_verdict verdict);

/* Name of a row or a column: "NVME0-5"; returns text. */
char *hr_matrix_name(const struct hr_topo *t, const struct hr_survey *s, bool row, uint32_t at,
		     char *text, size_t capacity);

#endif
