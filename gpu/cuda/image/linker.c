/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/image/image.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ERRORS, ERRORS_BYTES, INFOS, INFOS_BYTES, OPTIONS };

/* The driver writes to the logs and values as long as the linker state exists. */
struct linker {
	CUlinkState state;
	void *value[OPTIONS];
};

static int create_linker(struct hr_cuda_gpu *gpu, struct linker *linker)
{
	CUjit_option option[OPTIONS] = { CU_JIT_ERROR_LOG_BUFFER,
					 CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
					 CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES };

	/* The API passes numbers in pointers. */
	linker->value[ERRORS_BYTES] = (void *)(uintptr_t)(HR_CUDA_LOG_BYTES - 1);
	linker->value[INFOS_BYTES] = (void *)(uintptr_t)(HR_CUDA_LOG_BYTES - 1);
	return HR_CU(&gpu->cu, LinkCreate, OPTIONS, option, linker->value, &linker->state);
}

/*
 * When the linker has written to its error log, the input is at fault; otherwise the driver is. An
 * input without code for this GPU is skipped with a remark in the log, and its symbols are
 * undefined later.
 */
static int describe_error(struct hr_cuda_gpu *gpu, const struct linker *linker, int err,
			  const char *name)
{
	const char *errors = linker->value[ERRORS], *infos = linker->value[INFOS];

	if (err == -ENOMEM)
		return err;
	if (strstr(infos, "No code for ") || (err == -ENOTSUP && !errors[0]))
		return hr_cuda_fail(&gpu->cu, -ENOTSUP,
				    "%s: no code in it runs on compute capability %u.%u%s%s", name,
				    gpu->facts.capability / 10, gpu->facts.capability % 10,
				    err ? "; " : "", err ? gpu->cu.error.text : "");
	return err && errors[0] ? -EINVAL : err;
}

static int add_linker_inputs(struct hr_cuda_gpu *gpu, struct linker *linker,
			     const struct hr_cuda_input *input, unsigned inputs)
{
	int err = 0;

	for (unsigned i = 0; !err && i < inputs; i++) {
		/* The interface takes a pointer to data that is not const, but only copies the
		 * data. */
		void *data = (void *)(uintptr_t)input[i].data;

		err = HR_CU(&gpu->cu, LinkAddData, linker->state, CU_JIT_INPUT_FATBINARY, data,
			    input[i].bytes, input[i].name, 0, NULL, NULL);
		err = describe_error(gpu, linker, err, input[i].name);
	}
	return err;
}

static int complete_link(struct hr_cuda_gpu *gpu, struct linker *linker,
			 struct hr_cuda_image *image, const char *what)
{
	void *cubin = NULL;
	size_t bytes = 0;
	int err = HR_CU(&gpu->cu, LinkComplete, linker->state, &cubin, &bytes);

	err = describe_error(gpu, linker, err, what);
	return err ? err : hr_cuda_image_load(gpu, image, cubin, what);
}

static int link_all(struct hr_cuda_gpu *gpu, struct linker *linker, struct hr_cuda_image *image,
		    const struct hr_cuda_input *input, unsigned inputs, const char *what)
{
	int err = hr_cuda_gpu_enter(gpu);

	if (!err)
		err = create_linker(gpu, linker);
	if (!err)
		err = add_linker_inputs(gpu, linker, input, inputs);
	if (!err)
		err = complete_link(gpu, linker, image, what);
	if (err) {
		hr_cuda_show_log(HR_LOG_ERROR, what, linker->value[ERRORS]);
		hr_cuda_show_log(HR_LOG_INFO, what, linker->value[INFOS]);
	}
	if (linker->state)
		gpu->cu.LinkDestroy(linker->state);
	return err;
}

int hr_cuda_image_build(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image,
			const struct hr_cuda_input *input, unsigned inputs, const char *what)
{
	struct linker linker = { 0 };
	char *errors = calloc(1, HR_CUDA_LOG_BYTES), *infos = calloc(1, HR_CUDA_LOG_BYTES);
	int err;

	image->module = NULL;
	linker.value[ERRORS] = errors;
	linker.value[INFOS] = infos;
	if (errors && infos)
		err = link_all(gpu, &linker, image, input, inputs, what);
	else
		err = hr_cuda_fail(&gpu->cu, -ENOMEM, "%s: out of memory", what);
	free(errors);
	free(infos);
	return err;
}
