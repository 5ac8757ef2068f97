/*
 * pci/topo/paste.h - lines of lspci in pasted text.
 */
#ifndef PCI_TOPO_PASTE_H
#define PCI_TOPO_PASTE_H

#include <stdbool.h>
#include <stddef.h>

#define HR_PASTE_PREFIX_MAX 31u

/* Starts zeroed. */
struct hr_paste {
	char prefix[HR_PASTE_PREFIX_MAX]; /* the quotation mark or indentation of every line */
	size_t length;
	bool plain; /* the first function is at the start of its line, so nothing is quoted */
};

/*
 * Remove quotation or indentation from the line, in place; *length is updated. The first line that
 * `begins` a function after its prefix or tags determines the prefix of the following lines. Before
 * such a line, lines are unchanged. The escapes &lt; &gt; &amp; are decoded.
 */
char *hr_paste_line(struct hr_paste *p, bool (*begins)(const char *line, size_t length), char *line,
		    size_t *length);

/* True for text that begins with a tag of a web page or issue, not of an XML topology. */
bool hr_paste_is_html(const char *head, size_t size);

#endif
