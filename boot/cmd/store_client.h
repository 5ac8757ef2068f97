/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/store_client.h - access to the store of an ssd that a running appliance drives: requests
 * on its control socket (boot/appliance/protocol/message.h), which its engine serves
 * (boot/appliance/store/service.h).
 */
#ifndef BOOT_CMD_STORE_CLIENT_H
#define BOOT_CMD_STORE_CLIENT_H

#include "boot/appliance/protocol/message.h"
#include "boot/cmd/client.h"
#include "boot/cmd/store/store.h"

struct hr_store_client {
	struct hr_client_appliance appliance; /* of the appliance that was asked last */
	const char *wanted;		/* name of the only appliance that is asked; NULL: all */
	char disk[HR_MESSAGE_DISK_MAX]; /* of the request */
	char name[HR_DEVICE_MAX];	/* of the ssd, for messages */
	char reason[HR_LOG_LINE_MAX];	/* why the appliance that drives the ssd is busy */
	enum hr_request_kind kind;
	bool told;			 /* the user knows which appliance carries this out */
	int fd;				 /* -1: no request is under way */
	bool ended;			 /* its reply has come */
	uint32_t left;			 /* bytes of the item of data that is being taken */
	uint32_t code;			 /* of the reply */
	char text[HR_MESSAGE_REPLY_MAX]; /* its document */
	struct hr_store_object *objects; /* of a map; allocated */
};

/*
 * Fill in *access. The ssd is *config, by its name when `wanted`, the name of an appliance, is
 * given, and by its identity otherwise. Nothing is sent yet. 0; or an error of
 * hr_transport_identity().
 */
int hr_store_client_open(struct hr_store_backend *access, struct hr_store_client *client,
			 const struct hr_config_ssd *config, const char *wanted);

/*
 * True: an appliance of this machine drives the ssd, and takes requests. False: none does, or the
 * one that does is busy now, with client->reason, or "".
 */
bool hr_store_client_is_driven(struct hr_store_client *client);

void hr_store_client_close(struct hr_store_client *client);

/* Add the functions that remove, rename and copy objects, of boot/cmd/store_client_change.c. */
void hr_store_client_change_open(struct hr_store_backend *access);

/* ---- for boot/cmd/store_client_change.c */

#define HR_STORE_CLIENT_ITEM 1 /* results of hr_store_client_next(): an item; the reply */
#define HR_STORE_CLIENT_REPLY 0

/* Send a request about an object, whose name may be one that no object can have. 0 or an exit code,
 * after the error is logged. */
int hr_store_client_begin(struct hr_store_client *client, struct hr_request *request,
			  const char *object);

/* The next item of the answer, or the reply; -errno: the connection has ended, or is wrong. */
int hr_store_client_next(struct hr_store_client *client, struct hr_message_item *item);

/* After the reply: 0, or its exit code, whose reason is logged. For another result of next(), and
 * for an error: the exit code, after it is logged. */
int hr_store_client_conclude(struct hr_store_client *client, int got);

/* HR_MESSAGE_DONE has come: tell the listener. 0, or an error; -EINTR: the listener ends it. */
int hr_store_client_take_done(struct hr_store_client *client,
			      const struct hr_store_listener *listener);

/* Receive the body of an item of that kind: the map, whose objects are client->objects. 0 or -errno. */
int hr_store_client_take_map(struct hr_store_client *client, const struct hr_message_item *item,
			     struct hr_message_map *map);

/* A member of the reply. */
uint64_t hr_store_client_number(const struct hr_store_client *client, const char *key);

#endif
