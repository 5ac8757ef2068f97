/* SPDX-License-Identifier: Apache-2.0 */
/* tests/harness/archive.h - tar archives in memory. */
#ifndef TESTS_HARNESS_ARCHIVE_H
#define TESTS_HARNESS_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

struct fake_member {
	/* Content as text or bytes, or the target of a symbolic link. */
	const char *path, *text, *link;
	const uint8_t *bytes;
	size_t size;
	/* Type of a header that extends the next one: 'x' (pax), 'L', 'K' (GNU); 0: a file. */
	char type;
};

/* A POSIX ustar archive; paths begin with "./", as with `tar .`. The caller frees it. */
char *fake_archive(const struct fake_member *list, size_t count, size_t *size);

#endif
