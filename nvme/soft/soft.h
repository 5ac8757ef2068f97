/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/soft/soft.h - a software NVMe controller: real registers and queues over a file or memory.
 *
 * Spec: NVMe Base 2.0, NVM Command Set 1.0, PCIe Transport 1.0. It is the embedded default (no
 * hardware needed), the counterpart of a GPU in a machine without an SSD, and the fault injector.
 * Its threads poll the register page and the queues as the firmware of an SSD does. Input from the
 * driver is untrusted, and nothing outside of the registered DMA windows is accessed.
 *
 * Media: a file, anonymous memory, or none (null). With null, reads and writes complete after all
 * checks without moving data: writes are discarded, and reads do not change their buffers. Use null
 * only to measure commands. With a volatile write cache (cache= above zero), data written without
 * flush and FUA is in the cache only, and is lost when power is cut or the process ends. A full
 * cache destages to the media first.
 */
#ifndef NVME_SOFT_SOFT_H
#define NVME_SOFT_SOFT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/error.h"
#include "config/base/limits.h"
#include "nvme/dma/region.h"
#include "nvme/transport/transport.h"

#define HR_SOFT_QUEUES 256u   /* maximum I/O queue pairs that are granted */
#define HR_SOFT_ENTRIES 4096u /* CAP.MQES + 1 */
#define HR_SOFT_WINDOWS 64u   /* DMA windows */
#define HR_SOFT_THREADS_MAX 64u
#define HR_SOFT_NAMESPACES_MAX 16u

enum hr_soft_reservations {
	HR_SOFT_UNRESERVABLE, /* ONCS bit 5 is 0 */
	HR_SOFT_RESERVABLE,
	HR_SOFT_RESERVED, /* at the first open another host holds the namespace */
};

/* Misbehaviours that some controllers are known for, as README.md describes them; a bit each. */
enum hr_soft_quirk {
	HR_SOFT_NO_SHUTDOWN = 1 << 0,
	HR_SOFT_LATE_READY = 1 << 1,
	HR_SOFT_EARLY_READY = 1 << 2,
	HR_SOFT_ADMIN_64 = 1 << 3,
	HR_SOFT_ONES = 1 << 4,
	HR_SOFT_MEDIUM_PRIORITY = 1 << 5,
	HR_SOFT_SAME_EUI64 = 1 << 6,
	HR_SOFT_SAME_NGUID = 1 << 7,
	HR_SOFT_SAME_SERIAL = 1 << 8,
	HR_SOFT_SQHD_BACK = 1 << 9,
	HR_SOFT_LIST_END = 1 << 10,
	HR_SOFT_FEW_QUEUES = 1 << 11,
	HR_SOFT_NO_COMPARE = 1 << 12,
	/* transfers to and from the memory of a GPU, or a BAR */
	HR_SOFT_PEER_ONES = 1 << 13,
	HR_SOFT_PEER_DROP = 1 << 14,
	HR_SOFT_PEER_SWAP = 1 << 15,
	HR_SOFT_PEER_LATE = 1 << 16,
	HR_SOFT_PEER_STRAY = 1 << 17,
};

struct hr_soft_options {
	char path[HR_DEVICE_MAX]; /* path of the image; "": memory or null */
	bool null;		  /* no media: data is discarded */
	/* 0: size of the file (must exist); else create with, or must match */
	uint64_t bytes;
	uint32_t block_bytes; /* 512 or 4096; default 4096 */
	uint32_t mdts;	      /* 2^n pages of 4 KiB; default 8 (1 MiB); 0: no limit */
	uint32_t dstrd;	      /* doorbell stride 4 << n bytes; default 0 */
	uint64_t cache_bytes; /* volatile write cache; 0: none (VWC absent); default 16 MiB
				     * for a file, 0 else */
	uint32_t threads;     /* polling threads; default 1 */
	/* bind one thread to each of these CPUs; cpus 0: no binding */
	uint32_t first_cpu, cpus;
	bool populate;	/* allocate all memory at open, and read an image there; default false */
	bool existing;	/* do not create a missing image */
	bool read_only; /* the namespace is write protected (NSATTR) */
	bool shared;	/* other controllers with this option may open the image, too */
	uint32_t namespaces;	    /* of equal size, consecutive on the media; default 1 */
	bool zoned;		    /* the namespace uses the zoned command set: few commands */
	uint32_t reservations;	    /* support of the namespace: enum hr_soft_reservations */
	uint32_t kelvin;	    /* temperature in the health log; 0: 300 */
	uint32_t spare_gone, used;  /* in the health log, in percent */
	uint32_t quirks;	    /* enum hr_soft_quirk */
	uint16_t vendor, device;    /* as of a PCI function; 0: there is none */
	char faults[HR_DEVICE_MAX]; /* fault script (nvme/soft/FAULTS.md), or "" */
};

/*
 * Open the media and start the threads. The image is locked (flock) against a second controller.
 * Allocates; call during boot only.
 * 0; -ENOENT, -EACCES, -EBUSY (in use), -EINVAL (size not whole blocks, or not the size of the
 * file), -ENOSPC, -ENOMEM.
 */
int hr_soft_open(struct hr_transport *t, const struct hr_soft_options *options, struct hr_error *e);

/* For tests and `headrace bench`: bytes moved and commands executed by the controller. */
struct hr_soft_stats {
	uint64_t commands, reads, writes, flushes, errors;
	uint64_t read_bytes, written_bytes;
};
void hr_soft_stats(const struct hr_transport *t, struct hr_soft_stats *stats);

/* ---- the text of a soft device */

/* Parse the text after "soft:". 0, or -EINVAL. */
int hr_soft_parse(const char *text, struct hr_soft_options *options, struct hr_error *e);

#endif
