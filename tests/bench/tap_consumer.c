/*
 * tests/bench/tap_consumer.c - figures of a consumer in C, on the host backend or a GPU.
 *
 * Usage: tap_consumer TAP compare FILE   each tile against a file with the same bytes
 *        tap_consumer TAP rounds         one tile at a time: from giving it back to the next one
 *        tap_consumer TAP drain          all tiles, given back at once: time of the calls
 *        tap_consumer TAP attach COUNT   attach and detach; the last one takes all tiles
 *        tap_consumer TAP hold           takes one tile, says so, and waits to be killed
 * Exit code 0; 1: bytes differ, or the pipeline failed; 2: usage; 3: the tap, or the file is missing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gpu/tap/client/tap.h"

#define WAIT_S 60
#define ROUNDS_MAX (1u << 20)

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static struct hr_tap *attach(const char *name, uint32_t credits)
{
	const struct hr_tap_options options = { .credits = credits };
	const struct timespec pause = { .tv_nsec = 1000000 };
	char why[HR_TAP_REASON];
	struct hr_tap *tap;
	int err = hr_tap_open(name, &options, &tap, why, sizeof why);

	for (int i = 0; i < WAIT_S * 1000 && (err == -ENOENT || err == -ECONNREFUSED); i++) {
		nanosleep(&pause, NULL);
		err = hr_tap_open(name, &options, &tap, why, sizeof why);
	}
	if (!err)
		return tap;
	fprintf(stderr, "%s\n", why);
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Print percentiles of the sorted samples. */
static void print_samples(const char *what, uint64_t *ns, uint32_t count)
{
	if (!count)
		return;
	qsort(ns, count, sizeof *ns, by_size);
	printf("%s: p50 %llu ns, p90 %llu, p99 %llu, worst %llu, of %u\n", what,
	       (unsigned long long)ns[count / 2], (unsigned long long)ns[count / 10 * 9],
	       (unsigned long long)ns[(uint64_t)count * 99 / 100],
	       (unsigned long long)ns[count - 1], count);
}

static int end_of(struct hr_tap *tap, int n)
{
	if (n < 0)
		fprintf(stderr, "%s\n", hr_tap_reason(tap));
	return n < 0;
}

/* ---- modes */

struct copier {
	void *context;
	int (*enter)(void *context);
	int (*copy)(void *to, uint64_t from, size_t bytes);
	int (*stream_create)(void **stream, unsigned flags);
	void *stream;
};

static void find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof found);
}

/* Copies out of the GPU's memory, by the driver. */
static int open_copier(struct copier *c, int gpu)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int (*retain)(void **context, int device) = NULL;

	if (!library)
		return -ENODEV;
	find(library, "cuDevicePrimaryCtxRetain", &retain);
	find(library, "cuCtxSetCurrent", &c->enter);
	find(library, "cuMemcpyDtoH_v2", &c->copy);
	find(library, "cuStreamCreate", &c->stream_create);
	if (!retain || !c->enter || !c->copy || !c->stream_create ||
	    retain(&c->context, gpu) != 0 || c->enter(c->context) != 0 ||
	    c->stream_create(&c->stream, 1) != 0)
		return -EIO;
	return 0;
}

/* Whether the tile has the bytes of its place in the file; GPU memory is copied to `copy` first. */
static int is_right(const struct copier *c, const struct hr_tap_tile *tile, int gpu,
		    const uint8_t *data, uint64_t bytes, uint64_t at, uint8_t *copy)
{
	const void *from = tile->data;

	if (at > bytes || tile->bytes > bytes - at)
		return 0;
	if (gpu >= 0) {
		if (c->copy(copy, (uint64_t)(uintptr_t)tile->data, tile->bytes) != 0)
			return 0;
		from = copy;
	}
	return memcmp(from, data + at, tile->bytes) == 0;
}

static int compare_all(struct hr_tap *tap, const uint8_t *data, uint64_t bytes)
{
	const struct hr_tap_info *info = hr_tap_info(tap);
	uint8_t *copy = malloc(info->tile_bytes), *seen = calloc(info->tiles + 1, 1);
	struct copier c = { 0 };
	struct hr_tap_tile tile;
	uint64_t right = 0;
	int n = copy && seen ? 1 : -ENOMEM;

	if (info->gpu >= 0 && open_copier(&c, info->gpu) != 0)
		n = -ENODEV;
	while (n == 1 && (n = hr_tap_next(tap, &tile, 1, -1)) == 1) {
		if (tile.tile >= info->tiles || (seen[tile.tile]++ && !tile.redelivered) ||
		    !is_right(&c, &tile, info->gpu, data, bytes, tile.tile * info->tile_bytes,
			      copy)) {
			fprintf(stderr, "tile %llu is wrong\n", (unsigned long long)tile.tile);
			n = -EBADMSG;
			break;
		}
		right += tile.bytes;
		/* both ways of giving back */
		if (info->gpu >= 0 && tile.tile % 2)
			n = hr_tap_done_stream(tap, &tile, c.stream) ? -EIO : 1;
		else
			hr_tap_done(tap, &tile);
	}
	free(copy);
	free(seen);
	printf("%llu of %llu bytes came and equal the file\n", (unsigned long long)right,
	       (unsigned long long)bytes);
	return n != 0 || right != bytes;
}

static int compare(struct hr_tap *tap, const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	void *data = MAP_FAILED;
	int code = 3;

	if (fd >= 0 && fstat(fd, &status) == 0)
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		perror(path);
	else
		code = compare_all(tap, data, (uint64_t)status.st_size);
	return code;
}

static int rounds(struct hr_tap *tap)
{
	uint64_t *ns = calloc(ROUNDS_MAX, sizeof *ns), began;
	struct hr_tap_tile tile;
	uint32_t count = 0;
	int n;

	if (!ns)
		return 1;
	n = hr_tap_next(tap, &tile, 1, -1);
	while (n == 1) {
		began = now_ns(CLOCK_MONOTONIC);
		hr_tap_done(tap, &tile);
		/* looks at the memory all the time */
		do
			n = hr_tap_next(tap, &tile, 1, 0);
		while (n == -ETIMEDOUT);
		if (n == 1 && count < ROUNDS_MAX)
			ns[count++] = now_ns(CLOCK_MONOTONIC) - began;
	}
	print_samples("given back -> next tile", ns, count);
	free(ns);
	return end_of(tap, n);
}

static int drain(struct hr_tap *tap)
{
	uint64_t *ns = calloc(ROUNDS_MAX, sizeof *ns), tiles = 0, bytes = 0, first = 0, at;
	struct hr_tap_tile tile;
	uint32_t count = 0;
	int n;

	while ((n = hr_tap_next(tap, &tile, 1, -1)) == 1) {
		if (!first)
			first = now_ns(CLOCK_MONOTONIC);
		tiles++;
		bytes += tile.bytes;
		at = now_ns(CLOCK_MONOTONIC);
		hr_tap_done(tap, &tile);
		/* a tile that is there already: the cost of the calls */
		n = hr_tap_next(tap, &tile, 1, 0);
		if (n != 1)
			continue;
		if (ns && count < ROUNDS_MAX)
			ns[count++] = now_ns(CLOCK_MONOTONIC) - at;
		tiles++;
		bytes += tile.bytes;
		hr_tap_done(tap, &tile);
	}
	at = now_ns(CLOCK_MONOTONIC) - first;
	printf("%llu tiles in %.3f s: %.2f GB/s, %.0f tiles/s\n", (unsigned long long)tiles,
	       (double)at / 1e9, (double)bytes / (double)at, (double)tiles * 1e9 / (double)at);
	print_samples("done + next, tile is there", ns, count);
	free(ns);
	return end_of(tap, n);
}

static int attach_often(const char *name, uint32_t count)
{
	uint64_t *ns = calloc(count + 1, sizeof *ns), began;
	struct hr_tap *tap = attach(name, 1);
	struct copier c = { 0 };

	/* a process that works on the GPU has a context of its own */
	if (tap && hr_tap_info(tap)->gpu >= 0)
		open_copier(&c, hr_tap_info(tap)->gpu);

	for (uint32_t i = 0; ns && tap && i < count; i++) {
		hr_tap_close(tap);
		began = now_ns(CLOCK_MONOTONIC);
		tap = attach(name, i + 1 == count ? 0 : 1);
		ns[i] = now_ns(CLOCK_MONOTONIC) - began;
	}
	if (ns && tap)
		print_samples("attach", ns, count);
	free(ns);
	return tap ? drain(tap) : 3;
}

static int hold(struct hr_tap *tap)
{
	struct hr_tap_tile tile;

	if (hr_tap_next(tap, &tile, 1, -1) != 1)
		return 1;
	printf("holds tile %llu\n", (unsigned long long)tile.tile);
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const char *mode = argc >= 3 ? argv[2] : "";
	struct hr_tap *tap;

	if (argc == 4 && strcmp(mode, "attach") == 0)
		return attach_often(argv[1], (uint32_t)atoi(argv[3]));
	if (!(argc == 3 &&
	      (!strcmp(mode, "rounds") || !strcmp(mode, "drain") || !strcmp(mode, "hold"))) &&
	    !(argc == 4 && !strcmp(mode, "compare"))) {
		fprintf(stderr, "Usage: tap_consumer TAP compare FILE | rounds | drain | "
				"attach COUNT | hold\n");
		return 2;
	}
	tap = attach(argv[1], strcmp(mode, "rounds") == 0 ? 1 : 0);
	if (!tap)
		return 3;
	return strcmp(mode, "compare") == 0  ? compare(tap, argv[3])
	       : strcmp(mode, "rounds") == 0 ? rounds(tap)
	       : strcmp(mode, "hold") == 0   ? hold(tap)
					     : drain(tap);
}
