/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/vector.h - 16 bytes at a time, the widest load or store of a thread. Worker code.
 *
 * Adjacent threads take adjacent vectors, and each thread loads several before it uses the first.
 * This is the fastest way to read host memory through PCIe, and GPU memory. Eight blocks of 256
 * threads with four loads each fill a x16 Gen5 link (51.4 GB/s). Bulk copies of the GPU
 * (cp.async.bulk) through shared memory had the same rate in measurements, so they are not used.
 */
#ifndef GPU_WORKER_VECTOR_H
#define GPU_WORKER_VECTOR_H

#include <stdint.h>

#include "nvme/queue/worker.h"

struct hr_vector {
	uint32_t word[4];
} __attribute__((aligned(16)));

#define HR_VECTOR_LOADS 8u /* loads in flight per thread */
#define HR_VECTOR_HALF 4u  /* the same for pieces with fewer vectors */

/* Block-collective: copy count vectors; to and from are 16-byte aligned and do not overlap. */
HR_WORKER void hr_copy_vectors(struct hr_vector *to, const struct hr_vector *from, uint32_t count)
{
	const uint32_t threads = hr_threads(), step = HR_VECTOR_LOADS * threads;
	struct hr_vector v[HR_VECTOR_LOADS];
	uint32_t i = hr_thread(), j;

	if (threads == 1) { /* one thread: the library's copy is the fastest on a CPU */
		hr_copy_bytes(to, from, (uint64_t)count * sizeof(*to));
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
 * Copy two pieces with the lanes of one worker; collective. All ends are 16-byte aligned, bytes (of
 * each piece) is a multiple of 16, and nothing overlaps. The loads of both are in flight together:
 * with two pages of 4 KiB each, 16 warps fill a PCIe 5 link to host memory; with one page each, 32
 * to 64 warps would be needed.
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
		hr_copy_bytes(to_0, from_0, bytes);
		hr_copy_bytes(to_1, from_1, bytes);
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
	/* The halves of one page are shorter than that. */
	for (; at + (HR_VECTOR_HALF - 1) * HR_LANES < count; at += HR_VECTOR_HALF * HR_LANES) {
		for (i = 0; i < HR_VECTOR_HALF; i++) {
			v[2 * i] = from_0[at + i * HR_LANES];
			v[2 * i + 1] = from_1[at + i * HR_LANES];
		}
		for (i = 0; i < HR_VECTOR_HALF; i++) {
			to_0[at + i * HR_LANES] = v[2 * i];
			to_1[at + i * HR_LANES] = v[2 * i + 1];
		}
	}
	for (; at < count; at += HR_LANES) {
		to_0[at] = from_0[at];
		to_1[at] = from_1[at];
	}
}

/*
 * A copy of many pieces, one after the other, by a worker with few registers: a piece is loaded while
 * the one before is stored, so loads are always in flight. hr_copy_two() needs 64 registers for the
 * data alone. In a kernel that has no more, the compiler moves loaded data to memory, so the last
 * loads begin when the first have arrived, and two pages take four times as long.
 */
#define HR_STREAM_LOADS (HR_LANES > 32 ? HR_VECTOR_LOADS * 32 / HR_LANES : HR_VECTOR_LOADS)
#define HR_STREAM_BYTES (HR_STREAM_LOADS * HR_LANES * (uint32_t)sizeof(struct hr_vector))

struct hr_stream {
	struct hr_vector v[HR_STREAM_LOADS]; /* loaded, not stored */
	struct hr_vector *to;		     /* their place; NULL: there are none */
};

HR_WORKER void hr_stream_begin(struct hr_stream *s)
{
	s->to = NULL;
}

/* Collective: copy `bytes`, a multiple of HR_STREAM_BYTES (with one lane: any number); the last piece
 * arrives with the next call. Both ends are 16-byte aligned, and nothing overlaps. */
HR_WORKER void hr_stream_copy(struct hr_stream *s, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint32_t at, i;

	if (HR_LANES == 1) {
		hr_copy_bytes(to, from, bytes);
		return;
	}
	for (at = 0; at < bytes; at += HR_STREAM_BYTES) {
		const struct hr_vector *next =
			(const struct hr_vector *)(const void *)(from + at) + hr_lane();

		if (s->to)
			for (i = 0; i < HR_STREAM_LOADS; i++) {
				s->to[i * HR_LANES] = s->v[i];
				s->v[i] = next[i * HR_LANES];
			}
		else
			for (i = 0; i < HR_STREAM_LOADS; i++)
				s->v[i] = next[i * HR_LANES];
		s->to = (struct hr_vector *)(void *)(to + at) + hr_lane();
	}
}

/* Collective: store the last piece. */
HR_WORKER void hr_stream_end(struct hr_stream *s)
{
	uint32_t i;

	for (i = 0; s->to && i < HR_STREAM_LOADS; i++)
		s->to[i * HR_LANES] = s->v[i];
	s->to = NULL;
}

#endif
