#include "tests/sim/visits.h"

#include <errno.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/seam.h"
#include "tests/sim/client.h"
#include "tests/sim/command.h"

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
		sim_objects_check(v->objects, c->object, file);
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

/* Bytes that are no request, or the begin of one, on a connection that stays open. */
void sim_visits_lie(struct sim_visits *v, uint64_t number)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "run/world.sock" };
	int *fd = &v->socket[number % SIM_SOCKETS];
	struct fake_random random = { .state = number | 1 };
	uint8_t data[600] = "HRCT\1\0\1";

	if (*fd >= 0)
		close(*fd);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd < 0 || connect(*fd, (struct sockaddr *)&at, sizeof at) != 0)
		return;
	fake_random_fill(&random, data + (number >> 8 & 1 ? 0 : 7), 592);
	if (send(*fd, data, 1 + (number >> 16) % 592, MSG_NOSIGNAL) < 0)
		return;
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
