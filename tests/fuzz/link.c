/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: bytes that the other side of a link sends on the TCP connection. Whatever they are, the
 * parser reads nothing behind them, its answer does not depend on how they are divided, fields that it
 * lets through are in range, and a greeting never ends in a proof without the key. Half of the inputs
 * get right codes, and must still be messages of a connection.
 */
#include "boot/remote/tcp.h"
#include "tests/fuzz/input.h"

static const uint8_t key[HR_LINK_KEY_BYTES] = { 1, 2, 3 };

/* A copy of its own for each length, so that the sanitizer sees a read behind it. */
static int parse(struct hr_link_message *message, const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes + 1);
	int length;

	must(copy);
	memcpy(copy + 1, data, bytes);
	length = hr_link_message_parse(message, copy + 1, bytes);
	free(copy);
	return length;
}

static void expect_range(const struct hr_link_message *message)
{
	const struct hr_link_qp_info *opening = &message->opening;

	if (message->head.kind == HR_LINK_HELLO && message->hello.version == HR_LINK_VERSION)
		must(memchr(message->hello.name, 0, HR_NAME_MAX) && message->hello.name[0]);
	if (message->head.kind == HR_LINK_OPEN)
		must(opening->slots && opening->slots <= HR_LINK_SLOTS_MAX &&
		     opening->tile_address + (uint64_t)opening->slots * opening->stride >=
			     opening->tile_address);
	if (message->head.kind == HR_LINK_MSG_RESULT)
		must(memchr(message->ending.text, 0, HR_LINK_TEXT_BYTES) &&
		     message->ending.code <= 4);
}

static void try_parse(const uint8_t *data, size_t bytes)
{
	struct hr_link_message message, early;
	const int length = parse(&message, data, bytes);

	must(length <= (int)bytes && length <= (int)HR_LINK_MESSAGE_MAX);
	if (length > 0)
		expect_range(&message);
	for (size_t n = 0; n < bytes; n++) {
		const int part = parse(&early, data, n);

		must(part == 0 || part == length);
	}
}

/* Everything that is said to one side, as it comes from a socket. */
static void try_talk(struct input *in, enum hr_link_side side)
{
	struct hr_link_tcp talk = { .fd = -1, .side = side };
	const struct hr_handshake_self self = { .hello = { .version = HR_LINK_VERSION,
							   .side = (uint32_t)side,
							   .tiles = 9,
							   .tile_bytes = 4096,
							   .name = "a" },
						.key = key };
	struct hr_link_message message;
	int n = 0;

	/* Nothing is sent: the buffer stands for the socket. */
	talk.said.hello[side] = self.hello;
	while (n >= 0 && in->left) {
		const size_t room = sizeof(talk.in) - talk.in_bytes;
		const size_t bytes = in->left < room ? in->left : room;

		take_bytes(in, talk.in + talk.in_bytes, bytes);
		talk.in_bytes += bytes;
		while ((n = hr_tcp_receive(&talk, &message)) > 0) {
			expect_range(&message);
			if (hr_handshake_receive(&talk, &self, &message, 1) != 0)
				return;
			must(talk.handshake != HR_HANDSHAKE_PROVED);
		}
		if (!n && talk.in_bytes == sizeof(talk.in))
			abort(); /* a message never needs more than the buffer */
	}
}

/* A side that knows the key, and says anything. */
static void try_session(struct input *in)
{
	struct hr_link_tcp talk = { .fd = -1, .side = HR_LINK_RECEIVER, .secured = true };
	struct hr_link_head head = { .magic = HR_LINK_MAGIC };
	struct hr_link_message message;
	size_t length;

	head.kind = (uint16_t)(HR_LINK_OPEN + take(in) % (HR_LINK_KINDS - HR_LINK_OPEN));
	head.bytes = (uint16_t)hr_link_message_bytes(head.kind);
	length = head.bytes - HR_AUTH_MAC_BYTES;
	memcpy(talk.in, &head, sizeof(head));
	take_bytes(in, talk.in + sizeof(head), length - sizeof(head));
	hr_auth_mac(talk.in + length, talk.session, HR_LINK_SENDER, talk.in, length);
	talk.in_bytes = head.bytes;
	if (hr_tcp_receive(&talk, &message) == 1)
		expect_range(&message);
	/* The same bytes are never taken twice. */
	memcpy(talk.in, &head, sizeof(head));
	talk.in_bytes = head.bytes;
	must(talk.count_in == 0 || hr_tcp_receive(&talk, &message) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };

	switch (take(&in) % 4) {
	case 0:
		try_parse(in.at, in.left < 2048 ? in.left : 2048);
		break;
	case 1:
		try_talk(&in, HR_LINK_SENDER);
		break;
	case 2:
		try_talk(&in, HR_LINK_RECEIVER);
		break;
	default:
		try_session(&in);
		break;
	}
	return 0;
}
