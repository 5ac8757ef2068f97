/*
 * gpu/arena.h - the static partition: every byte of SSD-visible and GPU memory, laid out before
 * anything is allocated, and printed like a linker map.
 *
 * Use: hr_partition_add() for each part, hr_partition_check() against the configured sizes, then
 * one allocation per place (gpu/places.h), then hr_partition_bind(). Nothing is added after that.
 */
#ifndef GPU_ARENA_H
#define GPU_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/limits.h"
#include "nvme/region.h"

/*
 * Where a part lives. On the host backend all places are host memory, and WORKER is what the CPU
 * writes itself; on a GPU the CPU has a copy of it, uploaded before a launch and downloaded after
 * the end (gpu/places.h).
 */
enum hr_place {
	HR_PLACE_CONTROL, /* host memory that CPU and running workers share: stop flag, status,
			     watermarks; small, and touched rarely */
	HR_PLACE_HOST,	  /* host memory controllers reach: queues, PRP lists, bounce tiles */
	HR_PLACE_WORKER,  /* GPU memory the CPU fills in before a launch and reads after it:
			     descriptor, slots, queue pairs, tables, arguments, records, result */
	HR_PLACE_GPU,	  /* GPU memory the CPU never touches: tiles of path direct, states */
	HR_PLACES,
};

struct hr_part {
	enum hr_place place;
	uint64_t offset, bytes; /* in its place; bytes as asked for, offset aligned */
	uint32_t align;
	char owner[HR_NAME_MAX];   /* "ssd0", "pipeline q6", "pipeline q6 prefetch 0" */
	char purpose[HR_NAME_MAX]; /* "submission queue 3, 256 entries" */
};

struct hr_partition {
	struct hr_part part[HR_PARTS_MAX];
	uint32_t count;
	uint64_t used[HR_PLACES];	    /* bytes, page aligned */
	uint64_t limit[HR_PLACES];	    /* from the configuration; 0: no limit of its own */
	struct hr_region region[HR_PLACES]; /* after hr_partition_bind() */
};

const char *hr_place_name(enum hr_place place);

void hr_partition_init(struct hr_partition *p, const uint64_t limit[HR_PLACES]);

/* Add a part; align is a power of two. Returns its index, or -ENOSPC: HR_PARTS_MAX reached. */
int hr_partition_add(struct hr_partition *p, enum hr_place place, uint64_t bytes, uint32_t align,
		     const char *owner, const char *purpose);

/* 0, or -ENOSPC with the sum and the limit of the place that does not fit in message. */
int hr_partition_check(const struct hr_partition *p, char *message);

/* The places are allocated: regions copied in. region[i].bytes >= used[i]. */
void hr_partition_bind(struct hr_partition *p, const struct hr_region region[HR_PLACES]);

/* CPU pointer (not of HR_PLACE_GPU) and worker pointer of a part; after bind. */
void *hr_partition_cpu(const struct hr_partition *p, int part);
void *hr_partition_worker(const struct hr_partition *p, int part);

/* There has been a bind, and there are addresses. */
bool hr_partition_bound(const struct hr_partition *p);

/* What controllers call the byte at `offset` of a place, after bind; 0: they do not reach the place. */
uint64_t hr_partition_ssd(const struct hr_partition *p, enum hr_place place, uint64_t offset);

/* The map: place, offset, size, owner, purpose, a line each, sorted, with gaps and totals; after
 * bind also the address of the first byte for workers, for the CPU and for ssds, "-" for whom does
 * not reach it. (What follows it may have unrelated addresses for ssds: nvme/region.h.) */
void hr_partition_print(const struct hr_partition *p, FILE *out);

#endif
