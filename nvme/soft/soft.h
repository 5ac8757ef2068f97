/*
 * nvme/soft/soft.h - a software NVMe controller: real registers and queues over a file or memory.
 *
 * Spec: NVMe Base 2.0, NVM Command Set 1.0, PCIe Transport 1.0. The embedded default (no hardware
 * needed), the counterpart of a real GPU that has no SSD beside it, and the fault injector.
 * Its threads poll the register page and the queues like an SSD's firmware does; all that a driver
 * writes is untrusted, and nothing is touched outside of the registered DMA windows.
 *
 * Media: a file, anonymous memory, or nothing at all (null), which completes reads and writes after
 * all checks without moving data: what is written is gone, reads leave their buffers as they are.
 * That is for measuring commands, and for nothing else. With a volatile write cache (cache= above
 * zero) what was written but neither flushed nor sent with FUA lives in the cache only and is lost
 * when power is cut or the process dies; a full cache destages to the media first.
 */
#ifndef NVME_SOFT_SOFT_H
#define NVME_SOFT_SOFT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/limits.h"
#include "nvme/region.h"
#include "nvme/transport.h"

#define HR_SOFT_QUEUES 256u   /* I/O queue pairs it grants at most */
#define HR_SOFT_ENTRIES 4096u /* CAP.MQES + 1 */
#define HR_SOFT_WINDOWS 64u   /* DMA windows */
#define HR_SOFT_THREADS_MAX 64u
#define HR_SOFT_NAMESPACES_MAX 16u

enum hr_soft_reservations {
	HR_SOFT_UNRESERVABLE, /* ONCS bit 5 is 0 */
	HR_SOFT_RESERVABLE,
	HR_SOFT_RESERVED, /* another host holds the namespace when the first controller opens it */
};

struct hr_soft_options {
	char path[HR_DEVICE_MAX]; /* "" is memory, or nothing */
	bool null;		  /* nothing: no data are kept */
	uint64_t bytes;		  /* 0: the file's size (must exist); else create or must match */
	uint32_t block_bytes;	  /* 512 or 4096; default 4096 */
	uint32_t mdts;		  /* 2^n pages of 4 KiB; default 8 (1 MiB); 0: no limit */
	uint32_t dstrd;		  /* doorbell stride 4 << n bytes; default 0 */
	uint64_t cache_bytes;	  /* volatile write cache; 0: none (VWC absent); default 16 MiB
				     * for a file, 0 else */
	uint32_t threads;	  /* polling threads; default 1 */
	uint32_t first_cpu, cpus; /* threads are bound to these, one each; cpus 0: to none */
	bool populate;		  /* take all of the memory at open; default false */
	bool existing;		  /* an image that is not there is not made */
	bool read_only;		  /* the namespace is write protected (NSATTR) */
	bool shared;		  /* other controllers of this option may have the image, too */
	uint32_t namespaces;	  /* of equal size, one behind the other on the media; default 1 */
	bool zoned;		  /* the namespace is of the zoned command set: a few commands */
	uint32_t reservations;	  /* the namespace has them: enum hr_soft_reservations */
	char faults[HR_DEVICE_MAX]; /* fault script (nvme/soft/FAULTS.md), or "" */
};

/* Parse what follows "soft:". 0, or -EINVAL with message (HR_LOG_LINE_MAX bytes). */
int hr_soft_parse(const char *text, struct hr_soft_options *options, char *message);

/*
 * Open the media and start the threads. The image is locked (flock) against a second controller.
 * 0; -ENOENT, -EACCES, -EBUSY (in use), -EINVAL (size not whole blocks or unlike the file's),
 * -ENOSPC, -ENOMEM, all with message. Allocates; to be called during boot only.
 */
int hr_soft_open(struct hr_transport *t, const struct hr_soft_options *options, char *message);

/*
 * For tests. Cut the power: processing stops between two blocks, the volatile cache is treated as
 * `policy` says (with `seed`), registers read all ones until the transport is closed.
 */
enum hr_soft_cut {
	HR_SOFT_CUT_DROP, /* nothing unflushed reaches the media */
	HR_SOFT_CUT_SOME, /* a random choice of the unflushed blocks does */
	HR_SOFT_CUT_TORN, /* as SOME, and 512-byte sectors within 4 KiB blocks are torn */
};
void hr_soft_power_cut(struct hr_transport *t, enum hr_soft_cut policy, uint64_t seed);

/* For tests and `headrace bench`: bytes the controller moved, commands it executed. */
struct hr_soft_stats {
	uint64_t commands, reads, writes, flushes, errors;
	uint64_t read_bytes, written_bytes;
};
void hr_soft_stats(const struct hr_transport *t, struct hr_soft_stats *stats);

#endif
