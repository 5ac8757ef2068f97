/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/store/disk.h - cache/store/FORMAT.md as C: structures of the reserved area, and
 * their checks.
 *
 * Private to cache/store/objmap*.c. Disk and memory hold objects in the same form (struct
 * hr_store_object, 128 bytes, little-endian), so a map copy is read, checked and written in place.
 */
#ifndef CACHE_STORE_DISK_H
#define CACHE_STORE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/store/store.h"

#define HR_STORE_MAGIC "headrace"	 /* 8 bytes, no NUL on disk */
#define HR_STORE_VERSION 2u		 /* of new stores */
#define HR_STORE_VERSION_MIN 1u		 /* without shards */
#define HR_STORE_DATA_ALIGN (1ull << 20) /* alignment of the data area */
/* Maximum of generation and next_id. No store reaches it within its lifetime. */
#define HR_STORE_COUNTER_MAX (UINT64_MAX / 2)
#define HR_STORE_LINE 192u /* maximum length of a reason, for messages */

struct hr_superblock_head {
	char magic[8];
	uint32_t version;
	uint32_t capacity;
	uint8_t uuid[16];
	uint64_t generation;
	uint64_t next_id;
	uint64_t disk_bytes;
	uint64_t map_offset; /* of the map copy that belongs to this superblock */
	uint64_t scratch_offset;
	uint64_t data_offset;
	uint64_t data_bytes;
	uint32_t count;
	uint32_t map_crc; /* CRC-32C of the count records */
};

struct hr_superblock {
	struct hr_superblock_head head;
	uint8_t zero[HR_PAGE - sizeof(struct hr_superblock_head) - 4];
	uint32_t crc; /* CRC-32C of all bytes before it */
};

_Static_assert(sizeof(struct hr_superblock_head) == 96, "superblock");
_Static_assert(sizeof(struct hr_superblock) == HR_PAGE, "superblock");
_Static_assert(sizeof(struct hr_store_object) == 128, "record");
_Static_assert(offsetof(struct hr_store_object, shard) == 40, "record");
_Static_assert(sizeof(struct hr_store_shard) == 32, "record");
_Static_assert(offsetof(struct hr_store_object, offset) == 72, "record");
_Static_assert(offsetof(struct hr_store_object, crc) == 124, "record");
_Static_assert(HR_STORE_OBJECTS_MAX <= UINT16_MAX, "order[] holds record numbers");

/* Locations on the disk, which follow from capacity and disk size. */
struct hr_store_layout {
	uint64_t map_offset[2];
	uint64_t scratch_offset, data_offset, data_bytes;
};

/* One superblock from the disk: err is 0, -ENOMEDIUM (blank), -EMEDIUMTYPE or -EUCLEAN (see
 * why). */
struct hr_superblock_state {
	struct hr_superblock_head head; /* as read, even when err is set */
	int err;
	uint32_t page_crc; /* hr_store_page_crc() of the page */
	char why[HR_STORE_LINE];
};

/* Receives findings about a map: line() is called with one line for each. */
struct hr_store_findings {
	void (*line)(void *arg, const char *line);
	void *arg;
};

static inline uint64_t hr_store_round(uint64_t bytes, uint64_t align)
{
	return (bytes + align - 1) & ~(align - 1);
}

/* 0; -EINVAL: capacity outside 1..HR_STORE_OBJECTS_MAX; -ENOSPC: no room for data. */
int hr_store_lay_out(struct hr_store_layout *layout, uint64_t disk_bytes, uint32_t capacity);

/* Read both superblocks through page. Fails only on a read error. */
int hr_store_read_superblocks(struct hr_blk *blk, uint8_t *page,
			      struct hr_superblock_state super[2], struct hr_error *e);

/*
 * The superblock to try next: the newest without err. When there is none, or when two cannot belong
 * to one store, returns -1 with *err, the state of the disk; only -EUCLEAN fills e.
 */
int hr_store_newest(const struct hr_blk *blk, const struct hr_superblock_state super[2], int *err,
		    struct hr_error *e);

/* Read the map copy that a superblock names into map and compare its CRC. 0, or -EUCLEAN with
 * why. */
int hr_store_read_map(struct hr_blk *blk, const struct hr_superblock_head *head, uint8_t *map,
		      char why[HR_STORE_LINE], struct hr_error *e);

/* Check untrusted records; order: scratch memory, [head->count]. Returns the number of faults. */
uint32_t hr_store_check_objects(const struct hr_superblock_head *head,
				const struct hr_store_object *object, uint16_t *order,
				const struct hr_store_findings *findings);

bool hr_store_name_ok(const char *name, size_t bytes);

/* Fill order[count] with record numbers by ascending offset. */
void hr_store_sort_by_offset(const struct hr_store_object *object, uint32_t count, uint16_t *order);

/* CRC to compare two superblock pages. It excludes the crc field: with it the CRC of every valid
 * page is the same. */
uint32_t hr_store_page_crc(const uint8_t *page);

/* The three parts of hr_store.io. */
static inline uint8_t *hr_store_io_page(const struct hr_store *store)
{
	return store->io;
}

static inline struct hr_store_object *hr_store_io_map(const struct hr_store *store)
{
	return (struct hr_store_object *)(void *)(store->io + HR_PAGE);
}

static inline uint16_t *hr_store_io_order(const struct hr_store *store)
{
	return (uint16_t *)(void *)(store->io + HR_PAGE +
				    hr_store_round(store->capacity * sizeof(struct hr_store_object),
						   HR_PAGE));
}

/*
 * Make the first `count` records of hr_store_io_map() the object map, durably, and after that also
 * in memory. On error the store in memory is unchanged; the disk holds the old or the new map.
 */
int hr_store_commit(struct hr_store *store, uint32_t count, uint64_t next_id, struct hr_error *e);

#endif
