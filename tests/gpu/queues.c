/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unit tests of queue pairs and pipelines on a GPU: the same test files, linked into this
 * program. Queue functions run on a warp that serves calls (image.cu: queue_server), which sees the
 * variables of this program at the same addresses as the CPU; pipelines run on the cuda backend.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/base/clock.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/image.h"
#include "tests/harness/qprun.h"

#define POOL_BYTES ((size_t)1 << 20) /* rings and table of the largest queue pair */
#define LOOKS 1000000u		     /* polls for an answer before the launch is checked */

extern char __data_start[], _end[]; /* from the linker: bounds of the program's variables */

static struct gpu_rig rig;
static struct gpu_queue_call *call;
static uint8_t *pool;
static bool pool_taken;
static struct hr_completion done_of[GPU_QUEUE_LANES];
static uint32_t dones;

static void up(void)
{
	const uintptr_t page = HR_PAGE - 1;
	const uintptr_t from = (uintptr_t)__data_start & ~page;
	const uintptr_t to = ((uintptr_t)_end + page) & ~page;
	void *worker = NULL;

	gpu_up(&rig);
	cr_assert_eq(hr_cuda_attach(&rig.gpu, &rig.host, (void *)from, to - from, false, &worker),
		     0, "%s", rig.gpu.cu.error.text);
	cr_assert_eq((uintptr_t)worker, from);
	call = gpu_shared(&rig, sizeof *call);
	pool = gpu_shared(&rig, POOL_BYTES);
	gpu_start(&rig, "queue_server", call, 1, GPU_QUEUE_LANES, 0);
}

static void ask(enum gpu_queue_word what)
{
	call->what = what;
	call->clock_ns = hr_now_ns(); /* the test's clock, which may stand still */
	hr_release_sys_u32(&call->ask, call->ask + 1);
}

static void have_done(struct hr_nvme_qp *qp, enum gpu_queue_word what)
{
	call->qp = qp;
	ask(what);
	while (hr_acquire_sys_u32(&call->answer) != call->ask)
		for (uint32_t i = 0; i < LOOKS; i++) {
			if (hr_acquire_sys_u32(&call->answer) == call->ask)
				return;
			if (i == LOOKS - 1)
				cr_assert_eq(hr_cuda_launch_poll(&rig.gpu, &rig.launch), 0,
					     "the launch has ended");
		}
}

static void down(void)
{
	ask(GPU_QUEUE_STOP);
	gpu_wait(&rig);
	gpu_down(&rig);
}

static void *take(size_t bytes)
{
	cr_assert(!pool_taken && bytes <= POOL_BYTES);
	pool_taken = true;
	return memset(pool, 0, POOL_BYTES);
}

static void give(void *memory)
{
	cr_assert_eq(memory, pool);
	pool_taken = false;
}

static int push(struct hr_nvme_qp *qp, bool want, const struct hr_sqe *sqe, uint32_t token)
{
	call->want = want;
	call->token = token;
	call->sqe = *sqe;
	have_done(qp, GPU_QUEUE_PUSH);
	return call->result;
}

static void ring(struct hr_nvme_qp *qp)
{
	have_done(qp, GPU_QUEUE_RING);
}

static uint32_t reap(struct hr_nvme_qp *qp, struct hr_completion *done)
{
	have_done(qp, GPU_QUEUE_REAP);
	dones = 0;
	for (uint32_t lane = 0; lane < GPU_QUEUE_LANES; lane++)
		if (call->lanes >> lane & 1)
			done_of[dones++] = call->done[lane];
	if (dones)
		*done = done_of[0];
	return dones;
}

static struct hr_completion reaped(uint32_t i)
{
	cr_assert_lt(i, dones);
	return done_of[i];
}

static bool expire(struct hr_nvme_qp *qp, uint64_t now_ns, struct hr_completion *lost)
{
	call->now_ns = now_ns;
	have_done(qp, GPU_QUEUE_EXPIRE);
	*lost = call->done[0];
	return call->result != 0;
}

static const struct qprun on_gpu = { up,   down,   take,   give,  push, ring,
				     reap, reaped, expire, false, false };

__attribute__((constructor)) static void run_on_gpu(void)
{
	qprun = &on_gpu;
	setenv("RIG_DEVICE", "cuda:0", 0);
}
