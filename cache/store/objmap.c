#include "cache/store/objmap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "config/log.h"
#include "cache/crc32c.h"
#include "cache/store/objmap_disk.h"

#define BLANK_HEAD (4ull << 20) /* what format looks at before it writes */
#define BLANK_TAIL (64ull << 10)

size_t hr_store_io_bytes(uint32_t capacity)
{
	return HR_PAGE + hr_store_round(capacity * sizeof(struct hr_object), HR_PAGE) +
	       hr_store_round(capacity * sizeof(uint16_t), HR_PAGE);
}

static int write_superblock(struct hr_blk *blk, unsigned slot, struct hr_superblock *page,
			    const struct hr_superblock_head *head)
{
	int err;

	memset(page, 0, sizeof(*page));
	page->head = *head;
	page->crc = hr_crc32c(0, page, offsetof(struct hr_superblock, crc));
	err = blk->ops->write(blk, slot * (uint64_t)HR_PAGE, page, sizeof(*page), false);
	return err ? err : blk->ops->flush(blk);
}

/* ---- format */

static bool is_zero(const uint8_t *data, size_t bytes)
{
	return bytes == 0 || (data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0);
}

static int expect_blank(struct hr_blk *blk, uint64_t from, uint64_t to, uint8_t *io,
			size_t io_bytes)
{
	while (from < to) {
		const size_t bytes = to - from < io_bytes ? (size_t)(to - from) : io_bytes;
		const int err = blk->ops->read(blk, from, io, bytes);

		if (err)
			return err;
		if (!is_zero(io, bytes))
			return -EMEDIUMTYPE;
		from += bytes;
	}
	return 0;
}

/* Neither a store nor anything else is on the disk. */
static int expect_unused(struct hr_blk *blk, const struct hr_store_slot slot[2], uint8_t *io,
			 size_t io_bytes)
{
	const uint64_t head = blk->bytes < BLANK_HEAD ? blk->bytes : BLANK_HEAD;
	const uint64_t tail = blk->bytes < BLANK_TAIL ? 0 : blk->bytes - BLANK_TAIL;
	int err;

	for (unsigned i = 0; i < 2; i++)
		if (slot[i].err == 0 || slot[i].err == -EUCLEAN)
			return -EEXIST;
	err = expect_blank(blk, 0, head, io, io_bytes);
	return err ? err : expect_blank(blk, tail, blk->bytes, io, io_bytes);
}

/* Erase the older superblock first: a power cut leaves the old store as it was, or none. */
static int erase_superblocks(struct hr_blk *blk, const struct hr_store_slot slot[2], uint8_t *page)
{
	const bool first_newer =
		!slot[0].err && (slot[1].err || slot[0].head.generation > slot[1].head.generation);
	int err = 0;

	memset(page, 0, HR_PAGE);
	for (unsigned i = 0; !err && i < 2; i++) {
		const uint64_t at = (first_newer ? 1 - i : i) * (uint64_t)HR_PAGE;

		err = blk->ops->write(blk, at, page, HR_PAGE, false);
		if (!err)
			err = blk->ops->flush(blk);
	}
	return err;
}

static int fill_head(struct hr_superblock_head *head, const struct hr_store_layout *layout,
		     uint64_t disk_bytes, uint32_t capacity)
{
	memset(head, 0, sizeof(*head));
	memcpy(head->magic, HR_STORE_MAGIC, sizeof(head->magic));
	head->version = HR_STORE_VERSION;
	head->capacity = capacity;
	head->generation = 1;
	head->next_id = 1;
	head->disk_bytes = disk_bytes;
	head->map_offset = layout->map_offset[0];
	head->scratch_offset = layout->scratch_offset;
	head->data_offset = layout->data_offset;
	head->data_bytes = layout->data_bytes;
	return getrandom(head->uuid, sizeof(head->uuid), 0) == (ssize_t)sizeof(head->uuid) ? 0
											   : -EIO;
}

int hr_store_format(struct hr_blk *blk, uint32_t capacity, bool force, uint8_t *io)
{
	struct hr_superblock_head head = { 0 };
	struct hr_store_layout layout;
	struct hr_store_slot slot[2];
	int err = hr_store_lay_out(&layout, blk->bytes, capacity);

	if (err == -ENOSPC)
		hr_error("%s: %" PRIu64 " bytes are too few for a store of %u objects: its data "
			 "would start at %" PRIu64,
			 blk->name, blk->bytes, capacity, layout.data_offset);
	if (!err)
		err = hr_store_read_slots(blk, io, slot);
	if (!err && !force)
		err = expect_unused(blk, slot, io, hr_store_io_bytes(capacity));
	if (!err && blk->read_only) {
		hr_error("%s: cannot be formatted: the disk is read-only", blk->name);
		err = -EROFS;
	}
	if (!err)
		err = fill_head(&head, &layout, blk->bytes, capacity);
	if (!err)
		err = erase_superblocks(blk, slot, io);
	return err ? err : write_superblock(blk, 0, (struct hr_superblock *)(void *)io, &head);
}

/* ---- open */

int hr_store_reserved(struct hr_blk *blk, uint64_t *bytes, uint8_t page[HR_PAGE])
{
	struct hr_store_slot slot[2];
	const int err = hr_store_read_slots(blk, page, slot);

	*bytes = 0;
	for (unsigned i = 0; !err && i < 2; i++)
		if (!slot[i].err)
			*bytes = slot[i].head.data_offset;
	return err;
}

int hr_store_probe(struct hr_blk *blk, uint32_t *capacity, uint8_t page[HR_PAGE])
{
	struct hr_store_slot slot[2];
	int newest, err = hr_store_read_slots(blk, page, slot);

	if (err)
		return err;
	newest = hr_store_newest(blk, slot, &err);
	if (newest < 0)
		return err;
	*capacity = slot[newest].head.capacity;
	return 0;
}

static void keep_first(void *arg, const char *line)
{
	char *why = arg;

	if (!*why)
		snprintf(why, HR_STORE_LINE, "%s", line);
}

/* Read and check the map copy of a superblock that is valid itself. */
static int load(struct hr_store *store, struct hr_store_slot *slot)
{
	struct hr_store_sink sink = { keep_first, slot->why };
	struct hr_object *map = hr_store_io_map(store);
	int err = hr_store_read_map(store->blk, &slot->head, (uint8_t *)map, slot->why);

	if (err)
		return err;
	slot->why[0] = '\0';
	if (hr_store_check_objects(&slot->head, map, hr_store_io_order(store), &sink) != 0)
		return -EUCLEAN;
	memcpy(store->object, map, slot->head.count * sizeof(*map));
	return 0;
}

static void adopt(struct hr_store *store, const struct hr_store_slot slot[2], unsigned active)
{
	const struct hr_superblock_head *head = &slot[active].head;
	struct hr_store_layout layout;

	(void)hr_store_lay_out(&layout, head->disk_bytes, head->capacity);
	memcpy(store->uuid, head->uuid, sizeof(store->uuid));
	store->generation = head->generation;
	store->next_id = head->next_id;
	store->disk_bytes = head->disk_bytes;
	store->data_offset = head->data_offset;
	store->data_bytes = head->data_bytes;
	store->scratch_offset = head->scratch_offset;
	memcpy(store->map_offset, layout.map_offset, sizeof(store->map_offset));
	store->count = head->count;
	store->active = active;
	store->page_crc[0] = slot[0].page_crc;
	store->page_crc[1] = slot[1].page_crc;
}

/* Numbers of a newer generation whose map is lost are not used again either. */
static void outbid(struct hr_store *store, const struct hr_superblock_head *other)
{
	if (other->generation > store->generation)
		store->generation = other->generation;
	if (other->next_id > store->next_id)
		store->next_id = other->next_id;
}

static void warn_of_other(const struct hr_store *store, const struct hr_store_slot *other)
{
	if (other->err && other->err != -ENOMEDIUM)
		hr_warn("%s: object map copy %u: %s; using copy %u", store->blk->name,
			1 - store->active, other->why, store->active);
}

int hr_store_open(struct hr_store *store, struct hr_blk *blk, struct hr_object *object,
		  uint32_t capacity, uint8_t *io)
{
	struct hr_store_slot slot[2];
	bool valid[2];
	int i, err = hr_store_read_slots(blk, io, slot);

	if (err)
		return err;
	memset(store, 0, sizeof(*store));
	store->blk = blk;
	store->object = object;
	store->io = io;
	valid[0] = !slot[0].err;
	valid[1] = !slot[1].err;
	while ((i = hr_store_newest(blk, slot, &err)) >= 0) {
		if (slot[i].head.capacity > capacity)
			return -EINVAL;
		store->capacity = slot[i].head.capacity;
		err = load(store, &slot[i]);
		if (err && err != -EUCLEAN)
			return err;
		if (!err) {
			adopt(store, slot, (unsigned)i);
			if (valid[1 - i])
				outbid(store, &slot[1 - i].head);
			warn_of_other(store, &slot[1 - i]);
			return 0;
		}
		slot[i].err = err;
	}
	return err;
}

/* ---- commit */

/* Superblock i is as this store has left it. 0, -ESTALE (logged once), or an error of the disk. */
static int expect_ours(struct hr_store *store, unsigned i, bool ours)
{
	uint8_t *page = hr_store_io_page(store);
	int err;

	if (store->stale)
		return -ESTALE;
	if (store->page_unknown[i])
		return 0;
	err = store->blk->ops->read(store->blk, i * (uint64_t)HR_PAGE, page, HR_PAGE);
	if (err || hr_store_page_crc(page) == store->page_crc[i])
		return err;
	store->stale = true;
	hr_error("%s: superblock %u is not the one that this process has %s (generation %" PRIu64
		 "): another process or machine writes to this disk; %s",
		 store->blk->name, i, ours ? "just written" : "seen", store->generation,
		 ours ? "what was to be committed may be lost"
		      : "nothing of it is overwritten, and nothing is committed any more");
	return -ESTALE;
}

/* The superblock that puts a new map in force, as the last of a commit. */
static int put_in_force(struct hr_store *store, unsigned i, const struct hr_superblock_head *head)
{
	struct hr_superblock *page = (struct hr_superblock *)(void *)hr_store_io_page(store);
	int err;

	store->page_unknown[i] = true;
	err = write_superblock(store->blk, i, page, head);
	if (err)
		return err;
	store->page_crc[i] = hr_store_page_crc(hr_store_io_page(store));
	store->page_unknown[i] = false;
	return expect_ours(store, i, true);
}

static int write_map(struct hr_store *store, uint64_t offset, uint32_t count)
{
	uint8_t *map = (uint8_t *)hr_store_io_map(store);
	const size_t used = count * sizeof(struct hr_object);
	const size_t bytes = hr_store_round(used, HR_PAGE);
	int err = 0;

	memset(map + used, 0, bytes - used);
	if (bytes)
		err = store->blk->ops->write(store->blk, offset, map, bytes, false);
	return err ? err : store->blk->ops->flush(store->blk);
}

/* The map that was prepared is the store's from here on. */
static void take_over(struct hr_store *store, const struct hr_superblock_head *head,
		      unsigned active)
{
	memcpy(store->object, hr_store_io_map(store), head->count * sizeof(*store->object));
	store->count = head->count;
	store->generation = head->generation;
	store->next_id = head->next_id;
	store->active = active;
}

void hr_store_rehearse(struct hr_store *copy, const struct hr_store *store,
		       struct hr_object *object, uint8_t *io)
{
	*copy = *store;
	copy->object = object;
	copy->io = io;
	copy->rehearsal = true;
	memcpy(object, store->object, store->count * sizeof(*object));
}

int hr_store_commit(struct hr_store *store, uint32_t count, uint64_t next_id)
{
	struct hr_object *map = hr_store_io_map(store);
	const size_t used = count * sizeof(*map);
	const unsigned other = 1 - store->active;
	struct hr_superblock_head head = {
		.magic = HR_STORE_MAGIC,
		.version = HR_STORE_VERSION,
		.capacity = store->capacity,
		.generation = store->generation + 1,
		.next_id = next_id,
		.disk_bytes = store->disk_bytes,
		.map_offset = store->map_offset[other],
		.scratch_offset = store->scratch_offset,
		.data_offset = store->data_offset,
		.data_bytes = store->data_bytes,
		.count = count,
		.map_crc = hr_crc32c(0, map, used),
	};
	int err;

	if (store->blk->read_only) {
		hr_error("%s: the object map cannot be changed: the disk is read-only",
			 store->blk->name);
		return -EROFS;
	}
	if (head.generation > HR_STORE_COUNTER_MAX || next_id > HR_STORE_COUNTER_MAX) {
		hr_error("%s: the object map cannot be changed any more: generation %" PRIu64
			 ", next id %" PRIu64 " are the last; read the objects and format it anew",
			 store->blk->name, store->generation, store->next_id);
		return -EOVERFLOW;
	}
	memcpy(head.uuid, store->uuid, sizeof(head.uuid));
	if (store->rehearsal) {
		take_over(store, &head, other);
		return 0;
	}
	err = expect_ours(store, 0, false);
	if (!err)
		err = expect_ours(store, 1, false);
	if (!err)
		err = write_map(store, head.map_offset, count);
	if (!err)
		err = put_in_force(store, other, &head);
	if (err)
		return err;
	take_over(store, &head, other);
	return 0;
}
