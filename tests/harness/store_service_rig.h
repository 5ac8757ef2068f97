/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/store_service_rig.h - the engine's side of requests of the store, over an ssd in memory
 * that is up, and its clients. Each test that includes this has one of its own.
 */
#ifndef TESTS_HARNESS_STORE_SERVICE_RIG_H
#define TESTS_HARNESS_STORE_SERVICE_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/store/service.h"
#include "boot/engine/devices/devices.h"
#include "config/base/scm.h"
#include "boot/engine/bringup/stages.h"
#include "cache/crc32c.h"
#include "config/file/file.h"
#include "tests/harness/error.h"

#define KIB 1024u
#define IN_BYTES (2500u * KIB) /* of object `in`: its 64-bit words count from 0 */

static const char config[] =
	"appliance = { name = \"box\"; };\n"
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=16M\";\n"
	"           objects = ( { name = \"in\"; bytes = \"2500K\"; } ); } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"pipelines = ( { name = \"sum\"; source = { object = \"in\"; }; operator = \"crc32c\"; } );\n";

static struct hr_engine *engine;
static struct hr_store_service *service;
static struct hr_store *store;
static int hands[2]; /* to the service */
static unsigned changes;
static uint8_t *answer; /* all bytes that a client has received */
static size_t got;
static uint8_t *in;

static inline void note_change(void *to)
{
	changes++;
}

/* The appliance is not up. */
static inline void begin_down(void)
{
	engine = calloc(1, sizeof *engine);
	service = calloc(1, sizeof *service);
	answer = malloc(8u << 20);
	in = malloc(IN_BYTES);
	cr_assert(engine && service && answer && in);
	for (uint64_t i = 0; i < IN_BYTES / sizeof i; i++)
		memcpy(in + i * sizeof i, &i, sizeof i);
	cr_assert_eq(hr_config_parse(&engine->config, &hr_lookup, "test.conf", config,
				     sizeof config - 1, test_error()),
		     0, "%s", test_error_text());
	hr_log_set_level(HR_LOG_ERROR);
	cr_assert_eq(hr_engine_init(engine, NULL), 0);
	store = &engine->ssd[0].store;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, hands), 0);
	cr_assert_eq(hr_store_service_open(service, engine, hands[1], NULL), 0);
	service->changed = note_change;
	changes = 0;
}

static inline void begin(void)
{
	begin_down();
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_STORES), 0);
}

static inline void end(void)
{
	hr_store_service_close(service);
	hr_engine_down(engine);
	close(hands[0]);
	close(hands[1]);
	free(in);
	free(answer);
	free(service);
	free(engine);
}

/* ---- clients */

static inline struct hr_request request(enum hr_request_kind kind, const char *object)
{
	struct hr_request r = { .kind = kind, .disk = "name:a" };

	strcpy(r.object, object);
	return r;
}

/* Pass a client on; returns its end of the connection. */
static inline int pass(const struct hr_request *r)
{
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	cr_assert_eq(hr_scm_send(hands[0], r, sizeof *r, &pair[1], 1), 0);
	close(pair[1]);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	return pair[0];
}

static inline int ask(enum hr_request_kind kind, const char *object)
{
	const struct hr_request r = request(kind, object);

	return pass(&r);
}

static inline int ask_put(const char *object, uint64_t bytes, bool replace)
{
	struct hr_request r = request(HR_REQUEST_STORE_PUT, object);

	r.bytes = bytes;
	r.replace = replace;
	return pass(&r);
}

/* Step, and take the bytes that the client receives, until it has `bytes` bytes; true: the
 * connection is open. */
static inline bool take(int fd, size_t bytes)
{
	while (got < bytes) {
		ssize_t n;

		hr_store_service_step(service);
		n = recv(fd, answer + got, bytes - got, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		got += n > 0 ? (size_t)n : 0;
		if (n < 0)
			poll(NULL, 0, 1);
	}
	return true;
}

/* The item at a position of the answer; returns the position behind it. */
static inline size_t item_at(size_t at, enum hr_request_kind kind, struct hr_message_item *item)
{
	cr_assert_leq(at + HR_MESSAGE_HEADER, got, "there is no item at %zu of %zu", at, got);
	cr_assert_eq(hr_message_parse_item(item, answer + at, kind), 0, "no item at %zu", at);
	return at + HR_MESSAGE_HEADER + item->bytes;
}

/* The reply behind the items that begin at `at`. */
static inline const char *reply_at(size_t at, enum hr_request_kind kind, uint32_t code)
{
	struct hr_message_item item;
	struct hr_reply reply;
	unsigned version;

	while (at + HR_MESSAGE_HEADER <= got &&
	       hr_message_parse_item(&item, answer + at, kind) == 0)
		at += HR_MESSAGE_HEADER + item.bytes;
	cr_assert_leq(at + HR_MESSAGE_HEADER, got, "there is no reply");
	cr_assert_eq(hr_reply_parse(&reply, answer + at, kind, &version), 0);
	cr_assert_eq(at + HR_MESSAGE_HEADER + reply.bytes, got);
	answer[got] = '\0';
	cr_expect_eq(reply.code, code, "%u: %s", reply.code, answer + at + HR_MESSAGE_HEADER);
	return (char *)answer + at + HR_MESSAGE_HEADER;
}

static inline void expect(const char *text, const char *wanted)
{
	cr_expect(strstr(text, wanted), "'%s' is not in %s", wanted, text);
}

/* The whole answer, whose reply has that code. */
static inline const char *finish(int fd, enum hr_request_kind kind, uint32_t code)
{
	take(fd, 8u << 20);
	close(fd);
	return reply_at(0, kind, code);
}

static inline const char *answer_to(enum hr_request_kind kind, const char *object, uint32_t code)
{
	got = 0;
	return finish(ask(kind, object), kind, code);
}

/* Send while the service takes it. */
static inline void give(int fd, const void *data, size_t bytes)
{
	size_t sent = 0;

	while (sent < bytes) {
		const ssize_t n =
			send(fd, (const uint8_t *)data + sent, bytes - sent, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return; /* the service has closed the connection */
		sent += n > 0 ? (size_t)n : 0;
		hr_store_service_step(service);
	}
}

static inline void give_item(int fd, enum hr_message_kind kind, const void *body, uint32_t bytes)
{
	const struct hr_message_item item = { kind, bytes };
	uint8_t head[HR_MESSAGE_HEADER];

	hr_message_format_item(&item, HR_REQUEST_STORE_PUT, head);
	give(fd, head, sizeof head);
	give(fd, body, bytes);
}

static inline void give_end(int fd, uint32_t crc)
{
	give_item(fd, HR_MESSAGE_END, &crc, sizeof crc);
}

/* Begin a put, up to HR_MESSAGE_GO. */
static inline int begin_put(const char *object, uint64_t bytes, bool replace)
{
	struct hr_message_item item;
	const int fd = ask_put(object, bytes, replace);

	got = 0;
	cr_assert(take(fd, HR_MESSAGE_HEADER));
	item_at(0, HR_REQUEST_STORE_PUT, &item);
	cr_assert_eq(item.kind, HR_MESSAGE_GO);
	return fd;
}

static inline void put(const char *object, const uint8_t *data, uint32_t bytes, bool replace)
{
	const int fd = begin_put(object, bytes, replace);

	for (uint32_t at = 0; at < bytes; at += HR_MESSAGE_DATA_MAX)
		give_item(fd, HR_MESSAGE_DATA, data + at,
			  bytes - at < HR_MESSAGE_DATA_MAX ? bytes - at : HR_MESSAGE_DATA_MAX);
	give_end(fd, hr_crc32c(0, data, bytes));
	expect(finish(fd, HR_REQUEST_STORE_PUT, 0), "\"result\": \"done\"");
}

static inline void expect_nothing_of(const char *object)
{
	cr_expect_null(hr_store_find(store, object), "%s is there", object);
	cr_expect_null(hr_store_find_pending(store, object), "a part of %s is there", object);
	cr_expect_eq(changes, 0u);
}

/* The data of an answer to store-get; returns their number. */
static inline size_t join_data(uint8_t *to)
{
	struct hr_message_item item;
	size_t bytes = 0, at = item_at(0, HR_REQUEST_STORE_GET, &item);

	cr_assert_eq(item.kind, HR_MESSAGE_OBJECT);
	while (at < got && hr_message_parse_item(&item, answer + at, HR_REQUEST_STORE_GET) == 0) {
		cr_assert_eq(item.kind, HR_MESSAGE_DATA);
		memcpy(to + bytes, answer + at + HR_MESSAGE_HEADER, item.bytes);
		bytes += item.bytes;
		at += HR_MESSAGE_HEADER + item.bytes;
	}
	return bytes;
}

static inline void expect_object(const char *name, const uint8_t *data, size_t bytes)
{
	uint8_t *is = malloc(8u << 20);
	char crc[32];

	snprintf(crc, sizeof crc, "\"crc32c\": \"%08x\"", hr_crc32c(0, data, bytes));
	expect(answer_to(HR_REQUEST_STORE_GET, name, 0), crc);
	cr_assert_eq(join_data(is), bytes);
	cr_expect_eq(memcmp(is, data, bytes), 0);
	free(is);
}

#endif
