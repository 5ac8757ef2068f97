/*
 * The feeds of all pipelines, call by call: which client is welcomed, waits or is refused, and the
 * ends. Clients, producers and sockets are the test's.
 */
#define hr_feed_producer_greet test_greet
#define hr_feed_producer_step test_producer_step
#define hr_feed_producer_end test_producer_end
#define hr_feed_producer_take test_producer_take
#define hr_feed_owner_forget test_forget
#define hr_tap_client_process test_process
#define hr_tap_clients_begin test_clients_begin
#define hr_tap_clients_step test_clients_step
#define hr_tap_clients_waiting test_waiting
#define hr_tap_clients_seated test_seated
#define hr_tap_clients_refuse test_refuse
#define hr_tap_clients_refuse_all test_refuse_all
#define hr_socket_listen_feed test_listen
#define hr_random test_random
#define hr_wait_readable test_readable
#include "boot/appliance/feed_service.c"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>

#include "tests/fakes/clock.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define START (100 * HR_NS_PER_S)

static struct hr_feed_service *s;
static struct hr_appliance *app;
static struct hr_gpu_facts facts;
static char folder[32];
static struct {
	int greet, random, zeros, process, listen;
	uint32_t waiting;
	bool events;
} will;
static int listening; /* the newest descriptor */
static struct hr_config_control users;

static uint32_t port_of(const void *part)
{
	return (uint32_t)(((const char *)part - (const char *)s->port) / (long)sizeof *s->port);
}

int test_greet(struct hr_feed_producer *p, const struct hr_tap_message *hello,
	       const struct hr_credentials *peer, int fd, int pidfd, struct hr_error *e)
{
	calls_note("greet(%u,%s,%d,%d,%d) ", port_of(p), hello->name, (int)peer->process, fd,
		   pidfd);
	if (!will.greet)
		p->state = HR_FEED_CLOSING; /* not absent any more */
	return will.greet ? hr_fail(e, HR_ERROR_FAILED, will.greet, "no memory") : 0;
}
void test_producer_step(struct hr_feed_producer *p, bool events, uint64_t now_ns)
{
	cr_expect(events == will.events && now_ns == hr_now_ns());
	calls_note("step(%u) ", port_of(p));
}
void test_producer_end(struct hr_feed_producer *p)
{
	calls_note("end(%u) ", port_of(p));
}
bool test_producer_take(const struct hr_feed_producer *p, struct hr_record_producer *to)
{
	to->attached = 1;
	to->user = port_of(p);
	return true;
}
void test_forget(struct hr_feed_owner *owner)
{
	calls_note("forget(%u) ", port_of(owner));
}
int test_process(const struct hr_tap_client *client)
{
	return will.process;
}
void test_clients_begin(struct hr_tap_clients *c)
{
	cr_expect(c->wake == s->wake && c->wake >= 0 && c->fd == listening);
	calls_note("clients(%u,%s) ", port_of(c), c->name);
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
int test_listen(struct sockaddr_un *at, const char *name, const struct hr_config_control *of,
		struct hr_error *e)
{
	calls_note("listen(%s) ", name);
	users = *of;
	if (will.listen)
		return hr_fail(e, HR_ERROR_MISSING, will.listen, "no socket");
	snprintf(at->sun_path, sizeof at->sun_path, "%s/%s", folder, name);
	listening = open(at->sun_path, O_CREAT | O_RDWR, 0600);
	cr_assert_geq(listening, 0);
	return listening;
}
int test_random(void *to, size_t bytes)
{
	cr_expect_eq(bytes, sizeof(uint64_t));
	memset(to, will.zeros-- > 0 ? 0 : 7, bytes);
	return will.random;
}
bool test_readable(int fd, uint64_t ns)
{
	cr_expect(fd == s->wake && ns == 0);
	return will.events;
}

/* ---- set-up: four pipelines; 0 and 2 have feeds, and the feed of 3 comes from another appliance */

static void set_up(void)
{
	strcpy(folder, "/tmp/hr-feeds-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	s = calloc(1, sizeof *s);
	app = calloc(1, sizeof *app);
	cr_assert(s && app);
	app->config.pipelines = 4;
	app->backend[0].facts = &facts;
	for (uint32_t i = 0; i < 4; i++) {
		struct hr_config_pipeline *p = &app->config.pipeline[i];

		snprintf(p->name, sizeof p->name, "p%u", i);
		if (i != 1)
			snprintf(p->feed.name, sizeof p->feed.name, "f%u", i);
		p->feed.group = i ? 5 : HR_CONTROL_NO_GROUP;
		app->run[i].config = p;
		app->run[i].selected = true;
		app->run[i].cpu.feed = (void *)&facts;
	}
	strcpy(app->config.pipeline[3].from.address, "10.0.0.1");
	will.process = -1;
	fake_clock_start(START, NULL, NULL);
	cr_assert_eq(hr_feed_service_open(s, app, test_error()), 0);
}

static void tear_down(void)
{
	char command[64];

	fake_clock_stop();
	hr_feed_service_close(s);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
	free(s);
	free(app);
}

TestSuite(feed_service_calls, .init = set_up, .fini = tear_down, .timeout = 60);

static void expect_calls(const char *want)
{
	const char *got = calls_take();

	cr_expect_str_eq(got, want, "%s", got);
}

#define FORGET "forget(0) forget(1) forget(2) forget(3) "

/* ---- opening and closing */

Test(feed_service_calls, ports)
{
	struct hr_feed_port *port = &s->port[2];
	int own;

	expect_calls("listen(f0) clients(0,f0) listen(f2) clients(2,f2) ");
	cr_expect(s->app == app && s->wake >= 0 && s->ports == 2);
	cr_expect(s->port[0].open && !s->port[1].open && port->open && !s->port[3].open);
	cr_expect(users.mode == 0660 && users.group == 5);
	cr_expect(s->port[0].clients.users.mode == 0600 &&
		  s->port[0].clients.users.group == HR_CONTROL_NO_GROUP);
	cr_expect(port->producer.run == &app->run[2] &&
		  port->producer.memory == &app->feed_memory[2] && port->producer.facts == &facts);
	cr_expect(port->producer.fd == -1 && port->producer.pidfd == -1 &&
		  port->producer.epoch == 0x0707070707070707ull);
	cr_expect_str_eq(port->clients.kind, "feed");
	cr_expect_str_eq(port->clients.client, "producer");
	cr_expect(port->clients.hello == HR_FEED_HELLO &&
		  port->clients.version == HR_FEED_VERSION &&
		  port->clients.refused == &app->run[2].feed.refused);
	own = port->clients.fd;
	hr_feed_service_end(s, 2);
	expect_calls("refuse-all(2,-32,the run has ended) end(2) ");
	cr_expect(!port->open && s->ports == 1);
	cr_expect_eq(fcntl(own, F_GETFD), -1);
	cr_expect_neq(access(port->at.sun_path, F_OK), 0);
	hr_feed_service_end(s, 2);
	expect_calls("");
	own = s->wake;
	hr_feed_service_close(s);
	expect_calls("refuse-all(0,-32,the run has ended) end(0) " FORGET);
	cr_expect(!s->app && s->wake == -1 && !s->ports);
	cr_expect_eq(fcntl(own, F_GETFD), -1);
	hr_feed_service_close(s);
	hr_feed_service_step(s);
	expect_calls("");
}

/* A run whose sink is complete does not start. */
Test(feed_service_calls, runs_that_are_served)
{
	for (int i = 0; i < 3; i++) {
		hr_feed_service_close(s);
		calls_take();
		app->run[0].selected = i != 0;
		app->run[0].cpu.feed = i == 1 ? NULL : (void *)&facts;
		app->run[0].outcome = i == 2 ? HR_RUN_COMPLETE : HR_RUN_WAITING;
		cr_assert_eq(hr_feed_service_open(s, app, test_error()), 0);
		expect_calls("listen(f2) clients(2,f2) ");
	}
	app->run[2].selected = false;
	hr_feed_service_close(s);
	cr_assert_eq(hr_feed_service_open(s, app, test_error()), 0);
	cr_expect(s->wake == -1 && s->ports == 0);
	cr_assert_eq(hr_feed_service_begin(s, 1, test_error()), 0);
	cr_assert_eq(hr_feed_service_begin(s, 3, test_error()), 0);
	cr_expect_eq(s->ports, 0u);
}

Test(feed_service_calls, errors_of_opening)
{
	hr_feed_service_close(s);
	calls_take();
	will.listen = -EACCES;
	cr_expect_eq(hr_feed_service_open(s, app, test_error()), -EACCES);
	cr_expect_str_eq(test_error_text(), "pipeline 'p0': feed 'f0': no socket");
	expect_calls("listen(f0) " FORGET);
	cr_expect(!s->app && s->wake == -1);
	will.random = -EAGAIN;
	hr_error_clear(test_error());
	cr_expect_eq(hr_feed_service_open(s, app, test_error()), -EAGAIN);
	cr_expect_str_eq(test_error_text(), "pipeline 'p0': feed 'f0': random numbers: Resource "
					    "temporarily unavailable");
	cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
	expect_calls(FORGET);
}

/* An epoch is not 0; the owner of the memory stays that of the run before. */
Test(feed_service_calls, the_next_run)
{
	struct hr_feed_owner *owner = &s->port[2].producer.owner;

	hr_feed_service_end(s, 2);
	owner->ended_ns = 77;
	will.zeros = 2;
	cr_expect_eq(hr_feed_service_begin(s, 2, test_error()), 0);
	cr_expect_eq(s->port[2].producer.epoch, 0x0707070707070707ull);
	cr_expect_eq(will.zeros, -1);
	cr_expect_eq(owner->ended_ns, 77u);
	cr_expect(s->port[2].open && s->ports == 2);
	owner->ended_ns = 0;
	calls_take();
}

/* ---- clients */

Test(feed_service_calls, clients)
{
	struct hr_feed_port *port = &s->port[2];
	char want[128];
	int pidfd = dup(0);

	calls_take();
	will.waiting = 2;
	for (uint32_t i = 0; i < 2; i++) {
		struct hr_tap_client *client = &port->clients.client_of[i];

		client->fd = 70 + (int)i;
		client->peer.process = 80 + (int)i;
		snprintf(client->hello.name, sizeof client->hello.name, "c%u", i);
	}
	will.process = pidfd;
	greet_waiting(port);
	snprintf(want, sizeof want, "greet(2,c0,80,70,%d) seated(0,%d) ", pidfd, pidfd);
	expect_calls(want);
	cr_expect_neq(fcntl(pidfd, F_GETFD), -1, "the producer has it");
	greet_waiting(port); /* the one before is closing */
	expect_calls("");
	port->producer.state = HR_FEED_ABSENT;
	will.greet = -EAGAIN;
	will.waiting = 1;
	greet_waiting(port);
	snprintf(want, sizeof want, "greet(2,c0,80,70,%d) ", pidfd);
	expect_calls(want);
	cr_expect_eq(fcntl(pidfd, F_GETFD), -1, "it asks again later");
	will.greet = -ENOMEM;
	will.process = -1;
	greet_waiting(port);
	expect_calls("greet(2,c0,80,70,-1) refuse(0,-12,no memory) ");
	port->producer.peer.process = 90;
	port->producer.peer.user = 91;
	for (int state = HR_FEED_ABSENT + 1; state <= HR_FEED_CLOSING; state++) {
		port->producer.state = (enum hr_feed_producer_state)state;
		greet_waiting(port);
		expect_calls(state == HR_FEED_CLOSING
				     ? ""
				     : "refuse(0,-16,process 90 of user 91 is attached) ");
	}
}

/* ---- steps */

Test(feed_service_calls, steps)
{
	calls_take();
	will.events = true;
	hr_feed_service_step(s);
	expect_calls("step(0) hear(0) step(2) hear(2) ");
	cr_expect_eq(s->at_ns, START);
	will.events = false;
	fake_clock_advance(HR_TAP_STEP_NS - 1);
	hr_feed_service_step(s);
	expect_calls("");
	fake_clock_advance(1);
	app->run[0].ended_ns = START;
	hr_feed_service_step(s);
	expect_calls("refuse-all(0,-32,the run has ended) end(0) step(2) hear(2) ");
	cr_expect_eq(s->ports, 1u);
}

Test(feed_service_calls, producers_of_the_status)
{
	struct hr_record_producer got[HR_PIPELINES_MAX];

	memset(got, 0xee, sizeof got);
	hr_feed_service_take(s, got);
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++) {
		const bool open = i == 0 || i == 2;

		cr_expect(got[i].attached == open && got[i].user == (open ? i : 0), "%u", i);
	}
	hr_feed_service_close(s);
	hr_feed_service_take(s, got);
	cr_expect(!got[0].attached && !got[2].attached);
}
