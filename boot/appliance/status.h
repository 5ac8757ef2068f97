/*
 * boot/appliance/status.h - the live counters of a running appliance, for `headrace status`.
 *
 * A Unix stream socket DIRECTORY/NAME.sock. Whoever connects is sent one JSON document and the end;
 * nothing is read from him. Served between looks at the pipeline by the thread that watches it,
 * from a buffer of its own: nothing is allocated, nobody is waited for, and a reader that is too
 * slow loses the rest.
 *
 * DIRECTORY is $RUNTIME_DIRECTORY (as service managers set it), /run/headrace for root, or
 * $XDG_RUNTIME_DIR/headrace. It must be ours and writable by nobody else.
 */
#ifndef BOOT_APPLIANCE_STATUS_H
#define BOOT_APPLIANCE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "boot/appliance/record.h"

#define HR_STATUS_MAX (64u << 10) /* a document; every pipeline with every ssd fits */
#define HR_STATUS_SCHEMA 1	  /* "schema": changes when a field goes or changes its meaning */

struct hr_status {
	const struct hr_appliance *app; /* of which it tells */
	int fd;				/* listens; -1: there is no socket */
	struct sockaddr_un at;
	uint64_t next_ns;	 /* when to look for readers again */
	enum hr_phase phase;	 /* what is going on */
	uint32_t restarts;	 /* of the appliance so far */
	uint32_t restarts_left;	 /* before it gives up; 0 of `headrace run` */
	int engine;		 /* process identifier of the engine; 0: none runs */
	bool told;		 /* the owner keeps `record`; false: it is taken from app */
	struct hr_record record; /* what is told of ssds and pipelines */
	char text[HR_STATUS_MAX];
};

/*
 * The directory, into path; makes it when `make`. 0; -ENOKEY: none of the three is named; -EPERM: it
 * belongs to another user, or others may write to it; -ENOTDIR; -ENAMETOOLONG; -errno.
 */
int hr_status_directory(char *path, size_t bytes, bool make);

/* Why there is no directory or socket, for a message: "RUNTIME_DIRECTORY /run/x: Permission denied".
 * err: of hr_status_directory() or hr_status_open(). Returns text. */
const char *hr_status_reason(int err, char *text, size_t bytes);

/*
 * Listen for readers as the appliance. Without success it runs all the same, with a warning that says
 * why its status cannot be read. 0; -EADDRINUSE: an appliance of that name runs; or the error of
 * hr_status_directory(), which is for debugging when no directory is named.
 */
int hr_status_open(struct hr_status *status, const struct hr_appliance *app);

/* Answer each reader that has connected. Fits hr_tick_set(). */
void hr_status_tick(void *status, uint64_t now_ns);

/* The document as it is sent, of status->record, NUL-terminated; returns its length. Cut documents do
 * not happen. */
size_t hr_status_format(const struct hr_status *status, uint64_t now_ns, char *text, size_t bytes);

void hr_status_close(struct hr_status *status);

#endif
