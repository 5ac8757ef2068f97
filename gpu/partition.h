/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/partition.h - the static partition: the layout of all SSD-visible and GPU memory. It is computed
 * before any allocation, and printed like a linker map.
 *
 * Use: hr_partition_add() for each part, hr_partition_check() against the configured sizes, then
 * one allocation per place (gpu/places.h), then hr_partition_bind(). No part is added after that.
 */
#ifndef GPU_PARTITION_H
#define GPU_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/base/error.h"
#include "config/base/limits.h"
#include "nvme/dma/region.h"

/*
 * Memory that holds a part. On the host backend all places are host memory, and the CPU writes to
 * WORKER directly. On a GPU the CPU has a copy of WORKER; it is uploaded before a launch and
 * downloaded after its end (gpu/places.h).
 */
enum hr_place {
	/* host memory shared by CPU and running workers: stop flag, status, watermarks; small, and
	 * rarely accessed */
	HR_PLACE_CONTROL,
	HR_PLACE_HOST, /* host memory for controllers: queues, PRP lists, bounce tiles */
	/* GPU memory that the CPU fills before a launch and reads after it: descriptor, slots,
	 * queue pairs, tables, arguments, records, result */
	HR_PLACE_WORKER,
	HR_PLACE_GPU, /* GPU memory that the CPU never accesses: tiles of path direct, states */
	/* tiles that other processes map: GPU memory, or host memory on the host backend; each part in
	 * a memory object of its own (gpu/tap/memory.h, make_shared of gpu/backend.h) */
	HR_PLACE_TAP,
	/* host memory for the words of taps, entries and pages, that other processes map, each in a
	 * memory object of its own; workers access them, too */
	HR_PLACE_TAP_WORDS,
	HR_PLACES,
};

#define HR_NO_POINTER 0u /* no descriptor has a pointer at offset 0 */

struct hr_part {
	enum hr_place place;
	uint64_t offset, bytes; /* offset in its place, aligned; bytes as requested */
	uint32_t align;
	/* offset of the pointer in the owner's descriptor, or HR_NO_POINTER */
	uint32_t pointer;
	bool data;		   /* tiles or pages, which need not be zero before a launch */
	char owner[HR_NAME_MAX];   /* "ssd0", "pipeline q6", "pipeline q6 prefetch 0" */
	char purpose[HR_NAME_MAX]; /* "submission queue 3, 256 entries" */
};

struct hr_partition {
	struct hr_part part[HR_PARTS_MAX];
	uint32_t count;
	uint64_t used[HR_PLACES];	    /* bytes, page aligned */
	uint64_t limit[HR_PLACES];	    /* from the configuration; 0: no limit for this place */
	struct hr_region region[HR_PLACES]; /* after hr_partition_bind() */
};

const char *hr_place_name(enum hr_place place);

void hr_partition_init(struct hr_partition *p, const uint64_t limit[HR_PLACES]);

/* Add a part that no descriptor points to; align is a power of two. Returns its index, or
 * -ENOSPC: HR_PARTS_MAX reached, or the sum of sizes overflows. */
int hr_partition_add(struct hr_partition *p, enum hr_place place, uint64_t bytes, uint32_t align,
		     const char *owner, const char *purpose);

/* 0, or -ENOSPC; *e has the place that exceeds its limit, its sum and the limit. */
int hr_partition_check(const struct hr_partition *p, struct hr_error *e);

/* Set the regions of the places after their allocation (copies them). region[i].bytes >=
 * used[i]. */
void hr_partition_bind(struct hr_partition *p, const struct hr_region region[HR_PLACES]);

/* CPU pointer (NULL: the CPU cannot access the place) and worker pointer of a part; after bind. */
void *hr_partition_cpu(const struct hr_partition *p, int part);
void *hr_partition_worker(const struct hr_partition *p, int part);

/* True after hr_partition_bind(): parts have addresses. */
bool hr_partition_bound(const struct hr_partition *p);

/* Bus address of the byte at `offset` of a place, after bind; 0: controllers cannot access the
 * place. */
uint64_t hr_partition_ssd(const struct hr_partition *p, enum hr_place place, uint64_t offset);

/* Print the map, one line per part: place, offset, size, owner, purpose; sorted, with gaps and
 * totals. After bind each line also has the address of the first byte for workers, for the CPU
 * and for ssds; "-" for no access. (The bytes behind it may have unrelated addresses for ssds:
 * nvme/dma/region.h.) */
void hr_partition_print(const struct hr_partition *p, FILE *out);

#endif
