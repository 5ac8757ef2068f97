/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/seam.h"

#define LEVELS (HR_LOG_DEBUG + 1)

/* Threads of a soft controller log, too. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[LEVELS][HR_LOG_LINE_MAX];
static unsigned count[LEVELS];
static enum hr_log_level newest;
static bool keeping; /* false: lines are printed */

void fake_log_keep(void)
{
	hr_log_set_level(HR_LOG_DEBUG);
	keeping = true;
}

/* The level of a line, from its prefix; *message: the text after that. */
static enum hr_log_level level_of(const char *line, size_t bytes, const char **message)
{
	static const struct {
		enum hr_log_level level;
		const char *prefix;
	} row[] = { { HR_LOG_ERROR, "headrace: error: " },
		    { HR_LOG_WARN, "headrace: warning: " },
		    { HR_LOG_DEBUG, "headrace: debug: " },
		    { HR_LOG_INFO, "headrace: " } };
	const char *at = memmem(line, bytes, "headrace: ", strlen("headrace: "));

	*message = line;
	for (size_t i = 0; at && i < sizeof row / sizeof *row; i++) {
		const size_t length = strlen(row[i].prefix);

		if ((size_t)(line + bytes - at) < length || memcmp(at, row[i].prefix, length) != 0)
			continue;
		*message = at + length;
		return row[i].level;
	}
	return HR_LOG_INFO;
}

void hr_write_message(const char *line, size_t bytes)
{
	const char *message;
	enum hr_log_level level;

	if (!keeping && write(STDERR_FILENO, line, bytes) < 0)
		return;
	if (!keeping)
		return;
	level = level_of(line, bytes, &message);
	pthread_mutex_lock(&lock);
	snprintf(last[level], sizeof last[level], "%.*s", (int)(line + bytes - 1 - message),
		 message);
	count[level]++;
	newest = level;
	pthread_mutex_unlock(&lock);
}

/* A copy for this thread, valid until its next call with this level. */
static const char *copy_of(enum hr_log_level level)
{
	static _Thread_local char copy[LEVELS][HR_LOG_LINE_MAX];

	snprintf(copy[level], sizeof copy[level], "%s", last[level]);
	return copy[level];
}

const char *fake_log_last(void)
{
	const char *text;

	pthread_mutex_lock(&lock);
	text = copy_of(newest);
	pthread_mutex_unlock(&lock);
	return text;
}

unsigned fake_log_count(void)
{
	unsigned all = 0;

	pthread_mutex_lock(&lock);
	for (unsigned level = 0; level < LEVELS; level++)
		all += count[level];
	pthread_mutex_unlock(&lock);
	return all;
}

const char *fake_log_last_of(enum hr_log_level level)
{
	const char *text;

	pthread_mutex_lock(&lock);
	text = copy_of(level);
	pthread_mutex_unlock(&lock);
	return text;
}

unsigned fake_log_count_of(enum hr_log_level level)
{
	unsigned found;

	pthread_mutex_lock(&lock);
	found = count[level];
	pthread_mutex_unlock(&lock);
	return found;
}
