/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/image/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* shared memory, static and dynamic, that an entry point has without a request */
#define SHARED_PLAIN (48u << 10)
#define THREADS_PER_PROCESSOR 2048u /* maximum resident threads per SM */

void hr_cuda_show_log(enum hr_log_level level, const char *what, char *log)
{
	char *line, *rest = log;

	while ((line = strsep(&rest, "\n")))
		if (*line)
			hr_log(level, "%s: %s", what, line);
}

int hr_cuda_image_load(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image, const void *data,
		       const char *what)
{
	enum { OPTIONS = 4 };
	char *errors = calloc(1, HR_CUDA_LOG_BYTES), *infos = calloc(1, HR_CUDA_LOG_BYTES);
	CUjit_option option[OPTIONS] = { CU_JIT_ERROR_LOG_BUFFER,
					 CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
					 CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES };
	/* The API passes numbers in pointers. */
	void *value[OPTIONS] = { errors, (void *)(uintptr_t)(HR_CUDA_LOG_BYTES - 1), infos,
				 (void *)(uintptr_t)(HR_CUDA_LOG_BYTES - 1) };
	int err = hr_cuda_gpu_enter(gpu);

	image->module = NULL;
	if (!errors || !infos)
		err = hr_cuda_fail(&gpu->cu, -ENOMEM, "%s: out of memory", what);
	if (!err)
		err = HR_CU(&gpu->cu, ModuleLoadDataEx, &image->module, data, OPTIONS, option,
			    value);
	if (err && errors && infos) {
		hr_cuda_show_log(HR_LOG_ERROR, what, errors);
		hr_cuda_show_log(HR_LOG_INFO, what, infos);
	}
	free(errors);
	free(infos);
	return err;
}

void hr_cuda_image_unload(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image)
{
	gpu->cu.CtxSetCurrent(gpu->context);
	if (image->module)
		gpu->cu.ModuleUnload(image->module);
	image->module = NULL;
}

int hr_cuda_entry_find(struct hr_cuda_gpu *gpu, const struct hr_cuda_image *image,
		       struct hr_cuda_entry *entry, const char *name)
{
	const struct {
		CUfunction_attribute attribute;
		uint32_t *to;
	} row[] = {
		{ CU_FUNC_ATTRIBUTE_NUM_REGS, &entry->facts.registers },
		{ CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &entry->facts.shared_bytes },
		{ CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &entry->facts.local_bytes },
		{ CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &entry->facts.max_threads },
		{ CU_FUNC_ATTRIBUTE_BINARY_VERSION, &entry->facts.machine },
	};
	int err = hr_cuda_gpu_enter(gpu);

	memset(entry, 0, sizeof *entry);
	snprintf(entry->facts.name, sizeof entry->facts.name, "%s", name);
	if (!err)
		err = HR_CU(&gpu->cu, ModuleGetFunction, &entry->function, image->module, name);
	if (err == -ENOENT)
		hr_cuda_fail(&gpu->cu, err, "the worker image has no entry point %s", name);
	for (size_t i = 0; !err && i < sizeof row / sizeof *row; i++) {
		int value = 0;

		err = HR_CU(&gpu->cu, FuncGetAttribute, &value, row[i].attribute, entry->function);
		*row[i].to = (uint32_t)value;
	}
	return err;
}

static int check_shape(struct hr_cuda_gpu *gpu, const struct hr_cuda_entry *entry, uint32_t threads,
		       uint32_t shared_bytes)
{
	const uint32_t most = gpu->facts.shared_bytes > entry->facts.shared_bytes
				      ? gpu->facts.shared_bytes - entry->facts.shared_bytes
				      : 0;

	if (threads == 0 || threads % gpu->facts.wave || threads > entry->facts.max_threads)
		return hr_cuda_fail(&gpu->cu, -EINVAL,
				    "%s: %u threads per block, expected a multiple of %u up to %u",
				    entry->facts.name, threads, gpu->facts.wave,
				    entry->facts.max_threads);
	if (shared_bytes > most)
		return hr_cuda_fail(&gpu->cu, -EINVAL,
				    "%s: %u bytes of shared memory per block, expected at most %u",
				    entry->facts.name, shared_bytes, most);
	return 0;
}

int hr_cuda_entry_resident(struct hr_cuda_gpu *gpu, const struct hr_cuda_entry *entry,
			   uint32_t threads, uint32_t shared_bytes, uint32_t *blocks)
{
	int per_processor = 0, err = check_shape(gpu, entry, threads, shared_bytes);

	*blocks = 0;
	if (!err)
		err = hr_cuda_gpu_enter(gpu);
	if (!err && shared_bytes && shared_bytes + entry->facts.shared_bytes > SHARED_PLAIN)
		err = HR_CU(&gpu->cu, FuncSetAttribute, entry->function,
			    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes);
	if (!err)
		err = HR_CU(&gpu->cu, OccupancyMaxActiveBlocksPerMultiprocessor, &per_processor,
			    entry->function, (int)threads, shared_bytes);
	if (!err)
		*blocks = (uint32_t)per_processor * gpu->facts.processors;
	return err;
}

int hr_cuda_entry_check_local(struct hr_cuda_gpu *gpu, const struct hr_entry_facts *entry)
{
	const uint64_t threads = (uint64_t)gpu->facts.processors * THREADS_PER_PROCESSOR;
	const uint64_t local = entry->local_bytes * threads;
	size_t left = 0, all = 0;
	int err = HR_CU(&gpu->cu, MemGetInfo, &left, &all);

	if (err || local <= left)
		return err;
	return hr_cuda_fail(
		&gpu->cu, -EINVAL,
		"%s: %u bytes of local memory per thread, %llu on the whole GPU, but %zu are free",
		entry->name, entry->local_bytes, (unsigned long long)local, left);
}

int hr_cuda_launch_open(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch)
{
	int err = hr_cuda_gpu_enter(gpu);

	memset(launch, 0, sizeof *launch);
	if (!err)
		err = HR_CU(&gpu->cu, StreamCreate, &launch->stream, CU_STREAM_NON_BLOCKING);
	if (!err)
		err = HR_CU(&gpu->cu, EventCreate, &launch->ended, CU_EVENT_DISABLE_TIMING);
	if (err)
		hr_cuda_launch_close(gpu, launch);
	return err;
}

void hr_cuda_launch_close(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch)
{
	gpu->cu.CtxSetCurrent(gpu->context);
	if (launch->ended)
		gpu->cu.EventDestroy(launch->ended);
	if (launch->stream)
		gpu->cu.StreamDestroy(launch->stream);
	memset(launch, 0, sizeof *launch);
}

static int check_launch(struct hr_cuda_gpu *gpu, const struct hr_cuda_launch *launch,
			const struct hr_cuda_entry *entry, uint32_t blocks, uint32_t threads,
			uint32_t shared_bytes)
{
	uint32_t most;
	int err;

	if (launch->failed)
		return launch->failed;
	if (launch->running)
		return hr_cuda_fail(&gpu->cu, -EBUSY, "%s: the last launch has not ended",
				    entry->facts.name);
	err = hr_cuda_entry_resident(gpu, entry, threads, shared_bytes, &most);
	if (!err && (blocks == 0 || blocks > most))
		err = hr_cuda_fail(&gpu->cu, -EINVAL,
				   "%s: %u blocks of %u threads, but the GPU holds 1 to %u of them "
				   "at once",
				   entry->facts.name, blocks, threads, most);
	return err;
}

int hr_cuda_launch_start(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch,
			 const struct hr_cuda_entry *entry, void *argument, uint32_t blocks,
			 uint32_t threads, uint32_t shared_bytes)
{
	void *parameter[] = { &argument };
	int err = check_launch(gpu, launch, entry, blocks, threads, shared_bytes);

	if (!err)
		err = HR_CU(&gpu->cu, LaunchCooperativeKernel, entry->function, blocks, 1, 1,
			    threads, 1, 1, shared_bytes, launch->stream, parameter);
	if (err)
		return err;
	launch->running = true;
	err = HR_CU(&gpu->cu, EventRecord, launch->ended, launch->stream);
	/* The launch runs, but its end cannot be detected, so the launch counts as failed. */
	if (err)
		launch->failed = err;
	return err;
}

int hr_cuda_launch_poll(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch)
{
	CUresult result;

	if (launch->failed)
		return launch->failed;
	if (!launch->running)
		return 1;
	result = gpu->cu.EventQuery(launch->ended);
	if (result == CUDA_ERROR_NOT_READY)
		return 0;
	launch->running = false;
	launch->failed = hr_cuda_check(&gpu->cu, "cuEventQuery (worker blocks)", result);
	return launch->failed ? launch->failed : 1;
}
