/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of bridges as SVG: root buses at the left, cards at the right. */
#include "boot/cmd/topo/html/html.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "pci/topo/fields.h"
#include "pci/topo/uplink.h"

#define CARDS_MAX 256u /* lines of the drawing */
#define PITCH 40u
#define BOX_HEIGHT 32u
#define BOX_WIDTH 158u
#define COLUMN 190u

struct drawing {
	const struct hr_topo *t;
	const struct hr_survey *s;
	FILE *out;
	bool *drawn;
	uint32_t *top, *bottom; /* [functions]: lines of the first and last card below */
	uint32_t *root_top, *root_bottom;
	bool *root_drawn;
	uint32_t lines, levels;
};

/*
 * Place the cards in the order of addresses, so that lines do not cross, and the functions above
 * them.
 */
static uint32_t position(struct drawing *d)
{
	const struct hr_model *m = &d->t->model;
	const struct hr_topology *e = &d->t->topology;
	bool *in_pair = calloc(m->count + 1, sizeof *in_pair);
	uint32_t left = 0;

	for (uint32_t i = 0; in_pair && i < e->gpus; i++)
		in_pair[e->gpu[i]] = true;
	for (uint32_t i = 0; in_pair && i < e->ssds; i++)
		in_pair[e->ssd[i]] = true;
	for (uint32_t i = 0; in_pair && i < m->count; i++) {
		const int32_t root = m->fn[i].root_bus;

		if (!in_pair[i])
			continue;
		if (d->lines == CARDS_MAX) {
			left++;
			continue;
		}
		for (int32_t at = (int32_t)i; at != HR_NO_FN; at = m->fn[at].parent) {
			if (!d->drawn[at])
				d->top[at] = d->lines;
			d->drawn[at] = true;
			d->bottom[at] = d->lines;
		}
		if (!d->root_drawn[root])
			d->root_top[root] = d->lines;
		d->root_drawn[root] = true;
		d->root_bottom[root] = d->lines++;
		if (m->fn[i].depth + 2 > d->levels)
			d->levels = m->fn[i].depth + 2;
	}
	free(in_pair);
	return left;
}

static unsigned middle(uint32_t top, uint32_t bottom)
{
	return (top + bottom) * PITCH / 2 + PITCH / 2;
}

static unsigned left_of(uint32_t level)
{
	return level * COLUMN + 4;
}

static void put_box(const struct drawing *d, uint32_t level, unsigned y, const char *title,
		    const char *below, const char *colour)
{
	fprintf(d->out, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\"/>", left_of(level),
		y - BOX_HEIGHT / 2, BOX_WIDTH, BOX_HEIGHT);
	fprintf(d->out, "<text x=\"%u\" y=\"%u\">", left_of(level) + 8, y - 2);
	hr_html_text(d->out, title);
	fprintf(d->out, "</text><text class=\"small %s\" x=\"%u\" y=\"%u\">", colour,
		left_of(level) + 8, y + 11);
	hr_html_text(d->out, below);
	fputs("</text>", d->out);
}

static const char *kind_of(const struct hr_fn *f)
{
	switch (hr_get(f, HR_F_PORT, 0)) {
	case HR_PORT_ROOT:
		return "root port";
	case HR_PORT_UPSTREAM:
		return "switch";
	case HR_PORT_DOWNSTREAM:
		return "port";
	default:
		return "bridge";
	}
}

static bool is_degraded(const struct hr_topo *t, int32_t fn)
{
	const struct hr_topology *e = &t->topology;

	for (uint32_t i = 0; i < e->fn_rules; i++)
		if (hr_rules[e->fn_rule[i]].modifier == HR_MOD_LINK &&
		    hr_hit(&e->derived[fn].hits, e->fn_rule[i]))
			return true;
	return false;
}

static void put_edge(const struct drawing *d, int32_t fn)
{
	const struct hr_fn *f = &d->t->model.fn[fn];
	const unsigned y = middle(d->top[fn], d->bottom[fn]);
	const uint32_t width = hr_get(f, HR_F_WIDTH, 4);
	const unsigned from =
		f->parent == HR_NO_FN
			? middle(d->root_top[f->root_bus], d->root_bottom[f->root_bus])
			: middle(d->top[f->parent], d->bottom[f->parent]);
	const unsigned x = left_of(f->depth + 1), bend = x - (COLUMN - BOX_WIDTH) / 2;

	fprintf(d->out, "<path id=\"ef%d\"%s stroke-width=\"%s\" d=\"M%u %uH%uV%uH%u\"/>\n", fn,
		is_degraded(d->t, fn) ? " class=\"degraded\"" : "",
		width >= 16 ? "4"
		: width > 4 ? "3"
		: width > 1 ? "2"
			    : "1",
		x - (COLUMN - BOX_WIDTH), from, bend, y, x);
}

/* "02:00.0  16 GT/s x4". The root bus shows the domain. */
static void format_link(const struct hr_fn *f, char *text, size_t capacity)
{
	char bdf[HR_BDF_MAX];

	if (hr_get(f, HR_F_WIDTH, 0))
		snprintf(text, capacity, "%s  %s GT/s x%u", strchr(hr_bdf(f, bdf), ':') + 1,
			 hr_link_speed_text(hr_get(f, HR_F_SPEED, 0)), hr_get(f, HR_F_WIDTH, 0));
	else
		snprintf(text, capacity, "%s", strchr(hr_bdf(f, bdf), ':') + 1);
}

static uint32_t index_of(const int32_t *list, uint32_t count, int32_t fn)
{
	uint32_t i = 0;

	while (i < count && list[i] != fn)
		i++;
	return i;
}

/* Begin the link of a card with its column or row of the matrix. */
static void open_card(const struct drawing *d, int32_t fn, const char *parent, const char *title)
{
	const struct hr_topology *e = &d->t->topology;
	const uint32_t gpu = index_of(e->gpu, e->gpus, fn), ssd = index_of(e->ssd, e->ssds, fn);
	const bool is_gpu = gpu < e->gpus;
	char number[16];

	snprintf(number, sizeof number, "%u", is_gpu ? d->s->column[gpu] : d->s->row[ssd]);
	hr_html_put(d->out,
		    "<a class=\"~\" id=\"~\" href=\"#i~\" data-parent=\"~\" data-~=\"~\">"
		    "<title>~</title>",
		    is_gpu ? "gpu" : "ssd", title, title, parent, is_gpu ? "column" : "row", number,
		    hr_topo_title(&d->t->model.fn[fn]));
}

static void put_function(const struct drawing *d, int32_t fn)
{
	const struct hr_fn *f = &d->t->model.fn[fn];
	const unsigned y = middle(d->top[fn], d->bottom[fn]);
	const bool redirects = d->t->topology.derived[fn].redirect;
	char id[16], parent[16], name[16], link[64];

	hr_html_id(fn, id);
	if (f->parent == HR_NO_FN)
		snprintf(parent, sizeof parent, "h%d", f->root_bus);
	else
		hr_html_id(f->parent, parent);
	format_link(f, link, sizeof link);
	if (!hr_is_bridge(f)) {
		open_card(d, fn, parent, id);
		put_box(d, f->depth + 1, y, hr_topo_name(d->t, fn, name), link,
			is_degraded(d->t, fn) ? "detour" : "");
	} else {
		hr_html_put(
			d->out,
			"<a class=\"~\" id=\"~\" href=\"#i~\" data-parent=\"~\"><title>~</title>",
			redirects ? "redirects" : "port", id, id, parent, hr_topo_title(f));
		snprintf(name, sizeof name, "%s", kind_of(f));
		put_box(d, f->depth + 1, y, redirects ? "ACS redirects" : name, link,
			is_degraded(d->t, fn) ? "detour" : "");
	}
	fputs("</a>\n", d->out);
}

static void put_root_bus(const struct drawing *d, uint32_t root)
{
	const struct hr_root_bus *h = &d->t->model.root_bus[root];
	char title[32], below[32];

	snprintf(title, sizeof title, "pci%04x:%02x", h->domain, h->bus);
	if (h->numa != ~0u)
		snprintf(below, sizeof below, "NUMA node %u", h->numa);
	else
		snprintf(below, sizeof below, "root bus");
	fprintf(d->out, "<a class=\"host\" id=\"h%u\">", root);
	put_box(d, 0, middle(d->root_top[root], d->root_bottom[root]), title, below, "");
	fputs("</a>\n", d->out);
}

static void draw(const struct drawing *d)
{
	const unsigned width = left_of(d->levels - 1) + BOX_WIDTH + 4, height = d->lines * PITCH;

	fprintf(d->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
		"aria-label=\"tree of bridges\" width=\"%u\" height=\"%u\" "
		"viewBox=\"0 0 %u %u\">\n",
		width, height, width, height);
	fputs("<g>\n", d->out);
	for (uint32_t i = 0; i < d->t->model.count; i++)
		if (d->drawn[i])
			put_edge(d, (int32_t)i);
	fputs("</g>\n", d->out);
	for (uint32_t i = 0; i < d->t->model.root_buses; i++)
		if (d->root_drawn[i])
			put_root_bus(d, i);
	for (uint32_t i = 0; i < d->t->model.count; i++)
		if (d->drawn[i])
			put_function(d, (int32_t)i);
	fputs("</svg>\n", d->out);
}

uint32_t hr_html_tree(const struct hr_topo *t, const struct hr_survey *s, FILE *out, bool *drawn)
{
	const struct hr_model *m = &t->model;
	struct drawing d = { .t = t, .s = s, .out = out, .drawn = drawn, .levels = 1 };
	uint32_t left = 0;

	d.top = calloc(m->count + 1, sizeof *d.top);
	d.bottom = calloc(m->count + 1, sizeof *d.bottom);
	d.root_top = calloc(m->root_buses + 1, sizeof *d.root_top);
	d.root_bottom = calloc(m->root_buses + 1, sizeof *d.root_bottom);
	d.root_drawn = calloc(m->root_buses + 1, sizeof *d.root_drawn);
	if (d.top && d.bottom && d.root_top && d.root_bottom && d.root_drawn)
		left = position(&d);
	if (d.lines)
		draw(&d);
	free(d.top);
	free(d.bottom);
	free(d.root_top);
	free(d.root_bottom);
	free(d.root_drawn);
	return left;
}
