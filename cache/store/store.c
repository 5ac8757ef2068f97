/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/base/bytes.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "cache/crc32c.h"
#include "cache/store/disk.h"

#define BLANK_HEAD (4ull << 20) /* bytes that format reads before it writes */
#define BLANK_TAIL (64ull << 10)

size_t hr_store_io_bytes(uint32_t capacity)
{
	return HR_PAGE + hr_store_round(capacity * sizeof(struct hr_store_object), HR_PAGE) +
	       hr_store_round(capacity * sizeof(uint16_t), HR_PAGE);
}

static int write_superblock(struct hr_blk *blk, unsigned super, struct hr_superblock *page,
			    const struct hr_superblock_head *head, struct hr_error *e)
{
	int err;

	memset(page, 0, sizeof(*page));
	page->head = *head;
	page->crc = hr_crc32c(0, page, offsetof(struct hr_superblock, crc));
	err = blk->ops->write(blk, super * (uint64_t)HR_PAGE, page, sizeof(*page), false, e);
	return err ? err : blk->ops->flush(blk, e);
}

/* ---- format */

static int expect_blank(struct hr_blk *blk, uint64_t from, uint64_t to, uint8_t *io,
			size_t io_bytes, struct hr_error *e)
{
	while (from < to) {
		const size_t bytes = to - from < io_bytes ? (size_t)(to - from) : io_bytes;
		const int err = blk->ops->read(blk, from, io, bytes, e);

		if (err)
			return err;
		if (!hr_is_zero(io, bytes))
			return -EMEDIUMTYPE;
		from += bytes;
	}
	return 0;
}

/* Check that the disk holds no store and no other data. */
static int expect_unused(struct hr_blk *blk, const struct hr_superblock_state super[2], uint8_t *io,
			 size_t io_bytes, struct hr_error *e)
{
	const uint64_t head = blk->bytes < BLANK_HEAD ? blk->bytes : BLANK_HEAD;
	const uint64_t tail = blk->bytes < BLANK_TAIL ? 0 : blk->bytes - BLANK_TAIL;
	int err;

	for (unsigned i = 0; i < 2; i++)
		if (super[i].err == 0 || super[i].err == -EUCLEAN)
			return -EEXIST;
	err = expect_blank(blk, 0, head, io, io_bytes, e);
	return err ? err : expect_blank(blk, tail, blk->bytes, io, io_bytes, e);
}

/* Erase the older superblock first. Then a power cut leaves either the old store or no store. */
static int erase_superblocks(struct hr_blk *blk, const struct hr_superblock_state super[2],
			     uint8_t *page, struct hr_error *e)
{
	const bool first_newer =
		!super[0].err &&
		(super[1].err || super[0].head.generation > super[1].head.generation);
	int err = 0;

	memset(page, 0, HR_PAGE);
	for (unsigned i = 0; !err && i < 2; i++) {
		const uint64_t at = (first_newer ? 1 - i : i) * (uint64_t)HR_PAGE;

		err = blk->ops->write(blk, at, page, HR_PAGE, false, e);
		if (!err)
			err = blk->ops->flush(blk, e);
	}
	return err;
}

/* The head is all zero before. */
static int fill_head(struct hr_superblock_head *head, const struct hr_store_layout *layout,
		     uint64_t disk_bytes, uint32_t capacity, struct hr_error *e)
{
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
	if (hr_random(head->uuid, sizeof(head->uuid)) == 0)
		return 0;
	return hr_fail(e, HR_ERROR_FAILED, -EIO,
		       "the kernel has no random numbers for the UUID of the object store");
}

int hr_store_format(struct hr_blk *blk, uint32_t capacity, bool force, uint8_t *io,
		    struct hr_error *e)
{
	struct hr_superblock_head head = { 0 };
	struct hr_store_layout layout;
	struct hr_superblock_state super[2];
	int err = hr_store_lay_out(&layout, blk->bytes, capacity);

	if (err == -ENOSPC)
		hr_fail(e, HR_ERROR_FAILED, err,
			"%s: %" PRIu64 " bytes are too few for a store of %u objects: its data "
			"would start at %" PRIu64,
			blk->name, blk->bytes, capacity, layout.data_offset);
	if (!err)
		err = hr_store_read_superblocks(blk, io, super, e);
	if (!err && !force)
		err = expect_unused(blk, super, io, hr_store_io_bytes(capacity), e);
	if (!err && blk->read_only)
		err = hr_fail(e, HR_ERROR_MISSING, -EROFS,
			      "%s: cannot format: the disk is read-only", blk->name);
	if (!err)
		err = fill_head(&head, &layout, blk->bytes, capacity, e);
	if (!err)
		err = erase_superblocks(blk, super, io, e);
	return err ? err : write_superblock(blk, 0, (struct hr_superblock *)(void *)io, &head, e);
}

/* ---- open */

int hr_store_reserved(struct hr_blk *blk, uint64_t *bytes, uint8_t page[HR_PAGE],
		      struct hr_error *e)
{
	struct hr_superblock_state super[2];
	const int err = hr_store_read_superblocks(blk, page, super, e);

	*bytes = 0;
	for (unsigned i = 0; !err && i < 2; i++)
		if (!super[i].err)
			*bytes = super[i].head.data_offset;
	return err;
}

int hr_store_probe(struct hr_blk *blk, uint32_t *capacity, uint8_t page[HR_PAGE],
		   struct hr_error *e)
{
	struct hr_superblock_state super[2];
	int newest, err = hr_store_read_superblocks(blk, page, super, e);

	if (err)
		return err;
	newest = hr_store_newest(blk, super, &err, e);
	if (newest < 0)
		return err;
	*capacity = super[newest].head.capacity;
	return 0;
}

static void keep_first(void *arg, const char *line)
{
	char *why = arg;

	if (!*why)
		snprintf(why, HR_STORE_LINE, "%s", line);
}

/* Read and check the map copy of a valid superblock. */
static int load_map(struct hr_store *store, struct hr_superblock_state *super, struct hr_error *e)
{
	struct hr_store_findings findings = { keep_first, super->why };
	struct hr_store_object *map = hr_store_io_map(store);
	int err = hr_store_read_map(store->blk, &super->head, (uint8_t *)map, super->why, e);

	if (err)
		return err;
	super->why[0] = '\0';
	if (hr_store_check_objects(&super->head, map, hr_store_io_order(store), &findings) != 0)
		return -EUCLEAN;
	memcpy(store->object, map, super->head.count * sizeof(*map));
	return 0;
}

static void adopt(struct hr_store *store, const struct hr_superblock_state super[2],
		  unsigned active)
{
	const struct hr_superblock_head *head = &super[active].head;
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
	store->page_crc[0] = super[0].page_crc;
	store->page_crc[1] = super[1].page_crc;
	for (unsigned i = 0; i < 2; i++)
		store->version[i] = super[i].err ? 0 : super[i].head.version;
}

/* Continue after the numbers of a newer generation whose map is lost, so that they are not used
 * twice. */
static void continue_counters(struct hr_store *store, const struct hr_superblock_head *other)
{
	if (other->generation > store->generation)
		store->generation = other->generation;
	if (other->next_id > store->next_id)
		store->next_id = other->next_id;
}

static void warn_of_other(const struct hr_store *store, const struct hr_superblock_state *other)
{
	if (other->err && other->err != -ENOMEDIUM)
		hr_warn("%s: object map copy %u: %s; using copy %u", store->blk->name,
			1 - store->active, other->why, store->active);
}

int hr_store_open(struct hr_store *store, struct hr_blk *blk, struct hr_store_object *object,
		  uint32_t capacity, uint8_t *io, struct hr_error *e)
{
	struct hr_superblock_state super[2];
	bool valid[2];
	int i, err = hr_store_read_superblocks(blk, io, super, e);

	if (err)
		return err;
	memset(store, 0, sizeof(*store));
	store->blk = blk;
	store->object = object;
	store->io = io;
	valid[0] = !super[0].err;
	valid[1] = !super[1].err;
	while ((i = hr_store_newest(blk, super, &err, e)) >= 0) {
		if (super[i].head.capacity > capacity)
			return -EINVAL;
		store->capacity = super[i].head.capacity;
		err = load_map(store, &super[i], e);
		if (err && err != -EUCLEAN)
			return err;
		if (!err) {
			adopt(store, super, (unsigned)i);
			if (valid[1 - i])
				continue_counters(store, &super[1 - i].head);
			warn_of_other(store, &super[1 - i]);
			return 0;
		}
		super[i].err = err;
	}
	return err;
}

/* ---- commit */

/* Check that superblock i has the contents that this store read or wrote last. 0, -ESTALE, or an
 * error of the disk. */
static int expect_unchanged(struct hr_store *store, unsigned i, bool ours, struct hr_error *e)
{
	uint8_t *page = hr_store_io_page(store);
	int err;

	if (store->stale)
		return hr_fail_known(e, HR_ERROR_FAILED, -ESTALE,
				     "%s: another process or machine has written to this disk",
				     store->blk->name);
	if (store->page_unknown[i])
		return 0;
	err = store->blk->ops->read(store->blk, i * (uint64_t)HR_PAGE, page, HR_PAGE, e);
	if (err || hr_store_page_crc(page) == store->page_crc[i])
		return err;
	store->stale = true;
	return hr_fail(
		e, HR_ERROR_FAILED, -ESTALE,
		"%s: superblock %u is not the one that this process has %s (generation %" PRIu64
		"): another process or machine writes to this disk; %s",
		store->blk->name, i, ours ? "just written" : "seen", store->generation,
		ours ? "this commit may be lost"
		     : "its data is not overwritten, and this store refuses further commits");
}

/* Write the superblock of a new map, as the last step of a commit. */
static int write_current_superblock(struct hr_store *store, unsigned i,
				    const struct hr_superblock_head *head, struct hr_error *e)
{
	struct hr_superblock *page = (struct hr_superblock *)(void *)hr_store_io_page(store);
	int err;

	store->page_unknown[i] = true;
	err = write_superblock(store->blk, i, page, head, e);
	if (err)
		return err;
	store->page_crc[i] = hr_store_page_crc(hr_store_io_page(store));
	store->page_unknown[i] = false;
	return expect_unchanged(store, i, true, e);
}

static int write_map(struct hr_store *store, uint64_t offset, uint32_t count, struct hr_error *e)
{
	uint8_t *map = (uint8_t *)hr_store_io_map(store);
	const size_t used = count * sizeof(struct hr_store_object);
	const size_t bytes = hr_store_round(used, HR_PAGE);
	int err = 0;

	memset(map + used, 0, bytes - used);
	if (bytes)
		err = store->blk->ops->write(store->blk, offset, map, bytes, false, e);
	return err ? err : store->blk->ops->flush(store->blk, e);
}

/* Make the prepared map the store's map in memory. */
static void install_map(struct hr_store *store, const struct hr_superblock_head *head,
			unsigned active)
{
	memcpy(store->object, hr_store_io_map(store), head->count * sizeof(*store->object));
	store->count = head->count;
	store->generation = head->generation;
	store->next_id = head->next_id;
	store->active = active;
	store->version[active] = head->version;
}

void hr_store_rehearse(struct hr_store *copy, const struct hr_store *store,
		       struct hr_store_object *object, uint8_t *io)
{
	*copy = *store;
	copy->object = object;
	copy->io = io;
	copy->rehearsal = true;
	memcpy(object, store->object, store->count * sizeof(*object));
}

static int commit_map(struct hr_store *store, uint32_t count, uint64_t next_id, uint32_t version,
		      struct hr_error *e)
{
	struct hr_store_object *map = hr_store_io_map(store);
	const size_t used = count * sizeof(*map);
	const unsigned other = 1 - store->active;
	struct hr_superblock_head head = {
		.magic = HR_STORE_MAGIC,
		.version = version,
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

	if (store->blk->read_only)
		return hr_fail(e, HR_ERROR_MISSING, -EROFS,
			       "%s: cannot change the object map: the disk is read-only",
			       store->blk->name);
	if (head.generation > HR_STORE_COUNTER_MAX || next_id > HR_STORE_COUNTER_MAX)
		return hr_fail(e, HR_ERROR_FAILED, -EOVERFLOW,
			       "%s: cannot change the object map any more: generation %" PRIu64
			       ", next id %" PRIu64
			       " are the last; read the objects and format it anew",
			       store->blk->name, store->generation, store->next_id);
	memcpy(head.uuid, store->uuid, sizeof(head.uuid));
	if (store->rehearsal) {
		install_map(store, &head, other);
		return 0;
	}
	err = expect_unchanged(store, 0, false, e);
	if (!err)
		err = expect_unchanged(store, 1, false, e);
	if (!err)
		err = write_map(store, head.map_offset, count, e);
	if (!err)
		err = write_current_superblock(store, other, &head, e);
	if (err)
		return err;
	install_map(store, &head, other);
	return 0;
}

int hr_store_commit(struct hr_store *store, uint32_t count, uint64_t next_id, struct hr_error *e)
{
	return commit_map(store, count, next_id, store->version[store->active], e);
}

int hr_store_migrate(struct hr_store *store, struct hr_error *e)
{
	int err = 0;

	while (!err && (store->version[0] == HR_STORE_VERSION_MIN ||
			store->version[1] == HR_STORE_VERSION_MIN)) {
		memcpy(hr_store_io_map(store), store->object,
		       store->count * sizeof(*store->object));
		err = commit_map(store, store->count, store->next_id, HR_STORE_VERSION, e);
	}
	return err;
}
