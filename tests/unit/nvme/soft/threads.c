/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polling threads: the owners of queues, and queues that are created and deleted while others are
 * used.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/soft/internal.h"
#include "tests/fakes/clock.h"
#include "tests/harness/conform.h"
#include "tests/harness/error.h"

#define A CONFORM_DATA
#define BUSY 3u /* queue pairs 1..BUSY are used all the time */
#define BATCH 15u
#define PAGES_EACH 32u /* of data, per busy queue */
#define COMES 5u       /* queues COMES and COMES + 1 are created and deleted */

static struct conform c;

/* In place of the kernel's: how often a thread of this process has yielded. */
static uint32_t yields; /* atomic */

int sched_yield(void)
{
	__atomic_fetch_add(&yields, 1, __ATOMIC_RELAXED);
	return (int)syscall(SYS_sched_yield);
}

/* Whether the kernel lets this process use all CPUs, also those that the machine does not have. */
static bool every_cpu;

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	long n;

	if (every_cpu) {
		memset(set, 0xff, bytes);
		return 0;
	}
	n = syscall(SYS_sched_getaffinity, pid, bytes, set);
	if (n >= 0)
		memset((uint8_t *)set + n, 0, bytes - (size_t)n);
	return n < 0 ? -1 : 0;
}

static void finish(void)
{
	conform_close(&c);
}

TestSuite(soft_threads, .fini = finish, .timeout = 120);

static const struct soft *soft_of(void)
{
	return c.t.impl;
}

static void expect_spread(uint32_t least, uint32_t most)
{
	for (uint32_t i = 0; i < soft_of()->threads; i++)
		cr_expect(soft_of()->poller[i].cqs >= least && soft_of()->poller[i].cqs <= most,
			  "poller %u has %u completion queues", i, soft_of()->poller[i].cqs);
}

Test(soft_threads, queues_are_spread_whatever_their_identifiers_are)
{
	struct conform_queue q;

	conform_use("soft:memory,size=1M,threads=3");
	conform_open(&c);
	/* Identifiers that are equal modulo the number of threads, and all others. */
	for (uint16_t id = 3; id <= 6; id += 3)
		cr_assert_eq(conform_add_io(&c, &q, id, CONFORM_ENTRIES), 0);
	expect_spread(0, 1);
	cr_expect_eq(soft_of()->poller[0].cqs, 0, "poller 0 has the registers as well");
	cr_assert_eq(conform_add_io(&c, &q, 1, CONFORM_ENTRIES), 0);
	expect_spread(1, 1);
	cr_assert_eq(conform_delete(&c, false, 6), 0);
	cr_assert_eq(conform_delete(&c, true, 6), 0);
	cr_assert_eq(conform_add_io(&c, &q, 7, CONFORM_ENTRIES), 0);
	expect_spread(1, 1);
	cr_assert_eq(conform_add_io(&c, &q, 6, CONFORM_ENTRIES), 0);
	expect_spread(1, 2);
	cr_assert(conform_disable(&c));
	expect_spread(0, 0);
}

/* Another thread uses queues 1..BUSY until the test sets `stop`. */
static struct {
	pthread_t thread;
	struct conform_queue q[BUSY];
	uint32_t stop; /* atomic */
	uint64_t done; /* atomic */
	uint32_t bad;  /* atomic */
} busy;

static bool round_trip(uint32_t i, uint32_t n)
{
	struct conform_queue *q = &busy.q[i];
	struct hr_cqe cqe;

	for (uint32_t k = 0; k < BATCH; k++) {
		const struct hr_sqe sqe =
			conform_io_sqe(&c, (n + k) & 1 ? nvme_cmd_write : nvme_cmd_read,
				       (n * 5 + k) % 64, 1, A + PAGES_EACH * i + k);

		conform_push(q, &sqe);
	}
	conform_ring(&c, q);
	for (uint32_t k = 0; k < BATCH; k++) {
		if (!conform_peek(&c, q, 30000, &cqe) || hr_cqe_status(cqe.status) != 0 ||
		    cqe.sqid != q->id)
			return false;
	}
	conform_release(&c, q);
	__atomic_fetch_add(&busy.done, BATCH, __ATOMIC_RELEASE);
	return true;
}

static bool is_bad(void)
{
	return __atomic_load_n(&busy.bad, __ATOMIC_ACQUIRE) != 0;
}

static void *work(void *argument)
{
	for (uint32_t n = 0; !is_bad() && !__atomic_load_n(&busy.stop, __ATOMIC_ACQUIRE); n++)
		for (uint32_t i = 0; i < BUSY; i++)
			if (!round_trip(i, n))
				__atomic_store_n(&busy.bad, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void start_work(const char *device)
{
	conform_use(device);
	conform_open(&c);
	memset(&busy, 0, sizeof(busy));
	for (uint16_t i = 0; i < BUSY; i++)
		cr_assert_eq(conform_add_io(&c, &busy.q[i], (uint16_t)(i + 1), CONFORM_ENTRIES), 0);
	cr_assert_eq(pthread_create(&busy.thread, NULL, work, NULL), 0);
}

static void end_work(void)
{
	/* On a loaded machine the thread may not have started yet. */
	while (!is_bad() && __atomic_load_n(&busy.done, __ATOMIC_ACQUIRE) == 0)
		hr_wait_ns(HR_NS_PER_MS);
	__atomic_store_n(&busy.stop, 1, __ATOMIC_RELEASE);
	pthread_join(busy.thread, NULL);
	cr_expect_not(is_bad(), "after %llu commands", (unsigned long long)busy.done);
}

static void queues_come_and_go(const char *device)
{
	start_work(device);
	for (uint32_t n = 0; n < 40; n++) {
		struct conform_queue q;

		for (uint16_t id = COMES; id <= COMES + 1; id++) {
			struct hr_sqe sqe =
				conform_io_sqe(&c, nvme_cmd_write, 100 + id, 1, A + 200);

			cr_assert_eq(conform_add_io(&c, &q, id, 2 + n % 15), 0, "%s", device);
			cr_assert_eq(conform_do(&c, &q, &sqe, NULL), 0);
			if (n % 2) /* sent, and possibly not executed */
				conform_push(&q, &sqe);
			conform_ring(&c, &q);
		}
		for (uint16_t id = COMES; id <= COMES + 1; id++) {
			cr_assert_eq(conform_delete(&c, false, id), 0);
			cr_assert_eq(conform_delete(&c, true, id), 0);
		}
	}
	end_work();
	conform_close(&c);
}

Test(soft_threads, queues_come_and_go_while_others_work)
{
	queues_come_and_go("soft:memory,size=1M,cache=0,threads=1");
	queues_come_and_go("soft:memory,size=1M,cache=0,threads=3");
	queues_come_and_go("soft:memory,size=1M,cache=64K,threads=4");
	queues_come_and_go("soft:null,size=1M,threads=4");
}

Test(soft_threads, windows_come_and_go_while_queues_work)
{
	static uint8_t memory[4 * HR_PAGE] __attribute__((aligned(HR_PAGE)));

	start_work("soft:memory,size=1M,cache=0,threads=3");
	for (uint32_t n = 0; n < 100; n++) {
		struct hr_region region;

		cr_assert_eq(hr_region_init_host(&region, "comes", memory, sizeof(memory)), 0);
		cr_assert_eq(c.t.ops->map(&c.t, &region, NULL), 0);
		c.t.ops->unmap(&c.t, &region);
	}
	end_work();
}

Test(soft_threads, each_thread_serves_its_queues)
{
	start_work("soft:memory,size=1M,cache=0,threads=3");
	while (__atomic_load_n(&soft_of()->poller[0].stats.reads, __ATOMIC_RELAXED) == 0 ||
	       __atomic_load_n(&soft_of()->poller[1].stats.reads, __ATOMIC_RELAXED) == 0 ||
	       __atomic_load_n(&soft_of()->poller[2].stats.reads, __ATOMIC_RELAXED) == 0)
		hr_wait_ns(HR_NS_PER_MS);
	end_work();
}

/* The first CPU that this process may use. */
static uint32_t first_cpu(cpu_set_t *ours)
{
	uint32_t cpu = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(*ours), ours), 0);
	while (!CPU_ISSET(cpu, ours))
		cpu++;
	return cpu;
}

/* Sleeps of the only thread in 200 ms after two seconds without work. */
static uint64_t quiet_sleeps(void)
{
	uint64_t before;

	fake_clock_skip(2 * HR_NS_PER_S);
	hr_wait_ns(20 * HR_NS_PER_MS); /* it sees the time */
	before = fake_clock_waits();
	hr_wait_ns(200 * HR_NS_PER_MS);
	return fake_clock_waits() - before;
}

/* On a busy machine the thread may start, or look at the clock, only after the skip: then try again. */
Test(soft_threads, a_thread_that_had_no_work_for_long_sleeps_longer)
{
	uint64_t sleeps = UINT64_MAX;

	conform_use("soft:memory,size=1M");
	conform_open(&c);
	for (unsigned tries = 0; tries < 50 && sleeps > 60; tries++)
		sleeps = quiet_sleeps();
	cr_expect_leq(sleeps, 60u, "%llu sleeps in 200 ms", (unsigned long long)sleeps);
}

/* Wait until all threads sleep. Returns the rounds of thread 0 so far. */
static uint32_t wait_asleep(void)
{
	struct soft *soft = c.t.impl;
	uint32_t rounds = 0;

	for (bool all = false; !all; hr_wait_ns(HR_NS_PER_MS)) {
		pthread_mutex_lock(&soft->rest_lock);
		all = soft->asleep == soft->threads;
		if (all)
			rounds = soft->poller[0].rounds;
		pthread_mutex_unlock(&soft->rest_lock);
	}
	return rounds;
}

/* Yields during ten commands that come rarely: admin commands, and I/O. */
static uint32_t yields_of_rare_io(void)
{
	const uint32_t before = __atomic_load_n(&yields, __ATOMIC_RELAXED);

	for (unsigned n = 0; n < 10; n++) {
		hr_transport_set_idle(&c.t, true);
		wait_asleep(); /* the thread has noted the time of the last command */
		hr_transport_set_idle(&c.t, false);
		fake_clock_skip(2 * HR_NS_PER_MS);
		cr_assert_eq(conform_io(&c, nvme_cmd_read, n, 1, A, 0), 0);
		cr_assert_eq(conform_identify(&c, 1, 0), 0);
	}
	return __atomic_load_n(&yields, __ATOMIC_RELAXED) - before;
}

/* No thread yields, because the host waits for each command. On a busy machine a thread may lose the
 * CPU in the middle of a command, which then counts as two: then try again. */
Test(soft_threads, a_thread_yields_only_when_io_is_dense)
{
	uint32_t rare = UINT32_MAX, before;

	conform_use("soft:memory,size=1M");
	conform_open_io(&c);
	for (unsigned tries = 0; tries < 50 && rare; tries++)
		rare = yields_of_rare_io();
	cr_expect_eq(rare, 0u);
	before = __atomic_load_n(&yields, __ATOMIC_RELAXED);
	while (__atomic_load_n(&yields, __ATOMIC_RELAXED) == before)
		cr_assert_eq(conform_io(&c, nvme_cmd_read, 0, 1, A, 0), 0);
}

static void a_resting_controller_sleeps(const char *device)
{
	static uint8_t memory[HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_region region;
	uint32_t rounds;

	conform_use(device);
	conform_open_io(&c);
	for (unsigned n = 0; n < 20; n++) {
		hr_transport_set_idle(&c.t, true);
		hr_transport_set_idle(&c.t, true);
		rounds = wait_asleep();
		cr_expect_eq(hr_reg_read32(&c.t, NVME_REG_CSTS), 1, "registers can be read");
		cr_assert_eq(hr_region_init_host(&region, "comes", memory, sizeof(memory)), 0);
		cr_assert_eq(c.t.ops->map(&c.t, &region, NULL), 0);
		c.t.ops->unmap(&c.t, &region);
		cr_expect_eq(wait_asleep(), rounds, "no thread has polled meanwhile");
		hr_transport_set_idle(&c.t, false);
		cr_assert_eq(conform_io(&c, n & 1 ? nvme_cmd_write : nvme_cmd_read, n, 1, A, 0), 0);
	}
	conform_close(&c);
}

Test(soft_threads, a_resting_controller_sleeps_until_it_is_woken)
{
	char pinned[80];
	cpu_set_t ours;

	a_resting_controller_sleeps("soft:memory,size=1M,threads=3");
	a_resting_controller_sleeps("soft:null,size=1M");
	snprintf(pinned, sizeof(pinned), "soft:memory,size=1M,cpus=%u", first_cpu(&ours));
	a_resting_controller_sleeps(pinned);
}

Test(soft_threads, a_resting_controller_can_be_closed)
{
	struct hr_transport t;

	for (unsigned n = 0; n < 20; n++) {
		cr_assert_eq(hr_transport_open(&t, "soft:null,size=1M,threads=2", test_error()), 0);
		hr_transport_set_idle(&t, true);
		if (n & 1) {
			c.t = t;
			wait_asleep();
		}
		t.ops->close(&t);
	}
	memset(&c.t, 0, sizeof(c.t));
}

/* The doorbell is the last access before the rest. */
Test(soft_threads, commands_in_flight_end_before_the_rest)
{
	struct hr_sqe sqe;
	struct hr_cqe cqe;

	conform_use("soft:memory,size=1M,threads=2");
	conform_open_io(&c);
	for (unsigned n = 0; n < 200; n++) {
		sqe = conform_io_sqe(&c, nvme_cmd_read, n % 16, 1, A);
		conform_push(&c.io, &sqe);
		conform_ring(&c, &c.io);
		hr_transport_set_idle(&c.t, true);
		wait_asleep();
		cr_assert(conform_peek(&c, &c.io, 0, &cqe), "command %u", n);
		hr_transport_set_idle(&c.t, false);
		conform_release(&c, &c.io);
	}
}

Test(soft_threads, threads_are_bound_to_their_cpus)
{
	cpu_set_t ours, its;
	const uint32_t cpu = first_cpu(&ours);
	char device[80];
	uint64_t waits;

	snprintf(device, sizeof(device), "soft:memory,size=1M,cpus=%u", cpu);
	conform_use(device);
	conform_open_io(&c);
	cr_assert_eq(pthread_getaffinity_np(soft_of()->poller[0].thread.id, sizeof(its), &its), 0);
	cr_expect_eq(CPU_COUNT(&its), 1);
	cr_expect(CPU_ISSET(cpu, &its));
	cr_assert_eq(sched_getaffinity(0, sizeof(its), &its), 0);
	cr_expect(CPU_EQUAL(&ours, &its), "the caller stays where it was");
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, A, 0), 0);
	/* Only the thread that was idle for long enough waits meanwhile. */
	waits = fake_clock_waits();
	while (fake_clock_waits() < waits + 2)
		sched_yield();
	cr_expect_eq(conform_io(&c, nvme_cmd_read, 0, 1, A, 0), 0);
}

Test(soft_threads, absent_cpus_are_refused)
{
	struct hr_transport t;

	cr_expect_eq(hr_transport_open(&t, "soft:memory,size=1M,cpus=1023", test_error()), -EINVAL);
	cr_expect(strstr(test_error_text(), "CPU 1023"), "%s", test_error_text());
}

static unsigned threads_of_process(void)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned count = 0;

	cr_assert_not_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* The thread sanitizer starts a thread of its own with the first one. */
#ifdef __SANITIZE_THREAD__
#define OF_SANITIZER 1u
#else
#define OF_SANITIZER 0u
#endif

/* The first thread starts if this process may use its CPU; the machine has no CPU for the second. */
Test(soft_threads, a_thread_that_cannot_start_ends_the_others)
{
	const unsigned absent = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
	const unsigned before = threads_of_process() + OF_SANITIZER;
	struct hr_transport t;
	char device[80];

	snprintf(device, sizeof(device), "soft:memory,size=1M,threads=2,cpus=%u-%u", absent - 1,
		 absent);
	every_cpu = true;
	cr_expect_eq(hr_transport_open(&t, device, test_error()), -EINVAL);
	every_cpu = false;
	cr_expect(strstr(test_error_text(), "soft: cannot start polling thread "), "%s",
		  test_error_text());
	cr_expect(strstr(test_error_text(), strerror(EINVAL)), "%s", test_error_text());
	while (threads_of_process() >
	       before) /* a thread that has ended is in the folder for a while */
		hr_wait_ns(HR_NS_PER_MS);
}
