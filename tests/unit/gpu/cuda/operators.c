/* SPDX-License-Identifier: Apache-2.0 */
/* User operators in the bring-up of an appliance with a GPU, over a fake driver. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/bringup/stages.h"
#include "config/file/file.h"
#include "gpu/ops/operator.h"
#include "tests/fakes/cuda.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

static struct hr_engine *engine;

static void begin(void)
{
	static const char text[] =
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\"; } );\n"
		"gpus = ( { name = \"g\"; device = \"cuda:0\"; } );\n"
		"operators = (\n{ name = \"liar\"; file = \"liar.op\"; } );\n"
		"pipelines = (\n"
		"{ name = \"p\"; source = { object = \"o\"; }; operator = \"crc32c\"; },\n"
		"{ name = \"q\"; source = { object = \"o\"; }; operator = \"liar\";\n"
		"  args = { lie = \"none\"; }; sink = { object = \"x\"; }; } );\n";

	fake_cuda_reset();
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	cr_assert_eq(hr_config_parse(&engine->config, &hr_lookup, TEST_OPS "/f", text,
				     sizeof text - 1, test_error()),
		     0, "%s", test_error_text());
}

static void end(void)
{
	free(engine);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

TestSuite(cuda_operators, .timeout = 60, .init = begin, .fini = end);

/* The operator for tests has no GPU code; add GPU code to a copy. */
static struct hr_operator with_code(const struct hr_operator *user)
{
	static const uint8_t code[16];
	struct hr_operator copy = *user;

	copy.gpu = code;
	copy.gpu_end = code + sizeof code;
	return copy;
}

Test(cuda_operators, each_selected_pipeline_has_the_entry_point_that_it_needs)
{
	struct hr_operator user = with_code(engine->config.op[0].op);

	engine->config.op[0].op = engine->config.pipeline[1].op = &user;
	fake_cuda.entry_threads = 128;
	cr_assert_eq(hr_engine_init(engine, NULL), 0);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_BACKENDS), 0);
	cr_expect_eq(engine->run[0].gpu[0].entry, HR_ENTRY_PIPE);
	cr_expect_eq(engine->run[0].gpu[0].entry_threads, 0);
	cr_expect_geq(engine->run[1].gpu[0].entry, HR_ENTRY_USER);
	cr_expect_eq(engine->run[1].gpu[0].entry_threads, 128);
	hr_engine_down(engine);
}

Test(cuda_operators, an_operator_that_cannot_be_linked_is_reported_with_its_line)
{
	struct hr_operator user = with_code(engine->config.op[0].op);

	engine->config.op[0].op = engine->config.pipeline[1].op = &user;
	fake_cuda.jit_log = "Undefined reference to 'x'";
	fake_cuda_fail("cuLinkComplete", 1, CUDA_ERROR_UNKNOWN);
	cr_assert_eq(hr_engine_init(engine, NULL), 0);
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_BACKENDS), -EINVAL);
	cr_expect(strstr(fake_log_last(),
			 TEST_OPS "/f:4: operator 'liar' of '" TEST_OPS
				  "/liar.op' cannot be used on gpu 'g' (cuda:0 "
				  "Fake GPU 0): cuLinkComplete: CUDA_ERROR_UNKNOWN"),
		  "%s", fake_log_last());
}

Test(cuda_operators, an_operator_without_gpu_code_is_refused_only_on_a_gpu)
{
	cr_assert_eq(hr_engine_init(engine, "q"), 0);
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_BACKENDS), -ENOTSUP);
	cr_expect(strstr(fake_log_last(), "its file has no GPU part"), "%s", fake_log_last());
	cr_assert_eq(hr_engine_init(engine, "p"), 0);
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_BACKENDS), 0);
	hr_engine_down(engine);
}
