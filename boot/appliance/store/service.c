/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/store/service.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/store/job.h"
#include "boot/engine/devices/devices.h"
#include "boot/engine/object_users.h"
#include "config/base/scm.h"
#include "config/base/process.h"
#include "config/base/json.h"
#include "config/base/log.h"

#define MOVES 8 /* of one job in a step */
#define POLL_NS 20000ull
#define REFUSAL_MAX 512u
#define CREDIT_MAX_NS ((int64_t)(2 * HR_NS_PER_MS))

/* ---- clients */

static void set_epoll_events(struct hr_store_service *c, struct hr_store_job *d, uint32_t events)
{
	struct epoll_event event = { .events = events };
	const int operation = !events ? EPOLL_CTL_DEL : !d->events ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (events == d->events)
		return;
	if (epoll_ctl(c->wake, operation, d->fd, &event) != 0)
		hr_debug("store request: epoll_ctl: %s", strerror(errno));
	d->events = events;
}

/* Memory of a buffer that was used goes back to the kernel. */
static void close_job(struct hr_store_service *c, struct hr_store_job *d)
{
	uint8_t *buffer = d->buffer;

	set_epoll_events(c, d, 0);
	shutdown(d->fd, SHUT_RDWR);
	close(d->fd);
	memset(d, 0, sizeof *d);
	d->buffer = buffer;
	madvise(buffer, HR_STORE_JOB_BUFFER, MADV_DONTNEED);
}

static void drop_job(struct hr_store_service *c, struct hr_store_job *d, const char *why)
{
	hr_debug("store request '%s': %s", hr_request_form(d->request.kind)->name, why);
	c->dropped++;
	hr_store_job_undo(c, d);
	close_job(c, d);
}

static bool waits_for_client(const struct hr_store_job *d)
{
	return d->state == HR_STORE_JOB_SENDS || d->state == HR_STORE_JOB_RECEIVES;
}

/* A free job, or that of the client that the service has waited for longest; NULL: all are busy. */
static struct hr_store_job *free_job(struct hr_store_service *c, uint64_t now_ns)
{
	struct hr_store_job *slowest = NULL;

	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
		struct hr_store_job *d = &c->job[i];

		if (d->state == HR_STORE_JOB_FREE)
			return d;
		if (waits_for_client(d) && d->waits_ns + HR_STORE_CLIENT_PATIENCE_NS <= now_ns &&
		    (!slowest || d->waits_ns < slowest->waits_ns))
			slowest = d;
	}
	if (slowest)
		drop_job(c, slowest, "the client is slow, and a new client takes its job");
	return slowest;
}

static void refuse_request(const struct hr_store_service *c, const struct hr_request *request,
			   int fd)
{
	uint8_t message[HR_MESSAGE_HEADER + REFUSAL_MAX];
	struct hr_reply reply = { request->kind, HR_ERROR_FAILED, 0 };
	struct hr_json j;

	hr_json_to_text(&j, HR_JSON_LINE, (char *)message + HR_MESSAGE_HEADER, REFUSAL_MAX);
	hr_json_schema(&j, "headrace.answer", HR_CONTROL_SCHEMA);
	hr_json_string(&j, "appliance", c->engine->config.name);
	hr_json_string(&j, "request", hr_request_form(request->kind)->name);
	hr_json_string(&j, "result", "failed");
	hr_json_u64(&j, "code", HR_ERROR_FAILED);
	hr_json_string(&j, "message", "busy: all connections for store requests are in use");
	if (hr_json_done(&j) == 0)
		reply.bytes = (uint32_t)j.length;
	hr_reply_format(&reply, message);
	if (send(fd, message, HR_MESSAGE_HEADER + reply.bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		hr_debug("store request: no job is free, and the client has gone");
	close(fd);
}

/* A client of which the kernel reports nothing has the numbers of no user and no process. */
static void note_client(struct hr_store_job *d)
{
	struct ucred client = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof client;

	if (getsockopt(d->fd, SOL_SOCKET, SO_PEERCRED, &client, &bytes) != 0)
		hr_debug("store request: SO_PEERCRED: %s", strerror(errno));
	d->user = client.uid;
	d->process = (uint64_t)client.pid;
}

static void admit_request(struct hr_store_service *c, const struct hr_request *request, int fd,
			  uint64_t now_ns)
{
	struct hr_store_job *d;

	if (!hr_request_form(request->kind)->disk && c->other) {
		c->other(c->other_to, request, fd);
		return;
	}
	d = hr_request_form(request->kind)->disk ? free_job(c, now_ns) : NULL;
	c->requests++;
	if (!d) {
		c->refused++;
		refuse_request(c, request, fd);
		return;
	}
	d->state = HR_STORE_JOB_BEGINS;
	d->fd = fd;
	d->request = *request;
	note_client(d);
	d->waits_ns = d->heard_ns = now_ns;
}

static void admit_all(struct hr_store_service *c, uint64_t now_ns)
{
	for (uint32_t i = 0; c->clients >= 0 && i < 2 * HR_STORE_CLIENTS; i++) {
		struct hr_request request = { 0 };
		unsigned count;
		int fd = -1;
		const ssize_t n =
			hr_scm_receive(c->clients, &request, sizeof request, &fd, 1, &count);

		if (n == -EAGAIN)
			return;
		if (n <= 0) { /* the supervisor has gone, or sends no messages */
			epoll_ctl(c->wake, EPOLL_CTL_DEL, c->clients, NULL);
			c->clients = -1;
			return;
		}
		if (n == (ssize_t)sizeof request && count == 1)
			admit_request(c, &request, fd, now_ns);
		else if (count == 1)
			close(fd);
	}
}

/* ---- rate */

static bool any_on_disk(const struct hr_store_service *c)
{
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		if (c->job[i].state == HR_STORE_JOB_ON_DISK)
			return true;
	return false;
}

/* The time since the last step, which counts as work when a command was in flight. */
static void account(struct hr_store_service *c, uint64_t now_ns)
{
	const uint64_t passed_ns = now_ns - c->at_ns;
	const uint32_t percent = c->engine->config.control.store_percent;

	c->limited = percent < 100 && hr_any_running(c->engine);
	if (any_on_disk(c))
		c->credit_ns -= (int64_t)passed_ns;
	c->credit_ns += (int64_t)(passed_ns / 100 * percent);
	c->credit_ns = c->credit_ns < CREDIT_MAX_NS ? c->credit_ns : CREDIT_MAX_NS;
	if (!c->limited)
		c->credit_ns = 0;
	c->at_ns = now_ns;
}

static bool may_work(const struct hr_store_service *c)
{
	return !c->limited || (c->credit_ns >= 0 && !any_on_disk(c));
}

/* ---- one job */

static void send_rest(struct hr_store_service *c, struct hr_store_job *d, uint64_t now_ns)
{
	const ssize_t n =
		send(d->fd, d->buffer + d->sent, d->length - d->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		drop_job(c, d, "the client disconnected");
		return;
	}
	if (n > 0) {
		d->sent += (size_t)n;
		d->waits_ns = d->heard_ns = now_ns;
	}
	if (d->sent < d->length)
		return;
	if (d->last)
		close_job(c, d);
	else
		hr_store_job_sent(c, d);
}

/* While data go to a client, it sends HR_MESSAGE_ALIVE at most. */
static void receive_alive(struct hr_store_service *c, struct hr_store_job *d, uint64_t now_ns)
{
	struct hr_message_item item;
	const ssize_t n =
		recv(d->fd, d->head + d->head_got, HR_MESSAGE_HEADER - d->head_got, MSG_DONTWAIT);

	if (d->last || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	if (n <= 0) {
		drop_job(c, d, "the client disconnected");
		return;
	}
	d->heard_ns = now_ns;
	d->head_got += (uint32_t)n;
	if (d->head_got < HR_MESSAGE_HEADER)
		return;
	d->head_got = 0;
	if (hr_message_parse_item(&item, d->head, d->request.kind) != 0 ||
	    item.kind != HR_MESSAGE_ALIVE)
		drop_job(c, d, "the client sends bytes that are not HR_MESSAGE_ALIVE");
}

static bool has_disk(const struct hr_store_service *c, const struct hr_store_job *d)
{
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		if (c->job[i].state == HR_STORE_JOB_ON_DISK && c->job[i].ssd == d->ssd)
			return false;
	return true;
}

static void poll_disk(struct hr_store_service *c, struct hr_store_job *d)
{
	const int err = hr_nvme_blk_poll(&c->engine->ssd[d->ssd].disk);

	if (err != -EINPROGRESS)
		hr_store_job_used_disk(c, d, err);
}

static void advance_job(struct hr_store_service *c, struct hr_store_job *d, uint64_t now_ns)
{
	switch (d->state) {
	case HR_STORE_JOB_BEGINS:
		if (may_work(c))
			hr_store_job_begin(c, d);
		break;
	case HR_STORE_JOB_SENDS:
		receive_alive(c, d, now_ns);
		if (d->state == HR_STORE_JOB_SENDS)
			send_rest(c, d, now_ns);
		break;
	case HR_STORE_JOB_RECEIVES:
		hr_store_job_receive(c, d);
		if (d->state == HR_STORE_JOB_FREE) { /* its client has gone */
			c->dropped++;
			close_job(c, d);
		}
		break;
	case HR_STORE_JOB_READY:
		if (may_work(c) && has_disk(c, d))
			hr_store_job_use_disk(c, d);
		break;
	case HR_STORE_JOB_ON_DISK:
		poll_disk(c, d);
		break;
	case HR_STORE_JOB_FINISHES:
		if (may_work(c))
			hr_store_job_finish(c, d);
		break;
	case HR_STORE_JOB_FREE:
		break;
	}
}

static void serve_job(struct hr_store_service *c, struct hr_store_job *d, uint64_t now_ns)
{
	d->changed |= d->pinned && hr_run_changing(c->engine, d->ssd, d->pinned_id, true);
	for (int i = 0; i < MOVES && d->state != HR_STORE_JOB_FREE; i++) {
		const enum hr_store_job_state before = d->state;
		const size_t sent = d->sent, length = d->length, got = d->head_got;

		advance_job(c, d, now_ns);
		if (d->state == before && d->sent == sent && d->length == length &&
		    d->head_got == got)
			break;
	}
	if (waits_for_client(d) && now_ns > d->heard_ns &&
	    now_ns - d->heard_ns >= HR_STORE_CLIENT_SILENT_NS)
		drop_job(c, d, "the client neither sent nor received data in time");
	if (d->state != HR_STORE_JOB_FREE)
		set_epoll_events(c, d,
				 d->state == HR_STORE_JOB_SENDS ? EPOLLOUT | (d->last ? 0 : EPOLLIN)
				 : d->state == HR_STORE_JOB_RECEIVES ? EPOLLIN
								     : 0);
}

/* ---- the service */

/* Space of replaced objects whose readers have ended. */
static void release_replaced(struct hr_store_service *c)
{
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
		if (!c->kept[i].id || hr_run_reading(c->engine, c->kept[i].ssd, c->kept[i].id))
			continue;
		hr_store_unpin(&c->engine->ssd[c->kept[i].ssd].store, c->kept[i].pin);
		c->kept[i].id = 0;
	}
}

void hr_store_service_step(struct hr_store_service *c)
{
	uint64_t now_ns;

	if (!c->engine)
		return;
	now_ns = hr_now_ns();
	account(c, now_ns);
	release_replaced(c);
	admit_all(c, now_ns);
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		serve_job(c, &c->job[(c->next + i) % HR_STORE_CLIENTS], now_ns);
	c->next = (c->next + 1) % HR_STORE_CLIENTS;
	c->at_ns = hr_now_ns();
	c->credit_ns -= (int64_t)(c->at_ns - now_ns);
}

static void record_job(struct hr_record_store_job *to, const struct hr_store_job *d)
{
	const bool verify = d->request.kind == HR_REQUEST_STORE_VERIFY;
	const bool put = d->request.kind == HR_REQUEST_STORE_PUT;

	to->kind = (uint64_t)d->request.kind;
	to->ssd = d->state == HR_STORE_JOB_BEGINS ? HR_SSDS_MAX : d->ssd;
	memcpy(to->object, d->request.object, sizeof to->object);
	to->done_bytes = verify ? d->checked : d->at;
	to->total_bytes = verify ? d->total : put ? d->request.bytes : d->object.bytes;
	if (to->done_bytes > to->total_bytes) /* verified objects that have come meanwhile */
		to->total_bytes = to->done_bytes;
	to->user = d->user;
	to->process = d->process;
}

void hr_store_service_snapshot(const struct hr_store_service *c, struct hr_record_store *store)
{
	memset(store, 0, sizeof *store);
	store->requests = c->requests;
	store->refused = c->refused;
	store->dropped = c->dropped;
	for (uint32_t i = 0; c->engine && i < HR_STORE_CLIENTS; i++)
		if (c->job[i].state != HR_STORE_JOB_FREE)
			record_job(&store->job[i], &c->job[i]);
}

uint64_t hr_store_service_pause_ns(const struct hr_store_service *c)
{
	uint64_t pause_ns = HR_STORE_SERVICE_PAUSE_NS;

	for (uint32_t i = 0; c->engine && i < HR_STORE_CLIENTS; i++) {
		const struct hr_store_job *d = &c->job[i];

		if (d->state == HR_STORE_JOB_ON_DISK)
			pause_ns = pause_ns < POLL_NS ? pause_ns : POLL_NS;
		else if (d->state != HR_STORE_JOB_FREE && !waits_for_client(d) && has_disk(c, d))
			pause_ns = may_work(c) ? 0 : pause_ns < POLL_NS ? pause_ns : POLL_NS;
	}
	return pause_ns;
}

static int open_wake(struct hr_store_service *c)
{
	struct epoll_event event = { .events = EPOLLIN };

	c->wake = epoll_create1(EPOLL_CLOEXEC);
	if (c->wake < 0)
		return -errno;
	if (c->clients >= 0 && epoll_ctl(c->wake, EPOLL_CTL_ADD, c->clients, &event) != 0)
		return -errno;
	c->memory =
		mmap(NULL, HR_STORE_CLIENTS * (size_t)HR_STORE_JOB_BUFFER, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->memory == MAP_FAILED)
		return -ENOMEM;
	hr_not_dumped(c->memory, HR_STORE_CLIENTS * (size_t)HR_STORE_JOB_BUFFER);
	return 0;
}

int hr_store_service_open(struct hr_store_service *c, struct hr_engine *engine, int clients,
			  struct hr_error *e)
{
	int err;

	memset(c, 0, sizeof *c);
	c->wake = -1;
	c->clients = clients;
	err = open_wake(c);
	if (err) {
		if (c->wake >= 0)
			close(c->wake);
		c->wake = -1;
		return hr_fail(e, HR_ERROR_MISSING, err, "store requests cannot be served: %s",
			       strerror(-err));
	}
	c->engine = engine;
	c->at_ns = hr_now_ns();
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		c->job[i].buffer = c->memory + i * (size_t)HR_STORE_JOB_BUFFER;
	/* an ssd without an identity is found by its name only */
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		(void)hr_transport_identity(engine->config.ssd[d].device,
					    engine->config.ssd[d].nsid, c->identity[d],
					    sizeof c->identity[d]);
	return 0;
}

void hr_store_service_wake_by(const struct hr_store_service *c, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (fd >= 0 && epoll_ctl(c->wake, EPOLL_CTL_ADD, fd, &event) != 0)
		hr_warn("store requests: epoll_ctl: %s", strerror(errno));
}

void hr_store_service_close(struct hr_store_service *c)
{
	if (!c->engine)
		return;
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
		struct hr_store_job *d = &c->job[i];

		if (d->state == HR_STORE_JOB_FREE)
			continue;
		if (!d->last && !(d->state == HR_STORE_JOB_SENDS && d->sent)) {
			hr_error_clear(&d->e);
			hr_fail(&d->e, HR_ERROR_FAILED, -ESHUTDOWN,
				"the engine of the appliance ends");
			hr_store_job_fail(c, d);
		}
		if (d->last)
			send_rest(c, d, c->at_ns);
		if (d->state != HR_STORE_JOB_FREE)
			drop_job(c, d, "the engine ends");
	}
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		if (c->kept[i].id)
			hr_store_unpin(&c->engine->ssd[c->kept[i].ssd].store, c->kept[i].pin);
	munmap(c->memory, HR_STORE_CLIENTS * (size_t)HR_STORE_JOB_BUFFER);
	close(c->wake);
	c->wake = -1;
	c->engine = NULL;
}
