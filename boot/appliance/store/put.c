/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/store/job.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "config/base/error.h"
#include "boot/engine/object_users.h"
#include "boot/engine/devices/ssd_store.h"

static int create_put_object(struct hr_store_service *c, struct hr_store_job *d)
{
	const struct hr_run *run = hr_run_making(c->engine, d->ssd, d->request.object);
	struct hr_store_object *object;
	int err = hr_store_job_check_own(d, d->request.object);

	if (err)
		return err;
	if (run)
		return hr_fail(&d->e, HR_ERROR_FAILED, -EBUSY,
			       "busy: pipeline '%s' makes object '%s' now", run->config->name,
			       d->request.object);
	err = hr_store_create(hr_store_job_store(c, d), d->request.object, d->request.bytes, 0,
			      d->request.replace, &object, &d->e);
	if (err)
		return hr_ssd_store_explain(&c->engine->ssd[d->ssd], d->request.object, err, &d->e);
	d->object = *object;
	return 0;
}

void hr_store_job_begin_put(struct hr_store_service *c, struct hr_store_job *d)
{
	if (create_put_object(c, d)) {
		hr_store_job_fail(c, d);
		return;
	}
	hr_store_job_add(d, HR_MESSAGE_GO, NULL, 0);
	hr_store_job_send(d);
}

/* 0, or an error: this item is not allowed now. */
static int parse_item_head(struct hr_store_job *d)
{
	const uint64_t left = d->object.bytes - d->received;
	struct hr_message_item item;
	int err = hr_message_parse_item(&item, d->head, d->request.kind);

	d->head_got = 0;
	if (err)
		return hr_fail(&d->e, HR_ERROR_USAGE, err, "%s", hr_request_error(-EPROTO));
	if (item.kind == HR_MESSAGE_ALIVE)
		return 0;
	if (item.kind == HR_MESSAGE_DATA && item.bytes > left)
		return hr_fail(&d->e, HR_ERROR_USAGE, -EMSGSIZE,
			       "'%s': more data than the %llu bytes that were announced",
			       d->request.object, (unsigned long long)d->object.bytes);
	if (item.kind == HR_MESSAGE_END && left)
		return hr_fail(&d->e, HR_ERROR_USAGE, -EMSGSIZE,
			       "'%s': the data end after %llu of %llu bytes", d->request.object,
			       (unsigned long long)d->received,
			       (unsigned long long)d->object.bytes);
	if (item.kind != HR_MESSAGE_DATA && item.kind != HR_MESSAGE_END)
		return hr_fail(&d->e, HR_ERROR_USAGE, -EPROTO, "%s", hr_request_error(-EPROTO));
	d->item_left = item.bytes;
	d->ends = item.kind == HR_MESSAGE_END;
	return 0;
}

static int check_received_crc(struct hr_store_job *d)
{
	uint32_t crc;

	memcpy(&crc, d->buffer, sizeof crc);
	if (crc != d->crc)
		return hr_fail(&d->e, HR_ERROR_FAILED, -EBADMSG,
			       "'%s': CRC-32C of the received data is %08x, expected %08x",
			       d->request.object, d->crc, crc);
	d->state = HR_STORE_JOB_FINISHES;
	return 0;
}

/* Some bytes of the body of an item have come. */
static int count_body_bytes(struct hr_store_job *d, uint32_t bytes)
{
	d->item_left -= bytes;
	d->length += bytes;
	if (d->ends)
		return d->item_left ? 0 : check_received_crc(d);
	d->received += bytes;
	if (d->length == d->piece)
		d->state = HR_STORE_JOB_READY;
	return 0;
}

void hr_store_job_receive(struct hr_store_service *c, struct hr_store_job *d)
{
	const bool head = d->item_left == 0;
	uint8_t *to = head ? d->head + d->head_got : d->buffer + d->length;
	size_t room = head ? HR_MESSAGE_HEADER - d->head_got : d->item_left;
	ssize_t n;
	int err = 0;

	if (!head && !d->ends && room > d->piece - d->length)
		room = d->piece - d->length;
	n = recv(d->fd, to, room, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hr_store_job_undo(c, d);
		d->state = HR_STORE_JOB_FREE; /* the service closes it */
		return;
	}
	d->waits_ns = d->heard_ns = hr_now_ns();
	if (head) {
		d->head_got += (uint32_t)n;
		err = d->head_got == HR_MESSAGE_HEADER ? parse_item_head(d) : 0;
	} else {
		err = count_body_bytes(d, (uint32_t)n);
	}
	if (err)
		hr_store_job_fail(c, d);
}

/* A run still reads the version that the put replaces: its space stays. */
static int keep_old(struct hr_store_service *c, const struct hr_store_job *d, uint64_t id)
{
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
		int err;

		if (c->kept[i].id)
			continue;
		err = hr_store_pin(hr_store_job_store(c, d), id, true, &c->kept[i].pin);
		if (err)
			return err;
		c->kept[i].id = id;
		c->kept[i].ssd = d->ssd;
		return 0;
	}
	return -ENFILE;
}

int hr_store_job_check_made(struct hr_store_service *c, struct hr_store_job *d)
{
	if (hr_store_find_id(hr_store_job_store(c, d), d->object.id))
		return 0;
	return hr_fail(&d->e, HR_ERROR_FAILED, -ESTALE,
		       "'%s': a pipeline, or another client, has taken the place of the incomplete "
		       "object",
		       d->object.name);
}

static int publish_object(struct hr_store_service *c, struct hr_store_job *d)
{
	struct hr_store *store = hr_store_job_store(c, d);
	const struct hr_store_object *old = hr_store_find(store, d->object.name);
	int err = hr_store_job_check_made(c, d);

	if (err)
		return err;
	if (old && !d->request.replace)
		return hr_fail(&d->e, HR_ERROR_FAILED, -EEXIST,
			       "'%s': a pipeline has made an object of that name meanwhile; "
			       "--replace replaces it",
			       d->object.name);
	if (old && hr_store_job_check_changing(c, d, old->id, false))
		return -EBUSY;
	if (old && hr_run_reading(c->engine, d->ssd, old->id) && keep_old(c, d, old->id))
		return hr_fail(&d->e, HR_ERROR_FAILED, -EBUSY,
			       "busy: pipelines read %u replaced objects now: try again when they "
			       "have ended",
			       HR_STORE_CLIENTS);
	err = hr_store_finish(store, d->object.id, true, d->crc, &d->e);
	return err ? hr_ssd_store_explain(&c->engine->ssd[d->ssd], d->object.name, err, &d->e) : 0;
}

void hr_store_job_finish(struct hr_store_service *c, struct hr_store_job *d)
{
	if (publish_object(c, d)) {
		hr_store_job_fail(c, d);
		return;
	}
	if (d->pinned)
		hr_store_unpin(hr_store_job_store(c, d), d->pin);
	d->pinned = false;
	d->length = 0;
	hr_store_job_reply(c, d, HR_EXIT_DONE);
	if (c->changed)
		c->changed(c->to);
}
