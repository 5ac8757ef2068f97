#include "boot/appliance/lend/taps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "boot/appliance/schedule/retry.h"
#include "boot/appliance/protocol/tap_message.h"
#include "config/base/scm.h"
#include "boot/engine/shared_memory.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "config/derived.h"

/* ---- clients without a seat */

static void greet(struct hr_tap_port *port, struct hr_tap_client *client)
{
	const int seat = hr_tap_consumer_seat(&port->table);
	const int pidfd = hr_tap_client_process(client);
	struct hr_error e = { 0 };
	int err = seat;

	if (seat < 0)
		hr_fail(&e, HR_ERROR_FAILED, seat, "all %u seats of the tap are in use",
			HR_TAP_SEATS);
	else
		err = hr_tap_consumer_greet(&port->table, (uint32_t)seat, client, pidfd, &e);
	if (err >= 0) {
		hr_tap_clients_seated(&port->clients, client, pidfd);
		return;
	}
	if (pidfd >= 0)
		close(pidfd);
	hr_tap_clients_refuse(&port->clients, client, err, e.text);
}

/* There is no run with tiles: the client waits for the next one. A client that waited for a tile may
 * wait for a run later. */
static void let_wait(const struct hr_tap_port *port, struct hr_tap_client *client)
{
	struct hr_tap_message m;

	if (client->told == port->state)
		return;
	hr_tap_message_begin(&m, HR_TAP_WAIT, HR_TAP_VERSION);
	snprintf(m.text, sizeof m.text,
		 port->state == HR_TAP_LIVE
			 ? "pipeline '%.64s' has lent all its tiles to other consumers"
			 : "pipeline '%.64s' does not run now: it has to start first",
		 port->table.run->config->name);
	if (hr_scm_send(client->fd, &m, sizeof m, NULL, 0) != 0)
		hr_debug("tap: the client does not take its answer");
	client->told = port->state;
}

/* A consumer that attaches now can get a tile. Otherwise it waits for the next run, or for a
 * tile that another consumer does not give back. */
static bool has_tiles(const struct hr_tap_port *port)
{
	return port->state == HR_TAP_LIVE &&
	       !hr_acquire_sys_u64(&hr_run_tap_words(port->table.run)->last);
}

static void greet_waiting(struct hr_tap_port *port)
{
	struct hr_tap_client *client;

	for (uint32_t i = 0; (client = hr_tap_clients_waiting(&port->clients, &i));) {
		if (port->state == HR_TAP_OVER)
			hr_tap_clients_refuse(&port->clients, client, -EPIPE, "the run has ended");
		else if (has_tiles(port))
			greet(port, client);
		else
			let_wait(port, client);
	}
}

/* ---- ports */

/* The run has ended, and this is what becomes of the pipeline. */
static bool runs_again(const struct hr_tap_service *s, const struct hr_run *run)
{
	if (!s->supervised)
		return false;
	if (hr_config_repeats(&s->engine->config))
		return true;
	return run->outcome == HR_RUN_WAITING ||
	       (run->outcome == HR_RUN_FAILED && !hr_error_is_final(run->error));
}

static void log_failed(struct hr_tap_port *port)
{
	const struct hr_tap_words *words = hr_run_tap_words(port->table.run);
	const struct hr_config_tap *tap = &port->table.run->config->tap;
	const uint64_t failed = hr_acquire_sys_u64(&words->failed);

	if (failed == port->table.failed)
		return;
	port->table.failed = failed;
	hr_warn("tap '%s': tile %llu is dropped: consumers have given it back as failed %u times; "
		"%llu tiles so far",
		tap->name, (unsigned long long)hr_acquire_sys_u64(&words->failed_tile), tap->tries,
		(unsigned long long)failed);
}

static void end_port(struct hr_tap_service *s, uint32_t i)
{
	struct hr_tap_port *port = &s->port[i];
	const struct hr_run *run = port->table.run;

	log_failed(port);
	s->engine->tap_tiles[i].may_be_read |= run->outcome != HR_RUN_DONE;
	hr_tap_consumers_end(&port->table,
			     runs_again(s, run) && run->outcome != HR_RUN_INTERRUPTED);
	port->state = runs_again(s, run) ? HR_TAP_IDLE : HR_TAP_OVER;
	if (port->state == HR_TAP_OVER)
		hr_tap_clients_refuse_all(&port->clients, -EPIPE, "the run has ended");
	if (!s->supervised) {
		hr_tap_socket_close(s->sockets, i);
		port->state = HR_TAP_CLOSED;
	}
}

static void step_port(struct hr_tap_port *port, bool events, uint64_t now_ns)
{
	hr_tap_clients_step(&port->clients, events, now_ns);
	greet_waiting(port);
	if (port->state == HR_TAP_LIVE)
		log_failed(port);
	for (uint32_t seat = 0; port->state == HR_TAP_LIVE && seat < HR_TAP_SEATS; seat++)
		hr_tap_consumer_step(&port->table, seat, events, now_ns);
	if (port->state == HR_TAP_LIVE)
		hr_tap_consumers_allot(&port->table, now_ns);
}

static void open_port(struct hr_tap_service *s, uint32_t i)
{
	struct hr_tap_port *port = &s->port[i];
	struct hr_tap_clients *c = &port->clients;
	struct hr_run *run = &s->engine->run[i];

	port->table.engine = s->engine;
	port->table.run = run;
	port->table.pipeline = i;
	port->table.facts = s->engine->backend[run->config->gpu].facts;
	hr_tap_consumers_begin(&port->table);
	*c = (struct hr_tap_clients){ .kind = &hr_lend_tap,
				      .name = run->config->tap.name,
				      .refused = &run->tap.refused,
				      .fd = s->sockets->fd[i],
				      .wake = s->wake };
	hr_tap_users(&run->config->tap, &c->users);
	hr_tap_clients_begin(c);
	port->state = runs_again(s, run) ? HR_TAP_IDLE : HR_TAP_OVER;
}

int hr_tap_service_begin(struct hr_tap_service *s, uint32_t i, struct hr_error *e)
{
	struct hr_tap_port *port = &s->port[i];
	int err;

	if (!s->engine || port->state == HR_TAP_CLOSED)
		return 0;
	err = hr_random(&port->table.epoch, sizeof port->table.epoch);
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "random numbers: %s", strerror(-err));
	port->state = HR_TAP_LIVE;
	port->table.failed = 0;
	greet_waiting(port);
	return 0;
}

void hr_tap_service_end(struct hr_tap_service *s, uint32_t i)
{
	if (s->engine && s->port[i].state == HR_TAP_LIVE)
		end_port(s, i);
}

static bool is_up(const struct hr_engine *engine, const struct hr_run *run)
{
	return engine->up >= HR_STAGE_QUEUES && run->selected && run->outcome == HR_RUN_WAITING;
}

int hr_tap_service_open(struct hr_tap_service *s, struct hr_engine *engine,
			struct hr_tap_sockets *sockets, bool supervised, struct hr_error *e)
{
	int err = 0;

	memset(s, 0, sizeof *s);
	s->engine = engine;
	s->sockets = sockets;
	s->supervised = supervised;
	s->wake = -1;
	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++) {
		if (!sockets || sockets->fd[i] < 0)
			continue;
		if (s->wake < 0)
			s->wake = epoll_create1(EPOLL_CLOEXEC);
		if (s->wake < 0) {
			err = hr_fail(e, HR_ERROR_MISSING, -errno, "taps: epoll: %s",
				      strerror(errno));
			continue;
		}
		open_port(s, i);
		if (is_up(engine, &engine->run[i]))
			err = hr_tap_service_begin(s, i, e);
	}
	if (err)
		hr_tap_service_close(s);
	return err;
}

void hr_tap_service_step(struct hr_tap_service *s)
{
	uint64_t now_ns;
	bool events;

	if (!s->engine || s->wake < 0)
		return;
	now_ns = hr_now_ns();
	if (now_ns - s->at_ns < HR_TAP_STEP_NS)
		return;
	s->at_ns = now_ns;
	events = hr_wait_readable(s->wake, 0);
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++) {
		if (s->port[i].state == HR_TAP_LIVE && s->engine->run[i].ended_ns)
			end_port(s, i);
		if (s->port[i].state != HR_TAP_CLOSED)
			step_port(&s->port[i], events, now_ns);
	}
}

/* Clients of a supervised tap that wait connect again, and wait for the next engine. */
static void close_port(struct hr_tap_service *s, uint32_t i)
{
	struct hr_tap_port *port = &s->port[i];

	hr_tap_service_end(s, i);
	if (port->state == HR_TAP_CLOSED)
		return;
	hr_tap_clients_drop(&port->clients);
	port->state = HR_TAP_CLOSED;
}

void hr_tap_service_close(struct hr_tap_service *s)
{
	if (!s->engine)
		return;
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
		close_port(s, i);
	if (s->wake >= 0)
		close(s->wake);
	s->wake = -1;
	s->engine = NULL;
}

void hr_tap_service_snapshot(const struct hr_tap_service *s,
			     struct hr_record_consumer consumers[HR_RECORD_CONSUMERS])
{
	uint32_t count = 0;

	memset(consumers, 0, HR_RECORD_CONSUMERS * sizeof *consumers);
	for (uint32_t i = 0; s->engine && i < s->engine->config.pipelines; i++)
		for (uint32_t seat = 0; s->port[i].state == HR_TAP_LIVE && seat < HR_TAP_SEATS &&
					count < HR_RECORD_CONSUMERS;
		     seat++)
			count += hr_tap_consumer_snapshot(&s->port[i].table, seat,
							  &consumers[count]);
}
