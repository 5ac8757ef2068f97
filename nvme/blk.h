/*
 * nvme/blk.h - a disk as the host control plane sees it: synchronous, byte-addressed in whole
 * logical blocks. What the object store stands on, so that it does not care what is below.
 *
 * Errors: 0; > 0: NVMe status; -ETIMEDOUT; -ERANGE: beyond the end; -EINVAL: not whole blocks;
 * -EROFS. A failing call logs disk, LBA and reason once.
 */
#ifndef NVME_BLK_H
#define NVME_BLK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme/ctrl.h"
#include "nvme/prp.h"

struct hr_blk;

struct hr_blk_ops {
	int (*read)(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes);
	/* Durable on return with fua; without, after the next flush(). */
	int (*write)(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes, bool fua);
	/* Everything written before is durable on return. */
	int (*flush)(struct hr_blk *blk);
};

struct hr_blk {
	const struct hr_blk_ops *ops;
	const char *name; /* for messages; the owner's */
	uint64_t bytes;
	uint32_t block_bytes; /* 512 or 4096 */
	bool volatile_cache;
	bool read_only;
	void *impl;
};

/*
 * Synchronous I/O over one queue pair of a controller, several commands in flight, through bounce
 * buffers. Never allocates: everything lies in `region` [offset, offset + hr_nvme_blk_bytes()).
 *
 * A transfer is cut into chunks that may be executed in any order; when one fails, the others
 * may or may not have been. A command whose status may go away is sent again, and one whose medium
 * failed, hr_status_retries() times, after the pause that the controller asks for or one that
 * doubles, as long as the deadline of the first one has not passed. After a lost completion, a
 * broken queue, or the loss of the device the disk is dead: the controller may still write to its
 * buffers, so every call returns that error until it is closed and opened anew.
 */
#define HR_BLK_ENTRIES 16u
#define HR_BLK_CHUNK (256u << 10) /* bytes of one bounce buffer */
#define HR_BLK_BUFFERS 8u

struct hr_nvme_blk {
	struct hr_blk blk;
	struct hr_ctrl *ctrl;
	struct hr_ns ns;
	struct hr_nvme_qp qp;
	uint32_t chunk; /* min(HR_BLK_CHUNK, controller's maximum) */
	int dead;	/* 0, or what every call returns from now on */
	struct {
		uint8_t *data;
		struct hr_prp prp;
		size_t at; /* what it is used for: bytes from the start of the transfer, */
		uint32_t bytes, tries;
		uint64_t failed_ns; /* for the first time */
	} buffer[HR_BLK_BUFFERS];
};

/* Bytes of memory a disk needs, page aligned, in a mapped region that the CPU can reach. */
size_t hr_nvme_blk_bytes(void);

/*
 * Create queue pair `id` and the disk over it; its name is the transport's until the owner sets
 * another. timeout_ns is the deadline of each command. Errors of hr_ctrl_create_qp(); -EINVAL:
 * memory not page aligned, out of the region, or timeout 0.
 */
int hr_nvme_blk_open(struct hr_nvme_blk *disk, struct hr_ctrl *ctrl, const struct hr_ns *ns,
		     uint16_t id, const struct hr_region *region, size_t offset,
		     uint64_t timeout_ns);

/*
 * One command that moves [offset, offset + HR_PAGE) of the disk to the bus address `page` (a page of
 * a mapped region), or from there with write: not through a buffer of ours, to try such memory.
 * Errors as the disk's other calls; a status is not logged, for it is what the trial has found.
 */
int hr_nvme_blk_move(struct hr_nvme_blk *disk, bool write, uint64_t offset, struct hr_bus page);

/* Bytes that hr_nvme_blk_command() moves, at most. */
#define HR_BLK_COMMAND_MAX HR_PAGE

/*
 * One I/O command of another kind than read, write and flush, sent once, without repetitions: opcode
 * and cdw10 to cdw15 are the caller's. data, if not NULL, is `bytes` (1..HR_BLK_COMMAND_MAX) that the
 * command takes (to_host false) or gives. Errors as the disk's other calls; a status is not logged.
 */
int hr_nvme_blk_command(struct hr_nvme_blk *disk, const struct hr_sqe *command, void *data,
			size_t bytes, bool to_host);

/* Delete the queue pair; the memory is the caller's again. Errors of hr_ctrl_delete_qp(). */
int hr_nvme_blk_close(struct hr_nvme_blk *disk);

#endif
