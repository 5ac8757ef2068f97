/* SPDX-License-Identifier: Apache-2.0 */
/* --html: the verdicts, the matrix, the tree and all explanations as one page. */
#include "boot/cmd/topo/html/html.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/cmd/report/output.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/views/views.h"
#include "config/base/log.h"

#define CELLS_MAX 32u /* rows and columns of a matrix in the page */
#define HEADLINES_MAX 64u
#define FULL_COLUMNS 2u /* up to so many columns, cells show the full verdict */

struct page {
	struct hr_topo *t;
	FILE *out;
	struct hr_survey *s;
	struct hr_headline *headline;
	bool *drawn; /* functions that the tree shows */
	bool matrix;
};

static void put_top(const struct page *p)
{
	const struct hr_model *m = &p->t->model;
	char answer[512], count[64];

	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
	      "form-action 'none'\">\n<title>headrace topo</title>\n<style>\n",
	      p->out);
	fputs(hr_html_style, p->out);
	fputs("</style></head><body>\n<header><h1>PCIe peer-to-peer DMA between GPUs and "
	      "SSDs</h1>\n",
	      p->out);
	if (p->s->sum.pairs)
		hr_headline_answer(p->s, answer);
	else
		hr_topo_no_pair(p->t, answer);
	hr_html_put(p->out, "<p class=\"answer\">~</p>\n", answer);
	snprintf(count, sizeof count, "%u function%s, %u root bus%s", m->count,
		 m->count == 1 ? "" : "s", m->root_buses, m->root_buses == 1 ? "" : "es");
	hr_html_put(p->out, "<p class=\"dim\">~: ~; IOMMU ~; kernel ~</p>\n", m->input, count,
		    hr_topo_iommu_word(&p->t->topology),
		    m->sys.kernel[0] ? m->sys.kernel : "unknown");
	for (uint32_t i = 0; i < m->warnings && i < HR_WARNINGS_KEPT; i++)
		hr_html_put(p->out, "<p class=\"warning\">warning: ~</p>\n", m->warning[i]);
	fputs("</header>\n<div class=\"grid\"><main>\n", p->out);
}

static void put_headlines(const struct page *p)
{
	char pairs[32], id[16], verdict[48];
	uint64_t told = 0;

	if (!p->s->classes)
		return;
	fputs("<section><h2>Pairs that are equal</h2>\n", p->out);
	for (uint32_t i = 0; i < p->s->classes && i < HEADLINES_MAX; i++) {
		const struct hr_class *c = &p->s->class[i];
		const struct hr_headline *h = &p->headline[i];

		told += c->pairs;
		snprintf(id, sizeof id, "p%u", i);
		snprintf(pairs, sizeof pairs, " (%llu pair%s)", (unsigned long long)c->pairs,
			 c->pairs == 1 ? "" : "s");
		hr_html_put(p->out, "<a class=\"headline ~\" href=\"#~\"><b>~~</b> ~",
			    hr_html_colour(c->pair.verdict), id, h->members, pairs, h->what);
		if (h->rate[0])
			hr_html_put(p->out, "; <span class=\"rate\">~</span>", h->rate);
		hr_html_put(p->out, " <span class=\"badge ~\">~</span>",
			    hr_html_colour(c->pair.verdict),
			    hr_verdict_text(c->pair.verdict, c->pair.rule, verdict));
		if (h->remedy[0])
			hr_html_put(p->out, "<div class=\"remedy\">~</div>", h->remedy);
		fputs("</a>\n", p->out);
	}
	if (told < p->s->sum.pairs) {
		snprintf(pairs, sizeof pairs, "%llu", (unsigned long long)(p->s->sum.pairs - told));
		hr_html_put(p->out, "<p class=\"dim\">and ~ pairs of other kinds</p>\n", pairs);
	}
	fputs("</section>\n", p->out);
}

static void evaluate_cell(const struct page *p, uint32_t column, uint32_t row, struct hr_pair *pair)
{
	const struct hr_topology *e = &p->t->topology;

	hr_pair_evaluate(e, e->gpu[p->s->gpu_of[column]], e->ssd[p->s->ssd_of[row]], pair);
}

static void put_cell(const struct page *p, uint32_t column, uint32_t row)
{
	char verdict[48], id[32];
	struct hr_pair pair;

	evaluate_cell(p, column, row, &pair);
	if (!hr_topo_wants(p->t, &pair)) {
		fputs("<td><span class=\"no\">&ndash;</span></td>", p->out);
		return;
	}
	snprintf(id, sizeof id, "c%u-%u", column, row);
	hr_verdict_text(pair.verdict, pair.rule, verdict);
	hr_html_put(
		p->out, "<td><a class=\"~\" href=\"#~\" title=\"~\"><small>~</small>~~</a></td>",
		hr_html_colour(pair.verdict), id, verdict, hr_distance_word(&p->t->topology, &pair),
		p->s->columns > FULL_COLUMNS ? hr_matrix_word(pair.verdict) : verdict,
		pair.modifiers & HR_MOD_DEGRADED ? "*" : "");
}

static void put_matrix(const struct page *p)
{
	char name[128];

	if (!p->matrix || (p->s->rows == 1 && p->s->columns == 1))
		return;
	fputs("<section><h2>Matrix</h2><div class=\"scroll\"><table><thead><tr><th></th>", p->out);
	for (uint32_t i = 0; i < p->s->columns; i++)
		hr_html_put(p->out, "<th>~</th>",
			    hr_matrix_name(p->t, p->s, false, i, name, sizeof name));
	fputs("</tr></thead><tbody>\n", p->out);
	for (uint32_t j = 0; j < p->s->rows; j++) {
		hr_html_put(p->out, "<tr><th>~</th>",
			    hr_matrix_name(p->t, p->s, true, j, name, sizeof name));
		for (uint32_t i = 0; i < p->s->columns; i++)
			put_cell(p, i, j);
		fputs("</tr>\n", p->out);
	}
	fputs("</tbody></table></div>\n<p class=\"dim\">PIX one switch, PXB several switches, PHB "
	      "one host bridge, NODE one NUMA node, SYS across sockets; * degraded; RC through the "
	      "root complex, REDIR the same because of ACS or the IOMMU, ? which the kernel does "
	      "not trust with it. A cell opens its explanation.</p></section>\n",
	      p->out);
}

/* A machine without a pair: the output without options, which has findings and remedies. */
static int put_text(const struct page *p)
{
	struct hr_topo plain = *p->t;
	char *text = NULL;
	size_t size;

	if (p->s->sum.pairs)
		return 0;
	plain.colour = false;
	plain.out = open_memstream(&text, &size);
	if (!plain.out)
		return -ENOMEM;
	hr_topo_table(&plain);
	fclose(plain.out);
	hr_html_put(p->out, "<section><h2>Findings</h2><pre>~</pre></section>\n", text);
	free(text);
	return 0;
}

/* A tree without a card is left out. */
static int put_tree(const struct page *p)
{
	char count[64], *drawing = NULL;
	size_t size;
	uint32_t left;
	FILE *out = open_memstream(&drawing, &size);

	if (!out)
		return -ENOMEM;
	left = hr_html_tree(p->t, p->s, out, p->drawn);
	fclose(out);
	if (!drawing || !size) {
		free(drawing);
		fputs("</main>\n", p->out);
		return 0;
	}
	fputs("<section><h2>Tree</h2><p class=\"dim\">Select a GPU and then an SSD to see the "
	      "path between them; any other box shows its registers.</p><div class=\"scroll\">\n",
	      p->out);
	fputs(drawing, p->out);
	free(drawing);
	fputs("</div>\n", p->out);
	if (left) {
		snprintf(count, sizeof count, "%u", left);
		hr_html_put(p->out, "<p class=\"dim\">~ more cards are not drawn</p>\n", count);
	}
	fputs("</section>\n</main>\n", p->out);
	return 0;
}

static void put_articles(const struct page *p)
{
	char id[32], column[128], row[128], equal[280];
	struct hr_pair pair;

	for (uint32_t i = 0; i < p->s->classes && i < HEADLINES_MAX; i++) {
		snprintf(id, sizeof id, "p%u", i);
		hr_html_pair(p->t, p->out, id, p->headline[i].members, &p->s->class[i].pair);
	}
	for (uint32_t i = 0; p->matrix && i < p->s->columns; i++)
		for (uint32_t j = 0; j < p->s->rows; j++) {
			evaluate_cell(p, i, j, &pair);
			if (!hr_topo_wants(p->t, &pair))
				continue;
			snprintf(id, sizeof id, "c%u-%u", i, j);
			snprintf(equal, sizeof equal, "%s with %s",
				 hr_matrix_name(p->t, p->s, false, i, column, sizeof column),
				 hr_matrix_name(p->t, p->s, true, j, row, sizeof row));
			hr_html_pair(p->t, p->out, id, equal, &pair);
		}
	for (uint32_t i = 0; i < p->t->model.count; i++)
		if (p->drawn[i])
			hr_html_function(p->t, p->out, (int32_t)i);
}

static int put_page(const struct page *p)
{
	int err;

	put_top(p);
	put_headlines(p);
	put_matrix(p);
	err = hr_html_peers(p->t, p->out);
	if (!err)
		err = put_text(p);
	if (!err)
		err = put_tree(p);
	fputs("<aside aria-live=\"polite\">", p->out);
	put_articles(p);
	fputs("</aside></div>\n<footer>Made by headrace topo. Rates are of a model: link "
	      "registers, TLP overhead and priors for root complexes.</footer>\n<script>\n",
	      p->out);
	fputs(hr_html_script, p->out);
	fputs("</script></body></html>\n", p->out);
	return err;
}

static int write_page(struct hr_topo *t, FILE *out, enum hr_topo_exit *code)
{
	struct page p = { .t = t, .out = out, .s = hr_survey_new(t) };
	int err = -ENOMEM;

	if (p.s)
		p.headline = hr_headlines_new(t, p.s, HEADLINES_MAX);
	p.drawn = calloc(t->model.count + 1, sizeof *p.drawn);
	if (p.s && p.headline && p.drawn) {
		p.matrix = p.s->sum.pairs && p.s->rows <= CELLS_MAX && p.s->columns <= CELLS_MAX;
		errno = 0;
		err = put_page(&p);
		*code = p.s->sum.exit;
		if (ferror(out))
			err = errno ? -errno : -EIO;
	}
	free(p.drawn);
	free(p.headline);
	hr_survey_free(p.s);
	return err;
}

/* A second stream over the target's descriptor; closing it keeps the descriptor open. */
static FILE *stream_of(const struct hr_target *target)
{
	const int fd = dup(target->fd);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (fd >= 0 && !out)
		close(fd);
	return out;
}

int hr_topo_html(struct hr_topo *t, const char *path, bool force)
{
	enum hr_topo_exit code = HR_TOPO_NONE;
	struct hr_target target;
	FILE *out;
	int err;

	if (hr_target_open(&target, path, force) != 0)
		return HR_TOPO_NO_ACCESS;
	out = stream_of(&target);
	err = out ? write_page(t, out, &code) : -errno;
	errno = 0;
	if (out && fclose(out) != 0 && !err)
		err = errno ? -errno : -EIO;
	if (err) {
		hr_error("%s: cannot write the page: %s", target.name, strerror(-err));
		hr_target_discard(&target);
	}
	return err || hr_target_commit(&target) != 0 ? HR_TOPO_NO_ACCESS : (int)code;
}
