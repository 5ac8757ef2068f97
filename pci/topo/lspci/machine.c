/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/lspci/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char hex[] = "0123456789abcdefABCDEF";

static void copy_cut(char *to, size_t capacity, const char *from, size_t length)
{
	snprintf(to, capacity, "%.*s", (int)(length < capacity ? length : capacity - 1), from);
}

/* Read a quoted field, in which a backslash precedes a quotation mark. NULL: not quoted. */
static const char *quoted(const char *at, char *to, size_t capacity)
{
	size_t n = 0;

	at += strspn(at, " \t");
	if (*at++ != '"')
		return NULL;
	for (; *at && *at != '"'; at++) {
		if (*at == '\\' && at[1])
			at++;
		if (n + 1 < capacity)
			to[n++] = *at;
	}
	to[n] = '\0';
	return *at ? at + 1 : at;
}

/* In a cell of CSV every quotation mark is doubled. */
static void undouble(char *to, size_t capacity, const char *from)
{
	size_t n = 0;

	for (; *from && n + 1 < capacity; from++) {
		to[n++] = *from;
		if (from[0] == '"' && from[1] == '"')
			from++;
	}
	to[n] = '\0';
}

bool hr_machine_fields(struct hr_machine *r, const char *text)
{
	char single[HR_MACHINE_TITLE];
	const char *at;

	/* No class is empty. */
	if (text[0] == '"' && text[1] == '"') {
		undouble(single, sizeof single, text);
		text = single;
	}
	at = quoted(text, r->class, sizeof r->class);
	if (!at)
		return false;
	at = quoted(at, r->vendor, sizeof r->vendor);
	if (at)
		at = quoted(at, r->device, sizeof r->device);
	at = at ? strstr(at, "-r") : NULL;
	if (at)
		copy_cut(r->revision, sizeof r->revision, at + 2, strspn(at + 2, hex));
	return true;
}

/* The value after "Key:" and blanks; NULL: another line. */
static const char *value_of_key(const char *line, const char *key)
{
	const size_t n = strlen(key);

	if (strncmp(line, key, n) != 0 || line[n] != ':')
		return NULL;
	line += n + 1;
	return line + strspn(line, " \t");
}

size_t hr_machine_slot(const char *line)
{
	const char *at;

	/* for speed: every line of a dump is asked */
	if (*line != 'S' && *line != 'D')
		return 0;
	at = value_of_key(line, "Slot");
	if (!at)
		at = value_of_key(line, "Device");
	/* a string in which escapes are not decoded yet */
	if (at && at[0] == '\\' && at[1] == 't')
		at += 2;
	return at && strchr(hex, *at) && *at ? (size_t)(at - line) : 0;
}

static void set_number(struct hr_fn *f, enum hr_fact_id id, const char *text, int base)
{
	char *end;
	unsigned long number = strtoul(text, &end, base);

	if (end != text && number <= UINT32_MAX)
		hr_fn_set(f, id, (uint32_t)number, HR_SRC_TEXT);
}

bool hr_machine_line(struct hr_machine *r, struct hr_model *m, struct hr_fn *f, const char *line)
{
	static const char *const unused[] = { "SVendor", "SDevice", "ProgIf", "Module", "DTNode" };
	const char *at;

	if ((at = value_of_key(line, "Class")))
		copy_cut(r->class, sizeof r->class, at, strlen(at));
	else if ((at = value_of_key(line, "Vendor")))
		copy_cut(r->vendor, sizeof r->vendor, at, strlen(at));
	else if ((at = value_of_key(line, "Device")))
		copy_cut(r->device, sizeof r->device, at, strlen(at));
	else if ((at = value_of_key(line, "Rev")))
		copy_cut(r->revision, sizeof r->revision, at, strspn(at, hex));
	else if ((at = value_of_key(line, "NUMANode")))
		set_number(f, HR_F_NUMA, at, 10);
	else if ((at = value_of_key(line, "IOMMUGroup")))
		set_number(f, HR_F_GROUP, at, 10);
	else if ((at = value_of_key(line, "Driver")))
		f->driver = hr_model_word(m, at, strlen(at));
	else if ((at = value_of_key(line, "PhySlot")))
		f->pci_slot = hr_model_word(m, at, strlen(at));
	for (unsigned i = 0; !at && i < sizeof unused / sizeof *unused; i++)
		at = value_of_key(line, unused[i]);
	return at != NULL;
}

/* "Name [1022]" or "1022": the four digits, and the length of the name. NULL: no number. */
static const char *number_in(const char *field, int *name)
{
	const size_t n = strlen(field);

	*name = (int)n;
	if (n == 4 && strspn(field, hex) == 4) {
		*name = 0;
		return field;
	}
	if (n < 6 || field[n - 6] != '[' || field[n - 1] != ']' || strspn(field + n - 5, hex) != 4)
		return NULL;
	*name = (int)n - 6;
	while (*name && field[*name - 1] == ' ')
		--*name;
	return field + n - 5;
}

char *hr_machine_title(const struct hr_machine *r, char *title)
{
	int vendor_name, device_name;
	const char *vendor = number_in(r->vendor, &vendor_name);
	const char *device = number_in(r->device, &device_name);
	const bool names = vendor_name || device_name;
	int n = snprintf(title, HR_MACHINE_TITLE, "%s:", r->class);

	if (names)
		n += snprintf(title + n, HR_MACHINE_TITLE - (size_t)n, " %.*s %.*s", vendor_name,
			      r->vendor, device_name, r->device);
	if (vendor && device)
		n += snprintf(title + n, HR_MACHINE_TITLE - (size_t)n,
			      names ? " [%.4s:%.4s]" : " %.4s:%.4s", vendor, device);
	if (r->revision[0])
		snprintf(title + n, HR_MACHINE_TITLE - (size_t)n, " (rev %s)", r->revision);
	return title;
}
