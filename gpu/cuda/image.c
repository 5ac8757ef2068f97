#include "gpu/cuda/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARP 32u
#define SHARED_PLAIN (48u << 10) /* shared memory, static and dynamic, that a kernel has unasked */

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
	/* Numbers travel in the pointers. */
	void *value[OPTIONS] = { errors, (void *)(uintptr_t)(HR_CUDA_LOG_BYTES - 1), infos,
				 (void *)(uintptr_t)(HR_CUDA_LOG_BYTES - 1) };
	int err = hr_cuda_gpu_enter(gpu);

	image->module = NULL;
	if (!errors || !infos)
		err = hr_cuda_say(&gpu->cu, -ENOMEM, "%s: out of memory", what);
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

int hr_cuda_kernel_find(struct hr_cuda_gpu *gpu, const struct hr_cuda_image *image,
			struct hr_cuda_kernel *kernel, const char *name)
{
	const struct {
		CUfunction_attribute attribute;
		uint32_t *to;
	} row[] = {
		{ CU_FUNC_ATTRIBUTE_NUM_REGS, &kernel->facts.registers },
		{ CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &kernel->facts.shared_bytes },
		{ CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &kernel->facts.local_bytes },
		{ CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &kernel->facts.max_threads },
		{ CU_FUNC_ATTRIBUTE_BINARY_VERSION, &kernel->facts.machine },
	};
	int err = hr_cuda_gpu_enter(gpu);

	memset(kernel, 0, sizeof *kernel);
	snprintf(kernel->facts.name, sizeof kernel->facts.name, "%s", name);
	if (!err)
		err = HR_CU(&gpu->cu, ModuleGetFunction, &kernel->function, image->module, name);
	if (err == -ENOENT)
		hr_cuda_say(&gpu->cu, err, "the worker image has no kernel %s", name);
	for (size_t i = 0; !err && i < sizeof row / sizeof *row; i++) {
		int value = 0;

		err = HR_CU(&gpu->cu, FuncGetAttribute, &value, row[i].attribute, kernel->function);
		*row[i].to = (uint32_t)value;
	}
	return err;
}

static int check_shape(struct hr_cuda_gpu *gpu, const struct hr_cuda_kernel *kernel,
		       uint32_t threads, uint32_t shared_bytes)
{
	const uint32_t most = gpu->facts.shared_bytes > kernel->facts.shared_bytes
				      ? gpu->facts.shared_bytes - kernel->facts.shared_bytes
				      : 0;

	if (threads == 0 || threads % WARP || threads > kernel->facts.max_threads)
		return hr_cuda_say(&gpu->cu, -EINVAL,
				   "%s: %u threads per block, expected a multiple of %u up to %u",
				   kernel->facts.name, threads, WARP, kernel->facts.max_threads);
	if (shared_bytes > most)
		return hr_cuda_say(&gpu->cu, -EINVAL,
				   "%s: %u bytes of shared memory per block, expected at most %u",
				   kernel->facts.name, shared_bytes, most);
	return 0;
}

int hr_cuda_kernel_resident(struct hr_cuda_gpu *gpu, const struct hr_cuda_kernel *kernel,
			    uint32_t threads, uint32_t shared_bytes, uint32_t *blocks)
{
	int per_processor = 0, err = check_shape(gpu, kernel, threads, shared_bytes);

	*blocks = 0;
	if (!err)
		err = hr_cuda_gpu_enter(gpu);
	if (!err && shared_bytes && shared_bytes + kernel->facts.shared_bytes > SHARED_PLAIN)
		err = HR_CU(&gpu->cu, FuncSetAttribute, kernel->function,
			    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes);
	if (!err)
		err = HR_CU(&gpu->cu, OccupancyMaxActiveBlocksPerMultiprocessor, &per_processor,
			    kernel->function, (int)threads, shared_bytes);
	if (!err)
		*blocks = (uint32_t)per_processor * gpu->facts.processors;
	return err;
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
			const struct hr_cuda_kernel *kernel, uint32_t blocks, uint32_t threads,
			uint32_t shared_bytes)
{
	uint32_t most;
	int err;

	if (launch->failed)
		return launch->failed;
	if (launch->running)
		return hr_cuda_say(&gpu->cu, -EBUSY, "%s: the last launch has not ended",
				   kernel->facts.name);
	err = hr_cuda_kernel_resident(gpu, kernel, threads, shared_bytes, &most);
	if (!err && (blocks == 0 || blocks > most))
		err = hr_cuda_say(&gpu->cu, -EINVAL,
				  "%s: %u blocks of %u threads, but the GPU holds 1 to %u of them "
				  "at once",
				  kernel->facts.name, blocks, threads, most);
	return err;
}

int hr_cuda_launch_start(struct hr_cuda_gpu *gpu, struct hr_cuda_launch *launch,
			 const struct hr_cuda_kernel *kernel, void *argument, uint32_t blocks,
			 uint32_t threads, uint32_t shared_bytes)
{
	void *parameter[] = { &argument };
	int err = check_launch(gpu, launch, kernel, blocks, threads, shared_bytes);

	if (!err)
		err = HR_CU(&gpu->cu, LaunchCooperativeKernel, kernel->function, blocks, 1, 1,
			    threads, 1, 1, shared_bytes, launch->stream, parameter);
	if (err)
		return err;
	launch->running = true;
	err = HR_CU(&gpu->cu, EventRecord, launch->ended, launch->stream);
	/* It runs, and nothing can tell when it ends: it must count as failed. */
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
