/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "gpu/cuda/state.h"
#include "gpu/cuda/measure/measure.h"
#include "gpu/cuda/embedded.h"
#include "gpu/cuda/driver/host_memory.h"
#include "gpu/cuda/image/image.h"
#include "gpu/cuda/driver/memory.h"
#include "gpu/measuring.h"
#include "config/operator.h"
#include "gpu/worker/pipeline.h"

#define CLOSE_NS (10 * HR_NS_PER_S)
#define PAUSE_NS 100000ull

/* Backends that a launch or a call of the driver still uses, until the process ends: never freed. */
static struct hr_cuda *kept;

static int hand_over(const struct hr_cuda *cuda, int err, struct hr_error *e)
{
	const struct hr_error *own = &cuda->gpu.cu.error;

	return err ? hr_fail(e, own->kind, err, "%s", own->text) : 0;
}

static int cuda_attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		       struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;

	return hr_cuda_name_error(
		b, hr_cuda_attach(&cuda->gpu, &cuda->host, cpu, bytes, io, worker), e);
}

static void cuda_detach(struct hr_backend *b, void *cpu)
{
	struct hr_cuda *cuda = b->impl;

	/* When the GPU has failed, a launch has returned the error, and its context removes all
	 * mappings. */
	if (hr_cuda_detach(&cuda->gpu, &cuda->host, cpu) != 0 && !cuda->failed)
		hr_warn("%s: %s", b->name, cuda->gpu.cu.error.text);
}

static int cuda_upload(struct hr_backend *b, void *worker, const void *cpu, size_t bytes,
		       struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;

	if (worker == cpu)
		return 0;
	return hr_cuda_name_error(b, hr_cuda_upload(&cuda->gpu, &cuda->host, worker, cpu, bytes),
				  e);
}

static int cuda_download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
			 struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;

	if (worker == cpu)
		return 0;
	return hr_cuda_name_error(b, hr_cuda_download(&cuda->gpu, &cuda->host, cpu, worker, bytes),
				  e);
}

static const struct hr_cuda_entry *entry_of(const struct hr_cuda *cuda, enum hr_entry entry)
{
	if (entry >= HR_ENTRY_USER_FEED)
		return &cuda->linked[entry - HR_ENTRY_USER_FEED].feed;
	if (entry >= HR_ENTRY_USER_TAP)
		return &cuda->linked[entry - HR_ENTRY_USER_TAP].tap;
	return entry < HR_ENTRY_USER ? &cuda->entry[entry]
				     : &cuda->linked[entry - HR_ENTRY_USER].entry;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The entry points of a stream operator with a tap or a feed. */
static int find_shared(struct hr_cuda *cuda, struct hr_cuda_built *linked)
{
	struct hr_entry_facts *facts = &linked->entry.facts;
	int err = hr_cuda_entry_find(&cuda->gpu, &linked->image, &linked->tap,
				     hr_cuda_entry_name(HR_ENTRY_TAP));

	if (!err)
		err = hr_cuda_entry_find(&cuda->gpu, &linked->image, &linked->feed,
					 hr_cuda_entry_name(HR_ENTRY_FEED));
	facts->max_threads = min_u32(facts->max_threads, linked->tap.facts.max_threads);
	facts->max_threads = min_u32(facts->max_threads, linked->feed.facts.max_threads);
	return err;
}

static int link_user(struct hr_cuda *cuda, struct hr_cuda_built *linked,
		     const struct hr_operator *op)
{
	struct hr_entry_facts *facts = &linked->entry.facts;
	char name[2 * HR_NAME_MAX];
	const struct hr_cuda_input input[] = {
		hr_cuda_user_image(op),
		{ op->gpu, (size_t)(op->gpu_end - op->gpu), name },
	};
	int err;

	snprintf(name, sizeof name, "operator %s", op->name);
	if (!input[1].bytes)
		return hr_cuda_fail(
			&cuda->gpu.cu, -ENOTSUP,
			"its file has no GPU part; build it with 'make op' on a machine with nvcc");
	err = hr_cuda_image_build(&cuda->gpu, &linked->image, input, 2, name);
	if (err)
		return err;
	err = hr_cuda_entry_find(
		&cuda->gpu, &linked->image, &linked->entry,
		hr_cuda_entry_name(hr_op_accesses(op) ? HR_ENTRY_ACCESS : HR_ENTRY_PIPE));
	if (!err && !hr_op_accesses(op))
		err = find_shared(cuda, linked);
	snprintf(facts->name, sizeof facts->name, "%.*s", (int)sizeof facts->name - 1, name);
	if (!err)
		err = hr_cuda_entry_check_local(&cuda->gpu, facts);
	if (err)
		hr_cuda_image_unload(&cuda->gpu, &linked->image);
	return err;
}

static int cuda_link(struct hr_backend *b, const struct hr_operator *op, enum hr_entry *entry,
		     uint32_t *max_threads, struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;
	uint32_t i = 0;
	int err = 0;

	while (i < cuda->linked_count && cuda->linked[i].op != op)
		i++;
	if (i == HR_OPERATORS_MAX)
		err = hr_cuda_fail(&cuda->gpu.cu, -ENOSPC,
				   "at most %u user operators can be linked", HR_OPERATORS_MAX);
	else if (i == cuda->linked_count)
		err = link_user(cuda, &cuda->linked[i], op);
	if (err)
		return hand_over(cuda, err, e);
	if (i == cuda->linked_count) {
		const struct hr_entry_facts *facts = &cuda->linked[i].entry.facts;

		cuda->linked[i].op = op;
		cuda->linked_count++;
		hr_info("%s: %s: linked; %u registers, %u bytes shared, %u bytes local, blocks of "
			"up to %u threads",
			b->name, facts->name, facts->registers, facts->shared_bytes,
			facts->local_bytes, facts->max_threads);
	}
	*entry = (enum hr_entry)(HR_ENTRY_USER + i);
	*max_threads = cuda->linked[i].entry.facts.max_threads;
	return 0;
}

static int cuda_resident(struct hr_backend *b, enum hr_entry entry, uint32_t threads,
			 uint32_t shared_bytes, uint32_t *blocks, struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;

	*blocks = 0;
	return hr_cuda_name_error(b,
				  hr_cuda_entry_resident(&cuda->gpu, entry_of(cuda, entry), threads,
							 shared_bytes, blocks),
				  e);
}

static int cuda_reserve(struct hr_backend *b, uint32_t launches, struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;
	int err = 0;

	for (; !err && cuda->launches < launches; cuda->launches += !err)
		err = hr_cuda_launch_open(&cuda->gpu, &cuda->launch[cuda->launches].cu);
	return hr_cuda_name_error(b, err, e);
}

/* Find a free handle. Beside other launches each block needs a processor of its own: the
 * resources left on a processor may be too small for a block of another kind. */
static int reserve_cuda_launch(struct hr_cuda *cuda, uint32_t blocks,
			       struct hr_cuda_running **launch)
{
	const uint32_t most = cuda->gpu.facts.processors;
	uint32_t others = 0;

	*launch = NULL;
	for (uint32_t i = 0; i < cuda->launches; i++) {
		others += cuda->launch[i].blocks;
		if (!cuda->launch[i].blocks && !*launch)
			*launch = &cuda->launch[i];
	}
	if (!*launch) {
		hr_cuda_fail(&cuda->gpu.cu, -EBUSY, "%u of %u launches have not ended",
			     cuda->launches, cuda->launches);
		return -EBUSY;
	}
	if (others && (blocks > most || others > most - blocks))
		return hr_cuda_fail(
			&cuda->gpu.cu, -EBUSY,
			"%u blocks beside %u of other launches, but the GPU holds %u of "
			"several launches at once",
			blocks, others, most);
	return 0;
}

/* Keep the error of the first launch that fails, and give it to each later launch. */
static int fail_launch(const struct hr_backend *b, int err, struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;

	if (!cuda->failed) {
		cuda->failed = err;
		cuda->failure = cuda->gpu.cu.error;
	}
	return hr_fail(e, cuda->failure.kind, cuda->failed, "%s: %s", b->name, cuda->failure.text);
}

/* The entry point of a launch. That of access operators has 64 registers, so that a block can have
 * 1024 threads. A launch whose blocks are all resident with twice the registers has these, because
 * values that do not fit into registers cost a copy of cached pages a third of its rate. */
static int choose_entry(struct hr_cuda *cuda, const struct hr_launch_args *args,
			const struct hr_cuda_entry **entry)
{
	const struct hr_cuda_entry *wide = &cuda->entry[HR_ENTRY_ACCESS_WIDE];
	uint32_t most;
	int err;

	*entry = entry_of(cuda, args->entry);
	if (args->entry != HR_ENTRY_ACCESS || args->threads > wide->facts.max_threads)
		return 0;
	err = hr_cuda_entry_resident(&cuda->gpu, wide, args->threads, args->shared_bytes, &most);
	if (!err && args->blocks <= most)
		*entry = wide;
	return err;
}

static int cuda_launch(struct hr_backend *b, const struct hr_launch_args *args,
		       struct hr_launch **handle, struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;
	struct hr_cuda_running *launch = NULL;
	const struct hr_cuda_entry *entry;
	int err;

	if (cuda->failed)
		return fail_launch(b, cuda->failed, e);
	err = reserve_cuda_launch(cuda, args->blocks, &launch);
	if (!err)
		err = choose_entry(cuda, args, &entry);
	if (!err)
		err = hr_cuda_launch_start(&cuda->gpu, &launch->cu, entry, args->argument,
					   args->blocks, args->threads, args->shared_bytes);
	/* A launch runs whose end cannot be detected, so no other launch is started. */
	if (err && launch && launch->cu.failed)
		return fail_launch(b, launch->cu.failed, e);
	if (err)
		return hr_cuda_name_error(b, err, e);
	launch->handle = (struct hr_launch){ b, args->stop };
	launch->blocks = args->blocks;
	*handle = &launch->handle;
	return 0;
}

static int cuda_poll(struct hr_launch *handle, struct hr_error *e)
{
	struct hr_cuda *cuda = handle->backend->impl;
	const int state = hr_cuda_launch_poll(&cuda->gpu, &((struct hr_cuda_running *)handle)->cu);

	return state < 0 ? fail_launch(handle->backend, state, e) : state;
}

static void cuda_launch_free(struct hr_launch *handle)
{
	((struct hr_cuda_running *)handle)->blocks = 0;
}

static int cuda_roles(struct hr_backend *b, struct hr_error *e)
{
	return hr_cuda_name_error(b, hr_cuda_read_roles(b->impl), e);
}

static int cuda_limits(struct hr_backend *b, uint32_t times, struct hr_gpu_link_rates *limits,
		       struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;

	return hr_cuda_name_error(b,
				  hr_cuda_link_rates(b, &cuda->gpu, &cuda->image[HR_CUDA_TOOLS],
						     &cuda->launch[0].cu, times, limits, e),
				  e);
}

static int cuda_peer(struct hr_backend *b, struct hr_backend *other, uint32_t warps, uint32_t times,
		     struct hr_peer_rates *rates, struct hr_error *e)
{
	struct hr_backend *both[2] = { b, other };
	struct hr_cuda_side side[2];
	uint32_t failed;
	int err;

	for (int k = 0; k < 2; k++) {
		struct hr_cuda *cuda = both[k]->impl;

		side[k] = (struct hr_cuda_side){ both[k], &cuda->gpu, &cuda->image[HR_CUDA_TOOLS],
						 &cuda->launch[0].cu };
	}
	err = hr_cuda_peer_rates(side, warps, times, rates, &failed, e);
	return hr_cuda_name_error(both[failed], err, e);
}

static int cuda_baseline(struct hr_backend *b, const struct hr_baseline_plan *plan,
			 struct hr_error *e)
{
	struct hr_cuda *cuda = b->impl;

	return hand_over(cuda, hr_cuda_baseline(&cuda->gpu, plan), e);
}

static bool window_mappable(void *to)
{
	struct hr_cuda *cuda = to;

	return hr_cuda_dmabuf_mappable(&cuda->gpu);
}

static int window_export(void *to, uint64_t gpu, size_t bytes, int *fd, struct hr_error *e)
{
	struct hr_cuda *cuda = to;

	return hand_over(cuda, hr_cuda_dmabuf_export(&cuda->gpu, gpu, bytes, fd), e);
}

/* Release everything. The driver may take long, or never return. */
static void *close_cuda(void *argument)
{
	struct hr_cuda *cuda = argument;

	while (cuda->launches)
		hr_cuda_launch_close(&cuda->gpu, &cuda->launch[--cuda->launches].cu);
	while (cuda->linked_count)
		hr_cuda_image_unload(&cuda->gpu, &cuda->linked[--cuda->linked_count].image);
	for (unsigned i = 0; i < HR_CUDA_IMAGES; i++)
		hr_cuda_image_unload(&cuda->gpu, &cuda->image[i]);
	hr_cuda_host_close(&cuda->gpu, &cuda->host);
	for (unsigned i = 0; i < HR_CUDA_ARENAS_MAX; i++)
		if (cuda->arena[i].base)
			hr_cuda_arena_close(&cuda->gpu, &cuda->arena[i]);
	hr_cuda_gpu_close(&cuda->gpu);
	return NULL;
}

static bool ended_in_time(struct hr_cuda *cuda)
{
	const uint64_t end = hr_now_ns() + CLOSE_NS;

	for (uint32_t i = 0; i < cuda->launches; i++) {
		while (hr_cuda_launch_poll(&cuda->gpu, &cuda->launch[i].cu) == 0) {
			if (hr_now_ns() > end)
				return false;
			hr_wait_ns(PAUSE_NS);
		}
	}
	return true;
}

static bool close_cuda_in_time(struct hr_cuda *cuda)
{
	const uint64_t end = hr_now_ns() + CLOSE_NS;
	pthread_t thread;

	if (pthread_create(&thread, NULL, close_cuda, cuda) != 0) {
		close_cuda(cuda);
		return true;
	}
	while (pthread_tryjoin_np(thread, NULL) != 0) {
		if (hr_now_ns() > end) {
			pthread_detach(thread);
			return false;
		}
		hr_wait_ns(PAUSE_NS);
	}
	return true;
}

static void keep_unclosed(struct hr_cuda *cuda)
{
	cuda->next_kept = kept;
	kept = cuda;
}

static void cuda_close(struct hr_backend *b)
{
	struct hr_cuda *cuda = b->impl;

	if (!ended_in_time(cuda)) {
		keep_unclosed(cuda);
		hr_error("%s: worker blocks still run after %llu s; the GPU's memory stays in use "
			 "until this process ends",
			 b->name, CLOSE_NS / HR_NS_PER_S);
	} else {
		cuda->gpu.cu.CtxSetCurrent(NULL);
		if (close_cuda_in_time(cuda)) {
			free(cuda);
		} else {
			keep_unclosed(cuda);
			hr_error("%s: the driver has not released the GPU after %llu s; its memory "
				 "stays in use until this process ends",
				 b->name, CLOSE_NS / HR_NS_PER_S);
		}
	}
	memset(b, 0, sizeof *b);
}

static const struct hr_backend_ops cuda_ops = {
	.attach = cuda_attach,
	.detach = cuda_detach,
	.alloc = hr_cuda_alloc,
	.free = hr_cuda_free,
	.reserve_shared = hr_cuda_reserve_shared,
	.make_shared = hr_cuda_make_shared,
	.export_shared = hr_cuda_export_shared,
	.flush_shared = hr_cuda_flush_shared,
	.share = hr_cuda_share,
	.upload = cuda_upload,
	.download = cuda_download,
	.link = cuda_link,
	.resident = cuda_resident,
	.reserve = cuda_reserve,
	.launch = cuda_launch,
	.poll = cuda_poll,
	.launch_free = cuda_launch_free,
	.close = cuda_close,
};

static const struct hr_gpu_measuring cuda_measuring = {
	.roles = cuda_roles,
	.limits = cuda_limits,
	.peer = cuda_peer,
	.baseline = cuda_baseline,
};

static int open_all(struct hr_cuda *cuda, int ordinal, uint32_t *max_blocks)
{
	struct hr_cuda_gpu *gpu = &cuda->gpu;
	int err = hr_cuda_gpu_open(gpu, ordinal);

	if (!err && cuda->compressible && !gpu->facts.compressible)
		err = hr_cuda_fail(&gpu->cu, -ENOTSUP, "%s %s: no compressible memory",
				   gpu->facts.pci, gpu->facts.model);
	if (!err)
		err = hr_cuda_host_open(gpu, &cuda->host);
	if (!err)
		err = hr_cuda_launch_open(gpu, &cuda->launch[0].cu);
	if (!err) {
		cuda->launches = 1;
		err = hr_cuda_load_images(cuda);
	}
	if (!err)
		err = hr_cuda_entry_resident(gpu, &cuda->entry[HR_ENTRY_PIPE], gpu->facts.wave, 0,
					     max_blocks);
	return err;
}

static void describe_cuda_backend(struct hr_backend *b, struct hr_cuda *cuda, uint32_t max_blocks)
{
	const struct hr_gpu_facts *facts = &cuda->gpu.facts;

	memset(b, 0, sizeof *b);
	b->ops = &cuda_ops;
	snprintf(b->name, sizeof b->name, "cuda:%d %.48s", cuda->gpu.ordinal, facts->model);
	b->lanes = HR_CUDA_LANES;
	b->wave = facts->wave;
	b->max_blocks = max_blocks;
	b->side_by_side = facts->processors;
	b->processors = facts->processors;
	b->shared_align = facts->granularity;
	b->max_threads = cuda->entry[HR_ENTRY_PIPE].facts.max_threads;
	b->facts = facts;
	b->measuring = &cuda_measuring;
	cuda->window = (struct hr_window_driver){ window_mappable, window_export, cuda };
	if (facts->rdma && facts->rdma_virtual_memory && !cuda->compressible)
		b->window = &cuda->window;
	b->impl = cuda;
}

int hr_cuda_open(struct hr_backend *b, int ordinal, bool compressible, struct hr_error *e)
{
	struct hr_cuda *cuda = calloc(1, sizeof *cuda);
	uint32_t max_blocks = 0;
	int err;

	if (!cuda)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "out of memory");
	cuda->compressible = compressible;
	err = open_all(cuda, ordinal, &max_blocks);
	if (err) {
		hand_over(cuda, err, e);
		if (!cuda->gpu.context || close_cuda_in_time(cuda))
			free(cuda);
		else
			keep_unclosed(cuda);
		return err;
	}
	describe_cuda_backend(b, cuda, max_blocks);
	if (b->facts->time_limit)
		hr_warn("%s: this GPU has a display, and the driver ends launches that run for some "
			"seconds; use another GPU, or disconnect the display",
			b->name);
	return 0;
}

int hr_cuda_await(int ordinal, struct hr_error *e)
{
	static struct hr_cuda_driver cu; /* one per process */
	const int err = hr_cuda_gpu_await(&cu, ordinal);

	return err ? hr_fail(e, HR_ERROR_MISSING, err, "%s", cu.error.text) : 0;
}
