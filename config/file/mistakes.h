/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/file/mistakes.h - mistakes in a configuration: collected while it is read, reported together.
 */
#ifndef CONFIG_FILE_MISTAKES_H
#define CONFIG_FILE_MISTAKES_H

#include <stdint.h>

#include "config/base/error.h"

#define HR_MISTAKE_BYTES 400u /* one text, with its NUL; longer texts end in "..." */
/* Stored mistakes, more than fit into an error; further ones are only counted. */
#define HR_MISTAKES_MAX 100u

struct hr_mistake {
	unsigned line; /* 0: the mistake belongs to no line */
	char text[HR_MISTAKE_BYTES];
};

struct hr_mistakes {
	const char *file; /* the caller's */
	uint32_t count;	  /* mistakes found; can exceed HR_MISTAKES_MAX */
	uint32_t
		failed; /* those that a shortage of this moment caused: the user has made no mistake */
	struct hr_mistake list[HR_MISTAKES_MAX];
};

void hr_mistake(struct hr_mistakes *m, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Sort by line (mistakes of one line keep their order) and add one line for each to e:
 * "FILE:LINE: TEXT", or "FILE: TEXT" without a line. The kind is HR_ERROR_USAGE;
 * HR_ERROR_FAILED when all have `failed`.
 */
void hr_mistakes_report(struct hr_mistakes *m, struct hr_error *e);

#endif
