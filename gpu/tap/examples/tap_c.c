/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/examples/tap_c.c - a consumer in C: it compares each tile of a tap with a file that has the
 * same bytes. Needs headrace/tap.h and -lheadrace-tap only.
 *
 * Usage: tap_c TAP FILE     exit code 0: each byte of the file came once, and the run has succeeded;
 *                           1: not so; 2: usage; 3: the tap or the file is missing
 */
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

#define WAIT_S 120
#define TILES 4 /* taken by one call, when so many are there */

struct file {
	const unsigned char *data;
	uint64_t bytes;
};

/* The file, mapped until the program ends. 0 or -errno. */
static int open_file(const char *path, struct file *file)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	void *data = MAP_FAILED;
	int err;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0)
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	err = data == MAP_FAILED ? -errno : 0;
	close(fd);
	if (err)
		return err;
	file->data = data;
	file->bytes = (uint64_t)status.st_size;
	return 0;
}

/* Attach as soon as the pipeline has opened its tap. */
static struct hr_tap *attach_tap(const char *name)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	char why[HR_TAP_REASON];
	struct hr_tap *tap;
	int err = hr_tap_open(name, NULL, &tap, why, sizeof why);

	for (int i = 0; i < WAIT_S * 100 && (err == -ENOENT || err == -ECONNREFUSED); i++) {
		nanosleep(&pause, NULL);
		err = hr_tap_open(name, NULL, &tap, why, sizeof why);
	}
	if (!err)
		return tap;
	fprintf(stderr, "%s\n", why);
	return NULL;
}

/* Whether the tile has the bytes of its place in the file; says where it differs. */
static int is_right(const struct hr_tap_tile *tile, uint64_t offset, const struct file *file)
{
	const unsigned char *data = tile->data;
	uint32_t i = 0;

	if (offset > file->bytes || tile->bytes > file->bytes - offset) {
		fprintf(stderr, "tile %llu ends behind the end of the file\n",
			(unsigned long long)tile->tile);
		return 0;
	}
	if (memcmp(data, file->data + offset, tile->bytes) == 0)
		return 1;
	while (data[i] == file->data[offset + i])
		i++;
	offset += i;
	fprintf(stderr, "tile %llu differs from the file at byte %llu\n",
		(unsigned long long)tile->tile, (unsigned long long)offset);
	return 0;
}

/* Take all tiles, and give each back after its check. seen: a byte for each tile of the run. The
 * bytes that came, or 0 after a mistake. */
static uint64_t consume(struct hr_tap *tap, const struct file *file, unsigned char *seen)
{
	const struct hr_tap_info *info = hr_tap_info(tap);
	struct hr_tap_tile tile[TILES];
	uint64_t bytes = 0;
	int n;

	while ((n = hr_tap_next(tap, tile, TILES, -1)) > 0) {
		for (int i = 0; i < n; i++) {
			if (tile[i].tile >= info->tiles || seen[tile[i].tile]++) {
				fprintf(stderr, "tile %llu came twice, or does not exist\n",
					(unsigned long long)tile[i].tile);
				return 0;
			}
			if (!is_right(&tile[i], tile[i].tile * info->tile_bytes, file))
				return 0;
			bytes += tile[i].bytes;
			hr_tap_done(tap, &tile[i]);
		}
	}
	if (n < 0) {
		fprintf(stderr, "%s\n", hr_tap_reason(tap));
		return 0;
	}
	return bytes;
}

static int compare_file(struct hr_tap *tap, const struct file *file)
{
	const uint64_t tiles = hr_tap_info(tap)->tiles;
	unsigned char *seen = calloc(tiles ? tiles : 1, 1);
	uint64_t bytes;

	if (!seen) {
		fprintf(stderr, "out of memory\n");
		return 1;
	}
	bytes = consume(tap, file, seen);
	free(seen);
	if (bytes != file->bytes) {
		fprintf(stderr, "%llu bytes came and are right, expected %llu\n",
			(unsigned long long)bytes, (unsigned long long)file->bytes);
		return 1;
	}
	printf("%llu tiles, %llu bytes: all equal the file\n", (unsigned long long)tiles,
	       (unsigned long long)bytes);
	return 0;
}

int main(int argc, char **argv)
{
	struct file file = { 0 };
	struct hr_tap *tap;
	int code;

	if (argc != 3) {
		fprintf(stderr, "Usage: tap_c TAP FILE\n");
		return 2;
	}
	code = open_file(argv[2], &file);
	if (code) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(-code));
		return 3;
	}
	tap = attach_tap(argv[1]);
	if (!tap)
		return 3;
	code = compare_file(tap, &file);
	hr_tap_close(tap);
	return code;
}
