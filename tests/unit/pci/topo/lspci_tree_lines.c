/* Lines of lspci -t: which belong to a tree, and all that is known of their functions. */
#include "pci/topo/lspci_tree.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/described.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_model model;
static struct hr_tree tree;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_tree_lines, .init = set_up, .fini = tear_down, .timeout = 60);

static char text[2048];

/* The results of all lines, then each function with its first line. */
static const char *read_lines(const char *lines)
{
	char line[600], bdf[HR_BDF_MAX];
	size_t used = 0;
	unsigned n = 10;

	hr_model_reset(&model);
	hr_error_clear(&model.error);
	memset(&tree, 0, sizeof tree);
	while (*lines) {
		const size_t length = strcspn(lines, "\n");

		snprintf(line, sizeof line, "%.*s", (int)length, lines);
		lines += length + (lines[length] == '\n');
		used += (size_t)snprintf(text + used, sizeof text - used, "%d ",
					 hr_tree_line(&tree, &model, line, n++));
	}
	for (uint32_t i = 0; i < model.count; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, "%s@%u %s; ",
					 hr_bdf(&model.fn[i], bdf), model.fn[i].line,
					 fake_described(&model.fn[i]));
	cr_assert_lt(used, sizeof text);
	return text;
}

static const struct {
	const char *lines, *want;
} lines_of_trees[] = {
	{ "-[0000:00]-+-00.0  Host\n"
	  "           +-01.0-[01-02]--+-00.0  Card\n"
	  "           |               `-00.1  Its second function\n"
	  "           \\-1f.7\n"
	  "done\n"
	  "           +-03.0\n",
	  "1 1 1 1 0 0 0000:00:00.0@10 name='Host'; 0000:00:01.0@11 class=60400/1 "
	  "header=1/3 primary=0/3 secondary=1/3 subordinate=2/3; 0000:01:00.0@11 "
	  "name='Card'; 0000:01:00.1@12 name='Its second function'; "
	  "0000:00:1f.7@13 ; " },
	{ "-+-[0001:80]-+-00.0\n"
	  " |           \\-02.0-[81]----00.0  X\n"
	  " \\-[0000:00]---00.0  Y\n",
	  "1 1 1 0001:80:00.0@10 ; 0001:80:02.0@11 class=60400/1 header=1/3 "
	  "primary=80/3 secondary=81/3 subordinate=81/3; 0001:81:00.0@11 name='X'; "
	  "0000:00:00.0@12 name='Y'; " },
	{ "-[00]---09.0-[0a-0F]----1F.5-[Ab]--\n",
	  "1 0000:00:09.0@10 class=60400/1 header=1/3 primary=0/3 secondary=a/3 "
	  "subordinate=f/3; 0000:0a:1f.5@10 class=60400/1 header=1/3 primary=a/3 "
	  "secondary=ab/3 subordinate=ab/3; " },
	{ "-[af:fa]---0a.0\n", "1 00af:fa:0a.0@10 ; " },
	{ "-[00ffff:00]---00.0\n", "1 ffff:00:00.0@10 ; " },
	{ "-[100:00]---00.0\n", "1 0100:00:00.0@10 ; " },
	{ "-[10000:e0]---00.0\n", "1 10000:e0:00.0@10 ; " },
	{ "-[abcdef:00]---00.0\n", "1 abcdef:00:00.0@10 ; " },
	{ "-[1000000:00]---00.0\n", "1 " },
	{ "-[0:00]---00.0\n", "1 " },
	{ "-[100]---00.0\n", "1 " },
	{ "-[ff]---00.0\n", "1 0000:ff:00.0@10 ; " },
	{ "-[0000:0]---00.0\n", "1 " },
	{ "-[0000:000]---00.0\n", "1 " },
	{ "-[0000:00---00.0\n", "1 " },
	{ "-[0000:0g]---00.0\n", "1 " },
	{ "-[0000:0/]---00.0\n", "1 " },
	{ "-[0000:0:]---00.0\n", "1 " },
	{ "-[0000:0`]---00.0\n", "1 " },
	{ "-[00]---01.0-[02-3]---00.0\n", "1 0000:00:01.0@10 ; " },
	{ "-[00]---01.0-[02-003]---00.0\n", "1 0000:00:01.0@10 ; " },
	{ "-[00]---01.0-[02+03]---00.0\n", "1 0000:00:01.0@10 ; " },
	{ "-[00]---1.0\n", "1 " },
	{ "-[00]---001.0\n", "1 " },
	{ "-[00]---01-0\n", "1 " },
	{ "-[00]---01.\n", "1 " },
	{ "-[00]---01.00\n", "1 " },
	{ "-[00]---1f.7\n", "1 0000:00:1f.7@10 ; " },
	{ "-[00]---20.0\n", "1 " },
	{ "-[00]---1f.8\n", "1 " },
	{ "-[00]---00.0x\n", "1 0000:00:00.0@10 ; " },
	{ "-[00]---00.0   Two words\n", "1 0000:00:00.0@10 name='Two words'; " },
	{ "-[00]---00.0-00.1\n", "1 0000:00:00.0@10 ; " },
	{ "-[00]---00.0-[01]-[02]---00.0\n",
	  "1 0000:00:00.0@10 class=60400/1 header=1/3 primary=0/3 secondary=1/3 "
	  "subordinate=1/3; 0000:02:00.0@10 ; " },
	{ "-00.0\n", "0 " },
	{ " -[00]---00.0\n", "0 " },
	{ "-+-00.0\n", "0 " },
	{ "-+-[00]-00.0\n \\-01.0\n", "1 1 0000:00:00.0@10 ; " },
	/* Branches begin where a plus was; a column without one ends the tree. */
	{ "-[00]-+-00.0\n      +-01.0\n     +-02.0\n      +-03.0\n",
	  "1 1 0 0 0000:00:00.0@10 ; 0000:00:01.0@11 ; " },
	{ "-[00]-+-00.0\n      |-01.0\n", "1 0 0000:00:00.0@10 ; " },
	{ "-[00]-+-00.0\n      -01.0\n", "1 0 0000:00:00.0@10 ; " },
	{ "-[00]-+-00.0\n      \\01.0\n", "1 1 0000:00:00.0@10 ; 0000:00:01.0@11 ; " },
	/* A second tree forgets the columns of the first. */
	{ "-[00]-+-00.0\n-[01]---00.0\n      +-01.0\n",
	  "1 1 0 0000:00:00.0@10 ; 0000:01:00.0@11 ; " },
	{ "-[00]-+-00.0\n\n      +-01.0\n", "1 0 0 0000:00:00.0@10 ; " },
	{ "      +-01.0\n", "0 " },
	{ "-[00]-+-01.0-[01]--+-00.0\n      |            +-00.1\n      +-02.0-[02]---00.0\n",
	  "1 1 1 0000:00:01.0@10 class=60400/1 header=1/3 primary=0/3 "
	  "secondary=1/3 subordinate=1/3; 0000:01:00.0@10 ; 0000:01:00.1@11 ; "
	  "0000:00:02.0@12 class=60400/1 header=1/3 primary=0/3 secondary=2/3 "
	  "subordinate=2/3; 0000:02:00.0@12 ; " },
	{ "-[00]-+-00.0\n      +-00.0  Named\n", "1 1 0000:00:00.0@10 name='Named'; " },
};

Test(topo_tree_lines, each_line_gives_its_functions)
{
	for (size_t i = 0; i < ROWS(lines_of_trees); i++) {
		cr_expect_str_eq(read_lines(lines_of_trees[i].lines), lines_of_trees[i].want,
				 "row %zu: %s", i, text);
		cr_expect_str_eq(model.error.text, "", "row %zu", i);
	}
}

Test(topo_tree_lines, a_bus_below_a_bridge_that_differs_from_a_list_is_a_contradiction)
{
	static const struct {
		enum hr_src source;
		uint32_t secondary;
		bool good;
	} row[] = {
		{ HR_SRC_NONE, 0, true },   { HR_SRC_INFERRED, 3, true },
		{ HR_SRC_XML, 3, true },    { HR_SRC_TEXT, 3, false },
		{ HR_SRC_TEXT, 2, true },   { HR_SRC_CONFIG, 1, false },
		{ HR_SRC_CONFIG, 2, true },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fn *f;
		int got;

		hr_model_reset(&model);
		hr_error_clear(&model.error);
		memset(&tree, 0, sizeof tree);
		f = hr_model_add(&model, 0, 0, 1, 0);
		f->line = 4;
		if (row[i].source)
			hr_fn_set(f, HR_F_SECONDARY, row[i].secondary, row[i].source);
		cr_expect_eq(hr_tree_line(&tree, &model, "-[00]-+-00.0", 7), 1);
		got = hr_tree_line(&tree, &model, "      \\-01.0-[02]---00.0", 8);
		cr_expect_eq(got, row[i].good ? 1 : -EINVAL, "row %zu: %d", i, got);
		cr_expect_str_eq(model.error.text,
				 row[i].good ? ""
					     : "line 7: a second capture begins here and "
					       "contradicts the first: 0000:00:01.0 secondary is "
					       "different; keep one of them");
		f = &model.fn[hr_model_find(&model, 0, 0, 1, 0)];
		cr_expect_eq(f->line, 4u);
		cr_expect_eq(hr_get(f, HR_F_SECONDARY, 0), row[i].good ? 2 : row[i].secondary);
		cr_expect_eq(model.count, row[i].good ? 3u : 2u);
	}
}

Test(topo_tree_lines, a_contradiction_in_the_first_line_is_returned)
{
	hr_fn_set(hr_model_add(&model, 0, 0, 1, 0), HR_F_SECONDARY, 3, HR_SRC_TEXT);
	cr_expect_eq(hr_tree_line(&tree, &model, "-[00]---01.0-[02]---00.0", 9), -EINVAL);
}

/* A branch in the last column that is kept, and in the one after it. */
Test(topo_tree_lines, columns_have_a_limit)
{
	char line[HR_TREE_COLUMNS + 16];

	for (unsigned more = 0; more < 2; more++) {
		const unsigned at = HR_TREE_COLUMNS - 1 + more;

		hr_model_reset(&model);
		memset(&tree, 0, sizeof tree);
		memset(line, '-', sizeof line);
		memcpy(line, "-[00]", 5);
		memcpy(line + at, "+-00.0", 7);
		cr_expect_eq(hr_tree_line(&tree, &model, line, 1), 1);
		memset(line, ' ', at);
		memcpy(line + at, "+-01.0", 7);
		cr_expect_eq(hr_tree_line(&tree, &model, line, 2), more ? 0 : 1);
		cr_expect_eq(model.count, more ? 1u : 2u);
	}
}
