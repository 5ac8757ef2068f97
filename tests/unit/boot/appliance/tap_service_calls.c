/*
 * The taps of all pipelines, call by call: which clients get a seat, wait or are refused, and what the
 * end of a run means. Clients, consumers and the run's words are the test's.
 */
#define hr_tap_consumers_begin test_consumers_begin
#define hr_tap_consumers_end test_consumers_end
#define hr_tap_consumers_share test_share
#define hr_tap_consumer_seat test_seat
#define hr_tap_consumer_greet test_greet
#define hr_tap_consumer_step test_consumer_step
#define hr_tap_consumer_take test_consumer_take
#define hr_tap_client_process test_process
#define hr_tap_clients_begin test_clients_begin
#define hr_tap_clients_step test_clients_step
#define hr_tap_clients_waiting test_waiting
#define hr_tap_clients_seated test_seated
#define hr_tap_clients_refuse test_refuse
#define hr_tap_clients_refuse_all test_refuse_all
#define hr_tap_clients_drop test_drop
#define hr_tap_socket_close test_socket_close
#define hr_tap_users test_users
#define hr_run_tap_words test_words
#define hr_pass_send test_send
#define hr_random test_random
#define hr_wait_readable test_readable
#include "boot/appliance/tap_service.c"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>

#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define START (100 * HR_NS_PER_S)

static struct hr_tap_service *s;
static struct hr_appliance *app;
static struct hr_tap_sockets sockets;
static struct hr_tap_words words[3];
static struct hr_gpu_facts facts;
static struct {
	int seat, greet, random, process;
	uint32_t waiting; /* clients that wait, from the first on */
	bool events;
	uint32_t attached; /* seats */
} will;

static uint32_t port_of(const void *part)
{
	return (uint32_t)(((const char *)part - (const char *)s->port) / (long)sizeof *s->port);
}

void test_consumers_begin(struct hr_tap_table *t)
{
	calls_note("table(%u) ", port_of(t));
}
void test_consumers_end(struct hr_tap_table *t, bool again)
{
	calls_note("end(%u%s) ", port_of(t), again ? ",again" : "");
}
void test_share(struct hr_tap_table *t, uint64_t now_ns)
{
	cr_expect_eq(now_ns, hr_now_ns());
	calls_note("share(%u) ", port_of(t));
}
int test_seat(const struct hr_tap_table *t)
{
	calls_note("seat ");
	return will.seat;
}
int test_greet(struct hr_tap_table *t, uint32_t seat, const struct hr_tap_message *hello,
	       const struct hr_credentials *peer, int fd, int pidfd, struct hr_error *e)
{
	calls_note("greet(%u,%s,%d,%d,%d) ", seat, hello->name, (int)peer->process, fd, pidfd);
	return will.greet ? hr_fail(e, HR_ERROR_FAILED, will.greet, "no memory for it") : 0;
}
void test_consumer_step(struct hr_tap_table *t, uint32_t seat, bool events, uint64_t now_ns)
{
	cr_expect(events == will.events && now_ns == hr_now_ns());
	if (seat == 0 || seat == HR_TAP_SEATS - 1)
		calls_note("step(%u,%u) ", port_of(t), seat);
}
bool test_consumer_take(const struct hr_tap_table *t, uint32_t seat, struct hr_record_consumer *to)
{
	if (!(will.attached >> seat & 1))
		return false;
	to->pipeline = port_of(t);
	to->user = seat;
	return true;
}
int test_process(const struct hr_tap_client *client)
{
	return will.process;
}
void test_clients_begin(struct hr_tap_clients *c)
{
	cr_expect(c->wake == s->wake && c->wake >= 0);
	calls_note("clients(%u,%s,%d) ", port_of(c), c->name, c->fd);
}
void test_clients_step(struct hr_tap_clients *c, bool events, uint64_t now_ns)
{
	cr_expect(events == will.events && now_ns == hr_now_ns());
	calls_note("hear(%u) ", port_of(c));
}
struct hr_tap_client *test_waiting(struct hr_tap_clients *c, uint32_t *i)
{
	return *i < will.waiting ? &c->client_of[(*i)++] : NULL;
}
void test_seated(struct hr_tap_clients *c, struct hr_tap_client *client, int pidfd)
{
	calls_note("seated(%d,%d) ", (int)(client - c->client_of), pidfd);
}
void test_refuse(struct hr_tap_clients *c, struct hr_tap_client *client, int err, const char *why)
{
	calls_note("refuse(%d,%d,%s) ", (int)(client - c->client_of), err, why);
}
void test_refuse_all(struct hr_tap_clients *c, int err, const char *why)
{
	calls_note("refuse-all(%u,%d,%s) ", port_of(c), err, why);
}
void test_drop(struct hr_tap_clients *c)
{
	calls_note("drop(%u) ", port_of(c));
}
void test_socket_close(struct hr_tap_sockets *of, uint32_t pipeline)
{
	cr_expect_eq(of, &sockets);
	calls_note("socket-close(%u) ", pipeline);
}
void test_users(const struct hr_config_tap *tap, struct hr_config_control *users)
{
	users->mode = 0660;
}
struct hr_tap_words *test_words(const struct hr_run *run)
{
	return &words[run - app->run];
}
int test_send(int socket, const void *data, size_t bytes, const int *fds, unsigned count)
{
	const struct hr_tap_message *m = data;

	cr_expect(bytes == sizeof *m && !fds && !count && m->kind == HR_TAP_WAIT);
	calls_note("tell(%d,%s) ", socket, m->text);
	return 0;
}
int test_random(void *to, size_t bytes)
{
	cr_expect_eq(bytes, sizeof(uint64_t));
	memset(to, 7, bytes);
	return will.random;
}
bool test_readable(int fd, uint64_t ns)
{
	cr_expect(fd == s->wake && ns == 0);
	return will.events;
}

/* ---- set-up: three pipelines, of which 0 and 2 have taps */

static void set_up(void)
{
	s = calloc(1, sizeof *s);
	app = calloc(1, sizeof *app);
	cr_assert(s && app);
	app->config.pipelines = 3;
	app->backend[0].facts = &facts;
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++)
		sockets.fd[i] = i == 0 || i == 2 ? 50 + (int)i : -1;
	for (uint32_t i = 0; i < 3; i++) {
		struct hr_config_pipeline *p = &app->config.pipeline[i];

		snprintf(p->name, 4, "p%u", i);
		snprintf(p->tap.name, 4, "t%u", i);
		p->tap.tries = 3;
		app->run[i].config = p;
		app->run[i].selected = true;
	}
	will.process = -1;
	fake_clock_start(START, NULL, NULL);
}

static void tear_down(void)
{
	fake_clock_stop();
	hr_tap_service_close(s);
	free(s);
	free(app);
}

TestSuite(tap_service_calls, .init = set_up, .fini = tear_down, .timeout = 60);

static void expect_calls(const char *want)
{
	const char *got = calls_take();

	cr_expect_str_eq(got, want, "%s", got);
}

static void open_at(enum hr_stage up, bool supervised)
{
	app->up = up;
	cr_assert_eq(hr_tap_service_open(s, app, &sockets, supervised, test_error()), 0);
}

/* ---- opening */

Test(tap_service_calls, ports)
{
	open_at(HR_STAGE_STORES, true);
	expect_calls("table(0) clients(0,t0,50) table(2) clients(2,t2,52) ");
	cr_expect(s->app == app && s->sockets == &sockets && s->supervised && s->wake >= 0);
	cr_expect(s->port[0].state == HR_TAP_IDLE && s->port[1].state == HR_TAP_CLOSED &&
		  s->port[2].state == HR_TAP_IDLE);
	{
		const struct hr_tap_port *port = &s->port[2];

		cr_expect(port->table.app == app && port->table.run == &app->run[2] &&
			  port->table.pipeline == 2 && port->table.facts == &facts);
		cr_expect_str_eq(port->clients.kind, "tap");
		cr_expect_str_eq(port->clients.client, "consumer");
		cr_expect(port->clients.hello == HR_TAP_HELLO &&
			  port->clients.version == HR_TAP_VERSION &&
			  port->clients.refused == &app->run[2].tap.refused &&
			  port->clients.users.mode == 0660);
	}
	hr_tap_service_close(s);
	expect_calls("drop(0) drop(2) ");
	cr_expect(!s->app && s->wake == -1);
	hr_tap_service_close(s);
	hr_tap_service_step(s);
	cr_expect_eq(hr_tap_service_begin(s, 0, test_error()), 0);
	hr_tap_service_end(s, 0);
	expect_calls("");
}

/* A run that waits begins with the queues. */
Test(tap_service_calls, runs_that_are_up)
{
	static const struct {
		enum hr_stage up;
		bool selected;
		enum hr_outcome outcome;
		int error;
		bool supervised;
		enum hr_tap_port_state want;
	} row[] = {
		{ HR_STAGE_QUEUES, true, HR_RUN_WAITING, 0, true, HR_TAP_LIVE },
		{ HR_STAGE_QUEUES - 1, true, HR_RUN_WAITING, 0, true, HR_TAP_IDLE },
		{ HR_STAGE_QUEUES, false, HR_RUN_WAITING, 0, true, HR_TAP_IDLE },
		{ HR_STAGE_QUEUES, true, HR_RUN_COMPLETE, 0, true, HR_TAP_OVER },
		{ HR_STAGE_QUEUES, true, HR_RUN_FAILED, -EIO, true, HR_TAP_IDLE },
		{ HR_STAGE_QUEUES, true, HR_RUN_FAILED, -EINVAL, true, HR_TAP_OVER },
		{ HR_STAGE_QUEUES, true, HR_RUN_FAILED, -EIO, false, HR_TAP_OVER },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		app->run[2].selected = row[i].selected;
		app->run[2].outcome = row[i].outcome;
		app->run[2].error = row[i].error;
		open_at(row[i].up, row[i].supervised);
		cr_expect_eq(s->port[2].state, row[i].want, "row %zu: %u", i, s->port[2].state);
		app->config.pipeline[1].when.kind = HR_WHEN_FOREVER; /* all run again */
		hr_tap_service_close(s);
		open_at(HR_STAGE_STORES, row[i].supervised);
		cr_expect_eq(s->port[2].state, row[i].supervised ? HR_TAP_IDLE : HR_TAP_OVER);
		app->config.pipeline[1].when.kind = HR_WHEN_ONCE;
		hr_tap_service_close(s);
		calls_take();
	}
}

Test(tap_service_calls, without_taps)
{
	cr_assert_eq(hr_tap_service_open(s, app, NULL, true, test_error()), 0);
	cr_expect_eq(s->wake, -1);
	hr_tap_service_step(s);
	hr_tap_service_close(s);
	expect_calls("");
}

Test(tap_service_calls, errors_of_opening)
{
	will.random = -EAGAIN;
	app->up = HR_STAGE_QUEUES;
	cr_expect_eq(hr_tap_service_open(s, app, &sockets, true, test_error()), -EAGAIN);
	cr_expect_str_eq(test_error_text(), "random numbers: Resource temporarily unavailable");
	cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
	expect_calls("table(0) clients(0,t0,50) drop(0) ");
	cr_expect(!s->app && s->wake == -1);
}

/* ---- clients */

static void let_clients_wait(uint32_t count)
{
	will.waiting = count;
	for (uint32_t i = 0; i < count; i++) {
		struct hr_tap_client *client = &s->port[2].clients.client_of[i];

		client->fd = 70 + (int)i;
		client->told = false;
		client->peer.process = 80 + (int)i;
		snprintf(client->hello.name, sizeof client->hello.name, "c%u", i);
	}
}

Test(tap_service_calls, clients_that_get_a_seat)
{
	int pidfd;

	open_at(HR_STAGE_STORES, true);
	calls_take();
	let_clients_wait(2);
	will.seat = 4;
	will.process = pidfd = dup(0);
	cr_expect_eq(hr_tap_service_begin(s, 2, test_error()), 0);
	{
		char want[256];

		snprintf(want, sizeof want,
			 "seat greet(4,c0,80,70,%d) seated(0,%d) seat greet(4,c1,81,71,%d) "
			 "seated(1,%d) ",
			 pidfd, pidfd, pidfd, pidfd);
		expect_calls(want);
	}
	cr_expect_eq(s->port[2].state, HR_TAP_LIVE);
	cr_expect_eq(s->port[2].table.epoch, 0x0707070707070707ull);
	cr_expect_neq(fcntl(pidfd, F_GETFD), -1);
	will.greet = -ENOMEM;
	will.waiting = 1;
	greet_waiting(&s->port[2]);
	{
		char want[128];

		snprintf(want, sizeof want,
			 "seat greet(4,c0,80,70,%d) refuse(0,-12,no memory for it) ", pidfd);
		expect_calls(want);
	}
	cr_expect_eq(fcntl(pidfd, F_GETFD), -1, "closed");
	will.process = -1;
	will.seat = -EBUSY;
	greet_waiting(&s->port[2]);
	expect_calls("seat refuse(0,-16,all 16 seats of the tap are in use) ");
}

Test(tap_service_calls, clients_that_wait)
{
	open_at(HR_STAGE_STORES, true);
	calls_take();
	let_clients_wait(2);
	greet_waiting(&s->port[2]);
	expect_calls("tell(70,pipeline 'p2' does not run now: it has to start first) "
		     "tell(71,pipeline 'p2' does not run now: it has to start first) ");
	greet_waiting(&s->port[2]);
	expect_calls("");
	let_clients_wait(1);
	s->port[2].state = HR_TAP_LIVE;
	words[2].last = 1;
	greet_waiting(&s->port[2]);
	expect_calls("tell(70,pipeline 'p2' has lent all its tiles to other consumers) ");
	greet_waiting(&s->port[2]);
	expect_calls("");
	s->port[2].state = HR_TAP_IDLE;
	greet_waiting(&s->port[2]);
	expect_calls("tell(70,pipeline 'p2' does not run now: it has to start first) ");
	s->port[2].state = HR_TAP_OVER;
	greet_waiting(&s->port[2]);
	expect_calls("refuse(0,-32,the run has ended) ");
}

/* ---- steps */

Test(tap_service_calls, steps)
{
	open_at(HR_STAGE_STORES, true);
	s->port[2].state = HR_TAP_LIVE;
	calls_take();
	will.events = true;
	hr_tap_service_step(s);
	expect_calls("hear(0) hear(2) step(2,0) step(2,15) share(2) ");
	cr_expect_eq(s->at_ns, START);
	will.events = false;
	fake_clock_advance(HR_TAP_STEP_NS - 1);
	hr_tap_service_step(s);
	expect_calls("");
	fake_clock_advance(1);
	app->run[2].ended_ns = START;
	app->run[2].outcome = HR_RUN_DONE;
	hr_tap_service_step(s);
	expect_calls("hear(0) end(2) refuse-all(2,-32,the run has ended) hear(2) ");
	cr_expect_eq(s->port[2].state, HR_TAP_OVER);
}

/* Each number is told once. */
Test(tap_service_calls, tiles_that_failed)
{
	open_at(HR_STAGE_STORES, true);
	hr_tap_service_begin(s, 2, test_error());
	for (uint64_t failed = 0; failed < 3; failed++) {
		for (int twice = 0; twice < 2; twice++) {
			words[2].failed = failed;
			words[2].failed_tile = 10 + failed;
			fake_clock_advance(HR_TAP_STEP_NS);
			hr_tap_service_step(s);
			cr_expect_eq(fake_log_count_of(HR_LOG_WARN), (unsigned)failed);
		}
	}
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "tap 't2': tile 12 is dropped: consumers have given it back as failed 3 "
			 "times; 2 tiles so far");
	words[2].failed = 9;
	hr_tap_service_end(s, 2);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 3u, "at the end, too");
	words[2].failed = 9;
	hr_tap_service_begin(s, 2, test_error());
	cr_expect_eq(s->port[2].table.failed, 0u, "of the run");
	calls_take();
}

/* ---- ends */

Test(tap_service_calls, what_the_end_of_a_run_means)
{
	static const struct {
		bool supervised, repeats;
		enum hr_outcome outcome;
		int error;
		const char *calls;
		enum hr_tap_port_state state;
		bool in_hand;
	} row[] = {
		{ true, false, HR_RUN_DONE, 0, "end(2) refuse-all(2,-32,the run has ended) ",
		  HR_TAP_OVER, false },
		{ true, true, HR_RUN_DONE, 0, "end(2,again) ", HR_TAP_IDLE, false },
		{ true, false, HR_RUN_FAILED, -EIO, "end(2,again) ", HR_TAP_IDLE, true },
		{ true, false, HR_RUN_FAILED, -EINVAL,
		  "end(2) refuse-all(2,-32,the run has ended) ", HR_TAP_OVER, true },
		{ true, false, HR_RUN_WAITING, 0, "end(2,again) ", HR_TAP_IDLE, true },
		{ true, false, HR_RUN_INTERRUPTED, 0, "end(2) refuse-all(2,-32,the run has ended) ",
		  HR_TAP_OVER, true },
		{ true, true, HR_RUN_INTERRUPTED, 0, "end(2) ", HR_TAP_IDLE, true },
		{ false, true, HR_RUN_DONE, 0,
		  "end(2) refuse-all(2,-32,the run has ended) socket-close(2) ", HR_TAP_CLOSED,
		  false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		app->run[2].outcome = HR_RUN_WAITING;
		app->config.pipeline[1].when.kind = row[i].repeats ? HR_WHEN_FOREVER : HR_WHEN_ONCE;
		open_at(HR_STAGE_STORES, row[i].supervised);
		s->port[2].state = HR_TAP_LIVE;
		app->tap_tiles[2].in_hand = false;
		calls_take();
		app->run[2].outcome = row[i].outcome;
		app->run[2].error = row[i].error;
		hr_tap_service_end(s, 2);
		expect_calls(row[i].calls);
		cr_expect_eq(s->port[2].state, row[i].state, "row %zu", i);
		cr_expect_eq(app->tap_tiles[2].in_hand, row[i].in_hand, "row %zu", i);
		cr_expect_not(app->tap_tiles[0].in_hand);
		hr_tap_service_end(s, 2);
		expect_calls("");
		app->tap_tiles[2].in_hand = true;
		s->port[2].state = HR_TAP_LIVE;
		hr_tap_service_end(s, 2);
		cr_expect(app->tap_tiles[2].in_hand, "it stays");
		hr_tap_service_close(s);
		calls_take();
	}
}

/* ---- the status */

Test(tap_service_calls, consumers_of_the_status)
{
	struct hr_record_consumer got[HR_RECORD_CONSUMERS];

	open_at(HR_STAGE_STORES, true);
	will.attached = 1u << 0 | 1u << 5;
	memset(got, 0xee, sizeof got);
	hr_tap_service_take(s, got);
	cr_expect(got[0].user == 0 && got[0].pipeline == 0 && got[31].user == 0);
	s->port[0].state = s->port[2].state = HR_TAP_LIVE;
	hr_tap_service_take(s, got);
	for (uint32_t i = 0; i < 6; i++) {
		cr_expect_eq(got[i].pipeline, i == 2 || i == 3 ? 2u : 0u, "%u", i);
		cr_expect_eq(got[i].user, i == 1 || i == 3 ? 5u : 0u, "%u", i);
	}
	s->port[1].state = HR_TAP_LIVE;
	will.attached = 0xfffe; /* 15 of each: more than there is room for */
	hr_tap_service_take(s, got);
	cr_expect(got[14].pipeline == 0 && got[14].user == 15 && got[15].pipeline == 1 &&
		  got[15].user == 1 && got[31].pipeline == 2 && got[31].user == 2);
	for (uint32_t i = 0; i < 3; i++)
		s->port[i].state = i == 1 ? HR_TAP_CLOSED : HR_TAP_IDLE;
	calls_take();
}
