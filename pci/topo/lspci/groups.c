/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of IOMMU groups around lines of lspci. */
#include "pci/topo/lspci/text.h"

#include <string.h>

#include "pci/topo/model.h"
#include "config/base/text.h"

static size_t indentation(const char *line, size_t length)
{
	size_t n = 0;

	while (n < length && line[n] && strchr(" \t>|", line[n]))
		n++;
	return n;
}

/* The text after "IOMMU Group N" and a colon or blanks; NULL: another line. */
static char *after_group(char *line, uint32_t *group)
{
	static const char *const name[] = { "IOMMU Group ", "IOMMU group ", "Group:" };
	const char *end;
	uint64_t value;

	for (unsigned i = 0; i < sizeof name / sizeof *name; i++) {
		const char *at = line + strlen(name[i]);

		if (strncmp(line, name[i], strlen(name[i])) != 0 ||
		    !hr_number_parse(at + strspn(at, " \t"), 10, UINT32_MAX, &end, &value) ||
		    (*end && !strchr(": \t", *end)))
			continue;
		*group = (uint32_t)value;
		return line + (end - line) + strspn(end, ": \t");
	}
	return NULL;
}

/* A function below a heading belongs to it when its indentation is that of the first one. */
static void below_heading(struct hr_groups_seen *g, size_t indent)
{
	if (g->indent == 0)
		g->indent = indent + 1;
	if (indent + 1 != g->indent)
		*g = (struct hr_groups_seen){ 0 };
}

static void cut_driver(struct hr_groups_seen *g, char *line, size_t *length)
{
	char *at = strstr(line, " Driver: ");

	if (!at)
		return;
	g->driver = at + 9;
	while (at > line && at[-1] == ' ')
		at--;
	*at = '\0';
	*length = (size_t)(at - line);
}

char *hr_groups_line(struct hr_groups_seen *g, bool (*begins)(const char *line, size_t length),
		     char *line, size_t *length)
{
	const size_t indent = indentation(line, *length);
	bool function;
	char *rest;

	g->driver = NULL;
	if (!g->any && line[indent] != 'I' && line[indent] != 'G') /* nearly every line */
		return line;
	function = begins(line + indent, *length - indent);
	if (function && g->heading)
		below_heading(g, indent);
	else if (function || indent == *length)
		*g = (struct hr_groups_seen){ 0 };
	if (function)
		return line;
	rest = after_group(line + indent, &g->group);
	if (!rest)
		return line;
	g->any = true;
	g->heading = *rest == '\0' && line[indent] == 'I';
	g->indent = 0;
	if (!g->heading && !begins(rest, *length - (size_t)(rest - line))) {
		g->any = false; /* a sentence */
		return line;
	}
	*length -= (size_t)(rest - line);
	cut_driver(g, rest, length);
	return rest;
}

void hr_groups_set(const struct hr_groups_seen *g, struct hr_model *m, struct hr_fn *f)
{
	if (g->any)
		hr_fn_set(f, HR_F_GROUP, g->group, HR_SRC_TEXT);
	if (g->driver && *g->driver)
		f->driver = hr_model_word(m, g->driver, strlen(g->driver));
}
