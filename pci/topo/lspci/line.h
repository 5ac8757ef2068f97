/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/lspci/line.h - one line of lspci -v and the words in it. Private to
 * pci/topo/lspci/text.c and pci/topo/lspci/bars.c.
 */
#ifndef PCI_TOPO_LSPCI_LINE_H
#define PCI_TOPO_LSPCI_LINE_H

#include <stdlib.h>
#include <string.h>

#include "pci/topo/lspci/text.h"
#include "pci/topo/model.h"

enum section {
	SEC_NONE,
	SEC_EXP,
	SEC_PM,
	SEC_ACS,
	SEC_AER,
	SEC_ATS,
	SEC_DPC,
	SEC_REBAR,
	SEC_SRIOV,
	SEC_VF_REBAR,
	SEC_OTHER
};

struct line {
	struct hr_model *m;
	struct hr_fn *f;
	struct hr_lspci_state *state;
	const char *at; /* ends in NUL */
};

static inline void set(const struct line *l, enum hr_fact_id id, uint32_t value)
{
	hr_fn_set(l->f, id, value, HR_SRC_TEXT);
}

static inline const char *after(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	return at ? at + strlen(word) : NULL;
}

static inline bool starts(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* The number after a word; false: the word or the number is missing. */
static inline bool number(const char *text, const char *word, int base, uint64_t *value)
{
	const char *at = after(text, word);
	char *end;

	if (!at)
		return false;
	*value = strtoull(at, &end, base);
	return end != at;
}

static inline void set_number(const struct line *l, const char *word, int base, enum hr_fact_id id)
{
	uint64_t value;

	if (number(l->at, word, base, &value) && value <= UINT32_MAX)
		set(l, id, (uint32_t)value);
}

/* "Name+" sets the bit, "Name-" clears it; false: the name is missing. */
static inline bool flag(const char *text, const char *name, uint32_t bit, uint32_t *value)
{
	const char *at = after(text, name);

	if (!at || (*at != '+' && *at != '-'))
		return false;
	*value = *at == '+' ? *value | bit : *value & ~bit;
	return true;
}

struct flag_name {
	const char *name;
	uint32_t bit;
};

static inline void set_flags(const struct line *l, enum hr_fact_id id,
			     const struct flag_name *names)
{
	uint32_t value = hr_get(l->f, id, 0);
	bool any = false;

	for (; names->name; names++)
		any |= flag(l->at, names->name, names->bit, &value);
	if (any)
		set(l, id, value);
}

/* "Region n: ...", of the function, or below SR-IOV of its virtual functions. */
void hr_text_region(const struct line *l);
/* "Memory at ..." and "I/O ports at ..." of lspci -v, without numbers. */
void hr_text_memory(const struct line *l);
void hr_text_ports(const struct line *l);
/* "BAR n: current size: ...", below Physical or Virtual Resizable BAR. */
void hr_text_rebar(const struct line *l);
/* Any line below SR-IOV. */
void hr_text_sriov(const struct line *l);

#endif
