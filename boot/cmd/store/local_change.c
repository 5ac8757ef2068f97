#include "boot/cmd/store/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/exit.h"
#include "boot/engine/devices/pending.h"
#include "cache/crc32c.h"
#include "config/base/dump.h"
#include "config/base/log.h"

#define BUFFER_BYTES (4u << 20)

static int remove_named(void *to, const char *name, bool only_pending)
{
	struct hr_ssd *ssd = ((struct hr_store_local *)to)->ssd;
	const struct hr_store_object *pending = hr_store_find_pending(&ssd->store, name);
	const struct hr_store_object *whole =
		only_pending ? NULL : hr_store_find(&ssd->store, name);
	const uint64_t whole_id = whole ? whole->id : 0;
	struct hr_error e = { 0 };
	int err = pending || whole ? 0 : -ENOENT;

	if (pending)
		err = hr_store_remove(&ssd->store, pending->id, &e);
	if (!err && whole_id)
		err = hr_store_remove(&ssd->store, whole_id, &e);
	return err ? hr_store_failed(ssd, name, err, &e) : 0;
}

static int remove_pending(void *to, uint64_t older_ns, uint64_t *count, uint64_t *bytes)
{
	struct hr_ssd *ssd = ((struct hr_store_local *)to)->ssd;
	struct hr_error e = { 0 };
	uint32_t removed = 0;
	const int err = hr_pending_remove(&ssd->store, older_ns, NULL, NULL, &removed, bytes, &e);

	*count = removed;
	return err ? hr_store_failed(ssd, NULL, err, &e) : 0;
}

static int rename_it(void *to, const char *name, const char *target, bool replace)
{
	struct hr_ssd *ssd = ((struct hr_store_local *)to)->ssd;
	const struct hr_store_object *object = hr_store_find(&ssd->store, name);
	struct hr_error e = { 0 };
	const int err =
		object ? hr_store_rename(&ssd->store, object->id, target, replace, &e) : -ENOENT;

	return err ? hr_store_failed(ssd, object ? target : name, err, &e) : 0;
}

/* ---- copy */

static int copy_data(struct hr_ssd *ssd, const struct hr_store_object *from,
		     struct hr_store_object *made, uint8_t *buffer,
		     const struct hr_store_listener *listener, struct hr_error *e)
{
	struct hr_blk *blk = ssd->blk;
	int err = 0;

	for (uint64_t at = 0; !err && at < from->bytes; at += BUFFER_BYTES) {
		const uint64_t left = from->bytes - at;
		const size_t bytes = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
		const size_t padded = (bytes + HR_STORE_ALIGN - 1) & ~((size_t)HR_STORE_ALIGN - 1);

		err = blk->ops->read(blk, from->offset + at, buffer, padded, e);
		if (err)
			break;
		made->crc = hr_crc32c(made->crc, buffer, bytes);
		memset(buffer + bytes, 0, padded - bytes);
		err = blk->ops->write(blk, made->offset + at, buffer, padded, false, e);
		if (!err && !listener->progress(listener->arg, at + bytes, from->bytes))
			err = hr_fail(e, HR_ERROR_FAILED, -EINTR, "'%s': interrupted", from->name);
	}
	if (!err && from->flags & HR_OBJECT_HAS_CRC && from->crc != made->crc)
		err = hr_fail(
			e, HR_ERROR_DEVICE, -EBADMSG,
			"%s: '%s': CRC-32C of the read data is %08x, expected %08x; nothing is "
			"copied",
			ssd->transport.name, from->name, made->crc, from->crc);
	return err;
}

static void discard(struct hr_ssd *ssd, const struct hr_store_object *made)
{
	struct hr_error e = { 0 };

	if (hr_health_failed(&ssd->health) || hr_store_remove(&ssd->store, made->id, &e) != 0)
		hr_error("%s: '%s' stays as an incomplete object%s%s; 'rm --pending' removes it",
			 ssd->transport.name, made->name, e.kind ? ": " : "", e.text);
}

static int copy(void *to, const char *name, const char *target, bool replace,
		const struct hr_store_listener *listener, struct hr_store_object *made)
{
	struct hr_ssd *ssd = ((struct hr_store_local *)to)->ssd;
	const struct hr_store_object *object = hr_store_find(&ssd->store, name);
	uint8_t *buffer = hr_not_dumped(aligned_alloc(HR_PAGE, BUFFER_BYTES), BUFFER_BYTES);
	struct hr_store_object from, *new;
	struct hr_error e = { 0 };
	int err = !buffer ? -ENOMEM : object ? 0 : -ENOENT;

	if (err) {
		free(buffer);
		return hr_store_failed(ssd, name, err, &e);
	}
	from = *object;
	err = hr_store_create_shard(&ssd->store, target, from.bytes, 0, replace,
				    from.flags & HR_OBJECT_SHARD ? &from.shard : NULL, &new, &e);
	if (!err) {
		*made = *new;
		err = copy_data(ssd, &from, made, buffer, listener, &e);
		if (!err)
			err = hr_store_finish(&ssd->store, made->id, true, made->crc, &e);
		if (err)
			discard(ssd, made);
	}
	free(buffer);
	return err ? hr_store_failed(ssd, target, err, &e) : 0;
}

void hr_store_local_change_open(struct hr_store_access *access)
{
	access->remove = remove_named;
	access->remove_pending = remove_pending;
	access->rename = rename_it;
	access->copy = copy;
}
