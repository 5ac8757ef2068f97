/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/client/tap_cuda.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Types and numbers of "CUDA Driver API", whose header this library does not need: a result is an
 * int (0: success), an address and a handle of memory are 64 bits.
 */
struct location {
	int type, id;
};

struct access {
	struct location location;
	int flags;
};

#define LOCATION_DEVICE 1
#define PROT_READ_ONLY 1
#define PROT_READ_WRITE 3
#define POSIX_FD 1
#define HOST_REGISTER_PORTABLE 1u
#define HOST_REGISTER_DEVICEMAP 2u
#define OUT_OF_MEMORY 2
#define NO_DEVICE 100

/* clang-format off */
#define CALLS(X) \
	X(cuInit, (unsigned flags)) \
	X(cuGetErrorName, (int error, const char **name)) \
	X(cuDeviceGetCount, (int *count)) \
	X(cuDeviceGet, (int *device, int ordinal)) \
	X(cuDeviceGetUuid_v2, (uint8_t *uuid, int device)) \
	X(cuDeviceCanAccessPeer, (int *can, int device, int peer)) \
	X(cuDevicePrimaryCtxRetain, (void **context, int device)) \
	X(cuDevicePrimaryCtxRelease_v2, (int device)) \
	X(cuCtxPushCurrent_v2, (void *context)) \
	X(cuCtxPopCurrent_v2, (void **context)) \
	X(cuCtxSynchronize, (void)) \
	X(cuMemImportFromShareableHandle, (uint64_t *handle, void *os_handle, int type)) \
	X(cuMemAddressReserve, (uint64_t *at, size_t bytes, size_t align, uint64_t wish, \
				unsigned long long flags)) \
	X(cuMemAddressFree, (uint64_t at, size_t bytes)) \
	X(cuMemMap, (uint64_t at, size_t bytes, size_t offset, uint64_t handle, \
		     unsigned long long flags)) \
	X(cuMemUnmap, (uint64_t at, size_t bytes)) \
	X(cuMemRelease, (uint64_t handle)) \
	X(cuMemSetAccess, (uint64_t at, size_t bytes, const struct access *access, size_t count)) \
	X(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags)) \
	X(cuMemHostUnregister, (void *memory)) \
	X(cuMemHostGetDevicePointer_v2, (uint64_t *at, void *memory, unsigned flags)) \
	X(cuStreamSynchronize, (void *stream)) \
	X(cuStreamWriteValue32_v2, (void *stream, uint64_t at, uint32_t value, unsigned flags)) \
	X(cuStreamWriteValue64_v2, (void *stream, uint64_t at, uint64_t value, unsigned flags))
/* clang-format on */

struct driver {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): the arguments of a declaration */
#define MEMBER(name, arguments) int(*name) arguments;
	CALLS(MEMBER)
#undef MEMBER
};

struct hr_tap_cuda {
	struct driver cu;
	int device;
	void *context;
	uint64_t at, bytes; /* of the tiles; at 0: not reserved */
	bool mapped;
	bool writes;
	void *page;
	uint64_t page_at; /* its address for streams; 0: it is not registered */
};

struct why {
	char *text;
	size_t bytes;
};

__attribute__((format(printf, 3, 4))) static int fail(const struct why *why, int err,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (why->text && why->bytes)
		vsnprintf(why->text, why->bytes, format, args);
	va_end(args);
	return err;
}

static int find_all(struct driver *cu, const struct why *why)
{
	static const struct {
		const char *name;
		size_t at;
	} call[] = {
#define ROW(name, arguments) { #name, offsetof(struct driver, name) },
		CALLS(ROW)
#undef ROW
	};

	for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
		const hr_tap_cuda_function function = hr_tap_cuda_find(call[i].name);

		if (!function) {
			fail(why, 0,
			     i ? "the NVIDIA driver has no %s: install a newer one"
			       : "the tiles are in the memory of a GPU, and there is no "
				 "libcuda.so.1 of the NVIDIA driver (%s)",
			     call[i].name);
			return i ? -ENOTSUP : -ENODEV;
		}
		memcpy((char *)cu + call[i].at, &function, sizeof function);
	}
	return 0;
}

/* The result of a call as -errno, with its name in the reason. */
static int check(const struct driver *cu, const struct why *why, const char *call, int result)
{
	const char *name = NULL;

	if (result == 0)
		return 0;
	if (cu->cuGetErrorName(result, &name) != 0 || !name)
		name = "an error without a name";
	return fail(why,
		    result == OUT_OF_MEMORY ? -ENOMEM
		    : result == NO_DEVICE   ? -ENODEV
					    : -EIO,
		    "%s: %s", call, name);
}

#define CU(cuda, why, name, ...) check(&(cuda)->cu, why, #name, (cuda)->cu.name(__VA_ARGS__))

/* As nvidia-smi prints it. */
static void print_uuid(const uint8_t uuid[16], char text[48])
{
	char *at = text + sprintf(text, "GPU-");

	for (int i = 0; i < 16; i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      uuid[i]);
}

static int refuse_gpus(const struct why *why, const uint8_t *wanted, const char *seen)
{
	char text[48];

	print_uuid(wanted, text);
	return fail(why, -ENODEV, "the tiles are in the memory of %s, and this process sees %s",
		    text, *seen ? seen : "no GPU");
}

/* The GPU with that UUID, wherever it is among the visible ones. */
static int find_gpu(struct hr_tap_cuda *cuda, const uint8_t *wanted, int *ordinal,
		    const struct why *why)
{
	char seen[128] = "", text[48];
	uint8_t uuid[16];
	size_t n = 0;
	int count = 0, err = CU(cuda, why, cuInit, 0);

	if (err == -ENODEV)
		return refuse_gpus(why, wanted, seen);
	if (!err)
		err = CU(cuda, why, cuDeviceGetCount, &count);
	for (int i = 0; !err && i < count; i++) {
		err = CU(cuda, why, cuDeviceGet, &cuda->device, i);
		if (!err)
			err = CU(cuda, why, cuDeviceGetUuid_v2, uuid, cuda->device);
		if (err)
			return err;
		*ordinal = i;
		if (memcmp(uuid, wanted, sizeof uuid) == 0)
			return 0;
		print_uuid(uuid, text);
		if (n < sizeof seen)
			n += (size_t)snprintf(seen + n, sizeof seen - n, "%s%s", n ? ", " : "",
					      text);
	}
	return err ? err : refuse_gpus(why, wanted, seen);
}

/* Another GPU of this process uses the tiles. */
static int choose_user(struct hr_tap_cuda *cuda, int user, int *ordinal, const struct why *why)
{
	const int home = cuda->device;
	int count = 0, can = 0, err = CU(cuda, why, cuDeviceGetCount, &count);

	if (!err && (user < 0 || user >= count))
		return fail(why, -ENODEV, "this process sees %d GPUs, and no GPU %d", count, user);
	if (!err)
		err = CU(cuda, why, cuDeviceGet, &cuda->device, user);
	if (!err && cuda->device != home)
		err = CU(cuda, why, cuDeviceCanAccessPeer, &can, cuda->device, home);
	if (!err && cuda->device != home && !can)
		return fail(why, -ENOTSUP,
			    "GPU %d cannot access the memory of GPU %d, which has the tiles", user,
			    *ordinal);
	*ordinal = user;
	return err;
}

static int enter(struct hr_tap_cuda *cuda, const struct why *why)
{
	return CU(cuda, why, cuCtxPushCurrent_v2, cuda->context);
}

static void leave(struct hr_tap_cuda *cuda)
{
	void *context;

	cuda->cu.cuCtxPopCurrent_v2(&context);
}

/* Reading is all that a consumer needs; some drivers only give both. */
static int allow(struct hr_tap_cuda *cuda, const struct why *why)
{
	struct access access = { { LOCATION_DEVICE, cuda->device }, PROT_READ_ONLY };

	if (!cuda->writes && cuda->cu.cuMemSetAccess(cuda->at, cuda->bytes, &access, 1) == 0)
		return 0;
	access.flags = PROT_READ_WRITE;
	return CU(cuda, why, cuMemSetAccess, cuda->at, cuda->bytes, &access, 1);
}

static int map_tiles(struct hr_tap_cuda *cuda, int fd, const struct why *why)
{
	uint64_t handle = 0;
	int err = CU(cuda, why, cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd,
		     POSIX_FD);

	if (err)
		return err;
	err = CU(cuda, why, cuMemAddressReserve, &cuda->at, cuda->bytes, 0, 0, 0);
	if (!err)
		err = CU(cuda, why, cuMemMap, cuda->at, cuda->bytes, 0, handle, 0);
	cuda->mapped = !err;
	if (!err)
		err = allow(cuda, why);
	/* the mapping keeps the memory */
	cuda->cu.cuMemRelease(handle);
	return err;
}

/* Let streams write to the page. Without that, tiles are given back after a wait for the stream. */
static void map_page(struct hr_tap_cuda *cuda, size_t bytes)
{
	const unsigned flags = HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP;
	uint64_t at = 0;

	if (cuda->cu.cuMemHostRegister_v2(cuda->page, bytes, flags) != 0)
		return;
	if (cuda->cu.cuMemHostGetDevicePointer_v2(&at, cuda->page, 0) == 0)
		cuda->page_at = at;
	else
		cuda->cu.cuMemHostUnregister(cuda->page);
}

static int open_all(struct hr_tap_cuda *cuda, const struct hr_tap_cuda_memory *memory, int *ordinal,
		    const struct why *why)
{
	int err = find_all(&cuda->cu, why);

	if (!err)
		err = find_gpu(cuda, memory->uuid, ordinal, why);
	if (!err && memory->user)
		err = choose_user(cuda, memory->user - 1, ordinal, why);
	if (!err)
		err = CU(cuda, why, cuDevicePrimaryCtxRetain, &cuda->context, cuda->device);
	if (!err)
		err = enter(cuda, why);
	if (err)
		return err;
	err = map_tiles(cuda, memory->fd, why);
	if (!err)
		map_page(cuda, memory->page_bytes);
	leave(cuda);
	return err;
}

int hr_tap_cuda_open(struct hr_tap_cuda **opened, const struct hr_tap_cuda_memory *memory,
		     const void **at, int *ordinal, char *text, size_t text_bytes)
{
	const struct why why = { text, text_bytes };
	struct hr_tap_cuda *cuda = calloc(1, sizeof *cuda);
	int err;

	if (!cuda)
		return fail(&why, -ENOMEM, "out of memory");
	cuda->bytes = memory->bytes;
	cuda->writes = memory->writes;
	cuda->page = memory->page;
	err = open_all(cuda, memory, ordinal, &why);
	if (err) {
		hr_tap_cuda_close(cuda);
		return err;
	}
	*opened = cuda;
	*at = (const void *)(uintptr_t)cuda->at;
	return 0;
}

/* The address of a word of the page for streams. */
static uint64_t word_at(const struct hr_tap_cuda *cuda, const void *word)
{
	return cuda->page_at + (uint64_t)((const uint8_t *)word - (const uint8_t *)cuda->page);
}

int hr_tap_cuda_write32(struct hr_tap_cuda *cuda, void *stream, uint32_t *word, uint32_t value)
{
	const struct why none = { NULL, 0 };
	int err = enter(cuda, &none);

	if (err)
		return err;
	if (cuda->page_at)
		err = CU(cuda, &none, cuStreamWriteValue32_v2, stream, word_at(cuda, word), value,
			 0);
	else
		err = CU(cuda, &none, cuStreamSynchronize, stream);
	if (!err && !cuda->page_at)
		__atomic_store_n(word, value, __ATOMIC_RELEASE);
	leave(cuda);
	return err;
}

/* Some GPUs write 32 bits only. */
int hr_tap_cuda_write64(struct hr_tap_cuda *cuda, void *stream, uint64_t *word, uint64_t value)
{
	const struct why none = { NULL, 0 };
	int err = enter(cuda, &none);
	bool waits;

	if (err)
		return err;
	waits = !cuda->page_at ||
		cuda->cu.cuStreamWriteValue64_v2(stream, word_at(cuda, word), value, 0) != 0;
	if (waits)
		err = CU(cuda, &none, cuStreamSynchronize, stream);
	if (waits && !err)
		__atomic_store_n(word, value, __ATOMIC_RELEASE);
	leave(cuda);
	return err;
}

int hr_tap_cuda_wait(struct hr_tap_cuda *cuda)
{
	const struct why none = { NULL, 0 };
	int err = enter(cuda, &none);

	if (err)
		return err;
	err = CU(cuda, &none, cuCtxSynchronize);
	leave(cuda);
	return err;
}

/* A driver that fails here has failed before, and the end of the process frees the rest. */
static void unmap(struct hr_tap_cuda *cuda)
{
	const struct driver *cu = &cuda->cu;

	cu->cuCtxSynchronize();
	if (cuda->page_at)
		cu->cuMemHostUnregister(cuda->page);
	if (cuda->mapped)
		cu->cuMemUnmap(cuda->at, cuda->bytes);
	if (cuda->at)
		cu->cuMemAddressFree(cuda->at, cuda->bytes);
}

void hr_tap_cuda_close(struct hr_tap_cuda *cuda)
{
	const struct why none = { NULL, 0 };

	if (!cuda)
		return;
	if (cuda->context && enter(cuda, &none) == 0) {
		unmap(cuda);
		leave(cuda);
	}
	if (cuda->context)
		cuda->cu.cuDevicePrimaryCtxRelease_v2(cuda->device);
	free(cuda);
}

void hr_tap_cuda_forget(struct hr_tap_cuda *cuda)
{
	free(cuda);
}
