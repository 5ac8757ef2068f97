/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/service.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "boot/appliance/protocol/tap_message.h"
#include "boot/appliance/schedule/retry.h"
#include "boot/engine/shared_memory.h"
#include "config/base/log.h"
#include "config/base/scm.h"
#include "config/base/seam.h"
#include "config/derived.h"

/* ---- what both do alike */

static int open_look(struct hr_lend_look *look, const char *of, struct hr_error *e)
{
	if (look->wake < 0)
		look->wake = epoll_create1(EPOLL_CLOEXEC);
	return look->wake < 0
		       ? hr_fail(e, HR_ERROR_MISSING, -errno, "%sepoll: %s", of, strerror(errno))
		       : 0;
}

static void close_look(struct hr_lend_look *look)
{
	if (look->wake >= 0)
		close(look->wake);
	look->wake = -1;
}

/* True: look at the ports now. events: a descriptor may be readable. */
static bool is_time(struct hr_lend_look *look, uint64_t *now_ns, bool *events)
{
	if (!look->ports)
		return false;
	*now_ns = hr_now_ns();
	if (*now_ns - look->at_ns < HR_TAP_STEP_NS)
		return false;
	look->at_ns = *now_ns;
	*events = hr_wait_readable(look->wake, 0);
	return true;
}

/* A random epoch. A page that is all zero does not end a feed. */
static int draw_epoch(uint64_t *epoch, struct hr_error *e)
{
	int err;

	do
		err = hr_random(epoch, sizeof *epoch);
	while (!err && !*epoch);
	return err ? hr_fail(e, HR_ERROR_MISSING, err, "random numbers: %s", strerror(-err)) : 0;
}

/* The client has got a seat (0), or is refused. */
static void answer(struct hr_tap_clients *clients, struct hr_tap_client *client, int pidfd, int err,
		   const struct hr_error *e)
{
	if (!err) {
		hr_tap_clients_seated(clients, client, pidfd);
		return;
	}
	if (pidfd >= 0)
		close(pidfd);
	hr_tap_clients_refuse(clients, client, err, e->text);
}

/* ---- clients of a tap without a seat */

static void greet_consumer(struct hr_tap_port *port, struct hr_tap_client *client)
{
	const int seat = hr_tap_consumer_seat(&port->table);
	const int pidfd = hr_tap_client_process(client);
	struct hr_error e = { 0 };
	int err;

	if (seat < 0)
		err = hr_fail(&e, HR_ERROR_FAILED, seat, "all %u seats of the tap are in use",
			      HR_TAP_SEATS);
	else
		err = hr_tap_consumer_greet(&port->table, (uint32_t)seat, client, pidfd, &e);
	answer(&port->clients, client, pidfd, err, &e);
}

/* There is no run with tiles: the client waits for the next one. A client that waited for a tile may
 * wait for a run later. */
static void let_wait_for_tiles(const struct hr_tap_port *port, struct hr_tap_client *client)
{
	struct hr_tap_message m;

	if (client->told == port->state)
		return;
	hr_tap_message_begin(&m, HR_TAP_WAIT, HR_TAP_VERSION);
	snprintf(m.text, sizeof m.text,
		 port->state == HR_LEND_LIVE
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
	return port->state == HR_LEND_LIVE &&
	       !hr_acquire_sys_u64(&hr_run_tap_words(port->table.run)->last);
}

static void greet_consumers(struct hr_tap_port *port)
{
	struct hr_tap_client *client;

	for (uint32_t i = 0; (client = hr_tap_clients_waiting(&port->clients, &i));) {
		if (port->state == HR_LEND_OVER)
			hr_tap_clients_refuse(&port->clients, client, -EPIPE, "the run has ended");
		else if (has_tiles(port))
			greet_consumer(port, client);
		else
			let_wait_for_tiles(port, client);
	}
}

/* ---- taps */

/* The run has ended, and this is what becomes of the pipeline. */
static bool runs_again(const struct hr_lend_service *s, const struct hr_run *run)
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

static void close_tap(struct hr_lend_service *s, struct hr_tap_port *port)
{
	port->state = HR_LEND_CLOSED;
	s->taps.ports--;
}

static void end_tap(struct hr_lend_service *s, uint32_t i)
{
	struct hr_tap_port *port = &s->tap[i];
	const struct hr_run *run = port->table.run;

	if (port->state != HR_LEND_LIVE)
		return;
	log_failed(port);
	s->engine->tap_tiles[i].may_be_read |= run->outcome != HR_RUN_DONE;
	hr_tap_consumers_end(&port->table,
			     runs_again(s, run) && run->outcome != HR_RUN_INTERRUPTED);
	port->state = runs_again(s, run) ? HR_LEND_IDLE : HR_LEND_OVER;
	if (port->state == HR_LEND_OVER)
		hr_tap_clients_refuse_all(&port->clients, -EPIPE, "the run has ended");
	if (!s->supervised) {
		hr_tap_socket_close(s->sockets, i);
		close_tap(s, port);
	}
}

static void step_tap(struct hr_lend_service *s, uint32_t i, bool events, uint64_t now_ns)
{
	struct hr_tap_port *port = &s->tap[i];

	if (s->engine->run[i].ended_ns)
		end_tap(s, i);
	if (port->state == HR_LEND_CLOSED)
		return;
	hr_tap_clients_step(&port->clients, events, now_ns);
	greet_consumers(port);
	if (port->state != HR_LEND_LIVE)
		return;
	log_failed(port);
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		hr_tap_consumer_step(&port->table, seat, events, now_ns);
	hr_tap_consumers_allot(&port->table, now_ns);
}

static int begin_tap(struct hr_lend_service *s, uint32_t i, struct hr_error *e)
{
	struct hr_tap_port *port = &s->tap[i];
	int err;

	if (port->state == HR_LEND_CLOSED)
		return 0;
	err = draw_epoch(&port->table.epoch, e);
	if (err)
		return err;
	port->state = HR_LEND_LIVE;
	port->table.failed = 0;
	greet_consumers(port);
	return 0;
}

static int open_tap(struct hr_lend_service *s, uint32_t i, struct hr_error *e)
{
	struct hr_tap_port *port = &s->tap[i];
	struct hr_tap_clients *c = &port->clients;
	struct hr_run *run = &s->engine->run[i];
	const int err = open_look(&s->taps, "taps: ", e);

	if (err)
		return err;
	port->table.engine = s->engine;
	port->table.run = run;
	port->table.pipeline = i;
	port->table.facts = s->engine->backend[run->config->gpu].facts;
	hr_tap_consumers_begin(&port->table);
	*c = (struct hr_tap_clients){ .kind = &hr_lend_tap,
				      .name = run->config->tap.name,
				      .refused = &run->tap.refused,
				      .fd = s->sockets->fd[i],
				      .wake = s->taps.wake };
	hr_lend_users(run->config->tap.group, &c->users);
	hr_tap_clients_begin(c);
	port->state = runs_again(s, run) ? HR_LEND_IDLE : HR_LEND_OVER;
	s->taps.ports++;
	return s->engine->up >= HR_STAGE_QUEUES && run->selected && run->outcome == HR_RUN_WAITING
		       ? begin_tap(s, i, e)
		       : 0;
}

/* ---- clients of a feed without a seat */

static void greet_producer(struct hr_feed_port *port, struct hr_tap_client *client)
{
	const int pidfd = hr_tap_client_process(client);
	struct hr_error e = { 0 };
	const int err = hr_feed_producer_greet(&port->producer, client, pidfd, &e);

	if (err != -EAGAIN)
		answer(&port->clients, client, pidfd, err, &e);
	else if (pidfd >= 0)
		close(pidfd);
}

/* While the tiles of the producer before are being computed, or its process ends, the client waits. */
static void greet_producers(struct hr_feed_port *port)
{
	const struct hr_lend_peer *peer = &port->producer.peer;
	struct hr_tap_client *client;
	char text[120];

	for (uint32_t i = 0; (client = hr_tap_clients_waiting(&port->clients, &i));) {
		if (peer->state == HR_LEND_FREE) {
			greet_producer(port, client);
		} else if (peer->state != HR_LEND_CLOSING) {
			snprintf(text, sizeof text, "process %d of user %u is attached",
				 (int)peer->credentials.process, (unsigned)peer->credentials.user);
			hr_tap_clients_refuse(&port->clients, client, -EBUSY, text);
		}
	}
}

/* ---- feeds */

static void end_feed(struct hr_lend_service *s, uint32_t i)
{
	struct hr_feed_port *port = &s->feed[i];

	if (port->state == HR_LEND_CLOSED)
		return;
	hr_tap_clients_refuse_all(&port->clients, -EPIPE, "the run has ended");
	hr_feed_producer_end(&port->producer);
	close(port->clients.fd);
	unlink(port->at.sun_path);
	port->state = HR_LEND_CLOSED;
	s->feeds.ports--;
}

static void step_feed(struct hr_lend_service *s, uint32_t i, bool events, uint64_t now_ns)
{
	struct hr_feed_port *port = &s->feed[i];

	if (s->engine->run[i].ended_ns)
		end_feed(s, i);
	if (port->state == HR_LEND_CLOSED)
		return;
	/* the producer first: when it is gone, the next one need not ask again */
	hr_feed_producer_step(&port->producer, events, now_ns);
	hr_tap_clients_step(&port->clients, events, now_ns);
	greet_producers(port);
}

static int open_feed(struct hr_lend_service *s, uint32_t i, struct hr_error *e)
{
	struct hr_run *run = &s->engine->run[i];
	const struct hr_config_feed *feed = &run->config->feed;
	struct hr_feed_port *port = &s->feed[i];
	const struct hr_feed_owner owner = port->producer.owner;
	struct hr_tap_clients *c = &port->clients;
	int err;

	memset(port, 0, sizeof *port);
	port->producer.run = run;
	port->producer.memory = &s->engine->feed_memory[i];
	port->producer.facts = s->engine->backend[run->config->gpu].facts;
	port->producer.owner = owner;
	hr_lend_peer_begin(&port->producer.peer, &hr_lend_feed, feed->name);
	err = draw_epoch(&port->producer.epoch, e);
	if (err)
		return err;
	*c = (struct hr_tap_clients){ .kind = &hr_lend_feed,
				      .name = feed->name,
				      .refused = &run->feed.refused,
				      .wake = s->feeds.wake };
	hr_lend_users(feed->group, &c->users);
	c->fd = hr_socket_listen_feed(&port->at, feed->name, &c->users, e);
	if (c->fd < 0)
		return c->fd;
	hr_tap_clients_begin(c);
	port->state = HR_LEND_LIVE;
	s->feeds.ports++;
	return 0;
}

static int begin_feed(struct hr_lend_service *s, uint32_t i, struct hr_error *e)
{
	const struct hr_config_pipeline *pipeline = s->engine->run[i].config;
	int err;

	if (!hr_config_has_feed(pipeline) || hr_config_receives(pipeline))
		return 0;
	err = open_look(&s->feeds, "", e);
	if (!err)
		err = open_feed(s, i, e);
	hr_error_context(e, "pipeline '%s': feed '%s'", pipeline->name, pipeline->feed.name);
	return err;
}

/* A run whose sink is complete does not start. */
static bool is_fed(const struct hr_run *run)
{
	return run->selected && run->cpu.feed && run->outcome == HR_RUN_WAITING;
}

/* ---- the service */

int hr_lend_service_open(struct hr_lend_service *s, struct hr_engine *engine,
			 struct hr_tap_sockets *sockets, bool supervised, struct hr_error *e)
{
	int err = 0;

	memset(s, 0, sizeof *s);
	s->engine = engine;
	s->sockets = sockets;
	s->supervised = supervised;
	s->taps.wake = s->feeds.wake = -1;
	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		if (sockets && sockets->fd[i] >= 0)
			err = open_tap(s, i, e);
	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		if (is_fed(&engine->run[i]))
			err = begin_feed(s, i, e);
	if (err)
		hr_lend_service_close(s);
	return err;
}

int hr_lend_service_begin(struct hr_lend_service *s, uint32_t i, struct hr_error *e)
{
	const int err = s->engine ? begin_tap(s, i, e) : 0;

	return !err && s->engine ? begin_feed(s, i, e) : err;
}

void hr_lend_service_end(struct hr_lend_service *s, uint32_t i)
{
	if (!s->engine)
		return;
	end_tap(s, i);
	end_feed(s, i);
}

void hr_lend_service_step(struct hr_lend_service *s)
{
	uint64_t now_ns;
	bool events;

	if (is_time(&s->taps, &now_ns, &events))
		for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
			step_tap(s, i, events, now_ns);
	if (is_time(&s->feeds, &now_ns, &events))
		for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
			step_feed(s, i, events, now_ns);
}

void hr_lend_service_snapshot(const struct hr_lend_service *s,
			      struct hr_record_consumer consumers[HR_RECORD_CONSUMERS],
			      struct hr_record_producer producers[HR_PIPELINES_MAX])
{
	uint32_t count = 0;

	memset(consumers, 0, HR_RECORD_CONSUMERS * sizeof *consumers);
	memset(producers, 0, HR_PIPELINES_MAX * sizeof *producers);
	for (uint32_t i = 0; s->engine && i < s->engine->config.pipelines; i++) {
		for (uint32_t seat = 0; s->tap[i].state == HR_LEND_LIVE && seat < HR_TAP_SEATS &&
					count < HR_RECORD_CONSUMERS;
		     seat++)
			count +=
				hr_tap_consumer_snapshot(&s->tap[i].table, seat, &consumers[count]);
		if (s->feed[i].state == HR_LEND_LIVE)
			hr_feed_producer_snapshot(&s->feed[i].producer, &producers[i]);
	}
}

/* Clients of a supervised tap that wait connect again, and wait for the next engine. */
void hr_lend_service_close(struct hr_lend_service *s)
{
	if (!s->engine)
		return;
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++) {
		hr_lend_service_end(s, i);
		hr_feed_owner_forget(&s->feed[i].producer.owner);
		if (s->tap[i].state == HR_LEND_CLOSED)
			continue;
		hr_tap_clients_drop(&s->tap[i].clients);
		close_tap(s, &s->tap[i]);
	}
	close_look(&s->taps);
	close_look(&s->feeds);
	s->engine = NULL;
}
