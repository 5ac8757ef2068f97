/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORLD_AT ((void *)0x200000000000)

int __real_poll(struct pollfd *fds, nfds_t count, int ms);

/* The referee is the process that starts the world, and is not a part of it. */

struct referee {
	struct pollfd watch[SIM_PROCESSES + 1]; /* [0]: new processes */
	unsigned number[SIM_PROCESSES + 1];
	unsigned count;
	int pipe[2];
	bool over;
};

static void watch(struct referee *r, unsigned process)
{
	struct sim_process *p = &sim_world->process[process];

	r->number[r->count] = process;
	r->watch[r->count++] =
		(struct pollfd){ .fd = (int)syscall(SYS_pidfd_open, p->pid, 0), .events = POLLIN };
	__atomic_store_n(&p->watched, 1, __ATOMIC_RELEASE);
	sim_wake_at(&p->watched);
}

static void hear(struct referee *r)
{
	uint16_t number;

	if (read(r->pipe[0], &number, sizeof number) != sizeof number || number == UINT16_MAX)
		r->over = true;
	else
		watch(r, number);
}

/* The process that had the turn has died with it. */
static void replace(struct referee *r)
{
	unsigned next;

	if (!sim_world->process[0].alive) {
		r->over = true;
		return;
	}
	next = sim_choose(SIM_NONE);
	r->over = next == SIM_NONE;
	if (!r->over) {
		sim_count_turn(next);
		sim_give_turn(next);
	}
}

static void see_death(struct referee *r, unsigned i)
{
	const unsigned process = r->number[i];
	const bool has_turn = sim_world->thread[sim_world->current].process == process;

	close(r->watch[i].fd);
	r->watch[i] = r->watch[--r->count];
	r->number[i] = r->number[r->count];
	__atomic_store_n(&sim_world->process[process].seen_dead, 1, __ATOMIC_RELEASE);
	if (!has_turn || !sim_world->process[process].alive)
		return; /* the process that killed it notes it, or the one that chooses the next turn */
	sim_bury(process);
	replace(r);
}

static bool turn(struct referee *r, unsigned seconds)
{
	if (__real_poll(r->watch, r->count, (int)seconds * 1000) <= 0)
		return false;
	if (r->watch[0].revents)
		hear(r);
	for (unsigned i = r->count; !r->over && i-- > 1;)
		if (r->watch[i].revents)
			see_death(r, i);
	return true;
}

static unsigned end_all(void)
{
	unsigned left = 0;

	for (unsigned p = 0; p < sim_world->processes; p++)
		if (sim_world->process[p].alive) {
			left += p != 0;
			kill(sim_world->process[p].pid, SIGKILL);
		}
	return left;
}

static void make_world(uint64_t seed)
{
	const int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

	if (sim_world)
		munmap(sim_world, sizeof *sim_world);
	sim_world = mmap(WORLD_AT, sizeof *sim_world, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (sim_world == MAP_FAILED)
		abort();
	sim_world->now_ns = SIM_START_NS;
	sim_world->end_ns = SIM_START_NS + 48 * 3600 * 1000000000ull;
	sim_world->order.state = seed * 2 + 1;
	/* stored random data do not depend on the schedule */
	sim_world->numbers.state = 0x9e3779b97f4a7c15u;
	sim_world->stay = fake_random_below(&sim_world->order, 4)
				  ? 224 + fake_random_below(&sim_world->order, 32)
				  : 64 + fake_random_below(&sim_world->order, 192);
	sim_world->process[0] = (struct sim_process){ .parent = SIM_NONE, .alive = true };
	sim_world->processes = 1;
	sim_world->thread[0] = (struct sim_thread){ .wait = SIM_READY };
	sim_world->threads = 1;
}

int sim_run_world(uint64_t seed, int (*director)(void *argument), void *argument, unsigned seconds,
		  unsigned *left)
{
	struct referee r = { .count = 1 };
	bool in_time = true;
	int status = 0;
	pid_t pid;

	make_world(seed);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (pipe2(r.pipe, O_CLOEXEC) != 0)
		abort();
	r.watch[0] = (struct pollfd){ .fd = r.pipe[0], .events = POLLIN };
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(r.pipe[0]);
		sim_be_director(r.pipe[1], director, argument);
	}
	sim_world->process[0].pid = pid;
	watch(&r, 0);
	sim_give_turn(0);
	while (!r.over && in_time)
		in_time = turn(&r, seconds);
	if (!in_time) {
		snprintf(sim_world->dead_end, sizeof sim_world->dead_end,
			 "no end within %u s:", seconds);
		sim_describe(sim_world->dead_end + strlen(sim_world->dead_end),
			     sizeof sim_world->dead_end - strlen(sim_world->dead_end));
	}
	*left = end_all();
	for (unsigned i = 1; i < r.count; i++)
		close(r.watch[i].fd);
	close(r.pipe[0]);
	close(r.pipe[1]);
	waitpid(pid, &status, 0);
	while (waitpid(-1, NULL, 0) > 0)
		continue;
	return in_time ? status : -ETIMEDOUT;
}
