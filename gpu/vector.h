/*
 * gpu/vector.h - 16 bytes at a time, the widest that a thread loads or stores at once. Worker code.
 *
 * Threads next to each other take vectors next to each other, each several before it uses the first:
 * that is what host memory seen through PCIe, and GPU memory, want to be read like.
 */
#ifndef GPU_VECTOR_H
#define GPU_VECTOR_H

#include <stdint.h>

#include "gpu/worker.h"

struct hr_vector {
	uint32_t word[4];
} __attribute__((aligned(16)));

HR_WORKER struct hr_vector hr_load_vector(const struct hr_vector *from)
{
	return *from;
}

#endif
