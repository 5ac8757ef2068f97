/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/store/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/error.h"
#include "boot/engine/history.h"
#include "boot/engine/object_users.h"
#include "boot/engine/devices/stand_in.h"
#include "boot/appliance/schedule/starts.h"
#include "cache/crc32c.h"
#include "cache/store/verify.h"
#include "config/base/json.h"
#include "config/base/log.h"

#define PIECE_LIMITED (256u << 10) /* while a pipeline runs, which waits for the ssd meanwhile */

#define REPLY_MAX (8u << 10)
#define RECORD sizeof(struct hr_store_object)

_Static_assert(HR_MESSAGE_HEADER + sizeof(struct hr_ssd_facts) + HR_MESSAGE_HEADER +
			       sizeof(struct hr_message_map) + HR_STORE_OBJECTS_MAX * RECORD +
			       HR_MESSAGE_HEADER + REPLY_MAX <=
		       HR_STORE_JOB_BUFFER,
	       "a whole map and the reply fit");

static struct hr_ssd *ssd_of(const struct hr_store_service *c, const struct hr_store_job *d)
{
	return &c->engine->ssd[d->ssd];
}

struct hr_store *hr_store_job_store(const struct hr_store_service *c, const struct hr_store_job *d)
{
	return &ssd_of(c, d)->store;
}

static const char *ssd_name(const struct hr_store_service *c, const struct hr_store_job *d)
{
	return c->engine->config.ssd[d->ssd].name;
}

/* ---- data to the client */

void hr_store_job_add(struct hr_store_job *d, enum hr_message_kind kind, const void *body,
		      uint32_t bytes)
{
	const struct hr_message_item item = { kind, bytes };

	hr_message_format_item(&item, d->request.kind, d->buffer + d->length);
	if (body)
		memcpy(d->buffer + d->length + HR_MESSAGE_HEADER, body, bytes);
	d->length += HR_MESSAGE_HEADER + bytes;
}

void hr_store_job_send(struct hr_store_job *d)
{
	d->state = HR_STORE_JOB_SENDS;
	d->sent = 0;
}

static void put_result(struct hr_json *j, const struct hr_store_job *d)
{
	char crc[16];

	snprintf(crc, sizeof crc, "%08x", d->crc);
	if (d->object.id && hr_request_form(d->request.kind)->object) {
		hr_json_u64(j, "bytes", d->object.bytes);
		hr_json_string(j, "crc32c", crc);
	}
	if (d->request.kind == HR_REQUEST_STORE_RM && !*d->request.object) {
		hr_json_u64(j, "removed_objects", d->checked);
		hr_json_u64(j, "removed_bytes", d->total);
	}
	if (d->request.kind == HR_REQUEST_STORE_VERIFY) {
		hr_json_u64(j, "faults", d->faults);
		hr_json_u64(j, "findings_left_out", d->left_out);
	}
}

/* Append the reply, with the error of the job when it has one. */
void hr_store_job_reply(const struct hr_store_service *c, struct hr_store_job *d, uint32_t code)
{
	uint8_t *head = d->buffer + d->length;
	struct hr_reply reply = { d->request.kind, code, 0 };
	struct hr_json j;

	hr_json_to_text(&j, HR_JSON_LINE, (char *)head + HR_MESSAGE_HEADER, REPLY_MAX);
	hr_json_schema(&j, "headrace.answer", HR_CONTROL_SCHEMA);
	hr_json_string(&j, "appliance", c->engine->config.name);
	hr_json_string(&j, "request", hr_request_form(d->request.kind)->name);
	if (d->ssd < HR_SSDS_MAX)
		hr_json_string(&j, "ssd", ssd_name(c, d));
	if (*d->request.object)
		hr_json_string(&j, "object", d->request.object);
	if (hr_request_form(d->request.kind)->target)
		hr_json_string(&j, "target", d->request.target);
	if (!d->e.kind)
		put_result(&j, d);
	hr_json_string(&j, "result", d->absent ? "absent" : d->e.kind ? "failed" : "done");
	hr_json_u64(&j, "code", code);
	if (d->e.kind)
		hr_json_string(&j, "message", d->e.text);
	if (hr_json_done(&j) == 0)
		reply.bytes = (uint32_t)j.length;
	hr_reply_format(&reply, head);
	d->length += HR_MESSAGE_HEADER + reply.bytes;
	d->last = true;
	hr_store_job_send(d);
}

static void done(const struct hr_store_service *c, struct hr_store_job *d, uint32_t code)
{
	if (d->pinned)
		hr_store_unpin(hr_store_job_store(c, d), d->pin);
	d->pinned = false;
	hr_store_job_reply(c, d, code);
}

/* ---- end of a request: undo and release */

bool hr_store_job_makes(const struct hr_store_job *d)
{
	return d->request.kind == HR_REQUEST_STORE_PUT || d->request.kind == HR_REQUEST_STORE_CP;
}

static void remove_made(struct hr_store_service *c, struct hr_store_job *d)
{
	struct hr_ssd *ssd = ssd_of(c, d);
	const struct hr_store_object *made = hr_store_find_id(&ssd->store, d->object.id);
	struct hr_error e = { 0 };

	if (!made || !(made->flags & HR_OBJECT_PENDING))
		return;
	if (hr_health_failed(&ssd->health) || hr_store_remove(&ssd->store, made->id, &e) != 0)
		hr_warn("ssd '%s': '%s' of a client stays as an incomplete object%s%s",
			ssd_name(c, d), d->object.name, e.kind ? ": " : "", e.text);
}

void hr_store_job_undo(struct hr_store_service *c, struct hr_store_job *d)
{
	if (d->state == HR_STORE_JOB_ON_DISK)
		while (hr_nvme_blk_poll(&ssd_of(c, d)->disk) == -EINPROGRESS)
			hr_wait_ns(HR_NS_PER_MS / 50);
	if (d->pinned)
		hr_store_unpin(hr_store_job_store(c, d), d->pin);
	if (hr_store_job_makes(d) && d->object.id && !d->last)
		remove_made(c, d);
	d->pinned = false;
	d->object.id = 0;
	if (d->state == HR_STORE_JOB_ON_DISK)
		d->state = HR_STORE_JOB_READY;
}

/* The rest of an item that was sent incompletely comes before the reply. */
void hr_store_job_fail(struct hr_store_service *c, struct hr_store_job *d)
{
	hr_store_job_undo(c, d);
	if (d->state != HR_STORE_JOB_SENDS)
		d->length = 0;
	hr_store_job_reply(c, d, (uint32_t)(d->e.kind ? d->e.kind : HR_ERROR_FAILED));
}

/* ---- begin */

static int find_ssd(const struct hr_store_service *c, struct hr_store_job *d)
{
	const struct hr_config *config = &c->engine->config;
	const char *name = strncmp(d->request.disk, "name:", 5) == 0 ? d->request.disk + 5 : NULL;

	for (uint32_t i = 0; i < config->ssds; i++) {
		if (name ? strcmp(name, config->ssd[i].name) != 0
			 : strcmp(d->request.disk, c->identity[i]) != 0)
			continue;
		d->ssd = i;
		if (c->engine->left_out[i] || !c->engine->ssd[i].ctrl)
			return hr_fail(&d->e, HR_ERROR_FAILED, -EAGAIN,
				       "ssd '%s' is not up: no pipeline that runs uses it, or it "
				       "has failed",
				       config->ssd[i].name);
		if (!c->engine->ssd[i].has_store && d->request.kind != HR_REQUEST_STORE_FACTS)
			return hr_fail(&d->e, HR_ERROR_FAILED, -ENOMEDIUM,
				       "ssd '%s' has no object store", config->ssd[i].name);
		return hr_health_refuse(&c->engine->ssd[i].health, &d->e);
	}
	d->absent = true;
	return hr_fail(&d->e, HR_ERROR_MISSING, -ENODEV, "this appliance has no ssd '%s'",
		       d->request.disk);
}

int hr_store_job_check_changing(const struct hr_store_service *c, struct hr_store_job *d,
				uint64_t id, bool running)
{
	const struct hr_run *run = hr_run_changing(c->engine, d->ssd, id, running);
	const struct hr_store_object *object = hr_store_find_id(hr_store_job_store(c, d), id);

	if (!run)
		return 0;
	return hr_fail(&d->e, HR_ERROR_FAILED, -EBUSY,
		       "busy: pipeline '%s' changes object '%s' now: try again when it has ended",
		       run->config->name, object ? object->name : d->request.object);
}

int hr_store_job_check_own(struct hr_store_job *d, const char *name)
{
	if (strcmp(name, HR_STARTS_OBJECT) != 0 && strcmp(name, HR_HISTORY_OBJECT) != 0)
		return 0;
	return hr_fail(&d->e, HR_ERROR_FAILED, -EBUSY, "object '%s' belongs to the appliance",
		       name);
}

static void begin_map(struct hr_store_service *c, struct hr_store_job *d)
{
	const struct hr_store *store = hr_store_job_store(c, d);
	struct hr_message_map *map = (void *)(d->buffer + d->length + HR_MESSAGE_HEADER);

	hr_store_job_add(d, HR_MESSAGE_MAP, NULL, (uint32_t)(sizeof *map + store->count * RECORD));
	memset(map, 0, sizeof *map);
	map->count = store->count;
	if (store->object) { /* the ssd has a store */
		hr_store_space(store, &map->space);
		memcpy(map + 1, store->object, store->count * RECORD);
	}
	done(c, d, HR_EXIT_DONE);
}

static void begin_facts(struct hr_store_service *c, struct hr_store_job *d)
{
	struct hr_ssd_facts facts;

	hr_ssd_describe(ssd_of(c, d), &facts);
	hr_store_job_add(d, HR_MESSAGE_FACTS, &facts, sizeof facts);
	begin_map(c, d);
}

int hr_store_job_pin(struct hr_store_service *c, struct hr_store_job *d,
		     const struct hr_store_object *object)
{
	const int err = hr_store_pin(hr_store_job_store(c, d), object->id, false, &d->pin);

	if (err)
		return hr_fail(&d->e, HR_ERROR_FAILED, err, "busy: too many objects are read now");
	d->pinned = true;
	d->pinned_id = object->id;
	d->at = 0;
	d->crc = 0;
	return 0;
}

static int pin(struct hr_store_service *c, struct hr_store_job *d,
	       const struct hr_store_object *object)
{
	const int err = hr_store_job_pin(c, d, object);

	if (!err)
		d->object = *object;
	return err;
}

static void begin_get(struct hr_store_service *c, struct hr_store_job *d)
{
	const char *name = d->request.object;
	const struct hr_store_object *object = hr_store_find(hr_store_job_store(c, d), name);
	int err = object ? hr_store_job_check_changing(c, d, object->id, true)
			 : hr_fail(&d->e, HR_ERROR_FAILED, -ENOENT, "ssd '%s': '%s': %s",
				   ssd_name(c, d), name,
				   hr_store_find_pending(hr_store_job_store(c, d), name)
					   ? "incomplete: its writer has not finished"
					   : "there is no such object");

	if (!err)
		err = pin(c, d, object);
	if (err) {
		hr_store_job_fail(c, d);
		return;
	}
	hr_store_job_add(d, HR_MESSAGE_OBJECT, &d->object, RECORD);
	hr_store_job_send(d);
}

/* ---- verify */

static void add_finding_line(void *to, bool fault, const char *line)
{
	struct hr_store_job *d = to;
	char body[HR_LOG_LINE_MAX];

	/* room for the reply stays */
	if (d->length + HR_MESSAGE_HEADER + sizeof body + REPLY_MAX > HR_STORE_JOB_BUFFER) {
		d->left_out++;
		return;
	}
	body[0] = (char)fault;
	snprintf(body + 1, sizeof body - 1, "%.*s", (int)sizeof body - 2, line);
	hr_store_job_add(d, HR_MESSAGE_LINE, body, (uint32_t)(1 + strlen(body + 1)));
}

static void add_checked_bytes(struct hr_store_job *d)
{
	const struct hr_message_verified item = { d->checked, d->total };

	hr_store_job_add(d, HR_MESSAGE_DONE, &item, sizeof item);
}

/* All data of an object are read: send the finding. */
static void send_finding(struct hr_store_job *d, bool fault, const char *line)
{
	d->faults += fault;
	add_finding_line(d, fault, line);
}

static void begin_verify(struct hr_store_service *c, struct hr_store_job *d)
{
	struct hr_store *store = hr_store_job_store(c, d);
	const struct hr_store_check check = { .report = add_finding_line, .arg = d };
	int err = hr_store_verify(store, &check, &d->faults, &d->e);

	if (err) {
		hr_store_job_fail(c, d);
		return;
	}
	for (uint32_t i = 0; i < store->count && !d->request.map_only; i++)
		if (store->object[i].flags & HR_OBJECT_HAS_CRC)
			d->total += store->object[i].bytes;
	add_checked_bytes(d);
	hr_store_job_send(d);
}

static struct hr_store_object *object_after(struct hr_store *store, uint64_t id)
{
	for (uint32_t i = 0; i < store->count; i++)
		if (store->object[i].id > id)
			return &store->object[i];
	return NULL;
}

/* Take objects in the order of their ids, so that a new or removed object does not move the
 * position. */
static void verify_next(struct hr_store_service *c, struct hr_store_job *d)
{
	const uint64_t before = d->object.id;
	const struct hr_store_object *object =
		d->request.map_only ? NULL : object_after(hr_store_job_store(c, d), before);
	char line[HR_LOG_LINE_MAX];

	if (!object) {
		done(c, d, d->faults ? HR_EXIT_FAILED : HR_EXIT_DONE);
		return;
	}
	d->object = *object;
	if (!(object->flags & HR_OBJECT_HAS_CRC)) {
		send_finding(d, hr_store_finding(object, 0, line, sizeof line), line);
		hr_store_job_send(d);
	} else if (pin(c, d, object)) {
		hr_store_job_fail(c, d);
	} else if (object->bytes == 0) {
		d->piece = 0;
		hr_store_job_used_disk(c, d, 0);
	} else {
		d->state = HR_STORE_JOB_READY;
	}
}

static void verified_piece(struct hr_store_service *c, struct hr_store_job *d, int err)
{
	struct hr_store *store = hr_store_job_store(c, d);
	const struct hr_store_object *now = hr_store_find_id(store, d->object.id);
	const bool lost =
		!hr_store_is_pinned(store, d->pin) || (now && !(now->flags & HR_OBJECT_HAS_CRC));
	char line[HR_LOG_LINE_MAX];

	d->length = 0;
	d->checked += d->piece;
	if (!lost && !err && d->at < d->object.bytes) {
		add_checked_bytes(d);
		hr_store_job_send(d);
		return;
	}
	hr_store_unpin(store, d->pin);
	d->pinned = false;
	if (lost)
		snprintf(line, sizeof line,
			 "%s: not checked: a pipeline has changed or replaced it", d->object.name);
	send_finding(d,
		     lost  ? false
		     : err ? hr_store_unreadable(d->object.name, d->at, err, line, sizeof line)
			   : hr_store_finding(&d->object, d->crc, line, sizeof line),
		     line);
	d->at = d->object.bytes;
	add_checked_bytes(d);
	hr_store_job_send(d);
}

/* ---- steps of all kinds */

void hr_store_job_begin(struct hr_store_service *c, struct hr_store_job *d)
{
	d->ssd = HR_SSDS_MAX;
	if (find_ssd(c, d)) {
		hr_store_job_fail(c, d);
		return;
	}
	switch (d->request.kind) {
	case HR_REQUEST_STORE_MAP:
		begin_map(c, d);
		break;
	case HR_REQUEST_STORE_FACTS:
		begin_facts(c, d);
		break;
	case HR_REQUEST_STORE_GET:
		begin_get(c, d);
		break;
	case HR_REQUEST_STORE_VERIFY:
		begin_verify(c, d);
		break;
	case HR_REQUEST_STORE_RM:
		hr_store_job_remove(c, d);
		break;
	case HR_REQUEST_STORE_MV:
		hr_store_job_rename(c, d);
		break;
	case HR_REQUEST_STORE_CP:
		hr_store_job_begin_copy(c, d);
		break;
	default:
		hr_store_job_begin_put(c, d);
		break;
	}
}

void hr_store_job_sent(struct hr_store_service *c, struct hr_store_job *d)
{
	d->length = 0;
	switch (d->request.kind) {
	case HR_REQUEST_STORE_GET:
		if (d->at < d->object.bytes)
			d->state = HR_STORE_JOB_READY;
		else if (!(d->object.flags & HR_OBJECT_HAS_CRC) || d->object.crc == d->crc)
			done(c, d, HR_EXIT_DONE);
		else {
			hr_fail(&d->e, HR_ERROR_DEVICE, -EBADMSG,
				"ssd '%s': '%s': CRC-32C of the read data is %08x, expected %08x",
				ssd_name(c, d), d->object.name, d->crc, d->object.crc);
			hr_store_job_fail(c, d);
		}
		break;
	case HR_REQUEST_STORE_VERIFY:
		if (d->pinned && d->at < d->object.bytes)
			d->state = HR_STORE_JOB_READY;
		else
			verify_next(c, d);
		break;
	case HR_REQUEST_STORE_CP:
		hr_store_job_copy_on(c, d);
		break;
	default: /* a put, which may send its data now */
		d->state = HR_STORE_JOB_RECEIVES;
		d->piece = hr_store_service_piece(c, d);
		break;
	}
}

static size_t padded_bytes(uint32_t bytes)
{
	return (bytes + HR_STORE_ALIGN - 1) & ~((size_t)HR_STORE_ALIGN - 1);
}

/* The command of the job writes to the ssd. */
static bool writes(const struct hr_store_job *d)
{
	return d->request.kind == HR_REQUEST_STORE_PUT || d->write;
}

/* The data of a put have no header. */
static uint8_t *piece_of(const struct hr_store_job *d)
{
	return d->buffer + (d->request.kind == HR_REQUEST_STORE_PUT ? 0 : HR_MESSAGE_HEADER);
}

void hr_store_job_use_disk(struct hr_store_service *c, struct hr_store_job *d)
{
	struct hr_ssd *ssd = ssd_of(c, d);
	const bool write = writes(d);
	const bool copy = d->request.kind == HR_REQUEST_STORE_CP;
	const struct hr_store_object *object = copy && !write ? &d->from : &d->object;
	uint8_t *data = piece_of(d);
	int err;

	if (write && hr_store_job_check_made(c, d)) {
		hr_store_job_fail(c, d);
		return;
	}
	if (!write)
		d->piece = hr_store_service_piece(c, d);
	else
		memset(data + d->piece, 0, padded_bytes(d->piece) - d->piece);
	err = hr_nvme_blk_begin(&ssd->disk, write, object->offset + d->at, data,
				padded_bytes(d->piece), &d->e);
	d->state = HR_STORE_JOB_ON_DISK;
	if (err)
		hr_store_job_used_disk(c, d, err);
}

int hr_store_job_check_read(const struct hr_store_service *c, struct hr_store_job *d)
{
	if (!hr_store_is_pinned(hr_store_job_store(c, d), d->pin))
		return hr_fail(&d->e, HR_ERROR_FAILED, -ESTALE,
			       "'%s': it was replaced while it was read, and its space is needed: "
			       "try again",
			       d->request.object);
	if (d->changed)
		return hr_fail(&d->e, HR_ERROR_FAILED, -ESTALE,
			       "'%s': a pipeline has changed it while it was read: try again",
			       d->request.object);
	return 0;
}

static void got_piece(struct hr_store_service *c, struct hr_store_job *d)
{
	if (hr_store_job_check_read(c, d)) {
		hr_store_job_fail(c, d);
	} else {
		hr_store_job_add(d, HR_MESSAGE_DATA, NULL, d->piece);
		hr_store_job_send(d);
	}
}

static void wrote_piece(struct hr_store_service *c, struct hr_store_job *d)
{
	d->length = 0;
	d->piece = hr_store_service_piece(c, d);
	d->waits_ns = d->heard_ns = hr_now_ns();
	d->state = HR_STORE_JOB_RECEIVES;
}

void hr_store_job_used_disk(struct hr_store_service *c, struct hr_store_job *d, int err)
{
	const bool verify = d->request.kind == HR_REQUEST_STORE_VERIFY;
	const bool write = writes(d);
	const bool copy = d->request.kind == HR_REQUEST_STORE_CP;

	d->state = HR_STORE_JOB_READY;
	d->length = 0;
	if (err && !(verify && err > 0)) {
		hr_fail(&d->e, HR_ERROR_DEVICE, err, "ssd '%s': '%s': cannot be %s", ssd_name(c, d),
			copy && !write ? d->from.name : d->object.name, write ? "written" : "read");
		hr_store_job_fail(c, d);
		return;
	}
	if (err)
		hr_error_clear(&d->e); /* a finding */
	if (!err && d->at < d->object.bytes) {
		if (!(copy && write))
			d->crc = hr_crc32c(d->crc, piece_of(d), d->piece);
		if (!copy || write)
			d->at += d->piece;
	}
	if (verify)
		verified_piece(c, d, err);
	else if (copy)
		hr_store_job_copied(c, d);
	else if (write)
		wrote_piece(c, d);
	else
		got_piece(c, d);
}

uint32_t hr_store_service_piece(const struct hr_store_service *c, const struct hr_store_job *d)
{
	const uint64_t left = d->object.bytes - d->at;
	const uint32_t most = c->limited ? PIECE_LIMITED : HR_MESSAGE_DATA_MAX;

	return left < most ? (uint32_t)left : most;
}
