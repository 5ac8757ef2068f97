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

#include "boot/stages.h"

#define HR_STATUS_MAX (64u << 10) /* a document; every pipeline with every ssd fits */
#define HR_STATUS_SCHEMA 1	  /* "schema": changes when a field goes or changes its meaning */

struct hr_status {
	int fd; /* listens; -1: there is no socket */
	struct sockaddr_un at;
	uint64_t next_ns;  /* when to look for readers again */
	const char *phase; /* what is going on, in a word: "post", "running", "backoff", ... */
	uint32_t restarts; /* of the appliance so far */
	char text[HR_STATUS_MAX];
};

/* The directory, into path; makes it when `make`. 0; -ENOENT: none of the three is set; -EPERM: it
 * belongs to somebody else, or others may write to it; -errno. */
int hr_status_directory(char *path, size_t bytes, bool make);

/*
 * Listen for readers as appliance `name`. Without success the appliance runs all the same, and says
 * why nobody can ask: a warning for -EADDRINUSE (an appliance of that name runs), else for debugging.
 */
int hr_status_open(struct hr_status *status, const char *name);

/* Answer whoever has connected. Fits hr_appliance.tick. */
void hr_status_tick(void *status, const struct hr_appliance *app, uint64_t now_ns);

/* The document as it is sent, NUL-terminated; returns its length. Cut documents do not happen. */
size_t hr_status_format(const struct hr_status *status, const struct hr_appliance *app,
			uint64_t now_ns, char *text, size_t bytes);

void hr_status_close(struct hr_status *status);

#endif
