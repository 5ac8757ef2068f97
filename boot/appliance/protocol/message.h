/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/protocol/message.h - the messages of the control socket: a header of 16
 * bytes, then a body.
 *
 *   byte  0  magic    "HRCT"
 *         4  version  HR_MESSAGE_VERSION (u16, as all numbers little-endian)
 *         6  kind     of a request, or of a reply: the kind of its request + HR_MESSAGE_REPLY (u16)
 *         8  bytes    length of the body (u32)
 *        12  word     request: flags (HR_MESSAGE_WAIT); reply: exit code of the command (u32)
 *
 * The header has this form in every version. The body of a request is the name of a pipeline without
 * a NUL for the kinds that have one, an ssd and an object for those of the store, else it is
 * empty. The body of a reply is one JSON document in one line. A connection carries one request
 * and one reply; then the appliance closes it.
 *
 * Items (enum hr_message_kind) come between a request of the store and its reply. An item has the
 * same header: its kind is that of the request + HR_MESSAGE_ITEM, its word the kind of the item.
 * The client sends none before HR_MESSAGE_GO.
 *
 *   store-map     <- map
 *   store-get     <- object, data...
 *   store-verify  <- line, done...
 *   store-put     <- go; -> data..., end
 *   store-cp      <- done...
 *   store-facts   <- facts, map
 *
 * Both sides may send HR_MESSAGE_ALIVE at any time: the sender waits for a file, not for ever.
 *
 * The functions are pure: they touch only their arguments. Everything that they read comes from
 * another process and is checked.
 */
#ifndef BOOT_APPLIANCE_PROTOCOL_MESSAGE_H
#define BOOT_APPLIANCE_PROTOCOL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/store/store.h"
#include "config/base/limits.h"

#define HR_MESSAGE_VERSION 1u
#define HR_CONTROL_SCHEMA 1u	    /* "version" of the document of a reply that is not a status */
#define HR_MESSAGE_HEADER 16u	    /* bytes of a header */
#define HR_MESSAGE_REQUEST_MAX 512u /* bytes of a request with its header */
#define HR_MESSAGE_REPLY_MAX (HR_MESSAGE_HEADER + (128u << 10)) /* bytes of a reply */
#define HR_MESSAGE_REPLY 0x8000u				/* added to the kind of a request */
#define HR_MESSAGE_WAIT 1u /* flag: reply when the start, the reload or the appliance has ended */
#define HR_MESSAGE_REPLACE 2u	/* flag of store-put, -mv, -cp: replace an object of that name */
#define HR_MESSAGE_MAP_ONLY 4u	/* flag of store-verify: do not read the data */
#define HR_MESSAGE_PENDING 8u	/* flag of store-rm: only incomplete objects */
#define HR_MESSAGE_ITEM 0x4000u /* added to the kind of a request, in the header of an item */
#define HR_MESSAGE_DATA_MAX (1u << 20) /* bytes of HR_MESSAGE_DATA */
#define HR_MESSAGE_DISK_MAX 96u	       /* with its NUL */

enum hr_request_kind {
	HR_REQUEST_NONE, /* in a reply to bytes that are not a request of this version */
	HR_REQUEST_STATUS,
	HR_REQUEST_TRIGGER,
	HR_REQUEST_PAUSE,
	HR_REQUEST_RESUME,
	HR_REQUEST_STOP,
	HR_REQUEST_RELOAD,
	HR_REQUEST_STORE_MAP, /* objects, and space */
	HR_REQUEST_STORE_GET,
	HR_REQUEST_STORE_VERIFY,
	HR_REQUEST_STORE_PUT,
	HR_REQUEST_STORE_RM,
	HR_REQUEST_STORE_MV,
	HR_REQUEST_STORE_CP,
	HR_REQUEST_STORE_FACTS, /* the ssd, and what store-map has */
	HR_REQUEST_HISTORY,	/* the last runs of a pipeline */
	HR_REQUEST_KINDS,
};

enum hr_message_kind {
	HR_MESSAGE_ALIVE,  /* empty */
	HR_MESSAGE_GO,	   /* empty: the object is created, its data may come */
	HR_MESSAGE_MAP,	   /* struct hr_message_map, then the objects */
	HR_MESSAGE_OBJECT, /* struct hr_store_object */
	HR_MESSAGE_DATA,   /* the next bytes of the object */
	HR_MESSAGE_LINE,   /* one finding: a byte, 1 for a fault, then the text */
	HR_MESSAGE_DONE,   /* struct hr_message_verified */
	HR_MESSAGE_END,	   /* CRC-32C of all data (u32): the source has ended as announced */
	HR_MESSAGE_FACTS,  /* struct hr_ssd_facts */
	HR_MESSAGE_KINDS,
};

struct hr_message_map {
	struct hr_store_space space;
	uint64_t count; /* objects that follow, each a struct hr_store_object */
};

struct hr_message_verified {
	uint64_t bytes, total; /* checked, and to be checked */
};

struct hr_message_item {
	enum hr_message_kind kind;
	uint32_t bytes; /* of the body, which follows the header */
};

struct hr_request {
	enum hr_request_kind kind;
	bool wait;		    /* of a trigger, a stop and a reload only */
	char pipeline[HR_NAME_MAX]; /* of the kinds that have one, else "" */
	/* Of the kinds of the store, else zero. */
	char disk
		[HR_MESSAGE_DISK_MAX]; /* as hr_transport_identity(), or "name:" and the ssd's name */
	/* Of the kinds that have one; "" in a store-rm with `pending`: all incomplete ones. */
	char object[HR_NAME_MAX];
	char target[HR_NAME_MAX]; /* store-mv, store-cp: the name that is made */
	/* store-put: length of the object; store-rm of all incomplete ones: least age in ns */
	uint64_t bytes;
	bool replace, map_only, pending;
};

struct hr_reply {
	enum hr_request_kind kind; /* of the request */
	uint32_t code;		   /* exit code, 0 to 4 */
	uint32_t bytes;		   /* of the body, which follows the header */
};

/* A kind of request: what the protocol, the control socket and its clients know of it. */
struct hr_request_form {
	const char *name;	   /* "trigger" and so on; "?" of a number that is no kind */
	bool pipeline;		   /* the body is the name of a pipeline */
	bool disk, object, target; /* it concerns an ssd, names an object, and another one */
	bool reads;		   /* it changes nothing */
	uint32_t flags;		   /* HR_MESSAGE_WAIT and so on, that its header may have */
};

const struct hr_request_form *hr_request_form(enum hr_request_kind kind);

/*
 * Parse what a client has sent so far. Returns the length of the request in bytes; 0: it is not
 * complete. -EPROTO: not a request; -EPROTONOSUPPORT: of another version; -EOPNOTSUPP: a kind or a
 * flag that this version does not have; -EMSGSIZE: longer than a request of its kind can be;
 * -EINVAL: a name that no pipeline, ssd or object can have, or a size that no object can have. An
 * error is found as soon as the bytes show it.
 */
int hr_request_parse(struct hr_request *request, const void *data, size_t bytes);

/* Text for a reply to such an error: "not a request of headrace". */
const char *hr_request_error(int err);

/*
 * Write a request to data. Returns its length; -ENAMETOOLONG or -EINVAL: the name of the pipeline,
 * the ssd or the object is longer than a name, or empty.
 */
int hr_request_format(const struct hr_request *request, uint8_t data[HR_MESSAGE_REQUEST_MAX]);

/* Write the header of a reply. */
void hr_reply_format(const struct hr_reply *reply, uint8_t head[HR_MESSAGE_HEADER]);

/*
 * Parse the header of a reply to a request of that kind. 0; -EPROTO: not a reply to it, or longer
 * than a reply can be; -EPROTONOSUPPORT: of another version, which is in *version.
 */
int hr_reply_parse(struct hr_reply *reply, const uint8_t head[HR_MESSAGE_HEADER],
		   enum hr_request_kind kind, unsigned *version);

/* Write the header of an item of a request of that kind. */
void hr_message_format_item(const struct hr_message_item *item, enum hr_request_kind kind,
			    uint8_t head[HR_MESSAGE_HEADER]);

/*
 * Parse the header of an item. 0; -ENOMSG: it is no item, maybe a reply; -EPROTO: of another kind of
 * request, of an unknown kind, or with a length that no item of its kind has.
 */
int hr_message_parse_item(struct hr_message_item *item, const uint8_t head[HR_MESSAGE_HEADER],
			  enum hr_request_kind kind);

#endif
