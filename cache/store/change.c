/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find, make and remove objects. A change is prepared in the io memory of the store, and one commit
 * makes it the map, first on disk and then in memory.
 */
#include "cache/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/base/seam.h"
#include "cache/store/disk.h"
#include "nvme/queue/status.h"

const char *hr_store_error_name(int error, char *buffer, unsigned bytes)
{
	switch (error) {
	case -ENOMEDIUM:
		return "the disk is blank";
	case -EMEDIUMTYPE:
		return "the disk holds no object store";
	case -EUCLEAN:
		return "the object store is damaged";
	case -EEXIST:
		return "the name is in use";
	case -EBUSY:
		return "an incomplete object has the name";
	case -ENOENT:
		return "there is no such object";
	case -ENOSPC:
		return "there is no room";
	case -ENFILE:
		return "the object map is full";
	case -EOVERFLOW:
		return "the counters of the object map are used up";
	case -EROFS:
		return "the disk is read-only";
	case -EINVAL:
		return "the name or the size is invalid";
	default:
		return hr_error_name(error, buffer, bytes);
	}
}

static struct hr_store_object *find_by_state(const struct hr_store *store, const char *name,
					     bool pending)
{
	for (uint32_t i = 0; i < store->count; i++) {
		struct hr_store_object *object = &store->object[i];

		if (!(object->flags & HR_OBJECT_PENDING) != pending &&
		    strcmp(object->name, name) == 0)
			return object;
	}
	return NULL;
}

struct hr_store_object *hr_store_find(const struct hr_store *store, const char *name)
{
	return find_by_state(store, name, false);
}

struct hr_store_object *hr_store_find_pending(const struct hr_store *store, const char *name)
{
	return find_by_state(store, name, true);
}

static struct hr_store_object *find_id_in(struct hr_store_object *map, uint32_t count, uint64_t id)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (map[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && map[low].id == id ? &map[low] : NULL;
}

struct hr_store_object *hr_store_find_id(const struct hr_store *store, uint64_t id)
{
	return find_id_in(store->object, store->count, id);
}

/* ---- pins */

int hr_store_pin(struct hr_store *store, uint64_t id, bool firm, uint32_t *pin)
{
	const struct hr_store_object *object = hr_store_find_id(store, id);

	if (!object)
		return -ENOENT;
	for (uint32_t i = 0; i < HR_STORE_PINS; i++) {
		if (store->pin[i].id)
			continue;
		store->pin[i] = (struct hr_store_pin){ .id = id,
						       .offset = object->offset,
						       .capacity = object->capacity,
						       .firm = firm };
		*pin = i;
		return 0;
	}
	return -ENFILE;
}

bool hr_store_is_pinned(const struct hr_store *store, uint32_t pin)
{
	return store->pin[pin].id && !store->pin[pin].lost;
}

void hr_store_unpin(struct hr_store *store, uint32_t pin)
{
	memset(&store->pin[pin], 0, sizeof(store->pin[pin]));
}

static bool overlaps(const struct hr_store_pin *pin, uint64_t offset, uint64_t bytes)
{
	return pin->id && !pin->lost && pin->offset < offset + bytes &&
	       offset < pin->offset + pin->capacity;
}

/* The first offset from `offset` on where `bytes` overlap no pin; all: also none that can be lost. */
static uint64_t beside_pins(const struct hr_store *store, uint64_t offset, uint64_t bytes, bool all)
{
	uint32_t i = 0;

	while (bytes && i < HR_STORE_PINS) {
		const struct hr_store_pin *pin = &store->pin[i++];

		if (!(all || pin->firm) || !overlaps(pin, offset, bytes))
			continue;
		offset = pin->offset + pin->capacity;
		i = 0;
	}
	return offset;
}

static void lose_pins(struct hr_store *store, uint64_t offset, uint64_t bytes)
{
	for (uint32_t i = 0; bytes && i < HR_STORE_PINS; i++)
		store->pin[i].lost |= overlaps(&store->pin[i], offset, bytes);
}

/* Find the first gap between the records of map that has room for `bytes` beside the pins, as
 * beside_pins(). *largest: largest gap before it. */
static bool first_fit(const struct hr_store *store, const struct hr_store_object *map,
		      uint32_t count, uint64_t bytes, bool all, uint64_t *offset, uint64_t *largest)
{
	const uint64_t end = store->data_offset + store->data_bytes;
	uint16_t *order = hr_store_io_order(store);
	uint64_t at = store->data_offset;

	*largest = 0;
	hr_store_sort_by_offset(map, count, order);
	for (uint32_t i = 0; i <= count; i++) {
		const struct hr_store_object *next = i < count ? &map[order[i]] : NULL;
		const uint64_t gap = (next ? next->offset : end) - at;

		if (next && next->capacity == 0)
			continue;
		*offset = gap >= bytes ? beside_pins(store, at, bytes, all) : at;
		if (gap >= bytes && gap - bytes >= *offset - at)
			return true;
		*largest = gap > *largest ? gap : *largest;
		at = next ? next->offset + next->capacity : end;
	}
	return false;
}

void hr_store_space(const struct hr_store *store, struct hr_store_space *space)
{
	uint64_t offset;

	memset(space, 0, sizeof(*space));
	space->total = store->data_bytes;
	space->objects = store->count;
	space->capacity = store->capacity;
	for (uint32_t i = 0; i < store->count; i++) {
		space->used += store->object[i].capacity;
		if (!(store->object[i].flags & HR_OBJECT_PENDING))
			continue;
		space->pending += store->object[i].capacity;
		space->pending_objects++;
	}
	(void)first_fit(store, store->object, store->count, UINT64_MAX, false, &offset,
			&space->largest_gap);
}

/* ---- space that is given back */

/* Space without objects, except what readers have pinned. */
static void trim_gap(const struct hr_store *store, uint64_t at, uint64_t end)
{
	while (at < end) {
		const struct hr_store_pin *first = NULL;
		uint64_t stop = end;

		for (uint32_t i = 0; i < HR_STORE_PINS; i++)
			if (overlaps(&store->pin[i], at, end - at) &&
			    (!first || store->pin[i].offset < first->offset))
				first = &store->pin[i];
		if (first)
			stop = first->offset < at ? at : first->offset;
		if (stop > at)
			store->blk->ops->trim(store->blk, at, stop - at, NULL);
		at = first ? first->offset + first->capacity : end;
	}
}

/* The objects of this range have been removed, and the map without them is durable. A fault of the
 * disk is logged by its health: the removal is done. */
static void trim(const struct hr_store *store, uint64_t from, uint64_t to)
{
	uint16_t *order = hr_store_io_order(store);

	if (store->rehearsal || !store->blk->ops->trim)
		return;
	hr_store_sort_by_offset(store->object, store->count, order);
	for (uint32_t i = 0; i <= store->count && from < to; i++) {
		const struct hr_store_object *next =
			i < store->count ? &store->object[order[i]] : NULL;

		if (next && next->offset + next->capacity <= from)
			continue;
		trim_gap(store, from, next && next->offset < to ? next->offset : to);
		from = next ? next->offset + next->capacity : to;
	}
}

/* ---- changes, on a copy of the map */

static struct hr_store_object *stage(const struct hr_store *store)
{
	struct hr_store_object *map = hr_store_io_map(store);

	memcpy(map, store->object, store->count * sizeof(*map));
	return map;
}

static void remove_map_entry(struct hr_store_object *map, uint32_t *count, size_t index)
{
	memmove(&map[index], &map[index + 1], (*count - index - 1) * sizeof(*map));
	(*count)--;
}

static size_t index_of(const struct hr_store *store, const struct hr_store_object *object)
{
	return (size_t)(object - store->object);
}

/* Append a PENDING object to the `count` records of map. */
static int append(struct hr_store *store, struct hr_store_object *map, uint32_t count,
		  const char *name, uint64_t bytes, uint64_t tag,
		  const struct hr_store_shard *shard, struct hr_error *e)
{
	struct hr_store_object *object = &map[count];
	uint64_t offset, largest;

	if (count == store->capacity)
		return hr_fail(
			e, HR_ERROR_FAILED, -ENFILE,
			"%s: '%s': the object map is full (%u objects)%s", store->blk->name, name,
			store->capacity,
			hr_store_find(store, name)
				? "; the new object needs an entry of its own until it is complete and "
				  "replaces the old one: remove an object first"
				: "");
	if (!first_fit(store, map, count, bytes, true, &offset, &largest) &&
	    !first_fit(store, map, count, bytes, false, &offset, &largest))
		return hr_fail(e, HR_ERROR_FAILED, -ENOSPC,
			       "%s: '%s': no room for %" PRIu64
			       " bytes: the largest gap has %" PRIu64,
			       store->blk->name, name, bytes, largest);
	lose_pins(store, offset, bytes);
	memset(object, 0, sizeof(*object));
	object->id = store->next_id;
	memcpy(object->name, name, strlen(name));
	object->offset = offset;
	object->capacity = hr_store_round(bytes, HR_STORE_ALIGN);
	object->bytes = bytes;
	object->tag = tag;
	object->created_ns = hr_wall_ns();
	object->flags = HR_OBJECT_PENDING;
	if (!shard)
		return 0;
	object->flags |= HR_OBJECT_SHARD;
	object->shard = *shard;
	return 0;
}

int hr_store_create(struct hr_store *store, const char *name, uint64_t bytes, uint64_t tag,
		    bool replace, struct hr_store_object **out, struct hr_error *e)
{
	return hr_store_create_shard(store, name, bytes, tag, replace, NULL, out, e);
}

int hr_store_create_shard(struct hr_store *store, const char *name, uint64_t bytes, uint64_t tag,
			  bool replace, const struct hr_store_shard *shard,
			  struct hr_store_object **out, struct hr_error *e)
{
	const struct hr_store_object *stale;
	uint32_t count = store->count;
	struct hr_store_object *map;
	int err;

	if (!hr_store_name_ok(name, shard ? HR_SHARD_NAME_MAX : HR_NAME_MAX) ||
	    (shard && !hr_store_shard_ok(shard, bytes)))
		return -EINVAL;
	stale = hr_store_find_pending(store, name);
	if (!replace && hr_store_find(store, name))
		return -EEXIST;
	if (!replace && stale)
		return -EBUSY;
	err = shard ? hr_store_migrate(store, e) : 0;
	if (err)
		return err;
	map = stage(store);
	if (stale)
		remove_map_entry(map, &count, index_of(store, stale));
	err = append(store, map, count, name, bytes, tag, shard, e);
	if (!err)
		err = hr_store_commit(store, count + 1, store->next_id + 1, e);
	if (!err)
		*out = &store->object[count];
	return err;
}

int hr_store_progress(struct hr_store *store, uint64_t id, uint64_t durable_bytes, uint64_t tag,
		      uint32_t crc, struct hr_error *e)
{
	const struct hr_store_object *object = hr_store_find_id(store, id);
	struct hr_store_object *changed;

	if (!object)
		return -ENOENT;
	if (!(object->flags & HR_OBJECT_PENDING) || durable_bytes > object->bytes ||
	    durable_bytes < object->durable_bytes)
		return -EINVAL;
	changed = &stage(store)[index_of(store, object)];
	changed->durable_bytes = durable_bytes;
	changed->tag = tag;
	changed->crc = crc;
	return hr_store_commit(store, store->count, store->next_id, e);
}

int hr_store_set_shard(struct hr_store *store, uint64_t id, uint64_t set, struct hr_error *e)
{
	const struct hr_store_object *object = hr_store_find_id(store, id);

	if (!object)
		return -ENOENT;
	if (!(object->flags & HR_OBJECT_PENDING) || !(object->flags & HR_OBJECT_SHARD))
		return -EINVAL;
	stage(store)[index_of(store, object)].shard.set = set;
	return hr_store_commit(store, store->count, store->next_id, e);
}

/* "NAME.3" and zeros; version 0 is "NAME". -EINVAL: too long. */
static int name_version(char text[HR_NAME_MAX], const char *name, uint32_t version)
{
	int n;

	memset(text, 0, HR_NAME_MAX);
	n = version ? snprintf(text, HR_NAME_MAX, "%s.%u", name, version)
		    : snprintf(text, HR_NAME_MAX, "%s", name);

	return n > 0 && n < (int)HR_NAME_MAX ? 0 : -EINVAL;
}

/* Rename an object, whose shard lies behind its name. -EINVAL: too long. */
static int rename_object(struct hr_store_object *object, const char name[HR_NAME_MAX])
{
	const size_t room = object->flags & HR_OBJECT_SHARD ? HR_SHARD_NAME_MAX : HR_NAME_MAX;

	if (strlen(name) >= room)
		return -EINVAL;
	memcpy(object->name, name, room);
	return 0;
}

/* A finished object in the `count` records of map, or NULL. */
static struct hr_store_object *find_in(struct hr_store_object *map, uint32_t count,
				       const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (!(map[i].flags & HR_OBJECT_PENDING) && strcmp(map[i].name, name) == 0)
			return &map[i];
	return NULL;
}

/*
 * Free the name for a new version: from the first version that does not exist downwards, each one
 * gets the next number; without a gap the last of `keep` versions is dropped.
 */
static int shift_versions(struct hr_store_object *map, uint32_t *count, const char *name,
			  uint32_t keep)
{
	char text[HR_NAME_MAX], next[HR_NAME_MAX];
	struct hr_store_object *object;
	uint32_t free_at = 0;
	int err = name_version(text, name, keep - 1);

	while (!err && free_at < keep && name_version(text, name, free_at) == 0 &&
	       find_in(map, *count, text))
		free_at++;
	if (!err && free_at == keep) {
		free_at--;
		name_version(text, name, free_at);
		object = find_in(map, *count, text);
		remove_map_entry(map, count, (size_t)(object - map));
	}
	for (; !err && free_at > 0; free_at--) {
		name_version(text, name, free_at - 1);
		err = name_version(next, name, free_at);
		object = find_in(map, *count, text);
		if (!err && object)
			err = rename_object(object, next);
		if (!err && object)
			object->tag = object->tag ? object->tag : 1; /* now it is a version */
	}
	return err;
}

const struct hr_store_object *hr_store_foreign_version(const struct hr_store *store,
						       const char *name, uint32_t keep)
{
	const struct hr_store_object *object = NULL;
	char text[HR_NAME_MAX];

	for (uint32_t v = 1; v < keep && !object && name_version(text, name, v) == 0; v++) {
		object = hr_store_find(store, text);
		object = object && object->tag == 0 ? object : NULL;
	}
	return object;
}

int hr_store_finish_version(struct hr_store *store, uint64_t id, bool has_crc, uint32_t crc,
			    uint32_t keep, struct hr_error *e)
{
	const struct hr_store_object *object = hr_store_find_id(store, id);

	return hr_store_finish_at(store, id, object ? object->bytes : 0, has_crc, crc, keep, e);
}

int hr_store_finish_at(struct hr_store *store, uint64_t id, uint64_t bytes, bool has_crc,
		       uint32_t crc, uint32_t keep, struct hr_error *e)
{
	const struct hr_store_object *object = hr_store_find_id(store, id);
	uint32_t count = store->count;
	struct hr_store_object *map, *done;
	char name[HR_NAME_MAX];
	int err;

	if (!object)
		return -ENOENT;
	if (!(object->flags & HR_OBJECT_PENDING) || bytes > object->bytes || keep < 1 ||
	    keep > HR_VERSIONS_MAX ||
	    (object->flags & HR_OBJECT_SHARD && bytes % object->shard.row_bytes))
		return -EINVAL;
	memcpy(name, object->name, sizeof name);
	map = stage(store);
	done = &map[index_of(store, object)];
	done->crc = has_crc ? crc : 0;
	if (bytes < done->bytes)
		done->capacity = hr_store_round(bytes, HR_STORE_ALIGN);
	done->durable_bytes = done->bytes = bytes;
	err = hr_store_foreign_version(store, name, keep) ? -EEXIST : 0;
	if (!err)
		err = shift_versions(map, &count, name, keep);
	if (err)
		return err;
	done = find_id_in(map, count, id);
	done->flags &= HR_OBJECT_SHARD;
	done->flags |= has_crc ? HR_OBJECT_HAS_CRC : 0;
	return hr_store_commit(store, count, store->next_id, e);
}

int hr_store_finish(struct hr_store *store, uint64_t id, bool has_crc, uint32_t crc,
		    struct hr_error *e)
{
	return hr_store_finish_version(store, id, has_crc, crc, 1, e);
}

int hr_store_set_crc(struct hr_store *store, uint64_t id, bool has_crc, uint32_t crc,
		     struct hr_error *e)
{
	const struct hr_store_object *object = hr_store_find_id(store, id);
	const uint32_t flag = has_crc ? HR_OBJECT_HAS_CRC : 0;
	struct hr_store_object *changed;

	if (!object)
		return -ENOENT;
	if ((object->flags & HR_OBJECT_HAS_CRC) == flag && (!has_crc || object->crc == crc))
		return 0;
	if (object->flags & HR_OBJECT_PENDING)
		return -EINVAL;
	changed = &stage(store)[index_of(store, object)];
	changed->flags &= ~(uint32_t)HR_OBJECT_HAS_CRC;
	changed->flags |= flag;
	changed->crc = has_crc ? crc : 0;
	return hr_store_commit(store, store->count, store->next_id, e);
}

int hr_store_rename(struct hr_store *store, uint64_t id, const char *name, bool replace,
		    struct hr_error *e)
{
	const struct hr_store_object *object = hr_store_find_id(store, id);
	const struct hr_store_object *old = hr_store_find(store, name);
	uint32_t count = store->count;
	const uint64_t from = old ? old->offset : 0, to = old ? from + old->capacity : 0;
	char padded[HR_NAME_MAX] = "";
	struct hr_store_object *map;
	int err;

	if (!object)
		return -ENOENT;
	if (object->flags & HR_OBJECT_PENDING || old == object ||
	    !hr_store_name_ok(name,
			      object->flags & HR_OBJECT_SHARD ? HR_SHARD_NAME_MAX : HR_NAME_MAX))
		return -EINVAL;
	if (old && !replace)
		return -EEXIST;
	snprintf(padded, sizeof padded, "%s", name);
	map = stage(store);
	if (old)
		remove_map_entry(map, &count, index_of(store, old));
	rename_object(find_id_in(map, count, id), padded);
	err = hr_store_commit(store, count, store->next_id, e);
	if (!err)
		trim(store, from, to);
	return err;
}

int hr_store_remove(struct hr_store *store, uint64_t id, struct hr_error *e)
{
	const struct hr_store_object *object = hr_store_find_id(store, id);
	uint32_t count = store->count;
	uint64_t from, to;
	int err;

	if (!object)
		return -ENOENT;
	from = object->offset;
	to = from + object->capacity;
	remove_map_entry(stage(store), &count, index_of(store, object));
	err = hr_store_commit(store, count, store->next_id, e);
	if (!err)
		trim(store, from, to);
	return err;
}

int hr_store_remove_some(struct hr_store *store,
			 bool (*wanted)(void *arg, const struct hr_store_object *object), void *arg,
			 uint32_t *count, uint64_t *bytes, struct hr_error *e)
{
	struct hr_store_object *map = hr_store_io_map(store);
	uint64_t from = UINT64_MAX, to = 0; /* a range with all of them */
	uint32_t kept = 0;
	int err;

	*count = 0;
	*bytes = 0;
	for (uint32_t i = 0; i < store->count; i++) {
		const struct hr_store_object *object = &store->object[i];

		if (!wanted(arg, object)) {
			map[kept++] = *object;
			continue;
		}
		++*count;
		*bytes += object->capacity;
		from = object->offset < from ? object->offset : from;
		to = object->offset + object->capacity > to ? object->offset + object->capacity
							    : to;
	}
	err = *count ? hr_store_commit(store, kept, store->next_id, e) : 0;
	if (!err && *count)
		trim(store, from, to);
	return err;
}
