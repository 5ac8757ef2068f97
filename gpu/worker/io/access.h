/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/worker/io/access.h - a run of an access operator for its workers: I/O blocks and compute blocks
 * over one page cache.
 *
 *   I/O      -> each worker (warp) owns queue pairs, one per ssd, and rows of the page table: it
 *               takes requests, removes pages, reads, writes back (gpu/worker/io/io.h)
 *   compute  -> each block calls the operator's run(); its workers call cache/objects/objects.h
 *
 * When all compute workers have ended, I/O workers write dirty pages back, flush, and end. A failing
 * worker records the failure in its status and sets words->stop; then every wait returns, and
 * no further write begins. The host's stop flag lies in host memory; I/O
 * worker 0 polls it and passes it on. After all compute blocks have ended without failure or stop,
 * and all data are durable, compute block 0 calls the operator's finish().
 *
 * With several gpus each has such a descriptor and runs its blocks; their I/O workers exchange messages
 * (cache/peers.h). Compute workers have numbers over all gpus. Gpu 0 calls finish(), with the states of
 * all workers, after the data of all gpus are durable. A run that ends on one gpu ends on all.
 *
 * When ranks divide the run, nothing calls finish() here: it needs the states of all ranks.
 *
 * The descriptor, table, rings and queue pairs lie in HR_PLACE_WORKER; control and status lie in
 * HR_PLACE_CONTROL and have the forms of gpu/worker/pipeline.h. In a status, tiles counts pages of an
 * I/O worker (read and written) or is 0 for compute, and a failure's tile is the page of the object.
 */
#ifndef GPU_WORKER_IO_ACCESS_H
#define GPU_WORKER_IO_ACCESS_H

#include <stdint.h>

#include "cache/page_cache.h"
#include "gpu/worker/pipeline.h"

/* Roles of a failure and of a status, besides those of enum hr_role. */
enum { HR_ROLE_IO = HR_ROLES, HR_ROLE_ACCESS };

/* Commands that one I/O worker has on one ssd at the same time. */
#define HR_IO_COMMANDS_MAX 256u

/* A command of an I/O worker: neighbouring pages of one group. Zero before the run. */
struct hr_io_command {
	uint32_t page; /* the first page */
	uint32_t pages;
	uint8_t way[32]; /* of each page in its set */
	uint8_t opcode;	 /* nvme_cmd_read, nvme_cmd_write */
	uint8_t state;	 /* enum hr_io_state */
	uint8_t tries;	 /* repetitions, at most 255 */
	uint8_t single;	 /* after an error: pages are sent one by one, to find the bad page */
	uint8_t at;	 /* index of the next page to send */
	uint8_t sweep;	 /* of a write: hr_io_worker.sweep at its begin */
	/* PARKED: time of the next repetition; SETTLING: epoch; SENT: hr_cycles() then */
	uint64_t until;
	uint64_t first_ns; /* time of the first failure */
};

enum hr_io_state {
	HR_IO_UNUSED,
	HR_IO_SENT,
	HR_IO_PARKED,	/* to be sent again later */
	HR_IO_SETTLING, /* a write waits until no worker writes to its frames */
};

struct hr_access {
	struct hr_page_cache cache; /* pointers at workers' addresses */
	uint32_t op;		    /* id of the operator, for hr_op_run() (gpu/worker/role.h) */
	uint32_t io_blocks, compute_blocks;
	uint32_t warps; /* workers of a block, of both kinds */
	uint32_t ssds;	/* distinct ssds of the objects: queue pairs of an I/O worker */
	uint32_t queue_of[HR_OBJECTS_MAX]; /* index of the object's ssd in an I/O worker's pairs */
	uint32_t flush[HR_SSDS_MAX];	   /* per pair: the ssd has a volatile cache */
	/* Largest command: whole pages, a power of two, at most a group, within the MDTS of each
	 * ssd and HR_CHUNK_MAX. */
	uint32_t merge_pages;
	/* of one I/O worker at a time, at most HR_IO_COMMANDS_MAX; with several gpus at least 2, so
	 * that writes go on while pages wait for other gpus */
	uint32_t commands;
	struct hr_nvme_qp *qp;		 /* [I/O workers][ssds] */
	struct hr_io_command *command;	 /* [I/O workers][commands] */
	struct hr_io_counters *counters; /* [I/O workers], in HR_PLACE_CONTROL */
	/*
	 * Where controllers read and write. staging NULL: frames themselves, at the bus address
	 * frame_bus + offset. Otherwise commands use buffers in host memory, and I/O workers copy
	 * between them and frames.
	 */
	/* [merge_pages][I/O workers][commands] pages, or NULL: the first pages of all commands lie
	 * together, because most commands have one page */
	uint8_t *staging;
	uint64_t staging_bus; /* bus address of staging[0]; contiguous */
	uint64_t frame_bus;   /* bus address of frame 0; contiguous */
	uint64_t *prp_list;   /* [I/O workers][commands][merge_pages * page / 4 KiB] entries */
	/* Page aligned. A command has a power of two of entries, at most a page of them, and does not
	 * use the last one, so its list neither crosses a page boundary nor ends there. */
	uint64_t prp_list_bus;
	/* The operator. */
	/* op_states: of this gpu's workers; of gpu 0: of the workers of all gpus */
	uint8_t *op_args, *op_states, *op_result;
	uint32_t state_bytes;
	uint8_t *scratch; /* zeroed by the host before each launch, or NULL */
	uint64_t scratch_bytes;
	struct hr_pipe_control *control;
	struct hr_worker_status *status; /* I/O workers first, then one per compute block */
};

/* Number of I/O workers, compute workers, and status records. */
HR_BOTH uint32_t hr_access_io_workers(const struct hr_access *access)
{
	return access->io_blocks * access->warps;
}

HR_BOTH uint32_t hr_access_computers(const struct hr_access *access)
{
	return access->compute_blocks * access->warps;
}

HR_BOTH uint32_t hr_access_statuses(const struct hr_access *access)
{
	return hr_access_io_workers(access) + access->compute_blocks;
}

/* Bytes of hr_launch_memory() of a launch where workers have more than one lane: for a copy of the
 * cache's descriptor. */
#define HR_ACCESS_LAUNCH_MEMORY ((uint32_t)sizeof(struct hr_page_cache))

/* Run block `block` of the launch until the run has ended: I/O blocks come first. */
HR_DEVICE void hr_access_block(struct hr_access *access, uint32_t block);

#endif
