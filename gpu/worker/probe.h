/*
 * gpu/worker/probe.h - worker code that tries the ground it stands on: it reads and copies pages
 * with all its threads, and answers the CPU. For the power-on self-test, before any pipeline trusts it.
 */
#ifndef GPU_WORKER_PROBE_H
#define GPU_WORKER_PROBE_H

#include <stdint.h>

#include "config/limits.h"
#include "nvme/worker.h"

enum hr_probe_end { HR_PROBE_RUNS, HR_PROBE_DONE, HR_PROBE_UNANSWERED };

/* Everything in memory that workers reach; ping, pong and end also in memory that the CPU sees. */
struct hr_probe {
	const uint8_t *from; /* [pages] of HR_PAGE bytes */
	uint8_t *to;	     /* [pages], where they are copied to */
	uint32_t *crc;	     /* [pages]: CRC-32C of each as it was read */
	uint32_t pages;
	uint32_t blocks;      /* of the launch */
	uint32_t rounds;      /* how often block 0 answers */
	uint64_t patience_ns; /* how long it waits for each */
	uint32_t *ping;	      /* by the CPU, release: 1, 2, ... rounds */
	uint32_t *pong;	      /* by block 0: the same numbers, written like a doorbell */
	uint32_t *end;	      /* [blocks]: enum hr_probe_end, release */
};

HR_DEVICE void hr_probe_block(struct hr_probe *probe, uint32_t block);

#endif
