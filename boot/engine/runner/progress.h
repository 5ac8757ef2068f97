/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/runner/progress.h - a progress line on the terminal: bar, rate, time left.
 *
 * On stderr, and only when stderr is a terminal. Never allocates, so it may run while sealed.
 */
#ifndef BOOT_ENGINE_RUNNER_PROGRESS_H
#define BOOT_ENGINE_RUNNER_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_progress {
	bool on;
	const char *name;      /* owned by the caller */
	uint64_t first, total; /* bytes: done at the start; total */
	/* of a run that reads pages as its operator wants them: no total is known, so the line has
	 * the number of pages in place of bar, share and time left; 0: bytes of a known total */
	uint32_t page_bytes;
	uint64_t began_ns, next_ns;
	unsigned columns;
};

/* Start; wanted is false with --quiet. The owner has set page_bytes. */
void hr_progress_begin(struct hr_progress *p, bool wanted, const char *name, uint64_t first,
		       uint64_t total, uint64_t now_ns);

/* Draw the line, at most ten times a second. */
void hr_progress_update(struct hr_progress *p, uint64_t done, uint64_t now_ns);

/* Erase the line. */
void hr_progress_end(struct hr_progress *p);

/* The line, without control characters, at most `columns` wide. Returns its length. */
size_t hr_progress_format(char *line, size_t bytes, const struct hr_progress *p, uint64_t done,
			  uint64_t elapsed_ns);

/* "1.21 GB/s" (powers of 1000), "0:05", "1:02:03". */
void hr_rate_format(char *text, size_t bytes, double bytes_per_s);
void hr_time_format(char *text, size_t bytes, double seconds);

#endif
