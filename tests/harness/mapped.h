/* SPDX-License-Identifier: Apache-2.0 */
/* tests/harness/mapped.h - whether an address can be read, and is part of core dumps. */
#ifndef TESTS_HARNESS_MAPPED_H
#define TESTS_HARNESS_MAPPED_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The kernel refuses an address without memory, or without access, as the source of a write. */
static inline bool is_mapped(const void *at)
{
	int fds[2];
	ssize_t n;

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	n = write(fds[1], at, 1);
	close(fds[0]);
	close(fds[1]);
	return n == 1;
}

/* As the kernel says: the flag "dd" of the mapping that has this address. */
static inline bool is_dumped(const void *at)
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	bool is_here = false, dumped = true;
	char line[4096];

	cr_assert_not_null(maps);
	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			is_here = from <= (uintptr_t)at && (uintptr_t)at < to;
		else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
			dumped = !strstr(line, " dd");
	}
	fclose(maps);
	return dumped;
}

#endif
