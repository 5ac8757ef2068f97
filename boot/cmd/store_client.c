/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/store_client.h"

#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/error.h"
#include "config/base/process.h"
#include "config/base/log.h"

#define APPLIANCES_MAX 64u
#define ITEM HR_STORE_CLIENT_ITEM
#define REPLY HR_STORE_CLIENT_REPLY

/* ---- bytes */

static int send_fully(const struct hr_store_client *r, const void *from, size_t bytes)
{
	size_t sent = 0;

	while (sent < bytes) {
		const ssize_t n =
			send(r->fd, (const char *)from + sent, bytes - sent, MSG_NOSIGNAL);

		if (hr_signals_pending())
			return -EINTR;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		sent += (size_t)n;
	}
	return 0;
}

static void hang_up(struct hr_store_client *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

/* The connection has ended without a reply. */
static int lost(struct hr_store_client *r, int err)
{
	const bool put = r->kind == HR_REQUEST_STORE_PUT || r->kind == HR_REQUEST_STORE_CP;

	hang_up(r);
	if (err == -EINTR)
		hr_error("%s: interrupted%s", r->name, put ? "; nothing is stored" : "");
	else if (err == -EPROTO)
		hr_error("%s: the answer does not come from an appliance of this version", r->name);
	else
		hr_error("%s: appliance '%s' has ended the connection before its reply: its engine "
			 "has ended or stopped, or it dropped a slow client%s",
			 r->name, r->appliance.name, put ? "; nothing is stored" : "");
	return HR_EXIT_FAILED;
}

/* ---- messages */

static int receive_reply(struct hr_store_client *r, const uint8_t head[HR_MESSAGE_HEADER])
{
	struct hr_reply reply;
	unsigned version;
	int err = hr_reply_parse(&reply, head, r->kind, &version);

	if (!err && reply.bytes >= sizeof r->text)
		err = -EPROTO;
	if (!err)
		err = hr_client_receive(r->fd, r->text, reply.bytes);
	if (err)
		return err;
	r->text[reply.bytes] = '\0';
	r->code = reply.code;
	r->ended = true;
	hang_up(r);
	return REPLY;
}

/* The next item of the answer, or the reply; -errno: the connection has ended, or is wrong. */
static int next(struct hr_store_client *r, struct hr_message_item *item)
{
	uint8_t head[HR_MESSAGE_HEADER];
	int err;

	if (r->ended)
		return REPLY;
	do {
		err = hr_client_receive(r->fd, head, sizeof head);
		if (!err)
			err = hr_message_parse_item(item, head, r->kind);
		if (err == -ENOMSG)
			return receive_reply(r, head);
		if (err)
			return err;
	} while (item->kind == HR_MESSAGE_ALIVE);
	return ITEM;
}

static struct json_object *json_member(struct json_object *o, const char *key)
{
	return json_object_object_get(o, key);
}

/* True when the reply is that this appliance does not have the ssd. */
static bool is_absent(const char *text)
{
	struct json_object *o = json_tokener_parse(text);
	const char *result = json_object_get_string(json_member(o, "result"));
	const bool absent = result && strcmp(result, "absent") == 0;

	json_object_put(o);
	return absent;
}

static void copy_message(const struct hr_store_client *r, char *to, size_t bytes)
{
	struct json_object *o = json_tokener_parse(r->text);
	const char *message = json_object_get_string(json_member(o, "message"));

	snprintf(to, bytes, "appliance '%s': %s", r->appliance.name,
		 message ? message : "it gives no reason");
	json_object_put(o);
}

/* The reply came: 0, or its exit code, whose reason is logged. */
static int conclude_reply(struct hr_store_client *r)
{
	char why[HR_LOG_LINE_MAX];

	if (!r->code)
		return 0;
	copy_message(r, why, sizeof why);
	hr_error("%s", why);
	return (int)r->code;
}

/* Another item came than this command expects, or the reply, or none. */
static int unexpected(struct hr_store_client *r, int got)
{
	if (got == REPLY && r->code)
		return conclude_reply(r);
	return lost(r, got < 0 ? got : -EPROTO);
}

/* ---- the appliance that drives the ssd */

static int begin_at(struct hr_store_client *r, const struct hr_request *request)
{
	uint8_t message[HR_MESSAGE_REQUEST_MAX];
	const int length = hr_request_format(request, message);
	int err;

	hang_up(r);
	r->kind = request->kind;
	r->ended = false;
	r->left = 0;
	if (length < 0)
		return length;
	r->fd = hr_client_connect(&r->appliance, 0, 0);
	if (r->fd < 0)
		return r->fd;
	err = send_fully(r, message, (size_t)length);
	/* an appliance that refuses early has replied, and closed its side */
	return err == -EPIPE || err == -ECONNRESET ? 0 : err;
}

bool hr_store_client_is_driven(struct hr_store_client *r)
{
	struct hr_client_appliance appliance[APPLIANCES_MAX];
	const unsigned count = hr_client_list(r->wanted, appliance, APPLIANCES_MAX);
	struct hr_request request = { .kind = HR_REQUEST_STORE_MAP };
	struct hr_message_item item = { 0 };

	r->reason[0] = '\0';
	snprintf(request.disk, sizeof request.disk, "%s", r->disk);
	for (unsigned i = 0; i < count && !hr_signals_pending(); i++) {
		int got;

		r->appliance = appliance[i];
		if (begin_at(r, &request) != 0)
			continue;
		got = next(r, &item);
		hang_up(r);
		if (got == ITEM)
			return true;
		if (got == REPLY && !is_absent(r->text))
			copy_message(r, r->reason, sizeof r->reason);
	}
	return false;
}

static int begin_request(struct hr_store_client *r, const struct hr_request *wanted)
{
	struct hr_request request = *wanted;
	int err;

	if (!r->told)
		fprintf(stderr,
			"headrace: %s: appliance '%s' drives this ssd, and carries this out\n",
			r->name, r->appliance.name);
	r->told = true;
	snprintf(request.disk, sizeof request.disk, "%s", r->disk);
	err = begin_at(r, &request);
	if (err == -EINVAL || err == -ENAMETOOLONG) {
		hr_error("%s: '%s': a name is 1..63 printable characters without '/'", r->name,
			 request.object);
		return HR_EXIT_USAGE;
	}
	return err ? lost(r, err) : 0;
}

static void set_object(struct hr_request *request, const char *name)
{
	/* a longer one is cut to a length that is refused */
	snprintf(request->object, sizeof request->object, "%s",
		 strlen(name) < sizeof request->object ? name : "/");
}

/* ---- struct hr_store_backend */

int hr_store_client_take_map(struct hr_store_client *r, const struct hr_message_item *item,
			     struct hr_message_map *map)
{
	const size_t bytes = item->bytes - sizeof *map;
	int err = hr_client_receive(r->fd, map, sizeof *map);

	if (!err && (bytes % sizeof *r->objects || map->count != bytes / sizeof *r->objects))
		err = -EPROTO;
	free(r->objects);
	r->objects = err ? NULL : malloc(bytes + 1);
	if (!err && !r->objects)
		err = -ENOMEM;
	if (!err)
		err = hr_client_receive(r->fd, r->objects, bytes);
	for (uint64_t i = 0; !err && i < map->count; i++)
		r->objects[i].name[HR_NAME_MAX - 1] = '\0';
	return err;
}

static int map(void *to, const struct hr_store_object **object, uint32_t *count,
	       struct hr_store_space *space)
{
	struct hr_store_client *r = to;
	const struct hr_request request = { .kind = HR_REQUEST_STORE_MAP };
	struct hr_message_item item = { 0 };
	struct hr_message_map head;
	int code = begin_request(r, &request), got;

	if (code)
		return code;
	got = next(r, &item);
	if (got == ITEM && item.kind == HR_MESSAGE_MAP)
		got = hr_store_client_take_map(r, &item, &head);
	else
		return unexpected(r, got);
	if (!got)
		got = next(r, &item);
	if (got != REPLY)
		return unexpected(r, got);
	if (object)
		*object = r->objects;
	if (count)
		*count = (uint32_t)head.count;
	if (space)
		*space = head.space;
	return conclude_reply(r);
}

int hr_store_client_begin(struct hr_store_client *r, struct hr_request *request, const char *object)
{
	set_object(request, object);
	return begin_request(r, request);
}

int hr_store_client_next(struct hr_store_client *r, struct hr_message_item *item)
{
	return next(r, item);
}

int hr_store_client_conclude(struct hr_store_client *r, int got)
{
	return got == REPLY ? conclude_reply(r) : unexpected(r, got);
}

/* Send a request about one object, whose answer begins with an item of that kind. 0 or an exit
 * code. */
static int begin_object(struct hr_store_client *r, struct hr_request *request, const char *name,
			enum hr_message_kind first)
{
	struct hr_message_item item = { 0 };
	int code, got;

	code = hr_store_client_begin(r, request, name);
	if (code)
		return code;
	got = next(r, &item);
	return got == ITEM && item.kind == first ? 0 : unexpected(r, got);
}

static int get(void *to, const char *name, struct hr_store_object *object)
{
	struct hr_store_client *r = to;
	struct hr_request request = { .kind = HR_REQUEST_STORE_GET };
	const int code = begin_object(r, &request, name, HR_MESSAGE_OBJECT);
	int err;

	if (code)
		return code;
	err = hr_client_receive(r->fd, object, sizeof *object);
	object->name[HR_NAME_MAX - 1] = '\0';
	return err ? lost(r, err) : 0;
}

static int read_next(void *to, uint8_t *data, size_t bytes)
{
	struct hr_store_client *r = to;
	size_t done = 0;

	while (done < bytes) {
		size_t some;
		int err;

		if (!r->left) {
			struct hr_message_item item = { 0 };
			const int got = next(r, &item);

			if (got != ITEM || item.kind != HR_MESSAGE_DATA)
				return unexpected(r, got);
			r->left = item.bytes;
		}
		some = bytes - done < r->left ? bytes - done : r->left;
		err = hr_client_receive(r->fd, data + done, some);
		if (err)
			return lost(r, err);
		done += some;
		r->left -= (uint32_t)some;
	}
	return 0;
}

static int got_all(void *to)
{
	struct hr_store_client *r = to;
	struct hr_message_item item = { 0 };
	const int got = next(r, &item);

	return got == REPLY && !r->left ? conclude_reply(r) : unexpected(r, got);
}

static int put(void *to, const char *name, uint64_t bytes, bool replace,
	       const struct hr_store_shard *shard)
{
	struct hr_store_client *r = to;
	struct hr_request request = { .kind = HR_REQUEST_STORE_PUT,
				      .bytes = bytes,
				      .replace = replace };

	if (shard) {
		hr_error("%s: appliance '%s' drives this ssd, and stores no shards; stop it for "
			 "'store put --shard'",
			 r->name, r->appliance.name);
		return HR_EXIT_FAILED;
	}
	return begin_object(r, &request, name, HR_MESSAGE_GO);
}

/* The appliance may have refused the data, with a reply. */
static int fail_refused_data(struct hr_store_client *r, int err)
{
	struct hr_message_item item = { 0 };

	if ((err == -EPIPE || err == -ECONNRESET) && next(r, &item) == REPLY && r->code)
		return conclude_reply(r);
	return lost(r, err);
}

static int send_item(struct hr_store_client *r, enum hr_message_kind kind, const void *body,
		     uint32_t bytes)
{
	const struct hr_message_item item = { kind, bytes };
	uint8_t head[HR_MESSAGE_HEADER];
	int err;

	hr_message_format_item(&item, r->kind, head);
	err = send_fully(r, head, sizeof head);
	if (!err && bytes)
		err = send_fully(r, body, bytes);
	return err ? fail_refused_data(r, err) : 0;
}

static int write_next(void *to, uint8_t *data, size_t bytes)
{
	struct hr_store_client *r = to;
	int code = 0;

	for (size_t at = 0; !code && at < bytes; at += HR_MESSAGE_DATA_MAX) {
		const size_t left = bytes - at;

		code = send_item(
			r, HR_MESSAGE_DATA, data + at,
			(uint32_t)(left < HR_MESSAGE_DATA_MAX ? left : HR_MESSAGE_DATA_MAX));
	}
	return code;
}

static int finish(void *to, uint32_t crc, uint64_t set)
{
	struct hr_store_client *r = to;
	struct hr_message_item item = { 0 };
	int code = send_item(r, HR_MESSAGE_END, &crc, sizeof crc), got;

	if (code)
		return code;
	got = next(r, &item);
	return got == REPLY ? conclude_reply(r) : unexpected(r, got);
}

/* The engine removes the object when the connection ends. */
static void undo(void *to)
{
	hang_up(to);
}

/* While its data come from a file, a put has no answer but the reply that it has failed. */
static int watched(void *to)
{
	const struct hr_store_client *r = to;

	return r->kind == HR_REQUEST_STORE_PUT ? r->fd : -1;
}

static int alive(void *to)
{
	struct hr_store_client *r = to;
	struct pollfd answer = { .fd = watched(r), .events = POLLIN };
	struct hr_message_item item = { 0 };

	if (answer.fd >= 0 && poll(&answer, 1, 0) > 0)
		return unexpected(r, next(r, &item));
	return send_item(r, HR_MESSAGE_ALIVE, NULL, 0);
}

/* ---- verify */

static int receive_finding(struct hr_store_client *r, const struct hr_message_item *item,
			   const struct hr_store_listener *listener)
{
	char text[HR_LOG_LINE_MAX + 1] = "";
	const int err = hr_client_receive(r->fd, text, item->bytes);

	if (err)
		return err;
	text[item->bytes] = '\0';
	listener->found(listener->arg, text[0] != 0, text + 1);
	return 0;
}

int hr_store_client_take_done(struct hr_store_client *r, const struct hr_store_listener *listener)
{
	struct hr_message_verified done;
	const int err = hr_client_receive(r->fd, &done, sizeof done);

	if (err)
		return err;
	return listener->progress(listener->arg, done.bytes, done.total) ? 0 : -EINTR;
}

uint64_t hr_store_client_number(const struct hr_store_client *r, const char *key)
{
	struct json_object *o = json_tokener_parse(r->text);
	const uint64_t number = json_object_get_uint64(json_member(o, key));

	json_object_put(o);
	return number;
}

static int verify(void *to, bool map_only, const struct hr_store_listener *listener,
		  uint32_t *faults, bool *complete)
{
	struct hr_store_client *r = to;
	const struct hr_request request = { .kind = HR_REQUEST_STORE_VERIFY, .map_only = map_only };
	struct hr_message_item item = { 0 };
	int code = begin_request(r, &request), got;

	if (code)
		return code;
	while ((got = next(r, &item)) == ITEM) {
		if (item.kind == HR_MESSAGE_LINE)
			got = receive_finding(r, &item, listener);
		else if (item.kind == HR_MESSAGE_DONE)
			got = hr_store_client_take_done(r, listener);
		else
			got = -EPROTO;
		if (got)
			return lost(r, got);
	}
	if (got != REPLY)
		return lost(r, got);
	*faults = (uint32_t)hr_store_client_number(r, "faults");
	if (r->code > HR_EXIT_FAILED || (r->code && !*faults))
		return conclude_reply(r);
	*complete = true;
	if (hr_store_client_number(r, "findings_left_out"))
		hr_warn("%s: %llu more findings have no room in the answer", r->name,
			(unsigned long long)hr_store_client_number(r, "findings_left_out"));
	return (int)r->code;
}

/* ---- the ssd */

int hr_store_client_open(struct hr_store_backend *access, struct hr_store_client *r,
			 const struct hr_config_ssd *config, const char *wanted)
{
	int err = 0;

	memset(r, 0, sizeof *r);
	r->fd = -1;
	r->wanted = wanted;
	snprintf(r->name, sizeof r->name, "%s", config->device);
	if (wanted)
		snprintf(r->disk, sizeof r->disk, "name:%s", config->name);
	else
		err = hr_transport_identity(config->device, config->nsid, r->disk, sizeof r->disk);
	*access = (struct hr_store_backend){ .to = r,
					     .disk = r->name,
					     .identity = r->disk,
					     .map = map,
					     .get = get,
					     .read = read_next,
					     .got = got_all,
					     .put = put,
					     .write = write_next,
					     .finish = finish,
					     .undo = undo,
					     .verify = verify,
					     .alive = alive,
					     .watched = watched };
	hr_store_client_change_open(access);
	return err;
}

void hr_store_client_close(struct hr_store_client *r)
{
	hang_up(r);
	free(r->objects);
	r->objects = NULL;
}
