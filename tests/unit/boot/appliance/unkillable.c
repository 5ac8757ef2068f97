/*
 * An engine that SIGKILL does not end, because it hangs in the kernel. A test cannot make a process
 * hang in the kernel, so this file replaces the functions of boot/appliance/process.h, and the
 * clock is a fake.
 */
#include "boot/appliance/child.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "config/tick.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

#define PID 4242

TestSuite(unkillable, .timeout = 60);

static struct hr_appliance app;
static struct hr_child child;
static struct hr_record record;
static struct hr_record_page page;
static uint64_t killed_ns; /* when SIGKILL was sent */
static unsigned kills;

int hr_process_open(struct hr_process *p)
{
	*p = (struct hr_process){ .page = &page, .phases = -1 };
	return 0;
}

int hr_process_start(struct hr_process *p, struct hr_appliance *a, const int *fds, unsigned count)
{
	p->pid = PID;
	p->phases = 0;
	return 0;
}

bool hr_process_ended(struct hr_process *p, int *status)
{
	return false;
}

int hr_process_receive(struct hr_process *p, enum hr_phase *phase)
{
	return -EAGAIN;
}

void hr_process_signal(const struct hr_process *p, int signal_number)
{
	cr_expect_eq(p->pid, PID);
	kills += signal_number == SIGKILL;
	killed_ns = hr_now_ns();
}

void hr_process_hang_up(struct hr_process *p)
{
	p->phases = -1;
}

void hr_process_close(struct hr_process *p)
{
	p->page = NULL;
}

static void hear(void *to, enum hr_phase phase)
{
}

static void look(void *to)
{
	hr_child_look(&child, &app.config, hr_now_ns());
}

Test(unkillable, the_supervisor_abandons_an_unkillable_engine_and_starts_no_other)
{
	const uint64_t began_ns = HR_NS_PER_S;

	fake_clock_start(began_ns, look, NULL);
	cr_assert_eq(hr_child_open(&child, &record, hear, NULL), 0);
	cr_expect_eq(hr_child_attempt(&child, &app, NULL, 0, test_error()), -ETIMEDOUT);
	cr_expect_eq(kills, 1u);
	cr_expect_geq(killed_ns - began_ns, HR_CHILD_TIMEOUT_NS);
	cr_expect_lt(killed_ns - began_ns, HR_CHILD_TIMEOUT_NS + HR_NS_PER_S);
	cr_expect_eq(hr_now_ns() - killed_ns, HR_CHILD_KILL_NS);
	cr_expect(child.unsafe, "no other engine may start");
	cr_expect_str_eq(
		fake_log_last_of(HR_LOG_ERROR),
		"engine 4242: SIGKILL has not ended it within 30000 ms: it hangs in the kernel");
	cr_expect_not(hr_child_moves(&child), "the watchdog must not be fed");
	fake_clock_stop();
}
