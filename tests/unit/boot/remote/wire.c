/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/wire.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct hr_link_message message;

/* A message of this kind whose fields hold. */
static void good(unsigned kind)
{
	memset(&message, 0, sizeof(message));
	message.head = (struct hr_link_head){ .magic = HR_LINK_MAGIC,
					      .kind = (uint16_t)kind,
					      .bytes = (uint16_t)hr_link_message_bytes(kind) };
	if (kind == HR_LINK_HELLO)
		message.hello = (struct hr_link_hello){ .version = HR_LINK_VERSION,
							.side = HR_LINK_RECEIVER,
							.tiles = 1,
							.tile_bytes = 4096,
							.name = "stream" };
	if (kind == HR_LINK_REFUSE)
		message.refuse.code = HR_LINK_REFUSE_KEY;
	if (kind == HR_LINK_OPEN)
		message.opening = (struct hr_link_qp_info){
			.generation = 1, .qp = 17, .slots = 4, .stride = 4096, .mtu = 3
		};
	if (kind == HR_LINK_MSG_RESULT)
		strcpy(message.ending.text, "all is written");
}

/* The bytes lie at the end of memory of their own, so that a sanitizer sees a read behind them. */
static int parse(size_t bytes)
{
	struct hr_link_message out;
	uint8_t *copy = malloc(bytes + 1);
	int result;

	cr_assert(copy);
	memset(copy, 0, bytes + 1);
	memcpy(copy + 1, &message, bytes < sizeof(message) ? bytes : sizeof(message));
	result = hr_link_message_parse(&out, copy + 1, bytes);
	if (result > 0)
		cr_expect_eq(
			memcmp(&out.hello, &message.hello, hr_link_body_bytes(message.head.kind)),
			0);
	free(copy);
	return result;
}

Test(wire, each_kind_is_taken_when_all_of_it_is_there)
{
	for (unsigned kind = HR_LINK_HELLO; kind < HR_LINK_KINDS; kind++) {
		const size_t all = hr_link_message_bytes(kind);

		good(kind);
		cr_expect_leq(all, HR_LINK_MESSAGE_MAX);
		for (size_t n = 0; n < all; n++)
			cr_expect_eq(parse(n), 0, "kind %u, %zu bytes", kind, n);
		cr_expect_eq(parse(all), (int)all, "kind %u", kind);
		cr_expect_eq(parse(all + 1), (int)all, "kind %u", kind);
	}
	cr_expect_eq(hr_link_message_bytes(0), 0);
	cr_expect_eq(hr_link_message_bytes(HR_LINK_KINDS), 0);
}

static int with(unsigned kind, void (*spoil)(void))
{
	good(kind);
	spoil();
	return parse(hr_link_message_bytes(kind));
}

#define SPOIL(name, statement) \
	static void name(void) \
	{                      \
		statement;     \
	}

SPOIL(magic, message.head.magic++)
SPOIL(no_kind, message.head.kind = HR_LINK_KINDS)
SPOIL(longer, message.head.bytes++)
SPOIL(counted, message.head.count = 1)
SPOIL(no_side, message.hello.side = 2)
SPOIL(no_name, message.hello.name[0] = 0)
SPOIL(endless_name, memset(message.hello.name, 'a', HR_NAME_MAX))
SPOIL(control_name, message.hello.name[2] = '\n')
SPOIL(no_bytes, message.hello.tile_bytes = 0)
SPOIL(many_bytes, message.hello.tile_bytes = HR_TILE_MAX + 1)
SPOIL(no_reason, message.refuse.code = 0)
SPOIL(other_reason, message.refuse.code = HR_LINK_REFUSALS)
SPOIL(no_generation, message.opening.generation = 0)
SPOIL(no_qp, message.opening.qp = 0)
SPOIL(wide_qp, message.opening.qp = 1 << 24)
SPOIL(wide_psn, message.opening.psn = 1 << 24)
SPOIL(no_slots, message.opening.slots = 0)
SPOIL(many_slots, message.opening.slots = HR_LINK_SLOTS_MAX + 1)
SPOIL(no_stride, message.opening.stride = 0)
SPOIL(no_mtu, message.opening.mtu = 0)
SPOIL(wide_mtu, message.opening.mtu = 6)
SPOIL(far_low, message.opening.low = UINT64_MAX / 2 + 1)
SPOIL(has_low, message.opening.has[0] = 1)
SPOIL(far_tiles, message.opening.tile_address = UINT64_MAX - 4096)
SPOIL(far_table, message.opening.table_address = UINT64_MAX - 4096)
SPOIL(no_exit_code, message.ending.code = 5)
SPOIL(control_text, message.ending.text[3] = 27)
SPOIL(endless_text, memset(message.ending.text, 'a', HR_LINK_TEXT_BYTES))

Test(wire, a_field_out_of_range_is_refused)
{
	static const struct {
		unsigned kind;
		void (*spoil)(void);
	} row[] = {
		{ HR_LINK_MSG_KEEPALIVE, magic },
		{ HR_LINK_MSG_KEEPALIVE, no_kind },
		{ HR_LINK_MSG_KEEPALIVE, longer },
		{ HR_LINK_HELLO, counted },
		{ HR_LINK_HELLO, no_side },
		{ HR_LINK_HELLO, no_name },
		{ HR_LINK_HELLO, endless_name },
		{ HR_LINK_HELLO, control_name },
		{ HR_LINK_HELLO, no_bytes },
		{ HR_LINK_HELLO, many_bytes },
		{ HR_LINK_REFUSE, no_reason },
		{ HR_LINK_REFUSE, other_reason },
		{ HR_LINK_OPEN, no_generation },
		{ HR_LINK_OPEN, no_qp },
		{ HR_LINK_OPEN, wide_qp },
		{ HR_LINK_OPEN, wide_psn },
		{ HR_LINK_OPEN, no_slots },
		{ HR_LINK_OPEN, many_slots },
		{ HR_LINK_OPEN, no_stride },
		{ HR_LINK_OPEN, no_mtu },
		{ HR_LINK_OPEN, wide_mtu },
		{ HR_LINK_OPEN, far_low },
		{ HR_LINK_OPEN, has_low },
		{ HR_LINK_OPEN, far_tiles },
		{ HR_LINK_OPEN, far_table },
		{ HR_LINK_MSG_RESULT, no_exit_code },
		{ HR_LINK_MSG_RESULT, control_text },
		{ HR_LINK_MSG_RESULT, endless_text },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(with(row[i].kind, row[i].spoil), -EPROTO, "row %zu", i);
}

Test(wire, a_hello_of_another_version_is_taken_to_be_refused_by_name)
{
	good(HR_LINK_HELLO);
	message.hello.version = HR_LINK_VERSION + 1;
	message.hello.side = 77;
	cr_expect_eq(parse(hr_link_message_bytes(HR_LINK_HELLO)),
		     (int)hr_link_message_bytes(HR_LINK_HELLO));
}

Test(wire, an_immediate_has_kind_generation_slot_and_sequence)
{
	const uint32_t imm = hr_link_immediate(HR_LINK_IMM_TILE, 0x12, 1023, 0x10005);
	uint32_t slot;

	cr_expect_eq(ntohl(imm), 3u << 30 | 2u << 26 | 1023u << 16 | 5);
	cr_expect_eq(hr_link_immediate_check(imm, HR_LINK_IMM_TILE, 2, 5, &slot), 0);
	cr_expect_eq(slot, 1023);
	cr_expect_eq(hr_link_immediate_check(imm, HR_LINK_IMM_OFFER, 2, 5, &slot), -EPROTO);
	cr_expect_eq(hr_link_immediate_check(imm, HR_LINK_IMM_TILE, 3, 5, &slot), -EPROTO);
	cr_expect_eq(hr_link_immediate_check(imm, HR_LINK_IMM_TILE, 2, 6, &slot), -EPROTO);
}

Test(wire, each_refusal_has_a_text)
{
	for (unsigned code = 1; code < HR_LINK_REFUSALS; code++)
		cr_expect_str_neq(hr_link_refusal_text(code), "it gives no reason");
	cr_expect_str_eq(hr_link_refusal_text(0), "it gives no reason");
	cr_expect_str_eq(hr_link_refusal_text(HR_LINK_REFUSALS), "it gives no reason");
}
