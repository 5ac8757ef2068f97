/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/shared_gpu.h - a backend with memory for other devices and processes only. That memory
 * is one object, which the CPU cannot access at its address for workers: upload and download copy from
 * and to it.
 */
#ifndef TESTS_FAKES_SHARED_GPU_H
#define TESTS_FAKES_SHARED_GPU_H

#include "gpu/backend.h"

struct fake_shared_gpu {
	/* Set by tests: errors of the functions. */
	int reserve, make, export, upload, download, flush;
	/* Observed. */
	unsigned regions; /* not freed */
	unsigned flushes;
	uint8_t *memory; /* of the object, for the test; NULL: none */
};

extern struct fake_shared_gpu fake_shared_gpu;

/* Open it: no errors, nothing observed. ordered: it sees writes of other devices in order. The
 * memory of an earlier object goes. */
void fake_shared_gpu_open(struct hr_backend *backend, bool ordered);

#endif
