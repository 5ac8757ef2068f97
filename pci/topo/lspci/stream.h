/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/lspci/stream.h - the lines of a capture, read from a descriptor or from memory.
 */
#ifndef PCI_TOPO_LSPCI_STREAM_H
#define PCI_TOPO_LSPCI_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* A stream of bytes: a buffer of bytes read ahead, then a file descriptor (-1: none). */
struct hr_capture_stream {
	int fd;
	char *buffer;
	size_t capacity, from, to;
	bool ended;
	int error;     /* -errno of read */
	unsigned line; /* number of the line that hr_capture_stream_line() returned last */
	bool cut;      /* that line had no newline */
};

/* Move the unread bytes to the front of the buffer and read more. */
void hr_capture_stream_fill(struct hr_capture_stream *s);

/*
 * Next line without its newline, valid until the next call. NULL at the end, after an error, or
 * when the line does not fit the buffer (error -EMSGSIZE).
 */
char *hr_capture_stream_line(struct hr_capture_stream *s, size_t *length);

#endif
