/* The host backend alone: blocks of each entry, CPUs of its threads, and memory of a BAR. Threads are
 * real, the rest is the test's. */
#include "config/seam.h"
#include "gpu/backend.h"
#include "gpu/tap/feed.h"
#include "gpu/tap/role.h"
#include "gpu/worker/access.h"
#include "gpu/worker/bench.h"
#include "gpu/worker/probe.h"
#include "nvme/barmem.h"
#include "nvme/hostmem.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/error.h"

#define THREADS 3u
#define ENTRIES 6u

static uint32_t ran[ENTRIES][THREADS]; /* by entry and block */
static uint64_t argument_;

static void run(uint32_t entry, const void *argument, uint32_t block)
{
	if (argument == &argument_ && block < THREADS)
		__atomic_fetch_add(&ran[entry][block], 1, __ATOMIC_RELAXED);
}

static unsigned starts, joins, start_fails;
static int cpus_err;
static int first_cpus[3]; /* of the set of the last thread; -1: none */
static unsigned cpu_count;

static int start(struct hr_thread *thread, const cpu_set_t *cpus, void *(*main)(void *argument),
		 void *argument)
{
	unsigned n = 0;

	cpu_count = cpus ? (unsigned)CPU_COUNT(cpus) : 0;
	for (int cpu = 0; cpus && cpu < CPU_SETSIZE && n < 3; cpu++)
		if (CPU_ISSET((size_t)cpu, cpus))
			first_cpus[n++] = cpu;
	if (++starts == start_fails)
		return -EAGAIN;
	return hr_thread_start(thread, NULL, main, argument);
}

static void join(struct hr_thread *thread)
{
	joins++;
	hr_thread_join(thread);
}

static int cpus_of(cpu_set_t *cpus)
{
	CPU_ZERO(cpus);
	CPU_SET(1, cpus);
	CPU_SET(3, cpus);
	CPU_SET(CPU_SETSIZE - 1, cpus);
	return cpus_err;
}

static char log_[256];
static int open_err;

static int bar_open(struct hr_barmem *m, const char *address, int bar, struct hr_error *e)
{
	const size_t used = strlen(log_);

	snprintf(log_ + used, sizeof log_ - used, "open %s %d;", address, bar);
	snprintf(m->function.bdf, sizeof m->function.bdf, "0000:0a:0b.1");
	m->map.bytes = 4096;
	return open_err ? hr_fail(e, HR_ERROR_MISSING, open_err, "asked to fail") : 0;
}

static void bar_close(struct hr_barmem *m)
{
	strcat(log_, "close;");
}

static int bar_alloc(struct hr_barmem *m, struct hr_region *region, const char *name, size_t bytes,
		     struct hr_error *e)
{
	cr_expect(strcmp(name, "gpu") == 0 && bytes == 512);
	strcat(log_, "bar;");
	region->kind = HR_REGION_BAR;
	return 0;
}

static void bar_free(struct hr_barmem *m, struct hr_region *region)
{
	strcat(log_, "free bar;");
}

static int memory_alloc(struct hr_region *region, const char *name, size_t bytes,
			struct hr_error *e)
{
	cr_expect(strcmp(name, "gpu") == 0 && bytes == 512);
	strcat(log_, "memory;");
	return 0;
}

static void memory_free(struct hr_region *region)
{
	strcat(log_, "free memory;");
}

#define hr_pipe_block(argument, block) run(HR_ENTRY_PIPE, argument, block)
#define hr_access_block(argument, block) run(HR_ENTRY_ACCESS, argument, block)
#define hr_bench_block(argument, block) run(HR_ENTRY_BENCH, argument, block)
#define hr_tap_pipe_block(argument, block) run(HR_ENTRY_TAP, argument, block)
#define hr_feed_pipe_block(argument, block) run(HR_ENTRY_FEED, argument, block)
#define hr_probe_block(argument, block) run(HR_ENTRY_PROBE, argument, block)
#define hr_thread_start start
#define hr_thread_join join
#define hr_thread_cpus cpus_of
#define hr_barmem_open bar_open
#define hr_barmem_close bar_close
#define hr_barmem_alloc bar_alloc
#define hr_barmem_free bar_free
#define hr_hostmem_alloc memory_alloc
#define hr_hostmem_free memory_free
#include "gpu/host/host.c"
#undef hr_thread_start
#undef hr_thread_join

static struct hr_backend backend;

static void begin(void)
{
	memset(ran, 0, sizeof ran);
	starts = joins = start_fails = 0;
	cpus_err = open_err = 0;
	log_[0] = '\0';
}

TestSuite(host, .init = begin, .timeout = 60);

static void open_backend(unsigned cpus)
{
	cr_assert_eq(hr_host_open(&backend, cpus, THREADS, test_error()), 0, "%s",
		     test_error_text());
}

Test(host, a_backend_describes_itself)
{
	uint32_t blocks = 7;

	memset(&backend, 0xff, sizeof backend);
	open_backend(2);
	cr_expect_str_eq(backend.name, "host:2");
	cr_expect(backend.lanes == 1 && backend.wave == 1 && backend.max_blocks == THREADS &&
		  backend.side_by_side == THREADS && backend.processors == 2 &&
		  backend.max_threads == 1);
	cr_expect(!backend.ops->alloc_peer && backend.peer[0] == '\0' && !backend.window);
	cr_expect_eq(backend.ops->resident(&backend, HR_ENTRY_PIPE, 1, 0, &blocks, NULL), 0);
	cr_expect_eq(blocks, THREADS);
	cr_expect_eq(backend.ops->resident(&backend, HR_ENTRY_PIPE, 2, 0, &blocks, NULL), 0);
	cr_expect_eq(blocks, 0);
	backend.ops->close(&backend);
	cr_expect(starts == THREADS && joins == THREADS && !backend.ops && !backend.impl);
	cr_expect_str_eq(log_, "close;");
}

Test(host, each_entry_runs_its_blocks)
{
	static const enum hr_entry entry[ENTRIES] = { HR_ENTRY_PIPE,  HR_ENTRY_ACCESS,
						      HR_ENTRY_BENCH, HR_ENTRY_TAP,
						      HR_ENTRY_FEED,  HR_ENTRY_PROBE };
	uint64_t stop;

	open_backend(1);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		const struct hr_launch_args args = { .entry = entry[i],
						     .argument = &argument_,
						     .blocks = 1 + i % THREADS,
						     .threads = 1,
						     .stop = (void *)&stop };
		struct hr_launch *launch = NULL;

		cr_assert_eq(backend.ops->launch(&backend, &args, &launch, test_error()), 0);
		cr_expect(launch->backend == &backend && launch->stop == (void *)&stop);
		while (backend.ops->poll(launch, NULL) == 0)
			hr_wait_ns(1000);
		backend.ops->launch_free(launch);
		for (uint32_t e = 0; e < ENTRIES; e++)
			for (uint32_t b = 0; b < THREADS; b++)
				cr_expect_eq(ran[e][b], e == entry[i] && b < args.blocks,
					     "entry %u: %u, block %u", entry[i], e, b);
		memset(ran, 0, sizeof ran);
	}
	backend.ops->close(&backend);
}

Test(host, threads_run_on_the_first_cpus)
{
	static const struct {
		unsigned cpus;
		int err;
		unsigned count;
		int first[3];
	} row[] = { { 1, 0, 1, { 1 } },
		    { 2, 0, 2, { 1, 3 } },
		    { 3, 0, 3, { 1, 3, CPU_SETSIZE - 1 } },
		    { 9, 0, 3, { 1, 3, CPU_SETSIZE - 1 } },
		    { 2, -EPERM, 0, { 0 } } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cpus_err = row[i].err;
		open_backend(row[i].cpus);
		cr_expect_eq(cpu_count, row[i].count, "row %zu", i);
		for (unsigned n = 0; n < row[i].count; n++)
			cr_expect_eq(first_cpus[n], row[i].first[n], "row %zu", i);
		backend.ops->close(&backend);
	}
}

Test(host, a_thread_that_cannot_start_ends_those_before)
{
	for (unsigned nth = 1; nth <= THREADS; nth++) {
		char want[128];

		begin();
		start_fails = nth;
		cr_expect_eq(hr_host_open(&backend, 1, THREADS, test_error()), -EAGAIN);
		snprintf(want, sizeof want,
			 "host: cannot start thread %u of %u: Resource temporarily unavailable",
			 nth, THREADS);
		cr_expect_str_eq(test_error_text(), want, "%s", test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
		cr_expect(starts == nth && joins == nth - 1);
	}
}

Test(host, a_bar_is_memory_for_other_devices)
{
	static const struct {
		const char *text, *log;
	} row[] = { { "03:00.0", "open 03:00.0 -1;" },
		    { "0000:03:1f.7/0", "open 0000:03:1f.7 0;" },
		    { "03:00.0/2", "open 03:00.0 2;" },
		    { "03:00.0/5", "open 03:00.0 5;" } };
	struct hr_region region = { .kind = HR_REGION_HOST };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		open_backend(1);
		cr_expect(hr_host_bar_check(row[i].text));
		cr_expect_eq(hr_host_use_bar(&backend, row[i].text, test_error()), 0);
		cr_expect_str_eq(log_, row[i].log, "%s", log_);
		cr_expect_str_eq(backend.peer, "0000:0a:0b.1");
		cr_expect_eq(backend.peer_bytes, 4096);
		log_[0] = '\0';
		cr_expect_eq(backend.ops->alloc(&backend, 512, &region, NULL), 0);
		backend.ops->free(&backend, &region);
		cr_expect_eq(backend.ops->alloc_peer(&backend, 512, &region, NULL), 0);
		backend.ops->free(&backend, &region);
		cr_expect_str_eq(log_, "memory;free memory;bar;free bar;", "%s", log_);
		region.kind = HR_REGION_HOST;
		backend.ops->close(&backend);
		log_[0] = '\0';
	}
	open_backend(1);
	open_err = -ENODEV;
	joins = 0;
	cr_expect_eq(hr_host_use_bar(&backend, "03:00.0", test_error()), -ENODEV);
	cr_expect_str_eq(test_error_text(), "asked to fail");
	cr_expect(joins == THREADS && !backend.ops);
}

Test(host, an_address_of_a_bar_is_checked)
{
	static const char *const bad[] = { "",		 "03:00.0/",  "03:00.0/6", "03:00.0/22",
					   "03:20.0",	 "03:00.8",   "03:00.0 ",  "x3:00.0",
					   "03:00.0/0x", "03:00.0-1", "03:00.0/:" };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		cr_expect_not(hr_host_bar_check(bad[i]), "'%s'", bad[i]);
	cr_expect(hr_host_bar_check("ffff:ff:1f.7/5"));
}

Test(host, entries_with_a_tap_or_a_feed)
{
	static const struct {
		unsigned entry, tap, feed;
	} row[] = { { HR_ENTRY_PIPE, HR_ENTRY_TAP, HR_ENTRY_FEED },
		    { HR_ENTRY_FEED, HR_ENTRY_TAP, HR_ENTRY_FEED },
		    { HR_ENTRY_USER, HR_ENTRY_USER_TAP, HR_ENTRY_USER_TAP + HR_OPERATORS_MAX },
		    { HR_ENTRY_USER + 3, HR_ENTRY_USER_TAP + 3,
		      HR_ENTRY_USER_TAP + HR_OPERATORS_MAX + 3 } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(hr_entry_with_tap((enum hr_entry)row[i].entry), row[i].tap);
		cr_expect_eq(hr_entry_with_feed((enum hr_entry)row[i].entry), row[i].feed);
	}
}
