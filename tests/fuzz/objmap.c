/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the first part of a disk is opened as an object store, listed and verified without a
 * write. Then the store is changed, and each object and map must lie in its permitted range.
 *
 * Input: one byte of flags, then the disk from byte 0 (zeroes behind), or with COMPACT: the heads of
 * both superblocks, then the records of both maps, which are copied to their places. LAID_OUT corrects
 * all fields except generation, next_id and count; SIGNED corrects the checksums.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/crc32c.h"
#include "cache/store/store.h"
#include "cache/store/verify.h"
#include "cache/store/disk.h"
#include "tests/fakes/log.h"

#define SIGNED 1u
#define COMPACT 2u
#define LAID_OUT 4u
#define SMALL_BLOCKS 8u

#define OBJECTS 8u
#define MAPS_END (4u * HR_PAGE) /* of a store of OBJECTS objects */
#define DISK_BYTES (HR_STORE_DATA_ALIGN + 64u * HR_PAGE)
#define IMAGE_BYTES (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t image[IMAGE_BYTES] __attribute__((aligned(HR_PAGE)));
static bool writable;

static int disk_read(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		     struct hr_error *e)
{
	const uint64_t in_image = offset < IMAGE_BYTES ? IMAGE_BYTES - offset : 0;
	const size_t known = in_image < bytes ? (size_t)in_image : bytes;

	if (offset > blk->bytes || bytes > blk->bytes - offset ||
	    (offset | bytes) & (blk->block_bytes - 1))
		abort();
	if (known)
		memcpy(data, image + offset, known);
	memset((uint8_t *)data + known, 0, bytes - known);
	return 0;
}

static int disk_write(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes, bool fua,
		      struct hr_error *e)
{
	if (!writable || offset + bytes > MAPS_END || offset + bytes > blk->bytes)
		abort();
	memcpy(image + offset, data, bytes); /* a change reads the result of the one before */
	return 0;
}

static int disk_flush(struct hr_blk *blk, struct hr_error *e)
{
	return 0;
}

static struct hr_superblock *superblock(unsigned i)
{
	return (struct hr_superblock *)(void *)(image + (size_t)i * HR_PAGE);
}

static uint8_t *map(unsigned i)
{
	return image + (size_t)(2 + i) * HR_PAGE;
}

/* Take up to `bytes` of the input to `to`. */
static void take(const uint8_t **data, size_t *left, void *to, size_t bytes)
{
	const size_t n = *left < bytes ? *left : bytes;

	memcpy(to, *data, n);
	*data += n;
	*left -= n;
}

static void lay_out(unsigned i)
{
	struct hr_superblock_head *head = &superblock(i)->head;
	struct hr_store_layout layout;

	if (hr_store_lay_out(&layout, DISK_BYTES, OBJECTS) != 0)
		abort();
	memcpy(head->magic, HR_STORE_MAGIC, sizeof(head->magic));
	memset(head->uuid, 7, sizeof(head->uuid));
	head->version = HR_STORE_VERSION;
	head->capacity = OBJECTS;
	head->disk_bytes = DISK_BYTES;
	head->map_offset = layout.map_offset[i];
	head->scratch_offset = layout.scratch_offset;
	head->data_offset = layout.data_offset;
	head->data_bytes = layout.data_bytes;
	head->count %= OBJECTS + 1;
}

static void sign(unsigned i)
{
	struct hr_superblock *s = superblock(i);
	const uint32_t count = s->head.count <= OBJECTS ? s->head.count : OBJECTS;

	s->head.map_crc = hr_crc32c(0, map(i), count * sizeof(struct hr_store_object));
	s->crc = hr_crc32c(0, s, offsetof(struct hr_superblock, crc));
}

static void make_image(unsigned flags, const uint8_t *data, size_t bytes)
{
	memset(image, 0, sizeof(image));
	if (flags & COMPACT) {
		for (unsigned i = 0; i < 2; i++)
			take(&data, &bytes, superblock(i), sizeof(struct hr_superblock_head));
		for (unsigned i = 0; i < 2; i++)
			take(&data, &bytes, map(i), OBJECTS * sizeof(struct hr_store_object));
	} else {
		take(&data, &bytes, image, sizeof(image));
	}
	for (unsigned i = 0; i < 2; i++) {
		if (flags & LAID_OUT)
			lay_out(i);
		if (flags & SIGNED)
			sign(i);
	}
}

static void ignore_line(void *arg, bool fault, const char *line)
{
	if (strlen(line) > HR_STORE_LINE + HR_NAME_MAX)
		abort();
}

/* An opened store must have all properties of the format. The check is quadratic on purpose. */
static void expect_sound(const struct hr_store *store)
{
	for (uint32_t i = 0; i < store->count; i++) {
		const struct hr_store_object *a = &store->object[i];

		if (!hr_store_name_ok(a->name, sizeof(a->name)) || a->id == 0 ||
		    a->id >= store->next_id || a->bytes > a->capacity ||
		    a->offset < store->data_offset ||
		    a->capacity > store->data_bytes - (a->offset - store->data_offset))
			abort();
		for (uint32_t j = i + 1; j < store->count; j++) {
			const struct hr_store_object *b = &store->object[j];

			if (a->offset < b->offset + b->capacity &&
			    b->offset < a->offset + a->capacity && a->capacity && b->capacity)
				abort();
		}
		if (hr_store_find_id(store, a->id) != a)
			abort();
		if (!hr_store_find(store, a->name) && !hr_store_find_pending(store, a->name))
			abort();
	}
}

static void look_through(struct hr_store *store)
{
	static uint8_t buffer[2 * HR_PAGE] __attribute__((aligned(HR_PAGE)));
	const struct hr_store_check check = { .report = ignore_line,
					      .data = true,
					      .buffer = buffer,
					      .buffer_bytes = sizeof(buffer) };
	struct hr_store_space space;
	uint32_t faults;

	expect_sound(store);
	hr_store_space(store, &space);
	if (space.used > space.total || space.largest_gap > space.total - space.used)
		abort();
	if (hr_store_verify(store, &check, &faults, NULL) != 0)
		abort();
}

static void change(struct hr_store *store)
{
	struct hr_store_object *object;

	writable = true;
	if (hr_store_create(store, "fuzz", 3 * HR_PAGE, 0, true, &object, NULL) == 0) {
		expect_sound(store);
		if (hr_store_finish(store, object->id, false, 0, NULL) != 0)
			abort();
	}
	while (store->count) {
		expect_sound(store);
		if (hr_store_remove(store, store->object[store->count / 2].id, NULL) != 0)
			abort();
	}
	writable = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct hr_blk_ops ops = { .read = disk_read,
					       .write = disk_write,
					       .flush = disk_flush };
	static struct hr_store_object object[OBJECTS];
	static uint8_t io[8 * HR_PAGE];
	struct hr_blk blk = { .ops = &ops, .name = "fuzz", .bytes = DISK_BYTES };
	struct hr_store store;
	uint32_t capacity;

	fake_log_keep();
	if (!bytes)
		return 0;
	blk.block_bytes = *data & SMALL_BLOCKS ? 512 : 4096;
	make_image(*data, data + 1, bytes - 1);
	if (hr_store_probe(&blk, &capacity, io, NULL) != 0)
		return 0;
	if (capacity > HR_STORE_OBJECTS_MAX)
		abort();
	if (hr_store_io_bytes(OBJECTS) > sizeof(io) ||
	    hr_store_open(&store, &blk, object, OBJECTS, io, NULL) != 0)
		return 0;
	look_through(&store);
	change(&store);
	return 0;
}
