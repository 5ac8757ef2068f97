/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/driver/driver.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"

#define MPS_READY_NS (5 * HR_NS_PER_S)
#define MPS_PAUSE_NS (50 * HR_NS_PER_MS)

static const struct {
	const char *name;
	int since;
	size_t at; /* offset in struct hr_cuda_driver */
} call[] = {
#define ROW(name, since) { "cu" #name, since, offsetof(struct hr_cuda_driver, name) },
	HR_CUDA_CALLS(ROW)
#undef ROW
};

static const struct {
	CUresult result;
	int error;
} meaning[] = {
	{ CUDA_ERROR_OUT_OF_MEMORY, -ENOMEM },
	{ CUDA_ERROR_NO_DEVICE, -ENODEV },
	{ CUDA_ERROR_INVALID_DEVICE, -ENODEV },
	{ CUDA_ERROR_DEVICE_NOT_LICENSED, -ENODEV },
	{ CUDA_ERROR_DEVICE_UNAVAILABLE, -ENODEV },
	{ CUDA_ERROR_STUB_LIBRARY, -ENODEV },
	{ CUDA_ERROR_SYSTEM_NOT_READY, -ENODEV },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, -ENODEV },
	{ CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, -ENODEV },
	{ CUDA_ERROR_NOT_SUPPORTED, -ENOTSUP },
	{ CUDA_ERROR_NO_BINARY_FOR_GPU, -ENOTSUP },
	{ CUDA_ERROR_INVALID_IMAGE, -ENOTSUP },
	{ CUDA_ERROR_INVALID_PTX, -ENOTSUP },
	{ CUDA_ERROR_UNSUPPORTED_PTX_VERSION, -ENOTSUP },
	{ CUDA_ERROR_JIT_COMPILER_NOT_FOUND, -ENOTSUP },
	{ CUDA_ERROR_INVALID_VALUE, -EINVAL },
	{ CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, -EINVAL },
	{ CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, -EINVAL },
	{ CUDA_ERROR_NOT_PERMITTED, -EPERM },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, -EEXIST },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, -ENOENT },
	{ CUDA_ERROR_NOT_FOUND, -ENOENT },
};

/* What the operator can do. CUDA_ERROR_UNKNOWN has a remedy only when it ends the initialisation. */
static const struct {
	CUresult result;
	const char *remedy;
} remedies[] = {
	{ CUDA_ERROR_STUB_LIBRARY,
	  "this libcuda.so.1 is the stub of the CUDA toolkit: take its folder out of LD_LIBRARY_PATH" },
	{ CUDA_ERROR_DEVICE_UNAVAILABLE,
	  "another process has the GPU for itself, or its compute mode permits none: 'nvidia-smi -q "
	  "-d COMPUTE' shows the mode, 'nvidia-smi -c DEFAULT' permits all" },
	{ CUDA_ERROR_SYSTEM_NOT_READY,
	  "a machine with NVSwitches needs nvidia-fabricmanager, of the driver's version, and running: "
	  "'systemctl status nvidia-fabricmanager'" },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
	  "libcuda.so.1 and the loaded kernel module are of different versions: reboot after an update "
	  "of the driver, or take a cuda-compat library out of LD_LIBRARY_PATH and ld.so.conf" },
	{ CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
	  "the cuda-compat library does not support this GPU: install a newer driver, or take the "
	  "library out of LD_LIBRARY_PATH and ld.so.conf" },
	{ CUDA_ERROR_UNKNOWN,
	  "load the module nvidia_uvm ('nvidia-modprobe -u -c 0'); the kernel's log shows other causes "
	  "(NVRM, Xid)" },
};

static const char *find_remedy(const char *name, CUresult result)
{
	if (result == CUDA_ERROR_UNKNOWN && strcmp(name, "cuInit") != 0)
		return NULL;
	for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
		if (remedies[i].result == result)
			return remedies[i].remedy;
	return NULL;
}

/* An errno of a refused call is not a usage error: the refused value may come from headrace
 * itself. */
static enum hr_error_kind kind_of(int error)
{
	switch (error) {
	case -EIO:
	case -ETIMEDOUT:
		return HR_ERROR_DEVICE;
	case -EINVAL:
	case -ENOSPC:
	case -EEXIST:
	case -EINTR:
		return HR_ERROR_FAILED;
	default:
		return HR_ERROR_MISSING;
	}
}

int hr_cuda_fail(struct hr_cuda_driver *cu, int error, const char *format, ...)
{
	char text[HR_LOG_LINE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	hr_error_clear(&cu->error);
	return hr_fail(&cu->error, kind_of(error), error, "%s", text);
}

int hr_cuda_check(struct hr_cuda_driver *cu, const char *name, CUresult result)
{
	const char *title = NULL, *text = NULL, *remedy = find_remedy(name, result);
	int error = -EIO;

	if (result == CUDA_SUCCESS)
		return 0;
	cu->result = result;
	if (result == CUDA_ERROR_UNKNOWN && remedy)
		error = -ENODEV;
	for (size_t i = 0; i < sizeof meaning / sizeof *meaning; i++)
		if (meaning[i].result == result)
			error = meaning[i].error;
	if (cu->GetErrorName(result, &title) != CUDA_SUCCESS || !title ||
	    cu->GetErrorString(result, &text) != CUDA_SUCCESS || !text)
		return hr_cuda_fail(cu, error, "%s: CUDA error %d%s%s", name, (int)result,
				    remedy ? "; " : "", remedy ? remedy : "");
	return hr_cuda_fail(cu, error, "%s: %s: %s%s%s", name, title, text, remedy ? "; " : "",
			    remedy ? remedy : "");
}

static int find_calls(struct hr_cuda_driver *cu, PFN_cuGetProcAddress_v12000 find)
{
	for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
		CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
		void *function = NULL;
		CUresult result = find(call[i].name, &function, call[i].since,
				       CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);

		if (result != CUDA_SUCCESS || !function || found != CU_GET_PROC_ADDRESS_SUCCESS)
			return hr_cuda_fail(cu, -ENOTSUP,
					    "the NVIDIA driver lacks %s of CUDA %d.%d; install a "
					    "newer one",
					    call[i].name, call[i].since / 1000,
					    call[i].since % 1000 / 10);
		memcpy((char *)cu + call[i].at, &function, sizeof function);
	}
	return 0;
}

/* With CUDA_LAUNCH_BLOCKING a launch returns only after it has ended, so it could not be
 * watched. */
static void refuse_blocking_launches(void)
{
	static const char name[] = "CUDA_LAUNCH_BLOCKING";
	const char *value = getenv(name);

	if (!value || strcmp(value, "0") == 0)
		return;
	hr_warn("%s=%.20s in the environment is ignored: launches must not block", name, value);
	unsetenv(name);
}

/*
 * After a client of an MPS server was killed while it worked, its other clients get errors, and the
 * server accepts no new one before all of them have ended. A new process waits a while for that; this
 * process can be initialised later, because it has no context yet.
 */
static int init(struct hr_cuda_driver *cu)
{
	const uint64_t end = hr_now_ns() + MPS_READY_NS;
	CUresult result;
	bool told = false;

	while ((result = cu->Init(0)) == CUDA_ERROR_MPS_SERVER_NOT_READY && hr_now_ns() < end) {
		if (!told)
			hr_warn("the MPS server had a client that was killed while it worked, and "
				"accepts new ones when its other clients have ended");
		told = true;
		hr_wait_ns(MPS_PAUSE_NS);
	}
	return hr_cuda_check(cu, "cuInit", result);
}

int hr_cuda_driver_open(struct hr_cuda_driver *cu)
{
	PFN_cuGetProcAddress_v12000 find;
	int err;

	memset(cu, 0, sizeof *cu);
	refuse_blocking_launches();
	err = hr_cuda_library(&find, &cu->error);
	if (!err)
		err = find_calls(cu, find);
	if (!err)
		err = HR_CU(cu, DriverGetVersion, &cu->version);
	if (err)
		return err;
	if (cu->version < HR_CUDA_VERSION_MIN)
		return hr_cuda_fail(
			cu, -ENOTSUP,
			"the NVIDIA driver is of CUDA %d.%d, but this build needs %d.%d "
			"or later; install a newer one",
			cu->version / 1000, cu->version % 1000 / 10, HR_CUDA_VERSION_MIN / 1000,
			HR_CUDA_VERSION_MIN % 1000 / 10);
	return init(cu);
}
