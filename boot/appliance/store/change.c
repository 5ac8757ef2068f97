/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/store/job.h"

#include <errno.h>
#include <string.h>

#include "config/base/error.h"
#include "boot/engine/object_users.h"
#include "boot/engine/devices/ssd_store.h"

static int busy(struct hr_store_job *d, const struct hr_run *run, const char *does,
		const char *name)
{
	return hr_fail(&d->e, HR_ERROR_FAILED, -EBUSY,
		       "busy: pipeline '%s' %s object '%s' now: try again when it has ended",
		       run->config->name, does, name);
}

/* 0; -EBUSY: a run makes an object of that name, or the name is one of the appliance. */
static int check_name(const struct hr_store_service *c, struct hr_store_job *d, const char *name)
{
	const struct hr_run *run = hr_run_making(c->engine, d->ssd, name);
	const int err = hr_store_job_check_own(d, name);

	return !err && run ? busy(d, run, "makes", name) : err;
}

/* 0; -EBUSY: a run reads or changes this finished object. */
static int check_unused(const struct hr_store_service *c, struct hr_store_job *d,
			const struct hr_store_object *object)
{
	const struct hr_run *run = hr_run_reading(c->engine, d->ssd, object->id);

	if (run)
		return busy(d, run, "reads", object->name);
	run = hr_run_changing(c->engine, d->ssd, object->id, false);
	return run ? busy(d, run, "changes", object->name) : 0;
}

/* A put or a copy of another client makes this incomplete object. */
static bool is_made(const struct hr_store_service *c, uint32_t ssd, uint64_t id)
{
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
		const struct hr_store_job *d = &c->job[i];

		if (d->state != HR_STORE_JOB_FREE && hr_store_job_makes(d) && d->ssd == ssd &&
		    d->object.id == id)
			return true;
	}
	return false;
}

static int explain(const struct hr_store_service *c, struct hr_store_job *d, const char *name,
		   int err)
{
	return hr_ssd_store_explain(&c->engine->ssd[d->ssd], name, err, &d->e);
}

static void settle_change(struct hr_store_service *c, struct hr_store_job *d, int err)
{
	if (err) {
		hr_store_job_fail(c, d);
		return;
	}
	hr_store_job_reply(c, d, HR_EXIT_DONE);
	if (c->changed)
		c->changed(c->to);
}

/* ---- rm */

struct choice {
	const struct hr_store_service *service;
	uint32_t ssd;
};

static bool is_in_use(void *arg, const struct hr_store_object *object)
{
	const struct choice *choice = arg;

	return hr_run_making(choice->service->engine, choice->ssd, object->name) ||
	       is_made(choice->service, choice->ssd, object->id);
}

static int remove_pending(struct hr_store_service *c, struct hr_store_job *d)
{
	struct choice choice = { c, d->ssd };
	uint32_t count = 0;
	int err = hr_incomplete_remove(hr_store_job_store(c, d), d->request.bytes, is_in_use,
				       &choice, &count, &d->total, &d->e);

	d->checked = count;
	return err ? explain(c, d, NULL, err) : 0;
}

/* The incomplete and the finished object of the name. */
static int remove_named(struct hr_store_service *c, struct hr_store_job *d)
{
	struct hr_store *store = hr_store_job_store(c, d);
	const char *name = d->request.object;
	const struct hr_store_object *pending = hr_store_find_pending(store, name);
	const struct hr_store_object *whole =
		d->request.pending ? NULL : hr_store_find(store, name);
	const uint64_t pending_id = pending ? pending->id : 0, whole_id = whole ? whole->id : 0;
	int err = pending || whole ? check_name(c, d, name) : -ENOENT;

	if (!err && whole)
		err = check_unused(c, d, whole);
	if (!err && pending && is_made(c, d->ssd, pending_id))
		err = hr_fail(&d->e, HR_ERROR_FAILED, -EBUSY,
			      "busy: another client makes object '%s' now", name);
	if (!err && pending_id)
		err = hr_store_remove(store, pending_id, &d->e);
	if (!err && whole_id)
		err = hr_store_remove(store, whole_id, &d->e);
	return err ? explain(c, d, name, err) : 0;
}

void hr_store_job_remove(struct hr_store_service *c, struct hr_store_job *d)
{
	settle_change(c, d, *d->request.object ? remove_named(c, d) : remove_pending(c, d));
}

/* ---- mv, cp */

/* Find the object whose data get another name. 0, or an error in d->e. */
static int find_source(struct hr_store_service *c, struct hr_store_job *d)
{
	const struct hr_store_object *object =
		hr_store_find(hr_store_job_store(c, d), d->request.object);

	if (!object)
		return explain(c, d, d->request.object, -ENOENT);
	d->from = *object;
	return 0;
}

static int rename_it(struct hr_store_service *c, struct hr_store_job *d)
{
	const char *name = d->request.object, *target = d->request.target;
	const struct hr_store_object *old = hr_store_find(hr_store_job_store(c, d), target);
	int err = find_source(c, d);

	if (!err)
		err = check_name(c, d, name);
	if (!err)
		err = check_unused(c, d, &d->from);
	if (!err)
		err = check_name(c, d, target);
	if (!err && old && d->request.replace)
		err = check_unused(c, d, old);
	if (err)
		return err;
	err = hr_store_rename(hr_store_job_store(c, d), d->from.id, target, d->request.replace,
			      &d->e);
	return err ? explain(c, d, target, err) : 0;
}

void hr_store_job_rename(struct hr_store_service *c, struct hr_store_job *d)
{
	settle_change(c, d, rename_it(c, d));
}

static int begin_copy(struct hr_store_service *c, struct hr_store_job *d)
{
	const char *target = d->request.target;
	struct hr_store_object *object;
	int err = find_source(c, d);

	if (!err)
		err = hr_store_job_check_changing(c, d, d->from.id, true);
	if (!err)
		err = check_name(c, d, target);
	if (!err)
		err = hr_store_job_pin(c, d, &d->from);
	if (err)
		return err;
	err = hr_store_create_shard(
		hr_store_job_store(c, d), target, d->from.bytes, 0, d->request.replace,
		d->from.flags & HR_OBJECT_SHARD ? &d->from.shard : NULL, &object, &d->e);
	if (err)
		return explain(c, d, target, err);
	d->object = *object;
	return 0;
}

static void add_copied_bytes(struct hr_store_job *d)
{
	const struct hr_message_verified item = { d->at, d->object.bytes };

	d->length = 0;
	hr_store_job_add(d, HR_MESSAGE_DONE, &item, sizeof item);
	hr_store_job_send(d);
}

void hr_store_job_begin_copy(struct hr_store_service *c, struct hr_store_job *d)
{
	if (begin_copy(c, d))
		hr_store_job_fail(c, d);
	else
		add_copied_bytes(d);
}

void hr_store_job_copied(struct hr_store_service *c, struct hr_store_job *d)
{
	const bool was_read = !d->write;

	if (was_read && hr_store_job_check_read(c, d)) {
		hr_store_job_fail(c, d);
		return;
	}
	d->write = was_read;
	if (!was_read)
		add_copied_bytes(d);
}

void hr_store_job_copy_on(struct hr_store_service *c, struct hr_store_job *d)
{
	if (d->at < d->object.bytes) {
		d->state = HR_STORE_JOB_READY;
	} else if (d->from.flags & HR_OBJECT_HAS_CRC && d->from.crc != d->crc) {
		hr_fail(&d->e, HR_ERROR_DEVICE, -EBADMSG,
			"ssd '%s': '%s': CRC-32C of the read data is %08x, expected %08x; nothing "
			"is copied",
			c->engine->config.ssd[d->ssd].name, d->from.name, d->crc, d->from.crc);
		hr_store_job_fail(c, d);
	} else {
		d->state = HR_STORE_JOB_FINISHES;
	}
}
