/* SPDX-License-Identifier: Apache-2.0 */
/* Equal pairs, their headlines, the merged matrix, and the length of the whole output. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/headline.h"
#include "boot/cmd/topo/views/views.h"
#include "pci/topo/fields.h"
#include "tests/harness/box.h"

static struct fake_machine box;
static struct hr_topo topo;

static void clean_up(void)
{
	hr_model_fini(&topo.model);
	memset(&topo, 0, sizeof topo);
}

TestSuite(topo_headlines, .fini = clean_up, .timeout = 60);

static struct hr_survey *survey(void)
{
	struct hr_survey *s;

	fake_box_evaluate(&box, &topo);
	s = hr_survey_new(&topo);
	cr_assert_not_null(s);
	return s;
}

static void table(struct hr_topo *t)
{
	hr_topo_table(t);
}

/* Fails when a line is longer than 100 columns; returns the number of lines. */
static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (const char *end; (end = strchr(text, '\n')); text = end + 1, n++)
		cr_expect_leq(end - text, 100, "%.*s", (int)(end - text), text);
	return n;
}

static void redirect(unsigned on_switch, unsigned at)
{
	fake_put(fake_box_port(&box, on_switch, at), FAKE_ACS + HR_ACS_CTL, 2, 0x1d);
}

Test(topo_headlines, equal_pairs_of_all_switches_share_a_headline)
{
	struct hr_headline h;
	struct hr_survey *s;

	fake_box(&box, 4, 2, 6);
	s = survey();
	cr_assert_eq(s->classes, 2);
	cr_expect(s->class[0].same_switch && !s->class[1].same_switch);
	cr_expect_eq(s->class[0].pairs, 48);
	cr_expect_eq(s->class[1].pairs, 144);
	cr_expect_eq(s->rows, 4);
	cr_expect_eq(s->columns, 4);
	hr_headline_make(&topo, &s->class[0], &h);
	cr_expect_str_eq(h.members,
			 "GPU0-1 with NVME0-5, GPU2-3 with NVME6-11, GPU4-5 with NVME12-17, "
			 "GPU6-7 with NVME18-23");
	cr_expect_str_eq(h.what, "share a switch: data goes direct");
	cr_expect_str_eq(h.remedy, "");
	cr_expect_gt(h.alone_gbs, 6);
	hr_headline_make(&topo, &s->class[1], &h);
	cr_expect_str_eq(h.members, "GPU0-1 with NVME6-23, GPU2-3 with NVME0-5,12-23, GPU4-5 with "
				    "NVME0-11,18-23, GPU6-7 with NVME0-17");
	hr_survey_free(s);
}

Test(topo_headlines, redirect_is_reported_with_rate_and_remedy)
{
	struct hr_headline h;
	struct hr_survey *s;

	fake_box(&box, 1, 2, 6);
	redirect(0, 0);
	redirect(0, 1);
	s = survey();
	cr_assert_eq(s->classes, 1);
	hr_headline_make(&topo, &s->class[0], &h);
	cr_expect_str_eq(h.members, "GPU0-1 with NVME0-5");
	cr_expect_not_null(strstr(h.what, "share a switch, but ACS sends the data through"));
	/* The total capacity of the root complex is not known. */
	cr_expect_not_null(strstr(h.rate, "at most "), "%s", h.rate);
	cr_expect(h.bound);
	cr_expect_not_null(strstr(h.remedy, "2 setpci commands, or "
					    "pci=disable_acs_redir=0000:02:00.0;0000:02:01.0"),
			   "%s", h.remedy);
	hr_survey_free(s);
}

/*
 * The headline names the ports of the redirect in its remedy; headlines of other verdicts do not.
 */
Test(topo_headlines, a_redirect_in_the_headline_has_no_note)
{
	struct hr_note note[HR_NOTES_MAX];
	struct hr_survey *s;
	unsigned n, found = 0;

	for (unsigned blocked = 0; blocked < 2; blocked++) {
		fake_box(&box, 1, 2, 2);
		redirect(0, 0);
		for (unsigned i = 0; blocked && i < 4; i++)
			fake_put(fake_box_card(&box, 0, i), HR_CFG_COMMAND, 2, HR_COMMAND_MSE);
		s = survey();
		n = hr_notes_find(&topo, s, note);
		found = 0;
		for (unsigned i = 0; i < n; i++)
			found += strcmp(hr_rules[note[i].rule].id, "A1-port") == 0;
		cr_expect_eq(found, blocked);
		hr_survey_free(s);
	}
}

Test(topo_headlines, direct_until_the_next_boot_is_reported)
{
	struct hr_headline h;
	struct hr_survey *s;

	fake_box(&box, 1, 1, 2);
	/*
	 * A boot does not change functions without ACS controls: the port above the switch, GPU0,
	 * NVME0.
	 */
	fake_put(fake_box_port(&box, 0, 0) - 1, FAKE_ACS + HR_ACS_CAP, 2, 0);
	for (unsigned at = 0; at < 2; at++) {
		fake_put(fake_box_port(&box, 0, at), FAKE_ACS + HR_ACS_CAP, 2, 0);
		fake_put(fake_box_card(&box, 0, at), FAKE_ACS + HR_ACS_CAP, 2, 0);
	}
	topo.opt.iommu = HR_IOMMU_PT;
	s = survey();
	cr_assert_eq(s->classes, 2);
	for (uint32_t i = 0; i < 2; i++) {
		hr_headline_make(&topo, &s->class[i], &h);
		cr_expect_eq(s->class[i].pair.verdict, HR_DIRECT);
		cr_expect_str_eq(h.what,
				 strcmp(h.members, "GPU0 with NVME0") == 0
					 ? "share a switch: data goes direct"
					 : "share a switch: data goes direct until the next boot");
	}
	cr_expect_eq(s->rows, 1, "a cell of the matrix is of now");
	hr_survey_free(s);
}

Test(topo_headlines, one_redirected_card_is_a_group_of_its_own)
{
	struct hr_headline h;
	struct hr_survey *s;

	fake_box(&box, 1, 2, 6);
	redirect(0, 2);
	s = survey();
	cr_assert_eq(s->classes, 2);
	/* The worse headline comes first. */
	hr_headline_make(&topo, &s->class[0], &h);
	cr_expect_str_eq(h.members, "GPU0-1 with NVME0");
	hr_headline_make(&topo, &s->class[1], &h);
	cr_expect_str_eq(h.members, "GPU0-1 with NVME1-5");
	cr_expect_eq(s->rows, 2);
	cr_expect_eq(s->columns, 1);
	hr_survey_free(s);
}

Test(topo_headlines, a_narrow_link_and_another_kernel_verdict_set_pairs_apart)
{
	struct hr_survey *s;

	fake_box(&box, 1, 1, 3);
	fake_put(fake_box_card(&box, 0, 2), FAKE_EXP + HR_EXP_LNKSTA, 2, 2 << 4 | 4);
	s = survey();
	cr_assert_eq(s->classes, 2);
	cr_expect_neq(s->class[0].pair.modifiers & HR_MOD_LINK,
		      s->class[1].pair.modifiers & HR_MOD_LINK);
	hr_survey_free(s);
	/* A recorded error is only information and does not separate pairs. */
	fake_box(&box, 1, 1, 3);
	fake_put(fake_box_card(&box, 0, 2), FAKE_AER + 0x10, 4, 1);
	s = survey();
	cr_expect_eq(s->classes, 1);
	hr_survey_free(s);
}

Test(topo_headlines, the_same_fault_of_several_cards_is_reported_once)
{
	struct hr_headline h;
	struct hr_survey *s;

	fake_box(&box, 2, 1, 3);
	for (unsigned i = 1; i <= 3; i++)
		fake_put(fake_box_card(&box, 0, i), HR_CFG_COMMAND, 2, HR_COMMAND_MSE);
	s = survey();
	cr_expect_eq(s->class[0].pair.verdict, HR_BLOCKED);
	hr_headline_make(&topo, &s->class[0], &h);
	cr_expect_str_eq(h.members, "GPU0 with NVME0-2");
	cr_expect_str_eq(h.what,
			 "no path: 0000:04:00.0: bus mastering is off (COMMAND 0x0002) (and "
			 "the same at 2 other functions)");
	cr_expect_str_eq(h.rate, "");
	cr_expect_str_eq(h.remedy, "setpci -s 0000:04:00.0 COMMAND=0004:0004");
	hr_survey_free(s);
}

Test(topo_headlines, eight_gpus_and_24_ssds_fit_a_screen)
{
	char *text;

	fake_box(&box, 4, 2, 6);
	fake_box_evaluate(&box, &topo);
	text = fake_box_print(&topo, table);
	cr_expect_leq(lines_of(text), 60, "%s", text);
	cr_expect_eq(strncmp(text, "48 pairs share a switch: 48 DIRECT; 144 pairs do not", 52), 0,
		     "%s", text);
	cr_expect_not_null(strstr(text, "NVME12-17"));
	free(text);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned at = 0; at < 8; at++)
			redirect(i, at);
	fake_box_evaluate(&box, &topo);
	text = fake_box_print(&topo, table);
	cr_expect_leq(lines_of(text), 60, "%s", text);
	cr_expect_not_null(strstr(text, "32 setpci commands"), "%s", text);
	free(text);
}

/* Every card differs from the next one, so no rows are merged. */
Test(topo_headlines, eight_gpus_and_24_different_ssds_fit_a_screen)
{
	char *text;

	fake_box(&box, 4, 2, 6);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned at = 0; at < 8; at++) {
			struct fake_fn *f = fake_box_card(&box, i, at);

			snprintf(f->title, sizeof f->title, "Class: Vendor Model %u of %u", at, i);
			if (at % 3 == 0)
				redirect(i, at);
			if (at % 4 == i)
				fake_put(f, FAKE_EXP + HR_EXP_LNKSTA, 2, 1 << 4 | 4);
			if (at == 5)
				fake_put(f, HR_CFG_COMMAND, 2, HR_COMMAND_MSE);
			if (at == 6)
				fake_put(f, FAKE_PM + HR_PM_CTL, 2, 3);
			fake_put(f, FAKE_AER + 0x10, 4, 1u << i);
		}
	fake_box_evaluate(&box, &topo);
	text = fake_box_print(&topo, table);
	cr_expect_leq(lines_of(text), 60, "%s", text);
	cr_expect_gt(lines_of(text), 20, "%s", text);
	free(text);
	topo.all = true;
	text = fake_box_print(&topo, table);
	cr_expect_gt(strlen(text), 192u * 80, "each pair has a line");
	free(text);
}

Test(topo_headlines, a_matrix_of_eight_columns_is_shortened_to_fit)
{
	char *text;

	fake_box(&box, 8, 1, 2);
	for (unsigned i = 0; i < 8; i++)
		redirect(i, 0);
	fake_box_evaluate(&box, &topo);
	text = fake_box_print(&topo, table);
	lines_of(text);
	cr_expect_not_null(strstr(text, "GPU7\n"), "%s", text);
	cr_expect_not_null(strstr(text, "\nNVME0-1"), "%s", text);
	cr_expect_not_null(strstr(text, "REDIR?"), "%s", text);
	free(text);
}

Test(topo_headlines, pairs_behind_one_switch_are_selected_by_option)
{
	struct hr_topo_sum sum;
	struct hr_survey *s;
	char text[512], *said;

	fake_box(&box, 4, 2, 6);
	topo.same_switch_only = true;
	s = survey();
	cr_expect_eq(s->classes, 1);
	cr_expect_eq(s->sum.pairs, 48);
	cr_expect_eq(s->sum.exit, HR_TOPO_DIRECT);
	cr_expect_str_eq(hr_headline_answer(s, text), "48 pairs share a switch: 48 DIRECT");
	hr_survey_free(s);
	hr_topo_sum_up(&topo, &sum);
	cr_expect_eq(sum.pairs, 48);
	/* One SSD per switch, and a single GPU: no pair is wanted. */
	fake_box(&box, 2, 0, 1);
	box.fn[box.count - 1].config[HR_CFG_CLASS + 2] = 3;
	box.fn[box.count - 1].config[HR_CFG_CLASS + 1] = 2;
	fake_put(&box.fn[box.count - 1], HR_CFG_VENDOR, 2, 0x10de);
	fake_box_evaluate(&box, &topo);
	hr_topo_sum_up(&topo, &sum);
	cr_expect_eq(sum.exit, HR_TOPO_NONE);
	said = fake_box_print(&topo, table);
	cr_expect_not_null(strstr(said, "no pair of 1 GPU and 1 NVMe controller shares a switch"),
			   "%s", said);
	free(said);
}

Test(topo_headlines, one_gpu_and_one_ssd_need_no_matrix)
{
	char *text;

	fake_box(&box, 1, 1, 1);
	fake_box_evaluate(&box, &topo);
	text = fake_box_print(&topo, table);
	lines_of(text);
	cr_expect_not_null(strstr(text, "\nGPU0 with NVME0 (1 pair):\n"), "%s", text);
	cr_expect_null(strstr(text, "PIX one switch"), "%s", text);
	free(text);
}

Test(topo_headlines, the_headline_of_a_machine_without_a_gpu_names_the_lack)
{
	char *text;

	fake_box(&box, 1, 0, 2);
	fake_box_evaluate(&box, &topo);
	text = fake_box_print(&topo, table);
	cr_expect_eq(strncmp(text, "no pair to evaluate: 0 GPUs, 2 NVMe", 35), 0, "%s", text);
	cr_expect_not_null(strstr(text, "NVME0-1"), "%s", text);
	free(text);
}

Test(topo_headlines, sets_of_indices_are_runs)
{
	struct hr_set set = { .count = 0 };
	char text[32];

	hr_set_add(&set, 0);
	hr_set_add(&set, 1);
	hr_set_add(&set, 2);
	hr_set_add(&set, 7);
	cr_expect_str_eq(hr_set_text("NVME", &set, text, sizeof text), "NVME0-2,7");
	for (uint32_t i = 10; i < 200; i += 2)
		hr_set_add(&set, i);
	cr_expect_eq(set.count, 99);
	cr_expect_str_eq(hr_set_text("NVME", &set, text, sizeof text), "NVME0-2,7,10,12,14,16,+91");
}

Test(topo_headlines, words_are_never_broken_and_lines_never_long)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	char word[131];

	memset(word, 'x', 130);
	word[130] = '\0';
	hr_print_wrapped(out, 0, 2, word);
	hr_print_wrapped(out, 98, 4, "a b  c");
	hr_print_wrapped(out, 5, 4, "");
	fclose(out);
	cr_expect_eq(strncmp(text, word, 130), 0);
	cr_expect_str_eq(text + 130, "\na\n    b c\n\n");
	free(text);
}
