/* SPDX-License-Identifier: Apache-2.0 */
/* Each transition of an ssd's health, and each transition that is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "nvme/health.h"
#include "tests/fakes/log.h"

static struct hr_health controller, ssd[2];

/* A controller with two ssds, in a state that is reached by steps and faults. */
static void bring_to(enum hr_health_state state)
{
	memset(&controller, 0, sizeof controller);
	memset(ssd, 0, sizeof ssd);
	controller.name = "c";
	if (state != HR_HEALTH_DOWN)
		cr_assert(hr_health_set(&controller, HR_STEP_START));
	hr_health_join(&ssd[0], &controller, "a");
	hr_health_join(&ssd[1], &controller, "b");
	if (state == HR_HEALTH_NO_ADMIN)
		hr_health_fault(&controller, HR_FAULT_ADMIN_QUEUE, NULL, -ETIMEDOUT, NULL);
	if (state == HR_HEALTH_FAILED)
		hr_health_fault(&ssd[0], HR_FAULT_LOST_COMMAND, NULL, -ETIMEDOUT, NULL);
	if (state == HR_HEALTH_LOST)
		hr_health_fault(&controller, HR_FAULT_GONE, NULL, -ENOLINK, NULL);
	if (state == HR_HEALTH_STOPPED)
		cr_assert(hr_health_set(&controller, HR_STEP_STOPPED));
	if (state == HR_HEALTH_STUCK)
		cr_assert(hr_health_set(&controller, HR_STEP_STUCK));
	cr_assert_eq(controller.state, state);
	cr_assert_eq(ssd[0].state, state);
	cr_assert_eq(ssd[1].state, state);
}

TestSuite(health, .timeout = 60);

/*
 * The letters of states: Down, Up, No admin, Failed, Lost, Stopped, sTuck; '-': refused. A row has
 * one letter for each state before the fault.
 */
static const char states[] = "DUNFLST";

static enum hr_health_state state_of(char letter)
{
	return (enum hr_health_state)(strchr(states, letter) - states);
}

static const struct {
	enum hr_fault fault;
	const char *after;
	bool controller;
} fault_row[] = {
	{ HR_FAULT_LOST_COMMAND, "-FFFL--", false }, { HR_FAULT_BROKEN_QUEUE, "-FFFL--", false },
	{ HR_FAULT_KEPT_QUEUE, "-FFFL--", false },   { HR_FAULT_UNKNOWN_QUEUES, "-FFFL--", false },
	{ HR_FAULT_NAMESPACE, "-FFFL--", false },    { HR_FAULT_DOORBELL, "-FFFL--", true },
	{ HR_FAULT_ADMIN_QUEUE, "DN-FL--", true },   { HR_FAULT_FATAL, "DLLL---", true },
	{ HR_FAULT_GONE, "DLLL---", true },	     { HR_FAULT_RESET, "-LLL---", true },
};

/* One fault in one state: either the whole transition happens, or nothing changes. */
static void expect_fault(size_t i, unsigned from)
{
	const char letter = fault_row[i].after[from];
	const bool refused = letter == '-';
	const enum hr_fault fault = fault_row[i].fault;
	const enum hr_health_state to = refused ? (enum hr_health_state)from : state_of(letter);
	uint64_t own, other;
	unsigned logged;

	bring_to((enum hr_health_state)from);
	own = ssd[0].count[fault];
	other = ssd[1].count[fault];
	logged = fake_log_count();
	cr_expect_eq(hr_health_fault(&ssd[0], fault, NULL, -EPROTO, "queue %u", 7u), -EPROTO);
	cr_expect_eq(ssd[0].state, to, "fault %d in %c", (int)fault, states[from]);
	cr_expect_eq(ssd[1].state, to, "fault %d in %c", (int)fault, states[from]);
	cr_expect_eq(controller.state, to, "fault %d in %c", (int)fault, states[from]);
	cr_expect_eq(ssd[0].count[fault] - own, !refused, "fault %d in %c", (int)fault,
		     states[from]);
	cr_expect_eq(ssd[1].count[fault] - other, !refused && fault_row[i].controller,
		     "fault %d in %c counts for the other ssd", (int)fault, states[from]);
	cr_expect_eq(fake_log_count() - logged, !refused, "fault %d in %c", (int)fault,
		     states[from]);
	if (!refused)
		cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "a: queue 7");
}

Test(health, each_fault_in_each_state)
{
	cr_assert_eq(sizeof fault_row / sizeof *fault_row, HR_FAULTS);
	for (size_t i = 0; i < HR_FAULTS; i++)
		for (unsigned from = 0; from < HR_HEALTHS; from++)
			expect_fault(i, from);
}

/*
 * The caller gets the text of the fault and prints it; a fault that was reported is not printed
 * again.
 */
Test(health, a_fault_fills_the_error)
{
	static struct hr_error e;
	unsigned logged;

	bring_to(HR_HEALTH_UP);
	logged = fake_log_count();
	hr_health_fault(&ssd[0], HR_FAULT_LOST_COMMAND, &e, -ETIMEDOUT, "queue %u", 7u);
	hr_health_fault(&controller, HR_FAULT_GONE, &e, -ENOLINK, "it is gone");
	cr_expect_eq(e.kind, HR_ERROR_DEVICE);
	cr_expect_str_eq(e.text, "a: queue 7\nc: it is gone");
	cr_expect_eq(fake_log_count(), logged);
	hr_error_log(&e, HR_LOG_ERROR);
	cr_expect_eq(fake_log_count(), logged + 2);
	hr_health_fault(&ssd[0], HR_FAULT_LOST_COMMAND, &e, -ETIMEDOUT, "queue %u", 8u);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "a: queue 8", "a printed error is full");
	cr_expect_str_eq(e.text, "a: queue 7\nc: it is gone");

	hr_error_clear(&e);
	logged = fake_log_count();
	cr_expect_eq(hr_health_fault(&controller, HR_FAULT_GONE, &e, -ENOLINK, "it is gone"),
		     -ENOLINK);
	cr_expect_eq(e.kind, HR_ERROR_DEVICE);
	cr_expect_str_eq(e.text, "c: it is gone");
	hr_error_log(&e, HR_LOG_ERROR);
	cr_expect_eq(fake_log_count(), logged, "the controller was known to be lost");
}

Test(health, a_refused_command_is_an_error_of_the_device)
{
	static struct hr_error e;

	bring_to(HR_HEALTH_UP);
	cr_expect_eq(hr_health_refuse(&ssd[0], &e), 0);
	cr_expect_eq(e.kind, HR_ERROR_NONE);
	bring_to(HR_HEALTH_FAILED);
	cr_expect_eq(hr_health_refuse(&ssd[0], &e), -ETIMEDOUT);
	cr_expect_str_eq(e.text,
			 "a: accepts no commands after an earlier fault: its state is 'failed'");
	cr_expect_eq(e.kind, HR_ERROR_DEVICE);
	cr_expect_eq(hr_health_refuse(&ssd[0], NULL), -ETIMEDOUT);
}

Test(health, each_step_in_each_state)
{
	static const struct {
		enum hr_health_step step;
		const char *after;
	} row[] = {
		{ HR_STEP_START, "U----U-" },  { HR_STEP_GIVE_UP, "-FF----" },
		{ HR_STEP_REOPEN, "---U---" }, { HR_STEP_STOPPED, "-SSSS-S" },
		{ HR_STEP_STUCK, "TTTTT--" },  { HR_STEP_DOWN, "-DD--D-" },
	};

	cr_assert_eq(sizeof row / sizeof *row, HR_HEALTH_STEPS);
	for (size_t i = 0; i < HR_HEALTH_STEPS; i++)
		for (unsigned from = 0; from < HR_HEALTHS; from++) {
			const char letter = row[i].after[from];
			const enum hr_health_state to =
				letter == '-' ? (enum hr_health_state)from : state_of(letter);
			unsigned logged;

			bring_to((enum hr_health_state)from);
			logged = fake_log_count();
			cr_expect_eq(hr_health_set(&controller, row[i].step), letter != '-',
				     "step %zu in %c", i, states[from]);
			cr_expect_eq(controller.state, to, "step %zu in %c", i, states[from]);
			cr_expect_eq(ssd[1].state, to, "step %zu in %c", i, states[from]);
			cr_expect_eq(fake_log_count(), logged);
		}
}

/* Safety of memory: in no state may the controller write to memory while the memory may be freed,
 * and commands go only to a controller that runs. */
Test(health, rules_of_states_exclude_each_other)
{
	for (unsigned s = 0; s < HR_HEALTHS; s++) {
		const struct hr_health_rule *rule = hr_health_rule((enum hr_health_state)s);

		cr_expect_not_null(rule->name);
		cr_expect_not(rule->memory && rule->disable, "%s", rule->name);
		cr_expect_not(rule->memory && rule->commands, "%s", rule->name);
		cr_expect_not(rule->failed && rule->commands, "%s", rule->name);
		cr_expect(!rule->admin || rule->commands, "%s", rule->name);
		cr_expect(!rule->commands || rule->disable, "%s", rule->name);
	}
	/* An overwritten word of health allows no action. */
	cr_expect_str_eq(hr_health_rule((enum hr_health_state)HR_HEALTHS)->name, "stuck");
}

Test(health, the_first_error_stays)
{
	bring_to(HR_HEALTH_UP);
	cr_expect_eq(hr_health_error(&ssd[0]), 0);
	hr_health_fault(&ssd[0], HR_FAULT_LOST_COMMAND, NULL, -ETIMEDOUT, "x");
	hr_health_fault(&controller, HR_FAULT_FATAL, NULL, -EIO, "x");
	hr_health_set(&controller, HR_STEP_STUCK);
	cr_expect_eq(hr_health_error(&ssd[0]), -ETIMEDOUT);
	cr_expect_eq(hr_health_error(&ssd[1]), -EIO, "the other ssd has lost nothing itself");
}

Test(health, a_fault_of_the_controller_is_the_error_of_all_its_ssds)
{
	bring_to(HR_HEALTH_UP);
	hr_health_fault(&controller, HR_FAULT_GONE, NULL, -ENOLINK, "x");
	cr_expect_eq(hr_health_error(&ssd[0]), -ENOLINK);
	cr_expect_eq(hr_health_error(&ssd[1]), -ENOLINK);
}

Test(health, an_ssd_that_joins_has_the_state_and_error_of_its_controller)
{
	struct hr_health late = { .state = HR_HEALTH_UP };

	bring_to(HR_HEALTH_LOST);
	hr_health_join(&late, &controller, "late");
	cr_expect_eq(late.state, HR_HEALTH_LOST);
	cr_expect_eq(hr_health_error(&late), -ENOLINK);
	cr_expect_str_eq(late.name, "late");
	/* The ring of ssds has all of them, in both directions of a fault. */
	cr_expect(hr_health_set(&late, HR_STEP_STUCK));
	cr_expect_eq(controller.state, HR_HEALTH_STUCK);
	cr_expect_eq(ssd[0].state, HR_HEALTH_STUCK);
	cr_expect_eq(ssd[1].state, HR_HEALTH_STUCK);
	hr_health_leave(&late);
}

/* The ssd may be brought up again: without the error, and with the old counters. */
Test(health, an_ssd_that_left_is_not_affected_by_its_former_controller)
{
	struct hr_health again = { .name = "again" };

	bring_to(HR_HEALTH_UP);
	hr_health_fault(&ssd[0], HR_FAULT_LOST_COMMAND, NULL, -ETIMEDOUT, NULL);
	hr_health_set(&controller, HR_STEP_STOPPED);
	hr_health_leave(&ssd[0]);
	hr_health_set(&ssd[0], HR_STEP_DOWN);
	cr_expect_eq(ssd[0].state, HR_HEALTH_DOWN);
	cr_expect_eq(ssd[1].state, HR_HEALTH_STOPPED);
	cr_expect_eq(controller.state, HR_HEALTH_STOPPED);
	hr_health_set(&again, HR_STEP_START);
	hr_health_join(&ssd[0], &again, "a");
	cr_expect_eq(ssd[0].state, HR_HEALTH_UP);
	cr_expect_eq(hr_health_error(&ssd[0]), 0);
	cr_expect_eq(ssd[0].count[HR_FAULT_LOST_COMMAND], 1u);
	hr_health_leave(&ssd[1]);
	hr_health_leave(&ssd[1]);
	cr_expect_null(ssd[1].next);
}

/* The memory of a worker is untrusted: a count beyond the queue's entries is ignored. */
Test(health, faults_that_workers_found_are_recorded)
{
	struct hr_nvme_qp qp = { .entries = 16, .stats.lost = 2 };
	const unsigned logged = fake_log_count();

	bring_to(HR_HEALTH_UP);
	hr_health_take_qp(&ssd[0], &(struct hr_nvme_qp){ .entries = 16 });
	cr_expect_eq(ssd[0].state, HR_HEALTH_UP);
	hr_health_take_qp(&ssd[0], &qp);
	cr_expect_eq(ssd[0].state, HR_HEALTH_FAILED);
	cr_expect_eq(ssd[0].error, -ETIMEDOUT);
	cr_expect_eq(ssd[0].count[HR_FAULT_LOST_COMMAND], 2u);
	qp.stats.lost = 0;
	qp.error = -EPROTO;
	hr_health_take_qp(&ssd[1], &qp);
	cr_expect_eq(ssd[1].count[HR_FAULT_BROKEN_QUEUE], 1u);
	qp.error = 0;
	qp.stats.lost = UINT64_MAX;
	hr_health_take_qp(&ssd[0], &qp);
	cr_expect_eq(ssd[0].count[HR_FAULT_LOST_COMMAND], 2u + 16u);
	cr_expect_eq(fake_log_count(), logged, "the pipeline's message names it");
}
