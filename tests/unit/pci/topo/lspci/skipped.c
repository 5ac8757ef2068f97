/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a capture that are counted as skipped, and those that any text around lspci has. */
#include "pci/topo/lspci/text.h"

#include <criterion/criterion.h>
#include <string.h>

static struct hr_model model;

static void up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_skipped, .init = up, .fini = down, .timeout = 60);

Test(topo_skipped, text_around_lspci_does_not_matter)
{
	static const struct {
		const char *line;
		bool matters;
	} row[] = {
		{ "my box is slow", true },
		{ "03:00.0", true },
		{ "0000:03:00.0 Frobnicator", true },
		{ "GPU 0: NVIDIA X", true },
		{ "costs 5 $ or more", true },
		{ "", false },
		{ "\t ", false },
		{ "```", false },
		{ "-----", false },
		{ "## Hardware", false },
		{ "<details>", false },
		{ "{noformat}", false },
		{ "[code]", false },
		{ "  \"rc\": 0", false },
		{ "Output:", false },
		{ "$ uname -a", false },
		{ "# uname -a", false },
		{ "root@box:~# exit", false },
		{ "[root@box ~]# exit", false },
		{ "box$ ls", false },
		{ "sudo lspci -vv", false },
		{ "pcilib: sysfs_read_vpd: read failed", false },
		{ "Script started on 2026-03-02", false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_skipped_matters(row[i].line), row[i].matters, "'%s'", row[i].line);
}

Test(topo_skipped, the_first_line_is_kept)
{
	char text[256];

	cr_expect_not(hr_skipped_text(&model, text, sizeof text));
	hr_skipped_add(&model, 2, "# x");
	cr_expect_not(hr_skipped_text(&model, text, sizeof text));
	hr_skipped_add(&model, 3, "one\033[m");
	cr_assert(hr_skipped_text(&model, text, sizeof text));
	cr_expect_str_eq(text, "1 line skipped, the first is line 3: one?[m");
	hr_skipped_add(&model, 9, "two");
	cr_assert(hr_skipped_text(&model, text, sizeof text));
	cr_expect_str_eq(text, "2 lines skipped, the first is line 3: one?[m");
}
