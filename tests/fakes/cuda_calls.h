/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/cuda_calls.h - internals of the fake CUDA driver: its resources and calls. For
 * tests/fakes/cuda*.c only.
 */
#ifndef TESTS_FAKES_CUDA_CALLS_H
#define TESTS_FAKES_CUDA_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda/driver/driver.h"

#define FAKE_CUDA_THINGS 256

enum fake_cuda_kind {
	NONE,
	HANDLE,
	RESERVED,
	MAPPED,
	HOST,
	MEMORY,
	REGISTERED,
	STREAM,
	EVENT,
	MODULE,
	LINK,
	RETAINED,
};

/* A resource that must be released. */
struct fake_cuda_thing {
	enum fake_cuda_kind kind;
	uintptr_t at;
	size_t bytes;
	int fd;		   /* of a handle */
	bool compressible; /* a handle's */
	bool rdma;	   /* a handle's: other devices can access the memory */
	uintptr_t handle;  /* of a mapping */
	unsigned pending;  /* of an event: how often it is not ready */
};

extern struct fake_cuda_thing fake_cuda_thing[FAKE_CUDA_THINGS];
extern _Atomic unsigned fake_cuda_stream_polls; /* for the next recorded event */

struct fake_cuda_thing *fake_cuda_take(enum fake_cuda_kind kind, uintptr_t at, size_t bytes);
struct fake_cuda_thing *fake_cuda_find(enum fake_cuda_kind kind, uintptr_t at);
uintptr_t fake_cuda_new_id(void);

/* CUDA_SUCCESS, or the injected failure; also for a call that needs a context. */
CUresult fake_cuda_enter(const char *name);
CUresult fake_cuda_enter_context(const char *name);

#define ENTER(name)                                            \
	do {                                                   \
		const CUresult result = fake_cuda_enter(name); \
		if (result != CUDA_SUCCESS)                    \
			return result;                         \
	} while (0)

#define ENTER_CONTEXT(name)                                            \
	do {                                                           \
		const CUresult result = fake_cuda_enter_context(name); \
		if (result != CUDA_SUCCESS)                            \
			return result;                                 \
	} while (0)

/* Every call of the table, with its type from the driver's header. */
#define FAKE_CUDA_DECLARE(name, since) __typeof__(*(PFN_cu##name##_v##since)0) fake_##name;
HR_CUDA_CALLS(FAKE_CUDA_DECLARE)

#endif
