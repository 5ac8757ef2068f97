/* SPDX-License-Identifier: Apache-2.0 */
/* The polling threads: their rounds, their CPUs, and how they are stopped. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/queue/wait.h"
#include "nvme/queue/worker.h"
#include "nvme/soft/internal.h"

#define SCAN_ROUNDS 256u       /* rounds between two scans of doorbells without a queue */
#define SPINS 32u	       /* rounds without work before a thread yields */
#define SPINS_SPARSE 128u      /* the same before it sleeps, when it does not yield */
#define DENSE_NS HR_NS_PER_MS  /* a thread yields when there is I/O more often than this */
#define SPINS_PINNED 32768u    /* the same for a thread with its own CPU: some milliseconds */
#define NAP_PINNED_NS 50000ull /* after that, the sleep between two rounds */
#define QUIET_NS HR_NS_PER_S   /* time without work, after which each thread sleeps longer: */
#define NAP_QUIET_NS (4 * HR_NS_PER_MS)

void soft_quiesce(struct soft *soft, uint32_t first)
{
	for (uint32_t i = first; i < soft->threads; i++) {
		__atomic_fetch_add(&soft->poller[i].wanted, 1, __ATOMIC_ACQ_REL);
		hr_mutex_lock(&soft->poller[i].lock);
	}
}

void soft_resume(struct soft *soft, uint32_t first)
{
	for (uint32_t i = first; i < soft->threads; i++) {
		pthread_mutex_unlock(&soft->poller[i].lock);
		__atomic_fetch_sub(&soft->poller[i].wanted, 1, __ATOMIC_ACQ_REL);
	}
}

static bool is_dead(const struct soft *soft)
{
	return __atomic_load_n(&soft->dead, __ATOMIC_ACQUIRE) != 0;
}

bool soft_poll(struct soft_poller *p)
{
	struct soft *soft = p->soft;
	bool any = false;

	if (is_dead(soft)) {
		if (p->index == 0)
			soft_vanish(soft);
		return false;
	}
	if (p->index == 0)
		any = soft_regs_poll(soft);
	if (!soft->running)
		return any;
	if (p->index == 0) {
		any |= soft_admin_poll(p);
		if (++p->rounds % SCAN_ROUNDS == 0)
			soft_scan_doorbells(soft);
		soft_events_send(soft);
	}
	if (soft_queues_poll(p))
		p->io = any = true;
	return any;
}

static bool is_ending(const struct soft_poller *p)
{
	return __atomic_load_n(&p->soft->ending, __ATOMIC_ACQUIRE) != 0;
}

static bool is_wanted(const struct soft_poller *p)
{
	return __atomic_load_n(&p->wanted, __ATOMIC_ACQUIRE) != 0;
}

/* `rest` is odd while the controller rests. Each rest has its own value: a thread that still sleeps
 * when the next rest begins has to poll before it sleeps again. */
static bool is_rest(uint32_t rest)
{
	return rest & 1;
}

static uint32_t rest_of(const struct soft *soft)
{
	return __atomic_load_n(&soft->rest, __ATOMIC_ACQUIRE);
}

void soft_set_idle(struct soft *soft, bool resting)
{
	if (is_rest(rest_of(soft)) == resting)
		return;
	hr_mutex_lock(&soft->rest_lock);
	__atomic_fetch_add(&soft->rest, 1, __ATOMIC_ACQ_REL);
	soft->asleep = 0;
	hr_cond_broadcast(&soft->rest_end);
	pthread_mutex_unlock(&soft->rest_lock);
}

/* Sleep until this rest has ended. */
static void sleep_long(struct soft *soft, uint32_t rest)
{
	hr_mutex_lock(&soft->rest_lock);
	soft->asleep += rest_of(soft) == rest;
	while (rest_of(soft) == rest)
		hr_cond_wait(&soft->rest_end, &soft->rest_lock);
	pthread_mutex_unlock(&soft->rest_lock);
}

/* True after so many rounds without work that a thread sleeps. */
static bool is_tired(const struct soft_poller *p, uint32_t idle)
{
	const uint32_t spins = p->soft->options.cpus ? SPINS_PINNED
			       : p->dense	     ? SPINS
						     : SPINS_SPARSE;

	return idle >= spins || (idle >= SPINS && is_rest(rest_of(p->soft)));
}

/* Poll under the lock, until there has been no work for some rounds or another thread wants the
 * lock. True: there was work, or a completion is held for later. */
static bool poll_while_busy(struct soft_poller *p, uint32_t *idle)
{
	bool any = false;

	hr_mutex_lock(&p->lock);
	do {
		if (soft_poll(p)) {
			*idle = 0;
			any = true;
		} else {
			++*idle;
			__builtin_ia32_pause();
		}
	} while (!is_tired(p, *idle) && !is_wanted(p) && !is_ending(p));
	any |= p->held_count != 0;
	pthread_mutex_unlock(&p->lock);
	return any;
}

/* Pipelines make dense I/O: to yield leaves their workers more CPU time than short sleeps. Commands of
 * the host come one by one, and the host waits for each: see hr_wait_step(). */
static void note_work(struct soft_poller *p)
{
	p->busy_ns = hr_now_ns();
	p->dense = p->io && p->busy_ns - p->io_ns < DENSE_NS;
	if (p->io)
		p->io_ns = p->busy_ns;
	p->io = false;
}

static void populate(struct soft_poller *p)
{
	struct soft *soft = p->soft;
	const int err = soft_memory_populate(&soft->media, p->index, soft->threads, &soft->ending);

	if (err)
		__atomic_store_n(&soft->populate_error, err, __ATOMIC_RELAXED);
	__atomic_fetch_add(&soft->populated, 1, __ATOMIC_ACQ_REL);
}

static void nap(struct soft_poller *p, uint32_t rest, uint32_t *idle)
{
	if (is_rest(rest)) {
		sleep_long(p->soft, rest);
		*idle = 0;
		p->busy_ns = hr_now_ns();
	} else if (hr_now_ns() - p->busy_ns >= QUIET_NS) {
		hr_wait_ns(NAP_QUIET_NS);
	} else if (p->soft->options.cpus) {
		*idle = SPINS_PINNED;
		hr_wait_ns(NAP_PINNED_NS);
	} else if (!p->dense) {
		*idle = *idle < HR_WAIT_SPINS ? HR_WAIT_SPINS : *idle;
		hr_wait_step(idle);
	} else {
		hr_idle(idle);
	}
}

static void *poll_thread(void *argument)
{
	struct soft_poller *p = argument;
	uint32_t idle = 0;
	uint32_t rest;

	p->busy_ns = hr_now_ns();
	hr_wait_precisely();
	if (p->soft->options.populate)
		populate(p);
	while (!is_ending(p)) {
		while (is_wanted(p))
			hr_wait_ns(2000);
		/* read before the poll, which then sees all doorbells of before the rest */
		rest = rest_of(p->soft);
		if (poll_while_busy(p, &idle)) {
			note_work(p);
			rest = 0;
		}
		if (is_tired(p, idle))
			nap(p, rest, &idle);
	}
	return NULL;
}

void soft_join(struct soft *soft, uint32_t threads)
{
	__atomic_store_n(&soft->ending, 1, __ATOMIC_RELEASE);
	soft_set_idle(soft, false);
	for (uint32_t i = 0; i < threads; i++)
		hr_thread_join(&soft->poller[i].thread);
}

static int check_cpus(const struct soft *soft, struct hr_error *e)
{
	const struct hr_soft_options *o = &soft->options;
	cpu_set_t ours;

	if (hr_thread_cpus(&ours) != 0)
		CPU_ZERO(&ours);
	for (uint32_t i = 0; i < soft->threads && o->cpus; i++) {
		if (CPU_ISSET(o->first_cpu + i, &ours))
			continue;
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"soft: cpus=%u-%u: this process may not use CPU %u; see 'taskset -cp $$'",
			o->first_cpu, o->first_cpu + o->cpus - 1, o->first_cpu + i);
	}
	return 0;
}

static int start_one(struct soft_poller *p)
{
	const struct hr_soft_options *o = &p->soft->options;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(o->first_cpu + p->index, &cpu);
	return hr_thread_start(&p->thread, o->cpus ? &cpu : NULL, poll_thread, p);
}

/* Wait until all threads have populated their part of the memory. */
static int wait_populated(struct soft *soft, struct hr_error *e)
{
	while (__atomic_load_n(&soft->populated, __ATOMIC_ACQUIRE) < soft->threads)
		hr_wait_ns(100000);
	if (!soft->populate_error)
		return 0;
	return hr_fail(e, HR_ERROR_MISSING, soft->populate_error,
		       "soft:%s: size=%llu cannot be populated: %s",
		       soft->media.path ? soft->media.path : "memory",
		       (unsigned long long)soft->media.bytes, strerror(-soft->populate_error));
}

int soft_start(struct soft *soft, struct hr_error *e)
{
	int err = check_cpus(soft, e);

	for (uint32_t i = 0; !err && i < soft->threads; i++) {
		err = start_one(&soft->poller[i]);
		if (err) {
			hr_fail(e, HR_ERROR_FAILED, err, "soft: cannot start polling thread %u: %s",
				i, strerror(-err));
			soft_join(soft, i);
		}
	}
	if (err || !soft->options.populate)
		return err;
	err = wait_populated(soft, e);
	if (err)
		soft_join(soft, soft->threads);
	return err;
}
