/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/launch.h - a launch in one line, and its end.
 */
#ifndef TESTS_HARNESS_LAUNCH_H
#define TESTS_HARNESS_LAUNCH_H

#include "gpu/backend.h"
#include "tests/harness/error.h"

/* As launch of struct hr_backend_ops, without a stop word or memory that a block shares; the error
 * is test_error()'s. */
static inline int launch_start(struct hr_backend *b, enum hr_entry entry, void *argument,
			       uint32_t blocks, uint32_t threads, struct hr_launch **launch)
{
	const struct hr_launch_args args = {
		.entry = entry, .argument = argument, .blocks = blocks, .threads = threads
	};

	return b->ops->launch(b, &args, launch, test_error());
}

/* Wait without a limit until the launch has ended, and release the handle. Returns poll's result. */
static inline int launch_end(struct hr_launch *launch)
{
	const int ended = hr_launch_wait(launch, UINT64_MAX, 50000, test_error());

	hr_launch_free(launch);
	return ended;
}

#endif
