/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/client.h - the client's side of the control socket
 * (boot/appliance/control/control.h), for the commands that ask a running appliance.
 */
#ifndef BOOT_CMD_CLIENT_H
#define BOOT_CMD_CLIENT_H

#include <stddef.h>
#include <sys/un.h>

#include "boot/appliance/protocol/message.h"

/* The options of all these commands, for help texts. */
#define HR_CLIENT_HELP                                                                        \
	"  --appliance NAME  the appliance, by its name in its configuration; optional when " \
	"only\n"                                                                              \
	"                    one runs on this machine\n"

/*
 * Send a request to an appliance (NULL: the only one that runs), and write the document of the
 * reply to text, with a NUL; HR_MESSAGE_REPLY_MAX bytes are enough. Waits without a limit when the
 * request says so, else some seconds. Returns the exit code of the reply, whose reason of a
 * failure is printed. Without a reply text is "", the reason is printed, and the exit code is that
 * of the reason: HR_EXIT_USAGE: several appliances run; HR_EXIT_MISSING: none runs, or it gives
 * this user no permission; HR_EXIT_FAILED.
 */
int hr_client_request(const struct hr_request *request, const char *appliance, char *text,
		      size_t bytes);

/* An appliance that may run on this machine. */
struct hr_client_appliance {
	struct sockaddr_un at;
	char name[HR_NAME_MAX];
};

/* List the appliances that this user may find, or only that of a name; returns their number. */
unsigned hr_client_list(const char *wanted, struct hr_client_appliance *appliance, unsigned max);

/* Connect to one, with limits of each wait in seconds; 0: none. Returns a descriptor; -errno: it does
 * not run, or gives this user no permission. */
int hr_client_connect(const struct hr_client_appliance *appliance, unsigned receive_s,
		      unsigned send_s);

/*
 * Receive exactly that many bytes from a connection. 0; -ECONNRESET: the appliance has closed it;
 * -EINTR: a signal that the command catches requests a stop; -EAGAIN: the time limit of the
 * connection has passed; or another error of recv().
 */
int hr_client_receive(int fd, void *to, size_t bytes);

struct json_object;

/* Print a run of a history in a line, and its result or message in further ones. */
void hr_client_print_run(struct json_object *run);

/* A whole command, argv[0] is the name of the request: its arguments, the request, and the reply as
 * text or with --json. */
int hr_client_command(int argc, char **argv);

#endif
