/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/turns.h"

#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SWITCH_NS 100u
#define ORPHAN_MS 2000	 /* of real time, in which a child dies with its parent */
#define LONG_NS 1000000u /* of a jump of the clock */
#define CURIOUS 6u	 /* of 256 turns, so many ask a descriptor */

/* poll() of libc waits in simulated time (tests/sim/libc.c); deaths take real time. */
int __real_poll(struct pollfd *fds, nfds_t count, int ms);

struct sim_world *sim_world;

/* ---- turns between processes */

void sim_sleep_at(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

void sim_wake_at(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void sim_await_turn(unsigned process)
{
	uint32_t *turn = &sim_world->process[process].turn;

	while (!__atomic_exchange_n(turn, 0, __ATOMIC_ACQUIRE))
		sim_sleep_at(turn, 0);
}

void sim_give_turn(unsigned thread)
{
	uint32_t *turn = &sim_world->process[sim_world->thread[thread].process].turn;

	sim_world->current = thread;
	__atomic_store_n(turn, 1, __ATOMIC_RELEASE);
	sim_wake_at(turn);
}

/* ---- the choice of the next thread */

static bool is_stalled(const struct sim_thread *t)
{
	return sim_world->process[t->process].stalled_ns > sim_world->now_ns;
}

static bool is_ready(const struct sim_thread *t)
{
	switch ((enum sim_wait)t->wait) {
	case SIM_READY:
		return true;
	case SIM_ASLEEP:
	case SIM_AT_FD:
		return t->wake_ns <= sim_world->now_ns;
	case SIM_AT_COND:
		return t->seen != sim_world->process[t->process].broadcasts;
	case SIM_AT_CHILD:
		return t->seen != sim_world->deaths;
	case SIM_JOINING:
		return sim_world->thread[t->joined].wait == SIM_ENDED;
	default:
		return false;
	}
}

/* Something has happened since the thread asked its descriptor. */
static bool is_curious(const struct sim_thread *t)
{
	return t->wait == SIM_AT_FD && t->seen != sim_world->activity;
}

void sim_describe(char *text, size_t bytes)
{
	static const char *const what[] = { "free",    "ready",	   "asleep",  "at a condition",
					    "at a fd", "at child", "joining", "ended" };
	size_t at = 0;

	for (unsigned i = 0; i < sim_world->threads && at < bytes; i++)
		if (sim_world->thread[i].wait != SIM_FREE)
			at += (size_t)snprintf(text + at, bytes - at, " %u/%u %s",
					       sim_world->thread[i].process, i,
					       what[sim_world->thread[i].wait]);
}

/* All threads wait: move the clock to the earliest end of a sleep. False: there is none. */
static bool jump(void)
{
	uint64_t next_ns = UINT64_MAX;

	for (unsigned i = 0; i < sim_world->threads; i++) {
		const struct sim_thread *t = &sim_world->thread[i];

		if ((t->wait == SIM_ASLEEP || t->wait == SIM_AT_FD) && t->wake_ns < next_ns &&
		    !is_stalled(t))
			next_ns = t->wake_ns;
		if (t->wait != SIM_FREE && is_stalled(t) &&
		    sim_world->process[t->process].stalled_ns < next_ns)
			next_ns = sim_world->process[t->process].stalled_ns;
	}
	if (next_ns == UINT64_MAX || next_ns > sim_world->end_ns)
		return false;
	/* also what nothing has announced, like a timer, is seen in time */
	if (next_ns - sim_world->now_ns > LONG_NS)
		sim_world->activity++;
	sim_world->now_ns = next_ns;
	return true;
}

struct candidates {
	unsigned ready[SIM_THREADS], here[SIM_THREADS], curious[SIM_THREADS];
	unsigned readies, heres, curiouses;
};

static void gather(struct candidates *c, unsigned process)
{
	c->readies = c->heres = c->curiouses = 0;
	for (unsigned p = 0; p < sim_world->processes; p++)
		if (sim_world->process[p].alive &&
		    __atomic_load_n(&sim_world->process[p].seen_dead, __ATOMIC_ACQUIRE))
			sim_bury(p);
	for (unsigned i = 0; i < sim_world->threads; i++) {
		const struct sim_thread *t = &sim_world->thread[i];

		if (t->wait == SIM_FREE || !sim_world->process[t->process].alive || is_stalled(t))
			continue;
		if (is_ready(t)) {
			c->ready[c->readies++] = i;
			if (t->process == process)
				c->here[c->heres++] = i;
		} else if (is_curious(t)) {
			c->curious[c->curiouses++] = i;
		}
	}
}

unsigned sim_choose(unsigned process)
{
	static struct candidates c;

	for (;;) {
		struct fake_random *order = &sim_world->order;

		gather(&c, process);
		if (c.curiouses && (!c.readies || fake_random_below(order, 256) < CURIOUS))
			return c.curious[fake_random_below(order, c.curiouses)];
		if (c.heres && fake_random_below(order, 256) < sim_world->stay)
			return c.here[fake_random_below(order, c.heres)];
		if (c.readies)
			return c.ready[fake_random_below(order, c.readies)];
		if (!jump())
			break;
	}
	snprintf(sim_world->dead_end, sizeof sim_world->dead_end, "nothing can go on:");
	sim_describe(sim_world->dead_end + strlen(sim_world->dead_end),
		     sizeof sim_world->dead_end - strlen(sim_world->dead_end));
	return SIM_NONE;
}

/*
 * A thread that yields again and again would need as many turns as its wait has microseconds. Its turns
 * become longer.
 */
static uint64_t turn_ns(const struct sim_thread *t)
{
	return t->yields < 128	  ? SWITCH_NS
	       : t->yields < 512  ? 10 * SWITCH_NS
	       : t->yields < 2048 ? 100 * SWITCH_NS
				  : 500 * SWITCH_NS;
}

void sim_count_turn(unsigned next)
{
	sim_world->now_ns += turn_ns(&sim_world->thread[next]);
	sim_world->switches++;
	sim_world->hash = (sim_world->hash ^ next) * 0x100000001b3ull;
}

/* ---- deaths */

bool sim_has_died(int pidfd, int milliseconds)
{
	struct pollfd look = { .fd = pidfd, .events = POLLIN };

	return pidfd < 0 || __real_poll(&look, 1, milliseconds) > 0;
}

void sim_bury(unsigned process)
{
	struct sim_process *dead = &sim_world->process[process];

	if (!dead->alive)
		return;
	dead->alive = false;
	sim_world->deaths++;
	sim_world->activity++;
	for (unsigned i = 0; i < sim_world->threads; i++)
		if (sim_world->thread[i].process == process)
			sim_world->thread[i].wait = SIM_FREE;
	for (unsigned p = 0; p < sim_world->processes; p++) {
		struct sim_process *child = &sim_world->process[p];
		int fd;

		if (!child->alive || child->parent != process)
			continue;
		fd = (int)syscall(SYS_pidfd_open, child->pid, 0);
		if (sim_has_died(fd, ORPHAN_MS))
			sim_bury(p);
		if (fd >= 0)
			close(fd);
	}
}

bool sim_is_fatal(pid_t pid, int signal_number)
{
	char path[64], line[128];
	unsigned long long mask, handled = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "SigIgn: %llx", &mask) == 1 ||
		    sscanf(line, "SigCgt: %llx", &mask) == 1)
			handled |= mask;
	if (file)
		fclose(file);
	return signal_number == SIGKILL || !(handled >> (signal_number - 1) & 1);
}
