/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of a gpu whose worker blocks do not start ends in limited time. */
#include "boot/cmd/post/step.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "gpu/worker/probe.h"
#include "tests/fakes/clock.h"
#include "tests/harness/error.h"

static struct hr_backend backend;
static struct hr_backend_ops ops;
static char detail[HR_POST_DETAIL];

static int launch_one_block(struct hr_backend *b, const struct hr_launch_args *args,
			    struct hr_launch **launch, struct hr_error *e)
{
	static struct hr_launch handle;

	handle = (struct hr_launch){ b, args->stop };
	*launch = &handle;
	hr_probe_block(args->argument, 0);
	return 0;
}

static int never_ends(struct hr_launch *launch, struct hr_error *e)
{
	return 0;
}

Test(post_gpu, blocks_that_do_not_start_end_the_step, .timeout = 60)
{
	const struct hr_backend_ops *real;

	cr_assert_eq(hr_backend_open(&backend, "host:1", 3, test_error()), 0, "%s",
		     test_error_text());
	real = backend.ops;
	ops = *real;
	ops.launch = launch_one_block;
	ops.poll = never_ends;
	backend.ops = &ops;
	fake_clock_start(HR_NS_PER_S, NULL, NULL);
	cr_expect_eq(hr_post_workers(&backend, detail, test_error()), -ETIMEDOUT);
	cr_expect_geq(hr_now_ns(), 41 * HR_NS_PER_S);
	fake_clock_stop();
	cr_expect_str_eq(test_error_text(),
			 "2 of 3 worker blocks have not ended after 40000 ms, the first is "
			 "block 1: host:1 does not hold all blocks at once, or a block "
			 "hangs");
	backend.ops = real;
	real->close(&backend);
}
