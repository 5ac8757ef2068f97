/*
 * Finding, making and removing objects. A change is prepared in the store's io memory and becomes
 * the map, on disk and then in memory, in one commit.
 */
#include "cache/store/objmap.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "config/log.h"
#include "cache/store/objmap_disk.h"
#include "nvme/status.h"

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
		return "the name is taken";
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
		return "the name or the size is impossible";
	default:
		return hr_error_name(error, buffer, bytes);
	}
}

static struct hr_object *find(const struct hr_store *store, const char *name, bool pending)
{
	for (uint32_t i = 0; i < store->count; i++) {
		struct hr_object *object = &store->object[i];

		if (!(object->flags & HR_OBJECT_PENDING) != pending &&
		    strcmp(object->name, name) == 0)
			return object;
	}
	return NULL;
}

struct hr_object *hr_store_find(const struct hr_store *store, const char *name)
{
	return find(store, name, false);
}

struct hr_object *hr_store_find_pending(const struct hr_store *store, const char *name)
{
	return find(store, name, true);
}

struct hr_object *hr_store_find_id(const struct hr_store *store, uint64_t id)
{
	uint32_t low = 0, high = store->count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (store->object[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < store->count && store->object[low].id == id ? &store->object[low] : NULL;
}

/* The first gap of at least `bytes` between the records of map. *largest: of the gaps before it. */
static bool first_fit(const struct hr_store *store, const struct hr_object *map, uint32_t count,
		      uint64_t bytes, uint64_t *offset, uint64_t *largest)
{
	const uint64_t end = store->data_offset + store->data_bytes;
	uint16_t *order = hr_store_io_order(store);
	uint64_t at = store->data_offset;

	*largest = 0;
	hr_store_sort_by_offset(map, count, order);
	for (uint32_t i = 0; i <= count; i++) {
		const struct hr_object *next = i < count ? &map[order[i]] : NULL;
		const uint64_t gap = (next ? next->offset : end) - at;

		if (next && next->capacity == 0)
			continue;
		if (gap >= bytes) {
			*offset = at;
			return true;
		}
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
	(void)first_fit(store, store->object, store->count, UINT64_MAX, &offset,
			&space->largest_gap);
}

/* ---- changes, on a copy of the map */

static struct hr_object *stage(const struct hr_store *store)
{
	struct hr_object *map = hr_store_io_map(store);

	memcpy(map, store->object, store->count * sizeof(*map));
	return map;
}

static void drop(struct hr_object *map, uint32_t *count, size_t index)
{
	memmove(&map[index], &map[index + 1], (*count - index - 1) * sizeof(*map));
	(*count)--;
}

static size_t index_of(const struct hr_store *store, const struct hr_object *object)
{
	return (size_t)(object - store->object);
}

/* 0 before 1970. */
static uint64_t wall_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec < 0) /* a clock that was never set: no time at all */
		return 0;
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Place a PENDING object behind the `count` records of map. */
static int append(const struct hr_store *store, struct hr_object *map, uint32_t count,
		  const char *name, uint64_t bytes, uint64_t tag)
{
	struct hr_object *object = &map[count];
	uint64_t offset, largest;

	if (count == store->capacity) {
		hr_error(
			"%s: '%s': the object map is full (%u objects)%s", store->blk->name, name,
			store->capacity,
			hr_store_find(store, name)
				? "; the new object needs a place of its own until it is whole and "
				  "takes that of the old one: remove an object first"
				: "");
		return -ENFILE;
	}
	if (!first_fit(store, map, count, bytes, &offset, &largest)) {
		hr_error("%s: '%s': no room for %" PRIu64 " bytes: the largest gap has %" PRIu64,
			 store->blk->name, name, bytes, largest);
		return -ENOSPC;
	}
	memset(object, 0, sizeof(*object));
	object->id = store->next_id;
	memcpy(object->name, name, strlen(name));
	object->offset = offset;
	object->capacity = hr_store_round(bytes, HR_STORE_ALIGN);
	object->bytes = bytes;
	object->tag = tag;
	object->created_ns = wall_clock_ns();
	object->flags = HR_OBJECT_PENDING;
	return 0;
}

int hr_store_create(struct hr_store *store, const char *name, uint64_t bytes, uint64_t tag,
		    bool replace, struct hr_object **out)
{
	const struct hr_object *stale = hr_store_find_pending(store, name);
	uint32_t count = store->count;
	struct hr_object *map;
	int err;

	if (!hr_store_name_ok(name, HR_NAME_MAX))
		return -EINVAL;
	if (!replace && hr_store_find(store, name))
		return -EEXIST;
	if (!replace && stale)
		return -EBUSY;
	map = stage(store);
	if (stale)
		drop(map, &count, index_of(store, stale));
	err = append(store, map, count, name, bytes, tag);
	if (!err)
		err = hr_store_commit(store, count + 1, store->next_id + 1);
	if (!err)
		*out = &store->object[count];
	return err;
}

int hr_store_progress(struct hr_store *store, uint64_t id, uint64_t durable_bytes, uint64_t tag,
		      uint32_t crc)
{
	const struct hr_object *object = hr_store_find_id(store, id);
	struct hr_object *changed;

	if (!object)
		return -ENOENT;
	if (!(object->flags & HR_OBJECT_PENDING) || durable_bytes > object->bytes ||
	    durable_bytes < object->durable_bytes)
		return -EINVAL;
	changed = &stage(store)[index_of(store, object)];
	changed->durable_bytes = durable_bytes;
	changed->tag = tag;
	changed->crc = crc;
	return hr_store_commit(store, store->count, store->next_id);
}

int hr_store_finish(struct hr_store *store, uint64_t id, bool has_crc, uint32_t crc)
{
	const struct hr_object *object = hr_store_find_id(store, id), *replaced;
	uint32_t count = store->count;
	struct hr_object *map, *done;

	if (!object)
		return -ENOENT;
	if (!(object->flags & HR_OBJECT_PENDING))
		return -EINVAL;
	replaced = hr_store_find(store, object->name);
	map = stage(store);
	done = &map[index_of(store, object)];
	done->flags = has_crc ? HR_OBJECT_HAS_CRC : 0;
	done->crc = has_crc ? crc : 0;
	done->durable_bytes = done->bytes;
	if (replaced)
		drop(map, &count, index_of(store, replaced));
	return hr_store_commit(store, count, store->next_id);
}

int hr_store_remove(struct hr_store *store, uint64_t id)
{
	const struct hr_object *object = hr_store_find_id(store, id);
	uint32_t count = store->count;

	if (!object)
		return -ENOENT;
	drop(stage(store), &count, index_of(store, object));
	return hr_store_commit(store, count, store->next_id);
}

int hr_store_remove_some(struct hr_store *store,
			 bool (*wanted)(void *arg, const struct hr_object *object), void *arg,
			 uint32_t *count, uint64_t *bytes)
{
	struct hr_object *map = hr_store_io_map(store);
	uint32_t kept = 0;

	*count = 0;
	*bytes = 0;
	for (uint32_t i = 0; i < store->count; i++) {
		if (!wanted(arg, &store->object[i])) {
			map[kept++] = store->object[i];
			continue;
		}
		++*count;
		*bytes += store->object[i].capacity;
	}
	return *count ? hr_store_commit(store, kept, store->next_id) : 0;
}
