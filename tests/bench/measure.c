/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/measure.c - runs a command and writes its resource usage to a file.
 *
 * Usage: measure FILE COMMAND [ARGUMENT...]
 * FILE gets one line: wall nanoseconds, user and system microseconds, largest resident set in KiB.
 * Exits like the command (128 + signal when it was killed).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long microseconds(struct timeval t)
{
	return t.tv_sec * 1000000ll + t.tv_usec;
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	struct rusage used;
	pid_t child;
	FILE *out;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: measure FILE COMMAND [ARGUMENT...]\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	child = fork();
	if (child == 0) {
		execvp(argv[2], argv + 2);
		fprintf(stderr, "measure: %s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &used) < 0) {
		perror("measure");
		return EXIT_FAILURE;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	out = fopen(argv[1], "we");
	if (!out ||
	    fprintf(out, "%lld %lld %lld %ld\n",
		    (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec,
		    microseconds(used.ru_utime), microseconds(used.ru_stime), used.ru_maxrss) < 0 ||
	    fclose(out)) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
