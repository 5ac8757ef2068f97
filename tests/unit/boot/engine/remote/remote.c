/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of an engine: whole runs on the host backend, over real links and the fake network device. A
 * thread of the test is the other appliance, and does what a row says.
 */
#include "boot/engine/remote/remote.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/runner/counters.h"
#include "boot/engine/devices/devices.h"
#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "boot/engine/bringup/stages.h"
#include "cache/crc32c.h"
#include "config/base/clock.h"
#include "config/file/file.h"
#include "config/base/seam.h"
#include "tests/fakes/memfd.h"
#include "tests/harness/error.h"
#include "tests/harness/link_rig.h"

#define TILE 65536u
#define TILES_MAX 16u

enum { SEND, TAKE, OTHER }; /* pipelines */

/* What the other appliance does, and how the run of this one ends. */
struct row {
	uint64_t has;	      /* receiver: tiles of an earlier run */
	uint64_t tiles;	      /* sender: that it sends, all full but the one of short_bytes */
	uint64_t short_tile;  /* sender */
	uint32_t short_bytes; /* sender */
	int64_t end_differs;  /* sender: bytes that it says beside those that it has sent */
	/* 0: never. After so many tiles it leaves, and comes again with `keeps` of them; it ends
	 * with `code` and `text`; a signal comes to this appliance */
	uint64_t leaves_at, keeps, ends_at, signal_at;
	int code;
	const char *text;
	/* expected */
	int err;
	enum hr_outcome outcome;
	enum hr_error_kind kind;
	/* parts of the cause, and of the end that the other one hears */
	const char *says, *hears;
};

static struct hr_engine engine;
static char folder[] = "/tmp/headrace-remote-XXXXXX", key[64], text[2048];
static struct link_rig rig;
static unsigned port;
static bool keep_going;
static pthread_t runner;	   /* the thread of the run */
static const char *takes = "copy"; /* operator */

static struct {
	enum hr_link_side side;
	const struct row *row;
	struct hr_cpu_thread thread;
	uint32_t quit; /* the appliance is down */
	uint64_t next, count, rounds, busy[RIG_SLOTS];
	bool has[TILES_MAX], left;
	uint8_t data[TILES_MAX * TILE];
	int heard;
	char heard_text[256], failed[256];
} peer;

static void write_key(void)
{
	uint8_t data[HR_LINK_KEY_BYTES];
	int fd;

	memcpy(data, rig.setup[0].key, sizeof data);
	snprintf(key, sizeof key, "%s/key", folder);
	fd = open(key, O_CREAT | O_WRONLY | O_CLOEXEC, 0400);
	cr_assert_eq(write(fd, data, sizeof data), (ssize_t)sizeof data);
	close(fd);
}

static void init(void)
{
	cr_assert_not_null(mkdtemp(folder));
	link_rig_init(&rig);
	write_key();
	port = link_rig_free_port();
}

static void fini(void)
{
	link_rig_fini(&rig);
	remove(key);
	rmdir(folder);
}

TestSuite(remote, .init = init, .fini = fini, .timeout = 240);

/* A sender of ten tiles, a receiver of sixteen at most, and another pipeline: some are selected. */
static int up(unsigned selected, enum hr_stage stage)
{
	snprintf(
		text, sizeof text,
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\";\n"
		"  objects = ( { name = \"in\"; bytes = \"589832\"; } ); } );\n"
		"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
		"remote = { key = \"%s\"; call = \"100s\"; };\n"
		"pipelines = ( { name = \"send\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
		"  source = { object = \"in\"; };\n"
		"  sink = { remote = \"127.0.0.1:%u\"; name = \"s\"; depth = 3; }; },\n"
		" { name = \"take\"; operator = \"%s\"; tile = \"64K\"; slots = 4;\n"
		"  source = { remote = \"127.0.0.1:%u\"; name = \"s\"; bytes = \"1M\"; };\n"
		"  sink = { object = \"out\"; }; },\n"
		" { name = \"other\"; operator = \"crc32c\"; tile = \"64K\"; slots = 4;\n"
		"  source = { object = \"in\"; }; } );\n",
		key, port, takes, port);
	cr_assert_eq(
		hr_config_parse(&engine.config, &hr_lookup, "f", text, strlen(text), test_error()),
		0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(&engine, NULL), 0);
	engine.keep_going = keep_going;
	for (unsigned i = 0; i < 3; i++)
		engine.run[i].selected = selected >> i & 1;
	return hr_engine_up(&engine, stage);
}

static void down(void)
{
	hr_unseal();
	hr_engine_down(&engine);
}

static struct hr_remote_report report_of(unsigned pipeline)
{
	struct hr_remote_report report;

	hr_remote_snapshot(&engine, &engine.run[pipeline], &report);
	return report;
}

/* ---- the other appliance */

static uint32_t bytes_of(uint64_t tile)
{
	return peer.row->short_bytes && tile == peer.row->short_tile ? peer.row->short_bytes : TILE;
}

static void open_peer(uint64_t from)
{
	uint64_t bytes = 0;

	if (peer.side == HR_LINK_SENDER)
		snprintf(rig.address, sizeof rig.address, "127.0.0.1:%u", port);
	link_rig_open(&rig, peer.side);
	memset(peer.busy, 0, sizeof peer.busy);
	for (uint64_t t = 0; t < TILES_MAX; t++)
		peer.has[t] = t < from;
	peer.next = from;
	if (peer.side == HR_LINK_RECEIVER)
		hr_link_set_durable(rig.link[peer.side], from);
	for (uint64_t t = 0; t < peer.row->tiles; t++)
		bytes += bytes_of(t);
	hr_link_end(rig.link[peer.side], peer.row->tiles, bytes + (uint64_t)peer.row->end_differs);
}

/* busy: its tile, plus 1. Before it leaves it offers no slot for more, so it knows what has come. */
static void offer_more(void)
{
	const uint64_t last = peer.row->leaves_at && !peer.left ? peer.row->leaves_at : TILES_MAX;

	for (uint32_t s = 0; s < RIG_SLOTS && peer.next < last; s++)
		if (!peer.busy[s] && hr_link_offer(rig.link[peer.side], s, peer.next) == 0)
			peer.busy[s] = ++peer.next;
}

/* One that ends before its last tile sends no more. */
static void send_more(void)
{
	const uint64_t last = peer.row->ends_at ? peer.row->ends_at : peer.row->tiles;

	for (uint32_t s = 0; s < RIG_SLOTS && peer.next < last; s++) {
		int err;

		if (peer.busy[s])
			continue;
		memcpy(rig.memory[peer.side] + s * RIG_STRIDE, peer.data + peer.next * TILE, TILE);
		err = hr_link_send(rig.link[peer.side], s, peer.next, bytes_of(peer.next));
		if (err && err != -EALREADY)
			return;
		peer.next++;
		peer.busy[s] = err ? 0 : peer.next;
	}
}

static void take_event(const struct hr_link_event *e)
{
	if (e->kind == HR_LINK_RECEIVED) {
		cr_assert(e->tile < TILES_MAX && !peer.has[e->tile]);
		cr_assert_eq(e->bytes, e->tile == 9 ? 8u : TILE);
		memcpy(peer.data + e->tile * TILE, rig.memory[peer.side] + e->slot * RIG_STRIDE,
		       e->bytes);
		peer.has[e->tile] = true;
	}
	if (e->kind == HR_LINK_RECEIVED || e->kind == HR_LINK_SENT) {
		peer.busy[e->slot] = 0;
		peer.count++;
	}
	if (e->kind == HR_LINK_DOWN && peer.side == HR_LINK_SENDER) {
		memset(peer.busy, 0, sizeof peer.busy);
		peer.next = 0;
	}
	if (e->kind == HR_LINK_REMOTE_ENDED) {
		peer.heard = e->code;
		snprintf(peer.heard_text, sizeof peer.heard_text, "%s", e->text);
	}
	if (e->kind == HR_LINK_FAILED)
		snprintf(peer.failed, sizeof peer.failed, "%s", e->text);
}

static void follow_script(void)
{
	const struct row *row = peer.row;

	if (row->leaves_at && peer.count >= row->leaves_at && !peer.left) {
		peer.left = true;
		rig.setup[peer.side].address = rig.address;
		link_rig_close(&rig, peer.side);
		open_peer(row->keeps);
	}
	if (row->signal_at && peer.count >= row->signal_at)
		pthread_kill(runner, SIGTERM);
	/* the end of a receiver's run comes some time after its last tile */
	if (peer.heard >= 0 || (row->ends_at && peer.count >= row->ends_at &&
				(peer.side == HR_LINK_SENDER || ++peer.rounds > 300)))
		hr_link_report_result(rig.link[peer.side], row->code, row->text);
}

/* A receiver has all of them. */
static bool has_all(void)
{
	uint64_t t = 0;

	while (t < 10 && peer.has[t])
		t++;
	return t == 10;
}

static void *play(void *unused)
{
	struct hr_link_event event;
	struct hr_error e = { 0 };

	while (!hr_acquire_u32(&peer.quit)) {
		struct hr_link *link = rig.link[peer.side];

		if (peer.side == HR_LINK_RECEIVER)
			offer_more();
		else
			send_more();
		while (hr_link_step(link, hr_now_ns(), &event, &e))
			take_event(&event);
		follow_script();
		if (peer.side == HR_LINK_RECEIVER && has_all() && !peer.row->ends_at)
			hr_link_report_result(rig.link[peer.side], 0, "");
		if (peer.failed[0])
			break;
		hr_wait_ns(HR_NS_PER_MS / 10);
	}
	return NULL;
}

static void begin_peer(enum hr_link_side side, const struct row *row)
{
	memset(&peer, 0, sizeof peer);
	peer.side = side;
	peer.row = row;
	peer.heard = -1;
	for (uint32_t i = 0; i < TILES_MAX * TILE; i++)
		peer.data[i] = side == HR_LINK_SENDER ? (uint8_t)(i * 7 + i / 251) : 0xdd;
	link_rig_again(&rig);
	rig.setup[side].name = "s";
	rig.setup[side].tile_bytes = TILE;
	rig.setup[side].tiles = side == HR_LINK_SENDER ? TILES_MAX : 1000;
	rig.setup[side].dead_ns = 0;
	if (side == HR_LINK_SENDER)
		port = link_rig_free_port();
	open_peer(row->has);
	if (side == HR_LINK_RECEIVER)
		port = hr_link_port(rig.link[side]);
	cr_assert_eq(hr_thread_start(&peer.thread, NULL, play, NULL), 0);
}

static void end_peer(void)
{
	hr_release_u32(&peer.quit, 1);
	hr_thread_join(&peer.thread);
}

/* ---- runs */

/* A run of one pipeline with the other appliance, which ends as the row says. */
static void expect_run(unsigned pipeline, const struct row *row, size_t i)
{
	const struct hr_run *run = &engine.run[pipeline];
	struct hr_error e = { 0 };

	runner = pthread_self();
	hr_signals_hold();
	begin_peer(pipeline == SEND ? HR_LINK_RECEIVER : HR_LINK_SENDER, row);
	cr_assert_eq(up(1u << pipeline, HR_STAGE_QUEUES), 0, "row %zu: %s", i, engine.error.text);
	cr_expect_eq(hr_run_all(&engine, false, &e), row->err, "row %zu: %s", i, e.text);
	cr_expect_eq(run->outcome, row->outcome, "row %zu: %d, %s", i, run->outcome, e.text);
	cr_expect_eq(run->cause.kind, row->kind, "row %zu: %s", i, run->cause.text);
	cr_expect(!row->says || strstr(run->cause.text, row->says), "row %zu: %s", i,
		  run->cause.text);
	down();
	end_peer();
	cr_expect_eq(peer.failed[0], '\0', "row %zu: %s", i, peer.failed);
	cr_expect_eq(peer.heard == 0, row->outcome == HR_RUN_DONE, "row %zu: %d", i, peer.heard);
	cr_expect(!row->hears || strstr(peer.heard_text, row->hears), "row %zu: %s", i,
		  peer.heard_text);
}

/* The other appliance leaves after tile 4: with all tiles it goes on, without them another run has to
 * send them. */
Test(remote, an_object_is_sent_to_a_receiver)
{
	static const struct row row[] = {
		{ .outcome = HR_RUN_DONE },
		{ .has = 7, .outcome = HR_RUN_DONE },
		{ .has = 10, .outcome = HR_RUN_DONE },
		{ .leaves_at = 4, .keeps = 4, .outcome = HR_RUN_DONE },
		/* it comes again with tiles that this one still holds */
		{ .leaves_at = 4, .keeps = 7, .outcome = HR_RUN_DONE },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		expect_run(SEND, &row[i], i);
		if (!row[i].leaves_at)
			cr_expect_eq(peer.count, 10 - row[i].has, "row %zu", i);
		/* words of an object of a soft ssd count up */
		for (uint64_t b = row[i].has * TILE; b < 9 * TILE + 8; b += 8)
			cr_assert((b / TILE >= row[i].leaves_at && b / TILE < row[i].keeps) ||
					  !memcmp(peer.data + b, &(uint64_t){ b / 8 }, 8),
				  "row %zu, byte %llu", i, (unsigned long long)b);
	}
}

Test(remote, a_sender_ends_with_its_receiver)
{
	static const struct row row[] = {
		{ .leaves_at = 6,
		  .keeps = 1,
		  .err = -ECONNRESET,
		  .outcome = HR_RUN_FAILED,
		  .kind = HR_ERROR_DEVICE,
		  .says = "the receiver has lost tile 1, which this run has given back" },
		{ .ends_at = 3,
		  .code = HR_ERROR_DEVICE,
		  .text = "its ssd is gone",
		  .err = -ECONNABORTED,
		  .outcome = HR_RUN_FAILED,
		  .kind = HR_ERROR_DEVICE,
		  .says = "the run of the receiver has ended: its ssd is gone",
		  .hears = "pipeline 'send': remote 's'" },
		/* it has all tiles, and cannot write them */
		{ .ends_at = 10,
		  .code = HR_ERROR_DEVICE,
		  .text = "its ssd is gone",
		  .err = -ECONNABORTED,
		  .outcome = HR_RUN_FAILED,
		  .kind = HR_ERROR_DEVICE,
		  .says = "the run of the receiver has ended: its ssd is gone" },
		/* it has all that it wants */
		{ .ends_at = 3, .outcome = HR_RUN_DONE },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		expect_run(SEND, &row[i], i);
}

Test(remote, the_receiver_hears_that_a_run_was_interrupted)
{
	const struct row row = { .signal_at = 2,
				 .err = -EINTR,
				 .outcome = HR_RUN_INTERRUPTED,
				 .hears = "pipeline 'send' was interrupted" };

	expect_run(SEND, &row, 0);
	cr_expect_eq(peer.heard, HR_ERROR_FAILED);
}

#define WRONG                                                              \
	.err = -EPROTO, .outcome = HR_RUN_FAILED, .kind = HR_ERROR_FAILED, \
	.says = "which are not the tiles that have come",                  \
	.hears = "which are not the tiles that have come"

Test(remote, an_object_comes_from_a_sender)
{
	static const struct row row[] = {
		{ .tiles = 3, .short_tile = 2, .short_bytes = 800, .outcome = HR_RUN_DONE },
		{ .tiles = 1, .short_bytes = 8, .outcome = HR_RUN_DONE },
		{ .tiles = 16, .outcome = HR_RUN_DONE },
		{ .tiles = 16, .leaves_at = 5, .outcome = HR_RUN_DONE },
		/* it has sent all, and comes again to hear that they are written */
		{ .tiles = 3, .leaves_at = 3, .outcome = HR_RUN_DONE },
		{ .tiles = 2, .short_tile = 1, .short_bytes = 104, .end_differs = -8, WRONG },
		{ .tiles = 2, .short_tile = 1, .short_bytes = 104, .end_differs = 8, WRONG },
		{ .tiles = 2, .end_differs = 8, WRONG },
		{ .tiles = 2, .end_differs = -(int64_t)TILE, WRONG },
		{ .tiles = 3, .short_tile = 1, .short_bytes = 104, WRONG },
		{ .tiles = 16,
		  .ends_at = 1,
		  .code = HR_ERROR_DEVICE,
		  .text = "bad disk",
		  .err = -ECONNABORTED,
		  .outcome = HR_RUN_FAILED,
		  .kind = HR_ERROR_DEVICE,
		  .says = "the run of the sender has ended: bad disk" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint64_t full = row[i].tiles - (row[i].short_bytes != 0);

		expect_run(TAKE, &row[i], i);
		if (row[i].outcome != HR_RUN_DONE)
			continue;
		cr_expect_eq(engine.run[TAKE].durable_tiles, row[i].tiles);
		cr_expect_eq(engine.run[TAKE].sink_crc,
			     hr_crc32c(0, peer.data, full * TILE + row[i].short_bytes), "row %zu",
			     i);
	}
}

Test(remote, a_tile_of_half_a_row_ends_the_run)
{
	static const struct row row = {
		.tiles = 2,
		.short_tile = 1,
		.short_bytes = 6,
		.err = -EPROTO,
		.outcome = HR_RUN_FAILED,
		.kind = HR_ERROR_FAILED,
		.says = "tile 1 has a length that is not whole rows of operator cast_f32_bf16",
	};

	takes = "cast_f32_bf16";
	expect_run(TAKE, &row, 0);
}

Test(remote, the_sender_hears_that_a_run_was_interrupted)
{
	const struct row row = { .tiles = 16,
				 .short_bytes = 8, /* of tile 0: the run does not end */
				 .signal_at = 2,
				 .err = -EINTR,
				 .outcome = HR_RUN_INTERRUPTED,
				 .hears = "pipeline 'take' was interrupted" };

	expect_run(TAKE, &row, 0);
}

/* ---- bring-up */

Test(remote, a_signal_ends_the_wait_for_a_receiver)
{
	hr_signals_stop();
	cr_expect_eq(up(1u << SEND, HR_STAGE_QUEUES), -EINTR);
	cr_expect_eq(engine.error.kind, HR_ERROR_NONE, "%s", engine.error.text);
	down();
}

Test(remote, a_sender_with_another_key_does_not_come_up)
{
	static const struct row row = { .has = 0 };

	begin_peer(HR_LINK_RECEIVER, &row);
	rig.setup[0].key[0] ^= 1;
	remove(key);
	write_key();
	cr_expect_eq(up(1u << SEND, HR_STAGE_QUEUES), -EINVAL);
	cr_expect_eq(engine.error.kind, HR_ERROR_USAGE);
	cr_expect(strstr(engine.error.text, "f:7: pipeline 'send': remote 's' (127.0.0.1:") &&
			  strstr(engine.error.text, "it has another key"),
		  "%s", engine.error.text);
	down();
	end_peer();
}

/* Whichever piece of memory is missing: an error, and none of the others is left. */
Test(remote, a_sender_without_memory_does_not_come_up)
{
	static const struct row row = { .has = 0 };
	unsigned nth = 1;
	int err;

	for (bool reached = true; reached; nth++) {
		begin_peer(HR_LINK_RECEIVER, &row);
		fake_memfd.fails = fake_memfd.created + nth;
		err = up(1u << SEND, HR_STAGE_QUEUES);
		reached = fake_memfd.created >= fake_memfd.fails;
		cr_expect(reached ? err < 0 : err == 0, "%u: %d, %s", nth, err, engine.error.text);
		cr_expect_eq(engine.error.kind != HR_ERROR_NONE, reached, "%u: %s", nth,
			     engine.error.text);
		down();
		end_peer();
	}
	cr_expect_geq(nth, 4, "at least entries and a page: %u", nth);
}

/* Without a network device: other pipelines run when they may. */
Test(remote, only_the_pipeline_is_left_out_when_others_go_on)
{
	link_rig_fake()->port_down = 1;
	cr_expect_neq(up(1u << SEND | 1u << OTHER, HR_STAGE_QUEUES), 0);
	cr_expect_eq(engine.error.kind, HR_ERROR_MISSING);
	down();
	keep_going = true;
	cr_expect_neq(up(1u << SEND, HR_STAGE_QUEUES), 0);
	down();
	cr_expect_eq(up(1u << SEND | 1u << OTHER, HR_STAGE_QUEUES), 0, "%s", engine.error.text);
	cr_expect_not(engine.run[SEND].selected);
	cr_expect_eq(hr_run_all(&engine, false, test_error()), 0);
	cr_expect_eq(engine.run[OTHER].outcome, HR_RUN_DONE);
	down();
}

/* ---- check and post */

Test(remote, check_proves_and_describes_the_path_of_each_stream)
{
	cr_assert_eq(up(1u << SEND | 1u << OTHER, HR_STAGE_MEMORY), 0, "%s", engine.error.text);
	cr_expect_eq(hr_remote_probe_all(&engine), 0, "%s", engine.error.text);
	cr_expect(report_of(SEND).open);
	cr_expect(strstr(report_of(SEND).described, "fake0 port 1"), "%s",
		  report_of(SEND).described);
	cr_expect_not(report_of(OTHER).open);
	link_rig_fake()->deaf = 1;
	cr_expect_eq(hr_remote_probe_all(&engine), -EIO);
	cr_expect(strstr(engine.error.text, "f:7: pipeline 'send': remote 's' (127.0.0.1:") &&
			  strstr(engine.error.text, "fake0: loopback: "),
		  "%s", engine.error.text);
	cr_expect_eq(engine.error.kind, HR_ERROR_DEVICE);
	cr_expect_not(report_of(SEND).open);
	down();
}

Test(remote, post_tests_the_device_of_one_pipeline)
{
	const struct hr_config_pipeline *take = &engine.config.pipeline[TAKE];
	char said[256] = "";

	cr_assert_eq(up(1u << SEND, HR_STAGE_MEMORY), 0, "%s", engine.error.text);
	cr_expect_eq(hr_remote_probe_one(&engine.config, take, said, sizeof said, test_error()), 0,
		     "%s", test_error_text());
	cr_expect(strstr(said, "fake0 port 1"), "%s", said);
	link_rig_fake()->deaf = 1;
	cr_expect_eq(hr_remote_probe_one(&engine.config, take, said, sizeof said, test_error()),
		     -EIO);
	strcpy(engine.config.gpu[0].device, "cuda:99");
	cr_expect_neq(hr_remote_probe_one(&engine.config, take, said, sizeof said, test_error()),
		      0);
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING, "%s", test_error_text());
	down();
}
