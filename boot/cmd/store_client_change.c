/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/store_client.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name that is too long is cut to one that is refused. */
static void set_target(struct hr_request *request, const char *target)
{
	snprintf(request->target, sizeof request->target, "%s",
		 strlen(target) < sizeof request->target ? target : "/");
}

/* A request whose answer is its reply. */
static int send_for_reply(struct hr_store_client *r, struct hr_request *request, const char *name)
{
	struct hr_message_item item = { 0 };
	const int code = hr_store_client_begin(r, request, name);

	return code ? code : hr_store_client_conclude(r, hr_store_client_next(r, &item));
}

static int remove_named(void *to, const char *name, bool pending)
{
	struct hr_request request = { .kind = HR_REQUEST_STORE_RM, .pending = pending };

	return send_for_reply(to, &request, *name ? name : "/");
}

static int remove_pending(void *to, uint64_t older_ns, uint64_t *count, uint64_t *bytes)
{
	struct hr_request request = { .kind = HR_REQUEST_STORE_RM,
				      .pending = true,
				      .bytes = older_ns };
	const int code = send_for_reply(to, &request, "");

	if (code)
		return code;
	*count = hr_store_client_number(to, "removed_objects");
	*bytes = hr_store_client_number(to, "removed_bytes");
	return 0;
}

static int rename_it(void *to, const char *name, const char *target, bool replace)
{
	struct hr_request request = { .kind = HR_REQUEST_STORE_MV, .replace = replace };

	set_target(&request, target);
	return send_for_reply(to, &request, name);
}

static uint32_t crc_of(const struct hr_store_client *r)
{
	struct json_object *o = json_tokener_parse(r->text);
	const char *crc = json_object_get_string(json_object_object_get(o, "crc32c"));
	const uint32_t number = crc ? (uint32_t)strtoul(crc, NULL, 16) : 0;

	json_object_put(o);
	return number;
}

static int copy(void *to, const char *name, const char *target, bool replace,
		const struct hr_store_listener *listener, struct hr_store_object *made)
{
	struct hr_request request = { .kind = HR_REQUEST_STORE_CP, .replace = replace };
	struct hr_message_item item = { 0 };
	int code, got;

	set_target(&request, target);
	code = hr_store_client_begin(to, &request, name);
	if (code)
		return code;
	while ((got = hr_store_client_next(to, &item)) == HR_STORE_CLIENT_ITEM) {
		got = item.kind == HR_MESSAGE_DONE ? hr_store_client_take_done(to, listener)
						   : -EPROTO;
		if (got)
			break;
	}
	code = hr_store_client_conclude(to, got);
	if (code)
		return code;
	made->bytes = hr_store_client_number(to, "bytes");
	made->crc = crc_of(to);
	return 0;
}

void hr_store_client_change_open(struct hr_store_backend *access)
{
	access->remove = remove_named;
	access->remove_pending = remove_pending;
	access->rename = rename_it;
	access->copy = copy;
}
