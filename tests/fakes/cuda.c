/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "gpu/cuda/driver/driver.h"

#define CONTEXT ((CUcontext)0x1000)

struct fake_cuda fake_cuda;

static const char *const kind_name[] = {
	"",	  "handle", "reservation", "mapping", "host memory", "memory", "registration",
	"stream", "event",  "module",	   "linker",  "context"
};

struct fake_cuda_thing fake_cuda_thing[FAKE_CUDA_THINGS];
_Atomic unsigned fake_cuda_stream_polls;
static uintptr_t next_id;

/* The call that must fail. */
static struct {
	const char *call;
	unsigned left; /* calls until then; 0: none */
	CUresult with;
} fail;
static pthread_mutex_t failing = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local CUcontext current;

struct fake_cuda_thing *fake_cuda_take(enum fake_cuda_kind kind, uintptr_t at, size_t bytes)
{
	for (int i = 0; i < FAKE_CUDA_THINGS; i++) {
		if (fake_cuda_thing[i].kind != NONE)
			continue;
		fake_cuda_thing[i] = (struct fake_cuda_thing){
			.kind = kind, .at = at, .bytes = bytes, .fd = -1
		};
		return &fake_cuda_thing[i];
	}
	abort();
}

struct fake_cuda_thing *fake_cuda_find(enum fake_cuda_kind kind, uintptr_t at)
{
	for (int i = 0; i < FAKE_CUDA_THINGS; i++)
		if (fake_cuda_thing[i].kind == kind && fake_cuda_thing[i].at == at)
			return &fake_cuda_thing[i];
	return NULL;
}

uintptr_t fake_cuda_new_id(void)
{
	return next_id += 16;
}

CUresult fake_cuda_enter(const char *name)
{
	CUresult result = CUDA_SUCCESS;
	const char *stall;

	atomic_fetch_add(&fake_cuda.calls, 1);
	while ((stall = fake_cuda.stall) && strcmp(stall, name) == 0)
		usleep(1000);
	pthread_mutex_lock(&failing);
	if (fail.left && (!fail.call || strcmp(fail.call, name) == 0) && --fail.left == 0) {
		fake_cuda.failed = name;
		result = fail.with;
	}
	pthread_mutex_unlock(&failing);
	return result;
}

CUresult fake_cuda_enter_context(const char *name)
{
	const CUresult result = fake_cuda_enter(name);

	if (result != CUDA_SUCCESS)
		return result;
	if (fake_cuda.broken)
		return fake_cuda.broken;
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- initialization, errors, devices, context */

CUresult fake_Init(unsigned flags)
{
	ENTER("cuInit");
	return fake_cuda.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult fake_DriverGetVersion(int *version)
{
	ENTER("cuDriverGetVersion");
	*version = fake_cuda.version;
	return CUDA_SUCCESS;
}

/* Names that tests look for; other errors have none, like a newer driver's errors. */
CUresult fake_GetErrorName(CUresult error, const char **text)
{
	switch (error) {
	case CUDA_ERROR_OUT_OF_MEMORY:
		*text = "CUDA_ERROR_OUT_OF_MEMORY";
		return CUDA_SUCCESS;
	case CUDA_ERROR_NO_DEVICE:
		*text = "CUDA_ERROR_NO_DEVICE";
		return CUDA_SUCCESS;
	case CUDA_ERROR_ILLEGAL_ADDRESS:
		*text = "CUDA_ERROR_ILLEGAL_ADDRESS";
		return CUDA_SUCCESS;
	case CUDA_ERROR_UNKNOWN:
		*text = "CUDA_ERROR_UNKNOWN";
		return CUDA_SUCCESS;
	default:
		*text = NULL;
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult fake_GetErrorString(CUresult error, const char **text)
{
	*text = "in words";
	return CUDA_SUCCESS;
}

CUresult fake_DeviceGetCount(int *count)
{
	ENTER("cuDeviceGetCount");
	*count = fake_cuda.devices;
	return CUDA_SUCCESS;
}

CUresult fake_DeviceGet(CUdevice *device, int ordinal)
{
	ENTER("cuDeviceGet");
	if (ordinal < 0 || ordinal >= fake_cuda.devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult fake_DeviceGetName(char *name, int bytes, CUdevice device)
{
	ENTER("cuDeviceGetName");
	snprintf(name, (size_t)bytes, "Fake GPU %d", device);
	return CUDA_SUCCESS;
}

CUresult fake_DeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	ENTER("cuDeviceGetUuid");
	for (int i = 0; i < (int)sizeof uuid->bytes; i++)
		uuid->bytes[i] = (char)(device * 16 + i);
	return CUDA_SUCCESS;
}

CUresult fake_DeviceTotalMem(size_t *bytes, CUdevice device)
{
	ENTER("cuDeviceTotalMem");
	*bytes = fake_cuda.memory;
	return CUDA_SUCCESS;
}

CUresult fake_DeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	ENTER("cuDeviceGetAttribute");
	if ((unsigned)attribute >= FAKE_CUDA_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	*value = fake_cuda.attribute[device][attribute];
	return CUDA_SUCCESS;
}

CUresult fake_DeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
	ENTER("cuDeviceGetPCIBusId");
	/* The real driver prints capitals. */
	snprintf(text, (size_t)bytes, "0000:4%d:0A.0", device);
	return CUDA_SUCCESS;
}

CUresult fake_DeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	ENTER("cuDeviceCanAccessPeer");
	*can = device != peer && !fake_cuda.no_peers;
	return CUDA_SUCCESS;
}

CUresult fake_DevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
	ENTER("cuDevicePrimaryCtxSetFlags");
	return CUDA_SUCCESS;
}

CUresult fake_DevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	ENTER("cuDevicePrimaryCtxRetain");
	*context = CONTEXT;
	fake_cuda_take(RETAINED, (uintptr_t)device, 0);
	return CUDA_SUCCESS;
}

/* Also frees everything of the context, including its failure. */
CUresult fake_DevicePrimaryCtxRelease(CUdevice device)
{
	struct fake_cuda_thing *r = fake_cuda_find(RETAINED, (uintptr_t)device);

	ENTER("cuDevicePrimaryCtxRelease");
	if (!r)
		return CUDA_ERROR_INVALID_CONTEXT;
	r->kind = NONE;
	for (int i = 0; i < FAKE_CUDA_THINGS; i++) {
		if (fake_cuda_thing[i].kind == HOST || fake_cuda_thing[i].kind == MEMORY)
			free((void *)fake_cuda_thing[i].at);
		if (fake_cuda_thing[i].kind >= HOST)
			fake_cuda_thing[i].kind = NONE;
	}
	fake_cuda.broken = CUDA_SUCCESS;
	return CUDA_SUCCESS;
}

CUresult fake_CtxSetCurrent(CUcontext context)
{
	ENTER("cuCtxSetCurrent");
	current = context;
	return CUDA_SUCCESS;
}

/* ---- the seam */

static CUresult get_proc(const char *name, void **function, int version, cuuint64_t flags,
			 CUdriverProcAddressQueryResult *found)
{
#define TYPED(name, since) static const PFN_cu##name##_v##since typed_##name = fake_##name;
	HR_CUDA_CALLS(TYPED)
#undef TYPED
	static const struct {
		const char *name;
		int since;
		const void *function;
	} row[] = {
#define ROW(name, since) { "cu" #name, since, &typed_##name },
		HR_CUDA_CALLS(ROW)
#undef ROW
	};

	*found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	if (fake_cuda.missing && strcmp(fake_cuda.missing, name) == 0)
		return CUDA_ERROR_NOT_FOUND;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		if (strcmp(row[i].name, name) == 0 && row[i].since <= version) {
			memcpy(function, row[i].function, sizeof *function);
			*found = CU_GET_PROC_ADDRESS_SUCCESS;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_NOT_FOUND;
}

int hr_cuda_library(PFN_cuGetProcAddress_v12000 *find_proc, struct hr_error *e)
{
	*find_proc = get_proc;
	if (fake_cuda.no_library)
		hr_fail(e, HR_ERROR_MISSING, -ENODEV, "no driver in this test");
	return fake_cuda.no_library;
}

/* ---- for tests */

void fake_cuda_reset(void)
{
	static const struct {
		CUdevice_attribute attribute;
		int value;
	} row[] = {
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
		{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4 },
		{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
		{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
		{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
		{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 200 << 10 },
		{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 },
		{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 1 },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 100 },
	};

	memset(&fake_cuda, 0, sizeof fake_cuda);
	memset(&fail, 0, sizeof fail);
	fake_cuda_stream_polls = 0;
	fake_cuda.version = HR_CUDA_VERSION_MIN;
	fake_cuda.devices = 1;
	fake_cuda.memory = (size_t)256 << 20;
	fake_cuda.blocks_per_processor = 8;
	fake_cuda.entry_threads = 512;
	fake_cuda.local_bytes = 40;
	for (int d = 0; d < FAKE_CUDA_DEVICES; d++)
		for (size_t i = 0; i < sizeof row / sizeof *row; i++)
			fake_cuda.attribute[d][row[i].attribute] = row[i].value;
}

void fake_cuda_fail(const char *call, unsigned nth, CUresult with)
{
	fail.call = call;
	fail.left = nth;
	fail.with = with;
	if (nth)
		fake_cuda.failed = NULL;
}

const char *fake_cuda_leaks(void)
{
	static char text[1024];
	size_t n = 0;

	text[0] = '\0';
	for (int i = 0; i < FAKE_CUDA_THINGS && n < sizeof text; i++)
		if (fake_cuda_thing[i].kind != NONE)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "",
					      kind_name[fake_cuda_thing[i].kind]);
	return text;
}

void fake_cuda_forget(void)
{
	for (int i = 0; i < FAKE_CUDA_THINGS; i++) {
		if (fake_cuda_thing[i].kind == HANDLE)
			close(fake_cuda_thing[i].fd);
		else if (fake_cuda_thing[i].kind == RESERVED)
			munmap((void *)fake_cuda_thing[i].at, fake_cuda_thing[i].bytes);
		else if (fake_cuda_thing[i].kind == HOST || fake_cuda_thing[i].kind == MEMORY)
			free((void *)fake_cuda_thing[i].at);
		fake_cuda_thing[i].kind = NONE;
	}
}
