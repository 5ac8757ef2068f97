/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/protocol/message.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/stand_in.h"
#include "config/base/log.h"

#define EXIT_CODES 5u /* 0 to 4 */

struct header {
	char magic[4];
	uint16_t version, kind;
	uint32_t bytes, word;
};
_Static_assert(sizeof(struct header) == HR_MESSAGE_HEADER, "the header has no holes");
_Static_assert(HR_MESSAGE_HEADER + HR_NAME_MAX <= HR_MESSAGE_REQUEST_MAX, "each request fits");

static const char magic[4] = { 'H', 'R', 'C', 'T' };

/* The body of a request of the store. */
struct disk_body {
	uint64_t bytes;
	char disk[HR_MESSAGE_DISK_MAX], object[HR_NAME_MAX];
	char target[HR_NAME_MAX]; /* only of the kinds that have one */
};
_Static_assert(HR_MESSAGE_HEADER + sizeof(struct disk_body) <= HR_MESSAGE_REQUEST_MAX, "it fits");

static const struct hr_request_form forms[HR_REQUEST_KINDS] = {
	[HR_REQUEST_NONE] = { "?" },
	[HR_REQUEST_STATUS] = { "status", .reads = true },
	[HR_REQUEST_TRIGGER] = { "trigger", .pipeline = true, .flags = HR_MESSAGE_WAIT },
	[HR_REQUEST_PAUSE] = { "pause", .pipeline = true },
	[HR_REQUEST_RESUME] = { "resume", .pipeline = true },
	[HR_REQUEST_STOP] = { "stop", .flags = HR_MESSAGE_WAIT },
	[HR_REQUEST_RELOAD] = { "reload", .flags = HR_MESSAGE_WAIT },
	[HR_REQUEST_STORE_MAP] = { "store-map", .disk = true, .reads = true },
	[HR_REQUEST_STORE_GET] = { "store-get", .disk = true, .object = true, .reads = true },
	[HR_REQUEST_STORE_VERIFY] = { "store-verify", .disk = true, .reads = true,
				      .flags = HR_MESSAGE_MAP_ONLY },
	[HR_REQUEST_STORE_PUT] = { "store-put", .disk = true, .object = true,
				   .flags = HR_MESSAGE_REPLACE },
	[HR_REQUEST_STORE_RM] = { "store-rm", .disk = true, .object = true,
				  .flags = HR_MESSAGE_PENDING },
	[HR_REQUEST_STORE_MV] = { "store-mv", .disk = true, .object = true, .target = true,
				  .flags = HR_MESSAGE_REPLACE },
	[HR_REQUEST_STORE_FACTS] = { "store-facts", .disk = true, .reads = true },
	[HR_REQUEST_STORE_CP] = { "store-cp", .disk = true, .object = true, .target = true,
				  .flags = HR_MESSAGE_REPLACE },
	[HR_REQUEST_HISTORY] = { "history", .pipeline = true, .reads = true },
};

/* Least and most bytes of the body of an item. */
static const struct {
	uint32_t least, most;
} part_bytes[HR_MESSAGE_KINDS] = {
	[HR_MESSAGE_ALIVE] = { 0, 0 },
	[HR_MESSAGE_GO] = { 0, 0 },
	[HR_MESSAGE_MAP] = { sizeof(struct hr_message_map),
			     sizeof(struct hr_message_map) +
				     HR_STORE_OBJECTS_MAX * sizeof(struct hr_store_object) },
	[HR_MESSAGE_OBJECT] = { sizeof(struct hr_store_object), sizeof(struct hr_store_object) },
	[HR_MESSAGE_DATA] = { 1, HR_MESSAGE_DATA_MAX },
	[HR_MESSAGE_LINE] = { 1, HR_LOG_LINE_MAX },
	[HR_MESSAGE_DONE] = { sizeof(struct hr_message_verified),
			      sizeof(struct hr_message_verified) },
	[HR_MESSAGE_FACTS] = { sizeof(struct hr_ssd_facts), sizeof(struct hr_ssd_facts) },
	[HR_MESSAGE_END] = { sizeof(uint32_t), sizeof(uint32_t) },
};

const struct hr_request_form *hr_request_form(enum hr_request_kind kind)
{
	return &forms[(unsigned)kind < HR_REQUEST_KINDS ? kind : HR_REQUEST_NONE];
}

/* The characters of a name in a configuration: printable ASCII except '/'. */
static bool is_name(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (name[i] < ' ' || name[i] > '~' || name[i] == '/')
			return false;
	return length > 0 && length < HR_NAME_MAX;
}

/* One text without unprintable characters, and zeros behind it. */
static bool is_text(const char *text, size_t room)
{
	const size_t length = strnlen(text, room);

	for (size_t i = 0; i < room; i++)
		if (i < length ? text[i] < ' ' || text[i] > '~' : text[i] != '\0')
			return false;
	return length < room;
}

static uint32_t disk_body_bytes(const struct hr_request_form *form)
{
	return form->target ? sizeof(struct disk_body) : offsetof(struct disk_body, target);
}

/* A field of a body: one name, or all zero. */
static bool is_name_field(const char field[HR_NAME_MAX], bool named)
{
	return is_text(field, HR_NAME_MAX) &&
	       (named ? is_name(field, strnlen(field, HR_NAME_MAX)) : !*field);
}

/* With the kind and the flags of the request. */
static bool is_disk_body(const struct disk_body *body, const struct hr_request *request)
{
	const bool put = request->kind == HR_REQUEST_STORE_PUT;
	const bool all = request->pending && !*body->object;

	if (!is_text(body->disk, sizeof body->disk) || !*body->disk)
		return false;
	if (body->bytes > (put || all ? (uint64_t)INT64_MAX : 0))
		return false;
	return is_name_field(body->object, forms[request->kind].object && !all) &&
	       is_name_field(body->target, forms[request->kind].target);
}

static int check_head(const struct header *header)
{
	const struct hr_request_form *form = hr_request_form((enum hr_request_kind)header->kind);
	uint32_t most;

	if (header->version != HR_MESSAGE_VERSION)
		return -EPROTONOSUPPORT;
	if (form == &forms[HR_REQUEST_NONE] || header->word & ~form->flags)
		return -EOPNOTSUPP;
	most = form->pipeline ? HR_NAME_MAX - 1 : form->disk ? disk_body_bytes(form) : 0;
	if (header->bytes > most)
		return -EMSGSIZE;
	return (form->pipeline && !header->bytes) || (form->disk && header->bytes != most) ? -EINVAL
											   : 0;
}

static int take_body(struct hr_request *request, const struct header *header, const void *data)
{
	struct disk_body body = { 0 };

	if (!forms[header->kind].disk) {
		if (forms[header->kind].pipeline && !is_name(data, header->bytes))
			return -EINVAL;
		memcpy(request->pipeline, data, header->bytes);
		return 0;
	}
	memcpy(&body, data, header->bytes);
	if (!is_disk_body(&body, request))
		return -EINVAL;
	request->bytes = body.bytes;
	memcpy(request->disk, body.disk, sizeof body.disk);
	memcpy(request->object, body.object, sizeof body.object);
	memcpy(request->target, body.target, sizeof body.target);
	return 0;
}

int hr_request_parse(struct hr_request *request, const void *data, size_t bytes)
{
	struct header header;
	int err;

	if (memcmp(data, magic, bytes < sizeof magic ? bytes : sizeof magic) != 0)
		return -EPROTO;
	if (bytes < sizeof header)
		return 0;
	memcpy(&header, data, sizeof header);
	err = check_head(&header);
	if (err)
		return err;
	if (bytes - sizeof header < header.bytes)
		return 0;
	memset(request, 0, sizeof *request);
	request->kind = (enum hr_request_kind)header.kind;
	request->wait = header.word & HR_MESSAGE_WAIT;
	request->replace = header.word & HR_MESSAGE_REPLACE;
	request->map_only = header.word & HR_MESSAGE_MAP_ONLY;
	request->pending = header.word & HR_MESSAGE_PENDING;
	err = take_body(request, &header, (const char *)data + sizeof header);
	return err ? err : (int)(sizeof header + header.bytes);
}

const char *hr_request_error(int err)
{
	switch (err) {
	case -EPROTO:
		return "the bytes are not a request of headrace";
	case -EPROTONOSUPPORT:
		return "the request has another version than this appliance, which has version 1";
	case -EOPNOTSUPP:
		return "this appliance does not know this kind of request";
	case -EMSGSIZE:
		return "the request is longer than a request of its kind can be";
	default:
		return "the request has a name or a size that no configuration can have";
	}
}
_Static_assert(HR_MESSAGE_VERSION == 1, "the text names the version");

static void put_header(uint8_t to[HR_MESSAGE_HEADER], unsigned kind, uint32_t bytes, uint32_t word)
{
	struct header header = {
		.version = HR_MESSAGE_VERSION, .kind = (uint16_t)kind, .bytes = bytes, .word = word
	};

	memcpy(header.magic, magic, sizeof magic);
	memcpy(to, &header, sizeof header);
}

/* Returns the length of the body, or an error. */
static int put_body(const struct hr_request *request, uint8_t *to)
{
	const size_t length = strnlen(request->pipeline, HR_NAME_MAX);
	const struct hr_request_form *form = hr_request_form(request->kind);
	struct disk_body body = { .bytes = request->bytes };

	if (form->disk) {
		snprintf(body.disk, sizeof body.disk, "%s", request->disk);
		snprintf(body.object, sizeof body.object, "%s", request->object);
		snprintf(body.target, sizeof body.target, "%s", request->target);
		memcpy(to, &body, disk_body_bytes(form));
		return is_disk_body(&body, request) ? (int)disk_body_bytes(form) : -EINVAL;
	}
	if (!form->pipeline)
		return 0;
	if (length >= HR_NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(to, request->pipeline, length);
	return is_name(request->pipeline, length) ? (int)length : -EINVAL;
}

int hr_request_format(const struct hr_request *request, uint8_t data[HR_MESSAGE_REQUEST_MAX])
{
	const int length = put_body(request, data + HR_MESSAGE_HEADER);

	if (length < 0)
		return length;
	put_header(data, request->kind, (uint32_t)length,
		   (request->wait ? HR_MESSAGE_WAIT : 0) |
			   (request->replace ? HR_MESSAGE_REPLACE : 0) |
			   (request->map_only ? HR_MESSAGE_MAP_ONLY : 0) |
			   (request->pending ? HR_MESSAGE_PENDING : 0));
	return (int)HR_MESSAGE_HEADER + length;
}

void hr_reply_format(const struct hr_reply *reply, uint8_t to[HR_MESSAGE_HEADER])
{
	put_header(to, (unsigned)reply->kind | HR_MESSAGE_REPLY, reply->bytes, reply->code);
}

int hr_reply_parse(struct hr_reply *reply, const uint8_t from[HR_MESSAGE_HEADER],
		   enum hr_request_kind kind, unsigned *version)
{
	struct header header;

	memcpy(&header, from, sizeof header);
	if (memcmp(header.magic, magic, sizeof magic) != 0)
		return -EPROTO;
	*version = header.version;
	if (header.version != HR_MESSAGE_VERSION)
		return -EPROTONOSUPPORT;
	/* an appliance that did not understand the request does not know its kind */
	if (header.kind != ((unsigned)kind | HR_MESSAGE_REPLY) && header.kind != HR_MESSAGE_REPLY)
		return -EPROTO;
	if (header.bytes > HR_MESSAGE_REPLY_MAX - HR_MESSAGE_HEADER || header.word >= EXIT_CODES)
		return -EPROTO;
	*reply = (struct hr_reply){ (enum hr_request_kind)(header.kind & ~HR_MESSAGE_REPLY),
				    header.word, header.bytes };
	return 0;
}

void hr_message_format_item(const struct hr_message_item *item, enum hr_request_kind kind,
			    uint8_t to[HR_MESSAGE_HEADER])
{
	put_header(to, (unsigned)kind | HR_MESSAGE_ITEM, item->bytes, (uint32_t)item->kind);
}

int hr_message_parse_item(struct hr_message_item *item, const uint8_t from[HR_MESSAGE_HEADER],
			  enum hr_request_kind kind)
{
	struct header header;

	memcpy(&header, from, sizeof header);
	if (memcmp(header.magic, magic, sizeof magic) != 0 || header.version != HR_MESSAGE_VERSION)
		return -EPROTO;
	if (!(header.kind & HR_MESSAGE_ITEM) || header.kind & HR_MESSAGE_REPLY)
		return -ENOMSG;
	if (header.kind != ((unsigned)kind | HR_MESSAGE_ITEM) || header.word >= HR_MESSAGE_KINDS ||
	    header.bytes < part_bytes[header.word].least ||
	    header.bytes > part_bytes[header.word].most)
		return -EPROTO;
	*item = (struct hr_message_item){ (enum hr_message_kind)header.word, header.bytes };
	return 0;
}
