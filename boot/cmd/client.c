/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/client.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "boot/appliance/protocol/socket.h"
#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "config/base/process.h"
#include "config/base/log.h"

#define TIMEOUT_S 5	    /* an appliance answers late during bring-up */
#define RELOAD_TIMEOUT_S 90 /* user operators are loaded, which may take a minute */
#define DIRECTORIES 2u
#define LISTED_MAX 16u /* names in a message */
#define SUFFIX ".sock"

/* ---- which appliance */

/* The directory of this user, and that of root, whose appliance may permit this user to ask. */
static unsigned list_directories(
	char path[DIRECTORIES][sizeof(((struct sockaddr_un *)0)->sun_path)], int *err)
{
	const char *given = getenv("RUNTIME_DIRECTORY");
	unsigned count = 0;

	*err = hr_socket_directory(path[0], sizeof path[0], false);
	count += *err == 0;
	if ((!given || !*given) && geteuid() != 0 && hr_socket_check(HR_SOCKET_ROOT, false) == 0)
		snprintf(path[count++], sizeof path[0], HR_SOCKET_ROOT);
	return count;
}

/* Name of the appliance whose socket a directory entry is. */
static bool is_socket(const char *entry, char name[HR_NAME_MAX])
{
	const size_t length = strlen(entry), suffix = sizeof SUFFIX - 1;

	if (length <= suffix || length - suffix >= HR_NAME_MAX ||
	    strcmp(entry + length - suffix, SUFFIX) != 0)
		return false;
	snprintf(name, HR_NAME_MAX, "%.*s", (int)(length - suffix), entry);
	return true;
}

/* Look for the appliance, or for all that live, in a directory; returns the number of appliances
 * found, of which the first `max` are in found[]. *err: of a directory that cannot be read. */
static unsigned look(const char *directory, const char *wanted, struct hr_client_appliance *found,
		     unsigned max, int *err)
{
	DIR *entries = opendir(directory);
	char name[HR_NAME_MAX];
	struct sockaddr_un at;
	struct dirent *entry;
	unsigned count = 0;

	if (!entries)
		*err = -errno;
	while (entries && (entry = readdir(entries))) {
		if (!is_socket(entry->d_name, name) || (wanted && strcmp(name, wanted) != 0) ||
		    hr_socket_address(&at, directory, name) != 0 || !hr_socket_lives(&at))
			continue;
		if (count++ >= max)
			continue;
		found->at = at;
		memcpy(found->name, name, sizeof name);
		found++;
	}
	if (entries)
		closedir(entries);
	return count;
}

/* Report that no appliance is in `directories`. err: of one that cannot be read, or 0. */
static void report_none(const char *wanted, const char *directories, int err)
{
	if (err)
		hr_error("the sockets of appliances cannot be read (%s: %s); run this as the user "
			 "of the appliance, or as a member of its control.group",
			 directories, strerror(-err));
	else if (wanted)
		hr_error("no appliance '%.64s' runs here (%s)", wanted, directories);
	else
		hr_error("no appliance runs here (%s has no socket); run this as the user of "
			 "the appliance",
			 directories);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct hr_client_appliance *)a)->name,
		      ((const struct hr_client_appliance *)b)->name);
}

/* found[]: the first LISTED_MAX of `count` appliances */
static void report_several(struct hr_client_appliance *found, unsigned count,
			   const char *directories)
{
	const unsigned listed = count < LISTED_MAX ? count : LISTED_MAX;
	char names[LISTED_MAX * (HR_NAME_MAX + 4)];
	size_t at = 0;

	qsort(found, listed, sizeof *found, compare_names);
	for (unsigned i = 0; i < listed; i++)
		at += (size_t)snprintf(names + at, sizeof names - at, "%s'%s'", i ? ", " : "",
				       found[i].name);
	hr_error("%u appliances run here (sockets in %s); give the name of one: %s%s", count,
		 directories, names, count > listed ? ", ..." : "");
}

static int find(const char *wanted, struct hr_client_appliance *found)
{
	char path[DIRECTORIES][sizeof found->at.sun_path], reason[256];
	char directories[DIRECTORIES * sizeof found->at.sun_path + 2];
	struct hr_client_appliance each[LISTED_MAX];
	unsigned appliances = 0, count;
	int err;

	count = list_directories(path, &err);
	if (!count) {
		hr_error("no appliance of this user can be found (%s); run this as the user of "
			 "the appliance, with its RUNTIME_DIRECTORY",
			 hr_socket_reason(err, reason, sizeof reason));
		return HR_EXIT_MISSING;
	}
	err = 0;
	/* the same name in the directory of this user goes before that of root */
	for (unsigned i = 0; i < count && !(wanted && appliances); i++) {
		const unsigned at = appliances < LISTED_MAX ? appliances : LISTED_MAX;

		appliances += look(path[i], wanted, each + at, LISTED_MAX - at, &err);
	}
	snprintf(directories, sizeof directories, "%s%s%s", path[0], count > 1 ? ", " : "",
		 count > 1 ? path[1] : "");
	if (!appliances)
		report_none(wanted, directories, err);
	else if (appliances > 1)
		report_several(each, appliances, directories);
	else
		*found = each[0];
	return appliances == 1 ? HR_EXIT_DONE : appliances ? HR_EXIT_USAGE : HR_EXIT_MISSING;
}

unsigned hr_client_list(const char *wanted, struct hr_client_appliance *appliance, unsigned max)
{
	char path[DIRECTORIES][sizeof appliance->at.sun_path];
	unsigned count = 0;
	int err;
	const unsigned directories = list_directories(path, &err);

	for (unsigned i = 0; i < directories; i++) {
		count += look(path[i], wanted, appliance + count, max - count, &err);
		count = count < max ? count : max;
	}
	return count;
}

/* ---- one request and its reply */

int hr_client_connect(const struct hr_client_appliance *appliance, unsigned receive_s,
		      unsigned send_s)
{
	const struct timeval receive = { .tv_sec = receive_s }, to_send = { .tv_sec = send_s };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &to_send, sizeof to_send);
	if (connect(fd, (const struct sockaddr *)&appliance->at, sizeof appliance->at) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int hr_client_receive(int fd, void *to, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		const ssize_t n = recv(fd, (char *)to + got, bytes - got, 0);

		if (hr_signals_pending())
			return -EINTR;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		got += (size_t)n;
	}
	return 0;
}

static int exchange(int fd, const struct hr_request *request, struct hr_reply *reply, char *text,
		    size_t room, unsigned *version)
{
	uint8_t message[HR_MESSAGE_REQUEST_MAX], head[HR_MESSAGE_HEADER];
	const int length = hr_request_format(request, message);
	int err;

	if (length < 0)
		return length;
	/* an appliance that refuses the request early has replied, and closed its side */
	if (send(fd, message, (size_t)length, MSG_NOSIGNAL) < 0 && errno != EPIPE)
		return -errno;
	err = hr_client_receive(fd, head, sizeof head);
	if (!err)
		err = hr_reply_parse(reply, head, request->kind, version);
	if (!err && reply->bytes >= room)
		err = -EPROTO;
	if (!err)
		err = hr_client_receive(fd, text, reply->bytes);
	text[err ? 0 : reply->bytes] = '\0';
	return err;
}

static int explain(int err, const char *name, unsigned version)
{
	switch (err) {
	case -EINVAL:
	case -ENAMETOOLONG:
		hr_error("this is not a name that a pipeline can have");
		return HR_EXIT_USAGE;
	case -EAGAIN:
		hr_error("appliance '%s' has not answered in time: it may be in bring-up, or hang",
			 name);
		return HR_EXIT_MISSING;
	case -EACCES:
		hr_error("appliance '%s' gives user %u no permission (control.mode in its "
			 "configuration)",
			 name, (unsigned)geteuid());
		return HR_EXIT_MISSING;
	case -ECONNRESET:
		hr_error("appliance '%s' has closed the connection without a reply: it has ended, "
			 "or too many clients ask it",
			 name);
		return HR_EXIT_FAILED;
	case -EPROTONOSUPPORT:
		hr_error("appliance '%s' speaks version %u of the control messages, expected %u",
			 name, version, HR_MESSAGE_VERSION);
		return HR_EXIT_FAILED;
	case -EPROTO:
		hr_error("the answer does not come from an appliance of this version");
		return HR_EXIT_FAILED;
	default:
		hr_error("no appliance '%s' runs here: %s", name, strerror(-err));
		return hr_error_is_shortage(err) ? HR_EXIT_FAILED : HR_EXIT_MISSING;
	}
}

static const char *text_of(struct json_object *o, const char *key)
{
	const char *text = json_object_get_string(json_object_object_get(o, key));

	return text ? text : "?";
}

/* An array of texts; one that is not there has no entry. */
static size_t count_of(struct json_object *o, const char *key)
{
	struct json_object *array = json_object_object_get(o, key);

	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

static const char *entry_of(struct json_object *o, const char *key, size_t i)
{
	return json_object_get_string(json_object_array_get_idx(json_object_object_get(o, key), i));
}

static int say_refusal(const char *text, int code)
{
	struct json_object *o = json_tokener_parse(text);

	if (!o)
		code = explain(-EPROTO, "", 0);
	else if (code)
		hr_error("appliance '%s': %s", text_of(o, "appliance"), text_of(o, "message"));
	for (size_t i = 0; o && code && i < count_of(o, "mistakes"); i++)
		hr_error("%s", entry_of(o, "mistakes", i));
	json_object_put(o);
	return code;
}

int hr_client_request(const struct hr_request *request, const char *appliance, char *text,
		      size_t bytes)
{
	struct hr_client_appliance found = { 0 };
	struct hr_reply reply = { 0 };
	unsigned version = 0;
	const unsigned limit_s = request->kind == HR_REQUEST_RELOAD ? RELOAD_TIMEOUT_S : TIMEOUT_S;
	int code = find(appliance, &found), fd, err;

	*text = '\0';
	if (code)
		return code;
	fd = hr_client_connect(&found, request->wait ? 0 : limit_s, TIMEOUT_S);
	if (fd < 0)
		return explain(fd, found.name, 0);
	err = exchange(fd, request, &reply, text, bytes, &version);
	close(fd);
	return err ? explain(err, found.name, version) : say_refusal(text, (int)reply.code);
}

/* ---- a whole command */

static void print_lines(struct json_object *o, const char *key, const char *what)
{
	for (size_t i = 0; i < count_of(o, key); i++)
		printf("  %s: %s\n", what, entry_of(o, key, i));
}

/* "    start 3: done 2026-11-22T17:28:00Z, 12.345 ms, crc32c, 16 of 16 tiles"; the time is that of the
 * end when the start has failed before its run. */
void hr_client_print_run(struct json_object *run)
{
	static const char *const more[] = { "message", "error" };
	struct json_object *part;

	printf("    start %s: %s", text_of(run, "start"), text_of(run, "outcome"));
	if (json_object_object_get_ex(run, "started_utc", &part) ||
	    json_object_object_get_ex(run, "ended_utc", &part))
		printf(" %s", json_object_get_string(part));
	printf(", %s ms, %s, %s of %s tiles\n", text_of(run, "duration_ms"),
	       text_of(run, "operator"), text_of(run, "tiles_done"), text_of(run, "tiles"));
	if (json_object_object_get_ex(run, "result", &part))
		printf("      result %s\n",
		       json_object_to_json_string_ext(part, JSON_C_TO_STRING_NOSLASHESCAPE));
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		if (json_object_object_get_ex(run, more[i], &part)) {
			printf("      %s\n", json_object_get_string(part));
			return;
		}
}

static void print_reply(const char *text)
{
	struct json_object *o = json_tokener_parse(text), *part;

	printf("%s: %s", text_of(o, "appliance"), text_of(o, "request"));
	if (json_object_object_get_ex(o, "pipeline", &part))
		printf(" '%s'", json_object_get_string(part));
	if (json_object_object_get_ex(o, "start", &part))
		printf(", start %s", json_object_get_string(part));
	printf(": %s\n", text_of(o, "result"));
	if (json_object_object_get_ex(o, "run", &part))
		hr_client_print_run(part);
	print_lines(o, "changes", "changes");
	print_lines(o, "waits_for", "waits for the end of pipeline");
	print_lines(o, "needs_restart", "needs a restart");
	json_object_put(o);
}

static enum hr_request_kind kind_of(const char *name)
{
	enum hr_request_kind kind = HR_REQUEST_STATUS;

	while (kind < HR_REQUEST_KINDS - 1 && strcmp(hr_request_form(kind)->name, name) != 0)
		kind++;
	return kind;
}

int hr_client_command(int argc, char **argv)
{
	static char text[HR_MESSAGE_REPLY_MAX];
	struct hr_request request = { .kind = kind_of(argv[0]) };
	const struct hr_request_form *form = hr_request_form(request.kind);
	const char *const what = form->pipeline ? "one pipeline" : "no argument";
	const char *pipeline = NULL, *appliance = NULL;
	bool json = false;
	const struct hr_option options[] = {
		{ "json", .flag = &json },
		{ "appliance", .text = &appliance },
		{ form->flags & HR_MESSAGE_WAIT ? "wait" : NULL, .flag = &request.wait },
		{ NULL },
	};
	int code = hr_options_parse(argc, argv, options, what, &pipeline);

	if (code)
		return code;
	if (form->pipeline != (pipeline != NULL))
		return hr_usage_error(argv[0], "%s expected, %d given", what, pipeline != NULL);
	if (pipeline && strlen(pipeline) >= sizeof request.pipeline)
		return explain(-ENAMETOOLONG, "", 0);
	snprintf(request.pipeline, sizeof request.pipeline, "%s", pipeline ? pipeline : "");
	code = hr_client_request(&request, appliance, text, sizeof text);
	if (*text && json) {
		fputs(text, stdout);
		hr_report_begun();
	} else if (*text && code == HR_EXIT_DONE) {
		print_reply(text);
	}
	return code;
}
