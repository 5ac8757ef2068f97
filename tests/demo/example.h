/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/demo/example.h - functions of all programs of the examples: chase.c, gather.c, join.c, bfs.c of
 * this folder. Each makes the data of its example, checks the result of `headrace run`, and does the
 * same work in the usual way: threads of the CPU that call pread().
 */
#ifndef TESTS_DEMO_EXAMPLE_H
#define TESTS_DEMO_EXAMPLE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXAMPLE_THREADS_MAX 256u

/* End the program: the file, and the reason from errno. */
static inline void example_die(const char *path)
{
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	exit(1);
}

/* A whole number, decimal. */
static inline uint64_t example_number(const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || *end || errno || *text == '-') {
		fprintf(stderr, "expected a whole number: %s\n", text);
		exit(2);
	}
	return value;
}

static inline const char *example_path(const char *dir, const char *name)
{
	static char path[4096];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static inline void *example_memory(uint64_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	if (!memory)
		example_die("memory");
	return memory;
}

/* Write a whole file DIR/NAME. */
static inline void example_save(const char *dir, const char *name, const void *data, uint64_t bytes)
{
	const char *path = example_path(dir, name);
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f))
		example_die(path);
}

/* The file DIR/NAME for pread(), and its length. */
static inline int example_open(const char *dir, const char *name, uint64_t *bytes)
{
	const char *path = example_path(dir, name);
	struct stat status;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &status))
		example_die(path);
	*bytes = (uint64_t)status.st_size;
	return fd;
}

/* pread() of all bytes; the file has them. */
static inline void example_read(int fd, void *to, uint64_t bytes, uint64_t at)
{
	uint64_t done = 0;

	while (done < bytes) {
		const ssize_t some = pread(fd, (char *)to + done, bytes - done, (off_t)(at + done));

		if (some <= 0) {
			errno = some ? errno : EIO;
			example_die("pread");
		}
		done += (uint64_t)some;
	}
}

/* A whole file DIR/NAME; the caller frees it. */
static inline void *example_load(const char *dir, const char *name, uint64_t *bytes)
{
	const int fd = example_open(dir, name, bytes);
	void *data = example_memory(*bytes, 1);

	example_read(fd, data, *bytes, 0);
	close(fd);
	return data;
}

/* Compare a value of the result, a line "    NAME VALUE" in the output of `headrace run`. */
static inline bool example_same(const char *output, const char *name, uint64_t want)
{
	FILE *f = fopen(output, "r");
	char line[512], word[64], value[128], text[32];
	bool found = false, same = false;

	if (!f)
		example_die(output);
	snprintf(text, sizeof text, "%llu", (unsigned long long)want);
	while (!found && fgets(line, sizeof line, f)) {
		found = sscanf(line, " %63s %127s", word, value) == 2 && strcmp(word, name) == 0;
		same = found && strcmp(value, text) == 0;
	}
	fclose(f);
	if (!same)
		fprintf(stderr, "%s: %s is %s, expected %s\n", output, name,
			found ? value : "missing", text);
	return same;
}

static inline uint64_t example_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Run body(i) in `count` threads, and print how long they took: "run_ns N". */
static inline void example_threads(void *(*body)(void *i), uint32_t count)
{
	static pthread_t thread[EXAMPLE_THREADS_MAX];
	const uint64_t start = example_now_ns();

	for (uint32_t i = 0; i < count; i++) {
		errno = pthread_create(&thread[i], NULL, body, (void *)(uintptr_t)i);
		if (errno)
			example_die("pthread_create");
	}
	for (uint32_t i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
	printf("    run_ns %llu\n", (unsigned long long)(example_now_ns() - start));
}

/* Number of threads on the command line. */
static inline uint32_t example_thread_count(const char *text)
{
	const uint64_t count = example_number(text);

	if (count < 1 || count > EXAMPLE_THREADS_MAX) {
		fprintf(stderr, "expected 1 to %u threads: %s\n", EXAMPLE_THREADS_MAX, text);
		exit(2);
	}
	return (uint32_t)count;
}

#endif
