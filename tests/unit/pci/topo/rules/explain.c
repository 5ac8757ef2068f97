/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of rules and lines of a boot end within their buffers, and evaluations with too little memory
 * are refused. */
#include "pci/topo/rules/explain.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/boot/boot.h"
#include "pci/topo/rules/groups.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_explain, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

#define ROOM 4096u

/* A pair below a switch with redirects, so that each variable of a template has a value. */
static void pair(struct hr_pair *p)
{
	static const struct hr_topo_options opt = { 0 };

	fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_ISOLATION);
	fake_put(fake_find(&machine, "02:01.0"), ACS, 2, HR_ACS_ISOLATION);
	snprintf(machine.head, sizeof machine.head, "headrace: iommu=3\n");
	fake_evaluate(SIBLING, &opt, p);
}

/* Nothing is written behind a buffer of any size, and the size of the text suffices. */
static void expect_cut(const struct hr_pair *p, unsigned rule, int32_t fn, const char *template)
{
	const struct hr_finding found = { (uint8_t)rule, fn, 0xf };
	static char whole[ROOM], cut[ROOM + 16];
	size_t bytes;

	hr_rule_text(&topology, p, &found, template, whole, sizeof whole);
	bytes = strlen(whole);
	cr_assert_lt(bytes, ROOM - 1, "%s", hr_rules[rule].id);
	for (size_t size = 1; size <= bytes + 1; size++) {
		memset(cut, '#', sizeof cut);
		hr_rule_text(&topology, p, &found, template, cut, size);
		cr_assert_not_null(memchr(cut, '\0', size), "%s, %zu bytes", hr_rules[rule].id,
				   size);
		cr_assert_eq(cut[size], '#', "%s, %zu bytes", hr_rules[rule].id, size);
	}
	cr_expect_str_eq(cut, whole);
}

Test(topo_explain, texts_end_within_their_buffers)
{
	struct hr_pair p;

	pair(&p);
	for (unsigned r = 0; r < hr_rules_count; r++) {
		const int32_t fn = fake_at(r % 2 ? "02:00.0" : SIBLING);

		expect_cut(&p, r, fn, hr_rules[r].why);
		if (hr_rules[r].fix)
			expect_cut(&p, r, fn, hr_rules[r].fix);
	}
}

static int evaluate(void)
{
	static const struct hr_topo_options none;

	return hr_topology_init(&topology, &model, &none);
}

static int predict(void)
{
	static struct hr_groups groups;

	return hr_groups_predict(&model, &groups);
}

static int predict_boot(void)
{
	static struct hr_groups groups;
	static struct hr_next_boot boot;

	hr_next_boot_predict(&model, hr_kernel_of_release("6.8"), HR_IOMMU_UNKNOWN, "iommu=pt",
			     &boot);
	return hr_groups_at_boot(&model, &boot, &groups);
}

/* Try each amount of memory that is too small. */
Test(topo_explain, too_little_memory_is_reported)
{
	int (*const part[])(void) = { evaluate, predict, predict_boot };
	struct hr_pair p;

	pair(&p);
	for (unsigned i = 0; i < sizeof part / sizeof *part; i++) {
		const size_t used = model.used, reserved = model.reserved;
		unsigned refused = 0;

		for (size_t room = 0;; room += 8) {
			int err;

			model.reserved = used + room;
			err = part[i]();
			model.reserved = reserved;
			hr_model_release(&model, used);
			if (!err)
				break;
			cr_assert_eq(err, -ENOMEM, "part %u, %zu bytes: %d", i, room, err);
			refused++;
		}
		cr_expect_gt(refused, 3u, "part %u", i);
	}
}

/* The line of a boot: words that decide the mode are replaced, the others stay as they are. */
Test(topo_explain, the_line_of_a_boot_has_the_other_words)
{
	static const struct {
		const char *now, *want;
	} row[] = {
		{ "", "" },
		{ "quiet iommu=off x intel_iommu=off amd_iommu=off iommu.passthrough=0",
		  "quiet x " },
		{ "\"pci=a b\"  y=\"c d\" z=\"e\"", "\"pci=a b\" y=\"c d\" z=\"e\" " },
	};
	static char line[HR_CMDLINE_MAX], want[HR_CMDLINE_MAX];
	struct hr_pair p;

	pair(&p);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		strcpy(model.sys.cmdline, row[i].now);
		snprintf(want, sizeof want, "%s%s", row[i].want,
			 hr_next_boot_cmdline(&model, HR_IOMMU_PT, line));
		cr_expect_str_eq(line, want);
	}
}

/* A last word in quotes has its place with its marks, or is left out. */
Test(topo_explain, the_line_of_a_boot_ends_within_its_buffer)
{
	static char line[HR_CMDLINE_MAX + 64];
	char *now = model.sys.cmdline;
	struct hr_pair p;

	pair(&p);
	for (unsigned n = HR_CMDLINE_MAX - 12; n <= HR_CMDLINE_MAX - 6; n++) {
		memset(now, 'a', n);
		strcpy(now + n, " \"b c");
		memset(line, '#', sizeof line);
		hr_next_boot_cmdline(&model, HR_IOMMU_PT, line);
		cr_expect_lt(strlen(line), HR_CMDLINE_MAX, "%u", n);
		cr_expect_eq(line[HR_CMDLINE_MAX], '#', "%u", n);
		cr_expect_eq(strncmp(line + n, " \"b c\" ", 7) == 0, n < HR_CMDLINE_MAX - 8,
			     "%u: %s", n, line + n);
	}
}
