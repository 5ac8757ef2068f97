/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets of the taps of a configuration: which are open, and what a close leaves. */
#include "boot/appliance/lend/sockets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/error.h"

static char folder[64];
static struct hr_config *config;
static struct hr_tap_sockets s;

/* Pipelines 0 and 2 have taps; 1 has none; 3 sends its tiles; 4 is behind the last one. */
static void begin(void)
{
	snprintf(folder, sizeof folder, "/tmp/headrace-taps-XXXXXX");
	cr_assert(mkdtemp(folder));
	setenv("RUNTIME_DIRECTORY", folder, 1);
	config = calloc(1, sizeof *config);
	cr_assert_not_null(config);
	config->pipelines = 4;
	for (uint32_t i = 0; i < 5; i++) {
		struct hr_config_pipeline *p = &config->pipeline[i];

		snprintf(p->name, sizeof p->name, "p%u", i);
		p->tap.group = HR_CONTROL_NO_GROUP;
		if (i != 1)
			snprintf(p->tap.name, sizeof p->tap.name, "t%u", i);
	}
	strcpy(config->pipeline[3].to.address, "10.0.0.1:1");
}

/* No file may be left. */
static void end(void)
{
	cr_expect_eq(rmdir(folder), 0, "%s: %s", folder, strerror(errno));
	free(config);
}

TestSuite(tap_sockets, .init = begin, .fini = end, .timeout = 60);

static bool is_open(int fd)
{
	return fd >= 0 && fcntl(fd, F_GETFD) != -1;
}

/* Of the pipelines in the mask there is a socket, and of no other one. */
static void expect_sockets(unsigned mask)
{
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++) {
		cr_expect_eq(is_open(s.fd[i]), mask >> i & 1, "pipeline %u", i);
		if (mask >> i & 1)
			cr_expect_eq(access(s.at[i].sun_path, F_OK), 0, "pipeline %u", i);
		else
			cr_expect_lt(s.fd[i], 0, "pipeline %u", i);
	}
}

Test(tap_sockets, a_close_leaves_neither_descriptors_nor_files)
{
	int fd[2];

	cr_assert_eq(hr_tap_sockets_open(&s, config, NULL, test_error()), 0, "%s",
		     test_error_text());
	expect_sockets(1 | 4);
	fd[0] = s.fd[0];
	fd[1] = s.fd[2];
	hr_tap_socket_close(&s, 2);
	expect_sockets(1);
	cr_expect_not(is_open(fd[1]));
	cr_expect_neq(access(s.at[2].sun_path, F_OK), 0);
	hr_tap_socket_close(&s, 2);
	hr_tap_sockets_close(&s);
	expect_sockets(0);
	cr_expect_not(is_open(fd[0]));
}

Test(tap_sockets, only_those_that_are_wanted_are_open)
{
	bool only[HR_PIPELINES_MAX] = { false, true, true, true };

	cr_assert_eq(hr_tap_sockets_open(&s, config, only, test_error()), 0);
	expect_sockets(4);
	hr_tap_sockets_close(&s);
}

/* Pipelines 0 and 2 have taps t0 and t2. */
Test(tap_sockets, another_configuration_keeps_the_sockets_of_its_taps)
{
	static struct hr_config fresh;
	int fd[2];

	cr_assert_eq(hr_tap_sockets_open(&s, config, NULL, test_error()), 0);
	fd[0] = s.fd[0];
	fd[1] = s.fd[2];
	fresh = *config;
	fresh.pipeline[0] = config->pipeline[1];
	fresh.pipeline[1] = config->pipeline[0];
	strcpy(fresh.pipeline[2].tap.name, "new");
	cr_assert_eq(hr_tap_sockets_change(&s, &fresh, test_error()), 0);
	expect_sockets(2 | 4);
	cr_expect_eq(s.fd[1], fd[0]);
	cr_expect_not_null(strstr(s.at[2].sun_path, "new"));
	strcpy(fresh.pipeline[2].tap.name, "t0"); /* twice, for other users */
	fresh.pipeline[2].tap.group = 9;
	cr_expect_eq(hr_tap_sockets_change(&s, &fresh, test_error()), -EADDRINUSE);
	expect_sockets(2);
	fresh.pipelines = 0;
	cr_assert_eq(hr_tap_sockets_change(&s, &fresh, test_error()), 0);
	expect_sockets(0);
}

/* Two taps of one name. */
Test(tap_sockets, a_failure_leaves_none_open)
{
	const int next = dup(0);

	close(next);
	strcpy(config->pipeline[2].tap.name, "t0");
	cr_expect_eq(hr_tap_sockets_open(&s, config, NULL, test_error()), -EADDRINUSE);
	cr_expect(strstr(test_error_text(), "pipeline 'p2': tap 't0'"), "%s", test_error_text());
	expect_sockets(0);
	cr_expect_not(is_open(next));
}
