#include "tests/fakes/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#define LEVELS (HR_LOG_DEBUG + 1)

/* Threads of a soft controller log, too. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[LEVELS][HR_LOG_LINE_MAX];
static unsigned count[LEVELS];
static enum hr_log_level newest;

void hr_log_set_level(enum hr_log_level level)
{
}

void hr_log(enum hr_log_level level, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&lock);
	va_start(args, format);
	vsnprintf(last[level], sizeof(last[level]), format, args);
	va_end(args);
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
