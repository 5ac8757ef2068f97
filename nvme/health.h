/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/health.h - the health of an ssd: one word, one table of the permissions of each state, one
 * transition function.
 *
 * Everything that goes wrong with a controller, a namespace or a queue pair is a fault. It passes
 * through hr_health_fault(), which reports it once, counts it, and moves the word as the table in
 * health.c says. Actions of the owner (start, disable) pass through hr_health_set().
 *
 * A word belongs to one ssd (a namespace on a controller); a controller has one for itself. The
 * words of a controller and of its ssds are joined in a ring, because they share its fate: it has
 * to be disabled as a whole before memory is freed. A fault about the controller reaches all words
 * of the ring; a fault about a queue pair or a namespace takes the other words along with the error
 * -EIO.
 *
 * Threads: the host thread that owns the controller is the only writer. Workers record faults of a
 * queue pair (`broken`, `stats.lost`) in the queue pair, which they own; the host thread reads
 * these words with hr_health_take_qp() after the workers have ended.
 */
#ifndef NVME_HEALTH_H
#define NVME_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/error.h"
#include "nvme/queue/queue.h"

enum hr_health_state {
	HR_HEALTH_DOWN,	    /* not brought up; a controller knows no memory of this process */
	HR_HEALTH_UP,	    /* in use */
	HR_HEALTH_NO_ADMIN, /* I/O goes on; the admin queue has ended until a reset */
	HR_HEALTH_FAILED, /* a queue pair or the namespace: no command; the controller still runs */
	HR_HEALTH_LOST,	  /* the controller itself failed, is gone, or was reset by others */
	HR_HEALTH_STOPPED, /* the controller is disabled: nothing is in flight */
	HR_HEALTH_STUCK,   /* the controller cannot be disabled and may write to memory for ever */
	HR_HEALTHS,
};

/* Permissions of a state. */
struct hr_health_rule {
	const char *name; /* "up": as status reports it */
	bool commands;	  /* the host and workers may send commands */
	bool admin;	  /* also admin commands */
	bool disable; /* the controller still runs, or may run: disable it before memory is freed */
	bool memory;  /* memory that the controller knows may be freed */
	bool failed;  /* a fault has occurred since it was up */
};

/* Faults of a controller, a namespace or a queue pair. */
enum hr_fault {
	HR_FAULT_LOST_COMMAND, /* its deadline passed without a completion */
	HR_FAULT_BROKEN_QUEUE, /* the controller broke a rule of queues, or a queue takes no command */
	HR_FAULT_KEPT_QUEUE,	 /* a queue pair that the controller does not delete */
	HR_FAULT_UNKNOWN_QUEUES, /* the workers are gone, and their queue pairs cannot be read */
	HR_FAULT_NAMESPACE,	 /* the namespace is not the one that was opened */
	HR_FAULT_DOORBELL,	 /* the controller reports that a doorbell was written wrongly */
	HR_FAULT_ADMIN_QUEUE,	 /* the admin queue ended: a reset is needed; I/O continues */
	HR_FAULT_FATAL,		 /* CSTS.CFS, or an event that reports an internal failure */
	HR_FAULT_GONE,		 /* registers read all ones, or VS reads 0 */
	HR_FAULT_RESET,		 /* another process or driver has reset the controller */
	HR_FAULTS,
};

/* Actions of the owner of a controller. */
enum hr_health_step {
	HR_STEP_START,	 /* the controller is ready, at first or after it was disabled */
	HR_STEP_GIVE_UP, /* no fault was found, but the ssd must not be used any more */
	HR_STEP_REOPEN,	 /* the only queue pair in use was deleted and created again */
	HR_STEP_STOPPED, /* it was disabled, or is gone */
	HR_STEP_STUCK,	 /* disabling it failed */
	HR_STEP_DOWN,	 /* its memory is freed */
	HR_HEALTH_STEPS,
};

struct hr_health {
	enum hr_health_state state;
	int error;		/* first error since the start, a negative errno; 0: none */
	const char *name;	/* for messages; belongs to the owner */
	struct hr_health *next; /* ring of the words that share a controller; NULL: alone */
	uint64_t count[HR_FAULTS];
};

const struct hr_health_rule *hr_health_rule(enum hr_health_state state);

/* Add the word of an ssd to the ring of its controller; it gets the controller's state. */
void hr_health_join(struct hr_health *health, struct hr_health *controller, const char *name);

/* Remove the word from its ring. The states of the others do not change. */
void hr_health_leave(struct hr_health *health);

/*
 * Report a fault. When the table accepts the fault in this state, it is counted, it changes the
 * word and the other words of the ring, and its text, "NAME: TEXT", is added to e with the kind
 * HR_ERROR_DEVICE. A fault is never silent: without an e that is still to be printed (e is NULL, as
 * in clean-up, or has been printed) the text is logged at once, as an error.
 *
 * When the table refuses the fault (the controller is known to be lost, or is stopped), nothing
 * changes, and an empty e gets the text as one that is not printed again: the first fault was.
 * format NULL: the caller has the text, and nothing is filled or logged. Returns err, which is
 * negative.
 */
int hr_health_fault(struct hr_health *health, enum hr_fault fault, struct hr_error *e, int err,
		    const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * 0 while commands are allowed; otherwise the first error, and e says that an earlier fault is the
 * cause.
 */
int hr_health_refuse(const struct hr_health *health, struct hr_error *e);

/*
 * Record an action of the owner: changes all words of the ring. False: the table refuses the step
 * for `health`, and nothing changes. HR_STEP_START resets the error, and keeps the counters.
 */
bool hr_health_set(struct hr_health *health, enum hr_health_step step);

/* After the workers have ended: record the faults of queue pair `qp`. Logs nothing, because the
 * message of the pipeline names queue, command and tile. */
void hr_health_take_qp(struct hr_health *health, const struct hr_nvme_qp *qp);

static inline bool hr_health_commands(const struct hr_health *health)
{
	return hr_health_rule(health->state)->commands;
}

/* 0 while commands are allowed, otherwise the first error. */
static inline int hr_health_error(const struct hr_health *health)
{
	if (hr_health_commands(health))
		return 0;
	return health->error ? health->error : -EIO;
}

static inline bool hr_health_failed(const struct hr_health *health)
{
	return hr_health_rule(health->state)->failed;
}

#endif
