#include "boot/appliance/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/clock.h"
#include "config/log.h"
#include "boot/engine/start.h"
#include "nvme/status.h"

#define LOOK_NS (10 * HR_NS_PER_MS)
#define READERS_A_LOOK 8

/* ---- the document */

struct text {
	char *at, *end;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *format, ...)
{
	const size_t room = (size_t)(t->end - t->at);
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at, room, format, args);
	va_end(args);
	t->at += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* "key": "value", ; names come from the configuration, which has printable ASCII only. */
static void put_string(struct text *t, const char *key, const char *value)
{
	put(t, "\"%s\": \"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			put(t, "\\%c", *value);
		else if ((unsigned char)*value >= ' ')
			put(t, "%c", *value);
	}
	put(t, "\", ");
}

static void put_u64(struct text *t, const char *key, uint64_t value)
{
	put(t, "\"%s\": %llu, ", key, (unsigned long long)value);
}

/* Behind the last member stands ", ", which JSON does not allow. */
static void put_end(struct text *t, const char *close)
{
	if (t->at[-1] == ' ' && t->at[-2] == ',')
		t->at -= 2;
	put(t, "%s, ", close);
}

static const char *outcome(const struct hr_record_run *run)
{
	static const char *const name[] = { "waiting", "done", "complete", "interrupted",
					    "failed" };

	return run->outcome == HR_RUN_WAITING && run->started_ns ? "running" : name[run->outcome];
}

static void put_role(struct text *t, const struct hr_record_role *role, const char *name)
{
	put(t, "\"%s\": {", name);
	put_u64(t, "blocks", role->blocks);
	put_u64(t, "workers", role->workers);
	put_u64(t, "ended", role->ended);
	put_u64(t, "failed", role->failed);
	put_u64(t, "heartbeat", role->heartbeat);
	put_u64(t, "tiles", role->tiles);
	put_u64(t, "bytes", role->bytes);
	put_end(t, "}");
}

static void put_run(struct text *t, const struct hr_config *config, uint32_t i,
		    const struct hr_record_run *run, uint64_t now_ns)
{
	static const char *const role[] = { "prefetch", "compute", "writeback" };
	const struct hr_config_pipeline *p = &config->pipeline[i];
	const uint64_t until = run->ended_ns ? run->ended_ns : now_ns;
	const uint64_t ns = run->started_ns ? until - run->started_ns : 0;
	const uint64_t bytes = run->read_bytes;
	char error[96];

	put(t, "{");
	put_string(t, "name", p->name);
	put_string(t, "operator", p->op->name);
	put_string(t, "gpu", config->gpu[p->gpu].name);
	put_string(t, "outcome", outcome(run));
	if (run->error)
		put_string(t, "error", hr_error_name((int)run->error, error, sizeof error));
	put_u64(t, "tiles", run->tiles);
	put_u64(t, "first_tile", run->first_tile);
	put_u64(t, "tiles_done", run->tiles_done);
	put_u64(t, "durable_tiles", run->durable_tiles);
	put_u64(t, "duration_ms", ns / HR_NS_PER_MS);
	put_u64(t, "read_bytes", bytes);
	put_u64(t, "read_bytes_per_s", ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0);
	for (uint32_t r = 0; r < HR_ROLES; r++)
		if (run->role[r].blocks)
			put_role(t, &run->role[r], role[r]);
	put_end(t, "}");
}

static void put_ssds(struct text *t, const struct hr_config *config, const struct hr_record *record)
{
	put(t, "\"ssds\": [");
	for (uint32_t d = 0; d < config->ssds; d++) {
		put(t, "{");
		put_string(t, "name", config->ssd[d].name);
		put_string(t, "device", config->ssd[d].device);
		put(t, "\"failed\": %s, ", record->ssd_failed[d] ? "true" : "false");
		put_end(t, "}");
	}
	put_end(t, "]");
}

size_t hr_status_format(const struct hr_status *status, uint64_t now_ns, char *text, size_t bytes)
{
	const struct hr_config *config = &status->app->config;
	const struct hr_record *record = &status->record;
	struct text t = { text, text + bytes };

	put(&t, "{");
	put_u64(&t, "schema", HR_STATUS_SCHEMA);
	put_string(&t, "appliance", config->name);
	put_string(&t, "configuration", config->file);
	put_u64(&t, "pid", (uint64_t)getpid());
	put_u64(&t, "engine_pid", (uint64_t)status->engine);
	put_u64(&t, "uptime_ms", (now_ns - hr_start_ns()) / HR_NS_PER_MS);
	put_string(&t, "phase", hr_phase_name(status->phase));
	put_string(&t, "stage", hr_stage_name((enum hr_stage)record->stage));
	put_u64(&t, "restarts", status->restarts);
	put_u64(&t, "restarts_left", status->restarts_left);
	put_ssds(&t, config, record);
	put(&t, "\"pipelines\": [");
	for (uint32_t i = 0; i < config->pipelines; i++)
		if (record->run[i].selected || record->run[i].outcome != HR_RUN_WAITING)
			put_run(&t, config, i, &record->run[i], now_ns);
	put_end(&t, "]");
	put_end(&t, "}");
	t.at -= 2;
	put(&t, "\n");
	return (size_t)(t.at - text);
}

/* ---- the socket */

static int check_directory(const char *path)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) ? -EPERM : 0;
}

/* The variable that names the folder, or NULL; -ENOKEY: none does. */
static int name_directory(char *path, size_t bytes, const char **variable)
{
	const char *given = getenv("RUNTIME_DIRECTORY"), *user = getenv("XDG_RUNTIME_DIR");
	int n;

	*variable = NULL;
	if (given && *given) {
		*variable = "RUNTIME_DIRECTORY";
		n = snprintf(path, bytes, "%.*s", (int)strcspn(given, ":"), given);
	} else if (geteuid() == 0) {
		n = snprintf(path, bytes, "/run/headrace");
	} else if (user && *user) {
		*variable = "XDG_RUNTIME_DIR";
		n = snprintf(path, bytes, "%s/headrace", user);
	} else {
		return -ENOKEY;
	}
	return n < 0 || (size_t)n >= bytes ? -ENAMETOOLONG : 0;
}

int hr_status_directory(char *path, size_t bytes, bool make)
{
	const char *variable;
	int err = name_directory(path, bytes, &variable);

	if (err)
		return err;
	if (make && mkdir(path, 0755) != 0 && errno != EEXIST)
		return -errno;
	return check_directory(path);
}

static void explain_owner(const char *path, char *text, size_t bytes)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		snprintf(text, bytes, "%s", strerror(errno));
	else if (st.st_uid != geteuid())
		snprintf(text, bytes, "belongs to user %u, expected %u", (unsigned)st.st_uid,
			 (unsigned)geteuid());
	else
		snprintf(text, bytes, "others may write to it: mode %04o, expected 0755",
			 (unsigned)st.st_mode & 07777);
}

const char *hr_status_reason(int err, char *text, size_t bytes)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)] = "", why[128];
	const char *variable;

	name_directory(path, sizeof path, &variable);
	if (err == -ENOKEY)
		snprintf(why, sizeof why, "neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set");
	else if (err == -EPERM)
		explain_owner(path, why, sizeof why);
	else if (err == -ENAMETOOLONG)
		snprintf(why, sizeof why,
			 "too long for a socket, expected at most %zu bytes with "
			 "the appliance's name",
			 sizeof path - 1);
	else
		snprintf(why, sizeof why, "%s", strerror(-err));
	snprintf(text, bytes, "%s%s%s%s%s", variable ? variable : "", variable ? " " : "", path,
		 *path ? ": " : "", why);
	return text;
}

/* A socket file whose owner has died refuses connections, and is in the way. */
static int listen_at(int fd, const struct sockaddr_un *at)
{
	const struct sockaddr *address = (const struct sockaddr *)at;
	int probe, err;

	if (bind(fd, address, sizeof(*at)) == 0)
		return listen(fd, READERS_A_LOOK) == 0 ? 0 : -errno;
	if (errno != EADDRINUSE)
		return -errno;
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = probe < 0 || connect(probe, address, sizeof(*at)) != 0 ? errno : 0;
	if (probe >= 0)
		close(probe);
	if (err != ECONNREFUSED)
		return -EADDRINUSE;
	unlink(at->sun_path);
	if (bind(fd, address, sizeof(*at)) != 0 || listen(fd, READERS_A_LOOK) != 0)
		return -errno;
	return 0;
}

static int open_socket(struct hr_status *status, const char *name)
{
	char directory[sizeof(status->at.sun_path)];
	int err = hr_status_directory(directory, sizeof directory, true), n;

	if (err)
		return err;
	status->at.sun_family = AF_UNIX;
	n = snprintf(status->at.sun_path, sizeof status->at.sun_path, "%s/%s.sock", directory,
		     name);
	if (n < 0 || (size_t)n >= sizeof status->at.sun_path)
		return -ENAMETOOLONG;
	status->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (status->fd < 0)
		return -errno;
	err = listen_at(status->fd, &status->at);
	if (err) {
		close(status->fd);
		status->fd = -1;
	}
	return err;
}

int hr_status_open(struct hr_status *status, const struct hr_appliance *app)
{
	char reason[HR_LOG_LINE_MAX / 2];
	int err;

	memset(status, 0, sizeof(*status));
	status->app = app;
	status->fd = -1;
	status->phase = HR_PHASE_STARTING;
	err = open_socket(status, app->config.name);
	if (err == -EADDRINUSE)
		hr_warn("%s: an appliance '%s' runs already; this one cannot be asked for its "
			"status",
			status->at.sun_path, app->config.name);
	else if (err == -ENOKEY)
		hr_debug("no status socket: no folder for it is named");
	else if (err)
		hr_warn("%s; 'headrace status' cannot ask appliance '%s'",
			hr_status_reason(err, reason, sizeof reason), app->config.name);
	return err;
}

void hr_status_tick(void *to, uint64_t now_ns)
{
	struct hr_status *status = to;
	size_t length = 0;

	if (status->fd < 0 || now_ns < status->next_ns)
		return;
	status->next_ns = now_ns + LOOK_NS;
	for (int i = 0; i < READERS_A_LOOK; i++) {
		const int reader = accept4(status->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (reader < 0)
			return;
		if (!length && !status->told)
			hr_record_take(&status->record, status->app);
		if (!length)
			length =
				hr_status_format(status, now_ns, status->text, sizeof status->text);
		if (send(reader, status->text, length, MSG_NOSIGNAL) != (ssize_t)length)
			hr_debug("a reader of the status did not take all of it");
		close(reader);
	}
}

void hr_status_close(struct hr_status *status)
{
	if (status->fd < 0)
		return;
	close(status->fd);
	unlink(status->at.sun_path);
	status->fd = -1;
}
