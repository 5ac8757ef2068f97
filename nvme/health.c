/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/health.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "config/base/error.h"
#include "config/base/log.h"

static const struct hr_health_rule rule[HR_HEALTHS] = {
	/*		        name       commands admin disable memory failed */
	[HR_HEALTH_DOWN] = { "down", false, false, false, true, false },
	[HR_HEALTH_UP] = { "up", true, true, true, false, false },
	[HR_HEALTH_NO_ADMIN] = { "no_admin", true, false, true, false, false },
	[HR_HEALTH_FAILED] = { "failed", false, false, true, false, true },
	[HR_HEALTH_LOST] = { "lost", false, false, true, false, true },
	[HR_HEALTH_STOPPED] = { "stopped", false, false, false, true, true },
	[HR_HEALTH_STUCK] = { "stuck", false, false, false, false, true },
};

#define NO HR_HEALTHS /* the state refuses the fault or step */
#define DOWN HR_HEALTH_DOWN
#define UP HR_HEALTH_UP
#define NO_ADMIN HR_HEALTH_NO_ADMIN
#define FAILED HR_HEALTH_FAILED
#define LOST HR_HEALTH_LOST
#define STOPPED HR_HEALTH_STOPPED
#define STUCK HR_HEALTH_STUCK

/*
 * The next state: a row per fault or step, a column per state. STOPPED and STUCK accept no fault,
 * because the registers of a stopped controller show the effect of the shutdown. LOST remains LOST;
 * faults of its queues are still counted.
 */
static const enum hr_health_state after_fault[HR_FAULTS][HR_HEALTHS] = {
	/*			       DOWN  UP        NO_ADMIN FAILED  LOST  STOPPED STUCK */
	[HR_FAULT_LOST_COMMAND] = { NO, FAILED, FAILED, FAILED, LOST, NO, NO },
	[HR_FAULT_BROKEN_QUEUE] = { NO, FAILED, FAILED, FAILED, LOST, NO, NO },
	[HR_FAULT_KEPT_QUEUE] = { NO, FAILED, FAILED, FAILED, LOST, NO, NO },
	[HR_FAULT_UNKNOWN_QUEUES] = { NO, FAILED, FAILED, FAILED, LOST, NO, NO },
	[HR_FAULT_NAMESPACE] = { NO, FAILED, FAILED, FAILED, LOST, NO, NO },
	[HR_FAULT_DOORBELL] = { NO, FAILED, FAILED, FAILED, LOST, NO, NO },
	[HR_FAULT_ADMIN_QUEUE] = { DOWN, NO_ADMIN, NO, FAILED, LOST, NO, NO },
	[HR_FAULT_FATAL] = { DOWN, LOST, LOST, LOST, NO, NO, NO },
	[HR_FAULT_GONE] = { DOWN, LOST, LOST, LOST, NO, NO, NO },
	[HR_FAULT_RESET] = { NO, LOST, LOST, LOST, NO, NO, NO },
};

static const enum hr_health_state after_step[HR_HEALTH_STEPS][HR_HEALTHS] = {
	/*		       DOWN   UP       NO_ADMIN FAILED   LOST     STOPPED STUCK */
	[HR_STEP_START] = { UP, NO, NO, NO, NO, UP, NO },
	[HR_STEP_GIVE_UP] = { NO, FAILED, FAILED, NO, NO, NO, NO },
	[HR_STEP_REOPEN] = { NO, NO, NO, UP, NO, NO, NO },
	[HR_STEP_STOPPED] = { NO, STOPPED, STOPPED, STOPPED, STOPPED, NO, STOPPED },
	[HR_STEP_STUCK] = { STUCK, STUCK, STUCK, STUCK, STUCK, NO, NO },
	[HR_STEP_DOWN] = { NO, DOWN, DOWN, NO, NO, DOWN, NO },
};

/* Faults that concern the controller, so they count for all its ssds. */
static const bool of_controller[HR_FAULTS] = {
	[HR_FAULT_DOORBELL] = true, [HR_FAULT_ADMIN_QUEUE] = true, [HR_FAULT_FATAL] = true,
	[HR_FAULT_GONE] = true,	    [HR_FAULT_RESET] = true,
};

const struct hr_health_rule *hr_health_rule(enum hr_health_state state)
{
	return &rule[(unsigned)state < HR_HEALTHS ? state : HR_HEALTH_STUCK];
}

static struct hr_health *next_of(struct hr_health *health)
{
	return health->next ? health->next : health;
}

void hr_health_join(struct hr_health *health, struct hr_health *controller, const char *name)
{
	health->state = controller->state;
	health->error = controller->error;
	health->name = name;
	health->next = next_of(controller);
	controller->next = health;
}

void hr_health_leave(struct hr_health *health)
{
	struct hr_health *before = health;

	while (next_of(before) != health)
		before = before->next;
	before->next = health->next;
	health->next = NULL;
}

/* The only function that changes a word. */
static void set_health_state(struct hr_health *health, enum hr_health_state to, int err)
{
	if (to == HR_HEALTHS)
		return;
	if (rule[health->state].commands && !rule[to].commands)
		health->error = err;
	if (rule[to].commands)
		health->error = 0;
	health->state = to;
}

static void report_health(struct hr_error *e, const char *name, const char *text)
{
	if (e && !e->printed)
		hr_error_add(e, HR_ERROR_DEVICE, -EIO, "%s: %s", name, text);
	else
		hr_error("%s: %s", name, text);
}

int hr_health_refuse(const struct hr_health *health, struct hr_error *e)
{
	if (hr_health_commands(health))
		return 0;
	return hr_fail(e, HR_ERROR_DEVICE, hr_health_error(health),
		       "%s: accepts no commands after an earlier fault: its state is '%s'",
		       health->name, hr_health_rule(health->state)->name);
}

int hr_health_fault(struct hr_health *health, enum hr_fault fault, struct hr_error *e, int err,
		    const char *format, ...)
{
	const enum hr_health_state *after = after_fault[fault];
	const bool all = of_controller[fault], known = after[health->state] == NO;
	char text[HR_LOG_LINE_MAX];
	va_list args;

	if (format) {
		va_start(args, format);
		vsnprintf(text, sizeof text, format, args);
		va_end(args);
		if (known)
			hr_fail_known(e, HR_ERROR_DEVICE, err, "%s: %s", health->name, text);
		else
			report_health(e, health->name, text);
	}
	if (known)
		return err;
	health->count[fault]++;
	set_health_state(health, after[health->state], err);
	for (struct hr_health *h = next_of(health); h != health; h = next_of(h)) {
		h->count[fault] += all && after[h->state] != NO;
		set_health_state(h, after[h->state], all ? err : -EIO);
	}
	return err;
}

bool hr_health_set(struct hr_health *health, enum hr_health_step step)
{
	const enum hr_health_state *after = after_step[step];

	if (after[health->state] == NO)
		return false;
	set_health_state(health, after[health->state], -EIO);
	for (struct hr_health *h = next_of(health); h != health; h = next_of(h))
		set_health_state(h, after[h->state], -EIO);
	return true;
}

void hr_health_take_qp(struct hr_health *health, const struct hr_nvme_qp *qp)
{
	const uint64_t lost = qp->stats.lost < qp->entries ? qp->stats.lost : qp->entries;

	for (uint64_t i = 0; i < lost; i++)
		hr_health_fault(health, HR_FAULT_LOST_COMMAND, NULL, -ETIMEDOUT, NULL);
	if (qp->error)
		hr_health_fault(health, HR_FAULT_BROKEN_QUEUE, NULL, qp->error, NULL);
}
