#include "cache/store/objmap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cache/crc32c.h"
#include "cache/store/objmap_disk.h"
#include "nvme/status.h"

struct round {
	struct hr_store *store;
	const struct hr_store_check *check;
	uint32_t faults;
};

__attribute__((format(printf, 3, 4))) static void say(struct round *round, bool fault,
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
	say(arg, true, "%s", line);
}

/* A read that failed: a status is a finding like any other, everything else ends the check. */
static int read_failed(struct round *round, const char *what, uint64_t at, int err)
{
	char name[96];

	if (err > 0)
		say(round, true, "%s: cannot be read at byte %" PRIu64 ": %s", what, at,
		    hr_error_name(err, name, sizeof(name)));
	return err > 0 ? 0 : err;
}

/*
 * What a power cut leaves of a superblock: each sector as it was or as it was to become
 * (cache/store/FORMAT.md). The head is in the first sector and the CRC in the last, so a torn
 * superblock has a sound head, the one before or the one to come, and zeros between.
 */

#define SECTOR 512u

_Static_assert(sizeof(struct hr_superblock_head) <= SECTOR, "the head is in one sector");

static bool is_zero(const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (data[i])
			return false;
	return true;
}

/* What every superblock of this store has in common. Two generations, not one, lie between two
 * superblocks when a map was lost on the way. */
static bool is_relative(const struct hr_store *store, const struct hr_superblock_head *head,
			const struct hr_superblock_head *force, unsigned i)
{
	const uint64_t apart = head->generation > force->generation
				       ? head->generation - force->generation
				       : force->generation - head->generation;

	return memcmp(head->magic, force->magic, sizeof(head->magic)) == 0 &&
	       memcmp(head->uuid, force->uuid, sizeof(head->uuid)) == 0 &&
	       head->version == force->version && head->capacity == force->capacity &&
	       head->disk_bytes == force->disk_bytes && head->map_offset == store->map_offset[i] &&
	       head->scratch_offset == force->scratch_offset &&
	       head->data_offset == force->data_offset && head->data_bytes == force->data_bytes &&
	       head->count <= head->capacity && apart >= 1 && apart <= 2;
}

/* The map of a newer head was flushed before the head was written. */
static bool has_map(const struct hr_store *store, const struct hr_superblock_head *head)
{
	char why[HR_STORE_LINE];

	return hr_store_read_map(store->blk, head, (uint8_t *)hr_store_io_map(store), why) == 0;
}

/* Superblock i, which is damaged, is as a cut leaves it. */
static bool is_torn(const struct hr_store *store, const struct hr_superblock_head *force,
		    unsigned i)
{
	const struct hr_superblock *page = (const void *)hr_store_io_page(store);
	struct hr_superblock_head head;

	if (store->blk->ops->read(store->blk, i * (uint64_t)HR_PAGE, hr_store_io_page(store),
				  HR_PAGE) != 0 ||
	    !is_zero(page->zero, sizeof(page->zero)))
		return false;
	head = page->head;
	if (is_zero((const uint8_t *)&head, sizeof(head))) /* of a format, or not yet written */
		return true;
	if (!is_relative(store, &head, force, i))
		return false;
	if (head.generation < force->generation)
		return head.next_id <= force->next_id;
	return head.next_id >= force->next_id && head.next_id <= force->next_id + 1 &&
	       has_map(store, &head);
}

/* A damaged copy: see hr_store_verify() for when that is a fault. */
static void damaged(struct round *round, unsigned i, const char *why, bool fault)
{
	if (i == round->store->active || fault)
		say(round, true, "%s", why);
	else
		say(round, false, "%s (not in force; the next change writes it anew)", why);
}

static int check_copy(struct round *round, const struct hr_store_slot slot[2], unsigned i)
{
	struct hr_store *store = round->store;
	const struct hr_superblock_head *head = &slot[i].head;
	const bool newer = head->generation > slot[store->active].head.generation;
	struct hr_store_sink sink = { record_line, round };
	char why[HR_STORE_LINE];
	uint32_t before;
	int err;

	if (slot[i].err || head->capacity > store->capacity) {
		const bool torn = i != store->active && slot[i].err &&
				  is_torn(store, &slot[store->active].head, i);

		damaged(round, i, slot[i].err ? slot[i].why : "superblocks differ in capacity",
			!torn);
		return 0;
	}
	err = hr_store_read_map(store->blk, head, (uint8_t *)hr_store_io_map(store), why);
	if (err == -EUCLEAN) {
		damaged(round, i, why, newer);
		return 0;
	}
	if (err)
		return read_failed(round, "object map", head->map_offset, err);
	before = round->faults;
	(void)hr_store_check_objects(head, hr_store_io_map(store), hr_store_io_order(store), &sink);
	if (round->faults == before)
		say(round, false, "map copy %u%s: generation %" PRIu64 ", %u object%s", i,
		    i == store->active ? " (in force)" : "", head->generation, head->count,
		    head->count == 1 ? "" : "s");
	return 0;
}

static int check_data(struct round *round, const struct hr_object *object)
{
	const struct hr_store_check *check = round->check;
	struct hr_blk *blk = round->store->blk;
	uint32_t crc = 0;

	for (uint64_t at = 0; at < object->bytes; at += check->buffer_bytes) {
		const uint64_t left = object->bytes - at, held = object->capacity - at;
		const size_t bytes =
			left < check->buffer_bytes ? (size_t)left : check->buffer_bytes;
		const size_t whole =
			held < check->buffer_bytes ? (size_t)held : check->buffer_bytes;
		const int err = blk->ops->read(blk, object->offset + at, check->buffer, whole);

		if (err)
			return read_failed(round, object->name, at, err);
		crc = hr_crc32c(crc, check->buffer, bytes);
		if (check->progress && !check->progress(check->arg, bytes))
			return -EINTR;
	}
	if (crc != object->crc)
		say(round, true, "%s: CRC-32C of the data is %08x, should be %08x", object->name,
		    crc, object->crc);
	else
		say(round, false, "%s: %" PRIu64 " bytes, CRC-32C %08x", object->name,
		    object->bytes, crc);
	return 0;
}

static int check_object(struct round *round, const struct hr_object *object)
{
	if (object->flags & HR_OBJECT_PENDING) {
		say(round, false, "%s: incomplete, %" PRIu64 " of %" PRIu64 " bytes are durable",
		    object->name, object->durable_bytes, object->bytes);
		return 0;
	}
	if (!(object->flags & HR_OBJECT_HAS_CRC)) {
		say(round, false, "%s: %" PRIu64 " bytes, no checksum", object->name,
		    object->bytes);
		return 0;
	}
	return check_data(round, object);
}

int hr_store_verify(struct hr_store *store, const struct hr_store_check *check, uint32_t *faults)
{
	struct round round = { store, check, 0 };
	struct hr_store_slot slot[2];
	int err = hr_store_read_slots(store->blk, hr_store_io_page(store), slot);

	for (unsigned i = 0; !err && i < 2; i++)
		err = check_copy(&round, slot, i);
	for (uint32_t i = 0; !err && check->data && i < store->count; i++)
		err = check_object(&round, &store->object[i]);
	*faults = round.faults;
	return err;
}
