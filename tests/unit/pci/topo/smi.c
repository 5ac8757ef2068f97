/*
 * Matrices of vendors' tools: hostile and unusual text, limits, and what becomes a fact of the model.
 */
#include "pci/topo/smi.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/source.h"

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

static const struct hr_smi_cell *cell(unsigned i, unsigned j)
{
	return &model.smi->cell[i][j];
}

Test(smi, a_text_without_functions_is_an_error_that_keeps_the_matrix)
{
	cr_expect_eq(
		parse("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-3\nGPU1\tPIX\t X \t0-3\n"),
		-ENODATA);
	cr_assert_not_null(model.smi);
	cr_expect_eq(model.count, 0);
	cr_expect_eq(model.smi->devices, 2);
	cr_expect_eq(cell(0, 1)->distance, HR_SMI_PIX);
	cr_expect_str_eq(model.smi->device[1].cpus, "0-3");
	cr_expect_not_null(strstr(model.error.text, "nvidia-smi topo"));
}

/* The escape character may be lost, and a terminal underlines the header. */
Test(smi, escape_sequences_and_old_words)
{
	cr_expect_eq(parse("  [4mGPU0   GPU1   mlx4_0  CPU Affinity[0m\n"
			   "GPU0   X   SOC   PHB  0-7\nGPU1  SOC  X  \033[1mPSB\033[0m\n"
			   "mlx4_0 PHB PSB X\n"),
		     -ENODATA);
	cr_assert_not_null(model.smi);
	cr_assert_eq(model.smi->devices, 3);
	cr_expect_eq(cell(0, 1)->distance, HR_SMI_SYS);
	cr_expect_eq(cell(1, 2)->distance, HR_SMI_PIX);
	cr_expect_not(model.smi->device[2].gpu);
	cr_expect_str_eq(model.smi->device[2].device, "mlx4_0");
}

Test(smi, text_that_is_no_matrix)
{
	static const char *const row[] = {
		"GPU0 and GPU1 are fine\n",
		"GPU0\n",
		"GPU0 X PIX\n",
		"GPU0 GPU1\n", /* a header alone */
		"GPU 0: NVIDIA H100 (UUID: GPU-1)\n",
		"[4m[0m\n[;;;;\n\033\n\033[\n",
		"LINK TYPE TABLE:\n",
		"= Weight between two GPUs =\nGPU0\nGPU0\n",
		"nvidia-smi topo -p2p\n",
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(parse(row[i]), -ENODATA, "%s", row[i]);
		cr_expect(!model.smi || model.smi->rows == 0, "%s", row[i]);
	}
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

static const char functions[] =
	"01:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b0]\n\n"
	"02:00.0 VGA compatible controller [0300]: ASPEED [1a03:2000]\n\n"
	"0002:01:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b0]\n\n";
static const char answers[] =
	"$ nvidia-smi topo -p2p rw\n\tGPU0\tGPU1\n GPU0\tX\tTNS\n GPU1\tOK\tX\n"
	"$ nvidia-smi topo -m\n\tGPU0\tGPU1\nGPU0\tX\tNV12\nGPU1\tNV12\tX\n";

Test(smi, gpus_are_in_the_order_of_their_addresses)
{
	const uint64_t a = 0x100, b = (uint64_t)2 << 16 | 0x100;
	const struct hr_p2p *there, *back;
	enum hr_fabric fabric;
	char text[2048];
	bool through;

	for (unsigned first = 0; first < 2; first++) {
		snprintf(text, sizeof text, "%s%s", first ? answers : functions,
			 first ? functions : answers);
		cr_assert_eq(parse(text), 0, "%s", model.error.text);
		there = hr_p2p_find(&model, a, b);
		back = hr_p2p_find(&model, b, a);
		cr_assert(there && back);
		cr_expect_eq(there->status[HR_P2P_READ], HR_P2P_TNS);
		cr_expect_eq(there->status[HR_P2P_WRITE], HR_P2P_TNS);
		cr_expect_eq(there->status[HR_P2P_ATOMICS], HR_P2P_UNREAD);
		cr_expect_eq(back->status[HR_P2P_READ], HR_P2P_OK);
		cr_expect_eq(hr_p2p_between(&model, b, a), HR_P2P_TNS);
		cr_expect_eq(hr_gpu_links(&model, a, b, &fabric, &through), 12);
	}
}

Test(smi, another_number_of_gpus_is_a_warning)
{
	char text[2048];

	snprintf(text, sizeof text, "%s%s",
		 "01:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b0]\n\n", answers);
	cr_assert_eq(parse(text), 0, "%s", model.error.text);
	cr_expect_eq(model.p2ps, 0);
	cr_expect_eq(model.gpu_links, 0);
	cr_expect_eq(model.warnings, 1);
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
