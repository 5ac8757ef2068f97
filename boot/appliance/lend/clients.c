/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/clients.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/appliance/protocol/tap_message.h"
#include "config/base/scm.h"
#include "config/base/log.h"
#include "gpu/tap/protocol.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif
#define ACCEPTS_A_STEP 32

static void watch(const struct hr_tap_clients *c, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(c->wake, EPOLL_CTL_ADD, fd, &event) != 0)
		hr_debug("%s: epoll_ctl: %s", c->kind->name, strerror(errno));
}

static void drop(struct hr_tap_client *client)
{
	shutdown(client->fd, SHUT_RDWR);
	close(client->fd);
	client->fd = -1;
	client->waits = false;
}

void hr_tap_clients_refuse(struct hr_tap_clients *c, struct hr_tap_client *client, int err,
			   const char *why)
{
	struct hr_tap_message m;

	++*c->refused;
	hr_info("%s '%s': process %d of user %u is refused: %s", c->kind->name, c->name,
		(int)client->credentials.process, (unsigned)client->credentials.user, why);
	hr_tap_message_begin(&m, HR_TAP_REFUSED, c->kind->version);
	m.code = (uint16_t)-err;
	snprintf(m.text, sizeof m.text, "%s", why);
	if (hr_scm_send(client->fd, &m, sizeof m, NULL, 0) != 0)
		hr_debug("%s: the client does not take its refusal", c->kind->name);
	drop(client);
}

void hr_tap_clients_refuse_all(struct hr_tap_clients *c, int err, const char *why)
{
	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++)
		if (c->client_of[i].fd >= 0)
			hr_tap_clients_refuse(c, &c->client_of[i], err, why);
}

void hr_tap_clients_drop(struct hr_tap_clients *c)
{
	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++)
		if (c->client_of[i].fd >= 0)
			drop(&c->client_of[i]);
}

int hr_tap_client_process(const struct hr_tap_client *client)
{
	int fd = -1;
	socklen_t bytes = sizeof fd;

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0)
		return fd;
	return client->credentials.process > 0
		       ? (int)syscall(SYS_pidfd_open, client->credentials.process, 0)
		       : -1;
}

void hr_tap_clients_seated(struct hr_tap_clients *c, struct hr_tap_client *client, int pidfd)
{
	if (pidfd >= 0)
		watch(c, pidfd);
	client->fd = -1;
	client->waits = false;
}

struct hr_tap_client *hr_tap_clients_waiting(struct hr_tap_clients *c, uint32_t *i)
{
	while (*i < HR_TAP_CLIENTS) {
		struct hr_tap_client *client = &c->client_of[(*i)++];

		if (client->fd >= 0 && client->waits)
			return client;
	}
	return NULL;
}

/* ---- from the connection to HELLO */

static void let_wait(struct hr_tap_clients *c, struct hr_tap_client *client,
		     const struct hr_tap_message *hello)
{
	uint32_t waiting = 0;
	char text[96];

	for (uint32_t i = 0; hr_tap_clients_waiting(c, &i);)
		waiting++;
	if (waiting >= HR_TAP_WAITING) {
		snprintf(text, sizeof text, "%u %ss wait already", HR_TAP_WAITING, c->kind->client);
		hr_tap_clients_refuse(c, client, -EBUSY, text);
		return;
	}
	client->hello = *hello;
	client->waits = true;
	client->told = 0;
}

static void hear(struct hr_tap_clients *c, struct hr_tap_client *client)
{
	struct hr_tap_message m = { 0 };
	const int came = hr_tap_message_receive(client->fd, &m);
	char text[120];

	if (!came)
		return;
	if ((came < 0 && came != -EPROTO) ||
	    (came > 0 && client->waits && m.kind == HR_TAP_DETACH)) {
		drop(client);
	} else if (came < 0 || client->waits || m.kind != c->kind->hello) {
		snprintf(text, sizeof text, "the bytes are not a greeting of a %s",
			 c->kind->client);
		hr_tap_clients_refuse(c, client, -EPROTO, text);
	} else if (m.version_least > c->kind->version || m.version < c->kind->version) {
		snprintf(text, sizeof text,
			 "it speaks versions %u to %u, and the %s has version %u", m.version_least,
			 m.version, c->kind->name, c->kind->version);
		hr_tap_clients_refuse(c, client, -EPROTONOSUPPORT, text);
	} else {
		let_wait(c, client, &m);
	}
}

/* A free entry, or that of the oldest client without HELLO. */
static struct hr_tap_client *take_entry(struct hr_tap_clients *c)
{
	struct hr_tap_client *oldest = NULL, *unused = NULL;
	uint32_t silent = 0;

	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++) {
		struct hr_tap_client *client = &c->client_of[i];

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

static void admit(struct hr_tap_clients *c, int fd, uint64_t now_ns)
{
	struct hr_tap_client *client = take_entry(c);
	char text[96];

	client->fd = fd;
	client->since_ns = now_ns;
	watch(c, fd);
	if (hr_credentials_get(&client->credentials, fd, &c->users) == 0 &&
	    client->credentials.may_change)
		return;
	snprintf(text, sizeof text, "user %u is neither the owner nor in the group of the %s",
		 (unsigned)client->credentials.user, c->kind->name);
	hr_tap_clients_refuse(c, client, -EACCES, text);
}

static void admit_all(struct hr_tap_clients *c, uint64_t now_ns)
{
	for (int i = 0; i < ACCEPTS_A_STEP; i++) {
		const int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		admit(c, fd, now_ns);
	}
}

void hr_tap_clients_begin(struct hr_tap_clients *c)
{
	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++)
		c->client_of[i].fd = -1;
	watch(c, c->fd);
}

void hr_tap_clients_step(struct hr_tap_clients *c, bool events, uint64_t now_ns)
{
	if (events)
		admit_all(c, now_ns);
	for (uint32_t i = 0; i < HR_TAP_CLIENTS; i++) {
		struct hr_tap_client *client = &c->client_of[i];

		if (events && client->fd >= 0)
			hear(c, client);
		if (client->fd >= 0 && !client->waits &&
		    now_ns - client->since_ns >= HR_TAP_HELLO_NS)
			hr_tap_clients_refuse(c, client, -ETIMEDOUT, "it sent no greeting in time");
	}
}

/* ---- kinds */

const struct hr_lend_kind hr_lend_tap = {
	.name = "tap",
	.client = "consumer",
	.hello = HR_TAP_HELLO,
	.welcome = HR_TAP_WELCOME,
	.version = HR_TAP_VERSION,
};
const struct hr_lend_kind hr_lend_feed = {
	.name = "feed",
	.client = "producer",
	.hello = HR_FEED_HELLO,
	.welcome = HR_FEED_WELCOME,
	.version = HR_FEED_VERSION,
};
