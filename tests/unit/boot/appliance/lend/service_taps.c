/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of the runs of a tap: the answers to its consumer, to a silent client and to one that
 * comes later, and what stays open. The run has no worker.
 */
#include "boot/appliance/lend/service.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/base/scm.h"
#include "config/base/log.h"
#include "tests/fakes/clock.h"
#include "tests/harness/error.h"
#include "tests/harness/service_rig.h"

#define SLOTS 4u
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct hr_engine engine;
static struct hr_lend_service service;
static struct hr_tap_sockets sockets;
static struct hr_tap_role role;
static struct hr_tap_words words;
static struct hr_partition partition; /* a place for each part, which is enough here */
static char directory[64];

static void set_up(void)
{
	struct hr_config_pipeline *pipeline = &engine.config.pipeline[0];
	struct hr_run *run = &engine.run[0];

	hr_log_set_level(HR_LOG_ERROR);
	snprintf(directory, sizeof directory, "/tmp/hr-tap-service-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	setenv("RUNTIME_DIRECTORY", directory, 1);
	engine.config.pipelines = 1;
	snprintf(pipeline->name, sizeof pipeline->name, "lend");
	snprintf(pipeline->tap.name, sizeof pipeline->tap.name, "t");
	pipeline->tap.group = HR_CONTROL_NO_GROUP;
	run->config = pipeline;
	run->selected = true;
	run->slots = SLOTS;
	run->tiles = 64;
	run->sink_tile_bytes = 4096;
	run->tap.role.ring = role.ring = SLOTS;
	engine.up = HR_STAGE_QUEUES;
	engine.tap_tiles[0].fd = memfd_create("tiles", MFD_CLOEXEC);
	cr_assert_geq(engine.tap_tiles[0].fd, 0);
	role.entries = service_reserve(HR_TAP_SEATS * hr_tap_ring_bytes(SLOTS));
	role.pages = service_reserve(HR_TAP_SEATS * hr_tap_page_bytes(SLOTS));
	role.words = &words;
	run->cpu.tap = &role;
	run->layout.parts.partition = &partition;
	run->layout.tap_entries = service_add_part(&partition, HR_PLACE_TAP, role.entries);
	run->layout.tap_pages = service_add_part(&partition, HR_PLACE_HOST, role.pages);
	run->layout.tap_words = service_add_part(&partition, HR_PLACE_CONTROL, &words);
	fake_clock_start(HR_NS_PER_S, NULL, NULL);
}

static void tear_down(void)
{
	fake_clock_stop();
	cr_expect_eq(rmdir(directory), 0, "no socket is left");
}

TestSuite(tap_service, .timeout = 60, .init = set_up, .fini = tear_down);

static void step(void)
{
	fake_clock_advance(HR_TAP_STEP_NS);
	hr_lend_service_step(&service);
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		words.seat[seat].obeyed = words.seat[seat].order;
}

static int connect_to(bool greets)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const struct hr_tap_message hello = { .magic = HR_TAP_MAGIC,
					      .kind = HR_TAP_HELLO,
					      .version_least = HR_TAP_VERSION,
					      .version = HR_TAP_VERSION };

	if (connect(fd, (const struct sockaddr *)&sockets.at[0], sizeof sockets.at[0]) != 0) {
		close(fd);
		return -1;
	}
	if (greets)
		cr_assert_eq(hr_scm_send(fd, &hello, sizeof hello, NULL, 0), 0);
	step();
	return fd;
}

/* The messages to a client, as letters, with '.' at the end of the connection. */
static const char *heard(int fd)
{
	static const char letter[] = { [HR_TAP_WELCOME] = 'W',
				       [HR_TAP_REFUSED] = 'R',
				       [HR_TAP_END] = 'E',
				       [HR_TAP_WAIT] = 'w' };
	static char text[16];
	struct hr_tap_message m;
	int fds[HR_TAP_FDS];
	unsigned count, length = 0;
	ssize_t n;

	if (fd < 0)
		return "no socket";
	while ((n = hr_scm_receive(fd, &m, sizeof m, fds, HR_TAP_FDS, &count)) > 0) {
		for (unsigned i = 0; i < count; i++)
			close(fds[i]);
		text[length++] = m.kind < COUNT(letter) && letter[m.kind] ? letter[m.kind] : '?';
		if (m.kind == HR_TAP_END && m.again)
			text[length++] = '+';
	}
	if (n == 0)
		text[length++] = '.';
	text[length] = '\0';
	return text;
}

struct end {
	const char *name;
	bool supervised, repeats;
	enum hr_outcome outcome;
	int error;
	const char *consumer, *silent, *later;
	bool in_hand; /* the tiles of the consumer are not for another one */
};

static void expect_end(const struct end *e)
{
	const unsigned before = service_open_fds();
	struct hr_run *run = &engine.run[0];
	int consumer, silent, later;

	memset(&words, 0, sizeof words);
	engine.tap_tiles[0].may_be_read = false;
	engine.config.pipeline[0].when.kind = e->repeats ? HR_WHEN_EVERY : HR_WHEN_ONCE;
	run->started_ns = 1;
	run->ended_ns = 0;
	run->outcome = HR_RUN_WAITING;
	cr_assert_eq(hr_tap_sockets_open(&sockets, &engine.config, NULL, test_error()), 0);
	cr_assert_eq(hr_lend_service_open(&service, &engine, &sockets, e->supervised, test_error()),
		     0);
	consumer = connect_to(true);
	cr_expect_str_eq(heard(consumer), "W", "%s", e->name);
	silent = connect_to(false);
	run->ended_ns = 2;
	run->outcome = e->outcome;
	run->error = e->error;
	step();
	cr_expect_str_eq(heard(consumer), e->consumer, "%s: %s", e->name, heard(consumer));
	cr_expect_str_eq(heard(silent), e->silent, "%s", e->name);
	cr_expect_eq(engine.tap_tiles[0].may_be_read, e->in_hand, "%s", e->name);
	later = connect_to(true);
	step();
	step();
	cr_expect_str_eq(heard(later), e->later, "%s", e->name);
	hr_lend_service_close(&service);
	hr_lend_service_close(&service); /* a closed service stays closed */
	if (silent >= 0 && !strchr(e->silent, '.'))
		cr_expect_str_eq(heard(silent), ".", "%s: it may connect again", e->name);
	hr_tap_sockets_close(&sockets);
	close(consumer);
	close(silent);
	if (later >= 0)
		close(later);
	cr_expect_eq(service_open_fds(), before, "%s: %u, before %u", e->name, service_open_fds(),
		     before);
}

Test(tap_service, ends)
{
	static const struct end end[] = {
		{ "done", true, false, HR_RUN_DONE, 0, "E.", "R.", "R.", false },
		{ "a final error", true, false, HR_RUN_FAILED, -ENOMEDIUM, "E.", "R.", "R.", true },
		{ "another error", true, false, HR_RUN_FAILED, -ETIMEDOUT, "E+.", "", "w", true },
		{ "alone", false, false, HR_RUN_DONE, 0, "E.", "R.", "no socket", false },
		{ "alone, failed", false, false, HR_RUN_FAILED, -ETIMEDOUT, "E.", "R.", "no socket",
		  true },
		{ "of a schedule", true, true, HR_RUN_DONE, 0, "E+.", "", "w", false },
		{ "interrupted", true, true, HR_RUN_INTERRUPTED, -EINTR, "E.", "", "w", true },
	};

	for (size_t i = 0; i < COUNT(end); i++)
		expect_end(&end[i]);
}

Test(tap_service, a_consumer_without_a_seat_is_refused)
{
	const unsigned before = service_open_fds();
	int consumer[HR_TAP_SEATS], other;

	engine.run[0].started_ns = 1;
	engine.run[0].outcome = HR_RUN_WAITING;
	cr_assert_eq(hr_tap_sockets_open(&sockets, &engine.config, NULL, test_error()), 0);
	cr_assert_eq(hr_lend_service_open(&service, &engine, &sockets, false, test_error()), 0);
	for (size_t i = 0; i < COUNT(consumer); i++) {
		consumer[i] = connect_to(true);
		cr_expect_str_eq(heard(consumer[i]), "W", "consumer %zu", i);
	}
	other = connect_to(true);
	cr_expect_str_eq(heard(other), "R.");
	hr_lend_service_close(&service);
	hr_tap_sockets_close(&sockets);
	for (size_t i = 0; i < COUNT(consumer); i++)
		close(consumer[i]);
	close(other);
	cr_expect_eq(service_open_fds(), before);
}
