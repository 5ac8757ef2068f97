/* SPDX-License-Identifier: Apache-2.0 */
/* Texts about a GPU: features that it supports, and registers of the worker code. */
#include "gpu/facts.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(facts, .timeout = 60);

static struct hr_gpu_facts gpu = { .pci = "0000:41:00.0",
				   .driver = "580.159.04",
				   .interface = 13020,
				   .capability = 103,
				   .processors = 132,
				   .memory_bytes = 143ull << 30 | 1u << 29,
				   .block_registers = 65536 };

#define BEGIN "0000:41:00.0, driver 580.159.04 (CUDA 13.2), capability 10.3, 132 SMs, 143.5 GiB"

Test(facts, the_line_names_the_device_and_what_it_supports)
{
	char text[512];

	hr_gpu_facts_text(&gpu, text, sizeof text);
	cr_expect_str_eq(text, BEGIN);
	gpu.dma_buf = true;
	hr_gpu_facts_text(&gpu, text, sizeof text);
	cr_expect_str_eq(text, BEGIN "; supports DMA-BUF");
	gpu.virtual_memory = gpu.ordered_for_all = true;
	hr_gpu_facts_text(&gpu, text, sizeof text);
	cr_expect_str_eq(text, BEGIN "; supports virtual memory management, DMA-BUF, "
				     "device writes in order for all GPUs");
	gpu.driver[0] = '\0';
	hr_gpu_facts_text(&gpu, text, sizeof text);
	cr_expect(strstr(text, ", driver (CUDA 13.2), "), "%s", text);
}

Test(facts, a_line_is_cut_off_at_the_end_of_its_buffer)
{
	char whole[512], text[512];

	memset(&gpu.virtual_memory, true, 3);
	hr_gpu_facts_text(&gpu, whole, sizeof whole);
	for (size_t bytes = 1; bytes <= strlen(whole) + 1; bytes++) {
		memset(text, 'x', sizeof text);
		hr_gpu_facts_text(&gpu, text, bytes);
		cr_assert_eq(strlen(text), bytes - 1);
		cr_assert_eq(strncmp(text, whole, bytes - 1), 0, "%s", text);
		cr_assert_eq(text[bytes], 'x', "%zu", bytes);
	}
}

Test(facts, versions_are_split_at_thousands_and_tens)
{
	char text[512];

	gpu.interface = 12000;
	gpu.capability = 90;
	hr_gpu_facts_text(&gpu, text, sizeof text);
	cr_expect(strstr(text, "(CUDA 12.0), capability 9.0,"), "%s", text);
	gpu.interface = 11990;
	gpu.capability = 129;
	hr_gpu_facts_text(&gpu, text, sizeof text);
	cr_expect(strstr(text, "(CUDA 11.99), capability 12.9,"), "%s", text);
}

/* Each feature stands for a field of its own, and no field is left out. */
Test(facts, each_feature_has_a_field)
{
	const bool *const field[] = {
		&gpu.virtual_memory,
		&gpu.cooperative,
		&gpu.host_register,
		&gpu.host_pointer,
		&gpu.fd_handles,
		&gpu.dma_buf,
		&gpu.rdma,
		&gpu.rdma_virtual_memory,
		&gpu.compressible,
		&gpu.flush_from_host,
		&gpu.flush_from_stream,
		&gpu.ordered_for_owner,
		&gpu.ordered_for_all,
	};
	const unsigned fields = sizeof field / sizeof *field;
	bool supported;

	for (unsigned f = 0; f < fields; f++) {
		bool *const one = (bool *)((char *)&gpu + ((const char *)field[f] - (char *)&gpu));

		*one = true;
		for (unsigned i = 0; i < fields; i++) {
			cr_assert_not_null(hr_gpu_feature(&gpu, i, &supported));
			cr_expect_eq(supported, i == f, "field %u, feature %u", f, i);
		}
		*one = false;
	}
	cr_expect_null(hr_gpu_feature(&gpu, fields, &supported));
}

static void set_roles(void)
{
	gpu.roles = 3;
	gpu.role[0] = (struct hr_entry_facts){ .name = "prefetch", .registers = 99 };
	gpu.role[1] = (struct hr_entry_facts){ .name = "compute", .registers = 96 };
	gpu.role[2] = (struct hr_entry_facts){ .name = "writeback", .registers = 95 };
	gpu.entry[0] = (struct hr_entry_facts){ .registers = 124, .max_threads = 512 };
}

Test(facts, the_registers_of_each_role_are_listed)
{
	char text[512];

	gpu.roles = 0;
	hr_gpu_roles_text(&gpu, text, sizeof text);
	cr_expect_str_eq(text, "");
	set_roles();
	hr_gpu_roles_text(&gpu, text, sizeof text);
	cr_expect_str_eq(text, "prefetch 99, compute 96, writeback 95, all in one launch 124; "
			       "a block of 512 threads can have 128 each");
	gpu.entry[0].max_threads = 0;
	hr_gpu_roles_text(&gpu, text, sizeof text);
	cr_expect_str_eq(text, "");
}

Test(facts, a_list_of_registers_is_cut_off_at_the_end_of_its_buffer)
{
	char whole[512], text[512];

	set_roles();
	hr_gpu_roles_text(&gpu, whole, sizeof whole);
	for (size_t bytes = 1; bytes <= strlen(whole) + 1; bytes++) {
		memset(text, 'x', sizeof text);
		hr_gpu_roles_text(&gpu, text, bytes);
		cr_assert_eq(strlen(text), bytes - 1, "%zu: %s", bytes, text);
		cr_assert_eq(strncmp(text, whole, bytes - 1), 0, "%s", text);
		cr_assert_eq(text[bytes], 'x', "%zu", bytes);
	}
}
