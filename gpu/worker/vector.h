/*
 * gpu/worker/vector.h - 16 bytes at a time, the widest that a thread loads or stores at once.
 * Worker code.
 *
 * Threads next to each other take vectors next to each other, each several before it uses the first:
 * host memory seen through PCIe, and GPU memory, want to be read like that. Eight blocks of 256
 * threads with four loads each fill a x16 Gen5 link (51.4 GB/s); the bulk copies of the GPU
 * (cp.async.bulk) through shared memory were measured at the same rate and no more, so there are none.
 */
#ifndef GPU_WORKER_VECTOR_H
#define GPU_WORKER_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "nvme/worker.h"

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

/*
 * Copy two pieces by the lanes of one worker; collective. All ends 16-byte aligned, bytes (of each
 * piece) a multiple of 16, nothing overlaps. Both are in flight together: of 4 KiB pages in host
 * memory 16 warps then fill a link of PCIe 5 that takes 32 to 64 warps with one page each.
 */
HR_WORKER void hr_copy_two(uint8_t *const to[2], const uint8_t *const from[2], uint32_t bytes)
{
	const uint32_t step = HR_VECTOR_LOADS * HR_LANES, count = bytes / sizeof(struct hr_vector);
	struct hr_vector *const to_0 = (struct hr_vector *)(void *)to[0];
	struct hr_vector *const to_1 = (struct hr_vector *)(void *)to[1];
	const struct hr_vector *const from_0 = (const struct hr_vector *)(const void *)from[0];
	const struct hr_vector *const from_1 = (const struct hr_vector *)(const void *)from[1];
	struct hr_vector v[2 * HR_VECTOR_LOADS];
	uint32_t at = hr_lane(), i;

	if (HR_LANES == 1) {
		memcpy(to_0, from_0, bytes);
		memcpy(to_1, from_1, bytes);
		return;
	}
	for (; at + step - HR_LANES < count; at += step) {
		for (i = 0; i < HR_VECTOR_LOADS; i++) {
			v[2 * i] = from_0[at + i * HR_LANES];
			v[2 * i + 1] = from_1[at + i * HR_LANES];
		}
		for (i = 0; i < HR_VECTOR_LOADS; i++) {
			to_0[at + i * HR_LANES] = v[2 * i];
			to_1[at + i * HR_LANES] = v[2 * i + 1];
		}
	}
	for (; at < count; at += HR_LANES) {
		to_0[at] = from_0[at];
		to_1[at] = from_1[at];
	}
}

#endif
