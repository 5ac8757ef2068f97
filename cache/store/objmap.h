/*
 * cache/store/objmap.h - the object store of one ssd: contiguous extents by id and name, crash safe.
 *
 * The format on disk is in cache/store/FORMAT.md. The namespace starts with a reserved area: two
 * superblocks and two map copies, used in turn. A commit writes the other map copy, flushes, writes
 * the other superblock (which names the map copy by generation and CRC-32C), flushes: a power cut
 * at any write leaves the old map or the new one. Everything read from disk is checked before use.
 *
 * Host side; one thread at a time per store. Caller-allocated, never allocates.
 *
 * Errors, besides those of nvme/blk.h: -ENOMEDIUM: blank disk (both superblocks are all zero);
 * -EMEDIUMTYPE: not a headrace store (foreign data); -EUCLEAN: store is corrupt or truncated, with
 * the reason logged; -EEXIST: name taken; -EBUSY: an incomplete object has that name; -ENOENT;
 * -ENOSPC: no gap large enough (the largest is logged); -ENFILE: object map full (logged); -EROFS
 * (logged); -EOVERFLOW: generation or ids are used up (logged); -EINVAL: bad name (1..63 bytes of
 * printable ASCII without '/') or argument. Those that are not logged here are the caller's to report.
 */
#ifndef CACHE_STORE_OBJMAP_H
#define CACHE_STORE_OBJMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "config/limits.h"
#include "nvme/blk.h"

#define HR_STORE_OBJECTS_MAX 16384u /* a map copy of 2 MiB */
#define HR_STORE_OBJECTS_DEFAULT 4096u
#define HR_STORE_SCRATCH (64u << 10) /* for power-on self-tests; never part of an object */
#define HR_STORE_ALIGN HR_PAGE	     /* of every extent, in bytes */

enum hr_object_flags {
	HR_OBJECT_PENDING = 1, /* being written: only durable_bytes of it are valid */
	HR_OBJECT_HAS_CRC = 2, /* crc covers the whole object; never with PENDING */
};

/* One object, as the map holds it. */
struct hr_object {
	uint64_t id; /* never used again after removal; 0 is no object */
	char name[HR_NAME_MAX];
	uint64_t offset;	/* byte offset on the disk, HR_STORE_ALIGN aligned */
	uint64_t capacity;	/* bytes of the extent, multiple of HR_STORE_ALIGN */
	uint64_t bytes;		/* length of the data */
	uint64_t durable_bytes; /* prefix known to be durable; == bytes unless PENDING */
	uint64_t tag;		/* of whoever writes it: which run may resume a PENDING object */
	uint64_t created_ns;	/* CLOCK_REALTIME; 0: the clock was before 1970 */
	uint32_t flags;
	/* CRC-32C of the data, with HAS_CRC. Of a PENDING object: of the first durable_bytes, when
	 * the writer keeps it; the writer knows that by the tag. */
	uint32_t crc;
};

struct hr_store {
	struct hr_blk *blk;
	uint8_t uuid[16];
	uint64_t generation; /* newest on disk */
	uint64_t next_id;
	uint64_t disk_bytes; /* of the disk when it was formatted; it may have grown since */
	uint64_t map_offset[2];
	uint64_t data_offset, data_bytes; /* where extents may lie */
	uint64_t scratch_offset;	  /* HR_STORE_SCRATCH bytes */
	uint32_t capacity;		  /* objects the map can hold */
	uint32_t count;
	uint32_t active;	  /* map copy and superblock in force: 0 or 1 */
	struct hr_object *object; /* [capacity], sorted by id; caller's memory */
	uint8_t *io;		  /* hr_store_io_bytes(capacity); caller's memory */
	uint32_t page_crc[2];	  /* of both superblocks, as this store has seen or left them */
	bool page_unknown[2];	  /* a write of that superblock failed: it may hold anything */
	bool rehearsal;		  /* changes stay in memory: hr_store_rehearse() */
	bool stale;		  /* somebody else has written superblocks: nothing is any more */
};

/* Memory that open and format need for a map of `capacity` objects. */
size_t hr_store_io_bytes(uint32_t capacity);

/*
 * Write an empty store over the whole disk. Unless force: -EEXIST when the disk holds a store
 * already, -EMEDIUMTYPE when its first 4 MiB or its last 64 KiB are not blank; nothing is written
 * then. -ENOSPC: disk too small. The store is not open afterwards.
 */
int hr_store_format(struct hr_blk *blk, uint32_t capacity, bool force, uint8_t *io);

/*
 * Read what hr_store_open needs to know before memory is given: capacity of the map on disk.
 * Errors as hr_store_open().
 */
int hr_store_probe(struct hr_blk *blk, uint32_t *capacity, uint8_t page[HR_PAGE]);

/*
 * How many bytes at the start of the disk are the store's own (superblocks, maps, scratch): 0 when no
 * superblock is valid. Says nothing. Fails only when reading does.
 */
int hr_store_reserved(struct hr_blk *blk, uint64_t *bytes, uint8_t page[HR_PAGE]);

/*
 * Open: newest valid superblock whose map is valid; falls back to the older one with a warning.
 * Writes nothing. object: [capacity], io: hr_store_io_bytes(capacity), the caller's until the store
 * is no longer used. -EINVAL: the map on disk has room for more than `capacity`.
 */
int hr_store_open(struct hr_store *store, struct hr_blk *blk, struct hr_object *object,
		  uint32_t capacity, uint8_t *io);

/*
 * Find an object. The pointer is valid until the next change to the store. NULL: none.
 * A name may belong to two objects: a finished one, which hr_store_find() gives, and a PENDING one
 * that is to take its place, which hr_store_find_pending() gives.
 */
struct hr_object *hr_store_find(const struct hr_store *store, const char *name);
struct hr_object *hr_store_find_pending(const struct hr_store *store, const char *name);
struct hr_object *hr_store_find_id(const struct hr_store *store, uint64_t id);

/*
 * Changes. Each is one commit: it is durable on return, and so is everything that was written to
 * the disk before. On error the store in memory is unchanged, and that on disk is the old or the new.
 *
 * Before a commit writes anything it reads both superblocks again, and after it its own. When one is
 * not what this store has left there, another process or machine writes to the disk: -ESTALE, logged
 * once, nothing of the other writer is overwritten, and this store refuses all further changes. That
 * finds a foreign writer; where the namespace has reservations, they keep it away before that
 * (nvme/reservation.h).
 */

/*
 * Take the first gap that fits and make a PENDING object of `bytes` (0 is fine). *out as find.
 * Without replace: -EEXIST when a finished object has the name, -EBUSY when a PENDING one has.
 * With replace, a PENDING object of that name is dropped by the same commit; a finished one stays
 * what it is, under the same name, until hr_store_finish() of the new one drops it.
 */
int hr_store_create(struct hr_store *store, const char *name, uint64_t bytes, uint64_t tag,
		    bool replace, struct hr_object **out);

/*
 * Record that a prefix of a PENDING object is durable. In the same commit the object gets this tag, and
 * crc as its CRC-32C of that prefix (see struct hr_object). -EINVAL: less than before, or beyond it.
 */
int hr_store_progress(struct hr_store *store, uint64_t id, uint64_t durable_bytes, uint64_t tag,
		      uint32_t crc);

/* The object is whole: clear PENDING, set the crc if has_crc, drop a finished object of the name.
 * -EINVAL: not PENDING. */
int hr_store_finish(struct hr_store *store, uint64_t id, bool has_crc, uint32_t crc);

/* Remove an object, PENDING or not; its space is free from here on. */
int hr_store_remove(struct hr_store *store, uint64_t id);

/* What an error of this file means, for a message; buffer is used for those of the disk. */
const char *hr_store_error_name(int error, char *buffer, unsigned bytes);

/* Remove all objects that wanted() says yes to, in one commit; none: nothing is written. *count: how
 * many were removed, *bytes: of their extents. */
int hr_store_remove_some(struct hr_store *store,
			 bool (*wanted)(void *arg, const struct hr_object *object), void *arg,
			 uint32_t *count, uint64_t *bytes);

/*
 * A copy whose changes stay in memory: what they would do, and whether they can be done, before any is
 * made. object: [store->capacity], io: hr_store_io_bytes(store->capacity), the caller's, for as long
 * as the copy is used. The objects of both have the same ids, also those yet to be made.
 */
void hr_store_rehearse(struct hr_store *copy, const struct hr_store *store,
		       struct hr_object *object, uint8_t *io);

struct hr_store_space {
	uint64_t total, used, largest_gap; /* bytes */
	uint64_t pending;		   /* bytes of `used` that PENDING objects hold */
	uint32_t objects, capacity, pending_objects;
};
void hr_store_space(const struct hr_store *store, struct hr_store_space *space);

/*
 * Check both superblocks, both map copies, every record, overlaps, and with `data` the CRC-32C of
 * each object that has one, reading through buffer (buffer_bytes is a multiple of HR_PAGE; NULL
 * without data). report is called with one line per finding; those with `fault` are counted in *faults.
 * An object that cannot be read is a fault. A damaged superblock or map that is not in force is none
 * when a power cut leaves it so, because the next change to the store writes it anew: a map older
 * than the one in force, and a superblock that is torn between what it was and what it was to become.
 * Anything else no power cut explains: the last change may be lost, and that is a fault.
 * Returns 0, or the error that ended the check early (< 0: from the disk; -EINTR: stop asked for).
 */
struct hr_store_check {
	void (*report)(void *arg, bool fault, const char *line);
	/* NULL, or told of each piece of data checked; false ends the check. */
	bool (*progress)(void *arg, uint64_t bytes);
	void *arg;
	bool data;
	uint8_t *buffer;
	size_t buffer_bytes;
};
int hr_store_verify(struct hr_store *store, const struct hr_store_check *check, uint32_t *faults);

#endif
