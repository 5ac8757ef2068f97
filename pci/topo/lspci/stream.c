/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/lspci/stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 65536u

void hr_capture_stream_fill(struct hr_capture_stream *s)
{
	size_t room;
	ssize_t n;

	if (s->from)
		memmove(s->buffer, s->buffer + s->from, s->to - s->from);
	s->to -= s->from;
	s->from = 0;
	room = s->capacity - 1 - s->to;
	if (s->fd < 0) {
		s->ended = true;
		return;
	}
	do
		n = read(s->fd, s->buffer + s->to, room < READ_BYTES ? room : READ_BYTES);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		s->error = -errno;
	if (n <= 0)
		s->ended = true;
	else
		s->to += (size_t)n;
}

char *hr_capture_stream_line(struct hr_capture_stream *s, size_t *length)
{
	size_t scanned = 0;

	for (;;) {
		char *at = s->buffer + s->from;
		char *end = memchr(at + scanned, '\n', s->to - s->from - scanned);

		if (!end && s->ended && s->from == s->to)
			return NULL;
		s->cut = !end && s->ended;
		if (end || s->ended) {
			*length = end ? (size_t)(end - at) : s->to - s->from;
			at[*length] = '\0';
			s->from += *length + (end ? 1 : 0);
			s->line++;
			return at;
		}
		scanned = s->to - s->from;
		if (scanned == s->capacity - 1) {
			s->error = -EMSGSIZE;
			return NULL;
		}
		hr_capture_stream_fill(s);
	}
}
