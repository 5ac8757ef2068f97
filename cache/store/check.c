/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of superblocks and records from a disk, which are untrusted.
 */
#include "cache/store/disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cache/crc32c.h"

int hr_store_lay_out(struct hr_store_layout *layout, uint64_t disk_bytes, uint32_t capacity)
{
	const uint64_t map_bytes =
		hr_store_round(capacity * (uint64_t)sizeof(struct hr_store_object), HR_PAGE);
	const uint64_t end = disk_bytes & ~((uint64_t)HR_STORE_ALIGN - 1);

	if (capacity == 0 || capacity > HR_STORE_OBJECTS_MAX)
		return -EINVAL;
	layout->map_offset[0] = 2ull * HR_PAGE;
	layout->map_offset[1] = layout->map_offset[0] + map_bytes;
	layout->scratch_offset =
		hr_store_round(layout->map_offset[1] + map_bytes, HR_STORE_SCRATCH);
	layout->data_offset =
		hr_store_round(layout->scratch_offset + HR_STORE_SCRATCH, HR_STORE_DATA_ALIGN);
	layout->data_bytes = end > layout->data_offset ? end - layout->data_offset : 0;
	return layout->data_bytes ? 0 : -ENOSPC;
}

/* ---- superblocks */

__attribute__((format(printf, 2, 3))) static int unclean(char *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, HR_STORE_LINE, format, args);
	va_end(args);
	return -EUCLEAN;
}

static bool all_zero(const void *data, size_t bytes)
{
	const char *byte = data;

	return byte[0] == 0 && memcmp(byte, byte + 1, bytes - 1) == 0;
}

/* Compare the locations in a superblock with those of the format. */
static int check_layout(const struct hr_superblock_head *head, unsigned i, char *why)
{
	struct hr_store_layout layout;

	if (hr_store_lay_out(&layout, head->disk_bytes, head->capacity) != 0)
		return unclean(why, "superblock %u: %u objects on %" PRIu64 " bytes are invalid", i,
			       head->capacity, head->disk_bytes);
	if (head->map_offset != layout.map_offset[i] ||
	    head->scratch_offset != layout.scratch_offset ||
	    head->data_offset != layout.data_offset || head->data_bytes != layout.data_bytes)
		return unclean(why, "superblock %u: map, scratch or data area is misplaced", i);
	return 0;
}

static int check_superblock(const struct hr_superblock *page, unsigned i, uint64_t disk_bytes,
			    char *why)
{
	const struct hr_superblock_head *head = &page->head;
	const uint32_t crc = hr_crc32c(0, page, offsetof(struct hr_superblock, crc));

	if (all_zero(page, sizeof(*page))) {
		(void)unclean(why, "superblock %u: blank", i);
		return -ENOMEDIUM;
	}
	if (memcmp(head->magic, HR_STORE_MAGIC, sizeof(head->magic)) != 0) {
		(void)unclean(why, "superblock %u: does not belong to a headrace store", i);
		return -EMEDIUMTYPE;
	}
	if (page->crc != crc)
		return unclean(why,
			       "superblock %u: CRC-32C is %08x, but that of its contents is %08x",
			       i, page->crc, crc);
	if (head->version < HR_STORE_VERSION_MIN || head->version > HR_STORE_VERSION)
		return unclean(why,
			       "superblock %u: format version %u; only versions %u to %u are "
			       "supported",
			       i, head->version, HR_STORE_VERSION_MIN, HR_STORE_VERSION);
	if (!all_zero(page->zero, sizeof(page->zero)))
		return unclean(why, "superblock %u: unknown fields are set", i);
	if (head->disk_bytes > disk_bytes)
		return unclean(why,
			       "the store was made on %" PRIu64 " bytes, the disk has %" PRIu64
			       ": truncated",
			       head->disk_bytes, disk_bytes);
	if (head->count > head->capacity)
		return unclean(why, "superblock %u: %u objects, room for %u", i, head->count,
			       head->capacity);
	if (head->generation == 0 || head->generation > HR_STORE_COUNTER_MAX ||
	    head->next_id == 0 || head->next_id > HR_STORE_COUNTER_MAX)
		return unclean(why, "superblock %u: generation %" PRIu64 ", next id %" PRIu64, i,
			       head->generation, head->next_id);
	return check_layout(head, i, why);
}

uint32_t hr_store_page_crc(const uint8_t *page)
{
	return hr_crc32c(0, page, offsetof(struct hr_superblock, crc));
}

int hr_store_read_superblocks(struct hr_blk *blk, uint8_t *page,
			      struct hr_superblock_state super[2], struct hr_error *e)
{
	const struct hr_superblock *superblock = (const struct hr_superblock *)(void *)page;

	memset(super, 0, 2 * sizeof(*super));
	for (unsigned i = 0; i < 2; i++) {
		int err;

		if (blk->bytes < 2ull * HR_PAGE) {
			(void)unclean(super[i].why, "%" PRIu64 " bytes are no store", blk->bytes);
			/*
			 * A disk smaller than one page holds no superblock, not even a damaged one.
			 */
			super[i].err = blk->bytes < HR_PAGE ? -ENOMEDIUM : -EMEDIUMTYPE;
			continue;
		}
		err = blk->ops->read(blk, i * (uint64_t)HR_PAGE, page, HR_PAGE, e);
		if (err)
			return err;
		super[i].page_crc = hr_store_page_crc(page);
		super[i].head = superblock->head;
		super[i].err = check_superblock(superblock, i, blk->bytes, super[i].why);
	}
	return 0;
}

/* No superblock is usable: derive the state of the disk. */
static int verdict(const struct hr_blk *blk, const struct hr_superblock_state super[2],
		   struct hr_error *e)
{
	if (super[0].err == -ENOMEDIUM && super[1].err == -ENOMEDIUM)
		return -ENOMEDIUM;
	if (super[0].err != -EUCLEAN && super[1].err != -EUCLEAN)
		return -EMEDIUMTYPE;
	for (unsigned i = 0; i < 2; i++)
		if (i == 0 || strcmp(super[0].why, super[1].why) != 0)
			hr_error_add(e, HR_ERROR_FAILED, -EUCLEAN, "%s: object store: %s",
				     blk->name, super[i].why);
	return -EUCLEAN;
}

/* A newer superblock never has an older format. */
static bool versions_fit(const struct hr_superblock_head *a, const struct hr_superblock_head *b)
{
	return a->generation > b->generation ? a->version >= b->version : b->version >= a->version;
}

int hr_store_newest(const struct hr_blk *blk, const struct hr_superblock_state super[2], int *err,
		    struct hr_error *e)
{
	const struct hr_superblock_head *a = &super[0].head, *b = &super[1].head;

	if (super[0].err && super[1].err) {
		*err = verdict(blk, super, e);
		return -1;
	}
	if (super[0].err || super[1].err)
		return super[0].err ? 1 : 0;
	if (memcmp(a->uuid, b->uuid, sizeof(a->uuid)) != 0 || a->capacity != b->capacity ||
	    a->disk_bytes != b->disk_bytes || a->generation == b->generation ||
	    !versions_fit(a, b)) {
		*err = hr_fail(e, HR_ERROR_FAILED, -EUCLEAN,
			       "%s: object store: the superblocks (generations %" PRIu64
			       ", %" PRIu64 ") are not of one history",
			       blk->name, a->generation, b->generation);
		return -1;
	}
	return a->generation > b->generation ? 0 : 1;
}

int hr_store_read_map(struct hr_blk *blk, const struct hr_superblock_head *head, uint8_t *map,
		      char why[HR_STORE_LINE], struct hr_error *e)
{
	const size_t used = head->count * sizeof(struct hr_store_object);
	uint32_t crc;
	int err = 0;

	if (used)
		err = blk->ops->read(blk, head->map_offset, map, hr_store_round(used, HR_PAGE), e);
	if (err)
		return err;
	crc = hr_crc32c(0, map, used);
	if (crc != head->map_crc)
		return unclean(why,
			       "map of generation %" PRIu64 " at byte %" PRIu64
			       ": CRC-32C is %08x, should be %08x",
			       head->generation, head->map_offset, crc, head->map_crc);
	return 0;
}

/* ---- records */

bool hr_store_name_ok(const char *name, size_t bytes)
{
	const size_t length = strnlen(name, bytes);

	if (length == 0 || length == bytes)
		return false;
	for (size_t i = 0; i < length; i++)
		if (name[i] < 0x20 || name[i] > 0x7e || name[i] == '/')
			return false;
	return true;
}

typedef int compare_fn(const struct hr_store_object *a, const struct hr_store_object *b);

static int by_offset(const struct hr_store_object *a, const struct hr_store_object *b)
{
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* By name; a PENDING object after the finished one of the same name. */
static int by_name(const struct hr_store_object *a, const struct hr_store_object *b)
{
	const int names = strncmp(a->name, b->name, HR_NAME_MAX);

	return names ? names
		     : (int)(a->flags & HR_OBJECT_PENDING) - (int)(b->flags & HR_OBJECT_PENDING);
}

static void sift_down(const struct hr_store_object *object, uint16_t *order, uint32_t root,
		      uint32_t count, compare_fn *compare)
{
	for (uint32_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
		uint16_t swap = order[root];

		if (child + 1 < count &&
		    compare(&object[order[child]], &object[order[child + 1]]) < 0)
			child++;
		if (compare(&object[order[root]], &object[order[child]]) >= 0)
			return;
		order[root] = order[child];
		order[child] = swap;
		root = child;
	}
}

/* Heapsort: in place, and fast for every input. */
static void sort_objects(const struct hr_store_object *object, uint32_t count, uint16_t *order,
			 compare_fn *compare)
{
	for (uint32_t i = 0; i < count; i++)
		order[i] = (uint16_t)i;
	for (uint32_t i = count / 2; i-- > 0;)
		sift_down(object, order, i, count, compare);
	for (uint32_t end = count; end-- > 1;) {
		const uint16_t largest = order[0];

		order[0] = order[end];
		order[end] = largest;
		sift_down(object, order, 0, end, compare);
	}
}

void hr_store_sort_by_offset(const struct hr_store_object *object, uint32_t count, uint16_t *order)
{
	sort_objects(object, count, order, by_offset);
}

/* The flags of a record. */
static const char *flags_fault(const struct hr_superblock_head *head,
			       const struct hr_store_object *o)
{
	uint32_t known = HR_OBJECT_PENDING | HR_OBJECT_HAS_CRC;

	if (head->version > HR_STORE_VERSION_MIN)
		known |= HR_OBJECT_SHARD;
	if (o->flags & ~known)
		return "it has unknown flags";
	if (o->flags & HR_OBJECT_PENDING && o->flags & HR_OBJECT_HAS_CRC)
		return "it is incomplete and has a checksum";
	if (!(o->flags & HR_OBJECT_SHARD))
		return NULL;
	if (!hr_store_name_ok(o->shard_name, sizeof(o->shard_name)))
		return "the name of the shard is longer than 31 characters";
	return hr_store_shard_ok(&o->shard, o->bytes) ? NULL
						      : "its rows are not a part of a data set";
}

/* The fault of a single record, or NULL. */
static const char *record_fault(const struct hr_superblock_head *head,
				const struct hr_store_object *o)
{
	const uint64_t end = head->data_offset + head->data_bytes;
	const bool pending = o->flags & HR_OBJECT_PENDING;

	if (o->id == 0 || o->id >= head->next_id)
		return "its id was never assigned";
	if (!hr_store_name_ok(o->name, sizeof(o->name)))
		return "its name is not 1..63 printable characters without '/'";
	if (o->offset % HR_STORE_ALIGN || o->capacity % HR_STORE_ALIGN)
		return "its extent is not aligned";
	if (o->offset < head->data_offset || o->offset > end)
		return "it lies outside of the data area";
	if (o->capacity > end - o->offset)
		return "it reaches beyond the data area";
	if (o->bytes > o->capacity)
		return "it is longer than its extent";
	if (o->durable_bytes > o->bytes || (!pending && o->durable_bytes != o->bytes))
		return "its durable length is invalid";
	return flags_fault(head, o);
}

__attribute__((format(printf, 2, 3))) static uint32_t fault(
	const struct hr_store_findings *findings, const char *format, ...)
{
	char line[HR_STORE_LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	findings->line(findings->arg, line);
	return 1;
}

static uint32_t check_names(const struct hr_store_object *object, uint32_t count, uint16_t *order,
			    const struct hr_store_findings *findings)
{
	uint32_t faults = 0;

	sort_objects(object, count, order, by_name);
	for (uint32_t i = 1; i < count; i++) {
		const struct hr_store_object *a = &object[order[i - 1]], *b = &object[order[i]];

		if (by_name(a, b) == 0)
			faults +=
				fault(findings, "objects %" PRIu64 " and %" PRIu64 " are both '%s'",
				      a->id, b->id, a->name);
	}
	return faults;
}

static uint32_t check_overlaps(const struct hr_store_object *object, uint32_t count,
			       uint16_t *order, const struct hr_store_findings *findings)
{
	const struct hr_store_object *before = NULL;
	uint32_t faults = 0;

	sort_objects(object, count, order, by_offset);
	for (uint32_t i = 0; i < count; i++) {
		const struct hr_store_object *o = &object[order[i]];

		if (o->capacity == 0)
			continue;
		if (before && o->offset - before->offset < before->capacity)
			faults += fault(findings,
					"objects %" PRIu64 " '%s' and %" PRIu64 " '%s' overlap",
					before->id, before->name, o->id, o->name);
		before = o;
	}
	return faults;
}

uint32_t hr_store_check_objects(const struct hr_superblock_head *head,
				const struct hr_store_object *object, uint16_t *order,
				const struct hr_store_findings *findings)
{
	uint32_t faults = 0;

	for (uint32_t i = 0; i < head->count; i++) {
		const char *wrong = record_fault(head, &object[i]);

		if (!wrong && i > 0 && object[i].id <= object[i - 1].id)
			wrong = "its id does not follow that of the record before";
		if (wrong)
			faults += fault(findings, "record %u (id %" PRIu64 "): %s", i, object[i].id,
					wrong);
	}
	/* Only valid records can be compared with each other. */
	if (faults)
		return faults;
	return check_names(object, head->count, order, findings) +
	       check_overlaps(object, head->count, order, findings);
}

bool hr_store_shard_ok(const struct hr_store_shard *shard, uint64_t bytes)
{
	uint64_t all;

	if (!shard->last || shard->index > shard->last || !shard->row_bytes ||
	    bytes % shard->row_bytes || shard->first_row > shard->rows ||
	    __builtin_mul_overflow(shard->rows, shard->row_bytes, &all))
		return false;
	return bytes / shard->row_bytes <= shard->rows - shard->first_row;
}
