/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers, wrong senders and replays at a receiver. */
#include "boot/remote/internal.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/harness/link_rig.h"

#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER

static struct link_rig rig;

static void init(void)
{
	link_rig_init(&rig);
}

static void fini(void)
{
	link_rig_fini(&rig);
}

TestSuite(door, .init = init, .fini = fini, .timeout = 300);

static void expect_refused(const char *at_sender, const char *at_receiver)
{
	struct hr_link_event event;

	link_rig_open(&rig, R);
	link_rig_open(&rig, S);
	event = link_rig_until(&rig, S, HR_LINK_FAILED);
	cr_expect(strstr(event.text, at_sender), "%s", event.text);
	cr_expect_eq(rig.error[S].kind, HR_ERROR_USAGE);
	event = link_rig_until(&rig, R, HR_LINK_CLIENT_REFUSED);
	cr_expect(strstr(event.text, at_receiver), "%s", event.text);
	cr_expect_eq(hr_link_read_counters(rig.link[R]).refused, 1);
	cr_expect_eq(link_rig_fake()->contexts, 0, "a stranger got a queue pair");
}

/* The receiver is not disturbed by those that it has refused. */
static void expect_others_are_served(void)
{
	link_rig_close(&rig, S);
	rig.setup[S] = rig.setup[R];
	rig.setup[S].side = S;
	rig.setup[S].address = rig.address;
	rig.setup[S].memory.base = rig.memory[S];
	rig.setup[S].tiles = 10;
	link_rig_open(&rig, S);
	link_rig_until(&rig, R, HR_LINK_UP);
}

Test(door, another_key_is_refused)
{
	rig.setup[S].key[31] ^= 1;
	expect_refused("the receiver refuses: it has another key", "refused: another key");
	expect_others_are_served();
}

Test(door, another_name_is_refused)
{
	rig.setup[S].name = "streams";
	expect_refused("its stream has another name", "another name of the stream");
	expect_others_are_served();
}

Test(door, another_size_of_tiles_is_refused)
{
	rig.setup[S].tile_bytes--;
	expect_refused("its tiles have another size", "another size of tiles");
	expect_others_are_served();
}

Test(door, more_tiles_than_the_receiver_takes_are_refused)
{
	rig.setup[S].tiles++;
	expect_refused("it takes fewer tiles", "more tiles than this pipeline takes");
	expect_others_are_served();
}

Test(door, an_address_that_is_not_listed_is_refused_before_it_says_anything)
{
	static const char peers[2][HR_NAME_MAX] = { "192.0.2.1", "192.0.2.2" };
	static const char wrong[1][HR_NAME_MAX] = { "host" };
	struct hr_link *link;

	rig.setup[R].allowed = wrong;
	rig.setup[R].allowed_count = 1;
	cr_expect_eq(hr_link_open(&link, &rig.setup[R], &rig.error[R]), -EINVAL);
	rig.setup[R].allowed = peers;
	rig.setup[R].allowed_count = 2;
	link_rig_open(&rig, R);
	link_rig_open(&rig, S);
	cr_expect(strstr(link_rig_until(&rig, R, HR_LINK_CLIENT_REFUSED).text,
			 "its address is not one of those that may connect"));
	link_rig_idle(&rig, 1000);
	cr_expect_eq(hr_link_read_counters(rig.link[S]).connections, 0);
}

/* From 127.0.0.`last`. */
static int connect_from(unsigned last)
{
	const struct sockaddr_in from = { .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK + last - 1) };
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(hr_link_port(rig.link[R])),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static int connect_raw(void)
{
	return connect_from(1);
}

Test(door, silent_strangers_block_nobody)
{
	int fds[12];

	link_rig_open(&rig, R);
	for (unsigned i = 0; i < 12; i++)
		fds[i] = connect_raw();
	link_rig_idle(&rig, 100);
	link_rig_open(&rig, S);
	link_rig_until(&rig, R, HR_LINK_UP);
	/* One more than the door has room for retires the oldest; time retires the others. */
	link_rig_pass(&rig, 2 * rig.setup[R].dead_ns + 1);
	link_rig_idle(&rig, 3);
	for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++)
		cr_expect_lt(rig.link[R]->unproved[i].fd, 0);
	cr_expect_eq(hr_link_read_counters(rig.link[R]).refused, 12);
	for (unsigned i = 0; i < 12; i++)
		close(fds[i]);
}

Test(door, a_stranger_that_speaks_another_protocol_is_refused_at_once)
{
	int fd;

	link_rig_open(&rig, R);
	fd = connect_raw();
	cr_assert_eq(send(fd, "GET / HTTP/1.1\r\n", 16, 0), 16);
	cr_expect(strstr(link_rig_until(&rig, R, HR_LINK_CLIENT_REFUSED).text,
			 "no HELLO of a sender"));
	close(fd);
}

/* A client of its own, which says what the test wants. */
static struct hr_link_tcp talk;
static uint8_t key[HR_LINK_KEY_BYTES];

static struct hr_handshake_self self_of(uint64_t instance)
{
	struct hr_handshake_self self = { .hello = { .version = HR_LINK_VERSION,
						     .side = S,
						     .instance = instance,
						     .tiles = 5,
						     .tile_bytes = RIG_TILE,
						     .name = "stream" },
					  .key = key };

	memset(key, 7, sizeof(key));
	return self;
}

static void call(void)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(hr_link_port(rig.link[R])),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	cr_assert_eq(hr_tcp_connect(&talk, &to, rig.now_ns), 0);
}

static struct hr_link_message hear(void)
{
	struct hr_link_message message;
	int n;

	while ((n = hr_tcp_receive(&talk, &message)) == 0) {
		hr_tcp_progress(&talk, rig.now_ns);
		link_rig_idle(&rig, 1);
	}
	cr_assert_eq(n, 1);
	return message;
}

static void greet(const struct hr_handshake_self *self)
{
	call();
	cr_assert_eq(hr_handshake_begin(&talk, self, rig.now_ns), 0);
	while (talk.handshake == HR_HANDSHAKE_RUNS) {
		const struct hr_link_message message = hear();

		cr_assert_eq(hr_handshake_receive(&talk, self, &message, rig.now_ns), 0);
	}
}

Test(door, an_answer_leaves_in_the_step_that_reads_the_message)
{
	const struct hr_handshake_self self = self_of(1);
	struct hr_link_message message;
	int n;

	link_rig_open(&rig, R);
	call();
	cr_assert_eq(hr_handshake_begin(&talk, &self, rig.now_ns), 0);
	while ((n = hr_tcp_receive(&talk, &message)) == 0) {
		hr_tcp_progress(&talk, rig.now_ns);
		link_rig_step(&rig, R);
		for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++)
			cr_expect_eq(rig.link[R]->unproved[i].out_bytes, 0);
	}
	cr_expect_eq(n, 1);
	hr_tcp_close(&talk);
}

/* Step until the receiver has accepted so many connections. */
static void until_accepted(unsigned count)
{
	unsigned now = 0;

	while (now < count) {
		link_rig_idle(&rig, 1);
		now = (unsigned)hr_link_read_counters(rig.link[R]).refused;
		for (unsigned i = 0; i < HR_LINK_UNPROVED_MAX; i++)
			now += rig.link[R]->unproved[i].fd >= 0;
	}
}

static bool is_closed(int fd, int wait_ms)
{
	struct pollfd closed = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&closed, 1, wait_ms) == 1 && recv(fd, &byte, 1, 0) == 0;
}

/* The sender has connected first, and its greeting is under way: it is the oldest stranger. */
Test(door, an_address_that_floods_the_door_loses_its_own_places_only)
{
	const struct hr_handshake_self self = self_of(1);
	int fds[3 * HR_LINK_UNPROVED_MAX];

	link_rig_open(&rig, R);
	call();
	while (talk.connecting)
		cr_assert_eq(hr_tcp_progress(&talk, rig.now_ns), 0);
	until_accepted(1);
	for (unsigned i = 0; i < 3 * HR_LINK_UNPROVED_MAX; i++) {
		fds[i] = connect_from(2);
		until_accepted(i + 2);
	}
	/* the sender and the newest ones have the places */
	for (unsigned i = 0; i < 3 * HR_LINK_UNPROVED_MAX; i++) {
		const bool lost = i <= 2 * HR_LINK_UNPROVED_MAX;

		cr_assert_eq(is_closed(fds[i], lost ? 60000 : 0), lost, "connection %u", i);
	}
	cr_assert_eq(hr_handshake_begin(&talk, &self, rig.now_ns), 0);
	while (talk.handshake == HR_HANDSHAKE_RUNS) {
		const struct hr_link_message message = hear();

		cr_assert_eq(hr_handshake_receive(&talk, &self, &message, rig.now_ns), 0);
	}
	cr_expect_eq(talk.handshake, HR_HANDSHAKE_PROVED);
	hr_tcp_close(&talk);
	for (unsigned i = 0; i < 3 * HR_LINK_UNPROVED_MAX; i++)
		close(fds[i]);
}

Test(door, a_replayed_greeting_is_refused)
{
	const struct hr_handshake_self self = self_of(1);
	const struct hr_link_message again = { .head.kind = HR_LINK_REFUSE };
	struct hr_auth_transcript said;

	link_rig_open(&rig, R);
	greet(&self);
	cr_assert_eq(talk.handshake, HR_HANDSHAKE_PROVED);
	cr_expect_eq(hr_handshake_receive(&talk, &self, &again, rig.now_ns), -EPROTO, "it is over");
	said = talk.said;
	hr_tcp_close(&talk);
	call();
	cr_assert_eq(hr_tcp_send(&talk, HR_LINK_HELLO, &said.hello[S], rig.now_ns), 0);
	cr_expect_eq(hear().head.kind, HR_LINK_HELLO);
	cr_assert_eq(hr_tcp_send(&talk, HR_LINK_PROOF, said.proof[S], rig.now_ns), 0);
	cr_expect_eq(hear().refuse.code, HR_LINK_REFUSE_KEY);
	hr_tcp_close(&talk);
}

/* The receiver's proof, said back to it, proves nothing. */
Test(door, a_reflected_proof_is_refused)
{
	const struct hr_handshake_self self = self_of(1);
	uint8_t proof[HR_AUTH_MAC_BYTES];

	link_rig_open(&rig, R);
	greet(&self);
	memcpy(proof, talk.said.proof[R], sizeof(proof));
	hr_tcp_close(&talk);
	call();
	cr_assert_eq(hr_handshake_begin(&talk, &self, rig.now_ns), 0);
	cr_expect_eq(hear().head.kind, HR_LINK_HELLO);
	cr_assert_eq(hr_tcp_send(&talk, HR_LINK_PROOF, proof, rig.now_ns), 0);
	cr_expect_eq(hear().refuse.code, HR_LINK_REFUSE_KEY);
	hr_tcp_close(&talk);
}

/* Up to OPEN, as a sender that knows the key. */
static void open_session(void)
{
	const struct hr_handshake_self self = self_of(1);

	link_rig_open(&rig, R);
	greet(&self);
	cr_assert_eq(talk.handshake, HR_HANDSHAKE_PROVED);
	cr_assert_eq(hear().head.kind, HR_LINK_OPEN);
}

static void expect_closed(void)
{
	while (rig.link[R]->state != HR_LINK_STATE_DOWN)
		link_rig_idle(&rig, 1);
	hr_tcp_close(&talk);
}

Test(door, a_message_with_a_wrong_code_ends_the_connection)
{
	open_session();
	talk.session[0] ^= 1;
	cr_assert_eq(hr_tcp_send(&talk, HR_LINK_MSG_KEEPALIVE, NULL, rig.now_ns), 0);
	hr_tcp_flush(&talk);
	expect_closed();
	cr_expect_str_eq(rig.link[R]->text, "a message with a wrong code");
}

Test(door, a_message_with_another_count_ends_the_connection)
{
	open_session();
	talk.count_out = 1;
	cr_assert_eq(hr_tcp_send(&talk, HR_LINK_MSG_KEEPALIVE, NULL, rig.now_ns), 0);
	hr_tcp_flush(&talk);
	expect_closed();
	cr_expect_str_eq(rig.link[R]->text, "a message with a wrong code");
}

Test(door, a_message_that_does_not_belong_there_ends_the_connection)
{
	static const enum hr_link_kind kind[] = { HR_LINK_READY, HR_LINK_MSG_SIZE,
						  HR_LINK_MSG_RESULT };
	const struct hr_link_run_result body = { .code = 0 };

	for (unsigned i = 0; i < 3; i++) {
		if (rig.link[R])
			link_rig_close(&rig, R);
		open_session();
		cr_assert_eq(hr_tcp_send(&talk, kind[i], &body, rig.now_ns), 0);
		hr_tcp_flush(&talk);
		expect_closed();
		cr_expect_str_eq(rig.link[R]->text, "a message that does not belong there");
	}
}

Test(door, another_sender_is_refused_while_one_is_connected)
{
	const struct hr_handshake_self self = self_of(1);

	link_rig_up(&rig);
	greet(&self);
	cr_expect_eq(talk.handshake, HR_HANDSHAKE_REFUSED_BY);
	cr_expect_eq(talk.refusal.code, HR_LINK_REFUSE_BUSY);
	hr_tcp_close(&talk);
	cr_expect_eq(hr_link_read_counters(rig.link[R]).broken, 0);
}

Test(door, a_new_hello_of_the_same_sender_retires_its_old_connection)
{
	const struct hr_handshake_self self = self_of(0);
	struct hr_handshake_self same = self;

	link_rig_up(&rig);
	same.hello.instance = rig.link[S]->self.hello.instance;
	greet(&same);
	cr_expect_eq(talk.handshake, HR_HANDSHAKE_PROVED);
	cr_expect_str_eq(link_rig_until(&rig, R, HR_LINK_DOWN).text,
			 "the sender has connected again");
	hr_tcp_close(&talk);
	/* The real one comes back. */
	link_rig_until(&rig, R, HR_LINK_UP);
}
