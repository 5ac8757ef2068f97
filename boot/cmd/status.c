/*
 * headrace status: ask a running appliance for its counters.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "boot/cmd/cmd.h"
#include "config/log.h"
#include "boot/engine/progress.h"
#include "boot/appliance/status.h"

#define PATIENCE_S 3 /* an appliance that comes up answers late */

static const char help[] =
	"usage: headrace status [NAME] [--json]\n\n"
	"Live counters of an appliance that `headrace boot` or `headrace run` runs on this "
	"machine:\n"
	"stage, pipelines, tiles, rates, heartbeats of the worker blocks. NAME is the appliance's\n"
	"name in its configuration; it may be left out when only one runs. Ask as the user who "
	"runs\n"
	"it.\n\n"
	"  --json   print the document as the appliance sends it\n" HR_EXIT_HELP;

/* The only NAME.sock in the directory. */
static int only_name(const char *directory, char *name)
{
	DIR *entries = opendir(directory);
	struct dirent *entry;
	unsigned found = 0;

	while (entries && (entry = readdir(entries))) {
		const size_t length = strlen(entry->d_name);

		if (length <= 5 || length - 5 >= HR_NAME_MAX ||
		    strcmp(entry->d_name + length - 5, ".sock") != 0)
			continue;
		if (found++)
			fprintf(stderr,
				"headrace: error: several appliances run; name one: %s, %.*s\n",
				name, (int)length - 5, entry->d_name);
		snprintf(name, HR_NAME_MAX, "%.*s", (int)length - 5, entry->d_name);
		if (found > 1)
			break;
	}
	if (entries)
		closedir(entries);
	if (found == 0)
		hr_error("no appliance of this user runs here (%s is empty); ask as the user who "
			 "runs it",
			 directory);
	return found == 1 ? HR_EXIT_DONE : found ? HR_EXIT_USAGE : HR_EXIT_MISSING;
}

/* The whole answer, NUL-terminated. */
static int ask(const struct sockaddr_un *at, char *text, size_t bytes)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t got = 0;
	ssize_t n = -1;
	int err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0)
		while (got < bytes - 1 && (n = read(fd, text + got, bytes - 1 - got)) > 0)
			got += (size_t)n;
	err = n < 0 ? -errno : 0;
	close(fd);
	text[got] = '\0';
	return err;
}

static const char *text_of(struct json_object *o, const char *key)
{
	const char *text = json_object_get_string(json_object_object_get(o, key));

	return text ? text : "?";
}

static uint64_t number_of(struct json_object *o, const char *key)
{
	return json_object_get_uint64(json_object_object_get(o, key));
}

static void print_pipeline(struct json_object *p)
{
	const uint64_t tiles = number_of(p, "tiles"), first = number_of(p, "first_tile");
	const uint64_t done = number_of(p, "tiles_done") + first;
	struct json_object *error;
	char rate[24];

	hr_rate_format(rate, sizeof rate, (double)number_of(p, "read_bytes_per_s"));
	printf("  %-20s %-14s %-11s %12llu of %llu tiles  %3.0f%%  %s\n", text_of(p, "name"),
	       text_of(p, "operator"), text_of(p, "outcome"), (unsigned long long)done,
	       (unsigned long long)tiles, tiles ? 100.0 * (double)done / (double)tiles : 0.0, rate);
	if (json_object_object_get_ex(p, "error", &error))
		printf("    %s\n", json_object_get_string(error));
}

static int print_text(const char *text)
{
	struct json_object *o = json_tokener_parse(text), *list;

	if (!o || number_of(o, "schema") != HR_STATUS_SCHEMA) {
		hr_error("what answers is no appliance of this version");
		json_object_put(o);
		return HR_EXIT_FAILED;
	}
	printf("%s: %s, stage %s, up %.1f s, %llu restarts (pid %llu, %s)\n",
	       text_of(o, "appliance"), text_of(o, "phase"), text_of(o, "stage"),
	       (double)number_of(o, "uptime_ms") / 1e3,
	       (unsigned long long)number_of(o, "restarts"),
	       (unsigned long long)number_of(o, "pid"), text_of(o, "configuration"));
	list = json_object_object_get(o, "pipelines");
	for (size_t i = 0;
	     json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++)
		print_pipeline(json_object_array_get_idx(list, i));
	json_object_put(o);
	return HR_EXIT_DONE;
}

static int status(const char *wanted, bool json)
{
	static char text[HR_STATUS_MAX + 1];
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char directory[sizeof at.sun_path] = "", name[HR_NAME_MAX] = "", reason[256];
	int err = hr_status_directory(directory, sizeof directory, false), code, n;

	if (err) {
		hr_error(
			"no appliance of this user can be asked (%s); ask as the user who runs it, "
			"with its RUNTIME_DIRECTORY",
			hr_status_reason(err, reason, sizeof reason));
		return HR_EXIT_MISSING;
	}
	if (!wanted) {
		code = only_name(directory, name);
		if (code)
			return code;
		wanted = name;
	}
	n = snprintf(at.sun_path, sizeof at.sun_path, "%s/%s.sock", directory, wanted);
	err = n < 0 || (size_t)n >= sizeof at.sun_path || strchr(wanted, '/')
		      ? -EINVAL
		      : ask(&at, text, sizeof text);
	if (err == -EAGAIN)
		hr_error("appliance '%s' has not answered for %d s: it is coming up, or hangs",
			 wanted, PATIENCE_S);
	else if (err)
		hr_error("no appliance '%.64s' of this user runs here (%s): %s", wanted, directory,
			 strerror(-err));
	if (err)
		return HR_EXIT_MISSING;
	if (!json)
		return print_text(text);
	fputs(text, stdout);
	return HR_EXIT_DONE;
}

static int cmd_status(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { NULL, 0, NULL, 0 } };
	bool json = false;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option != 'j')
			return hr_usage_error("status", "unknown option '%s'", argv[optind - 1]);
		json = true;
	}
	if (argc - optind > 1)
		return hr_usage_error("status", "one name expected, %d given", argc - optind);
	return status(optind < argc ? argv[optind] : NULL, json);
}

const struct hr_command hr_cmd_status = {
	.name = "status",
	.summary = "live counters of a running appliance",
	.help = help,
	.fn = cmd_status,
};
