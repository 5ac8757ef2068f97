/* tests/harness/archive.h - tar archives in memory. */
#ifndef TESTS_HARNESS_ARCHIVE_H
#define TESTS_HARNESS_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

struct fake_member {
	const char *path, *text, *link; /* text or bytes, or the target of a symbolic link */
	const uint8_t *bytes;
	size_t size;
	char type; /* of a header that extends the next one: 'x' (pax), 'L', 'K' (GNU); 0: of a file */
};

/* POSIX ustar; paths get "./" in front, as tar . does. The caller frees. */
char *fake_archive(const struct fake_member *list, size_t count, size_t *size);

#endif
