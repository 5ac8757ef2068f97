#include "boot/appliance/feed_service.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/appliance/socket.h"
#include "boot/appliance/tap_consumer.h"
#include "boot/engine/pass.h"
#include "config/log.h"
#include "config/seam.h"
#include "config/uses.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif
#define ACCEPTS_A_STEP 32

static void watch(const struct hr_feed_service *s, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(s->wake, EPOLL_CTL_ADD, fd, &event) != 0)
		hr_debug("feed: epoll_ctl: %s", strerror(errno));
}

/* ---- clients that are not welcomed */

static void drop(struct hr_feed_client *client)
{
	shutdown(client->fd, SHUT_RDWR);
	close(client->fd);
	client->fd = -1;
}

static void refuse(struct hr_feed_port *port, struct hr_feed_client *client, int err,
		   const char *why)
{
	struct hr_run *run = port->producer.run;
	struct hr_tap_message m;

	run->feed.refused++;
	hr_info("feed '%s': process %d of user %u is refused: %s", run->config->feed.name,
		(int)client->peer.process, (unsigned)client->peer.user, why);
	hr_feed_message_begin(&m, HR_TAP_REFUSED);
	m.code = (uint16_t)-err;
	snprintf(m.text, sizeof m.text, "%s", why);
	if (hr_pass_send(client->fd, &m, sizeof m, NULL, 0) != 0)
		hr_debug("feed: the client does not take its refusal");
	drop(client);
}

/* A descriptor that is readable when the process has ended; -1: the kernel has none for it, as for a
 * process of a PID namespace that is not visible here. */
static int open_process(const struct hr_feed_client *client)
{
	int fd = -1;
	socklen_t bytes = sizeof fd;

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0)
		return fd;
	return client->peer.process > 0 ? (int)syscall(SYS_pidfd_open, client->peer.process, 0)
					: -1;
}

static void greet(const struct hr_feed_service *s, struct hr_feed_port *port,
		  struct hr_feed_client *client)
{
	const int pidfd = open_process(client);
	struct hr_error e = { 0 };
	const int err = hr_feed_producer_greet(&port->producer, &client->hello, &client->peer,
					       client->fd, pidfd, &e);

	if (err) {
		if (pidfd >= 0)
			close(pidfd);
		refuse(port, client, err, e.text);
		return;
	}
	if (pidfd >= 0)
		watch(s, pidfd);
	client->fd = -1;
}

/* A client that has sent HELLO. */
static void decide(const struct hr_feed_service *s, struct hr_feed_port *port,
		   struct hr_feed_client *client)
{
	const struct hr_feed_producer *p = &port->producer;
	char text[120];

	if (p->state == HR_FEED_ABSENT) {
		greet(s, port, client);
	} else if (p->state != HR_FEED_CLOSING) {
		snprintf(text, sizeof text, "process %d of user %u is attached",
			 (int)p->peer.process, (unsigned)p->peer.user);
		refuse(port, client, -EBUSY, text);
	}
}

static void hear(struct hr_feed_port *port, struct hr_feed_client *client)
{
	struct hr_tap_message *m = &client->hello;
	const int came = hr_tap_message_receive(client->fd, m);
	char text[120];

	if (!came)
		return;
	if (came < 0 && came != -EPROTO) {
		drop(client);
	} else if (came < 0 || m->kind != HR_FEED_HELLO || client->waits) {
		refuse(port, client, -EPROTO, "the bytes are not a greeting of a producer");
	} else if (m->version_least > HR_FEED_VERSION || m->version < HR_FEED_VERSION) {
		snprintf(text, sizeof text,
			 "it speaks versions %u to %u, and the feed has version %u",
			 m->version_least, m->version, HR_FEED_VERSION);
		refuse(port, client, -EPROTONOSUPPORT, text);
	} else {
		client->waits = true;
	}
}

static void step_client(const struct hr_feed_service *s, struct hr_feed_port *port,
			struct hr_feed_client *client, bool events, uint64_t now_ns)
{
	if (events)
		hear(port, client);
	if (client->fd >= 0 && client->waits)
		decide(s, port, client);
	else if (client->fd >= 0 && now_ns - client->since_ns >= HR_FEED_HELLO_NS)
		refuse(port, client, -ETIMEDOUT, "it sent no greeting in time");
}

/* A free entry, or that of the oldest client. */
static struct hr_feed_client *take_entry(struct hr_feed_port *port)
{
	struct hr_feed_client *oldest = &port->client[0];

	for (uint32_t i = 0; i < HR_FEED_CLIENTS; i++) {
		struct hr_feed_client *client = &port->client[i];

		if (client->fd < 0)
			return client;
		if (client->since_ns < oldest->since_ns)
			oldest = client;
	}
	drop(oldest);
	return oldest;
}

static void admit(const struct hr_feed_service *s, struct hr_feed_port *port, int fd,
		  uint64_t now_ns)
{
	struct hr_feed_client *client = take_entry(port);
	char text[96];

	memset(client, 0, sizeof *client);
	client->fd = fd;
	client->since_ns = now_ns;
	watch(s, fd);
	if (hr_credentials_get(&client->peer, fd, &port->users) == 0 && client->peer.may_change)
		return;
	snprintf(text, sizeof text, "user %u is neither the owner nor in the group of the feed",
		 (unsigned)client->peer.user);
	refuse(port, client, -EACCES, text);
}

static void admit_all(const struct hr_feed_service *s, struct hr_feed_port *port, uint64_t now_ns)
{
	for (int i = 0; i < ACCEPTS_A_STEP; i++) {
		const int fd = accept4(port->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		admit(s, port, fd, now_ns);
	}
}

/* ---- ports */

static void close_port(struct hr_feed_port *port)
{
	for (uint32_t i = 0; i < HR_FEED_CLIENTS; i++)
		if (port->client[i].fd >= 0)
			refuse(port, &port->client[i], -EPIPE, "the run has ended");
	hr_feed_producer_end(&port->producer);
	close(port->fd);
	unlink(port->at.sun_path);
	port->open = false;
}

static void step_port(const struct hr_feed_service *s, struct hr_feed_port *port, bool events,
		      uint64_t now_ns)
{
	if (port->producer.run->ended_ns) {
		close_port(port);
		return;
	}
	/* the producer first: when it is gone, the next one need not ask again */
	hr_feed_producer_step(&port->producer, events, now_ns);
	if (events)
		admit_all(s, port, now_ns);
	for (uint32_t i = 0; i < HR_FEED_CLIENTS; i++)
		if (port->client[i].fd >= 0)
			step_client(s, port, &port->client[i], events, now_ns);
}

static int open_port(struct hr_feed_service *s, struct hr_run *run, struct hr_error *e)
{
	const struct hr_config_feed *feed = &run->config->feed;
	struct hr_feed_port *port = &s->port[s->ports];
	int err;

	memset(port, 0, sizeof *port);
	port->producer.run = run;
	port->producer.fd = port->producer.pidfd = -1;
	port->users.group = feed->group;
	port->users.mode = feed->group == HR_CONTROL_NO_GROUP ? 0600 : 0660;
	for (uint32_t i = 0; i < HR_FEED_CLIENTS; i++)
		port->client[i].fd = -1;
	do
		err = hr_random(&port->producer.epoch, sizeof port->producer.epoch);
	while (!err && !port->producer.epoch); /* a page that is all zero does not end the feed */
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "random numbers: %s", strerror(-err));
	port->fd = hr_socket_listen_feed(&port->at, feed->name, &port->users, e);
	if (port->fd < 0)
		return port->fd;
	port->open = true;
	s->ports++;
	watch(s, port->fd);
	return 0;
}

/* A run whose sink is complete does not start. */
static bool is_served(const struct hr_run *run)
{
	return run->selected && hr_config_has_feed(run->config) && run->cpu.feed &&
	       run->outcome == HR_RUN_WAITING;
}

int hr_feed_service_open(struct hr_feed_service *s, struct hr_appliance *app, struct hr_error *e)
{
	int err = 0;

	memset(s, 0, sizeof *s);
	s->wake = -1;
	for (uint32_t i = 0; !err && i < app->config.pipelines; i++) {
		if (!is_served(&app->run[i]))
			continue;
		if (s->wake < 0)
			s->wake = epoll_create1(EPOLL_CLOEXEC);
		err = s->wake < 0
			      ? hr_fail(e, HR_ERROR_MISSING, -errno, "epoll: %s", strerror(errno))
			      : open_port(s, &app->run[i], e);
		hr_error_context(e, "pipeline '%s': feed '%s'", app->run[i].config->name,
				 app->run[i].config->feed.name);
	}
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
	if (now_ns - s->at_ns < HR_FEED_STEP_NS)
		return;
	s->at_ns = now_ns;
	events = hr_wait_readable(s->wake, 0);
	for (uint32_t i = 0; i < s->ports; i++)
		if (s->port[i].open)
			step_port(s, &s->port[i], events, now_ns);
}

void hr_feed_service_close(struct hr_feed_service *s)
{
	for (uint32_t i = 0; i < s->ports; i++)
		if (s->port[i].open)
			close_port(&s->port[i]);
	if (s->wake >= 0)
		close(s->wake);
	s->wake = -1;
	s->ports = 0;
}
