/* SPDX-License-Identifier: Apache-2.0 */
/* The process that reads the configuration, and all ways in which that process ends. */
#include "boot/appliance/supervisor/reader.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/ops/operators.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

TestSuite(read, .timeout = 60);

static struct hr_config *config;
static pid_t here;

static void begin(void)
{
	here = getpid();
	config = calloc(1, sizeof *config);
	cr_assert_not_null(config);
}

static void end(void)
{
	free(config);
}

/* Two pipelines: the first has a user operator, the second a built-in operator. */
static int fill(struct hr_config *to, void *result, struct hr_error *e)
{
	if (getpid() == here)
		return 77;
	to->ops = 1;
	to->op[0].op = hr_op_get(HR_OP_crc32c);
	to->pipelines = 2;
	to->pipeline[0].op = to->op[0].op;
	to->pipeline[0].user_op = 1;
	to->pipeline[1].op = hr_op_get(HR_OP_copy);
	to->boot.last_resort = HR_BOOT_REBOOT;
	strcpy(to->name, "box");
	return *(const int *)result
		       ? hr_fail(e, HR_ERROR_USAGE, *(const int *)result, "no such box")
		       : 0;
}

static int crash(struct hr_config *to, void *result, struct hr_error *e)
{
	fill(to, result, e);
	raise(SIGKILL);
	return 0;
}

static int leave(struct hr_config *to, void *result, struct hr_error *e)
{
	fill(to, result, e);
	_exit(5);
}

static int hang(struct hr_config *to, void *result, struct hr_error *e)
{
	fill(to, result, e);
	for (;;)
		pause();
	return 0;
}

Test(read, result_has_no_user_operators, .init = begin, .fini = end)
{
	int zero = 0;

	cr_assert_eq(
		hr_config_read_in_child(config, fill, &zero, HR_CONFIG_READER_NS, test_error()), 0);
	cr_expect_str_eq(config->name, "box");
	cr_expect_null(config->op[0].op);
	cr_expect_null(config->pipeline[0].op);
	cr_expect_eq(config->pipeline[1].op, hr_op_get(HR_OP_copy));
	cr_expect_eq(fake_log_count(), 0u);
}

Test(read, an_error_is_passed_up_with_the_last_resort, .init = begin, .fini = end)
{
	int error = -ENOENT;

	cr_assert_eq(
		hr_config_read_in_child(config, fill, &error, HR_CONFIG_READER_NS, test_error()),
		-ENOENT);
	cr_expect_eq(config->boot.last_resort, HR_BOOT_REBOOT);
	cr_expect_eq(fake_log_count(), 0u);
}

Test(read, the_error_comes_to_the_caller, .init = begin, .fini = end)
{
	struct hr_config_reader reader;
	struct hr_error e = { 0 };
	int result = -ENOENT;

	cr_assert_eq(hr_config_reader_start(&reader, fill, &result, HR_CONFIG_READER_NS), 0);
	while (!hr_config_reader_poll(&reader, config, &result, &e))
		usleep(100);
	cr_expect_eq(result, -ENOENT);
	cr_expect_str_eq(e.text, "no such box");
	cr_assert_eq(hr_config_reader_start(&reader, crash, &result, HR_CONFIG_READER_NS), 0);
	while (!hr_config_reader_poll(&reader, config, &result, &e))
		usleep(100);
	cr_expect(e.printed && strstr(e.text, "ended by signal 9"), "%s", e.text);
}

Test(read, a_crash_ends_only_the_reading_process, .init = begin, .fini = end)
{
	int zero = 0;

	cr_assert_eq(
		hr_config_read_in_child(config, crash, &zero, HR_CONFIG_READER_NS, test_error()),
		-EOWNERDEAD);
	cr_expect_eq(config->boot.last_resort, HR_BOOT_REBOOT);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "ended by signal 9"), "%s",
		  fake_log_last());
}

Test(read, an_early_exit_is_reported, .init = begin, .fini = end)
{
	int zero = 0;

	cr_assert_eq(
		hr_config_read_in_child(config, leave, &zero, HR_CONFIG_READER_NS, test_error()),
		-EOWNERDEAD);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "exited with code 5"), "%s",
		  fake_log_last());
}

Test(read, a_reader_that_hangs_is_killed, .init = begin, .fini = end)
{
	int zero = 0;

	cr_assert_eq(hr_config_read_in_child(config, hang, &zero, 50 * HR_NS_PER_MS, test_error()),
		     -ETIMEDOUT);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "not read after 50 ms"), "%s",
		  fake_log_last());
}
