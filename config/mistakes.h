/*
 * config/mistakes.h - what is wrong with a configuration, collected while it is read, told at once.
 */
#ifndef CONFIG_MISTAKES_H
#define CONFIG_MISTAKES_H

#include <stdint.h>

#define HR_MISTAKE_BYTES 400u /* of one text; longer ones are cut */
#define HR_MISTAKES_MAX 200u  /* kept; more are counted only */

struct hr_mistake {
	unsigned line; /* 0: not about a line */
	char text[HR_MISTAKE_BYTES];
};

struct hr_mistakes {
	const char *file; /* the caller's */
	uint32_t count;	  /* may pass HR_MISTAKES_MAX */
	struct hr_mistake list[HR_MISTAKES_MAX];
};

void hr_mistake(struct hr_mistakes *m, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Sort by line (equal lines stay in the order found) and call report once for each:
 * "FILE:LINE: TEXT", or "FILE: TEXT". Control bytes become '?'. */
void hr_mistakes_report(struct hr_mistakes *m, void (*report)(void *to, const char *line),
			void *to);

#endif
