#include "boot/appliance/lend/feeds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "boot/appliance/protocol/socket.h"
#include "config/base/seam.h"
#include "config/derived.h"

/* ---- clients that are not welcomed */

static void greet(struct hr_feed_port *port, struct hr_tap_client *client)
{
	const int pidfd = hr_tap_client_process(client);
	struct hr_error e = { 0 };
	const int err = hr_feed_producer_greet(&port->producer, client, pidfd, &e);

	if (!err) {
		hr_tap_clients_seated(&port->clients, client, pidfd);
		return;
	}
	if (pidfd >= 0)
		close(pidfd);
	if (err != -EAGAIN)
		hr_tap_clients_refuse(&port->clients, client, err, e.text);
}

/* While the tiles of the producer before are being computed, or its process ends, the client waits. */
static void greet_waiting(struct hr_feed_port *port)
{
	const struct hr_feed_producer *p = &port->producer;
	struct hr_tap_client *client;
	char text[120];

	for (uint32_t i = 0; (client = hr_tap_clients_waiting(&port->clients, &i));) {
		if (p->peer.state == HR_LEND_FREE) {
			greet(port, client);
		} else if (p->peer.state != HR_LEND_CLOSING) {
			snprintf(text, sizeof text, "process %d of user %u is attached",
				 (int)p->peer.credentials.process,
				 (unsigned)p->peer.credentials.user);
			hr_tap_clients_refuse(&port->clients, client, -EBUSY, text);
		}
	}
}

/* ---- ports */

static void close_port(struct hr_feed_service *s, struct hr_feed_port *port)
{
	hr_tap_clients_refuse_all(&port->clients, -EPIPE, "the run has ended");
	hr_feed_producer_end(&port->producer);
	close(port->clients.fd);
	unlink(port->at.sun_path);
	port->open = false;
	s->ports--;
}

static void step_port(struct hr_feed_service *s, struct hr_feed_port *port, bool events,
		      uint64_t now_ns)
{
	if (port->producer.run->ended_ns) {
		close_port(s, port);
		return;
	}
	/* the producer first: when it is gone, the next one need not ask again */
	hr_feed_producer_step(&port->producer, events, now_ns);
	hr_tap_clients_step(&port->clients, events, now_ns);
	greet_waiting(port);
}

static int open_port(struct hr_feed_service *s, uint32_t i, struct hr_error *e)
{
	struct hr_run *run = &s->engine->run[i];
	const struct hr_config_feed *feed = &run->config->feed;
	struct hr_feed_port *port = &s->port[i];
	const struct hr_feed_owner owner = port->producer.owner;
	struct hr_tap_clients *c = &port->clients;
	int err;

	memset(port, 0, sizeof *port);
	port->producer.run = run;
	port->producer.memory = &s->engine->feed_memory[i];
	port->producer.facts = s->engine->backend[run->config->gpu].facts;
	port->producer.owner = owner;
	hr_lend_peer_begin(&port->producer.peer, &hr_lend_feed, feed->name);
	do
		err = hr_random(&port->producer.epoch, sizeof port->producer.epoch);
	while (!err && !port->producer.epoch); /* a page that is all zero does not end the feed */
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "random numbers: %s", strerror(-err));
	*c = (struct hr_tap_clients){ .kind = &hr_lend_feed,
				      .name = feed->name,
				      .refused = &run->feed.refused,
				      .wake = s->wake };
	c->users.group = feed->group;
	c->users.mode = feed->group == HR_CONTROL_NO_GROUP ? 0600 : 0660;
	c->fd = hr_socket_listen_feed(&port->at, feed->name, &c->users, e);
	if (c->fd < 0)
		return c->fd;
	hr_tap_clients_begin(c);
	port->open = true;
	s->ports++;
	return 0;
}

int hr_feed_service_begin(struct hr_feed_service *s, uint32_t i, struct hr_error *e)
{
	const struct hr_run *run = &s->engine->run[i];
	int err = 0;

	if (!hr_config_has_feed(run->config) || hr_config_receives(run->config))
		return 0;
	if (s->wake < 0)
		s->wake = epoll_create1(EPOLL_CLOEXEC);
	err = s->wake < 0 ? hr_fail(e, HR_ERROR_MISSING, -errno, "epoll: %s", strerror(errno))
			  : open_port(s, i, e);
	hr_error_context(e, "pipeline '%s': feed '%s'", run->config->name, run->config->feed.name);
	return err;
}

void hr_feed_service_end(struct hr_feed_service *s, uint32_t i)
{
	if (s->port[i].open)
		close_port(s, &s->port[i]);
}

/* A run whose sink is complete does not start. */
static bool is_served(const struct hr_run *run)
{
	return run->selected && run->cpu.feed && run->outcome == HR_RUN_WAITING;
}

int hr_feed_service_open(struct hr_feed_service *s, struct hr_engine *engine, struct hr_error *e)
{
	int err = 0;

	memset(s, 0, sizeof *s);
	s->engine = engine;
	s->wake = -1;
	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++)
		if (is_served(&engine->run[i]))
			err = hr_feed_service_begin(s, i, e);
	if (err)
		hr_feed_service_close(s);
	return err;
}

void hr_feed_service_step(struct hr_feed_service *s)
{
	uint64_t now_ns;
	bool events;

	if (!s->ports)
		return;
	now_ns = hr_now_ns();
	if (now_ns - s->at_ns < HR_TAP_STEP_NS)
		return;
	s->at_ns = now_ns;
	events = hr_wait_readable(s->wake, 0);
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++)
		if (s->port[i].open)
			step_port(s, &s->port[i], events, now_ns);
}

void hr_feed_service_snapshot(const struct hr_feed_service *s,
			      struct hr_record_producer producers[HR_PIPELINES_MAX])
{
	memset(producers, 0, HR_PIPELINES_MAX * sizeof *producers);
	for (uint32_t i = 0; s->engine && i < s->engine->config.pipelines; i++)
		if (s->port[i].open)
			hr_feed_producer_snapshot(&s->port[i].producer, &producers[i]);
}

void hr_feed_service_close(struct hr_feed_service *s)
{
	if (!s->engine)
		return;
	for (uint32_t i = 0; i < s->engine->config.pipelines; i++) {
		hr_feed_service_end(s, i);
		hr_feed_owner_forget(&s->port[i].producer.owner);
	}
	if (s->wake >= 0)
		close(s->wake);
	s->wake = -1;
	s->engine = NULL;
}
