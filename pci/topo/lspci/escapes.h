/*
 * pci/topo/lspci/escapes.h - characters that the way of a text has changed: entities of HTML,
 * Markdown's backslashes, colours of a terminal, blanks of a web page, strings of JSON.
 */
#ifndef PCI_TOPO_LSPCI_ESCAPES_H
#define PCI_TOPO_LSPCI_ESCAPES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Decode the line in place and return its new length. An escaped escape (&amp;gt;) is decoded, too.
 * A blank that is not a space becomes one; marks without a width and colours are removed.
 */
size_t hr_escapes_clean(char *line, size_t length);

#define HR_ESCAPES_PREFIX 40u

/* Lines inside a string of JSON or Python, where "\n" is two characters; starts zeroed. */
struct hr_escapes_string {
	/* Before the string in the line where it began: lines of a log begin with it, too. */
	char prefix[HR_ESCAPES_PREFIX];
	char *at, *end; /* what is left of the line that holds the string */
	char quote;	/* the mark at its end */
	bool inside;	/* a newline precedes, in the same string */
};

/*
 * Begin with the string of a line that holds several lines of which one begins a function, or that
 * has the same text before its string as an earlier such line. False: another line, unchanged. The
 * line stays in use until hr_escapes_next() returns NULL.
 */
bool hr_escapes_begin(struct hr_escapes_string *s, bool (*begins)(const char *line, size_t length),
		      char *line, size_t length);

/*
 * The next line of the string, decoded in place; NULL: the end. Other strings of the same line
 * follow; those without a newline are left out.
 */
char *hr_escapes_next(struct hr_escapes_string *s, size_t *length);

/* Decode \t \" \\ and others of a line that is a string of its own, in place; the new length. */
size_t hr_escapes_decode(char *line, size_t length);

#endif
