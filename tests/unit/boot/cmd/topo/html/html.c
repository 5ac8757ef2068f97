/* SPDX-License-Identifier: Apache-2.0 */
/* The page of --html: text of the machine stays text and never becomes markup. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/cmd/topo/html/html.h"
#include "pci/topo/fields.h"
#include "tests/harness/box.h"

static struct fake_machine box;
static struct hr_topo topo;
static char folder[64], path[96];

static void set_up(void)
{
	snprintf(folder, sizeof folder, "/tmp/topo_html.XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/page.html", folder);
}

static void clean_up(void)
{
	unlink(path);
	cr_expect_eq(rmdir(folder), 0, "nothing else is left in the folder");
	hr_model_fini(&topo.model);
	memset(&topo, 0, sizeof topo);
}

TestSuite(topo_html, .init = set_up, .fini = clean_up, .timeout = 60);

static char *read_page(void)
{
	FILE *in = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	cr_assert_not_null(in);
	cr_assert_gt(getdelim(&text, &size, '\0', in), 0);
	fclose(in);
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static char *page(int want)
{
	fake_box_evaluate(&box, &topo);
	cr_assert_eq(hr_topo_html(&topo, path, true), want);
	return read_page();
}

static const char *escaped(const char *text)
{
	static char *said;
	size_t size;
	FILE *out;

	free(said);
	out = open_memstream(&said, &size);
	hr_html_text(out, text);
	fclose(out);
	return said;
}

Test(topo_html, text_is_escaped_and_stays_utf_8)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "<script>&\"'", "&lt;script&gt;&amp;&quot;&#39;" },
		{ "\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80",
		  "\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x98\x80" },
		{ "a\xff"
		  "b",
		  "a&#xfffd;b" },		    /* not UTF-8 */
		{ "\xc0\xbc", "&#xfffd;&#xfffd;" }, /* overlong form of < */
		{ "\xe0\x80\xbc", "&#xfffd;&#xfffd;&#xfffd;" },
		{ "\xed\xa0\x80", "&#xfffd;&#xfffd;&#xfffd;" }, /* one half of a surrogate pair */
		{ "\xc2\x85", "&#xfffd;&#xfffd;" },		/* a C1 control */
		{ "\xe2\x86", "&#xfffd;&#xfffd;" },		/* cut before its last byte */
		{ "\x1b[31m\x7f", "&#xfffd;[31m&#xfffd;" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_str_eq(escaped(row[i].text), row[i].want, "row %zu", i);
}

Test(topo_html, names_that_hold_html_stay_text)
{
	char *text;

	fake_box(&box, 1, 1, 1);
	snprintf(fake_box_card(&box, 0, 0)->title, 64, "X: <script>alert(1)</script>");
	snprintf(fake_box_card(&box, 0, 1)->title, 64, "X: \"><img src=x onerror=y> '&amp;");
	snprintf(fake_box_card(&box, 0, 1)->text, 200,
		 "\tKernel driver in use: <b>nvme\n\tPhysical Slot: </a><a href=x>\n");
	text = page(HR_TOPO_DIRECT);
	cr_expect_eq(count(text, "<script"), 1, "ours alone");
	cr_expect_eq(count(text, "</script"), 1);
	cr_expect_null(strstr(text, "<img"));
	cr_expect_null(strstr(text, "<b>nvme"));
	cr_expect_null(strstr(text, "<a href=x"));
	cr_expect_not_null(strstr(text, "&lt;script&gt;alert(1)&lt;/script&gt;"));
	free(text);
}

Test(topo_html, the_page_loads_no_other_resource)
{
	char *text;

	fake_box(&box, 4, 2, 6);
	text = page(HR_TOPO_THROUGH);
	cr_expect_eq(count(text, "://"), 1, "the name space of SVG alone");
	cr_expect_not_null(strstr(text, "xmlns=\"http://www.w3.org/2000/svg\""));
	cr_expect_not_null(strstr(text, "default-src 'none'"));
	cr_expect_eq(count(text, " src="), 0);
	cr_expect_eq(count(text, "@import"), 0);
	cr_expect_eq(count(text, "url("), 0);
	free(text);
}

Test(topo_html, each_link_has_a_target)
{
	char *text, target[64];
	unsigned links = 0;

	fake_box(&box, 4, 2, 6);
	text = page(HR_TOPO_THROUGH);
	for (const char *at = text; (at = strstr(at, "href=\"#")); links++) {
		const size_t n = strcspn(at += 7, "\"");

		snprintf(target, sizeof target, "<article id=\"%.*s\"", (int)n, at);
		cr_expect_not_null(strstr(text, target), "%s", target);
	}
	/* Headlines, cells of 4 rows and columns, and all drawn functions. */
	cr_expect_eq(links, 2u + 16 + 72);
	cr_expect_eq(count(text, "<a class=\"gpu\""), 8);
	cr_expect_eq(count(text, "<a class=\"ssd\""), 24);
	cr_expect_eq(count(text, "<a "), count(text, "</a>"));
	cr_expect_eq(count(text, "<article "), count(text, "</article>"));
	free(text);
}

/* Boxes of one column are placed below each other, inside of the picture. */
Test(topo_html, boxes_of_the_tree_do_not_overlap)
{
	unsigned x[128], y[128], width, height, right, below, n = 0;
	char *text;

	fake_box(&box, 4, 2, 6);
	text = page(HR_TOPO_THROUGH);
	cr_assert_eq(sscanf(strstr(text, "viewBox="), "viewBox=\"0 0 %u %u\"", &right, &below), 2);
	for (const char *at = text; (at = strstr(at, "<rect ")); at++, n++) {
		cr_assert_lt(n, 128u);
		cr_assert_eq(sscanf(at, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\"", &x[n],
				    &y[n], &width, &height),
			     4);
		cr_expect(x[n] + width <= right && y[n] + height <= below, "%u,%u", x[n], y[n]);
		for (unsigned i = 0; i < n; i++)
			cr_expect(x[i] >= x[n] + width || x[n] >= x[i] + width ||
					  y[i] >= y[n] + height || y[n] >= y[i] + height,
				  "%u,%u and %u,%u", x[i], y[i], x[n], y[n]);
	}
	cr_expect_gt(n, 8u + 24);
	free(text);
}

Test(topo_html, a_redirected_pair_climbs_in_the_tree)
{
	char *text;

	fake_box(&box, 1, 1, 1);
	text = page(HR_TOPO_DIRECT);
	cr_expect_null(strstr(text, " data-climbs=\"1\">"));
	free(text);
	fake_put(fake_box_port(&box, 0, 0), FAKE_ACS + HR_ACS_CTL, 2, 0x1d);
	text = page(HR_TOPO_THROUGH);
	cr_expect_not_null(strstr(text, " data-climbs=\"1\">"));
	cr_expect_not_null(strstr(text, "ACS redirects"));
	free(text);
}

Test(topo_html, gpus_stand_against_each_other)
{
	char *text;

	fake_box(&box, 2, 2, 1);
	text = page(HR_TOPO_THROUGH);
	cr_expect_not_null(strstr(text, "GPUs and network cards"));
	/*
	 * Four GPUs: a diagonal, and each pair in both directions, with one other GPU on its
	 * switch.
	 */
	cr_expect_eq(count(text, "<td><span class=\"no\">X</span></td>"), 4);
	cr_expect_eq(count(text, "<td title=\"DIRECT, rule R1\">"), 4);
	cr_expect_eq(count(text, "<td title=\"RC_UNLISTED, rule R2\">"), 8);
	free(text);
	fake_box(&box, 1, 1, 1);
	text = page(HR_TOPO_DIRECT);
	cr_expect_null(strstr(text, "GPUs and network cards"), "one GPU has no peer");
	free(text);
}

Test(topo_html, a_machine_without_a_pair_has_a_page)
{
	char *text;

	fake_box(&box, 1, 0, 2);
	text = page(HR_TOPO_NONE);
	cr_expect_not_null(strstr(text, "no pair to evaluate: 0 GPUs, 2 NVMe"));
	cr_expect_eq(count(text, "<a class=\"ssd\""), 2);
	free(text);
	fake_box(&box, 0, 0, 0);
	text = page(HR_TOPO_NONE);
	cr_expect_null(strstr(text, "<svg"));
	cr_expect_not_null(strstr(text, "</html>"));
	free(text);
}

Test(topo_html, the_file_is_replaced_whole_with_the_rights_of_any_file)
{
	const mode_t mask = umask(022);
	struct stat before, after;
	char *text, link_path[128];
	FILE *out;

	fake_box(&box, 1, 1, 1);
	out = fopen(path, "w");
	fputs("old", out);
	fclose(out);
	cr_assert_eq(stat(path, &before), 0);
	text = page(HR_TOPO_DIRECT);
	cr_assert_eq(stat(path, &after), 0);
	cr_expect_neq(before.st_ino, after.st_ino, "renamed, not rewritten");
	cr_expect_eq(after.st_mode & 0777, 0644);
	cr_expect_null(strstr(text, "old<"));
	free(text);
	/* A symbolic link stays a link. */
	snprintf(link_path, sizeof link_path, "%s/link.html", folder);
	cr_assert_eq(symlink("page.html", link_path), 0);
	cr_expect_eq(hr_topo_html(&topo, link_path, true), HR_TOPO_DIRECT);
	cr_assert_eq(lstat(link_path, &after), 0);
	cr_expect(S_ISLNK(after.st_mode));
	unlink(link_path);
	umask(mask);
}

Test(topo_html, an_unwritable_file_is_reported_and_removed)
{
	char elsewhere[128];

	fake_box(&box, 1, 1, 1);
	fake_box_evaluate(&box, &topo);
	snprintf(elsewhere, sizeof elsewhere, "%s/absent/page.html", folder);
	cr_expect_eq(hr_topo_html(&topo, elsewhere, false), HR_TOPO_NO_ACCESS);
	cr_expect_eq(hr_topo_html(&topo, "/dev/full", false), HR_TOPO_NO_ACCESS);
	cr_expect_eq(hr_topo_html(&topo, folder, true), HR_TOPO_NO_ACCESS);
	/* An existing file needs force. */
	cr_expect_eq(hr_topo_html(&topo, path, false), HR_TOPO_DIRECT);
	cr_expect_eq(hr_topo_html(&topo, path, false), HR_TOPO_NO_ACCESS);
}
