/*
 * gpu/vector.h - 16 bytes at a time, the widest that a thread loads or stores at once. Worker code.
 *
 * Threads next to each other take vectors next to each other, each several before it uses the first:
 * host memory seen through PCIe, and GPU memory, want to be read like that.
 */
#ifndef GPU_VECTOR_H
#define GPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "gpu/worker.h"

struct hr_vector {
	uint32_t word[4];
} __attribute__((aligned(16)));

#define HR_VECTOR_LOADS 8u /* in flight per thread */

/* Block-collective: count vectors; to and from are 16-byte aligned and do not overlap. */
HR_WORKER void hr_copy_vectors(struct hr_vector *to, const struct hr_vector *from, uint32_t count)
{
	const uint32_t threads = hr_threads(), step = HR_VECTOR_LOADS * threads;
	struct hr_vector v[HR_VECTOR_LOADS];
	uint32_t i = hr_thread(), j;

	if (threads == 1) { /* the library's copy is the best that a CPU can do */
		memcpy(to, from, (uint64_t)count * sizeof(*to));
		return;
	}
	for (; i + step - threads < count; i += step) {
		for (j = 0; j < HR_VECTOR_LOADS; j++)
			v[j] = from[i + j * threads];
		for (j = 0; j < HR_VECTOR_LOADS; j++)
			to[i + j * threads] = v[j];
	}
	for (; i < count; i += threads)
		to[i] = from[i];
}

#endif
