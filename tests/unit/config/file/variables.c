/* SPDX-License-Identifier: Apache-2.0 */
/* ${rank} and ${local_rank} in device strings. */
#include "config/file/keys.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/file/file.h"
#include "tests/harness/error.h"

TestSuite(variables, .timeout = 60);

static struct hr_config config;
static const struct hr_config_rank third = { 12, 3 };

static int parse(const struct hr_config_rank *rank, const char *ssd, const char *gpu)
{
	static struct hr_config_lookup names;
	char text[1024];

	names = hr_lookup;
	names.rank = rank;
	snprintf(text, sizeof text,
		 "ssds = ( { name = \"a\";\n device = \"%s\"; } );\n"
		 "gpus = ( { name = \"g\";\n device = \"%s\"; } );\n",
		 ssd, gpu);
	return hr_config_parse(&config, &names, "f", text, strlen(text), test_error());
}

Test(variables, values_of_this_process)
{
	static const struct {
		const char *ssd, *gpu, *want_ssd, *want_gpu;
	} row[] = {
		{ "soft:s${rank}.img", "cuda:${local_rank}", "soft:s12.img", "cuda:3" },
		{ "soft:${local_rank}${rank}", "host:${rank}", "soft:312", "host:12" },
		{ "soft:x,size=1${rank}M", "host:1", "soft:x,size=112M", "host:1" },
		{ "soft:a$b$", "host:1", "soft:a$b$", "host:1" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(parse(&third, row[i].ssd, row[i].gpu), 0, "%s", test_error_text());
		cr_expect_str_eq(config.ssd[0].device, row[i].want_ssd);
		cr_expect_str_eq(config.gpu[0].device, row[i].want_gpu);
	}
}

Test(variables, mistakes)
{
	static char full[HR_DEVICE_MAX];
	const struct {
		const struct hr_config_rank *rank;
		const char *ssd, *gpu, *want;
	} row[] = {
		{ NULL, "soft:${rank}", "host:1",
		  "f:2: ssds[0].device: ${rank} has a value only with 'headrace run --mpi', under "
		  "mpirun or srun" },
		{ NULL, "soft:a", "cuda:${local_rank}",
		  "f:4: gpus[0].device: ${local_rank} has a value only with 'headrace run --mpi', "
		  "under mpirun or srun" },
		{ &third, "soft:${Rank}", "host:1",
		  "f:2: ssds[0].device: there is no variable ${Rank}, expected ${rank} or "
		  "${local_rank}" },
		{ NULL, "soft:${ranks}", "host:1",
		  "f:2: ssds[0].device: there is no variable ${ranks}, expected ${rank} or "
		  "${local_rank}" },
		{ &third, "soft:${}", "host:1",
		  "f:2: ssds[0].device: there is no variable ${}, expected ${rank} or "
		  "${local_rank}" },
		{ &third, "soft:${rank", "host:1",
		  "f:2: ssds[0].device: 'soft:${rank' has no '}' after \"${\"" },
		{ &third, full, "host:1", NULL },
	};

	/* fits with its variable, but not with the value */
	memset(full, 'x', sizeof full - 1);
	memcpy(full, "soft:${rank}${rank}", 19);
	full[sizeof full - 9] = '\0';
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const bool fits = !row[i].want;

		cr_expect_eq(parse(row[i].rank, row[i].ssd, row[i].gpu), fits ? 0 : -22, "row %zu",
			     i);
		if (!fits)
			cr_expect_str_eq(test_error_text(), row[i].want);
	}
}

/* 12 characters of ${local_rank} and more become at least one character: only a large rank makes a
 * string longer. */
Test(variables, a_value_that_is_too_long)
{
	static const struct hr_config_rank large = { 4000000000u, 4000000000u };
	char device[HR_DEVICE_MAX] = "soft:${rank}${rank}";

	memset(device + 19, 'x', sizeof device - 20);
	device[sizeof device - 1] = '\0';
	cr_expect_neq(parse(&large, device, "host:1"), 0);
	cr_expect(strstr(test_error_text(),
			 "is too long with its variables, expected under 256 characters"),
		  "%s", test_error_text());
}
