/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/supervisor/process.h - the engine as a process of its own.
 *
 * The engine is forked, without exec: the supervisor starts no thread, loads no GPU driver and
 * opens no device, so a copy of it has the same clean state as a new program. The copy needs no
 * /proc. It also does not read the configuration again, which may have changed or came through a
 * pipe. A new engine makes each attempt, so the GPU context and the memory of the previous engine
 * are gone.
 *
 * When the kernel permits it, the supervisor has the lowest real-time priority (SCHED_RR, sched(7)),
 * and the first thread of the engine, its control path, has a higher priority than the other threads
 * of the engine (HR_CONTROL_NICE): busy workers and software controllers would otherwise delay
 * answers and starts on a machine with few CPUs. Both sleep most of the time. Processes that the
 * supervisor forks do not inherit its priority.
 *
 * The engine has its own process group, so that Ctrl-C reaches only the supervisor, which forwards
 * it. The kernel kills the engine when the supervisor dies. The engine ends after one attempt.
 *
 * Supervisor and engine share a page (boot/appliance/protocol/record.h) and a pipe, which carries the
 * phases. An engine whose pipelines repeat gets its dispatches (boot/appliance/attempt/dispatch.h)
 * through a socket, and each engine gets clients of the control socket that it serves itself
 * (boot/appliance/store/service.h) through another one. The engine's undo helper (pci/undo.h) also
 * holds the writing end of the pipe, so the pipe has no writer only after the engine has ended and
 * the undo helper has turned off bus mastering.
 */
#ifndef BOOT_APPLIANCE_SUPERVISOR_PROCESS_H
#define BOOT_APPLIANCE_SUPERVISOR_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "boot/appliance/protocol/message.h"
#include "boot/appliance/protocol/record.h"
#include "boot/appliance/lend/sockets.h"

#define HR_CONTROL_NICE (-10) /* added to the nice value of the process (nice(2)) */

struct hr_process {
	struct hr_record_page *page; /* NULL: hr_process_open() has not been called */
	pid_t pid;		     /* 0: no engine, or its end has been collected */
	int phases;		     /* reading end of the pipe; -1: none */
	int dispatch; /* dispatches to an engine whose pipelines repeat; -1: it takes none */
	int clients;  /* clients that the engine serves; -1: there is no engine */
	int nice;     /* of the engine's workers: the supervisor's before hr_process_open() */
	struct hr_tap_sockets *sockets; /* the caller's: engines inherit them */
};

/* Allocate the page, and raise the priority of the calling thread. 0 or -ENOMEM. */
int hr_process_open(struct hr_process *p);

/*
 * Start an engine that makes one attempt of `engine`. It closes `count` descriptors that only the
 * supervisor uses; a negative one is skipped. The previous engine has ended and its pipe is closed.
 * 0; -EAGAIN, -ENOMEM: the kernel cannot create a process; -EMFILE.
 */
int hr_process_start(struct hr_process *p, struct hr_engine *engine, const int *fds,
		     unsigned count);

/* True once after the end of the engine, with its status (wait(2)). */
bool hr_process_ended(struct hr_process *p, int *status);

/*
 * The next phase that the engine sent. 0; -EAGAIN: none now; -EPROTO: a byte that is not a phase;
 * -EPIPE: the pipe has no writer, or there is no pipe.
 */
int hr_process_receive(struct hr_process *p, enum hr_phase *phase);

/* Send a signal to the engine, if there is one. */
void hr_process_signal(const struct hr_process *p, int signal_number);

/* Send a dispatch, which is one message. 0; -EAGAIN: the engine has not taken the earlier ones;
 * -EPIPE: it takes no dispatches any more. */
int hr_process_dispatch(const struct hr_process *p, const void *dispatch, size_t bytes);

/*
 * Pass a client with its request on to the engine, which gets a copy of the descriptor. 0;
 * -EAGAIN: the engine has not taken the earlier ones; -ENOTCONN: no engine runs; -EPIPE: it serves
 * no clients any more; -errno.
 */
int hr_process_pass(const struct hr_process *p, const struct hr_request *request, int fd);

/* Close the pipe and the sockets: no more phases come from this engine. */
void hr_process_hang_up(struct hr_process *p);

/* Free the page, and give the calling thread its old priority again. No engine runs. */
void hr_process_close(struct hr_process *p);

#endif
