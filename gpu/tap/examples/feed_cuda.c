/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/examples/feed_cuda.c - a producer on a GPU in C: it copies a file into the tiles of a feed in
 * GPU memory, and commits each tile in the order of a stream, so that it never waits for a copy. Needs
 * headrace/feed.h and -lheadrace-tap; the driver, libcuda.so.1, is loaded.
 *
 * Usage: feed_cuda FEED FILE  exit code 0: the pipeline has taken all of the file, and its output is
 *                             durable; 1: not so; 2: usage; 3: the feed, the file or the GPU is missing
 */
#include <dlfcn.h>
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
#define BUFFERS 4

/* Functions of "CUDA Driver API", without its header: a result is an int, 0 means success. */
static struct {
	int (*init)(unsigned);
	int (*device)(int *, int);
	int (*retain)(void **, int);
	int (*current)(void *);
	int (*pinned)(void **, size_t);
	int (*stream)(void **, unsigned);
	int (*event)(void **, unsigned);
	int (*record)(void *, void *);
	int (*wait)(void *);
	int (*copy)(uint64_t, const void *, size_t, void *);
} cu;

static int load_cuda_calls(void)
{
	static const struct {
		const char *name;
		void *at;
	} function[] = {
		{ "cuInit", &cu.init },
		{ "cuDeviceGet", &cu.device },
		{ "cuDevicePrimaryCtxRetain", &cu.retain },
		{ "cuCtxSetCurrent", &cu.current },
		{ "cuMemAllocHost_v2", &cu.pinned },
		{ "cuStreamCreate", &cu.stream },
		{ "cuEventCreate", &cu.event },
		{ "cuEventRecord", &cu.record },
		{ "cuEventSynchronize", &cu.wait },
		{ "cuMemcpyHtoDAsync_v2", &cu.copy },
	};
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; i < sizeof function / sizeof *function; i++) {
		void *found = driver ? dlsym(driver, function[i].name) : NULL;

		if (!found) {
			fprintf(stderr, "the NVIDIA driver, or its %s, is missing\n",
				function[i].name);
			return -ENODEV;
		}
		memcpy(function[i].at, &found, sizeof found);
	}
	return 0;
}

/* Pinned memory for tiles on their way; an event tells when its copy is done. */
struct buffers {
	void *stream, *data[BUFFERS], *event[BUFFERS];
};

static int allocate_buffers(struct buffers *b, int gpu, size_t bytes)
{
	void *context;
	int device, err = cu.init(0);

	if (!err)
		err = cu.device(&device, gpu);
	if (!err)
		err = cu.retain(&context, device);
	if (!err)
		err = cu.current(context);
	if (!err)
		err = cu.stream(&b->stream, 0);
	for (int i = 0; !err && i < BUFFERS; i++) {
		err = cu.pinned(&b->data[i], bytes);
		if (!err)
			err = cu.event(&b->event[i], 0);
	}
	if (err)
		fprintf(stderr, "the driver fails with error %d\n", err);
	return err ? -EIO : 0;
}

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

/* Read up to `room` bytes: fewer at the end of the file; or -errno. */
static ssize_t read_tile(char *to, size_t room, off_t at, int fd)
{
	size_t count = 0;
	ssize_t n = 1;

	if (lseek(fd, at, SEEK_SET) < 0)
		return -errno;
	while (count < room && n > 0) {
		n = read(fd, to + count, room - count);
		if (n < 0)
			return -errno;
		count += (size_t)n;
	}
	return (ssize_t)count;
}

/* Give the copy and the commit of a tile to the stream. */
static int commit_copy(struct hr_feed *feed, const struct hr_feed_tile *tile,
		       const struct buffers *b, int i, size_t count)
{
	int err = cu.copy((uintptr_t)tile->data, b->data[i], count, b->stream);

	if (!err)
		err = cu.record(b->event[i], b->stream);
	return err ? -EIO : hr_feed_commit_stream(feed, tile, (uint32_t)count, b->stream);
}

/* Fill tiles until the end of the file, or of what the feed takes. The number of bytes, or -1. */
static long long produce(struct hr_feed *feed, struct buffers *b, int fd)
{
	const struct hr_feed_info *info = hr_feed_info(feed);
	struct hr_feed_tile tile;
	long long bytes = 0;
	ssize_t count = 0;
	int i, n, err = 0;

	for (i = 0; (n = hr_feed_next(feed, &tile, 1, -1)) == 1; i = (i + 1) % BUFFERS) {
		err = cu.wait(b->event[i]) ? -EIO : 0;
		if (!err)
			count = read_tile(b->data[i], tile.room,
					  (off_t)(tile.tile * info->tile_bytes), fd);
		if (err || count <= 0)
			break;
		err = commit_copy(feed, &tile, b, i, (size_t)count);
		if (err)
			break;
		bytes += count;
		if ((size_t)count < tile.room)
			break;
	}
	if (count < 0 || err)
		fprintf(stderr, "%s: %s\n",
			err ? "the tile cannot be filled" : "the file cannot be read",
			strerror(err ? -err : (int)-count));
	return n < 0 || count < 0 || err ? -1 : bytes;
}

static int feed_file(struct hr_feed *feed, int fd)
{
	const struct hr_feed_info *info = hr_feed_info(feed);
	struct buffers buffers;
	long long bytes;

	if (info->gpu < 0) {
		fprintf(stderr, "the tiles are in host memory: use feed_c\n");
		return 3;
	}
	if (allocate_buffers(&buffers, info->gpu, info->tile_bytes) != 0)
		return 3;
	bytes = produce(feed, &buffers, fd);
	if (bytes < 0 || hr_feed_end(feed, -1) != 0) {
		fprintf(stderr, "%s\n", hr_feed_reason(feed));
		return 1;
	}
	printf("%lld bytes from tile %llu on, %llu tiles are durable\n", bytes,
	       (unsigned long long)info->first, (unsigned long long)hr_feed_durable(feed));
	return 0;
}

int main(int argc, char **argv)
{
	struct hr_feed *feed;
	int fd, code;

	if (argc != 3) {
		fprintf(stderr, "Usage: feed_cuda FEED FILE\n");
		return 2;
	}
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
		return 3;
	}
	if (load_cuda_calls() != 0)
		return 3;
	feed = attach_feed(argv[1]);
	if (!feed)
		return 3;
	code = feed_file(feed, fd);
	hr_feed_close(feed);
	close(fd);
	return code;
}
