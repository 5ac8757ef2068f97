/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/probe.h - worker code of the power-on self-test: it reads and copies pages with all
 * its threads, and answers the CPU, before any pipeline relies on the GPU.
 */
#ifndef GPU_WORKER_PROBE_H
#define GPU_WORKER_PROBE_H

#include <stdint.h>

#include "config/base/limits.h"
#include "nvme/queue/worker.h"

enum hr_probe_end { HR_PROBE_RUNS, HR_PROBE_DONE, HR_PROBE_UNANSWERED };

/* All of it lies in memory for workers; the CPU can access ping, pong and end, too. */
struct hr_probe {
	const uint8_t *from; /* [pages] of HR_PAGE bytes */
	uint8_t *to;	     /* [pages], target of the copies */
	uint32_t *crc;	     /* [pages]: CRC-32C of each page as read */
	uint32_t pages;
	uint32_t blocks;     /* blocks of the launch */
	uint32_t rounds;     /* number of answers of block 0 */
	uint64_t timeout_ns; /* time limit for each answer */
	uint32_t *ping;	     /* written by the CPU, release: 1, 2, ... rounds */
	uint32_t *pong;	     /* written by block 0: the same numbers, stored like a doorbell */
	uint32_t *end;	     /* [blocks]: enum hr_probe_end, release */
};

HR_DEVICE void hr_probe_block(struct hr_probe *probe, uint32_t block);

#endif
