/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrices of vendors' tools: hostile and unusual text, limits, and what becomes a fact of the model.
 */
#include "pci/topo/lspci/text.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/source/source.h"

static struct hr_model model;

static void begin(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void end(void)
{
	hr_model_fini(&model);
}

TestSuite(smi, .init = begin, .fini = end, .timeout = 60);

static int parse(const char *text)
{
	hr_model_reset(&model);
	return hr_source_parse(&model, "x", text, strlen(text));
}

/* More columns than devices that are kept, long names and numbers, cells without a column. */
Test(smi, limits)
{
	static char text[1 << 20];
	size_t used = 0;

	for (unsigned i = 0; i < 3 * HR_SMI_MAX; i++)
		used += (size_t)sprintf(text + used, "\tGPU%u", i);
	used += (size_t)sprintf(text + used, "\n");
	for (unsigned i = 0; i < 3 * HR_SMI_MAX; i++) {
		used += (size_t)sprintf(text + used, "GPU%u", i);
		for (unsigned j = 0; j < 3 * HR_SMI_MAX; j++)
			used += (size_t)sprintf(text + used, "\tNV99999999999999999999");
		used += (size_t)sprintf(text + used, "\n");
	}
	cr_expect_eq(parse(text), -ENODATA);
	cr_assert_not_null(model.smi);
	cr_expect_eq(model.smi->devices, HR_SMI_MAX);
	cr_expect_gt(model.smi->left_out, 0);
	memset(text, 'A', 5000);
	strcpy(text + 5000, "\nGPU0 GPU1 ");
	memset(text + strlen(text), 'n', 3000);
	strcpy(text + 8011, "\nGPU0 X PIX PIX PIX\nGPU1 PIX X\n");
	cr_expect_eq(parse(text), -ENODATA);
	cr_expect_lt(model.smi->devices, 3);
}

Test(smi, words_of_answers)
{
	for (unsigned i = HR_P2P_OK; i < HR_P2P_STATUSES; i++) {
		const char *word = hr_p2p_word((enum hr_p2p_status)i);

		cr_expect_eq(hr_p2p_status_of(word, strlen(word)), i);
		cr_expect_neq(*hr_p2p_meaning((enum hr_p2p_status)i), '\0');
	}
	cr_expect_eq(hr_p2p_status_of("GNSX", 4), HR_P2P_UNREAD);
	cr_expect_eq(hr_p2p_status_of("", 0), HR_P2P_UNREAD);
	for (unsigned i = 0; i < HR_P2P_ACCESSES; i++)
		cr_expect_eq(hr_p2p_access_of(hr_p2p_letter((enum hr_p2p_access)i)), i);
	cr_expect_eq(hr_p2p_access_of('\0'), HR_P2P_ACCESSES);
}

Test(smi, a_better_source_of_an_answer_wins)
{
	struct hr_p2p answer = { .from = 1, .to = 2, .source = HR_SRC_SYSFS };

	answer.status[HR_P2P_READ] = HR_P2P_OK;
	cr_expect_eq(hr_p2p_add(&model, &answer), 0);
	answer.source = HR_SRC_INFERRED;
	answer.status[HR_P2P_READ] = HR_P2P_GNS;
	answer.status[HR_P2P_WRITE] = HR_P2P_NS;
	cr_expect_eq(hr_p2p_add(&model, &answer), 0);
	cr_expect_eq(model.p2ps, 1);
	cr_expect_eq(model.p2p[0].status[HR_P2P_READ], HR_P2P_OK);
	cr_expect_eq(model.p2p[0].status[HR_P2P_WRITE], HR_P2P_NS);
	for (uint64_t i = 0; i < HR_P2P_MAX; i++) {
		answer.to = 100 + i;
		cr_expect_eq(hr_p2p_add(&model, &answer), i + 1 < HR_P2P_MAX ? 0 : -E2BIG);
	}
}
