/*
 * boot/cmd/topo/views/matrix.h - a matrix like that of nvidia-smi topo -m, with equal rows and columns
 * merged.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_MATRIX_H
#define BOOT_CMD_TOPO_VIEWS_MATRIX_H

#include "boot/cmd/topo/headline.h"

#include "boot/cmd/topo/topo.h"

/* Print the matrix of all pairs to t->out. */
void hr_topo_matrix(const struct hr_topo *t);

/*
 * Print the matrix in HR_TEXT_COLUMNS, with equal rows and equal columns merged. Cells are
 * shortened when they do not fit; then columns are printed in several sections, one below the
 * other. A large matrix is left out unless it is asked for. False: nothing was printed.
 */
bool hr_matrix_print(const struct hr_topo *t, const struct hr_survey *s, bool asked);

/* Print the meaning of its words. */
void hr_matrix_legend(const struct hr_topo *t, const struct hr_survey *s);

/* A verdict in at most 7 columns: "REDIR?". */
const char *hr_matrix_word(enum hr_verdict verdict);

/* Name of a row or a column: "NVME0-5"; returns text. */
char *hr_matrix_name(const struct hr_topo *t, const struct hr_survey *s, bool row, uint32_t at,
		     char *text, size_t capacity);

#endif
