/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about a GPU: registers by role, when the driver has reported them. */
#include <criterion/criterion.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/cmd/bench/bench.h"
#include "boot/cmd/report/reports.h"
#include "tests/fakes/cuda.h"
#include "tests/harness/error.h"
#include "tests/harness/json.h"

static struct hr_engine engine;
static struct json_object *report;
static struct hr_json json;
static char text[16384];

static void up(void)
{

	fake_cuda_reset();
	engine.config.gpus = 1;
	strcpy(engine.config.gpu[0].name, "g");
	strcpy(engine.config.gpu[0].device, "auto");
	cr_assert_eq(hr_backend_open(&engine.backend[0], "auto", 1, test_error()), 0, "%s",
		     test_error_text());
	engine.gpu_up[0] = true;
	report = NULL;
}

static void down(void)
{
	json_object_put(report);
	engine.backend[0].ops->close(&engine.backend[0]);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

TestSuite(cuda_report, .timeout = 60, .init = up, .fini = down);

static void begin(void)
{
	json_object_put(report);
	report = NULL;
	hr_json_to_text(&json, HR_JSON_LINE, text, sizeof text);
}

static struct json_object *gpu(bool facts)
{
	begin();
	hr_report_gpus_json(&engine, facts, &json);
	report = json_parsed(&json);
	return json_object_array_get_idx(json_object_object_get(report, "gpus"), 0);
}

static int number(struct json_object *in, const char *name)
{
	struct json_object *value = json_object_object_get(in, name);

	return value ? json_object_get_int(value) : -1;
}

Test(cuda_report, the_choice_of_auto_is_reported_with_and_without_facts)
{
	for (int facts = 0; facts < 2; facts++) {
		struct json_object *one = gpu(facts);
		const char *note = json_object_get_string(json_object_object_get(one, "note"));

		cr_expect_str_eq(json_object_get_string(json_object_object_get(one, "backend")),
				 "cuda:0 Fake GPU 0");
		cr_expect_str_eq(note, "auto: worker blocks run on cuda:0 Fake GPU 0");
		cr_expect_eq(json_object_object_get(one, "entry_points") != NULL, facts);
	}
}

Test(cuda_report, registers_by_role_are_reported_on_request)
{
	struct json_object *roles;

	cr_expect_null(json_object_object_get(gpu(true), "roles"));
	cr_assert_eq(engine.backend[0].measuring->roles(&engine.backend[0], NULL), 0);
	cr_expect_eq(number(gpu(true), "block_registers"), 65536);
	roles = json_object_object_get(gpu(true), "roles");
	cr_assert_eq(json_object_array_length(roles), 3);
	cr_expect_eq(number(json_object_array_get_idx(roles, 1), "registers"), 40);
}

Test(cuda_report, the_report_of_the_bench_has_registers_by_role_name)
{
	struct json_object *registers;

	cr_assert_eq(engine.backend[0].measuring->roles(&engine.backend[0], NULL), 0);
	begin();
	hr_bench_report_roles(engine.backend[0].facts, &json);
	report = json_parsed(&json);
	registers = json_object_object_get(report, "registers");
	cr_expect_eq(number(registers, "prefetch"), 40);
	cr_expect_eq(number(registers, "compute"), 40);
	cr_expect_eq(number(registers, "writeback"), 40);
	cr_expect_eq(number(registers, "one_kernel"), 40);
	cr_expect_eq(number(registers, "block_threads_max"), 512);
	cr_expect_eq(number(registers, "block_max"), 65536);
}

Test(cuda_report, an_operator_that_was_measured_both_ways_has_both)
{
	static const struct hr_bench_operator measured = { .name = "crc32c",
							   .bytes_per_s = 3e9,
							   .copied_bytes_per_s = 2e9,
							   .worst_copied_bytes_per_s = 1e9,
							   .best_copied_bytes_per_s = 2.5e9 };
	struct hr_bench_operator op = measured;
	struct json_object *list, *both, *one;

	begin();
	hr_json_array(&json, "list");
	hr_bench_report_operator("s", &op, &json);
	op.copied_bytes_per_s = 0;
	hr_bench_report_operator("s", &op, &json);
	hr_json_close(&json);
	report = json_parsed(&json);
	list = json_object_object_get(report, "list");
	both = json_object_array_get_idx(list, 0);
	one = json_object_array_get_idx(list, 1);
	cr_expect_eq(json_object_get_int64(json_object_object_get(both, "bytes_per_s")),
		     3000000000);
	cr_expect_eq(number(both, "bytes_per_s_copied"), 2000000000);
	cr_expect_eq(number(both, "bytes_per_s_copied_worst"), 1000000000);
	cr_expect_eq(json_object_get_int64(json_object_object_get(both, "bytes_per_s_copied_best")),
		     2500000000);
	cr_expect_null(json_object_object_get(one, "bytes_per_s_copied"));
}
