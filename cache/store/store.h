/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/store/store.h - the object store of one ssd: contiguous extents by id and name, crash
 * safe.
 *
 * cache/store/FORMAT.md describes the format on disk. The namespace starts with a reserved area:
 * two superblocks and two map copies, used alternately. A commit writes the other map copy,
 * flushes, writes the other superblock (which names the map copy by generation and CRC-32C), and
 * flushes. So a power cut at any write leaves either the old map or the new one. All data from the
 * disk is checked before use.
 *
 * Host side; one thread at a time per store. Memory belongs to the caller; these functions never
 * allocate.
 *
 * Errors, besides those of nvme/blk.h: -ENOMEDIUM: blank disk (both superblocks are all zero);
 * -EMEDIUMTYPE: not a headrace store (foreign data); -EUCLEAN: the store is corrupt or truncated;
 * -EEXIST: the name is in use; -EBUSY: an incomplete object has that name; -ENOENT; -ENOSPC: no gap
 * is large enough; -ENFILE: the object map is full; -EROFS; -EOVERFLOW: generations or ids are used
 * up; -ESTALE: another writer; -EINVAL: invalid argument or name (1..63 bytes of printable ASCII
 * without '/').
 *
 * Errors of the disk, -EUCLEAN, -ENOSPC, -ENFILE, -EROFS, -EOVERFLOW and -ESTALE fill e. The others
 * are states of the disk or of a name, and only the caller knows whether they are errors; they do
 * not fill e.
 */
#ifndef CACHE_STORE_STORE_H
#define CACHE_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "nvme/blk.h"

#define HR_STORE_OBJECTS_MAX 16384u /* a map copy of 2 MiB */
#define HR_STORE_OBJECTS_DEFAULT 4096u
#define HR_STORE_SCRATCH (64u << 10) /* for power-on self-tests; never part of an object */
#define HR_STORE_ALIGN HR_PAGE	     /* alignment of every extent, in bytes */

enum hr_object_flags {
	HR_OBJECT_PENDING = 1, /* being written: only durable_bytes of the data are valid */
	HR_OBJECT_HAS_CRC = 2, /* crc covers the whole object; never with PENDING */
	HR_OBJECT_SHARD = 4,   /* shard is valid; only in a store of format version 2 */
};

#define HR_SHARDS_MAX 65536u  /* of a data set */
#define HR_SHARD_NAME_MAX 32u /* of the name of a shard, with NUL */

/* The rows of a data set that an object holds, of which other stores hold the rest. */
struct hr_store_shard {
	uint64_t first_row; /* its first row in the data set */
	uint64_t rows;	    /* of the data set */
	uint64_t set; /* the same in all shards of a data set, another one in other data sets */
	uint32_t row_bytes;
	uint16_t index, last; /* it is number `index` of the shards 0 .. last; last > 0 */
};

/* One object in the map. */
struct hr_store_object {
	uint64_t id; /* never used again after removal; 0: no object */
	union {
		char name[HR_NAME_MAX];
		struct {
			char shard_name[HR_SHARD_NAME_MAX]; /* the same string as name */
			struct hr_store_shard shard;
		};
	};
	uint64_t offset;	/* byte offset on the disk, HR_STORE_ALIGN aligned */
	uint64_t capacity;	/* bytes of the extent, multiple of HR_STORE_ALIGN */
	uint64_t bytes;		/* length of the data */
	uint64_t durable_bytes; /* prefix known to be durable; == bytes unless PENDING */
	/* chosen by the writer: only a run with this tag may resume a PENDING object */
	uint64_t tag;
	uint64_t created_ns; /* CLOCK_REALTIME; 0: the clock was before 1970 */
	uint32_t flags;
	/* With HAS_CRC: CRC-32C of the data. In a PENDING object: CRC-32C of the first
	 * durable_bytes, when the writer maintains it; the tag tells this to the writer. */
	uint32_t crc;
};

#define HR_STORE_PINS 32u

/* The extent of an object whose data are read, see hr_store_pin(). */
struct hr_store_pin {
	uint64_t id; /* 0: free */
	uint64_t offset, capacity;
	bool firm, lost;
};

struct hr_store {
	struct hr_blk *blk;
	uint8_t uuid[16];
	uint64_t generation; /* newest generation on disk */
	uint64_t next_id;
	/* size of the disk when it was formatted; the disk may be larger now */
	uint64_t disk_bytes;
	uint64_t map_offset[2];
	uint64_t data_offset, data_bytes; /* area for extents */
	uint64_t scratch_offset;	  /* HR_STORE_SCRATCH bytes */
	uint32_t capacity;		  /* objects the map can hold */
	uint32_t count;
	uint32_t active;		/* current map copy and superblock: 0 or 1 */
	uint32_t version[2];		/* format of both superblocks; 0: not valid */
	struct hr_store_object *object; /* [capacity], sorted by id; caller's memory */
	uint8_t *io;			/* hr_store_io_bytes(capacity); caller's memory */
	/* of both superblocks, as last read or written by this store */
	uint32_t page_crc[2];
	/* a write of that superblock failed: its contents are unknown */
	bool page_unknown[2];
	bool rehearsal; /* keep changes in memory: hr_store_rehearse() */
	bool stale;	/* another writer has changed the superblocks: no more writes */
	struct hr_store_pin pin[HR_STORE_PINS];
};

/* Memory that open and format need for a map of `capacity` objects. */
size_t hr_store_io_bytes(uint32_t capacity);

/*
 * Write an empty store over the whole disk. Unless force: -EEXIST when the disk already holds a
 * store, -EMEDIUMTYPE when its first 4 MiB or its last 64 KiB are not blank; nothing is written
 * then. -ENOSPC: disk too small. The store is not open afterwards.
 */
int hr_store_format(struct hr_blk *blk, uint32_t capacity, bool force, uint8_t *io,
		    struct hr_error *e);

/*
 * Read the capacity of the map on disk, so that the caller can allocate the memory for
 * hr_store_open(). Errors as hr_store_open().
 */
int hr_store_probe(struct hr_blk *blk, uint32_t *capacity, uint8_t page[HR_PAGE],
		   struct hr_error *e);

/*
 * *bytes: size of the store's own area at the start of the disk (superblocks, maps, scratch); 0
 * when no superblock is valid. Fails only on a read error.
 */
int hr_store_reserved(struct hr_blk *blk, uint64_t *bytes, uint8_t page[HR_PAGE],
		      struct hr_error *e);

/*
 * Open the newest valid superblock whose map is valid. When only the older one is, open it with a
 * warning. Writes nothing. object: [capacity], io: hr_store_io_bytes(capacity); both belong to the
 * caller and must remain valid while the store is in use. -EINVAL: the capacity of the map on disk
 * exceeds `capacity`.
 */
int hr_store_open(struct hr_store *store, struct hr_blk *blk, struct hr_store_object *object,
		  uint32_t capacity, uint8_t *io, struct hr_error *e);

/*
 * Find an object. The pointer is valid until the next change to the store. NULL: not found. A name
 * may belong to two objects: a finished one, which hr_store_find() returns, and a PENDING one that
 * will replace it, which hr_store_find_pending() returns.
 */
struct hr_store_object *hr_store_find(const struct hr_store *store, const char *name);
struct hr_store_object *hr_store_find_pending(const struct hr_store *store, const char *name);
struct hr_store_object *hr_store_find_id(const struct hr_store *store, uint64_t id);

/*
 * Changes. Each is one commit. On return it is durable, together with all earlier writes to the
 * disk. On error the store in memory is unchanged, and the disk holds the old or the new map.
 *
 * A commit reads both superblocks before it writes, and its own superblock afterwards. When a
 * superblock is not as this store has left it, another process or machine writes to the disk:
 * -ESTALE. The data of the other writer is not overwritten, and this store refuses all
 * further changes. This check only detects another writer; a reservation of the namespace prevents
 * one (nvme/reservation.h).
 */

/*
 * Make a PENDING object of `bytes` (may be 0) in the first gap that fits. *out as in
 * hr_store_find(). Without replace: -EEXIST when a finished object has the name, -EBUSY when a
 * PENDING one has. With replace: the same commit drops a PENDING object of that name; a finished
 * object keeps the name until hr_store_finish() of the new one drops it.
 */
int hr_store_create(struct hr_store *store, const char *name, uint64_t bytes, uint64_t tag,
		    bool replace, struct hr_store_object **out, struct hr_error *e);

/*
 * The same for a shard; NULL: an object that is no shard. In a store of format version 1 the store is
 * migrated to version 2 before, by hr_store_migrate(). -EINVAL: also when the name is longer than
 * that of a shard, or `bytes` are not the rows of a shard that lies in its data set.
 */
int hr_store_create_shard(struct hr_store *store, const char *name, uint64_t bytes, uint64_t tag,
			  bool replace, const struct hr_store_shard *shard,
			  struct hr_store_object **out, struct hr_error *e);

/* Set shard.set of a PENDING shard, whose writer knows it only at the end. -ENOENT; -EINVAL: no
 * PENDING shard. */
int hr_store_set_shard(struct hr_store *store, uint64_t id, uint64_t set, struct hr_error *e);

/*
 * Make a store of format version 1 one of version 2: two commits that change no object, one for each
 * superblock. So versions of headrace that know only version 1 never find an older map behind
 * one that they cannot read: they find the same objects, or refuse the store. Writes nothing to a
 * store of version 2.
 */
int hr_store_migrate(struct hr_store *store, struct hr_error *e);

/* True when `bytes` are whole rows of the shard, and lie in its data set. */
bool hr_store_shard_ok(const struct hr_store_shard *shard, uint64_t bytes);

/*
 * Record that a prefix of a PENDING object is durable. The same commit sets the tag, and crc as the
 * CRC-32C of that prefix (see struct hr_store_object). -EINVAL: less than before, or beyond the
 * object.
 */
int hr_store_progress(struct hr_store *store, uint64_t id, uint64_t durable_bytes, uint64_t tag,
		      uint32_t crc, struct hr_error *e);

/* The object is complete: clear PENDING, set the crc if has_crc, and drop a finished object of
 * the same name. -EINVAL: not PENDING. */
int hr_store_finish(struct hr_store *store, uint64_t id, bool has_crc, uint32_t crc,
		    struct hr_error *e);

/*
 * The same, but older versions of the object stay: the finished object NAME becomes NAME.1, that
 * one NAME.2 and so on, up to `keep` versions with the new one (1..HR_VERSIONS_MAX); the oldest
 * one beyond that is dropped. All in one commit: before it all older versions are there, after it
 * the new one is whole. Versions keep their ids. -EINVAL: also when the name of a version would be
 * too long;
 * -EEXIST: hr_store_foreign_version().
 */
int hr_store_finish_version(struct hr_store *store, uint64_t id, bool has_crc, uint32_t crc,
			    uint32_t keep, struct hr_error *e);

/* The same for an object whose writer has ended it before its announced length: it has `bytes` now, and
 * its other space is free. -EINVAL: also when it has fewer bytes. */
int hr_store_finish_at(struct hr_store *store, uint64_t id, uint64_t bytes, bool has_crc,
		       uint32_t crc, uint32_t keep, struct hr_error *e);

/* An object that has the name of an older version, and that no run has made (tag 0); NULL: none. */
const struct hr_store_object *hr_store_foreign_version(const struct hr_store *store,
						       const char *name, uint32_t keep);

/* Set the checksum of a finished object whose data have changed; without has_crc it has none any more,
 * because they are going to change. Nothing is written when that is so already. -ENOENT; -EINVAL:
 * PENDING. */
int hr_store_set_crc(struct hr_store *store, uint64_t id, bool has_crc, uint32_t crc,
		     struct hr_error *e);

/*
 * Give a finished object another name: in one commit, with the same id and data. With replace the
 * commit drops a finished object of that name; a PENDING one of that name stays. -ENOENT; -EEXIST:
 * without replace; -EINVAL: PENDING, its own name, or a name that it cannot have.
 */
int hr_store_rename(struct hr_store *store, uint64_t id, const char *name, bool replace,
		    struct hr_error *e);

/* Remove an object, PENDING or not. Its space is free after that: when the commit is durable, the disk
 * is told that it needs the data no more (struct hr_blk_ops, trim), except what a pin holds. So do
 * hr_store_remove_some(), and hr_store_rename() with the object that it drops. */
int hr_store_remove(struct hr_store *store, uint64_t id, struct hr_error *e);

/* Text of an error of these functions, for a message. buffer is used for errors of the disk. */
const char *hr_store_error_name(int error, char *buffer, unsigned bytes);

/* Remove all objects for which wanted() is true, in one commit. When there are none, nothing is
 * written. *count: number of removed objects; *bytes: sum of their extents. */
int hr_store_remove_some(struct hr_store *store,
			 bool (*wanted)(void *arg, const struct hr_store_object *object), void *arg,
			 uint32_t *count, uint64_t *bytes, struct hr_error *e);

/*
 * Pins: while an object is pinned, no new object gets its extent, also after the object was removed
 * or replaced. So a reader reads one whole version. A pin exists in memory only, and changes
 * nothing on the disk. When a new object fits nowhere else, it gets space of pins that are not
 * firm, and these pins are lost; the space of a firm pin is never given away.
 *
 * pin: 0, with the number of the pin in *pin; -ENOENT: no such object; -ENFILE: HR_STORE_PINS are
 * in use. is_pinned: false when the pin is lost; what was read before is whole. unpin: ends a pin,
 * also a lost one.
 */
int hr_store_pin(struct hr_store *store, uint64_t id, bool firm, uint32_t *pin);
bool hr_store_is_pinned(const struct hr_store *store, uint32_t pin);
void hr_store_unpin(struct hr_store *store, uint32_t pin);

/*
 * Make a copy of the store whose changes stay in memory, to test changes before they are made.
 * object: [store->capacity], io: hr_store_io_bytes(store->capacity); both belong to the caller and
 * must remain valid while the copy is in use. Objects have the same ids in both, also objects that
 * are made later.
 */
void hr_store_rehearse(struct hr_store *copy, const struct hr_store *store,
		       struct hr_store_object *object, uint8_t *io);

struct hr_store_space {
	uint64_t total, used, largest_gap; /* bytes */
	uint64_t pending;		   /* bytes of `used` that PENDING objects hold */
	uint32_t objects, capacity, pending_objects;
};
void hr_store_space(const struct hr_store *store, struct hr_store_space *space);

#endif
