/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/protocol/tap_message.h"
#include "boot/engine/layout/sizes.h"
#include "config/base/log.h"
#include "config/base/scm.h"
#include "config/base/seam.h"
#include "gpu/tap/feed.h"
#include "gpu/tap/role.h"

_Static_assert((uint32_t)HR_TAP_ORDERS == (uint32_t)HR_FEED_ORDERS, "orders are counted alike");

/* ---- state */

void hr_lend_peer_begin(struct hr_lend_peer *p, const struct hr_lend_kind *kind, const char *of)
{
	*p = (struct hr_lend_peer){ .kind = kind, .of = of, .fd = -1, .pidfd = -1 };
}

const char *hr_lend_peer_text(const struct hr_lend_peer *p, char text[HR_LEND_TEXT])
{
	snprintf(text, HR_LEND_TEXT, "%s '%s': %s '%s' (process %d of user %u)", p->kind->name,
		 p->of, p->kind->client, p->name, (int)p->credentials.process,
		 (unsigned)p->credentials.user);
	return text;
}

void hr_lend_peer_set_state(struct hr_lend_peer *p, enum hr_lend_state state)
{
	p->state = state;
	p->since_ns = hr_now_ns();
}

uint64_t hr_lend_age_ns(uint64_t since_ns, uint64_t now_ns)
{
	return now_ns > since_ns ? now_ns - since_ns : 0;
}

bool hr_lend_peer_is_late(const struct hr_lend_peer *p, uint64_t now_ns)
{
	return p->state == HR_LEND_GREETED &&
	       hr_lend_age_ns(p->since_ns, now_ns) >= HR_LEND_READY_NS;
}

bool hr_lend_peer_has_ended(const struct hr_lend_peer *p)
{
	return p->pidfd >= 0 && hr_wait_readable(p->pidfd, 0);
}

/* ---- the connection */

/* A process whose socket has no room for it loses the message. */
static int say(const struct hr_lend_kind *kind, int fd, const struct hr_tap_message *m,
	       const int *fds, unsigned count)
{
	const int err = fd < 0 ? -ENOTCONN : hr_scm_send(fd, m, sizeof *m, fds, count);

	if (err)
		hr_debug("%s: a message of kind %u is lost: %s", kind->name, m->kind,
			 strerror(-err));
	return err;
}

void hr_lend_peer_hang_up(struct hr_lend_peer *p)
{
	if (p->fd < 0)
		return;
	shutdown(p->fd, SHUT_RDWR);
	close(p->fd);
	p->fd = -1;
}

void hr_lend_peer_forget_process(struct hr_lend_peer *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = -1;
}

void hr_lend_welcome_begin(struct hr_tap_message *m, const struct hr_lend_kind *kind,
			   const struct hr_run *run, uint32_t tile_bytes)
{
	hr_tap_message_begin(m, kind->welcome, kind->version);
	m->slots = run->slots;
	m->tiles = run->tiles;
	m->stride = hr_layout_tile_bytes(tile_bytes);
	m->tile_bytes = tile_bytes;
	snprintf(m->name, sizeof m->name, "%s", run->config->name);
}

void hr_lend_welcome_gpu(struct hr_tap_message *m, const struct hr_gpu_facts *facts, uint64_t bytes)
{
	m->memory = HR_TAP_MEMORY_CUDA;
	m->gpu.bytes = bytes;
	memcpy(m->gpu.uuid, facts->uuid, sizeof m->gpu.uuid);
}

static void copy_name(char name[HR_NAME_MAX], const char *from, size_t bytes)
{
	const size_t length = strnlen(from, bytes < HR_NAME_MAX ? bytes : HR_NAME_MAX - 1);

	for (size_t i = 0; i < length; i++)
		name[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	name[length] = '\0';
}

int hr_lend_peer_welcome(struct hr_lend_peer *p, const struct hr_tap_client *client, int pidfd,
			 struct hr_tap_message *m, const int fds[HR_TAP_FDS], struct hr_error *e)
{
	const struct hr_tap_message *hello = &client->hello;
	int err;

	if (hello->credits && hello->credits < m->credits)
		m->credits = hello->credits;
	err = say(p->kind, client->fd, m, fds, HR_TAP_FDS);
	if (err)
		return hr_fail(e, HR_ERROR_FAILED, err, "%s", strerror(-err));
	p->fd = client->fd;
	p->pidfd = pidfd;
	p->credentials = client->credentials;
	p->credits = m->credits;
	copy_name(p->name, hello->name, sizeof hello->name);
	hr_lend_peer_set_state(p, HR_LEND_GREETED);
	return 0;
}

/* ---- messages */

enum hr_lend_heard hr_lend_peer_hear(const struct hr_lend_peer *p)
{
	struct hr_tap_message m = { 0 };
	const int came = hr_tap_message_receive(p->fd, &m);

	if (!came)
		return HR_LEND_NOTHING;
	if (came < 0)
		return came == -EPROTO ? HR_LEND_WRONG : HR_LEND_END;
	if (m.kind == HR_TAP_READY && p->state == HR_LEND_GREETED)
		return HR_LEND_READY;
	return m.kind == HR_TAP_DETACH ? HR_LEND_DETACH : HR_LEND_WRONG;
}

void hr_lend_peer_revoke(const struct hr_lend_peer *p, const char *why)
{
	struct hr_tap_message m = { 0 };
	char text[HR_LEND_TEXT];

	hr_warn("%s is dropped: %s", hr_lend_peer_text(p, text), why);
	hr_tap_message_begin(&m, HR_TAP_REVOKED, p->kind->version);
	snprintf(m.text, sizeof m.text, "%s", why);
	say(p->kind, p->fd, &m, NULL, 0);
}

/* A message that does not fit is lost, because the socket can be read then. */
void hr_lend_peer_wake(struct hr_lend_peer *p, uint64_t wanted, uint64_t given, bool is_last)
{
	const bool is_there = wanted != p->woken && given >= wanted;
	struct hr_tap_message m;

	if (!wanted)
		return;
	if (is_there || (is_last && !p->told_last)) {
		hr_tap_message_begin(&m, HR_TAP_TILES, p->kind->version);
		say(p->kind, p->fd, &m, NULL, 0);
	}
	p->woken = is_there ? wanted : p->woken;
	p->told_last = is_last;
}

void hr_lend_peer_end(const struct hr_lend_peer *p, const struct hr_run *run, uint64_t tiles,
		      bool again)
{
	const bool whole = run->outcome == HR_RUN_DONE;
	struct hr_tap_message m = { 0 };

	hr_tap_message_begin(&m, HR_TAP_END, p->kind->version);
	m.code = (uint16_t)(whole ? 0 : run->cause.kind ? run->cause.kind : HR_ERROR_FAILED);
	m.tiles = tiles;
	m.again = again;
	if (!whole)
		snprintf(m.text, sizeof m.text, "%.*s", (int)sizeof m.text - 1,
			 run->cause.kind ? run->cause.text : "the run was interrupted");
	say(p->kind, p->fd, &m, NULL, 0);
}

/* ---- orders */

void hr_lend_order(uint32_t *order, uint32_t what)
{
	hr_release_sys_u32(order, (*order / HR_TAP_ORDERS + 1) * HR_TAP_ORDERS + what);
}

bool hr_lend_is_obeyed(const uint32_t *order, const uint32_t *obeyed)
{
	return hr_acquire_sys_u32(obeyed) == *order;
}

bool hr_lend_is_closed(const struct hr_run *run, const uint32_t *order, const uint32_t *obeyed)
{
	return !run->started_ns || run->ended_ns || hr_lend_is_obeyed(order, obeyed);
}

/* ---- the descriptors of WELCOME */

static void close_objects(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

int hr_lend_memory_make(const struct hr_lend_object *object, unsigned count, int *fds,
			struct hr_error *e)
{
	for (unsigned i = 0; i < count; i++) {
		fds[i] = hr_tap_memory_create(object[i].name, object[i].at, object[i].bytes,
					      object[i].use, e);
		if (fds[i] >= 0)
			continue;
		close_objects(fds, i);
		hr_lend_memory_drop(object, i);
		return fds[i];
	}
	return 0;
}

void hr_lend_memory_drop(const struct hr_lend_object *object, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		hr_tap_memory_drop(object[i].at, object[i].bytes);
}

void hr_lend_memory_sent(struct hr_sets *sets, const int *fds, unsigned count, bool sent)
{
	if (!sets)
		close_objects(fds, count);
	else if (sent)
		hr_sets_spend(sets);
}
