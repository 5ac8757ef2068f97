/* tests/harness/mapped.h - whether an address can be read. */
#ifndef TESTS_HARNESS_MAPPED_H
#define TESTS_HARNESS_MAPPED_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdbool.h>
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

#endif
