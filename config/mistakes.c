#include "config/mistakes.h"

#include <stdarg.h>
#include <stdio.h>

void hr_mistake(struct hr_mistakes *m, unsigned line, const char *format, ...)
{
	struct hr_mistake *mistake;
	va_list args;

	if (m->count++ >= HR_MISTAKES_MAX)
		return;
	mistake = &m->list[m->count - 1];
	mistake->line = line;
	va_start(args, format);
	vsnprintf(mistake->text, sizeof mistake->text, format, args);
	va_end(args);
}

/* Insertion sort: stable, and there are few. */
static void sort(struct hr_mistake *list, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		struct hr_mistake moved = list[i];
		uint32_t at = i;

		for (; at > 0 && list[at - 1].line > moved.line; at--)
			list[at] = list[at - 1];
		list[at] = moved;
	}
}

/* The text quotes the file, which may hold anything: nothing of it may steer a terminal. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

void hr_mistakes_report(struct hr_mistakes *m, void (*report)(void *to, const char *line), void *to)
{
	uint32_t kept = m->count < HR_MISTAKES_MAX ? m->count : HR_MISTAKES_MAX;
	char line[HR_MISTAKE_BYTES + 4200];

	sort(m->list, kept);
	for (uint32_t i = 0; i < kept; i++) {
		const struct hr_mistake *mistake = &m->list[i];

		if (mistake->line)
			snprintf(line, sizeof line, "%.4096s:%u: %s", m->file, mistake->line,
				 mistake->text);
		else
			snprintf(line, sizeof line, "%.4096s: %s", m->file, mistake->text);
		make_printable(line);
		report(to, line);
	}
	if (m->count > kept) {
		snprintf(line, sizeof line, "%.4096s: and %u more mistakes", m->file,
			 m->count - kept);
		report(to, line);
	}
}
