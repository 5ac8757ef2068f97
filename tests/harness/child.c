/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/child.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int child_run(void (*body)(void), char *text, size_t capacity)
{
	int fd[2], status = 0;
	size_t at = 0;
	ssize_t n;
	pid_t child;

	memset(text, 0, capacity);
	cr_assert_eq(pipe(fd), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		body();
		_exit(99);
	}
	close(fd[1]);
	while (at < capacity - 1 && (n = read(fd[0], text + at, capacity - 1 - at)) > 0)
		at += (size_t)n;
	close(fd[0]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
