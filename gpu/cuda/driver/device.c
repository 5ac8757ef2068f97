/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/driver/device.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"

#define CAPABILITY_MIN 80u   /* oldest machine code in the worker image */
#define DEVICES_SHOWN_MAX 16 /* maximum number of unusable GPUs in a message */
#define PAUSE_MAX_NS 50000ull

/* An attribute that this driver does not know is 0. */
static int read_attribute(struct hr_cuda_gpu *gpu, CUdevice_attribute attribute, int *value)
{
	const CUresult result = gpu->cu.DeviceGetAttribute(value, attribute, gpu->device);

	if (result == CUDA_ERROR_INVALID_VALUE) {
		*value = 0;
		return 0;
	}
	return hr_cuda_check(&gpu->cu, "cuDeviceGetAttribute", result);
}

static int read_flags(struct hr_cuda_gpu *gpu)
{
	struct hr_gpu_facts *f = &gpu->facts;
	const struct {
		CUdevice_attribute attribute;
		bool *flag;
	} row[] = {
		{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &f->virtual_memory },
		{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &f->cooperative },
		{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, &f->host_register },
		{ CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, &f->host_pointer },
		{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &f->fd_handles },
		{ CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, &f->dma_buf },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, &f->rdma },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
		  &f->rdma_virtual_memory },
		{ CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, &f->compressible },
		{ CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, &f->time_limit },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		int value = 0;
		int err = read_attribute(gpu, row[i].attribute, &value);

		if (err)
			return err;
		*row[i].flag = value != 0;
	}
	return 0;
}

static int read_numbers(struct hr_cuda_gpu *gpu)
{
	enum {
		MAJOR,
		MINOR,
		PROCESSORS,
		WAVE,
		THREADS,
		REGISTERS,
		SHARED,
		FLUSH,
		ORDERING,
		NUMBERS
	};
	static const CUdevice_attribute attribute[NUMBERS] = {
		[MAJOR] = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
		[MINOR] = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
		[PROCESSORS] = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
		[WAVE] = CU_DEVICE_ATTRIBUTE_WARP_SIZE,
		[THREADS] = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
		[REGISTERS] = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
		[SHARED] = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
		[FLUSH] = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
		[ORDERING] = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
	};
	struct hr_gpu_facts *f = &gpu->facts;
	int value[NUMBERS] = { 0 };

	for (int i = 0; i < NUMBERS; i++) {
		int err = read_attribute(gpu, attribute[i], &value[i]);

		if (err)
			return err;
	}
	f->capability = (uint32_t)(value[MAJOR] * 10 + value[MINOR]);
	f->processors = (uint32_t)value[PROCESSORS];
	f->wave = (uint32_t)value[WAVE];
	f->block_threads = (uint32_t)value[THREADS];
	f->block_registers = (uint32_t)value[REGISTERS];
	f->shared_bytes = (uint32_t)value[SHARED];
	f->flush_from_host = value[FLUSH] & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
	f->flush_from_stream = value[FLUSH] & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS;
	f->ordered_for_owner = value[ORDERING] >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
	f->ordered_for_all = value[ORDERING] >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES;
	return 0;
}

/* Version of the kernel module, which the driver API does not report. */
static void read_driver_version(struct hr_gpu_facts *facts)
{
	FILE *file = fopen("/sys/module/nvidia/version", "re");

	if (!file)
		return;
	if (!fgets(facts->driver, sizeof facts->driver, file))
		facts->driver[0] = '\0';
	facts->driver[strcspn(facts->driver, "\n")] = '\0';
	fclose(file);
}

static int read_facts(struct hr_cuda_gpu *gpu)
{
	struct hr_gpu_facts *f = &gpu->facts;
	size_t bytes = 0;
	CUuuid uuid = { 0 };
	int err;

	memset(f, 0, sizeof *f);
	f->interface = (uint32_t)gpu->cu.version;
	read_driver_version(f);
	err = HR_CU(&gpu->cu, DeviceGetName, f->model, sizeof f->model, gpu->device);
	if (!err)
		err = HR_CU(&gpu->cu, DeviceGetPCIBusId, f->pci, sizeof f->pci, gpu->device);
	if (!err)
		err = HR_CU(&gpu->cu, DeviceGetUuid, &uuid, gpu->device);
	memcpy(f->uuid, uuid.bytes, sizeof f->uuid);
	if (!err)
		err = HR_CU(&gpu->cu, DeviceTotalMem, &bytes, gpu->device);
	if (!err)
		err = read_numbers(gpu);
	if (!err)
		err = read_flags(gpu);
	f->memory_bytes = bytes;
	f->mps = hr_cuda_mps_runs();
	for (char *c = f->pci; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return err;
}

static int check_facts(struct hr_cuda_gpu *gpu)
{
	const struct hr_gpu_facts *f = &gpu->facts;

	if (f->capability < CAPABILITY_MIN)
		return hr_cuda_fail(&gpu->cu, -ENOTSUP,
				    "%s %s: compute capability %u.%u, needs %u.%u or later", f->pci,
				    f->model, f->capability / 10, f->capability % 10,
				    CAPABILITY_MIN / 10, CAPABILITY_MIN % 10);
	if (f->wave != HR_CUDA_LANES)
		return hr_cuda_fail(&gpu->cu, -ENOTSUP,
				    "%s %s: a warp has %u threads, but the worker code is for %u",
				    f->pci, f->model, f->wave, HR_CUDA_LANES);
	if (!f->virtual_memory || !f->cooperative || !f->host_register)
		return hr_cuda_fail(&gpu->cu, -ENOTSUP, "%s %s: the driver offers no %s there",
				    f->pci, f->model,
				    !f->virtual_memory ? "virtual memory management"
				    : !f->cooperative  ? "cooperative launch"
						       : "registration of host memory");
	return 0;
}

static CUmemAllocationProp plain_memory(const struct hr_cuda_gpu *gpu)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = gpu->device;
	return prop;
}

/*
 * After a launch has failed, the driver refuses all further work of this process: "CUDA Driver API:
 * CUresult", of CUDA_ERROR_ILLEGAL_ADDRESS and similar errors.
 */
static int retain_context(struct hr_cuda_gpu *gpu)
{
	const int err = HR_CU(&gpu->cu, DevicePrimaryCtxRetain, &gpu->context, gpu->device);

	if (err != -EIO)
		return err;
	return hr_cuda_fail(&gpu->cu, err,
			    "%.900s; a process in which the GPU has failed cannot use it again, "
			    "start it again",
			    gpu->cu.error.text);
}

static int make_context(struct hr_cuda_gpu *gpu)
{
	const CUmemAllocationProp prop = plain_memory(gpu);
	struct hr_cuda_driver *cu = &gpu->cu;
	size_t granularity = 0;
	int err;

	/* Keep local memory at the size of the largest launch, so that later launches need not
	 * resize it. */
	err = HR_CU(cu, DevicePrimaryCtxSetFlags, gpu->device,
		    CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_LMEM_RESIZE_TO_MAX);
	if (!err)
		err = retain_context(gpu);
	if (err)
		return err;
	err = hr_cuda_gpu_enter(gpu);
	if (!err)
		err = HR_CU(cu, StreamCreate, &gpu->stream, CU_STREAM_NON_BLOCKING);
	if (!err)
		err = HR_CU(cu, EventCreate, &gpu->done, CU_EVENT_DISABLE_TIMING);
	if (!err)
		err = HR_CU(cu, MemGetAllocationGranularity, &granularity, &prop,
			    CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (!err && (granularity == 0 || granularity & (granularity - 1)))
		err = hr_cuda_fail(cu, -EIO, "memory granularity %zu is not a power of two",
				   granularity);
	gpu->facts.granularity = (uint32_t)granularity;
	return err;
}

static int open_device(struct hr_cuda_gpu *gpu, int ordinal)
{
	int err = HR_CU(&gpu->cu, DeviceGet, &gpu->device, ordinal);

	gpu->ordinal = ordinal;
	if (!err)
		err = read_facts(gpu);
	if (!err)
		err = check_facts(gpu);
	if (err)
		return err;
	err = make_context(gpu);
	if (err)
		hr_cuda_gpu_close(gpu);
	return err;
}

/* Open the first usable GPU. The errors of the others are reported only when none opens. */
static int open_first(struct hr_cuda_gpu *gpu, int count)
{
	char reasons[HR_LOG_LINE_MAX] = "";
	size_t n = 0;
	int err = -ENODEV;

	for (int i = 0; i < count; i++) {
		err = open_device(gpu, i);
		if (!err)
			return 0;
		if (n < sizeof reasons && i < DEVICES_SHOWN_MAX)
			n += (size_t)snprintf(reasons + n, sizeof reasons - n, "%scuda:%d: %s",
					      i ? "; " : "", i, gpu->cu.error.text);
	}
	return hr_cuda_fail(&gpu->cu, err, "%s", reasons);
}

/* CUDA_ERROR_UNKNOWN: before the module nvidia_uvm is loaded. */
static bool may_pass(CUresult result, int ordinal)
{
	return result == CUDA_ERROR_SYSTEM_NOT_READY || result == CUDA_ERROR_MPS_SERVER_NOT_READY ||
	       (ordinal != HR_CUDA_ANY &&
		(result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_UNKNOWN));
}

int hr_cuda_gpu_await(struct hr_cuda_driver *cu, int ordinal)
{
	int count = 0, err = hr_cuda_driver_open(cu);

	if (!err)
		err = HR_CU(cu, DeviceGetCount, &count);
	if (err)
		return may_pass(cu->result, ordinal) ? -EAGAIN : 0;
	if (ordinal < count) /* also HR_CUDA_ANY */
		return 0;
	return hr_cuda_fail(cu, -EAGAIN, "the NVIDIA driver has %d GPUs", count);
}

int hr_cuda_gpu_open(struct hr_cuda_gpu *gpu, int ordinal)
{
	int count = 0, err;

	memset(gpu, 0, sizeof *gpu);
	err = hr_cuda_driver_open(&gpu->cu);
	if (!err)
		err = HR_CU(&gpu->cu, DeviceGetCount, &count);
	if (err)
		return err;
	if (count <= 0)
		return hr_cuda_fail(&gpu->cu, -ENODEV, "the NVIDIA driver reports no GPU");
	if (ordinal == HR_CUDA_ANY)
		return open_first(gpu, count);
	if (ordinal >= count)
		return hr_cuda_fail(&gpu->cu, -ENODEV, "no such GPU, the last one is cuda:%d",
				    count - 1);
	return open_device(gpu, ordinal);
}

void hr_cuda_gpu_close(struct hr_cuda_gpu *gpu)
{
	struct hr_cuda_driver *cu = &gpu->cu;

	if (!gpu->context)
		return;
	/* Errors are ignored here: the release of the context also releases these resources. */
	cu->CtxSetCurrent(gpu->context);
	if (gpu->done)
		cu->EventDestroy(gpu->done);
	if (gpu->stream)
		cu->StreamDestroy(gpu->stream);
	cu->CtxSetCurrent(NULL);
	cu->DevicePrimaryCtxRelease(gpu->device);
	gpu->done = NULL;
	gpu->stream = NULL;
	gpu->context = NULL;
}

int hr_cuda_gpu_enter(struct hr_cuda_gpu *gpu)
{
	return HR_CU(&gpu->cu, CtxSetCurrent, gpu->context);
}

int hr_cuda_gpu_wait(struct hr_cuda_gpu *gpu, CUevent event)
{
	const uint64_t end = hr_now_ns() + HR_CUDA_WAIT_NS;
	uint64_t pause = 1000;
	CUresult result;

	while ((result = gpu->cu.EventQuery(event)) == CUDA_ERROR_NOT_READY) {
		if (hr_now_ns() > end)
			return hr_cuda_fail(&gpu->cu, -ETIMEDOUT,
					    "a copy of GPU memory has not ended after %llu s",
					    HR_CUDA_WAIT_NS / HR_NS_PER_S);
		hr_wait_ns(pause);
		pause = pause * 2 < PAUSE_MAX_NS ? pause * 2 : PAUSE_MAX_NS;
	}
	return hr_cuda_check(&gpu->cu, "cuEventQuery", result);
}
