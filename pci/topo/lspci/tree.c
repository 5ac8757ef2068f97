/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lspci -t and -tv (pciutils, ls-tree.c). The column where a branch begins identifies the branch.
 *
 *   -[0000:00]-+-00.0  Host
 *              \-01.0-[01-02]--+-00.0  Card
 *                              \-00.1  Its second function
 */
#include "pci/topo/lspci/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read `least` to `most` hexadecimal digits at *at; false: fewer or more digits. */
static bool parse_hex_digits(const char **at, unsigned least, unsigned most, uint32_t *value)
{
	unsigned n = 0;

	for (*value = 0; n <= most; n++) {
		char c = (*at)[n];

		if (c >= '0' && c <= '9')
			*value = *value << 4 | (uint32_t)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			*value = *value << 4 | (uint32_t)((c | 32) - 'a' + 10);
		else
			break;
	}
	if (n < least || n > most)
		return false;
	*at += n;
	return true;
}

/* "[0000:80]", "[81]" or "[82-85]"; a bus without domain keeps the last domain. */
static bool label(const char **at, struct hr_lspci_tree_bus *bus, uint32_t *last)
{
	const char *p = *at + 1;
	uint32_t number;

	if (!parse_hex_digits(&p, 2, 6, &number))
		return false;
	if (*p == ':') {
		bus->domain = number;
		p++;
		if (!parse_hex_digits(&p, 2, 2, &number))
			return false;
	}
	if (number > 0xff)
		return false;
	bus->bus = *last = number;
	if (*p == '-') {
		p++;
		if (!parse_hex_digits(&p, 2, 2, last))
			return false;
	}
	bus->root = false;
	*at = p + 1;
	return *p == ']';
}

static int contradicts(const struct hr_lspci_tree *t, struct hr_model *m, const struct hr_fn *f)
{
	char bdf[HR_BDF_MAX];

	return hr_fail(&m->error, HR_ERROR_USAGE, -EINVAL,
		       "line %u: a second capture begins here and contradicts the first: %s "
		       "secondary is different; keep one of them",
		       t->line, hr_bdf(f, bdf));
}

static int add_tree_bridge(const struct hr_lspci_tree *t, struct hr_model *m, struct hr_fn *f,
			   const struct hr_lspci_tree_bus *below, uint32_t last)
{
	if (f->fact[HR_F_SECONDARY].source >= HR_SRC_TEXT &&
	    f->fact[HR_F_SECONDARY].value != below->bus)
		return contradicts(t, m, f);
	hr_fn_set(f, HR_F_HEADER, 1, HR_SRC_TEXT);
	hr_fn_set(f, HR_F_CLASS, 0x060400, HR_SRC_INFERRED);
	hr_fn_set(f, HR_F_PRIMARY, f->bus, HR_SRC_TEXT);
	hr_fn_set(f, HR_F_SECONDARY, below->bus, HR_SRC_TEXT);
	hr_fn_set(f, HR_F_SUBORDINATE, last, HR_SRC_TEXT);
	return 0;
}

/* "1c.0" */
static bool slot(const char **at, uint32_t *dev, uint32_t *fn)
{
	if (!parse_hex_digits(at, 2, 2, dev) || **at != '.')
		return false;
	++*at;
	return parse_hex_digits(at, 1, 1, fn);
}

static struct hr_fn *add_tree_function(struct hr_model *m, const char **at,
				       const struct hr_lspci_tree_bus *bus, unsigned line)
{
	uint32_t dev, fn;
	struct hr_fn *f;

	if (bus->root || !slot(at, &dev, &fn))
		return NULL;
	f = hr_model_add(m, bus->domain, bus->bus, dev, fn);
	if (f && !f->line)
		f->line = line;
	return f;
}

/* Read a line from a branch on: functions, and the buses below them. */
static int branch(struct hr_lspci_tree *t, struct hr_model *m, const char *line, const char *at,
		  struct hr_lspci_tree_bus bus, unsigned number)
{
	struct hr_fn *f = NULL;
	uint32_t last;
	int err;

	for (;;) {
		for (; *at == '-' || *at == '+' || *at == '\\' || *at == '`'; at++)
			if (*at == '+' && (size_t)(at - line) < HR_TREE_COLUMNS) {
				t->column[at - line] = bus;
				t->used[at - line] = true;
			}
		if (*at == '[') {
			if (!label(&at, &bus, &last))
				return 0;
			bus.lost = false;
			err = f ? add_tree_bridge(t, m, f, &bus, last) : 0;
			if (err)
				return err;
			f = NULL;
			continue;
		}
		if (bus.lost)
			return 0;
		if (f || !(f = add_tree_function(m, &at, &bus, number)))
			return 0;
		if (*at != ' ')
			continue;
		while (*at == ' ')
			at++;
		hr_lspci_tree_title(m, f, at, strlen(at));
		return 0;
	}
}

/*
 * Lines that grep leaves of a tree: a root bus, or a bridge of an unknown bus and the bus below it,
 * "+-[0000:80]-+-00.0-[81]--+-00.0  Card" or "|  +-01.1-[01]--+-00.0  Card". The text at the branch
 * or at the bus; NULL: another line.
 */
static const char *remnant(const char *line, struct hr_lspci_tree_bus *bus)
{
	const char *at = line + strspn(line, " |");
	struct hr_lspci_tree_bus below = { .domain = 0 };
	uint32_t dev, fn, last;

	if (!*at || !strchr("+\\`", *at) || at[1] != '-')
		return NULL;
	*bus = (struct hr_lspci_tree_bus){ .root = at[2] == '[', .lost = at[2] != '[' };
	at += 2;
	if (bus->root)
		return label(&(const char *){ at }, &below, &last) ? at - 2 : NULL;
	if (!slot(&at, &dev, &fn) || strncmp(at, "-[", 2) != 0)
		return NULL;
	return label(&(const char *){ at + 1 }, &below, &last) ? at : NULL;
}

bool hr_lspci_tree_begins(const char *line)
{
	return strncmp(line, "-[", 2) == 0 || strncmp(line, "-+-[", 4) == 0;
}

/* column[] keeps values that used[] makes void: a file may begin many trees. */
static void restart(struct hr_lspci_tree *t, unsigned line)
{
	t->line = line;
	memset(t->used, 0, sizeof t->used);
}

int hr_lspci_tree_line(struct hr_lspci_tree *t, struct hr_model *m, const char *line,
		       unsigned number)
{
	struct hr_lspci_tree_bus bus;
	const char *at = line, *rest;
	int err;

	if (hr_lspci_tree_begins(line)) {
		restart(t, number);
		err = branch(t, m, line, line, (struct hr_lspci_tree_bus){ .root = true }, number);
		t->on = true;
		return err ? err : 1;
	}
	while (*at == ' ' || *at == '|')
		at++;
	t->on = t->on && (*at == '+' || *at == '\\' || *at == '`') &&
		(size_t)(at - line) < HR_TREE_COLUMNS && t->used[at - line];
	if (t->on) {
		err = branch(t, m, line, at, t->column[at - line], number);
		return err ? err : 1;
	}
	rest = remnant(line, &bus);
	if (!rest)
		return 0;
	restart(t, number);
	t->on = true;
	err = branch(t, m, line, rest, bus, number);
	return err ? err : 1;
}
