/*
 * tests/fuzz/feed_client.c - the client library of feeds against an arbitrary other side of its
 * socket.
 *
 * The input changes bytes of a WELCOME that is valid, then bytes of the entries of a valid ring,
 * and says how many descriptors come, how large the memory is, and which messages follow. Whatever
 * the other side sends: tiles lie in memory that is mapped and can be written, a commit goes to the
 * page, and no descriptor is left.
 */
#include <errno.h>
#include <pthread.h>

#include "boot/engine/pass.h"
#include "gpu/tap/client/feed.h"
#include "gpu/tap/feed_protocol.h"
#include "tests/fuzz/server.h"

#define SLOTS 4u
#define RING 4u
#define PAGE 4096u

/* ---- the other side */

static void send_welcome(int fd, struct input *in)
{
	struct hr_tap_message m = { .magic = HR_TAP_MAGIC, .kind = HR_FEED_WELCOME, .credits = 2 };
	struct {
		struct hr_feed_head head;
		struct hr_tap_entry entry[RING];
	} ring = { .head = { .magic = HR_TAP_MAGIC, .state = HR_TAP_RUNS } };
	const uint8_t how = take(in);
	int fds[HR_TAP_FDS];

	m.version_least = m.version = HR_FEED_VERSION;
	m.slots = SLOTS;
	m.ring = RING;
	m.tiles = SLOTS;
	m.stride = m.tile_bytes = PAGE;
	for (uint32_t i = 0; i < RING; i++)
		ring.entry[i] = (struct hr_tap_entry){
			.tile = i, .slot = i, .gen = 1, .bytes = PAGE, .sequence = i + 1
		};
	change(in, &m, sizeof m);
	change(in, &ring, sizeof ring);
	fds[0] = memory(how & 4 ? PAGE : SLOTS * PAGE, "tile", 4);
	fds[1] = memory(how & 8 ? 64 : PAGE, &ring, how & 8 ? 64 : sizeof ring);
	fds[2] = memory(how & 16 ? 0 : PAGE, "", 0);
	hr_pass_send(fd, &m, how & 32 ? sizeof m / 2 : sizeof m, fds, HR_TAP_FDS - how % 4);
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		close(fds[i]);
}

static void *serve(void *context)
{
	struct input *in = &server.in;
	const int fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
	struct hr_tap_message m = { 0 };

	must(fd >= 0 && recv(fd, &m, sizeof m, 0) == sizeof m);
	must(m.magic == HR_TAP_MAGIC && m.kind == HR_FEED_HELLO);
	send_welcome(fd, in);
	if (recv(fd, &m, sizeof m, 0) == sizeof m) {
		must(m.kind == HR_TAP_READY);
		m.kind = HR_TAP_END;
		change(in, &m, sizeof m);
		hr_pass_send(fd, &m, in->left % 3 ? sizeof m : 1 + in->left % 200, NULL, 0);
	}
	close(fd);
	return context;
}

/* ---- the producer */

static void fill(const struct hr_feed_tile *tile)
{
	if (!tile->room)
		return;
	((volatile uint8_t *)tile->data)[0] = 1;
	((volatile uint8_t *)tile->data)[tile->room - 1] = 1;
}

static void produce(struct hr_feed *feed)
{
	const struct hr_feed_info *info = hr_feed_info(feed);
	struct hr_feed_tile tile[3];
	int n, err;

	must(strnlen(info->dtype, 8) < 8 && strnlen(info->pipeline, 64) < 64);
	while ((n = hr_feed_next(feed, tile, 3, -1)) > 0) {
		for (int i = 0; i < n; i++) {
			fill(&tile[i]);
			err = hr_feed_commit(feed, &tile[i], tile[i].room);
			must(!err || err == -EINVAL); /* no bytes, or two entries of a slot */
			must(hr_feed_commit(feed, &tile[i], tile[i].room) == -EINVAL);
		}
	}
	err = hr_feed_end(feed, -1);
	must(err == 0 || err == -EPIPE);
	must(strlen(hr_feed_reason(feed)) < HR_FEED_REASON && hr_feed_code(feed) >= -1);
	hr_feed_durable(feed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct hr_feed_options options = { 0 };
	struct hr_feed *feed;
	char why[HR_FEED_REASON] = "";
	unsigned before;
	pthread_t thread;

	if (!server.fd)
		set_up("f.feed");
	before = descriptors();
	options.directory = server.directory;
	server.in = (struct input){ data, bytes };
	must(pthread_create(&thread, NULL, serve, NULL) == 0);
	if (hr_feed_open("f", &options, &feed, why, sizeof why) == 0) {
		produce(feed);
		hr_feed_close(feed);
	} else {
		must(*why);
	}
	must(pthread_join(thread, NULL) == 0);
	hang_up_rest();
	must(descriptors() == before);
	return 0;
}
