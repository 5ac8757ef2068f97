/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/examples/feed_c.c - a producer in C: it reads a file into the tiles of a feed, and ends the
 * feed. Needs headrace/feed.h and -lheadrace-tap only.
 *
 * Usage: feed_c FEED FILE     exit code 0: the pipeline has taken all of the file, and its output is
 *                             durable; 1: not so; 2: usage; 3: the feed or the file is missing
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "gpu/tap/client/feed.h"

#define WAIT_S 120

/* Attach as soon as the pipeline has opened its feed. */
static struct hr_feed *attach_feed(const char *name)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	char why[HR_FEED_REASON];
	struct hr_feed *feed;
	int err = hr_feed_open(name, NULL, &feed, why, sizeof why);

	for (int i = 0; i < WAIT_S * 100 && (err == -ENOENT || err == -ECONNREFUSED); i++) {
		nanosleep(&pause, NULL);
		err = hr_feed_open(name, NULL, &feed, why, sizeof why);
	}
	if (!err)
		return feed;
	fprintf(stderr, "%s\n", why);
	return NULL;
}

/* Read the bytes of a tile from their place in the file. Their number: fewer at the end of the file;
 * or -errno. */
static ssize_t read_feed_tile(const struct hr_feed_tile *tile, off_t at, int fd)
{
	size_t count = 0;
	ssize_t n = 1;

	if (lseek(fd, at, SEEK_SET) < 0)
		return -errno;
	while (count < tile->room && n > 0) {
		n = read(fd, (char *)tile->data + count, tile->room - count);
		if (n < 0)
			return -errno;
		count += (size_t)n;
	}
	return (ssize_t)count;
}

/* Fill tiles until the end of the file, or of what the feed takes. The number of bytes, or -1. */
static long long produce(struct hr_feed *feed, int fd)
{
	const struct hr_feed_info *info = hr_feed_info(feed);
	struct hr_feed_tile tile;
	long long bytes = 0;
	ssize_t count = 0;
	int n;

	while ((n = hr_feed_next(feed, &tile, 1, -1)) == 1) {
		count = read_feed_tile(&tile, (off_t)(tile.tile * info->tile_bytes), fd);
		if (count <= 0)
			break;
		if (hr_feed_commit(feed, &tile, (uint32_t)count) != 0)
			return -1;
		bytes += count;
		if ((size_t)count < tile.room)
			break;
	}
	if (count < 0)
		fprintf(stderr, "the file cannot be read: %s\n", strerror((int)-count));
	return n < 0 || count < 0 ? -1 : bytes;
}

int main(int argc, char **argv)
{
	struct hr_feed *feed;
	long long bytes;
	int fd, code = 1;

	if (argc != 3) {
		fprintf(stderr, "Usage: feed_c FEED FILE\n");
		return 2;
	}
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
		return 3;
	}
	feed = attach_feed(argv[1]);
	if (!feed)
		return 3;
	bytes = produce(feed, fd);
	if (bytes >= 0 && hr_feed_end(feed, -1) == 0) {
		printf("%lld bytes from tile %llu on, %llu tiles are durable\n", bytes,
		       (unsigned long long)hr_feed_info(feed)->first,
		       (unsigned long long)hr_feed_durable(feed));
		code = 0;
	} else {
		fprintf(stderr, "%s\n", hr_feed_reason(feed));
	}
	hr_feed_close(feed);
	close(fd);
	return code;
}
