/* SPDX-License-Identifier: Apache-2.0 */
/* Findings other than the deciding rules, and line breaks. */
#include "boot/cmd/topo/headline.h"
#include "pci/topo/rules/explain.h"

#include <string.h>

#define NOTES_PAIRS 4096u /* pairs whose findings are examined */

static bool decides(const struct hr_survey *s, unsigned rule)
{
	for (uint32_t i = 0; i < s->classes; i++)
		if (s->class[i].pair.rule == rule)
			return true;
	return false;
}

/* Rules about the path of the data, which the headline describes. */
static bool is_about_flow(const struct hr_rule *r)
{
	return r->verdict != HR_VERDICTS &&
	       hr_verdict_order(r->verdict) <= hr_verdict_order(HR_REDIR_UNLISTED);
}

/* A redirecting port of a redirected pair; the headline contains the redirect and its remedy. */
static bool in_headline(const struct hr_rule *r, const struct hr_pair *p)
{
	return p->any_redirect && strcmp(r->id, "A1-port") == 0 &&
	       (p->verdict == HR_REDIR_LISTED || p->verdict == HR_REDIR_UNLISTED);
}

static void add_note(struct hr_note *note, unsigned *n, const struct hr_pair *p,
		     const struct hr_finding *f)
{
	struct hr_note *at = note;

	while (at < note + *n && at->rule != f->rule)
		at++;
	if (at == note + *n) {
		if (*n == HR_NOTES_MAX)
			return;
		++*n;
		*at = (struct hr_note){ .rule = f->rule, .found = *f, .pair = *p };
	}
	for (unsigned i = 0; i < at->fns; i++)
		if (at->fn[i] == f->fn)
			return;
	if (at->fns < sizeof at->fn / sizeof *at->fn)
		at->fn[at->fns++] = f->fn;
}

static void add_pair_notes(const struct hr_topo *t, const struct hr_survey *s,
			   const struct hr_pair *p, bool no_switch, struct hr_note *note,
			   unsigned *notes)
{
	struct hr_finding found[64];
	unsigned n = hr_findings(&t->topology, p, found, 64);

	for (unsigned i = 0; i < n && i < 64; i++) {
		const struct hr_rule *r = &hr_rules[found[i].rule];
		const bool of_pair = found[i].fn == HR_NO_FN && r->scope == HR_ON_PAIR;

		if (!found[i].flows || is_about_flow(r) || in_headline(r, p) ||
		    decides(s, found[i].rule) || (no_switch && of_pair))
			continue;
		add_note(note, notes, p, &found[i]);
	}
}

static void sort_notes(struct hr_note *note, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		for (unsigned j = i; j && note[j].rule < note[j - 1].rule; j--) {
			struct hr_note other = note[j];

			note[j] = note[j - 1];
			note[j - 1] = other;
		}
}

unsigned hr_notes_find(const struct hr_topo *t, const struct hr_survey *s, struct hr_note *note)
{
	const struct hr_topology *e = &t->topology;
	const bool any_same_switch = s->classes && s->class[0].same_switch;
	unsigned n = 0, pairs = 0;
	struct hr_pair p;

	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds && pairs < NOTES_PAIRS; j++, pairs++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			/*
			 * For pairs across switches that are not wanted: only faults of single
			 * cards and ports.
			 */
			add_pair_notes(t, s, &p, any_same_switch && p.common == HR_NO_FN && !t->all,
				       note, &n);
		}
	sort_notes(note, n);
	return n;
}

void hr_note_text(const struct hr_topo *t, const struct hr_note *n, char *why, char *fix,
		  size_t capacity)
{
	const struct hr_rule *r = &hr_rules[n->rule];
	const unsigned most = sizeof n->fn / sizeof *n->fn;
	size_t used;

	hr_rule_text(&t->topology, &n->pair, &n->found, r->why, why, capacity);
	used = strlen(why);
	if (n->fns > 1)
		snprintf(why + used, capacity - used, " (and the same at %u%s other function%s)",
			 n->fns - 1, n->fns == most ? " or more" : "", n->fns == 2 ? "" : "s");
	used = strlen(why);
	if (r->recalled)
		snprintf(why + used, capacity - used, " (not confirmed)");
	fix[0] = '\0';
	if (r->fix)
		hr_rule_text(&t->topology, &n->pair, &n->found, r->fix, fix, capacity);
}

/* Number of columns of UTF-8 text: bytes that begin a character. */
static unsigned columns(const char *text, size_t bytes)
{
	unsigned n = 0;

	for (size_t i = 0; i < bytes; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

void hr_print_wrapped(FILE *out, unsigned used, unsigned indent, const char *text)
{
	unsigned at = used;
	bool first = true;

	while (*text) {
		const size_t bytes = strcspn(text, " ");
		const unsigned width = columns(text, bytes);

		if (!first && at + 1 + width > HR_TEXT_COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
			first = true;
		}
		fprintf(out, "%s%.*s", first ? "" : " ", (int)bytes, text);
		at += width + !first;
		first = false;
		text += bytes + strspn(text + bytes, " ");
	}
	fputc('\n', out);
}
