/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default output: first the answer in sentences; then the matrix, other findings, the functions
 * behind the names, and the meaning of abbreviations.
 */
#include "boot/cmd/topo/views/views.h"

#include "boot/cmd/topo/common.h"
#include "pci/topo/disk.h"
#include "boot/cmd/topo/headline.h"
#include "pci/topo/rules/explain.h"
#include "pci/topo/lspci/text.h"

#include <stdlib.h>
#include <string.h>

#define HINT_LINES 2u /* at the end of the output */
#define LINES_MAX 60u /* lines of the whole output, unless it cannot be shortened */

/* Limits of each part. The first row that fits into LINES_MAX is used. */
struct detail {
	unsigned headlines, notes, names; /* upper limits */
	bool by_row;			  /* names are listed by rows of the matrix */
	bool matrix;
};

static const struct detail details[] = {
	{ 8, 8, 32, true, true }, { 8, 6, 16, false, true }, { 6, 4, 10, false, true },
	{ 4, 3, 8, false, true }, { 2, 2, 4, false, true },  { 3, 2, 6, false, false },
};
static const struct detail everything = { ~0u, ~0u, ~0u, true, true };

static void print_head(const struct hr_topo *t)
{
	const struct hr_model *m = &t->model;
	const char *reason = hr_topo_iommu_reason(&t->topology);
	char version[32] = "the newest kernel", text[768];

	if (t->opt.kernel)
		snprintf(version, sizeof version, "kernel %u.%u", t->opt.kernel >> 16,
			 t->opt.kernel & 0xffff);
	snprintf(text, sizeof text,
		 "%s: %u function%s, %u root bus%s; IOMMU %s%s%s%s; kernel %s; rules of %s",
		 m->input, m->count, m->count == 1 ? "" : "s", m->root_buses,
		 m->root_buses == 1 ? "" : "es", hr_topo_iommu_word(&t->topology),
		 *reason ? " (" : "", reason, *reason ? ")" : "",
		 m->sys.kernel[0] ? m->sys.kernel : "unknown", version);
	hr_print_wrapped(t->out, 0, 2, text);
	if (hr_skipped_text(m, text, sizeof text))
		hr_print_wrapped(t->out, 0, 2, text);
	for (uint32_t i = 0; i < m->warnings && i < HR_WARNINGS_KEPT; i++) {
		fputs("warning: ", t->out);
		hr_print_wrapped(t->out, 9, 9, m->warning[i]);
	}
	if (m->warnings > HR_WARNINGS_KEPT)
		fprintf(t->out, "warning: and %u more contradictions\n",
			m->warnings - HR_WARNINGS_KEPT);
}

static bool same_card(const struct hr_fn *a, const struct hr_fn *b)
{
	return strcmp(a->name, b->name) == 0 && a->vf == b->vf && a->physfn == b->physfn &&
	       hr_get(a, HR_F_VENDOR, ~0u) == hr_get(b, HR_F_VENDOR, ~0u) &&
	       hr_get(a, HR_F_DEVICE, ~0u) == hr_get(b, HR_F_DEVICE, ~0u) &&
	       strcmp(a->driver ? a->driver : "", b->driver ? b->driver : "") == 0;
}

/* Print the addresses of list[from..to-1] after their name; returns the number of lines. */
static unsigned print_addresses(const struct hr_topo *t, const int32_t *list, uint32_t from,
				uint32_t to, const char *prefix)
{
	char name[32], bdf[HR_BDF_MAX];
	unsigned at, lines = 1;

	if (to == from + 1)
		snprintf(name, sizeof name, "%s%u", prefix, from);
	else
		snprintf(name, sizeof name, "%s%u-%u", prefix, from, to - 1);
	at = (unsigned)fprintf(t->out, "    %-9s", name);
	for (uint32_t j = from; j < to; j++) {
		hr_bdf(&t->model.fn[list[j]], bdf);
		if (at + 1 + strlen(bdf) > HR_TEXT_COLUMNS) {
			at = (unsigned)fprintf(t->out, "\n%13s", "") - 1;
			lines++;
		}
		at += (unsigned)fprintf(t->out, " %s", bdf);
	}
	fputc('\n', t->out);
	return lines;
}

static void print_title(const struct hr_topo *t, const struct hr_fn *f)
{
	char text[512], what[256];

	snprintf(text, sizeof text, "%s%s%s", hr_topo_describe(t, f, what, sizeof what),
		 f->driver && f->driver[0] ? ", driver " : "", f->driver ? f->driver : "");
	fputs("  ", t->out);
	hr_print_wrapped(t->out, 2, 4, text);
}

/* Print a function with its disk. Returns the number of lines, a long text as one. */
static unsigned print_disk(const struct hr_topo *t, const struct hr_fn *f, uint32_t number,
			   const char *prefix)
{
	char name[32], bdf[HR_BDF_MAX], text[480], disk[400];

	snprintf(name, sizeof name, "%s%u", prefix, number);
	snprintf(text, sizeof text, "%s %s", hr_bdf(f, bdf),
		 hr_disk_text(f->disk, true, disk, sizeof disk));
	fprintf(t->out, "    %-9s ", name);
	hr_print_wrapped(t->out, 14, 16, text);
	return 1;
}

/* Print the functions behind the names. Similar functions with consecutive numbers share a line. */
static void print_names(const struct hr_topo *t, const int32_t *list, uint32_t count,
			const uint32_t *row, const char *prefix, const struct detail *d)
{
	const struct hr_fn *above = NULL, *f;
	unsigned lines = 0;
	uint32_t i, to;

	for (i = 0; i < count && lines < d->names; i = to) {
		f = &t->model.fn[list[i]];
		for (to = i + 1; to < count && same_card(f, &t->model.fn[list[to]]); to++)
			if (f->disk || t->model.fn[list[to]].disk ||
			    (d->by_row && row[to] != row[i]) ||
			    (to - i >= 6 * (d->names - lines) && d->names != ~0u))
				break;
		if (!above || !same_card(above, f)) {
			print_title(t, f);
			lines++;
		}
		above = f;
		lines += f->disk ? print_disk(t, f, i, prefix)
				 : print_addresses(t, list, i, to, prefix);
	}
	if (i < count)
		fprintf(t->out, "    ... and %u more (--all)\n", count - i);
}

/* Headlines of pairs without a common switch have no remedy, unless no pair shares a switch. */
static void print_headline(const struct hr_topo *t, const struct hr_class *c,
			   const struct hr_headline *h, bool remedy)
{
	char text[1024];

	snprintf(text, sizeof text, "%s (%llu pair%s):", h->members, (unsigned long long)c->pairs,
		 c->pairs == 1 ? "" : "s");
	hr_print_wrapped(t->out, 0, 2, text);
	snprintf(text, sizeof text, "%s%s%s", h->what, h->rate[0] ? "; " : "", h->rate);
	fputs("  ", t->out);
	hr_print_wrapped(t->out, 2, 4, text);
	fprintf(t->out, "  %s", hr_topo_colour(t, c->pair.verdict));
	snprintf(text, sizeof text, "%s%s", h->terms, hr_topo_reset(t));
	hr_print_wrapped(t->out, 2, 4, text);
	if (!remedy || !h->remedy[0])
		return;
	fputs("  -> ", t->out);
	hr_print_wrapped(t->out, 5, 5, h->remedy);
}

static void print_headlines(const struct hr_topo *t, const struct hr_survey *s,
			    const struct hr_headline *h, const struct detail *d)
{
	const bool any_same_switch = s->classes && s->class[0].same_switch;
	uint64_t told = 0;

	for (uint32_t i = 0; i < s->classes && i < d->headlines; i++) {
		const struct hr_class *c = &s->class[i];

		fputc('\n', t->out);
		print_headline(t, c, &h[i], t->all || c->same_switch || !any_same_switch);
		told += c->pairs;
	}
	if (told < s->sum.pairs)
		fprintf(t->out, "\n... and %llu pairs of other kinds (%s)\n",
			(unsigned long long)(s->sum.pairs - told), t->all ? "--json" : "--all");
}

static void print_notes(const struct hr_topo *t, const struct hr_note *note, unsigned n,
			const struct detail *d)
{
	char why[640], fix[640];

	if (n)
		fputs("\nalso found:\n", t->out);
	for (unsigned i = 0; i < n && i < d->notes; i++) {
		hr_note_text(t, &note[i], why, fix, sizeof why);
		fprintf(t->out, "  %-10s ", hr_rules[note[i].rule].id);
		hr_print_wrapped(t->out, 13, 13, why);
		if (!fix[0])
			continue;
		fprintf(t->out, "%13s-> ", "");
		hr_print_wrapped(t->out, 16, 16, fix);
	}
	if (n > d->notes)
		fprintf(t->out, "  ... and %u more (--all)\n", n - d->notes);
}

static void print_pair(const struct hr_topo *t, const struct hr_pair *p)
{
	char gpu[16], ssd[16], text[48], flow[48], modifiers[HR_MODIFIERS_TEXT];

	fprintf(t->out, "%s to %s: %s%s%s (rule %s)", hr_topo_name(t, p->gpu, gpu),
		hr_topo_name(t, p->ssd, ssd), hr_topo_colour(t, p->verdict),
		hr_verdict_text(p->verdict, p->rule, text), hr_topo_reset(t), hr_rules[p->rule].id);
	fprintf(t->out, "; kernel %s, distance ", hr_kernel_text(p->kernel));
	if (p->cut)
		fputs("unknown;", t->out);
	else
		fprintf(t->out, "%u;", p->distance);
	for (unsigned f = 0; f < HR_FLOWS; f++)
		fprintf(t->out, " F%u %s", f + 1,
			hr_verdict_text(p->flow[f], p->flow_rule[f], flow));
	if (p->modifiers)
		fprintf(t->out, "; %s", hr_topo_modifiers(p->modifiers, modifiers));
	fputc('\n', t->out);
}

static void list_pairs(const struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;
	struct hr_pair p;

	fputc('\n', t->out);
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds; j++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			if (hr_topo_wants(t, &p))
				print_pair(t, &p);
		}
}

static void print_rule(const struct hr_topo *t, const struct hr_rule *r, const struct hr_pair *p,
		       const struct hr_finding *f)
{
	char text[640];

	fprintf(t->out, "%-9s ", r->id);
	hr_print_wrapped(t->out, 10, 10,
			 hr_rule_text(&t->topology, p, f, r->why, text, sizeof text));
	if (!r->fix)
		return;
	fputs("          -> ", t->out);
	hr_print_wrapped(t->out, 13, 13,
			 hr_rule_text(&t->topology, p, f, r->fix, text, sizeof text));
}

static void print_machine(const struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;
	struct hr_finding found = { .fn = HR_NO_FN, .flows = HR_FLOW_ALL };

	for (uint32_t i = 0; i < e->machine_rules; i++) {
		const struct hr_rule *r = &hr_rules[e->machine_rule[i]];

		if (!hr_hit(&e->machine, e->machine_rule[i]))
			continue;
		print_rule(t, r, NULL, &found);
	}
}

/* Mark the cards and the ports above them, which a pair with one of these cards would use. */
static bool *mark_used(struct hr_topo *t)
{
	struct hr_topology *e = &t->topology;
	bool *used = hr_model_alloc(&t->model, t->model.count + 1);

	for (uint32_t i = 0; used && i < e->gpus; i++)
		for (int32_t at = e->gpu[i]; at != HR_NO_FN; at = t->model.fn[at].parent)
			used[at] = true;
	for (uint32_t i = 0; used && i < e->ssds; i++)
		for (int32_t at = e->ssd[i]; at != HR_NO_FN; at = t->model.fn[at].parent)
			used[at] = true;
	return used;
}

/*
 * For a port: only rules that hold for any pair. Redirect matters only for two cards of one switch.
 */
static bool is_loose(const struct hr_fn *f, const struct hr_rule *r)
{
	if (r->where != HR_ANYWHERE)
		return false;
	return !hr_is_bridge(f) || r->verdict != HR_VERDICTS || r->modifier;
}

/* A finding of a single card or port that is printed without a pair. */
static bool is_printed_alone(const struct hr_topo *t, int32_t index, uint32_t rule)
{
	const struct hr_topology *e = &t->topology;
	const struct hr_rule *r = &hr_rules[e->fn_rule[rule]];

	if (!hr_hit(&e->derived[index].hits, e->fn_rule[rule]) || !is_loose(&t->model.fn[index], r))
		return false;
	/* The pairs of hr_topo_alone() have this reason. */
	return r->verdict != HR_UNKNOWN || !hr_topo_has_other_pairs(t);
}

/* Without a pair: print the findings of single cards, each rule once. */
static void print_loose(struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;
	bool *used = mark_used(t);

	print_machine(t);
	for (uint32_t j = 0; used && j < e->fn_rules; j++) {
		struct hr_pair p = { .common = HR_NO_FN };
		struct hr_finding found = { e->fn_rule[j], HR_NO_FN, HR_FLOW_ALL };
		unsigned n = 0;

		for (int32_t i = 0; i < (int32_t)t->model.count; i++) {
			if (!used[i] || !is_printed_alone(t, i, j))
				continue;
			found.fn = n++ ? found.fn : i;
		}
		if (!n)
			continue;
		p.gpu = p.ssd = found.fn;
		print_rule(t, &hr_rules[e->fn_rule[j]], &p, &found);
		if (n > 1)
			fprintf(t->out, "          (and the same at %u other function%s)\n", n - 1,
				n == 2 ? "" : "s");
	}
}

struct view {
	struct hr_topo *t;
	struct hr_survey *s;
	struct hr_headline *headline;
	struct hr_note note[HR_NOTES_MAX];
	unsigned notes;
};

static void print_survey(const struct view *v, const struct detail *d)
{
	const struct hr_survey *s = v->s;
	struct hr_topo *t = v->t;
	const struct hr_topology *e = &t->topology;
	bool matrix = false;
	char text[512];

	hr_print_wrapped(t->out, 0, 2, hr_headline_answer(s, text));
	print_headlines(t, s, v->headline, d);
	if (d->matrix && (t->all || s->rows > 1 || s->columns > 1))
		matrix = hr_matrix_print(t, s, t->all);
	print_notes(t, v->note, v->notes, d);
	if (t->all)
		list_pairs(t);
	fputc('\n', t->out);
	print_head(t);
	print_names(t, e->gpu, e->gpus, s->column, "GPU", d);
	print_names(t, e->ssd, e->ssds, s->row, "NVME", d);
	if (!matrix)
		return;
	fputc('\n', t->out);
	hr_matrix_legend(t, s);
}

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

/* Print with less detail step by step until the output fits. */
static void print_fitting(struct view *v)
{
	FILE *const out = v->t->out;
	const unsigned most = sizeof details / sizeof *details;

	for (unsigned i = 0; i < most; i++) {
		char *text = NULL;
		size_t size;
		bool fits;

		v->t->out = open_memstream(&text, &size);
		if (v->t->out) {
			print_survey(v, &details[i]);
			fclose(v->t->out);
		}
		v->t->out = out;
		fits = text && lines_of(text) + HINT_LINES <= LINES_MAX;
		if (text && (fits || i + 1 == most))
			fputs(text, out);
		free(text);
		if (fits)
			return;
	}
}

enum hr_topo_exit hr_topo_table(struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;
	struct view v = { .t = t, .s = hr_survey_new(t) };
	enum hr_topo_exit code;
	char text[HR_TOPO_NO_PAIR_TEXT];

	if (v.s)
		v.headline =
			hr_headlines_new(t, v.s, t->all ? HR_CLASSES_MAX : details[0].headlines);
	if (!v.headline) {
		hr_survey_free(v.s);
		fputs("headrace: error: out of memory\n", stderr);
		return HR_TOPO_NO_ACCESS;
	}
	code = v.s->sum.exit;
	if (v.s->sum.pairs == 0) {
		hr_topo_no_pair(t, text);
		text[strcspn(text, "\n")] = '\0';
		hr_print_wrapped(t->out, 0, 2, text);
		hr_topo_alone(t);
		print_loose(t);
		if (hr_topo_ports_matter(t))
			hr_topo_ports(t);
		print_head(t);
		print_names(t, e->gpu, e->gpus, v.s->column, "GPU", &details[0]);
		print_names(t, e->ssd, e->ssds, v.s->row, "NVME", &details[0]);
	} else {
		v.notes = hr_notes_find(t, v.s, v.note);
		if (t->all)
			print_survey(&v, &everything);
		else
			print_fitting(&v);
		/* A headline without a verdict names no port to clear. */
		if (v.s->classes && v.s->class[0].pair.verdict == HR_UNKNOWN &&
		    hr_topo_ports_matter(t))
			hr_topo_ports(t);
		fputc('\n', t->out);
		hr_print_wrapped(
			t->out, 0, 2,
			"headrace topo --explain GPU0 NVME0: a pair hop by hop; --all: each "
			"pair; --html FILE: all as a page");
	}
	free(v.headline);
	hr_survey_free(v.s);
	return code;
}
