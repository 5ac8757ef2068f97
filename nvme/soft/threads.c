/* The polling threads: what they do in turns, where they run, and how they are held still. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "nvme/worker.h"
#include "nvme/soft/internal.h"

#define SCAN_ROUNDS 256u       /* between two looks at doorbells of queues that are not there */
#define SPINS 32u	       /* polls that find nothing before a thread lets others run */
#define SPINS_PINNED 32768u    /* the same with a CPU of its own: some milliseconds */
#define NAP_PINNED_NS 50000ull /* from then on, between two polls */

void soft_quiesce(struct soft *soft, uint32_t first)
{
	for (uint32_t i = first; i < soft->threads; i++) {
		__atomic_fetch_add(&soft->poller[i].wanted, 1, __ATOMIC_ACQ_REL);
		pthread_mutex_lock(&soft->poller[i].lock);
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
	return soft_queues_poll(p) || any;
}

static bool is_ending(const struct soft_poller *p)
{
	return __atomic_load_n(&p->soft->ending, __ATOMIC_ACQUIRE) != 0;
}

static bool is_wanted(const struct soft_poller *p)
{
	return __atomic_load_n(&p->wanted, __ATOMIC_ACQUIRE) != 0;
}

/* Rounds under the lock, until nobody has had work for a while or somebody else wants the lock. */
static void poll_while_busy(struct soft_poller *p, uint32_t spins, uint32_t *idle)
{
	pthread_mutex_lock(&p->lock);
	do {
		if (soft_poll(p)) {
			*idle = 0;
		} else {
			++*idle;
			__builtin_ia32_pause();
		}
	} while (*idle < spins && !is_wanted(p) && !is_ending(p));
	pthread_mutex_unlock(&p->lock);
}

static void populate(struct soft_poller *p)
{
	struct soft *soft = p->soft;
	const int err = soft_memory_populate(&soft->media, p->index, soft->threads, &soft->ending);

	if (err)
		__atomic_store_n(&soft->populate_error, err, __ATOMIC_RELAXED);
	__atomic_fetch_add(&soft->populated, 1, __ATOMIC_ACQ_REL);
}

static void *poll_thread(void *argument)
{
	struct soft_poller *p = argument;
	const bool pinned = p->soft->options.cpus != 0;
	uint32_t idle = 0;

	hr_wait_precisely();
	if (p->soft->options.populate)
		populate(p);
	while (!is_ending(p)) {
		while (is_wanted(p))
			hr_wait_ns(2000);
		poll_while_busy(p, pinned ? SPINS_PINNED : SPINS, &idle);
		if (pinned && idle >= SPINS_PINNED) {
			idle = SPINS_PINNED;
			hr_wait_ns(NAP_PINNED_NS);
		} else if (!pinned && idle >= SPINS) {
			hr_idle(&idle);
		}
	}
	return NULL;
}

void soft_join(struct soft *soft, uint32_t threads)
{
	__atomic_store_n(&soft->ending, 1, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < threads; i++)
		pthread_join(soft->poller[i].thread, NULL);
}

static int check_cpus(const struct soft *soft, char *message)
{
	const struct hr_soft_options *o = &soft->options;
	cpu_set_t ours;

	if (sched_getaffinity(0, sizeof(ours), &ours) != 0)
		CPU_ZERO(&ours);
	for (uint32_t i = 0; i < soft->threads && o->cpus; i++) {
		if (CPU_ISSET(o->first_cpu + i, &ours))
			continue;
		snprintf(message, HR_LOG_LINE_MAX,
			 "soft: cpus=%u-%u: this process may not use CPU %u; see 'taskset -cp $$'",
			 o->first_cpu, o->first_cpu + o->cpus - 1, o->first_cpu + i);
		return -EINVAL;
	}
	return 0;
}

static int start_one(struct soft_poller *p)
{
	const struct hr_soft_options *o = &p->soft->options;
	pthread_attr_t attributes;
	cpu_set_t cpu;
	int err;

	pthread_attr_init(&attributes);
	CPU_ZERO(&cpu);
	CPU_SET(o->first_cpu + p->index, &cpu);
	if (o->cpus)
		pthread_attr_setaffinity_np(&attributes, sizeof(cpu), &cpu);
	err = pthread_create(&p->thread, &attributes, poll_thread, p);
	pthread_attr_destroy(&attributes);
	return err;
}

/* Until all threads have taken their part of the memory. */
static int wait_populated(struct soft *soft, char *message)
{
	while (__atomic_load_n(&soft->populated, __ATOMIC_ACQUIRE) < soft->threads)
		hr_wait_ns(100000);
	if (!soft->populate_error)
		return 0;
	snprintf(message, HR_LOG_LINE_MAX, "soft:memory: size=%llu cannot be populated: %s",
		 (unsigned long long)soft->media.bytes, strerror(-soft->populate_error));
	return soft->populate_error;
}

int soft_start(struct soft *soft, char *message)
{
	int err = check_cpus(soft, message);

	for (uint32_t i = 0; !err && i < soft->threads; i++) {
		err = -start_one(&soft->poller[i]);
		if (err) {
			snprintf(message, HR_LOG_LINE_MAX,
				 "soft: cannot start polling thread %u: %s", i, strerror(-err));
			soft_join(soft, i);
		}
	}
	if (err || !soft->options.populate)
		return err;
	err = wait_populated(soft, message);
	if (err)
		soft_join(soft, soft->threads);
	return err;
}
