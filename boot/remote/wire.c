/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

size_t hr_link_body_bytes(unsigned kind)
{
	static const size_t bytes[HR_LINK_KINDS] = {
		[HR_LINK_HELLO] = sizeof(struct hr_link_hello),
		[HR_LINK_PROOF] = HR_AUTH_MAC_BYTES,
		[HR_LINK_REFUSE] = sizeof(struct hr_link_refuse),
		[HR_LINK_OPEN] = sizeof(struct hr_link_qp_info),
		[HR_LINK_MSG_SIZE] = sizeof(struct hr_link_stream_size),
		[HR_LINK_MSG_RESULT] = sizeof(struct hr_link_run_result),
	};

	return kind < HR_LINK_KINDS ? bytes[kind] : 0;
}

size_t hr_link_message_bytes(unsigned kind)
{
	if (kind < HR_LINK_HELLO || kind >= HR_LINK_KINDS)
		return 0;
	return sizeof(struct hr_link_head) + hr_link_body_bytes(kind) +
	       (kind >= HR_LINK_OPEN ? HR_AUTH_MAC_BYTES : 0);
}

/* True for a text that ends within its field and has no control character. */
static bool is_text(const char *text, size_t bytes)
{
	const size_t length = strnlen(text, bytes);

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return length < bytes;
}

static bool hello_holds(const struct hr_link_hello *hello)
{
	/* Fields of another version may mean something else: the version is refused by name. */
	if (hello->version != HR_LINK_VERSION)
		return true;
	return hello->side <= HR_LINK_RECEIVER && is_text(hello->name, sizeof(hello->name)) &&
	       hello->name[0] && hello->tile_bytes && hello->tile_bytes <= HR_TILE_MAX;
}

static bool opening_holds(const struct hr_link_qp_info *opening)
{
	return opening->generation && opening->qp && opening->qp < 1u << 24 &&
	       opening->psn < 1u << 24 && opening->slots && opening->slots <= HR_LINK_SLOTS_MAX &&
	       opening->stride && opening->mtu >= 1 && opening->mtu <= 5 &&
	       opening->low <= UINT64_MAX / 2 && !(opening->has[0] & 1) &&
	       opening->tile_address <= UINT64_MAX - (uint64_t)opening->slots * opening->stride &&
	       opening->table_address <= UINT64_MAX - HR_LINK_SLOTS_MAX * HR_LINK_ENTRY_BYTES;
}

static bool holds(const struct hr_link_message *message)
{
	switch (message->head.kind) {
	case HR_LINK_HELLO:
		return hello_holds(&message->hello);
	case HR_LINK_REFUSE:
		return message->refuse.code && message->refuse.code < HR_LINK_REFUSALS;
	case HR_LINK_OPEN:
		return opening_holds(&message->opening);
	case HR_LINK_MSG_RESULT:
		return message->ending.code <= HR_ERROR_DEVICE &&
		       is_text(message->ending.text, sizeof(message->ending.text));
	default:
		return true;
	}
}

int hr_link_message_parse(struct hr_link_message *message, const void *data, size_t bytes)
{
	struct hr_link_head head;
	size_t want;

	/* The first bytes of a stranger that speaks another protocol are enough to refuse it. */
	if (bytes >= sizeof(head.magic)) {
		memcpy(&head.magic, data, sizeof(head.magic));
		if (head.magic != HR_LINK_MAGIC)
			return -EPROTO;
	}
	if (bytes < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	want = hr_link_message_bytes(head.kind);
	if (!want || head.bytes != want || (head.kind < HR_LINK_OPEN && head.count))
		return -EPROTO;
	if (bytes < want)
		return 0;
	memset(message, 0, sizeof(*message));
	message->head = head;
	memcpy(&message->hello, (const uint8_t *)data + sizeof(head),
	       hr_link_body_bytes(head.kind));
	return holds(message) ? (int)want : -EPROTO;
}

uint32_t hr_link_immediate(enum hr_link_immediate kind, uint64_t generation, uint32_t slot,
			   uint32_t sequence)
{
	return htonl((uint32_t)kind << 30 | (uint32_t)(generation & 15) << 26 | slot << 16 |
		     (sequence & 0xffff));
}

int hr_link_immediate_check(uint32_t immediate, enum hr_link_immediate kind, uint64_t generation,
			    uint32_t sequence, uint32_t *slot)
{
	*slot = ntohl(immediate) >> 16 & (HR_LINK_SLOTS_MAX - 1);
	return immediate == hr_link_immediate(kind, generation, *slot, sequence) ? 0 : -EPROTO;
}

const char *hr_link_refusal_text(unsigned code)
{
	static const char *const text[HR_LINK_REFUSALS] = {
		[HR_LINK_REFUSE_VERSION] = "it has another version of the protocol",
		[HR_LINK_REFUSE_KEY] = "it has another key",
		[HR_LINK_REFUSE_NAME] = "its stream has another name",
		[HR_LINK_REFUSE_TILE_BYTES] = "its tiles have another size",
		[HR_LINK_REFUSE_TILES] = "it takes fewer tiles",
		[HR_LINK_REFUSE_BUSY] = "another sender is connected to it",
		[HR_LINK_REFUSE_SIDE] = "both sides are senders",
	};

	return code < HR_LINK_REFUSALS && text[code] ? text[code] : "it gives no reason";
}
