/*
 * boot/cmd/topo/notes.h - findings beside the deciding rule, and line breaks.
 */
#ifndef BOOT_CMD_TOPO_NOTES_H
#define BOOT_CMD_TOPO_NOTES_H

#include "boot/cmd/topo/headline.h"

/* Returns how many are in note[HR_NOTES_MAX], in order of the rules. */
unsigned hr_notes_find(const struct hr_topo *t, const struct hr_survey *s, struct hr_note *note);

/* The sentence of a note with the number of places, and its remedy ("" when there is none). */
void hr_note_text(const struct hr_topo *t, const struct hr_note *n, char *why, char *fix,
		  size_t capacity);

/*
 * Print text in lines of at most HR_TEXT_COLUMNS, broken at spaces: the first line stands behind
 * `used` columns that the caller has printed, others behind `indent` spaces. Ends in a newline.
 * A word longer than a line is not broken: it may be a command to copy.
 */
void hr_print_wrapped(FILE *out, unsigned used, unsigned indent, const char *text);

#endif
