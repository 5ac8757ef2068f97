/* SPDX-License-Identifier: Apache-2.0 */
/* The backend is opened and closed many times on a GPU, with every kind of end, without leaks. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "gpu/backend.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/image.h"
#include "tests/harness/error.h"

#define CYCLES 200u /* default; the environment variable GPU_TEST_CYCLES replaces it */
#define MIB ((size_t)1 << 20)

TestSuite(life, .timeout = 100);

static struct gpu_rig rig;
static struct hr_backend backend;

/* Open the backend, use each kind of resource once, and close it. */
static void live(void)
{
	struct hr_region region;
	uint8_t *host, data[999], back[999];
	void *worker = NULL;

	cr_assert_eq(hr_backend_open(&backend, "cuda:0", 4, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(backend.ops->alloc(&backend, 64 * MIB, &region, NULL), 0);
	host = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(host, MAP_FAILED);
	cr_assert_eq(backend.ops->attach(&backend, host, MIB, false, &worker, NULL), 0);
	memset(data, 0x3c, sizeof data);
	cr_assert_eq(backend.ops->upload(&backend, region.worker, data, sizeof data, NULL), 0);
	cr_assert_eq(backend.ops->download(&backend, back, region.worker, sizeof back, NULL), 0);
	cr_assert_eq(memcmp(data, back, sizeof data), 0);
	backend.ops->detach(&backend, host);
	munmap(host, MIB);
	backend.ops->free(&backend, &region);
	backend.ops->close(&backend);
}

static unsigned cycles(void)
{
	const char *wanted = getenv("GPU_TEST_CYCLES");
	const unsigned number = wanted ? (unsigned)strtoul(wanted, NULL, 10) : CYCLES;

	return number > 20 ? number : 20;
}

Test(life, many_opens_and_closes_leak_no_resource)
{
	const unsigned lives = cycles();
	unsigned files = 0;
	unsigned long kib = 0;
	size_t before, after;
	uint64_t began;

	gpu_up(&rig);
	before = gpu_free_bytes(&rig);
	gpu_down(&rig);
	began = hr_now_ns();
	for (unsigned i = 0; i < lives; i++) {
		live();
		if (i == 10) { /* the driver has allocated its permanent memory by now */
			files = gpu_open_files();
			kib = gpu_resident_kib();
		}
	}
	fprintf(stderr, "%u lives, %llu ms each; %lu KiB resident, then %lu\n", lives,
		(unsigned long long)((hr_now_ns() - began) / HR_NS_PER_MS / lives), kib,
		gpu_resident_kib());
	cr_expect_eq(gpu_open_files(), files, "%u, then %u", files, gpu_open_files());
	cr_expect_leq(gpu_resident_kib(), kib + 16 * lives, "more than 16 KiB for each life");
	gpu_up(&rig);
	after = gpu_free_bytes(&rig);
	cr_expect_eq(after, before, "%zu of %zu bytes are free", after, before);
	gpu_down(&rig);
}

Test(life, many_launches_and_arenas_of_one_backend_leak_no_resource)
{
	struct hr_cuda_arena arena;
	struct gpu_fill *fill;
	unsigned files = 0;
	unsigned long kib = 0;
	size_t before = 0;

	gpu_up(&rig);
	fill = gpu_shared(&rig, sizeof *fill);
	for (unsigned i = 0; i < 2000; i++) {
		cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 4 * MIB, 32 * MIB, false), 0);
		cr_assert_eq(hr_cuda_arena_grow(&rig.gpu, &arena, 2 * MIB), 0);
		*fill = (struct gpu_fill){ (uint64_t *)arena.base, 6 * MIB / 8, 1, i };
		gpu_run(&rig, "fill", fill, 8, 128);
		hr_cuda_arena_close(&rig.gpu, &arena);
		if (i == 100) {
			files = gpu_open_files();
			kib = gpu_resident_kib();
			before = gpu_free_bytes(&rig);
		}
	}
	cr_expect_eq(gpu_open_files(), files);
	cr_expect_leq(gpu_resident_kib(), kib + 2000, "%lu, then %lu KiB", kib, gpu_resident_kib());
	cr_expect_eq(gpu_free_bytes(&rig), before);
	gpu_down(&rig);
}

/* In a child process: use the GPU and run a launch until the parent kills the process. */
static void run_until_killed(int ready)
{
	struct hr_cuda_arena arena;
	struct gpu_spin *spin;

	gpu_up(&rig);
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 1024 * MIB, 0, false), 0);
	spin = gpu_shared(&rig, sizeof *spin);
	spin->limit_ns = 30 * HR_NS_PER_S;
	gpu_start(&rig, "spin", spin, 132, 32, 0);
	while (!hr_acquire_sys_u32(&spin->started))
		hr_wait_ns(1000);
	cr_assert_eq(write(ready, "r", 1), 1);
	for (;;)
		pause();
}

Test(life, the_gpu_works_after_a_killed_process)
{
	uint64_t began;
	size_t before = 0, after;
	int ready[2];
	pid_t child;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		close(ready[0]);
		run_until_killed(ready[1]);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1, "the child did not come up");
	kill(child, SIGKILL);
	began = hr_now_ns();
	cr_assert_eq(waitpid(child, NULL, 0), child);
	fprintf(stderr, "killed and gone in %llu ms\n",
		(unsigned long long)((hr_now_ns() - began) / HR_NS_PER_MS));
	live();
	gpu_up(&rig);
	after = gpu_free_bytes(&rig);
	before = rig.gpu.facts.memory_bytes;
	fprintf(stderr, "free %zu MiB of %zu\n", after / MIB, before / MIB);
	cr_expect_gt(after, before - 1024 * MIB, "the child's memory is not back");
	gpu_down(&rig);
}

Test(life, worker_blocks_that_never_end_do_not_hold_up_close_or_exit)
{
	struct hr_cuda_arena arena;
	struct gpu_spin *spin;
	uint64_t began = 0;
	int status;
	pid_t child = fork();

	if (child == 0) {
		gpu_up(&rig);
		cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 64 * MIB, 0, false), 0);
		spin = gpu_shared(&rig, sizeof *spin);
		spin->limit_ns = 60 * HR_NS_PER_S;
		gpu_start(&rig, "spin", spin, 1, 32, 0);
		while (!hr_acquire_sys_u32(&spin->started))
			hr_wait_ns(1000);
		exit(7); /* the driver's exit handlers run while the launch still runs */
	}
	began = hr_now_ns();
	cr_assert_eq(waitpid(child, &status, 0), child);
	fprintf(stderr, "exit with a running launch took %llu ms, status %x\n",
		(unsigned long long)((hr_now_ns() - began) / HR_NS_PER_MS), (unsigned)status);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	cr_expect_lt(hr_now_ns() - began, 20 * HR_NS_PER_S);
	live();
}

Test(life, the_backend_opens_by_name_and_describes_itself)
{
	cr_assert_eq(hr_backend_open(&backend, "auto", 4, test_error()), 0, "%s",
		     test_error_text());
	fprintf(stderr, "%s\n", backend.note);
	cr_expect(strstr(backend.note, "cuda:0"), "%s", backend.note);
	cr_expect_eq(backend.lanes, 32);
	cr_expect_gt(backend.max_blocks, backend.processors);
	for (unsigned i = 0; i < backend.facts->entries; i++)
		fprintf(stderr, "%s: %u registers, %u shared, %u local, up to %u threads, for %u\n",
			backend.facts->entry[i].name, backend.facts->entry[i].registers,
			backend.facts->entry[i].shared_bytes, backend.facts->entry[i].local_bytes,
			backend.facts->entry[i].max_threads, backend.facts->entry[i].machine);
	backend.ops->close(&backend);
	cr_expect_eq(hr_backend_open(&backend, "cuda:77", 4, test_error()), -ENODEV);
	fprintf(stderr, "%s\n", test_error_text());
	cr_assert_eq(hr_backend_open(&backend, "cuda:0,compressible", 4, test_error()), 0, "%s",
		     test_error_text());
	backend.ops->close(&backend);
}
