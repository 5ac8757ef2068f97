/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: bytes that a client sends to the control socket. Whatever they are, and however they
 * are divided, the parser reads nothing behind them, its answer does not depend on the division,
 * and a request that it accepts has the same bytes when it is written again. The same bytes as a
 * reply, and as an item of a request of the store.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/appliance/protocol/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A copy of its own for each length, so that the sanitizer sees a read behind it. */
static int parse(struct hr_request *request, const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes + 1);
	int length;

	if (!copy)
		abort();
	memcpy(copy + 1, data, bytes);
	length = hr_request_parse(request, copy + 1, bytes);
	free(copy);
	return length;
}

static void expect_request(const struct hr_request *request, const uint8_t *data, int length)
{
	uint8_t again[HR_MESSAGE_REQUEST_MAX];

	if (strnlen(request->pipeline, HR_NAME_MAX) == HR_NAME_MAX)
		abort();
	if (!*request->pipeline == hr_request_form(request->kind)->pipeline)
		abort();
	if (!*request->disk == hr_request_form(request->kind)->disk ||
	    !*request->target == hr_request_form(request->kind)->target)
		abort();
	if (!*request->object == hr_request_form(request->kind)->object && !request->pending)
		abort();
	if (!memchr(request->disk, 0, sizeof request->disk) ||
	    !memchr(request->object, 0, sizeof request->object) ||
	    !memchr(request->target, 0, sizeof request->target) || request->bytes > INT64_MAX)
		abort();
	if (hr_request_format(request, again) != length || memcmp(again, data, (size_t)length) != 0)
		abort();
}

static void try_request(const uint8_t *data, size_t bytes)
{
	struct hr_request request, item;
	const int length = parse(&request, data, bytes);

	if (length > (int)bytes || (length > 0 && length < (int)HR_MESSAGE_HEADER))
		abort();
	if (length > 0)
		expect_request(&request, data, length);
	if (length < 0 && !*hr_request_error(length))
		abort();
	for (size_t n = 0; n < bytes; n++) {
		const int early = parse(&item, data, n);

		if (early != 0 && early != length)
			abort();
		if (length == 0 && early != 0)
			abort();
	}
}

static void try_reply(const uint8_t *data)
{
	struct hr_reply reply;
	unsigned version = 0;
	uint8_t again[HR_MESSAGE_HEADER];

	if (hr_reply_parse(&reply, data, HR_REQUEST_STATUS, &version) != 0)
		return;
	hr_reply_format(&reply, again);
	if (reply.code > 4 || reply.bytes > HR_MESSAGE_REPLY_MAX - HR_MESSAGE_HEADER ||
	    memcmp(again, data, sizeof again) != 0)
		abort();
}

/* The head of an item, of each kind of request. */
static void try_item(const uint8_t *data)
{
	struct hr_message_item item;
	uint8_t again[HR_MESSAGE_HEADER];

	for (int k = HR_REQUEST_STATUS; k < HR_REQUEST_KINDS; k++) {
		if (hr_message_parse_item(&item, data, (enum hr_request_kind)k) != 0)
			continue;
		if ((unsigned)item.kind >= HR_MESSAGE_KINDS ||
		    (item.kind == HR_MESSAGE_DATA && item.bytes > HR_MESSAGE_DATA_MAX))
			abort();
		hr_message_format_item(&item, (enum hr_request_kind)k, again);
		if (memcmp(again, data, sizeof again) != 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (bytes > HR_MESSAGE_REQUEST_MAX)
		bytes = HR_MESSAGE_REQUEST_MAX;
	try_request(data, bytes);
	if (bytes < HR_MESSAGE_HEADER)
		return 0;
	try_reply(data);
	try_item(data);
	return 0;
}
