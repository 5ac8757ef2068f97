/* pci/topo/paste.h - lines of lspci as people paste them. */
#ifndef PCI_TOPO_PASTE_H
#define PCI_TOPO_PASTE_H

#include <stdbool.h>
#include <stddef.h>

#define HR_PASTE_PREFIX_MAX 31u

/* Starts zeroed. */
struct hr_paste {
	char prefix[HR_PASTE_PREFIX_MAX]; /* what quotes or indents every line */
	size_t length;
	bool plain; /* the first function stands at the start of its line: nothing is quoted */
};

/*
 * The line without what quotes or indents it, in place; *length is updated. The first line that
 * `begins` a function, once its prefix or tags are off, decides the prefix of the rest; until then
 * and without one, lines are as they are. The escapes &lt; &gt; &amp; are undone.
 */
char *hr_paste_line(struct hr_paste *p, bool (*begins)(const char *line, size_t length), char *line,
		    size_t *length);

/* Text that begins with a tag: of a web page or an issue, not of an XML topology. */
bool hr_paste_is_page(const char *head, size_t size);

#endif
