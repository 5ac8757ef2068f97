/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/crc_loop.c - the comparison for the crc32c pipeline: one thread that reads an extent
 * of the same image with 1 MiB reads and feeds the CPU's CRC32 instruction with 8 bytes at a time.
 *
 * Usage: crc_loop IMAGE OFFSET BYTES     prints "CRC NANOSECONDS", the CRC in hex
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (1u << 20)

static uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t bytes)
{
	uint64_t state = crc, word;

	for (; bytes >= sizeof word; data += sizeof word, bytes -= sizeof word) {
		memcpy(&word, data, sizeof word);
		state = __builtin_ia32_crc32di(state, word);
	}
	crc = (uint32_t)state;
	while (bytes--)
		crc = __builtin_ia32_crc32qi(crc, *data++);
	return crc;
}

/* The finished checksum of [offset, offset + bytes) of the file; exits when it is not readable. */
static uint32_t checksum(int fd, uint64_t offset, uint64_t bytes)
{
	static uint8_t buffer[READ_BYTES];
	uint32_t crc = UINT32_MAX;

	while (bytes > 0) {
		size_t want = bytes < READ_BYTES ? (size_t)bytes : READ_BYTES;
		ssize_t got = pread(fd, buffer, want, (off_t)offset);

		if (got <= 0) {
			fprintf(stderr, "crc_loop: read: %s\n",
				got ? strerror(errno) : "the file ends too early");
			exit(EXIT_FAILURE);
		}
		crc = crc32c(crc, buffer, (size_t)got);
		offset += (uint64_t)got;
		bytes -= (uint64_t)got;
	}
	return ~crc;
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	uint32_t crc;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: crc_loop IMAGE OFFSET BYTES\n");
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "crc_loop: %s: %s\n", argv[1], strerror(errno));
		return EXIT_FAILURE;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	crc = checksum(fd, strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
	clock_gettime(CLOCK_MONOTONIC, &end);
	close(fd);
	printf("%08x %lld\n", crc,
	       (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec);
	return EXIT_SUCCESS;
}
