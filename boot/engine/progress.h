/*
 * boot/engine/progress.h - a line on the terminal that says how far a run is: bar, rate, time left.
 *
 * On stderr, only when that is a terminal. Never allocates, so it may run while sealed.
 */
#ifndef BOOT_ENGINE_PROGRESS_H
#define BOOT_ENGINE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_progress {
	bool on;
	const char *name;      /* the caller's */
	uint64_t first, total; /* bytes: done at the start; in all */
	uint64_t began_ns, next_ns;
	unsigned columns;
};

/* Start; wanted: unless the user said --quiet. */
void hr_progress_begin(struct hr_progress *p, bool wanted, const char *name, uint64_t first,
		       uint64_t total, uint64_t now_ns);

/* Draw, ten times a second at most. */
void hr_progress_update(struct hr_progress *p, uint64_t done, uint64_t now_ns);

/* Take the line away again. */
void hr_progress_end(struct hr_progress *p);

/* The line, without control characters, at most `columns` wide. Returns its length. */
size_t hr_progress_format(char *line, size_t bytes, const struct hr_progress *p, uint64_t done,
			  uint64_t elapsed_ns);

/* "1.21 GB/s" (powers of 1000), "0:05", "1:02:03". */
void hr_rate_format(char *text, size_t bytes, double bytes_per_s);
void hr_time_format(char *text, size_t bytes, double seconds);

#endif
