/* SPDX-License-Identifier: Apache-2.0 */
/* The group `control` of a configuration. */
#include "config/config.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/file/file.h"
#include "tests/harness/error.h"

#define HEAD                                                  \
	"ssds = ( { name = \"s\"; device = \"soft:x\"; } ); " \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"

TestSuite(control, .timeout = 60);

static struct hr_config config;

static int parse(const char *group)
{
	char text[512];

	snprintf(text, sizeof text, HEAD "control = { %s };\n", group);
	return hr_config_parse(&config, &hr_lookup, "f", text, strlen(text), test_error());
}

Test(control, only_the_owner_may_ask_without_the_group)
{
	cr_expect_eq(hr_config_parse(&config, &hr_lookup, "f", HEAD, strlen(HEAD), test_error()),
		     0);
	cr_expect_eq(config.control.mode, 0600u);
	cr_expect_eq(config.control.group, HR_CONTROL_NO_GROUP);
}

Test(control, each_mode_and_group_is_read)
{
	static const struct {
		const char *text;
		uint32_t mode, group;
	} row[] = {
		{ "", 0600, HR_CONTROL_NO_GROUP },
		{ "mode = \"0644\"; group = \"0\";", 0644, 0 },
		{ "mode = \"660\"; group = \"root\";", 0660, 0 },
		{ "mode = \"0666\"; group = \"4294967294\";", 0666, 4294967294u },
		{ "mode = \"0604\";", 0604, HR_CONTROL_NO_GROUP },
		{ "group = \"7\";", 0600, 7 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(parse(row[i].text), 0, "row %zu: %s", i, test_error_text());
		cr_expect_eq(config.control.mode, row[i].mode, "row %zu", i);
		cr_expect_eq(config.control.group, row[i].group, "row %zu", i);
	}
}

Test(control, the_share_of_the_store_has_a_range)
{
	cr_assert_eq(parse(""), 0);
	cr_expect_eq(config.control.store_percent, 15u, "the default");
	cr_assert_eq(parse("store_percent = 1;"), 0, "%s", test_error_text());
	cr_expect_eq(config.control.store_percent, 1u);
	cr_assert_eq(parse("store_percent = 100;"), 0, "%s", test_error_text());
	cr_expect_eq(config.control.store_percent, 100u);
	cr_expect_eq(parse("store_percent = 0;"), -EINVAL);
	cr_expect(strstr(test_error_text(), "store_percent"), "%s", test_error_text());
	cr_expect_eq(parse("store_percent = 101;"), -EINVAL);
	cr_expect(strstr(test_error_text(), "100"), "%s", test_error_text());
	cr_expect_eq(parse("store_percent = -1;"), -EINVAL);
	cr_expect_eq(parse("store_percent = \"15\";"), -EINVAL);
}

Test(control, actions_of_warnings_are_read_and_log_is_the_default)
{
	static const char text[] =
		HEAD "health = { spare = \"stop\"; backup = \"pause\"; read_only = \"log\"; };\n";
	static const enum hr_warning_action want[HR_WARNINGS] = { HR_WARNING_STOP, HR_WARNING_LOG,
								  HR_WARNING_LOG, HR_WARNING_LOG,
								  HR_WARNING_PAUSE };

	cr_assert_eq(hr_config_parse(&config, &hr_lookup, "f", text, strlen(text), test_error()), 0,
		     "%s", test_error_text());
	for (uint32_t i = 0; i < HR_WARNINGS; i++)
		cr_expect_eq(config.health.action[i], want[i], "warning %u", i);
}

Test(control, each_mistake_is_reported)
{
	static const struct {
		const char *text, *mistake;
	} row[] = {
		{ "mode = \"0800\";", "f:2: control.mode: is \"0800\", expected permissions" },
		{ "mode = \"06600\";", "is \"06600\", expected permissions" },
		{ "mode = \"rw\";", "is \"rw\", expected permissions" },
		{ "mode = 640;", "control.mode: is an integer, expected a string" },
		{ "mode = \"0755\";", "expected 6 for the owner" },
		{ "mode = \"0440\";", "expected 6 for the owner" },
		{ "mode = \"0620\"; group = \"0\";", "expected 6 for the owner" },
		{ "mode = \"0640\";", "control.group: is missing, but mode has permissions" },
		{ "group = \"no such group\";", "there is no group 'no such group'" },
		{ "group = \"4294967295\";", "there is no group '4294967295'" },
		{ "grup = \"0\";", "unknown key; did you mean 'group'?" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(parse(row[i].text), -EINVAL, "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].mistake), "row %zu: %s", i,
			  test_error_text());
	}
}
