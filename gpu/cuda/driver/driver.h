/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/driver/driver.h - the CUDA driver as a table of functions, and its errors as errno values.
 *
 * Names are those of the driver API without "cu". The number is the CUDA version that introduced
 * the form of the function used here (cudaTypedefs.h), so a newer driver returns exactly that form.
 * Reference: "CUDA Driver API", modules as grouped below.
 */
#ifndef GPU_CUDA_DRIVER_DRIVER_H
#define GPU_CUDA_DRIVER_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "config/base/error.h"

/* clang-format off */
#define HR_CUDA_CALLS(X) \
	/* Initialization, version, errors */ \
	X(Init, 2000) X(DriverGetVersion, 2020) X(GetErrorName, 6000) X(GetErrorString, 6000) \
	/* Device management, primary context, context */ \
	X(DeviceGetCount, 2000) X(DeviceGet, 2000) X(DeviceGetName, 2000) X(DeviceGetUuid, 11040) \
	X(DeviceTotalMem, 3020) X(DeviceGetAttribute, 2000) X(DeviceGetPCIBusId, 4010) \
	X(DeviceCanAccessPeer, 4000) X(DevicePrimaryCtxRetain, 7000) \
	X(DevicePrimaryCtxRelease, 11000) X(DevicePrimaryCtxSetFlags, 11000) X(CtxSetCurrent, 4000) \
	/* Virtual memory management */ \
	X(MemGetAllocationGranularity, 10020) X(MemCreate, 10020) X(MemRelease, 10020) \
	X(MemAddressReserve, 10020) X(MemAddressFree, 10020) X(MemMap, 10020) X(MemUnmap, 10020) \
	X(MemSetAccess, 10020) X(MemGetAllocationPropertiesFromHandle, 10020) \
	X(MemExportToShareableHandle, 10020) X(MemGetHandleForAddressRange, 11070) \
	X(FlushGPUDirectRDMAWrites, 11030) \
	/* Memory management */ \
	X(MemGetInfo, 3020) X(MemAlloc, 3020) X(MemFree, 3020) X(MemHostAlloc, 2020) \
	X(MemFreeHost, 2000) X(MemHostRegister, 6050) X(MemHostUnregister, 4000) \
	X(MemHostGetDevicePointer, 3020) X(MemcpyAsync, 4000) X(MemsetD8Async, 3020) \
	/* Streams, events */ \
	X(StreamCreate, 2000) X(StreamDestroy, 4000) X(EventCreate, 2000) X(EventDestroy, 4000) \
	X(EventRecord, 2000) X(EventQuery, 2000) \
	/* Linking, modules, execution, occupancy */ \
	X(LinkCreate, 6050) X(LinkAddData, 6050) X(LinkComplete, 5050) X(LinkDestroy, 5050) \
	X(ModuleLoadDataEx, 2010) X(ModuleUnload, 2000) X(ModuleGetFunction, 2000) \
	X(FuncGetAttribute, 2020) X(FuncSetAttribute, 9000) X(LaunchCooperativeKernel, 9000) \
	X(OccupancyMaxActiveBlocksPerMultiprocessor, 6050)
/* clang-format on */

#define HR_CUDA_MEMBER(name, since) PFN_cu##name##_v##since name;

struct hr_cuda_driver {
	HR_CUDA_CALLS(HR_CUDA_MEMBER)
	int version;	       /* 13000: CUDA 13.0 */
	CUresult result;       /* of the last failed call of the driver */
	struct hr_error error; /* error of the last failed call of gpu/cuda/ */
};

/*
 * Oldest supported driver: all functions above exist in 12.0, and machine code of the worker image
 * runs on drivers of its toolkit's major version or later ("CUDA Compatibility").
 */
#define HR_CUDA_VERSION_MIN (CUDA_VERSION / 1000 > 12 ? CUDA_VERSION / 1000 * 1000 : 12000)

/*
 * Load the driver and initialise it. 0; -ENODEV: no driver, or no device; -ENOTSUP: too old, or a
 * function is missing; others as hr_cuda_check(). cu->error has the reason.
 */
int hr_cuda_driver_open(struct hr_cuda_driver *cu);

/*
 * Convert the result of a call to an errno value, and set cu->error to "CALL: NAME: text" unless it
 * is 0. call may continue with its subject, in brackets. -ENOMEM: out of memory; -ENODEV: no
 * device, or an unusable one; -ENOTSUP: not supported here; -EINVAL: a value that the driver
 * refuses; -EPERM, -EEXIST, -ENOENT; -EIO: all other errors, above all a GPU that has failed.
 */
int hr_cuda_check(struct hr_cuda_driver *cu, const char *call, CUresult result);

/* Call a function of the table and check its result. */
#define HR_CU(cu, name, ...) hr_cuda_check((cu), "cu" #name, (cu)->name(__VA_ARGS__))

/* Set cu->error; its kind follows from error. The arguments may include its old text. Returns
 * error. */
int hr_cuda_fail(struct hr_cuda_driver *cu, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- load the driver library libcuda.so.1 at run time, so that the
 * program starts on machines without a driver and can report that it is missing.
 *
 * This is a seam: tests link a driver of their own in its place (tests/fakes/cuda.h).
 */

/*
 * *find is cuGetProcAddress_v2 of the library; it finds all other functions. The library stays open
 * until the process ends: it starts threads and does not support unloading. 0; -ENODEV: no such
 * library; -ENOTSUP: it is older than CUDA 12.0.
 */
int hr_cuda_library(PFN_cuGetProcAddress_v12000 *find, struct hr_error *e);

#endif
