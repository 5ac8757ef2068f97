/*
 * The service of store requests by the clock of the test: rate, pauses, deadlines, jobs, and counts. No
 * ssd is up, because the threads of a controller move the clock.
 */
#include <sys/epoll.h>

#include "boot/appliance/store_job_put.h"
#include "tests/fakes/clock.h"
#include "tests/harness/store_service_rig.h"

#define S HR_NS_PER_S
#define US 1000
#define AT (1000 * S)

static int client[HR_STORE_CLIENTS]; /* the clients of jobs that the test makes */

static void begin_steps(void)
{
	begin_down();
	memset(client, 0xff, sizeof client);
}

static void end_steps(void)
{
	fake_clock_stop();
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		close(client[i]);
	app->run[0].pipe = NULL;
	end();
}

TestSuite(store_service_steps, .init = begin_steps, .fini = end_steps, .timeout = 120);

/* A job in a state, with a client. */
static struct hr_store_job *make(uint32_t i, enum hr_store_job_state state,
				 enum hr_request_kind kind)
{
	struct hr_store_job *d = &service->job[i];
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	client[i] = pair[0];
	d->state = state;
	d->fd = pair[1];
	d->request = request(kind, "");
	d->waits_ns = d->heard_ns = hr_now_ns();
	return d;
}

static void forget(uint32_t i)
{
	uint8_t *buffer = service->job[i].buffer;

	close(service->job[i].fd);
	close(client[i]);
	client[i] = -1;
	memset(&service->job[i], 0, sizeof service->job[i]);
	service->job[i].buffer = buffer;
}

/* A request that the service answers without an ssd. */
static struct hr_request unknown_ssd(void)
{
	struct hr_request r = request(HR_REQUEST_STORE_MAP, "");

	strcpy(r.disk, "name:none");
	return r;
}

static void pipeline_runs(bool runs)
{
	app->run[0].started_ns = runs;
	app->run[0].pipe = runs ? &app->run[0].cpu : NULL;
}

/* ---- pieces and rate */

Test(store_service_steps, pieces)
{
	static const struct {
		bool limited;
		uint64_t bytes, at;
		uint32_t want;
	} row[] = {
		{ false, 0, 0, 0 },
		{ false, 10, 4, 6 },
		{ false, 1 << 20, 0, 1 << 20 },
		{ false, (1 << 20) + 1, 0, 1 << 20 },
		{ false, (1 << 20) + 1, 3, 1048574 },
		{ true, 256 << 10, 0, 256 << 10 },
		{ true, (256 << 10) + 1, 0, 256 << 10 },
		{ true, 1ull << 40, 1 << 20, 256 << 10 },
		{ false, 1ull << 40, 1 << 20, 1 << 20 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_store_job d = { .object.bytes = row[i].bytes, .at = row[i].at };

		service->limited = row[i].limited;
		cr_expect_eq(hr_store_service_piece(service, &d), row[i].want, "row %zu", i);
	}
	service->limited = false;
}

/* The time since the last step, of which a part is credit, while a pipeline runs. */
Test(store_service_steps, credit)
{
	static const struct {
		bool runs, disk;
		uint32_t percent;
		uint64_t passed_ns;
		int64_t before, want;
	} row[] = {
		{ false, false, 15, 1000 * US, -5, 0 },
		{ true, false, 100, 1000 * US, -5, 0 },
		{ true, false, 15, 1000 * US, 0, 150 * US },
		{ true, false, 99, 1000 * US, -2000 * US, -1010 * US },
		{ true, true, 15, 1000 * US, 0, -850 * US },
		{ true, false, 50, 4000 * US, 0, 2000 * US },
		{ true, false, 50, 4002 * US, 0, 2000 * US },
		{ true, false, 50, 3998 * US, 0, 1999 * US },
		{ true, false, 15, 99, 7, 7 }, /* whole hundreds */
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_clock_start(AT, NULL, NULL);
		pipeline_runs(row[i].runs);
		app->config.control.store_percent = row[i].percent;
		service->at_ns = AT - row[i].passed_ns;
		service->credit_ns = row[i].before;
		if (row[i].disk)
			make(7, HR_STORE_JOB_ON_DISK, HR_REQUEST_STORE_GET);
		hr_store_service_step(service);
		cr_expect_eq(service->credit_ns, row[i].want, "row %zu: %lld", i,
			     (long long)service->credit_ns);
		cr_expect_eq(service->limited, row[i].runs && row[i].percent < 100, "row %zu", i);
		cr_expect_eq(service->at_ns, AT);
		if (row[i].disk)
			forget(7);
	}
}

Test(store_service_steps, pauses)
{
	static const struct {
		enum hr_store_job_state state[2];
		bool limited;
		int64_t credit_ns;
		uint64_t want;
	} row[] = {
		{ { HR_STORE_JOB_FREE, HR_STORE_JOB_FREE }, false, 0, S },
		{ { HR_STORE_JOB_SENDS, HR_STORE_JOB_RECEIVES }, false, 0, S },
		{ { HR_STORE_JOB_ON_DISK, HR_STORE_JOB_FREE }, false, 0, 20 * US },
		{ { HR_STORE_JOB_FREE, HR_STORE_JOB_READY }, false, 0, 0 },
		{ { HR_STORE_JOB_FREE, HR_STORE_JOB_BEGINS }, false, 0, 0 },
		{ { HR_STORE_JOB_FREE, HR_STORE_JOB_FINISHES }, true, 0, 0 },
		{ { HR_STORE_JOB_FREE, HR_STORE_JOB_READY }, true, -1, 20 * US },
		{ { HR_STORE_JOB_READY, HR_STORE_JOB_SENDS }, true, -1, 20 * US },
		{ { HR_STORE_JOB_ON_DISK, HR_STORE_JOB_READY }, false, 0, 20 * US },
		{ { HR_STORE_JOB_READY, HR_STORE_JOB_ON_DISK }, false, 0, 20 * US },
	};
	static struct {
		struct hr_store_service service;
		struct hr_store_job behind;
	} two;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		service->limited = row[i].limited;
		service->credit_ns = row[i].credit_ns;
		for (uint32_t k = 0; k < 2; k++)
			service->job[k * 7].state = row[i].state[k];
		cr_expect_eq(hr_store_service_pause_ns(service), row[i].want, "row %zu: %llu", i,
			     (unsigned long long)hr_store_service_pause_ns(service));
	}
	/* a job for another ssd needs not wait */
	service->limited = false;
	service->job[0].state = HR_STORE_JOB_ON_DISK;
	service->job[7].state = HR_STORE_JOB_READY;
	service->job[7].ssd = 1;
	cr_expect_eq(hr_store_service_pause_ns(service), 0u);
	service->job[0].state = service->job[7].state = HR_STORE_JOB_FREE;
	service->job[7].ssd = 0;
	/* nor does what lies behind the last job count */
	two.service = *service;
	two.service.job[7].state = HR_STORE_JOB_READY;
	two.behind.state = HR_STORE_JOB_ON_DISK;
	cr_expect_eq(hr_store_service_pause_ns(&two.service), 0u);
}

/* ---- the status */

Test(store_service_steps, what_the_status_shows)
{
	static const struct {
		enum hr_store_job_state state;
		enum hr_request_kind kind;
		uint64_t done, total;
	} row[] = {
		{ HR_STORE_JOB_SENDS, HR_REQUEST_STORE_GET, 11, 12 },
		{ HR_STORE_JOB_READY, HR_REQUEST_STORE_PUT, 11, 13 },
		{ HR_STORE_JOB_FINISHES, HR_REQUEST_STORE_VERIFY, 14, 15 },
		{ HR_STORE_JOB_BEGINS, HR_REQUEST_STORE_GET, 11, 12 },
		{ HR_STORE_JOB_FREE, HR_REQUEST_STORE_GET, 0, 0 },
	};
	struct hr_record_store status;

	service->requests = 3;
	service->refused = 4;
	service->dropped = 5;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_store_job *d = &service->job[7];
		struct hr_record_store want = { .requests = 3, .refused = 4, .dropped = 5 };

		d->state = row[i].state;
		d->request = request(row[i].kind, "x");
		d->ssd = 2;
		d->at = 11;
		d->object.bytes = 12;
		d->request.bytes = 13;
		d->checked = 14;
		d->total = 15;
		d->user = 16;
		d->process = 17;
		if (d->state != HR_STORE_JOB_FREE)
			want.job[7] = (struct hr_record_store_job){
				.kind = (uint64_t)row[i].kind,
				.ssd = d->state == HR_STORE_JOB_BEGINS ? HR_SSDS_MAX : 2,
				.object = "x",
				.done_bytes = row[i].done,
				.total_bytes = row[i].total,
				.user = 16,
				.process = 17
			};
		memset(&status, 0xee, sizeof status);
		hr_store_service_take(service, &status);
		cr_expect_eq(memcmp(&status, &want, sizeof want), 0, "row %zu", i);
		d->total = 13; /* objects that have come meanwhile were verified */
		hr_store_service_take(service, &status);
		if (row[i].kind == HR_REQUEST_STORE_VERIFY)
			cr_expect_eq(status.job[7].total_bytes, 14u);
		d->state = HR_STORE_JOB_FREE;
	}
}

/* ---- clients that are slow, or silent */

/* The one that the service has waited for longest, and at least a second. */
Test(store_service_steps, the_job_that_a_new_client_takes)
{
	static const struct {
		uint32_t oldest; /* the index of the job that is dropped; HR_STORE_CLIENTS: none */
		uint64_t waits_ns[HR_STORE_CLIENTS]; /* the time that it has waited */
	} row[] = {
		{ 3, { 2 * S, 3 * S, 3 * S, 4 * S, 4 * S, 1, 1, 1 } },
		{ 0, { S, S - 1, 0, 0, 0, 0, 0, 0 } },
		{ 7, { 0, 0, 0, 0, 0, 0, S - 1, S } },
		{ HR_STORE_CLIENTS, { S - 1, S - 1, S - 1, S - 1, S - 1, S - 1, S - 1, S - 1 } },
	};

	for (size_t n = 0; n < sizeof row / sizeof *row; n++) {
		struct hr_request r = unknown_ssd();
		const bool taken = row[n].oldest < HR_STORE_CLIENTS;
		const uint64_t dropped = service->dropped, refused = service->refused;
		char byte;
		int fd;

		fake_clock_start(AT, NULL, NULL);
		for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
			make(i, HR_STORE_JOB_RECEIVES, HR_REQUEST_STORE_PUT)->waits_ns =
				AT - row[n].waits_ns[i];
			service->job[i].piece = 10;
		}
		fd = pass(&r);
		hr_store_service_step(service);
		cr_expect_eq(service->dropped, dropped + taken, "row %zu", n);
		cr_expect_eq(service->refused, refused + !taken, "row %zu", n);
		for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
			cr_expect_eq(recv(client[i], &byte, 1, 0), i == row[n].oldest ? 0 : -1,
				     "row %zu, client %u", n, i);
		got = 0;
		expect(finish(fd, HR_REQUEST_STORE_MAP, taken ? 3 : 1),
		       taken ? "\"absent\""
			     : "{\"schema\": \"headrace.answer\", \"version\": 1, "
			       "\"appliance\": \"box\", \"request\": \"store-map\", "
			       "\"result\": \"failed\", \"code\": 1, \"message\": \"busy: all "
			       "connections for store requests are in use\"}\n");
		for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
			if (service->job[i].state != HR_STORE_JOB_FREE)
				forget(i);
	}
}

/* Only jobs that wait for their clients are taken. */
Test(store_service_steps, a_job_that_works_is_not_taken)
{
	struct hr_request r = unknown_ssd();

	fake_clock_start(AT, NULL, NULL);
	pipeline_runs(true);
	service->at_ns = AT;
	service->credit_ns = -(int64_t)S;
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		make(i, i % 2 ? HR_STORE_JOB_READY : HR_STORE_JOB_FINISHES, HR_REQUEST_STORE_PUT)
			->waits_ns = 0;
	got = 0;
	finish(pass(&r), HR_REQUEST_STORE_MAP, 1);
	cr_expect_eq(service->dropped, 0u);
	cr_expect_eq(service->refused, 1u);
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
		cr_expect_eq(service->job[i].state,
			     i % 2 ? HR_STORE_JOB_READY : HR_STORE_JOB_FINISHES, "no credit");
		forget(i);
	}
}

Test(store_service_steps, a_silent_client_is_dropped)
{
	static const struct {
		enum hr_store_job_state state;
		uint64_t silent_ns;
		bool dropped;
	} row[] = {
		{ HR_STORE_JOB_RECEIVES, HR_STORE_CLIENT_SILENT_NS - 1, false },
		{ HR_STORE_JOB_RECEIVES, HR_STORE_CLIENT_SILENT_NS, true },
		{ HR_STORE_JOB_SENDS, HR_STORE_CLIENT_SILENT_NS - 1, false },
		{ HR_STORE_JOB_SENDS, HR_STORE_CLIENT_SILENT_NS, true },
		{ HR_STORE_JOB_READY, 10 * HR_STORE_CLIENT_SILENT_NS, false },
		{ HR_STORE_JOB_SENDS, (uint64_t)-5, false }, /* it was heard in this step */
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint64_t dropped = service->dropped;
		struct hr_store_job *d;

		fake_clock_start(AT, NULL, NULL);
		pipeline_runs(row[i].state == HR_STORE_JOB_READY);
		service->at_ns = AT;
		service->credit_ns = -(int64_t)S;
		d = make(2, row[i].state, HR_REQUEST_STORE_PUT);
		d->heard_ns = AT - row[i].silent_ns;
		d->piece = 10;
		d->length = HR_STORE_JOB_BUFFER; /* more than the client takes */
		if (d->state == HR_STORE_JOB_SENDS) {
			const int small = 4096;

			setsockopt(d->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
			while (send(d->fd, d->buffer, 4096, MSG_DONTWAIT) > 0)
				continue;
		}
		hr_store_service_step(service);
		cr_expect_eq(service->dropped, dropped + row[i].dropped, "row %zu", i);
		cr_expect_eq(d->state, row[i].dropped ? HR_STORE_JOB_FREE : row[i].state);
		if (d->state != HR_STORE_JOB_FREE)
			forget(2);
	}
}

/* ---- signs of life while data go to a client */

/* Signs of life come in parts; anything else ends the connection. */
Test(store_service_steps, what_a_client_may_send_while_it_receives)
{
	static const struct {
		enum hr_message_kind kind;
		enum hr_request_kind of;
		bool stays;
	} row[] = {
		{ HR_MESSAGE_ALIVE, HR_REQUEST_STORE_GET, true },
		{ HR_MESSAGE_GO, HR_REQUEST_STORE_GET, false },
		{ HR_MESSAGE_ALIVE, HR_REQUEST_STORE_PUT, false },
	};
	uint8_t head[HR_MESSAGE_HEADER];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_message_item item = { row[i].kind, 0 };
		struct hr_store_job *d;

		fake_clock_start(AT, NULL, NULL);
		d = make(1, HR_STORE_JOB_SENDS, HR_REQUEST_STORE_GET);
		d->length = HR_STORE_JOB_BUFFER;
		while (send(d->fd, d->buffer, 4096, MSG_DONTWAIT) > 0)
			continue;
		hr_message_format_item(&item, row[i].of, head);
		for (uint32_t twice = 0; twice < 2 && d->state != HR_STORE_JOB_FREE; twice++) {
			cr_assert_eq(send(client[1], head, 15, 0), 15);
			d->heard_ns = 0;
			hr_store_service_step(service);
			cr_expect_eq(d->head_got, 15u);
			cr_expect_eq(d->heard_ns, AT);
			cr_assert_eq(send(client[1], head + 15, 1, 0), 1);
			d->heard_ns = 0;
			hr_store_service_step(service);
			cr_expect_eq(d->state,
				     row[i].stays ? HR_STORE_JOB_SENDS : HR_STORE_JOB_FREE,
				     "row %zu", i);
			cr_expect_eq(d->head_got, 0u);
			cr_expect_eq(d->heard_ns, row[i].stays ? AT : 0);
		}
		if (d->state != HR_STORE_JOB_FREE)
			forget(1);
	}
	cr_expect_eq(service->dropped, 2u);
}

Test(store_service_steps, a_client_that_hangs_up_is_dropped)
{
	struct hr_store_job *d = make(1, HR_STORE_JOB_SENDS, HR_REQUEST_STORE_GET);

	d->length = 10;
	close(client[1]);
	client[1] = -1;
	hr_store_service_step(service);
	cr_expect_eq(d->state, HR_STORE_JOB_FREE);
	cr_expect_eq(service->dropped, 1u);
	/* the reply is still sent to one that has ended its own side */
	d = make(1, HR_STORE_JOB_SENDS, HR_REQUEST_STORE_GET);
	shutdown(client[1], SHUT_WR);
	d->length = 10;
	d->last = true;
	hr_store_service_step(service);
	cr_expect_eq(recv(client[1], answer, 100, 0), 10);
	cr_expect_eq(d->state, HR_STORE_JOB_FREE);
	cr_expect_eq(service->dropped, 1u);
}

/* ---- events of a client's connection */

static bool readable(void)
{
	struct pollfd wake = { .fd = service->wake, .events = POLLIN };

	return poll(&wake, 1, 0) == 1;
}

Test(store_service_steps, what_the_service_waits_for)
{
	struct hr_store_job *d;

	fake_clock_start(AT, NULL, NULL);
	cr_expect_not(readable());
	d = make(4, HR_STORE_JOB_RECEIVES, HR_REQUEST_STORE_PUT);
	d->piece = 10;
	d->object.bytes = 10;
	hr_store_service_step(service);
	cr_expect_eq(d->events, (uint32_t)EPOLLIN);
	cr_expect_not(readable());
	cr_expect_eq(send(client[4], "x", 1, 0), 1);
	cr_expect(readable());
	forget(4);
	d = make(4, HR_STORE_JOB_SENDS, HR_REQUEST_STORE_GET);
	d->length = HR_STORE_JOB_BUFFER;
	for (uint32_t last = 0; last < 2; last++) {
		d->last = last;
		while (send(d->fd, d->buffer, 4096, MSG_DONTWAIT) > 0)
			continue;
		hr_store_service_step(service);
		cr_expect_eq(d->events, last ? (uint32_t)EPOLLOUT : (uint32_t)(EPOLLOUT | EPOLLIN));
		cr_expect_not(readable());
		while (recv(client[4], answer, 1 << 20, 0) > 0)
			continue;
		cr_expect(readable());
	}
	pipeline_runs(true);
	service->credit_ns = -(int64_t)S;
	d->state = HR_STORE_JOB_READY;
	hr_store_service_step(service);
	cr_expect_eq(d->events, 0u);
	cr_expect_not(readable());
	forget(4);
}

/* ---- the socket of clients */

/* 16 clients in one step, the others in the next one. */
Test(store_service_steps, clients_that_come_together)
{
	struct hr_request r = { .kind = HR_REQUEST_STATUS };
	int fd[2 * HR_STORE_CLIENTS + 1];

	for (uint32_t i = 0; i <= 2 * HR_STORE_CLIENTS; i++)
		fd[i] = pass(&r);
	cr_expect(readable());
	hr_store_service_step(service);
	cr_expect_eq(service->requests, 2 * HR_STORE_CLIENTS);
	hr_store_service_step(service);
	cr_expect_eq(service->requests, 2 * HR_STORE_CLIENTS + 1);
	cr_expect_eq(service->refused, 2 * HR_STORE_CLIENTS + 1);
	cr_expect_not(readable());
	for (uint32_t i = 0; i <= 2 * HR_STORE_CLIENTS; i++)
		close(fd[i]);
}

/* A message of another length, or without a client, is no client; its descriptor is closed. */
Test(store_service_steps, messages_that_are_no_clients)
{
	const struct hr_request r = unknown_ssd();
	int pair[2];
	char byte;

	cr_assert_eq(hr_pass_send(hands[0], &r, sizeof r, NULL, 0), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	cr_assert_eq(hr_pass_send(hands[0], &r, sizeof r - 1, &pair[1], 1), 0);
	close(pair[1]);
	hr_store_service_step(service);
	cr_expect_eq(service->requests, 0u);
	cr_expect_eq(recv(pair[0], &byte, 1, 0), 0, "closed");
	close(pair[0]);
	cr_expect_geq(service->clients, 0);
	got = 0;
	finish(pass(&r), HR_REQUEST_STORE_MAP, 3);
	cr_expect_eq(service->requests, 1u);
}

Test(store_service_steps, another_descriptor_that_wakes_the_service)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	hr_store_service_wake_by(service, -1);
	hr_store_service_wake_by(service, ends[0]);
	cr_expect_not(readable());
	cr_assert_eq(write(ends[1], "x", 1), 1);
	cr_expect(readable());
	close(ends[0]);
	close(ends[1]);
}

/* ---- the end */

TestSuite(store_service_end, .init = begin, .fini = end, .timeout = 120);

/* An answer of which a part is sent is not completed by a reply. */
Test(store_service_end, the_end_for_clients_in_each_state)
{
	static const struct {
		enum hr_store_job_state state;
		size_t length, sent;
		bool last, told;
	} row[] = {
		{ HR_STORE_JOB_BEGINS, 0, 0, false, true },
		{ HR_STORE_JOB_READY, 0, 0, false, true },
		{ HR_STORE_JOB_SENDS, 30, 0, false, true },
		{ HR_STORE_JOB_SENDS, 30, 10, false, false },
		{ HR_STORE_JOB_SENDS, 30, 10, true, false },
		{ HR_STORE_JOB_RECEIVES, 0, 10, false, true },
	};
	const uint32_t rows = sizeof row / sizeof *row;
	int own[sizeof row / sizeof *row + 1];
	uint32_t pin;

	for (uint32_t i = 0; i < rows; i++) {
		struct hr_store_job *d = make(i, row[i].state, HR_REQUEST_STORE_GET);

		d->length = row[i].length;
		d->sent = row[i].sent;
		d->last = row[i].last;
		d->ssd = HR_SSDS_MAX;
		memset(d->buffer, 'x', 30);
		hr_fail(&d->e, HR_ERROR_DEVICE, -EIO, "of an earlier step");
		own[i] = d->fd;
	}
	own[rows] = service->wake;
	cr_assert_eq(hr_store_pin(store, hr_store_find(store, "in")->id, true, &pin), 0);
	service->kept[7].id = hr_store_find(store, "in")->id;
	service->kept[7].pin = pin;
	hr_store_service_close(service);
	cr_expect_not(hr_store_is_pinned(store, pin));
	cr_expect_eq(service->wake, -1);
	cr_expect_null(service->app);
	for (uint32_t i = 0; i <= rows; i++)
		cr_expect_eq(fcntl(own[i], F_GETFD), -1, "%u", i);
	for (uint32_t i = 0; i < rows; i++) {
		ssize_t n = recv(client[i], answer, 1000, 0);

		cr_assert_geq(n, 0, "row %u", i);
		answer[n] = '\0';
		cr_expect_eq(recv(client[i], answer + 999, 1, 0), 0, "row %u is open", i);
		if (row[i].told) {
			const size_t at = row[i].state == HR_STORE_JOB_SENDS ? row[i].length : 0;
			got = (size_t)n - at;
			memmove(answer, answer + at, got + 1);
			expect(reply_at(0, HR_REQUEST_STORE_GET, 1),
			       "\"message\": \"the engine of the appliance ends\"");
		} else {
			cr_expect_eq(n, row[i].last ? 20 : 0, "row %u: %zd", i, n);
		}
	}
	cr_expect_eq(hr_store_service_pause_ns(service), S);
	for (uint32_t i = 0; i < rows; i++)
		close(client[i]);
}
