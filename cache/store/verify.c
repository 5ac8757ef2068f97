/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/store/store.h"
#include "cache/store/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cache/crc32c.h"
#include "cache/store/disk.h"
#include "config/base/bytes.h"
#include "nvme/queue/status.h"

struct round {
	struct hr_store *store;
	const struct hr_store_check *check;
	uint32_t faults;
};

__attribute__((format(printf, 3, 4))) static void report_check_line(struct round *round, bool fault,
								    const char *format, ...)
{
	char line[HR_STORE_LINE + HR_NAME_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	round->faults += fault;
	round->check->report(round->check->arg, fault, line);
}

static void record_line(void *arg, const char *line)
{
	report_check_line(arg, true, "%s", line);
}

bool hr_store_unreadable(const char *object, uint64_t at, int err, char *line, size_t bytes)
{
	char name[96];

	snprintf(line, bytes, "%s: cannot be read at byte %" PRIu64 ": %s", object, at,
		 hr_error_name(err, name, sizeof(name)));
	return true;
}

/* A failed read: an NVMe status is a finding, any other error ends the check. */
static int read_failed(struct round *round, const char *what, uint64_t at, int err,
		       struct hr_error *e)
{
	char line[HR_STORE_LINE];

	if (err <= 0)
		return err;
	hr_error_clear(e);
	report_check_line(round, hr_store_unreadable(what, at, err, line, sizeof(line)), "%s",
			  line);
	return 0;
}

/*
 * State of a superblock after a power cut: each sector is old or new (cache/store/FORMAT.md). The
 * head is in the first sector and the CRC in the last. So a torn superblock has a valid head, the
 * old or the new one, and zeros between head and CRC.
 */

#define SECTOR 512u

_Static_assert(sizeof(struct hr_superblock_head) <= SECTOR, "the head is in one sector");

/* Fields that all superblocks of this store share. The generations of two superblocks may differ
 * by two when a map was lost between them. */
static bool is_same_store(const struct hr_store *store, const struct hr_superblock_head *head,
			  const struct hr_superblock_head *current, unsigned i)
{
	const bool newer = head->generation > current->generation;
	const uint64_t apart = newer ? head->generation - current->generation
				     : current->generation - head->generation;

	return memcmp(head->magic, current->magic, sizeof(head->magic)) == 0 &&
	       memcmp(head->uuid, current->uuid, sizeof(head->uuid)) == 0 &&
	       (newer ? head->version >= current->version && head->version <= HR_STORE_VERSION
		      : head->version >= HR_STORE_VERSION_MIN &&
				head->version <= current->version) &&
	       head->capacity == current->capacity && head->disk_bytes == current->disk_bytes &&
	       head->map_offset == store->map_offset[i] &&
	       head->scratch_offset == current->scratch_offset &&
	       head->data_offset == current->data_offset &&
	       head->data_bytes == current->data_bytes && head->count <= head->capacity &&
	       apart >= 1 && apart <= 2;
}

/* The map of a newer head was flushed before the head was written. */
static bool has_map(const struct hr_store *store, const struct hr_superblock_head *head)
{
	char why[HR_STORE_LINE];

	return hr_store_read_map(store->blk, head, (uint8_t *)hr_store_io_map(store), why, NULL) ==
	       0;
}

/* True when a power cut can leave the damaged superblock i in this state. */
static bool is_torn(const struct hr_store *store, const struct hr_superblock_head *current,
		    unsigned i)
{
	const struct hr_superblock *page = (const void *)hr_store_io_page(store);
	struct hr_superblock_head head;

	if (store->blk->ops->read(store->blk, i * (uint64_t)HR_PAGE, hr_store_io_page(store),
				  HR_PAGE, NULL) != 0 ||
	    !hr_is_zero(page->zero, sizeof(page->zero)))
		return false;
	head = page->head;
	/* erased by format, or not yet written */
	if (hr_is_zero(&head, sizeof(head)))
		return true;
	if (!is_same_store(store, &head, current, i))
		return false;
	if (head.generation < current->generation)
		return head.next_id <= current->next_id;
	return head.next_id >= current->next_id && head.next_id <= current->next_id + 1 &&
	       has_map(store, &head);
}

/* Report a damaged copy. hr_store_verify() states when it is a fault. */
static void damaged(struct round *round, unsigned i, const char *why, bool fault)
{
	if (i == round->store->active || fault)
		report_check_line(round, true, "%s", why);
	else
		report_check_line(round, false, "%s (not current; the next change writes it anew)",
				  why);
}

static int check_copy(struct round *round, const struct hr_superblock_state super[2], unsigned i,
		      struct hr_error *e)
{
	struct hr_store *store = round->store;
	const struct hr_superblock_head *head = &super[i].head;
	const bool newer = head->generation > super[store->active].head.generation;
	struct hr_store_findings findings = { record_line, round };
	char why[HR_STORE_LINE];
	uint32_t before;
	int err;

	if (super[i].err || head->capacity > store->capacity) {
		const bool torn = i != store->active && super[i].err &&
				  is_torn(store, &super[store->active].head, i);

		damaged(round, i, super[i].err ? super[i].why : "superblocks differ in capacity",
			!torn);
		return 0;
	}
	err = hr_store_read_map(store->blk, head, (uint8_t *)hr_store_io_map(store), why, e);
	if (err == -EUCLEAN) {
		damaged(round, i, why, newer);
		return 0;
	}
	if (err)
		return read_failed(round, "object map", head->map_offset, err, e);
	before = round->faults;
	(void)hr_store_check_objects(head, hr_store_io_map(store), hr_store_io_order(store),
				     &findings);
	if (round->faults == before)
		report_check_line(round, false,
				  "map copy %u%s: generation %" PRIu64 ", %u object%s", i,
				  i == store->active ? " (current)" : "", head->generation,
				  head->count, head->count == 1 ? "" : "s");
	return 0;
}

bool hr_store_finding(const struct hr_store_object *object, uint32_t crc, char *line, size_t bytes)
{
	const bool has = object->flags & HR_OBJECT_HAS_CRC, fault = has && crc != object->crc;

	if (object->flags & HR_OBJECT_PENDING)
		snprintf(line, bytes,
			 "%s: incomplete, %" PRIu64 " of %" PRIu64 " bytes are durable",
			 object->name, object->durable_bytes, object->bytes);
	else if (!has)
		snprintf(line, bytes, "%s: %" PRIu64 " bytes, no checksum", object->name,
			 object->bytes);
	else if (fault)
		snprintf(line, bytes, "%s: CRC-32C of the data is %08x, should be %08x",
			 object->name, crc, object->crc);
	else
		snprintf(line, bytes, "%s: %" PRIu64 " bytes, CRC-32C %08x", object->name,
			 object->bytes, crc);
	return fault;
}

static void report_finding(struct round *round, const struct hr_store_object *object, uint32_t crc)
{
	char line[HR_STORE_LINE + HR_NAME_MAX];

	report_check_line(round, hr_store_finding(object, crc, line, sizeof(line)), "%s", line);
}

static int check_object(struct round *round, const struct hr_store_object *object,
			struct hr_error *e)
{
	const struct hr_store_check *check = round->check;
	const uint64_t end = object->flags & HR_OBJECT_HAS_CRC ? object->bytes : 0;
	struct hr_blk *blk = round->store->blk;
	uint32_t crc = 0;

	for (uint64_t at = 0; at < end; at += check->buffer_bytes) {
		const uint64_t left = object->bytes - at, held = object->capacity - at;
		const size_t bytes =
			left < check->buffer_bytes ? (size_t)left : check->buffer_bytes;
		const size_t whole =
			held < check->buffer_bytes ? (size_t)held : check->buffer_bytes;
		const int err = blk->ops->read(blk, object->offset + at, check->buffer, whole, e);

		if (err)
			return read_failed(round, object->name, at, err, e);
		crc = hr_crc32c(crc, check->buffer, bytes);
		if (check->progress && !check->progress(check->arg, bytes))
			return -EINTR;
	}
	report_finding(round, object, crc);
	return 0;
}

int hr_store_verify(struct hr_store *store, const struct hr_store_check *check, uint32_t *faults,
		    struct hr_error *e)
{
	struct round round = { store, check, 0 };
	struct hr_superblock_state super[2];
	int err = hr_store_read_superblocks(store->blk, hr_store_io_page(store), super, e);

	for (unsigned i = 0; !err && i < 2; i++)
		err = check_copy(&round, super, i, e);
	for (uint32_t i = 0; !err && check->data && i < store->count; i++)
		err = check_object(&round, &store->object[i], e);
	*faults = round.faults;
	return err;
}
