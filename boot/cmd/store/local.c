/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/store/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/error.h"
#include "boot/engine/devices/ssd_store.h"
#include "cache/crc32c.h"
#include "cache/store/verify.h"
#include "config/base/process.h"
#include "config/base/log.h"

#define BUFFER_BYTES (4u << 20)

static int map(void *to, const struct hr_store_object **object, uint32_t *count,
	       struct hr_store_space *space)
{
	const struct hr_store_local *l = to;

	if (object)
		*object = l->ssd->store.object;
	if (count)
		*count = l->ssd->store.count;
	if (space)
		hr_store_space(&l->ssd->store, space);
	return 0;
}

/* Extents are multiples of HR_STORE_ALIGN, so the last piece is rounded up. */
static size_t padded_piece(size_t bytes)
{
	return (bytes + HR_STORE_ALIGN - 1) & ~((size_t)HR_STORE_ALIGN - 1);
}

static int select_object(struct hr_store_local *l, const struct hr_store_object *object)
{
	l->object = *object;
	l->at = 0;
	return 0;
}

static int get(void *to, const char *name, struct hr_store_object *out)
{
	struct hr_store_local *l = to;
	const struct hr_store_object *object = hr_store_find(&l->ssd->store, name);
	struct hr_error e = { 0 };

	if (object) {
		*out = *object;
		return select_object(l, object);
	}
	if (!hr_store_find_pending(&l->ssd->store, name))
		return hr_store_failed(l->ssd, name, -ENOENT, &e);
	hr_error("%s: '%s': incomplete: its writer has not finished", l->ssd->transport.name, name);
	return HR_EXIT_FAILED;
}

static int read_next(void *to, uint8_t *data, size_t bytes)
{
	struct hr_store_local *l = to;
	struct hr_blk *blk = l->ssd->blk;
	struct hr_error e = { 0 };
	const int err =
		blk->ops->read(blk, l->object.offset + l->at, data, padded_piece(bytes), &e);

	l->at += bytes;
	return err ? hr_store_failed(l->ssd, l->object.name, err, &e) : 0;
}

static int got(void *to)
{
	return 0;
}

static int put(void *to, const char *name, uint64_t bytes, bool replace,
	       const struct hr_store_shard *shard)
{
	struct hr_store_local *l = to;
	struct hr_store_object *object;
	struct hr_error e = { 0 };
	const int err =
		hr_store_create_shard(&l->ssd->store, name, bytes, 0, replace, shard, &object, &e);

	return err ? hr_store_failed(l->ssd, name, err, &e) : select_object(l, object);
}

static int write_next(void *to, uint8_t *data, size_t bytes)
{
	struct hr_store_local *l = to;
	struct hr_blk *blk = l->ssd->blk;
	struct hr_error e = { 0 };
	int err;

	memset(data + bytes, 0, padded_piece(bytes) - bytes);
	err = blk->ops->write(blk, l->object.offset + l->at, data, padded_piece(bytes), false, &e);
	l->at += bytes;
	return err ? hr_store_failed(l->ssd, l->object.name, err, &e) : 0;
}

static int finish(void *to, uint32_t crc, uint64_t set)
{
	struct hr_store_local *l = to;
	struct hr_error e = { 0 };
	int err = l->object.flags & HR_OBJECT_SHARD
			  ? hr_store_set_shard(&l->ssd->store, l->object.id, set, &e)
			  : 0;

	if (!err)
		err = hr_store_finish(&l->ssd->store, l->object.id, true, crc, &e);

	return err ? hr_store_failed(l->ssd, l->object.name, err, &e) : 0;
}

/* Remove the new object again, if the disk still works. */
static void undo(void *to)
{
	struct hr_store_local *l = to;
	struct hr_error e = { 0 };

	if (hr_health_failed(&l->ssd->health) ||
	    hr_store_remove(&l->ssd->store, l->object.id, &e) != 0)
		hr_error("%s: '%s' stays as an incomplete object%s%s; 'rm --pending' removes it",
			 l->ssd->transport.name, l->object.name, e.kind ? ": " : "", e.text);
}

/* ---- verify */

struct check {
	const struct hr_store_listener *listener;
	uint64_t done, total;
};

static void forward_finding(void *arg, bool fault, const char *line)
{
	const struct check *c = arg;

	c->listener->found(c->listener->arg, fault, line);
}

static bool forward_progress(void *arg, uint64_t bytes)
{
	struct check *c = arg;

	c->done += bytes;
	return c->listener->progress(c->listener->arg, c->done, c->total);
}

static uint64_t bytes_to_check(const struct hr_store *store)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < store->count; i++)
		if (store->object[i].flags & HR_OBJECT_HAS_CRC)
			sum += store->object[i].bytes;
	return sum;
}

static int verify(void *to, bool map_only, const struct hr_store_listener *listener,
		  uint32_t *faults, bool *complete)
{
	const struct hr_store_local *l = to;
	struct check c = { .listener = listener, .total = bytes_to_check(&l->ssd->store) };
	struct hr_store_check check = { .report = forward_finding,
					.progress = forward_progress,
					.arg = &c,
					.data = !map_only,
					.buffer = hr_not_dumped(
						aligned_alloc(HR_PAGE, BUFFER_BYTES), BUFFER_BYTES),
					.buffer_bytes = BUFFER_BYTES };
	struct hr_error e = { 0 };
	int err;

	if (!check.buffer)
		return hr_store_failed(l->ssd, NULL, -ENOMEM, &e);
	err = hr_store_verify(&l->ssd->store, &check, faults, &e);
	*complete = err == 0;
	free(check.buffer);
	return hr_error_report(&e, err);
}

/* ---- removing, renaming, copying */

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
	const int err =
		hr_incomplete_remove(&ssd->store, older_ns, NULL, NULL, &removed, bytes, &e);

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

static void discard_made(struct hr_ssd *ssd, const struct hr_store_object *made)
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
			discard_made(ssd, made);
	}
	free(buffer);
	return err ? hr_store_failed(ssd, target, err, &e) : 0;
}

void hr_store_local_open(struct hr_store_backend *access, struct hr_store_local *local,
			 struct hr_ssd *ssd)
{
	*local = (struct hr_store_local){ .ssd = ssd };
	*access = (struct hr_store_backend){ .to = local,
					     .disk = ssd->transport.name,
					     .identity = "",
					     .map = map,
					     .get = get,
					     .read = read_next,
					     .got = got,
					     .put = put,
					     .write = write_next,
					     .finish = finish,
					     .undo = undo,
					     .verify = verify,
					     .remove = remove_named,
					     .remove_pending = remove_pending,
					     .rename = rename_it,
					     .copy = copy };
}

int hr_store_failed(const struct hr_ssd *ssd, const char *object, int err, struct hr_error *e)
{
	return hr_error_report(e, hr_ssd_store_explain(ssd, object, err, e));
}
