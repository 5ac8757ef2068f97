/* SPDX-License-Identifier: Apache-2.0 */
/* Launches on a GPU: all blocks are resident or refused, polls do not disturb, failures are named. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/image.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(launch, .timeout = 60);

static struct gpu_rig rig;

Test(launch, all_blocks_of_a_launch_are_resident_at_once)
{
	static const struct {
		uint32_t threads, shared_bytes;
	} shape[] = { { 32, 0 }, { 256, 0 }, { 1024, 0 }, { 128, 48 << 10 }, { 256, 160 << 10 } };
	struct hr_cuda_entry entry;
	struct gpu_meet *meet;

	gpu_up(&rig);
	meet = gpu_shared(&rig, sizeof *meet);
	gpu_find(&rig, &entry, "meet");
	fprintf(stderr, "meet: %u registers, code for %u\n", entry.facts.registers,
		entry.facts.machine);
	for (size_t i = 0; i < ROWS(shape); i++) {
		uint32_t most = 0;

		cr_assert_eq(hr_cuda_entry_resident(&rig.gpu, &entry, shape[i].threads,
						    shape[i].shared_bytes, &most),
			     0, "%s", rig.gpu.cu.error.text);
		fprintf(stderr, "%u threads, %u bytes shared: %u blocks\n", shape[i].threads,
			shape[i].shared_bytes, most);
		cr_assert_geq(most, rig.gpu.facts.processors);
		memset(meet, 0, sizeof *meet);
		meet->shared_bytes = shape[i].shared_bytes;
		gpu_start(&rig, "meet", meet, most, shape[i].threads, shape[i].shared_bytes);
		gpu_wait(&rig);
		cr_expect_eq(meet->met, most, "%u of %u", meet->met, most);
		cr_expect_eq(hr_cuda_launch_start(&rig.gpu, &rig.launch, &entry, meet, most + 1,
						  shape[i].threads, shape[i].shared_bytes),
			     -EINVAL);
		cr_expect(strstr(rig.gpu.cu.error.text, "at once"), "%s", rig.gpu.cu.error.text);
	}
	gpu_down(&rig);
}

Test(launch, impossible_shapes_are_refused)
{
	struct hr_cuda_entry entry;
	struct gpu_meet *meet;
	uint32_t most;

	gpu_up(&rig);
	meet = gpu_shared(&rig, sizeof *meet);
	gpu_find(&rig, &entry, "meet");
	cr_expect_eq(hr_cuda_entry_resident(&rig.gpu, &entry, 0, 0, &most), -EINVAL);
	cr_expect_eq(hr_cuda_entry_resident(&rig.gpu, &entry, 33, 0, &most), -EINVAL);
	cr_expect_eq(hr_cuda_entry_resident(&rig.gpu, &entry, 1056, 0, &most), -EINVAL);
	cr_expect_eq(hr_cuda_entry_resident(&rig.gpu, &entry, 32, 1 << 20, &most), -EINVAL);
	cr_expect_eq(hr_cuda_launch_start(&rig.gpu, &rig.launch, &entry, meet, 0, 32, 0), -EINVAL);
	cr_expect_eq(hr_cuda_entry_find(&rig.gpu, &rig.image, &entry, "no_such"), -ENOENT);
	cr_expect(strstr(rig.gpu.cu.error.text, "no_such"), "%s", rig.gpu.cu.error.text);
	gpu_down(&rig);
}

Test(launch, a_running_kernel_is_seen_running_and_sees_the_stop_flag)
{
	struct hr_cuda_entry entry;
	struct gpu_spin *spin;
	uint64_t end, asked = 0, slowest = 0;

	gpu_up(&rig);
	spin = gpu_shared(&rig, sizeof *spin);
	spin->limit_ns = 10 * HR_NS_PER_S;
	gpu_find(&rig, &entry, "spin");
	gpu_start(&rig, "spin", spin, 1, 32, 0);
	for (end = hr_now_ns() + HR_NS_PER_S / 10; hr_now_ns() < end; asked++) {
		const uint64_t began = hr_now_ns();

		cr_assert_eq(hr_cuda_launch_poll(&rig.gpu, &rig.launch), 0);
		slowest = hr_now_ns() - began > slowest ? hr_now_ns() - began : slowest;
	}
	fprintf(stderr, "%llu polls in 100 ms, slowest %llu ns\n", (unsigned long long)asked,
		(unsigned long long)slowest);
	cr_expect_eq(hr_acquire_sys_u32(&spin->started), 1);
	cr_expect_eq(hr_cuda_launch_start(&rig.gpu, &rig.launch, &entry, spin, 1, 32, 0), -EBUSY);
	hr_release_sys_u32(&spin->stop, 1);
	gpu_wait(&rig);
	cr_expect_eq(spin->stopped, 1);
	gpu_down(&rig);
}

/* In a separate child process: the failure is named and kept, and closing takes no time. */
static void fail(const char *entry_name, const char *want)
{
	struct hr_cuda_arena arena;
	struct hr_cuda_entry entry;
	uint64_t word = 0, began;
	int state;

	gpu_up(&rig);
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 256u << 20, 0, false), 0);
	gpu_find(&rig, &entry, entry_name);
	gpu_start(&rig, entry_name, NULL, 4, 64, 0);
	while ((state = hr_cuda_launch_poll(&rig.gpu, &rig.launch)) == 0)
		hr_wait_ns(20000);
	fprintf(stderr, "%s\n", rig.gpu.cu.error.text);
	cr_expect_eq(state, -EIO);
	cr_expect(strstr(rig.gpu.cu.error.text, want), "%s", rig.gpu.cu.error.text);
	cr_expect_eq(hr_cuda_launch_poll(&rig.gpu, &rig.launch), -EIO, "it stays failed");
	cr_expect_eq(hr_cuda_launch_start(&rig.gpu, &rig.launch, &entry, NULL, 1, 32, 0), -EIO);
	cr_expect_eq(hr_cuda_upload(&rig.gpu, &rig.host, (void *)arena.base, &word, sizeof word),
		     -EIO);
	began = hr_now_ns();
	hr_cuda_arena_close(&rig.gpu, &arena);
	gpu_down(&rig);
	fprintf(stderr, "down in %llu us\n", (unsigned long long)(hr_now_ns() - began) / 1000);
	cr_expect_lt(hr_now_ns() - began, 5 * HR_NS_PER_S);
	/* The driver does not open the GPU again in such a process; the message gives the remedy. */
	cr_expect_eq(hr_cuda_gpu_open(&rig.gpu, 0), -EIO);
	cr_expect(strstr(rig.gpu.cu.error.text, "start it again"), "%s", rig.gpu.cu.error.text);
	exit(0);
}

static void fail_and_come_back(const char *entry_name, const char *want)
{
	struct hr_cuda_arena arena;
	pid_t child = fork();

	if (child == 0)
		fail(entry_name, want);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	gpu_up(&rig);
	cr_expect_gt(gpu_free_bytes(&rig), rig.gpu.facts.memory_bytes - ((size_t)1 << 30),
		     "the failed process's memory is not back");
	cr_assert_eq(hr_cuda_arena_open(&rig.gpu, &arena, 1u << 20, 0, false), 0, "%s",
		     rig.gpu.cu.error.text);
	gpu_fill(&rig, arena.base, arena.bytes, 1, 1);
	cr_expect_eq(gpu_count_wrong(&rig, arena.base, arena.bytes, 1, 1), 0);
	hr_cuda_arena_close(&rig.gpu, &arena);
	gpu_down(&rig);
}

Test(launch, an_illegal_address_is_named_and_the_next_process_can_use_the_gpu)
{
	fail_and_come_back("stray", "CUDA_ERROR_ILLEGAL_ADDRESS");
}

Test(launch, a_trap_is_named_and_the_next_process_can_use_the_gpu)
{
	fail_and_come_back("trap", "CUDA_ERROR_LAUNCH_FAILED");
}

Test(launch, an_invalid_image_is_refused)
{
	static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
				   ".visible .entry k() { bogus.u32 %r1; }\n";
	static const uint64_t junk[64] = { 0x1234567890abcdef };
	struct hr_cuda_image image;
	int err;

	gpu_up(&rig);
	err = hr_cuda_image_load(&rig.gpu, &image, text, "bad.ptx");
	fprintf(stderr, "%d %s\n", err, rig.gpu.cu.error.text);
	cr_expect_eq(err, -ENOTSUP);
	err = hr_cuda_image_load(&rig.gpu, &image, junk, "junk");
	fprintf(stderr, "%d %s\n", err, rig.gpu.cu.error.text);
	cr_expect_eq(err, -ENOTSUP);
	gpu_down(&rig);
}
