/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/base/clock.h"

#define STEP_NS (100 * HR_NS_PER_MS)
#define COLUMNS_DEFAULT 80u
#define COLUMNS_MAX 160u
#define BAR_MAX 40u

void hr_rate_format(char *text, size_t bytes, double bytes_per_s)
{
	static const char *const unit[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s" };
	unsigned i = 0;

	for (; i < 4 && bytes_per_s >= 999.5; i++)
		bytes_per_s /= 1000;
	snprintf(text, bytes, bytes_per_s < 9.995 && i ? "%.2f %s" : "%.0f %s", bytes_per_s,
		 unit[i]);
}

void hr_time_format(char *text, size_t bytes, double seconds)
{
	unsigned long s;

	if (!isfinite(seconds) || seconds > 359999) {
		snprintf(text, bytes, "--:--");
		return;
	}
	s = (unsigned long)(seconds + 0.5);
	if (s >= 3600)
		snprintf(text, bytes, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(text, bytes, "%lu:%02lu", s / 60, s % 60);
}

/* A line that wraps cannot be erased. Returns the length to print. */
static size_t fit(const struct hr_progress *p, int length, size_t bytes)
{
	if (length < 0)
		return 0;
	if ((unsigned)length >= p->columns && p->columns)
		length = (int)p->columns - 1;
	return (size_t)length < bytes ? (size_t)length : bytes - 1;
}

size_t hr_progress_format(char *line, size_t bytes, const struct hr_progress *p, uint64_t done,
			  uint64_t elapsed_ns)
{
	double share = p->total ? (double)done / (double)p->total : 1;
	double rate = elapsed_ns ? (double)(done - p->first) / ((double)elapsed_ns / 1e9) : 0;
	char rate_text[24], time_text[24], bar[BAR_MAX + 1], tail[96];
	unsigned room, width;
	int length;

	hr_rate_format(rate_text, sizeof rate_text, rate);
	if (p->page_bytes)
		return fit(p,
			   snprintf(line, bytes, "%s  %llu pages read  %s", p->name,
				    (unsigned long long)(done / p->page_bytes), rate_text),
			   bytes);
	hr_time_format(time_text, sizeof time_text,
		       rate > 0 ? (double)(p->total - done) / rate : INFINITY);
	snprintf(tail, sizeof tail, "%3.0f%%  %s  ETA %s", floor(share * 100), rate_text,
		 time_text);
	room = p->columns > strlen(p->name) + strlen(tail) + 6
		       ? p->columns - (unsigned)(strlen(p->name) + strlen(tail) + 6)
		       : 0;
	width = room < BAR_MAX ? room : BAR_MAX;
	memset(bar, '-', sizeof bar);
	memset(bar, '#', (size_t)(share * width));
	bar[width] = '\0';
	length = width >= 4 ? snprintf(line, bytes, "%s [%s] %s", p->name, bar, tail)
			    : snprintf(line, bytes, "%s", tail);
	return fit(p, length, bytes);
}

static unsigned terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return COLUMNS_DEFAULT;
	return size.ws_col < COLUMNS_MAX ? size.ws_col : COLUMNS_MAX;
}

/* A write error on the terminal must not end the run. */
static void write_terminal(const char *text, size_t length)
{
	if (write(STDERR_FILENO, text, length) < 0)
		return;
}

void hr_progress_begin(struct hr_progress *p, bool wanted, const char *name, uint64_t first,
		       uint64_t total, uint64_t now_ns)
{
	p->on = wanted && isatty(STDERR_FILENO);
	p->name = name;
	p->first = first;
	p->total = total;
	p->began_ns = now_ns;
	p->next_ns = now_ns + STEP_NS;
	p->columns = p->on ? terminal_columns() : COLUMNS_DEFAULT;
}

void hr_progress_update(struct hr_progress *p, uint64_t done, uint64_t now_ns)
{
	char line[COLUMNS_MAX + 96] = "\r\033[K";
	size_t head = strlen(line);

	if (!p->on || now_ns < p->next_ns)
		return;
	p->next_ns = now_ns + STEP_NS;
	p->columns = terminal_columns(); /* the terminal may have been resized */
	if (done > p->total && !p->page_bytes)
		done = p->total;
	if (done < p->first)
		done = p->first;
	head += hr_progress_format(line + head, sizeof line - head, p, done, now_ns - p->began_ns);
	write_terminal(line, head);
}

void hr_progress_end(struct hr_progress *p)
{
	static const char clear[] = "\r\033[K";

	if (p->on)
		write_terminal(clear, sizeof clear - 1);
	p->on = false;
}
