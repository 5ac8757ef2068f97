/* The beginning of a connection, message by message: what is said is the test's. */
#include "gpu/remote/greet.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER
#define NOW 77u

static char log_[256];
static uint8_t said[256]; /* the body of the last message */
static int say;
static struct hr_link_talk talk[2];
static struct hr_link_self self[2];
static const uint8_t key[2][HR_LINK_KEY_BYTES] = { { 1, 2 }, { 1, 2 } };

int hr_talk_say(struct hr_link_talk *of, enum hr_link_kind kind, const void *body, uint64_t now_ns)
{
	const size_t used = strlen(log_);

	cr_expect_eq(now_ns, NOW);
	snprintf(log_ + used, sizeof log_ - used, "%d says %d;", (int)(of - talk), (int)kind);
	memcpy(said, body,
	       kind == HR_LINK_HELLO   ? sizeof(struct hr_link_hello)
	       : kind == HR_LINK_PROOF ? HR_LINK_CODE_BYTES
				       : sizeof(struct hr_link_refuse));
	return say;
}

int hr_talk_step(struct hr_link_talk *of, uint64_t now_ns)
{
	strcat(log_, "step;");
	return 0;
}

#define EXPECT_LOG(want)                                       \
	do {                                                   \
		cr_expect_str_eq(log_, want, "log: %s", log_); \
		log_[0] = '\0';                                \
	} while (0)

static void begin(void)
{
	memset(talk, 0, sizeof talk);
	memset(said, 0, sizeof said);
	log_[0] = '\0';
	say = 0;
	for (int i = 0; i < 2; i++) {
		talk[i].side = i;
		self[i] = (struct hr_link_self){ .hello = { .version = HR_LINK_VERSION,
							    .side = (uint32_t)i,
							    .instance = 5 + (uint64_t)i,
							    .tiles = 40,
							    .tile_bytes = 4096,
							    .name = "stream" },
						 .key = key[i] };
	}
}

TestSuite(greet_calls, .init = begin, .timeout = 60);

/* What the other side has said last. */
static int take(int side, enum hr_link_kind kind)
{
	struct hr_link_message message = { .head.kind = (uint16_t)kind };

	memcpy(&message.hello, said,
	       kind == HR_LINK_PROOF ? HR_LINK_CODE_BYTES : sizeof message.hello);
	return hr_greet_take(&talk[side], &self[side], &message, NOW);
}

/* HELLO of the sender, HELLO of the receiver, PROOF of the sender. */
static void until_proof(void)
{
	cr_assert_eq(hr_greet_begin(&talk[S], &self[S], NOW), 0);
	cr_assert_eq(take(R, HR_LINK_HELLO), 0);
	cr_assert_eq(take(S, HR_LINK_HELLO), 0);
}

Test(greet_calls, both_sides_prove_the_key)
{
	uint8_t proof[HR_LINK_CODE_BYTES];

	until_proof();
	EXPECT_LOG("0 says 1;1 says 1;0 says 2;");
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(memcmp(&talk[S].said.hello[i], &talk[R].said.hello[i],
				    sizeof talk[S].said.hello[i]),
			     0);
		cr_expect_eq(talk[S].said.hello[i].instance, 5 + (uint64_t)i);
	}
	cr_expect_neq(memcmp(talk[S].said.hello[S].nonce, talk[S].said.hello[R].nonce,
			     HR_LINK_NONCE_BYTES),
		      0);
	hr_link_prove(proof, key[0], &talk[S].said, S);
	cr_expect_eq(memcmp(said, proof, sizeof proof), 0);
	cr_expect(talk[S].greeting == HR_LINK_GREETING && talk[R].greeting == HR_LINK_GREETING);
	cr_expect_eq(take(R, HR_LINK_PROOF), 0);
	cr_expect(talk[R].greeting == HR_LINK_PROVEN && !talk[R].secured);
	cr_expect_eq(memcmp(talk[R].said.proof[S], proof, sizeof proof), 0);
	cr_expect_eq(hr_greet_answer(&talk[R], &self[R], NOW), 0);
	EXPECT_LOG("1 says 2;");
	cr_expect(talk[R].secured);
	cr_expect_eq(take(S, HR_LINK_PROOF), 0);
	cr_expect(talk[S].greeting == HR_LINK_PROVEN && talk[S].secured);
	cr_expect_eq(memcmp(talk[S].session, talk[R].session, sizeof talk[S].session), 0);
	hr_link_session_key(proof, key[0], &talk[S].said);
	cr_expect_eq(memcmp(talk[S].session, proof, sizeof proof), 0);
	/* then nothing of a greeting is taken */
	cr_expect_eq(take(S, HR_LINK_PROOF), -EPROTO);
}

static void expect_refusal(int side, uint32_t code, uint32_t value)
{
	struct hr_link_refuse refuse;

	cr_expect_eq(talk[side].greeting, HR_LINK_REFUSED);
	cr_expect(talk[side].refusal.code == code && talk[side].refusal.value == value,
		  "code %u value %u", talk[side].refusal.code, talk[side].refusal.value);
	memcpy(&refuse, said, sizeof refuse);
	cr_expect(refuse.code == code && refuse.value == value);
	cr_expect(!talk[side].secured);
}

Test(greet_calls, a_hello_that_does_not_fit_is_refused)
{
	hr_greet_begin(&talk[S], &self[S], NOW);
	((struct hr_link_hello *)(void *)said)->version++;
	cr_expect_eq(take(R, HR_LINK_HELLO), 0);
	EXPECT_LOG("0 says 1;1 says 3;step;");
	expect_refusal(R, HR_LINK_REFUSE_VERSION, HR_LINK_VERSION);
	begin();
	self[S].hello.side = R;
	hr_greet_begin(&talk[S], &self[S], NOW);
	cr_expect_eq(take(R, HR_LINK_HELLO), 0);
	expect_refusal(R, HR_LINK_REFUSE_SIDE, 0);
	begin();
	hr_greet_begin(&talk[R], &self[R], NOW);
	((struct hr_link_hello *)(void *)said)->side = S;
	cr_expect_eq(take(S, HR_LINK_HELLO), 0);
	expect_refusal(S, HR_LINK_REFUSE_SIDE, 0);
	/* a refusal that cannot be said is not sent */
	begin();
	say = -ENOBUFS;
	hr_greet_refuse(&talk[S], HR_LINK_REFUSE_BUSY, 3, NOW);
	EXPECT_LOG("0 says 3;");
	expect_refusal(S, HR_LINK_REFUSE_BUSY, 3);
}

Test(greet_calls, streams_that_do_not_fit_are_refused_after_the_proof)
{
	static const struct {
		const char *name;
		uint32_t tile_bytes;
		uint64_t tiles; /* of the sender */
		uint32_t code;
	} row[] = { { "stream", 4096, 40, 0 },
		    { "stream", 4096, 39, 0 },
		    { "stream", 4096, 41, HR_LINK_REFUSE_TILES },
		    { "stream", 4095, 40, HR_LINK_REFUSE_TILE_BYTES },
		    { "strea", 4095, 41, HR_LINK_REFUSE_NAME },
		    { "streamx", 4096, 40, HR_LINK_REFUSE_NAME } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		self[S].hello.tile_bytes = row[i].tile_bytes;
		self[S].hello.tiles = row[i].tiles;
		snprintf(self[S].hello.name, sizeof self[S].hello.name, "%s", row[i].name);
		until_proof();
		cr_expect_eq(take(R, HR_LINK_PROOF), 0);
		if (row[i].code)
			expect_refusal(R, row[i].code, 4096);
		else
			cr_expect_eq(talk[R].greeting, HR_LINK_PROVEN, "row %zu", i);
	}
}

Test(greet_calls, a_wrong_proof_is_refused)
{
	until_proof();
	said[HR_LINK_CODE_BYTES - 1] ^= 1;
	log_[0] = '\0';
	cr_expect_eq(take(R, HR_LINK_PROOF), 0);
	EXPECT_LOG("1 says 3;step;");
	expect_refusal(R, HR_LINK_REFUSE_KEY, 0);
	begin();
	until_proof();
	cr_assert_eq(take(R, HR_LINK_PROOF), 0);
	cr_assert_eq(hr_greet_answer(&talk[R], &self[R], NOW), 0);
	said[0] ^= 1;
	cr_expect_eq(take(S, HR_LINK_PROOF), 0);
	expect_refusal(S, HR_LINK_REFUSE_KEY, 0);
}

Test(greet_calls, messages_out_of_their_order_break_the_protocol)
{
	struct hr_link_message refuse = { .head.kind = HR_LINK_REFUSE,
					  .refuse = { HR_LINK_REFUSE_TILES, 9 } };

	for (int side = S; side <= R; side++) {
		begin();
		cr_expect_eq(take(side, HR_LINK_PROOF), -EPROTO);
		cr_expect_eq(take(side, HR_LINK_OPEN), -EPROTO);
		EXPECT_LOG("");
		hr_greet_begin(&talk[!side], &self[!side], NOW);
		cr_expect_eq(take(side, HR_LINK_HELLO), 0);
		cr_expect_eq(take(side, HR_LINK_HELLO), -EPROTO);
		cr_expect_eq(hr_greet_take(&talk[side], &self[side], &refuse, NOW), 0);
		cr_expect_eq(talk[side].greeting, HR_LINK_REFUSED_BY);
		cr_expect(talk[side].refusal.code == HR_LINK_REFUSE_TILES &&
			  talk[side].refusal.value == 9);
		cr_expect_eq(hr_greet_take(&talk[side], &self[side], &refuse, NOW), -EPROTO);
	}
}

Test(greet_calls, a_message_that_cannot_be_said_is_an_error)
{
	say = -ENOBUFS;
	cr_expect_eq(hr_greet_begin(&talk[S], &self[S], NOW), -ENOBUFS);
	cr_expect_eq(take(R, HR_LINK_HELLO), -ENOBUFS);
	cr_expect_eq(take(S, HR_LINK_HELLO), -ENOBUFS);
	cr_expect_eq(hr_greet_answer(&talk[R], &self[R], NOW), -ENOBUFS);
	cr_expect_not(talk[R].secured);
}
