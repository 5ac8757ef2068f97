/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/mistakes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void hr_mistake(struct hr_mistakes *m, unsigned line, const char *format, ...)
{
	struct hr_mistake *mistake;
	va_list args;

	if (m->count++ >= HR_MISTAKES_MAX)
		return;
	mistake = &m->list[m->count - 1];
	mistake->line = line;
	va_start(args, format);
	if (vsnprintf(mistake->text, sizeof mistake->text, format, args) >= (int)HR_MISTAKE_BYTES)
		memcpy(mistake->text + sizeof mistake->text - sizeof "...", "...", sizeof "...");
	va_end(args);
}

/* Insertion sort, because it is stable; the list is short. */
static void sort_mistakes(struct hr_mistake *list, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		struct hr_mistake moved = list[i];
		uint32_t at = i;

		for (; at > 0 && list[at - 1].line > moved.line; at--)
			list[at] = list[at - 1];
		list[at] = moved;
	}
}

void hr_mistakes_report(struct hr_mistakes *m, struct hr_error *e)
{
	const uint32_t kept = m->count < HR_MISTAKES_MAX ? m->count : HR_MISTAKES_MAX;
	const enum hr_error_kind kind = m->failed == m->count ? HR_ERROR_FAILED : HR_ERROR_USAGE;

	sort_mistakes(m->list, kept);
	for (uint32_t i = 0; i < kept; i++) {
		const struct hr_mistake *mistake = &m->list[i];

		if (mistake->line)
			hr_error_add(e, kind, -EINVAL, "%s:%u: %s", m->file, mistake->line,
				     mistake->text);
		else
			hr_error_add(e, kind, -EINVAL, "%s: %s", m->file, mistake->text);
	}
	if (e)
		e->left_out += m->count - kept;
}
