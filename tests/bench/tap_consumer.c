/* SPDX-License-Identifier: Apache-2.0 */
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
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/tap_bench.h"

/* ---- modes */

struct copier {
	void *context;
	int (*enter)(void *context);
	int (*copy)(void *to, uint64_t from, size_t bytes);
	int (*stream_create)(void **stream, unsigned flags);
	void *stream;
};

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
	uint64_t *ns = calloc(SAMPLES_MAX, sizeof *ns), began;
	struct hr_tap_tile tile;
	uint32_t count = 0;
	int n;

	if (!ns)
		return 1;
	n = hr_tap_next(tap, &tile, 1, -1);
	while (n == 1) {
		began = now_ns();
		hr_tap_done(tap, &tile);
		/* looks at the memory all the time */
		do
			n = hr_tap_next(tap, &tile, 1, 0);
		while (n == -ETIMEDOUT);
		if (n == 1 && count < SAMPLES_MAX)
			ns[count++] = now_ns() - began;
	}
	print_samples("given back -> next tile", ns, count);
	free(ns);
	return end_of(tap, n);
}

static int drain(struct hr_tap *tap)
{
	uint64_t *ns = calloc(SAMPLES_MAX, sizeof *ns), tiles = 0, bytes = 0, first = 0, at;
	struct hr_tap_tile tile;
	uint32_t count = 0;
	int n;

	while ((n = hr_tap_next(tap, &tile, 1, -1)) == 1) {
		if (!first)
			first = now_ns();
		tiles++;
		bytes += tile.bytes;
		at = now_ns();
		hr_tap_done(tap, &tile);
		/* a tile that is there already: the cost of the calls */
		n = hr_tap_next(tap, &tile, 1, 0);
		if (n != 1)
			continue;
		if (ns && count < SAMPLES_MAX)
			ns[count++] = now_ns() - at;
		tiles++;
		bytes += tile.bytes;
		hr_tap_done(tap, &tile);
	}
	at = now_ns() - first;
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
		began = now_ns();
		tap = attach(name, i + 1 == count ? 0 : 1);
		ns[i] = now_ns() - began;
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
