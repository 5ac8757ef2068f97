/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that has the memory of a feed on a GPU mapped: which process may be the next one. A pipe
 * plays its pidfd, which is readable when the process has ended.
 */
#include "boot/appliance/lend/producer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/harness/error.h"

#define AT (100 * HR_NS_PER_S)
#define FIRST 4242
#define SECOND 4243

TestSuite(feed_owner, .timeout = 60);

static struct hr_feed_owner owner;
static int process[2];

/* The first producer has gone, and its process lives. */
static void leave(bool detached)
{
	cr_assert_eq(pipe(process), 0);
	hr_feed_owner_set(&owner, FIRST, process[0], detached, AT);
}

static void end_process(void)
{
	cr_assert_eq(write(process[1], "", 1), 1);
}

static int check(pid_t producer, bool quiet, uint64_t now_ns)
{
	return hr_feed_owner_check(&owner, producer, quiet, now_ns, test_error());
}

Test(feed_owner, any_process_is_the_first_one)
{
	cr_expect_eq(check(SECOND, true, AT), 0);
	cr_expect_eq(check(0, true, AT), 0);
	hr_feed_owner_forget(&owner);
}

Test(feed_owner, a_process_that_has_detached_may_come_again_and_no_other_one)
{
	leave(true);
	cr_expect_eq(check(FIRST, true, AT), 0);
	cr_expect_eq(check(SECOND, false, AT), -EBUSY);
	cr_expect_str_eq(test_error_text(),
			 "process 4242 has the tiles on the GPU mapped until it ends");
	cr_expect_eq(check(0, false, AT + HR_NS_PER_S), -EBUSY, "a process of another namespace");
	end_process();
	cr_expect_eq(check(SECOND, false, AT + HR_NS_PER_S), 0);
}

Test(feed_owner, a_client_waits_while_a_process_without_connection_ends)
{
	leave(false);
	cr_expect_eq(check(SECOND, false, AT + HR_FEED_DYING_NS - 1), -EAGAIN);
	cr_expect_eq(check(FIRST, false, AT), 0, "it connects again");
	cr_expect_eq(check(SECOND, false, AT + HR_FEED_DYING_NS), -EBUSY);
	end_process();
	cr_expect_eq(check(SECOND, false, AT + HR_FEED_DYING_NS), 0);
	cr_expect_eq(check(FIRST, false, AT + HR_FEED_DYING_NS), 0,
		     "its number, of another process");
}

Test(feed_owner, work_under_mps_may_outlive_its_process)
{
	leave(false);
	end_process();
	cr_expect_eq(check(SECOND, true, AT + HR_NS_PER_S), -EAGAIN);
	cr_expect_eq(check(FIRST, true, AT + HR_NS_PER_S), -EAGAIN,
		     "its number, of another process");
	cr_expect_eq(check(SECOND, true, AT + HR_NS_PER_S + HR_FEED_QUIET_NS - 1), -EAGAIN);
	cr_expect_eq(check(SECOND, true, AT + HR_NS_PER_S + HR_FEED_QUIET_NS), 0);
}

Test(feed_owner, without_a_pidfd_the_connection_is_all_that_is_known)
{
	hr_feed_owner_set(&owner, 0, -1, true, AT);
	cr_expect_eq(check(SECOND, false, AT + HR_FEED_QUIET_NS - 1), -EAGAIN);
	cr_expect_eq(check(SECOND, false, AT + HR_FEED_QUIET_NS), 0);
	hr_feed_owner_forget(&owner);
	cr_expect_eq(check(SECOND, false, AT), 0);
}

Test(feed_owner, forget_closes_the_descriptor)
{
	leave(true);
	hr_feed_owner_forget(&owner);
	cr_expect_eq(fcntl(process[0], F_GETFD), -1);
	cr_expect_eq(check(SECOND, true, AT), 0);
}
