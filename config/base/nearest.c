#include "config/base/nearest.h"

#include <string.h>

#define WORD_MAX 32u
#define EDITS_MAX 2u

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Optimal string alignment distance, computed with three rows of the table. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned row[3][WORD_MAX + 1];
	unsigned *before = row[0], *last = row[1], *now = row[2];

	for (size_t j = 0; j <= nb; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *spare = before;

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned same = a[i - 1] == b[j - 1] ? 0 : 1;

			now[j] = least(last[j] + 1, now[j - 1] + 1, last[j - 1] + same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[nb];
}

const char *hr_nearest(const char *word, const char *const *known, size_t count)
{
	size_t length = strlen(word);
	const char *best = NULL;
	unsigned best_edits = EDITS_MAX + 1;

	if (length == 0 || length > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t known_length = strlen(known[i]);
		unsigned edits;

		if (known_length > WORD_MAX)
			continue;
		edits = distance(word, length, known[i], known_length);
		/*
		 * Two edits turn any word of two letters into any other, so short words get no
		 * suggestion.
		 */
		if (edits < best_edits && edits < known_length && edits < length) {
			best_edits = edits;
			best = known[i];
		}
	}
	for (size_t i = 0; !best && i < count; i++)
		if (length >= 2 && strncmp(word, known[i], length) == 0)
			best = known[i];
	return best;
}
