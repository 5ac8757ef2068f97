/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/control/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/protocol/socket.h"
#include "config/base/log.h"

#define ACCEPTS_A_TICK 64

/* ---- clients */

static void watch(const struct hr_control *c, int operation, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events };

	if (epoll_ctl(c->wake, operation, fd, &event) != 0)
		hr_debug("control socket: epoll_ctl: %s", strerror(errno));
}

/* Another process may have a copy of the descriptor. */
static void release(const struct hr_control *c, struct hr_control_client *client)
{
	watch(c, EPOLL_CTL_DEL, client->fd, 0);
	close(client->fd);
	client->state = HR_CONTROL_FREE;
}

static void drop(const struct hr_control *c, struct hr_control_client *client, const char *why)
{
	if (why)
		hr_debug("control socket: process %d of user %u: %s",
			 (int)client->credentials.process, (unsigned)client->credentials.user, why);
	shutdown(client->fd, SHUT_RDWR);
	release(c, client);
}

static bool is_older(const struct hr_control_client *a, const struct hr_control_client *b)
{
	if (!b || a->state != b->state)
		return !b || a->state == HR_CONTROL_LISTENS;
	return a->since_ns < b->since_ns;
}

/* A free entry; else the entry of the oldest client that has not sent its request; else the entry of
 * the oldest client that has not taken its reply. Never NULL: fewer clients wait
 * than there are entries. */
static struct hr_control_client *free_client(struct hr_control *c)
{
	struct hr_control_client *oldest = NULL;

	for (uint32_t i = 0; i < HR_CONTROL_CLIENTS; i++) {
		struct hr_control_client *client = &c->client[i];

		if (client->state == HR_CONTROL_FREE)
			return client;
		if (client->state != HR_CONTROL_WAITS && is_older(client, oldest))
			oldest = client;
	}
	drop(c, oldest, "makes room for the next client");
	return oldest;
}
_Static_assert(HR_CONTROL_WAITERS < HR_CONTROL_CLIENTS, "an entry is left");

static void admit(struct hr_control *c, int fd, uint64_t now_ns)
{
	struct hr_control_client *client = free_client(c);
	int err;

	client->state = HR_CONTROL_LISTENS;
	client->fd = fd;
	client->since_ns = now_ns;
	client->got = client->sent = client->length = 0;
	watch(c, EPOLL_CTL_ADD, fd, EPOLLIN);
	err = hr_credentials_get(&client->credentials, fd, &c->status->engine->config.control);
	if (err)
		hr_debug("control socket: credentials of a client: %s", strerror(-err));
}

/*
 * Without a free descriptor a client stays in the backlog, and the backlog must not keep `wake`
 * readable.
 */
static void set_deaf(struct hr_control *c, bool deaf, int err)
{
	if (deaf == c->deaf)
		return;
	c->deaf = deaf;
	watch(c, deaf ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, c->fd, EPOLLIN);
	if (deaf)
		hr_warn("%s: clients wait: %s", c->at.sun_path, strerror(err));
}

static void admit_all(struct hr_control *c, uint64_t now_ns)
{
	for (int i = 0; i < ACCEPTS_A_TICK; i++) {
		const int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && errno == ECONNABORTED)
			continue;
		set_deaf(c, fd < 0 && errno != EAGAIN && errno != EINTR, errno);
		if (fd < 0)
			return;
		admit(c, fd, now_ns);
	}
}

/* ---- one client */

static void send_rest(struct hr_control *c, struct hr_control_client *client)
{
	const ssize_t n = send(client->fd, client->out + client->sent,
			       client->length - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		drop(c, client, "it disconnected before its reply");
		return;
	}
	client->sent += n < 0 ? 0 : (uint32_t)n;
	if (client->sent == client->length)
		drop(c, client, NULL);
}

static void reply(struct hr_control *c, struct hr_control_client *client, uint64_t now_ns)
{
	client->state = HR_CONTROL_REPLIES;
	client->since_ns = now_ns;
	send_rest(c, client);
	if (client->state == HR_CONTROL_REPLIES)
		watch(c, EPOLL_CTL_MOD, client->fd, EPOLLOUT);
}

static void act(struct hr_control *c, struct hr_control_client *client, int err, uint64_t now_ns)
{
	const enum hr_control_state next = hr_control_handle(c, client, err, now_ns);

	if (next == HR_CONTROL_REPLIES) {
		reply(c, client, now_ns);
	} else if (next == HR_CONTROL_WAITS) {
		client->state = HR_CONTROL_WAITS;
		client->since_ns = now_ns;
	} else {
		release(c, client);
	}
}

/* A client that sends more than its request gets the reply to the request. */
static void hear(struct hr_control *c, struct hr_control_client *client, uint64_t now_ns)
{
	const ssize_t n = recv(client->fd, client->in + client->got,
			       sizeof client->in - client->got, MSG_DONTWAIT);
	int length;

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		drop(c, client, "it disconnected before its request was complete");
		return;
	}
	client->got += n < 0 ? 0 : (uint32_t)n;
	length = hr_request_parse(&client->request, client->in, client->got);
	/* the engine cannot get bytes that were received here */
	if (length > 0 && hr_request_form(client->request.kind)->disk &&
	    client->got > (uint32_t)length)
		length = -EMSGSIZE;
	if (length < 0)
		memset(&client->request, 0, sizeof client->request);
	if (length != 0)
		act(c, client, length < 0 ? length : 0, now_ns);
	else if (now_ns - client->since_ns >= HR_CONTROL_REQUEST_NS)
		drop(c, client, "its request is not complete in time");
}

static void wait_on(struct hr_control *c, struct hr_control_client *client, uint64_t now_ns)
{
	const ssize_t n = recv(client->fd, client->in, sizeof client->in, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		drop(c, client, "it disconnected while it waited");
	else if (hr_control_handle_waiting(c, client, false))
		reply(c, client, now_ns);
}

static void serve(struct hr_control *c, struct hr_control_client *client, uint64_t now_ns)
{
	switch (client->state) {
	case HR_CONTROL_LISTENS:
		hear(c, client, now_ns);
		break;
	case HR_CONTROL_WAITS:
		wait_on(c, client, now_ns);
		break;
	case HR_CONTROL_REPLIES:
		send_rest(c, client);
		if (client->state == HR_CONTROL_REPLIES &&
		    now_ns - client->since_ns >= HR_CONTROL_REPLY_NS)
			drop(c, client, "it has not taken its reply in time");
		break;
	case HR_CONTROL_FREE:
		break;
	}
}

void hr_control_tick(void *to, uint64_t now_ns)
{
	struct hr_control *c = to;

	if (c->fd < 0)
		return;
	for (uint32_t i = 0; i < HR_CONTROL_CLIENTS; i++)
		serve(c, &c->client[i], now_ns);
	admit_all(c, now_ns);
	for (uint32_t i = 0; i < HR_CONTROL_CLIENTS; i++)
		if (c->client[i].state == HR_CONTROL_LISTENS)
			serve(c, &c->client[i], now_ns);
}

/* ---- the socket */

static int open_wake(struct hr_control *c)
{
	c->wake = epoll_create1(EPOLL_CLOEXEC);
	if (c->wake < 0)
		return hr_fail(&c->e, HR_ERROR_MISSING, -errno, "control socket: epoll: %s",
			       strerror(errno));
	return 0;
}

int hr_control_open(struct hr_control *c, struct hr_status *status, struct hr_repeat *repeat,
		    hr_control_pass *pass, void *pass_to)
{
	const struct hr_config *config = &status->engine->config;
	int err;

	memset(c, 0, sizeof *c);
	c->status = status;
	c->repeat = repeat;
	c->pass = pass;
	c->pass_to = pass_to;
	c->fd = -1;
	err = open_wake(c);
	if (!err) {
		c->fd = hr_socket_listen(&c->at, config->name, &config->control, &c->e);
		err = c->fd < 0 ? c->fd : 0;
	}
	if (!err)
		watch(c, EPOLL_CTL_ADD, c->fd, EPOLLIN);
	else if (c->wake >= 0)
		close(c->wake);
	if (err)
		c->wake = -1;
	if (err == -ENOKEY)
		hr_debug("no control socket: no variable names its folder");
	else if (err)
		hr_warn("%s; appliance '%s' cannot be asked", c->e.text, config->name);
	return err;
}

unsigned hr_control_descriptors(const struct hr_control *c, int fds[HR_CONTROL_FDS])
{
	unsigned count = 0;

	if (c->fd < 0)
		return 0;
	fds[count++] = c->fd;
	fds[count++] = c->wake;
	for (uint32_t i = 0; i < HR_CONTROL_CLIENTS; i++)
		if (c->client[i].state != HR_CONTROL_FREE)
			fds[count++] = c->client[i].fd;
	return count;
}

static void dismiss(struct hr_control *c, struct hr_control_client *client)
{
	if (client->state == HR_CONTROL_WAITS && hr_control_handle_waiting(c, client, true))
		reply(c, client, client->since_ns);
	else if (client->state == HR_CONTROL_REPLIES)
		send_rest(c, client);
	if (client->state != HR_CONTROL_FREE)
		drop(c, client, "the appliance ends");
}

void hr_control_close(struct hr_control *c)
{
	if (c->fd < 0)
		return;
	/* a client that has its reply finds no socket any more */
	unlink(c->at.sun_path);
	for (uint32_t i = 0; i < HR_CONTROL_CLIENTS; i++)
		dismiss(c, &c->client[i]);
	close(c->fd);
	close(c->wake);
	c->fd = c->wake = -1;
}
