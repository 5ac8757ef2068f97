/*
 * boot/cmd/topo/notes.h - findings other than the deciding rules, and line breaks.
 */
#ifndef BOOT_CMD_TOPO_NOTES_H
#define BOOT_CMD_TOPO_NOTES_H

#include "boot/cmd/topo/headline.h"

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
