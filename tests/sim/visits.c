/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/visits.h"

#include <errno.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "tests/sim/client.h"
#include "tests/sim/command.h"

#define LIE_BYTES 600u

void sim_visits_open(struct sim_visits *v, const struct sim_plan *plan, struct sim_objects *objects)
{
	*v = (struct sim_visits){ .plan = plan, .objects = objects };
	for (unsigned i = 0; i < SIM_SOCKETS; i++)
		v->socket[i] = -1;
}

static struct sim_client *find_free(struct sim_visits *v)
{
	for (unsigned i = 0; i < SIM_CLIENTS; i++)
		if (!v->client[i].pid)
			return &v->client[i];
	return NULL;
}

static bool is_busy(const struct sim_visits *v, enum sim_event_kind kind, unsigned object)
{
	for (unsigned i = 0; i < SIM_CLIENTS; i++)
		if (v->client[i].pid && v->client[i].kind == kind && v->client[i].object == object)
			return true;
	return false;
}

static void check_status(void)
{
	struct json_object *document = json_object_from_file("status.json");

	if (!document)
		sim_fault("status --json: exit code 0, and no JSON: %s", json_util_get_last_err());
	json_object_put(document);
}

static void end_client(struct sim_visits *v, struct sim_client *c, int code)
{
	char file[32];

	c->pid = 0;
	if (code >= 128 && !c->left)
		sim_fault("%s: ended by signal %d", sim_event_name(c->kind), code - 128);
	if (code != 0)
		return;
	snprintf(file, sizeof file, "got%u", c->object);
	if (c->kind == SIM_STATUS)
		check_status();
	else if (c->kind == SIM_PUT)
		sim_objects_acknowledge(v->objects, c->object);
	else if (c->kind == SIM_GET)
		sim_objects_check(v->objects, c->object, file, c->least);
}

void sim_visits_look(struct sim_visits *v, bool to_the_end)
{
	for (unsigned i = 0; i < SIM_CLIENTS; i++) {
		struct sim_client *c = &v->client[i];
		int status = 0;

		if (c->pid && hr_wait_child(c->pid, &status, to_the_end ? 0 : WNOHANG) == c->pid)
			end_client(v, c,
				   WIFEXITED(status) ? WEXITSTATUS(status)
						     : 128 + WTERMSIG(status));
	}
}

static const char *any_pipeline(const struct sim_visits *v, uint64_t number)
{
	return v->plan->pipeline[number % v->plan->pipelines].name;
}

/* SIM_OBJECTS: there is none. */
static unsigned any_source(const struct sim_visits *v, uint64_t number)
{
	for (unsigned n = 0; n < v->plan->objects; n++) {
		const unsigned i = (unsigned)((number + n) % v->plan->objects);

		if (v->plan->object[i].is_source && v->plan->object[i].content == SIM_BYTES)
			return i;
	}
	return SIM_OBJECTS;
}

static void put(struct sim_visits *v, struct sim_client *c, uint64_t number)
{
	const unsigned object = any_source(v, number);
	const struct sim_object *o = &v->plan->object[object % SIM_OBJECTS];
	char device[160], file[32];

	if (object == SIM_OBJECTS || is_busy(v, SIM_PUT, object) || !v->plan->repeats)
		return;
	sim_plan_device(v->plan, o->ssd, device, sizeof device);
	snprintf(file, sizeof file, "data%u", object);
	sim_objects_begin(v->objects, object, number, file);
	c->object = object;
	c->pid = sim_start(NULL, "store put --replace --quiet %s %s %s", device, o->name, file);
}

static void get(struct sim_visits *v, struct sim_client *c, uint64_t number)
{
	const unsigned object = (unsigned)(number % v->plan->objects);
	const struct sim_object *o = &v->plan->object[object];
	char device[160], file[32];

	if (is_busy(v, SIM_GET, object) || o->content == SIM_FED)
		return;
	sim_plan_device(v->plan, o->ssd, device, sizeof device);
	snprintf(file, sizeof file, "got%u", object);
	unlink(file);
	c->object = object;
	c->least = sim_objects_least(v->objects, object);
	c->pid = sim_start(NULL, "store get %s %s %s", device, o->name, file);
}

void sim_visits_begin(struct sim_visits *v, const struct sim_event *event)
{
	const char *pipeline = any_pipeline(v, event->number);
	struct sim_client *c = find_free(v);

	if (!c)
		return;
	*c = (struct sim_client){ .kind = event->kind };
	if (event->kind == SIM_STATUS && !is_busy(v, SIM_STATUS, 0)) {
		unlink("status.json");
		c->pid = sim_start("status.json", "status --json");
	} else if (event->kind == SIM_TRIGGER) {
		c->pid = sim_start(NULL, "trigger %s%s", pipeline,
				   event->number >> 40 & 1 ? " --wait" : "");
	} else if (event->kind == SIM_PAUSE) {
		c->pid = sim_start(NULL, "pause %s", pipeline);
	} else if (event->kind == SIM_RESUME) {
		c->pid = sim_start(NULL, "resume %s", pipeline);
	} else if (event->kind == SIM_RELOAD) {
		c->pid = sim_start(NULL, "reload");
	} else if (event->kind == SIM_PUT) {
		put(v, c, event->number);
	} else if (event->kind == SIM_GET) {
		get(v, c, event->number);
	}
}

/* A client goes before it has its reply. */
void sim_visits_leave(struct sim_visits *v, uint64_t number)
{
	const pid_t partner = v->partner[number % v->plan->pipelines][number >> 20 & 1];

	if (partner && number >> 30 & 1) {
		hr_kill(partner, SIGKILL);
		return;
	}
	for (unsigned i = 0; i < SIM_CLIENTS; i++) {
		struct sim_client *c = &v->client[(i + number) % SIM_CLIENTS];

		if (!c->pid)
			continue;
		c->left = true;
		hr_kill(c->pid, SIGKILL);
		return;
	}
}

/* The kinds of lies. */
enum lie {
	LIE_RANDOM, /* bytes without a meaning */
	LIE_HEAD,   /* a request whose length and flags are wrong */
	LIE_LONG,   /* a name that is too long */
	LIE_SILENT, /* a request whose reply is not taken */
	LIE_TAP,    /* to a tap or a feed: messages of an unknown version, in any order */
	LIE_CROWD,  /* connections that say nothing */
	LIES
};

/* True: connected to the tap, the feed or the control socket. */
static bool lie_to(const struct sim_visits *v, int *fd, enum lie lie, uint64_t number)
{
	const unsigned pipeline = (unsigned)(number >> 32) % v->plan->pipelines;
	const struct sim_pipeline *p = &v->plan->pipeline[pipeline];
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "run/world.sock" };
	int type = SOCK_STREAM;

	if (lie == LIE_TAP) {
		snprintf(at.sun_path, sizeof at.sun_path, "run/%c%u.%s", p->feed ? 'f' : 't',
			 pipeline, p->feed ? "feed" : "tap");
		type = SOCK_SEQPACKET;
	}
	if (*fd >= 0)
		close(*fd);
	*fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return *fd >= 0 && connect(*fd, (struct sockaddr *)&at, sizeof at) == 0;
}

/* What is sent: its length. data: room for LIE_BYTES */
static size_t fill_lie(uint8_t *data, enum lie lie, uint64_t number)
{
	struct fake_random random = { .state = number | 1 };
	const uint8_t kind = (uint8_t)(number >> 40) % 17;

	fake_random_fill(&random, data, LIE_BYTES);
	if (lie == LIE_HEAD || lie == LIE_LONG || lie == LIE_SILENT)
		memcpy(data, (const uint8_t[]){ 'H', 'R', 'C', 'T', 1, 0, kind, 0 }, 8);
	if (lie == LIE_LONG) {
		memcpy(data + 8, &(const uint32_t[]){ 64 + number % 512, 0 }, 8);
		memset(data + 16, 'p', LIE_BYTES - 16);
		return LIE_BYTES;
	}
	if (lie == LIE_SILENT) {
		data[6] = number & 1 ? 1 : 15;
		memcpy(data + 8, &(const uint32_t[]){ data[6] == 1 ? 0 : 2, 0 }, 8);
		memcpy(data + 16, (const uint8_t[]){ 'p', '0' }, 2);
		return data[6] == 1 ? 16 : 18;
	}
	if (lie == LIE_TAP) {
		memcpy(data,
		       number & 1 ? (const uint8_t[]){ 'H', 'T', 'A', 'P' }
				  : (const uint8_t[]){ 'H', 'F', 'E', 'D' },
		       4);
		data[4] = number >> 4 & 1 ? 3 : (uint8_t)(number >> 41);
		memset(data + 5, 0, 3);
		return 16 + (number >> 20) % 128;
	}
	return 1 + (number >> 16) % LIE_BYTES;
}

/* Bytes that are no request, or the begin of one, on a connection that stays open. */
void sim_visits_lie(struct sim_visits *v, uint64_t number)
{
	const enum lie lie = (enum lie)((number >> 24) % LIES);
	const unsigned connections = lie == LIE_CROWD ? 3 * SIM_SOCKETS : 1;
	uint8_t data[LIE_BYTES];

	for (unsigned i = 0; i < connections; i++) {
		int *fd = &v->socket[(number + i) % SIM_SOCKETS];
		size_t bytes;

		if (!lie_to(v, fd, lie, number) || lie == LIE_CROWD)
			continue;
		bytes = fill_lie(data, lie, number);
		for (unsigned n = 0; n <= (number >> 8) % 3; n++)
			if (send(*fd, data, bytes, MSG_NOSIGNAL) < 0)
				break;
		if (lie == LIE_SILENT && number >> 5 & 1)
			shutdown(*fd, SHUT_WR);
	}
}

void sim_visits_hang_up(struct sim_visits *v)
{
	for (unsigned i = 0; i < SIM_SOCKETS; i++) {
		if (v->socket[i] >= 0)
			close(v->socket[i]);
		v->socket[i] = -1;
	}
}

/* Producers and consumers that have gone are replaced. */
void sim_visits_keep_partners(struct sim_visits *v)
{
	for (unsigned i = 0; i < v->plan->pipelines; i++)
		for (unsigned k = 0; k < 2; k++) {
			const struct sim_pipeline *p = &v->plan->pipeline[i];
			pid_t *pid = &v->partner[i][k];

			if (*pid && hr_wait_child(*pid, NULL, WNOHANG) == *pid)
				*pid = 0;
			if (!*pid && p->tap)
				*pid = sim_consumer_start(v->objects, i);
			else if (!*pid && p->feed && k == 0)
				*pid = sim_producer_start(v->objects, i);
		}
}

void sim_visits_kill_partner(struct sim_visits *v, unsigned pipeline, unsigned which)
{
	if (v->partner[pipeline][which])
		hr_kill(v->partner[pipeline][which], SIGKILL);
}

void sim_visits_end_partners(struct sim_visits *v)
{
	for (unsigned i = 0; i < v->plan->pipelines; i++)
		for (unsigned k = 0; k < 2; k++)
			if (v->partner[i][k]) {
				hr_kill(v->partner[i][k], SIGKILL);
				hr_wait_child(v->partner[i][k], NULL, 0);
			}
}

void sim_visits_are_killed(struct sim_visits *v)
{
	for (unsigned i = 0; i < SIM_CLIENTS; i++)
		v->client[i].left = true;
	sim_visits_hang_up(v);
}
