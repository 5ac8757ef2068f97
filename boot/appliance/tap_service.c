#include "boot/appliance/tap_service.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/appliance/retry.h"
#include "boot/engine/pass.h"
#include "config/log.h"
#include "config/seam.h"
#include "config/uses.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif
#define ACCEPTS_A_STEP 32

static void watch(const struct hr_tap_service *s, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(s->wake, EPOLL_CTL_ADD, fd, &event) != 0)
		hr_debug("tap: epoll_ctl: %s", strerror(errno));
}

static const struct hr_config_tap *tap_of(const struct hr_tap_port *port)
{
	return &port->table.run->config->tap;
}

/* ---- clients that have not sent HELLO */

static void drop(struct hr_tap_client *client)
{
	shutdown(client->fd, SHUT_RDWR);
	close(client->fd);
	client->fd = -1;
	client->waits = false;
}

static void refuse(struct hr_tap_port *port, struct hr_tap_client *client, int err, const char *why)
{
	struct hr_tap_message m;

	port->table.run->tap.refused++;
	hr_info("tap '%s': process %d of user %u is refused: %s", tap_of(port)->name,
		(int)client->peer.process, (unsigned)client->peer.user, why);
	hr_tap_message_begin(&m, HR_TAP_REFUSED);
	m.code = (uint16_t)-err;
	snprintf(m.text, sizeof m.text, "%s", why);
	if (hr_pass_send(client->fd, &m, sizeof m, NULL, 0) != 0)
		hr_debug("tap: the client does not take its refusal");
	drop(client);
}

/* A descriptor that is readable when the process has ended; -1: the kernel has none for it, as
 * for a process of a PID namespace that is not visible here. */
static int open_process(const struct hr_tap_client *client)
{
	int fd = -1;
	socklen_t bytes = sizeof fd;

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0)
		return fd;
	return client->peer.process > 0 ? (int)syscall(SYS_pidfd_open, client->peer.process, 0)
					: -1;
}

static void greet(const struct hr_tap_service *s, struct hr_tap_port *port,
		  struct hr_tap_client *client, const struct hr_tap_message *hello)
{
	const int seat = hr_tap_consumer_seat(&port->table), pidfd = open_process(client);
	struct hr_error e = { 0 };
	int err = seat;

	if (seat < 0)
		hr_fail(&e, HR_ERROR_FAILED, seat, "all %u seats of the tap are in use",
			HR_TAP_SEATS);
	else
		err = hr_tap_consumer_greet(&port->table, (uint32_t)seat, hello, &client->peer,
					    client->fd, pidfd, &e);
	if (err < 0) {
		if (pidfd >= 0)
			close(pidfd);
		refuse(port, client, err, e.text);
		return;
	}
	if (pidfd >= 0)
		watch(s, pidfd);
	client->fd = -1;
	client->waits = false;
}

static uint32_t count_waiting(const struct hr_tap_port *port)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++)
		count += port->client[i].fd >= 0 && port->client[i].waits;
	return count;
}

/* There is no run: the client waits for the next one. */
static void let_wait(struct hr_tap_port *port, struct hr_tap_client *client)
{
	struct hr_tap_message m;

	if (count_waiting(port) >= HR_TAP_SEATS) {
		refuse(port, client, -EBUSY, "as many consumers as the tap has seats wait already");
		return;
	}
	hr_tap_message_begin(&m, HR_TAP_WAIT);
	snprintf(m.text, sizeof m.text,
		 port->state == HR_TAP_LIVE
			 ? "pipeline '%.64s' has lent all its tiles to other consumers"
			 : "pipeline '%.64s' does not run now: it has to start first",
		 port->table.run->config->name);
	if (hr_pass_send(client->fd, &m, sizeof m, NULL, 0) != 0)
		hr_debug("tap: the client does not take its answer");
	client->waits = true;
}

/* A consumer that attaches now can get a tile. Otherwise it waits for the next run, or for a
 * tile that another consumer does not give back. */
static bool has_tiles(const struct hr_tap_port *port)
{
	return port->state == HR_TAP_LIVE &&
	       !hr_acquire_sys_u64(&port->table.run->cpu.tap->words->last);
}

static void greet_waiting(const struct hr_tap_service *s, struct hr_tap_port *port)
{
	for (uint32_t c = 0; c < HR_TAP_CLIENTS; c++)
		if (port->client[c].fd >= 0 && port->client[c].waits)
			greet(s, port, &port->client[c], &port->client[c].hello);
}

static void take_hello(const struct hr_tap_service *s, struct hr_tap_port *port,
		       struct hr_tap_client *client)
{
	if (has_tiles(port))
		greet(s, port, client, &client->hello);
	else if (port->state != HR_TAP_OVER)
		let_wait(port, client);
	else
		refuse(port, client, -EPIPE, "the run has ended");
}

static void hear(const struct hr_tap_service *s, struct hr_tap_port *port,
		 struct hr_tap_client *client)
{
	struct hr_tap_message m = { 0 };
	const int came = hr_tap_message_receive(client->fd, &m);
	char text[120];

	if (!came)
		return;
	if (came < 0 && came != -EPROTO) {
		drop(client);
	} else if (came > 0 && client->waits && m.kind == HR_TAP_DETACH) {
		drop(client);
	} else if (came < 0 || client->waits || m.kind != HR_TAP_HELLO) {
		refuse(port, client, -EPROTO, "the bytes are not a greeting of a consumer");
	} else if (m.version_least > HR_TAP_VERSION || m.version < HR_TAP_VERSION) {
		snprintf(text, sizeof text,
			 "it speaks versions %u to %u, and the tap has version %u", m.version_least,
			 m.version, HR_TAP_VERSION);
		refuse(port, client, -EPROTONOSUPPORT, text);
	} else {
		client->hello = m;
		take_hello(s, port, client);
	}
}

/* A free entry, or that of the oldest client without HELLO. */
static struct hr_tap_client *take_entry(struct hr_tap_port *port)
{
	struct hr_tap_client *oldest = NULL, *unused = NULL;
	uint32_t silent = 0;

	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++) {
		struct hr_tap_client *client = &port->client[i];

		if (client->fd < 0) {
			unused = unused ? unused : client;
		} else if (!client->waits) {
			silent++;
			if (!oldest || client->since_ns < oldest->since_ns)
				oldest = client;
		}
	}
	if (silent < HR_TAP_SILENT)
		return unused; /* fewer wait than there are other entries */
	drop(oldest);
	return oldest;
}

static void admit(const struct hr_tap_service *s, struct hr_tap_port *port, int fd, uint64_t now_ns)
{
	struct hr_tap_client *client = take_entry(port);
	char text[96];

	client->fd = fd;
	client->since_ns = now_ns;
	watch(s, fd);
	if (hr_credentials_get(&client->peer, fd, &port->users) == 0 && client->peer.may_change)
		return;
	snprintf(text, sizeof text, "user %u is neither the owner nor in the group of the tap",
		 (unsigned)client->peer.user);
	refuse(port, client, -EACCES, text);
}

static void admit_all(const struct hr_tap_service *s, struct hr_tap_port *port, uint64_t now_ns)
{
	for (int i = 0; i < ACCEPTS_A_STEP; i++) {
		const int fd = accept4(port->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		admit(s, port, fd, now_ns);
	}
}

/* ---- ports */

static void refuse_all(struct hr_tap_port *port)
{
	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++)
		if (port->client[i].fd >= 0)
			refuse(port, &port->client[i], -EPIPE, "the run has ended");
}

/* The run has ended, and this is what becomes of the pipeline. */
static bool runs_again(const struct hr_tap_service *s, const struct hr_run *run)
{
	if (!s->supervised)
		return false;
	if (hr_config_repeats(&s->app->config))
		return true;
	return run->outcome == HR_RUN_WAITING ||
	       (run->outcome == HR_RUN_FAILED && !hr_error_is_final(run->error));
}

static void end_port(struct hr_tap_service *s, uint32_t i)
{
	struct hr_tap_port *port = &s->port[i];
	const struct hr_run *run = port->table.run;

	s->app->tap_tiles[i].in_hand |= run->outcome != HR_RUN_DONE;
	hr_tap_consumers_end(&port->table,
			     runs_again(s, run) && run->outcome != HR_RUN_INTERRUPTED);
	port->state = runs_again(s, run) ? HR_TAP_IDLE : HR_TAP_OVER;
	if (port->state == HR_TAP_OVER)
		refuse_all(port);
	if (!s->supervised) {
		hr_tap_socket_close(s->sockets, i);
		port->state = HR_TAP_CLOSED;
	}
}

static void step_port(const struct hr_tap_service *s, struct hr_tap_port *port, bool events,
		      uint64_t now_ns)
{
	if (events)
		admit_all(s, port, now_ns);
	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++) {
		struct hr_tap_client *client = &port->client[i];

		if (events && client->fd >= 0)
			hear(s, port, client);
		if (client->fd >= 0 && !client->waits &&
		    now_ns - client->since_ns >= HR_TAP_HELLO_NS)
			refuse(port, client, -ETIMEDOUT, "it sent no greeting in time");
	}
	if (has_tiles(port))
		greet_waiting(s, port);
	for (uint32_t seat = 0; port->state == HR_TAP_LIVE && seat < HR_TAP_SEATS; seat++)
		hr_tap_consumer_step(&port->table, seat, events, now_ns);
}

static void open_port(struct hr_tap_service *s, uint32_t i)
{
	struct hr_tap_port *port = &s->port[i];
	const struct hr_run *run = &s->app->run[i];

	port->table.app = s->app;
	port->table.run = &s->app->run[i];
	port->table.pipeline = i;
	port->fd = s->sockets->fd[i];
	hr_tap_users(&run->config->tap, &port->users);
	for (uint32_t c = 0; c < HR_TAP_CLIENTS; c++)
		port->client[c].fd = -1;
	port->state = runs_again(s, run) ? HR_TAP_IDLE : HR_TAP_OVER;
	watch(s, port->fd);
}

int hr_tap_service_begin(struct hr_tap_service *s, uint32_t i, struct hr_error *e)
{
	struct hr_tap_port *port = &s->port[i];
	int err;

	if (!s->app || port->state == HR_TAP_CLOSED)
		return 0;
	err = hr_random(&port->table.epoch, sizeof port->table.epoch);
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "random numbers: %s", strerror(-err));
	port->state = HR_TAP_LIVE;
	greet_waiting(s, port);
	return 0;
}

void hr_tap_service_end(struct hr_tap_service *s, uint32_t i)
{
	if (s->app && s->port[i].state == HR_TAP_LIVE)
		end_port(s, i);
}

static bool is_up(const struct hr_appliance *app, const struct hr_run *run)
{
	return app->up >= HR_STAGE_QUEUES && run->selected && run->outcome == HR_RUN_WAITING;
}

int hr_tap_service_open(struct hr_tap_service *s, struct hr_appliance *app,
			struct hr_tap_sockets *sockets, bool supervised, struct hr_error *e)
{
	int err = 0;

	memset(s, 0, sizeof *s);
	s->app = app;
	s->sockets = sockets;
	s->supervised = supervised;
	s->wake = -1;
	for (uint32_t i = 0; !err && i < app->config.pipelines; i++) {
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
		if (is_up(app, &app->run[i]))
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

	if (!s->app || s->wake < 0)
		return;
	now_ns = hr_now_ns();
	if (now_ns - s->at_ns < HR_TAP_STEP_NS)
		return;
	s->at_ns = now_ns;
	events = hr_wait_readable(s->wake, 0);
	for (uint32_t i = 0; i < s->app->config.pipelines; i++) {
		if (s->port[i].state == HR_TAP_LIVE && s->app->run[i].ended_ns)
			end_port(s, i);
		if (s->port[i].state != HR_TAP_CLOSED)
			step_port(s, &s->port[i], events, now_ns);
	}
}

/* Clients of a supervised tap that wait connect again, and wait for the next engine. */
static void close_port(struct hr_tap_service *s, uint32_t i)
{
	struct hr_tap_port *port = &s->port[i];

	hr_tap_service_end(s, i);
	if (port->state == HR_TAP_CLOSED)
		return;
	for (uint32_t c = 0; c < HR_TAP_CLIENTS; c++)
		if (port->client[c].fd >= 0)
			drop(&port->client[c]);
	port->state = HR_TAP_CLOSED;
}

void hr_tap_service_close(struct hr_tap_service *s)
{
	if (!s->app)
		return;
	for (uint32_t i = 0; i < s->app->config.pipelines; i++)
		close_port(s, i);
	if (s->wake >= 0)
		close(s->wake);
	s->wake = -1;
	s->app = NULL;
}

void hr_tap_service_take(const struct hr_tap_service *s,
			 struct hr_record_consumer consumers[HR_RECORD_CONSUMERS])
{
	uint32_t count = 0;

	memset(consumers, 0, HR_RECORD_CONSUMERS * sizeof *consumers);
	for (uint32_t i = 0; s->app && i < s->app->config.pipelines; i++)
		for (uint32_t seat = 0; s->port[i].state == HR_TAP_LIVE && seat < HR_TAP_SEATS &&
					count < HR_RECORD_CONSUMERS;
		     seat++)
			count += hr_tap_consumer_take(&s->port[i].table, seat, &consumers[count]);
}
