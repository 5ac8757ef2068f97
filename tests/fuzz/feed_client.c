/* SPDX-License-Identifier: Apache-2.0 */
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

#include "gpu/tap/client/feed.h"
#include "gpu/tap/protocol.h"
#include "tests/fuzz/server.h"

static struct side side = { HR_FEED_HELLO, HR_FEED_WELCOME, HR_FEED_VERSION };

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
	must(pthread_create(&thread, NULL, serve, &side) == 0);
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
