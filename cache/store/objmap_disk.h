/*
 * cache/store/objmap_disk.h - cache/store/FORMAT.md as C: what lies in the reserved area, and its
 * checks.
 *
 * Private to cache/objmap*.c. Disk and memory hold objects in the same form (struct hr_object, 128
 * bytes, little-endian), so a map copy is read, checked and written in place.
 */
#ifndef CACHE_STORE_OBJMAP_DISK_H
#define CACHE_STORE_OBJMAP_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/store/objmap.h"

#define HR_STORE_MAGIC "headrace" /* 8 bytes, no NUL on disk */
#define HR_STORE_VERSION 1u
#define HR_STORE_DATA_ALIGN (1ull << 20) /* of the data area */
/* Of generation and next_id: a store that counts to there is older than any lifetime. */
#define HR_STORE_COUNTER_MAX (UINT64_MAX / 2)
#define HR_STORE_LINE 192u /* a reason, for messages */

struct hr_superblock_head {
	char magic[8];
	uint32_t version;
	uint32_t capacity;
	uint8_t uuid[16];
	uint64_t generation;
	uint64_t next_id;
	uint64_t disk_bytes;
	uint64_t map_offset; /* of the copy in force */
	uint64_t scratch_offset;
	uint64_t data_offset;
	uint64_t data_bytes;
	uint32_t count;
	uint32_t map_crc; /* of the count records */
};

struct hr_superblock {
	struct hr_superblock_head head;
	uint8_t zero[HR_PAGE - sizeof(struct hr_superblock_head) - 4];
	uint32_t crc; /* of all before it */
};

_Static_assert(sizeof(struct hr_superblock_head) == 96, "superblock");
_Static_assert(sizeof(struct hr_superblock) == HR_PAGE, "superblock");
_Static_assert(sizeof(struct hr_object) == 128, "record");
_Static_assert(offsetof(struct hr_object, offset) == 72, "record");
_Static_assert(offsetof(struct hr_object, crc) == 124, "record");
_Static_assert(HR_STORE_OBJECTS_MAX <= UINT16_MAX, "order[] holds record numbers");

/* Where things are, as capacity and disk size alone determine it. */
struct hr_store_layout {
	uint64_t map_offset[2];
	uint64_t scratch_offset, data_offset, data_bytes;
};

/* One superblock as read: err is 0, -ENOMEDIUM (blank), -EMEDIUMTYPE or -EUCLEAN (see why). */
struct hr_store_slot {
	struct hr_superblock_head head; /* of what was read, even when err is set */
	int err;
	uint32_t page_crc; /* hr_store_page_crc() of what was read */
	char why[HR_STORE_LINE];
};

/* Who is told of what is wrong with a map: one line each. */
struct hr_store_sink {
	void (*line)(void *arg, const char *line);
	void *arg;
};

static inline uint64_t hr_store_round(uint64_t bytes, uint64_t align)
{
	return (bytes + align - 1) & ~(align - 1);
}

/* 0; -EINVAL: capacity outside 1..HR_STORE_OBJECTS_MAX; -ENOSPC: no room for data. */
int hr_store_lay_out(struct hr_store_layout *layout, uint64_t disk_bytes, uint32_t capacity);

/* Read both superblocks through page. Fails only when reading does. */
int hr_store_read_slots(struct hr_blk *blk, uint8_t *page, struct hr_store_slot slot[2]);

/*
 * The slot to try next: of those without err, the newest. -1 and *err: none (what the slots say
 * together; logged when -EUCLEAN), or two that cannot be of one store.
 */
int hr_store_newest(const struct hr_blk *blk, const struct hr_store_slot slot[2], int *err);

/* Read the map copy a superblock names into map and compare its CRC. 0, -EUCLEAN with why. */
int hr_store_read_map(struct hr_blk *blk, const struct hr_superblock_head *head, uint8_t *map,
		      char why[HR_STORE_LINE]);

/* Check records that are not trusted at all; order: scratch, [head->count]. Number of faults. */
uint32_t hr_store_check_objects(const struct hr_superblock_head *head,
				const struct hr_object *object, uint16_t *order,
				const struct hr_store_sink *sink);

bool hr_store_name_ok(const char *name, size_t bytes);

/* Fill order[count] with record numbers by rising offset. */
void hr_store_sort_by_offset(const struct hr_object *object, uint32_t count, uint16_t *order);

/* What tells one page from another. Its own CRC is left out: with it, every sound page has the same. */
uint32_t hr_store_page_crc(const uint8_t *page);

/* The three parts of hr_store.io. */
static inline uint8_t *hr_store_io_page(const struct hr_store *store)
{
	return store->io;
}

static inline struct hr_object *hr_store_io_map(const struct hr_store *store)
{
	return (struct hr_object *)(void *)(store->io + HR_PAGE);
}

static inline uint16_t *hr_store_io_order(const struct hr_store *store)
{
	return (uint16_t *)(void *)(store->io + HR_PAGE +
				    hr_store_round(store->capacity * sizeof(struct hr_object),
						   HR_PAGE));
}

/*
 * Make the first `count` records of hr_store_io_map() the object map, durably; then, and only then,
 * in memory as well. On error the store in memory is as before; on disk it is the old or the new.
 */
int hr_store_commit(struct hr_store *store, uint32_t count, uint64_t next_id);

#endif
