/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/blk.h - a disk for the host control plane: synchronous, byte-addressed in whole logical
 * blocks. The object store uses this interface for every kind of disk.
 *
 * Errors: 0; > 0: NVMe status; -ETIMEDOUT; -ERANGE: beyond the end; -EINVAL: not whole blocks;
 * -EROFS. A failing call fills e with disk, LBA and reason.
 */
#ifndef NVME_BLK_H
#define NVME_BLK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/error.h"
#include "nvme/ctrl.h"
#include "nvme/dma/prp.h"

struct hr_blk;

struct hr_blk_ops {
	int (*read)(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		    struct hr_error *e);
	/* With fua the data is durable on return; without it, after the next flush(). */
	int (*write)(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes, bool fua,
		     struct hr_error *e);
	/* All earlier writes are durable on return. */
	int (*flush)(struct hr_blk *blk, struct hr_error *e);
	/*
	 * The data of these blocks are not needed any more: reads of them return anything. The disk
	 * may give the space back. 0 also when the disk does not know that, or refuses it. NULL: it
	 * has no such command.
	 */
	int (*trim)(struct hr_blk *blk, uint64_t offset, uint64_t bytes, struct hr_error *e);
};

struct hr_blk {
	const struct hr_blk_ops *ops;
	const char *name; /* for messages; owned by the opener */
	uint64_t bytes;
	uint32_t block_bytes; /* 512 or 4096 */
	bool volatile_cache;
	bool read_only;
	void *impl;
};

/* For implementations: 0, or -EINVAL or -ERANGE with e filled. what: the operation, for the text. */
int hr_blk_check(const struct hr_blk *blk, const char *what, uint64_t offset, size_t bytes,
		 struct hr_error *e);

/*
 * Synchronous I/O over one queue pair of a controller, with several commands in flight, through
 * bounce buffers. Never allocates: everything lies in `region` [offset, offset +
 * hr_nvme_blk_bytes()).
 *
 * A transfer is cut into chunks, which may be executed in any order. When one chunk fails, each of
 * the others may or may not have been executed. A command that fails with a transient status or a
 * media error is sent again, up to hr_status_retries() times. Before each repetition the driver
 * waits as long as the controller asks, or a time that doubles. Repetitions end when the deadline
 * of the first attempt has passed: nothing else ends those of a disk that is not ready.
 *
 * A lost completion, a broken queue, and the loss of the device pass through the health of the ssd
 * (nvme/health.h). When the health allows no commands, the controller may still write to the
 * buffers, and every call returns hr_health_refuse(). A disk that is closed and opened again works,
 * unless the controller itself is lost.
 */
#define HR_BLK_ENTRIES 16u
#define HR_BLK_CHUNK (256u << 10) /* bytes of one bounce buffer */
#define HR_BLK_BUFFERS 8u

/* A transfer, and its progress. For nvme/blk.c only. */
struct hr_blk_job {
	uint8_t opcode;
	const struct hr_sqe *command; /* NULL: read, write, flush */
	bool fua;
	bool quiet;  /* a status does not fill e; the caller does */
	bool told;   /* the log says why it takes long */
	bool active; /* begun, and its result has not been returned */
	uint64_t lba;
	const uint8_t *from; /* write */
	uint8_t *to;	     /* read */
	/* memory of the caller, from direct_at on, in place of the bounce buffers; or NULL */
	const struct hr_region *direct;
	size_t direct_at;
	size_t bytes, next; /* next: first byte not yet given to a command */
	uint32_t idle;	    /* mask of buffers that hold no command */
	uint32_t later;	    /* mask of buffers whose command is sent again later */
	uint32_t in_flight;
	uint32_t spins;
	int err; /* of the first command that failed */
	struct hr_error *e;
};

struct hr_nvme_blk {
	struct hr_blk blk;
	struct hr_ctrl *ctrl;
	struct hr_ns ns;
	struct hr_nvme_qp qp;
	uint32_t chunk;			/* min(HR_BLK_CHUNK, controller's maximum) */
	const struct hr_region *region; /* of hr_nvme_blk_open(), */
	size_t offset;			/* and its offset */
	struct hr_health *health;	/* the controller's, until the owner sets the ssd's */
	struct {
		uint8_t *data;
		struct hr_prp prp;
		struct hr_prp direct; /* of memory of the caller */
		size_t at;	      /* contents: bytes from the start of the transfer */
		uint32_t bytes, tries;
		uint64_t failed_ns; /* time of the first failure */
		uint64_t again_ns;  /* time of the next attempt */
	} buffer[HR_BLK_BUFFERS];
	struct hr_blk_job begun; /* by hr_nvme_blk_begin() */
};

/* Bytes of memory that a disk needs: page aligned, in a mapped region that the CPU can access. */
size_t hr_nvme_blk_bytes(void);

/*
 * Create queue pair `id` and the disk over it. The disk has the name of the transport until the
 * owner sets another. timeout_ns is the deadline of each command.
 * Errors of hr_ctrl_create_qp(); -EINVAL: memory not page aligned, outside of the region, or
 * timeout 0.
 */
int hr_nvme_blk_open(struct hr_nvme_blk *disk, struct hr_ctrl *ctrl, const struct hr_ns *ns,
		     uint16_t id, const struct hr_region *region, size_t offset,
		     uint64_t timeout_ns, struct hr_error *e);

/*
 * One command that moves [offset, offset + HR_PAGE) of the disk to the bus address `page` (a page
 * of a mapped region), or with write in the other direction. It uses no bounce buffer: the caller
 * tests whether the controller can access that page.
 * Errors as the disk's other calls. A status does not fill e: it is the result of the test.
 */
int hr_nvme_blk_move(struct hr_nvme_blk *disk, bool write, uint64_t offset, struct hr_bus page,
		     struct hr_error *e);

/*
 * Read, write or compare [offset, offset + bytes) of the disk and [at, at + bytes) of a region that
 * the controller can access, in whole pages, without bounce buffers. opcode: nvme_cmd_read, _write
 * or _compare. Commands are sent again as those of read and write are.
 * Errors as the disk's other calls; a status, as Compare Failure (285h), does not fill e: it is that
 * of the first command that failed. -EINVAL: not whole pages, or outside of the region.
 */
int hr_nvme_blk_direct(struct hr_nvme_blk *disk, uint8_t opcode, uint64_t offset,
		       const struct hr_region *region, size_t at, size_t bytes, struct hr_error *e);

/* maximum bytes that hr_nvme_blk_command() moves */
#define HR_BLK_COMMAND_MAX HR_PAGE

/*
 * Send one I/O command other than read, write and flush. Only a disk that is not ready makes the
 * driver send it again. The caller sets
 * the opcode and CDW10 to CDW15. data, if not NULL, is a buffer of `bytes` (1..HR_BLK_COMMAND_MAX):
 * the command's input (to_host false) or its result.
 * Errors as the disk's other calls. A status does not fill e. -EINVAL, an error of the caller, has
 * no text.
 */
int hr_nvme_blk_command(struct hr_nvme_blk *disk, const struct hr_sqe *command, void *data,
			size_t bytes, bool to_host, struct hr_error *e);

/*
 * A read (write false) or write without waiting: begin a transfer, then call poll until it returns
 * something else than -EINPROGRESS. There is one such transfer at a time. The disk's other calls
 * may be made meanwhile: they first wait until its commands have ended, and poll then returns its
 * result. data and *e (which may be NULL) belong to the transfer until then.
 *
 * begin: 0; -EBUSY: a transfer has begun already; otherwise as the disk's read and write. poll: the
 * result of the transfer, once; -EINPROGRESS; -ENOENT: none has begun.
 */
int hr_nvme_blk_begin(struct hr_nvme_blk *disk, bool write, uint64_t offset, void *data,
		      size_t bytes, struct hr_error *e);
int hr_nvme_blk_poll(struct hr_nvme_blk *disk);

/* Delete the queue pair. Then the caller may use the memory again. Errors of
 * hr_ctrl_delete_qp(). */
int hr_nvme_blk_close(struct hr_nvme_blk *disk, struct hr_error *e);

#endif
