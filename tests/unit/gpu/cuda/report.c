/* What reports say of a GPU: registers by role, where somebody has asked the driver for them. */
#include <criterion/criterion.h>
#include <json-c/json.h>
#include <string.h>

#include "boot/engine/devices.h"
#include "boot/cmd/bench/bench.h"
#include "boot/cmd/report/report.h"
#include "tests/fakes/cuda.h"

static struct hr_appliance app;
static struct json_object *report;

static void up(void)
{
	char message[HR_LOG_LINE_MAX];

	fake_cuda_reset();
	app.config.gpus = 1;
	strcpy(app.config.gpu[0].name, "g");
	strcpy(app.config.gpu[0].device, "auto");
	cr_assert_eq(hr_backend_open(&app.backend[0], "auto", 1, message), 0, "%s", message);
	strcpy(app.gpu_note[0], message);
	app.gpu_up[0] = true;
	report = json_object_new_object();
}

static void down(void)
{
	json_object_put(report);
	app.backend[0].ops->close(&app.backend[0]);
	cr_expect_str_eq(fake_cuda_leaks(), "");
}

TestSuite(cuda_report, .timeout = 60, .init = up, .fini = down);

static struct json_object *gpu(bool facts)
{
	hr_report_gpus_json(&app, facts, report);
	return json_object_array_get_idx(json_object_object_get(report, "gpus"), 0);
}

static int number(struct json_object *in, const char *name)
{
	struct json_object *value = json_object_object_get(in, name);

	return value ? json_object_get_int(value) : -1;
}

Test(cuda_report, what_auto_chose_is_said_with_and_without_facts)
{
	for (int facts = 0; facts < 2; facts++) {
		struct json_object *one = gpu(facts);
		const char *note = json_object_get_string(json_object_object_get(one, "note"));

		cr_expect_str_eq(json_object_get_string(json_object_object_get(one, "backend")),
				 "cuda:0 Fake GPU 0");
		cr_expect_str_eq(note, "auto: worker blocks run on cuda:0 Fake GPU 0");
		cr_expect_eq(json_object_object_get(one, "kernels") != NULL, facts);
	}
}

Test(cuda_report, registers_by_role_are_there_when_they_were_asked_for)
{
	struct json_object *roles;

	cr_expect_null(json_object_object_get(gpu(true), "roles"));
	cr_assert_eq(app.backend[0].ops->roles(&app.backend[0]), 0);
	cr_expect_eq(number(gpu(true), "block_registers"), 65536);
	roles = json_object_object_get(gpu(true), "roles");
	cr_assert_eq(json_object_array_length(roles), 3);
	cr_expect_eq(number(json_object_array_get_idx(roles, 1), "registers"), 40);
}

Test(cuda_report, the_bench_has_them_by_name)
{
	cr_assert_eq(app.backend[0].ops->roles(&app.backend[0]), 0);
	hr_bench_report_roles(app.backend[0].facts, report);
	cr_expect_eq(number(report, "prefetch"), 40);
	cr_expect_eq(number(report, "compute"), 40);
	cr_expect_eq(number(report, "writeback"), 40);
	cr_expect_eq(number(report, "one_kernel"), 40);
	cr_expect_eq(number(report, "block_threads_max"), 512);
	cr_expect_eq(number(report, "block_max"), 65536);
}

Test(cuda_report, an_operator_that_was_measured_both_ways_has_both)
{
	static const struct hr_bench_operator measured = { .name = "crc32c",
							   .bytes_per_s = 3e9,
							   .copied_bytes_per_s = 2e9,
							   .worst_copied_bytes_per_s = 1e9,
							   .best_copied_bytes_per_s = 2.5e9 };
	struct hr_bench_operator op = measured;
	struct json_object *list = json_object_new_array(), *both, *one;

	hr_bench_report_operator("s", &op, list);
	op.copied_bytes_per_s = 0;
	hr_bench_report_operator("s", &op, list);
	both = json_object_array_get_idx(list, 0);
	one = json_object_array_get_idx(list, 1);
	cr_expect_eq(json_object_get_int64(json_object_object_get(both, "bytes_per_s")),
		     3000000000);
	cr_expect_eq(number(both, "bytes_per_s_copied"), 2000000000);
	cr_expect_eq(number(both, "bytes_per_s_copied_worst"), 1000000000);
	cr_expect_eq(json_object_get_int64(json_object_object_get(both, "bytes_per_s_copied_best")),
		     2500000000);
	cr_expect_null(json_object_object_get(one, "bytes_per_s_copied"));
	json_object_put(list);
}
