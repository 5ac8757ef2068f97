/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor with engines that follow a script (tests/fakes/engine.h), on a fake clock: the
 * pipelines and ssds of each engine, pauses, exit codes, stops, the watchdog and the service manager.
 */
#include "boot/appliance/supervise.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/base/error.h"
#include "config/base/process.h"
#include "config/base/clock.h"
#include "config/base/tick.h"
#include "gpu/ops/operators.h"
#include "nvme/dma/hostmem.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/engine.h"
#include "tests/fakes/log.h"
#include "tests/fakes/watchdog.h"

#define S HR_NS_PER_S
#define MEDIA 0x281 /* Unrecovered Read Error, which is final */
#define W FAKE_ENGINE_WAITS
#define COUNT(array) (sizeof(array) / sizeof *(array))

static char folder[32], path[64];
static struct hr_engine *engine;
static struct hr_supervisor *s;

/* ---- set-up */

static uint64_t start_ns;	   /* of the supervisor */
static uint64_t stop_ns, comes_ns; /* times of SIGTERM and of ssd 1; 0: none */
static void (*at_step)(void);

static void add_ssd(uint32_t d)
{
	char image[64];
	int fd;

	snprintf(image, sizeof image, "%s/%u.img", folder, d);
	fd = open(image, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	close(fd);
}

static void step(void *context)
{
	fake_engine_step();
	fake_watchdog_look();
	if (at_step)
		at_step();
	if (comes_ns && hr_now_ns() >= comes_ns)
		add_ssd(1);
	if (stop_ns && hr_now_ns() >= stop_ns) {
		stop_ns = 0;
		raise(SIGTERM);
	}
}

/* Pipelines 0 and 1 over ssd 0 and pipeline 2 over ssd 1, each with its own sink. */
static void configure(struct hr_config *c)
{
	memset(c, 0, sizeof *c);
	strcpy(c->name, "box");
	c->file = "f";
	c->ssds = 2;
	c->gpus = 1;
	c->pipelines = 3;
	for (uint32_t d = 0; d < c->ssds; d++) {
		snprintf(c->ssd[d].name, sizeof c->ssd[d].name, "s%u", d);
		snprintf(c->ssd[d].device, HR_DEVICE_MAX, "soft:%s/%u.img", folder, d);
	}
	for (uint32_t i = 0; i < c->pipelines; i++) {
		struct hr_config_pipeline *p = &c->pipeline[i];

		snprintf(p->name, sizeof p->name, "p%u", i);
		p->op = hr_op_get(HR_OP_copy);
		p->sources = 1;
		strcpy(p->source[0].object, "in");
		p->source[0].ssd = p->sink.ssd = i == 2;
		p->has_sink = true;
		snprintf(p->sink.object, sizeof p->sink.object, "out%u", i);
	}
	c->boot = (struct hr_config_boot){
		.restarts = 2, .backoff_ns = S, .heal_ns = 600 * S, .wait_s = 60
	};
}

static void set(void)
{
	configure(&engine->config);
	start_ns = hr_now_ns();
	add_ssd(0);
	add_ssd(1);
	stop_ns = comes_ns = 0;
}

static void begin(void)
{
	strcpy(folder, "/tmp/hr-supervise-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/watchdog", folder);
	setenv("RUNTIME_DIRECTORY", folder, 1);
	engine = calloc(1, sizeof *engine);
	s = calloc(1, sizeof *s);
	cr_assert(engine && s);
	hr_signals_catch();
	fake_clock_start(100 * S, step, NULL);
	set();
}

static void end(void)
{
	char command[64];

	fake_clock_stop();
	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
	free(engine);
	free(s);
}

TestSuite(supervise, .init = begin, .fini = end, .timeout = 60);

static char log_of_engines[512];
static struct hr_history history;

/* Supervise until the end; returns the exit code. */
static int supervise(const struct fake_engine *script, unsigned count)
{
	int code;

	fake_engine_begin(&s->child, engine, script, count);
	cr_assert_eq(hr_supervise_open(s, engine, false, path), 0);
	code = hr_supervise(s);
	history = s->child.process.page->history;
	hr_supervise_close(s);
	fake_watchdog_look();
	snprintf(log_of_engines, sizeof log_of_engines, "%s", fake_engine_log());
	fake_engine_begin(NULL, NULL, NULL, 0);
	return code;
}

/* ---- attempts */

/* Kinds of engines. Pipelines run for no time unless one has a time. */
static void stop_at_its_end(struct hr_record *record)
{
	raise(SIGTERM);
}

static void disk_comes(struct hr_record *record)
{
	add_ssd(1);
}

static void lacks(uint32_t d);

static void disk_leaves(struct hr_record *record)
{
	lacks(1);
	comes_ns = 0;
}

#define ALL(err)              \
	{                     \
		err, err, err \
	}
#define DIES(phase, how) .dies = true, .in = HR_PHASE_##phase, .status = (how)
#define CRASHES(i)                          \
	{                                   \
		.known = 1, .pipeline = (i) \
	}

static const struct fake_engine engines[128] = {
	['D'] = { 0 }, /* all done */
	['t'] = { .post_ns = S, .up_ns = S, .run_ns = S },
	['F'] = { .run = ALL(-ETIMEDOUT) },
	['L'] = { .run = ALL(-ETIMEDOUT), .run_ns = 600 * S },
	['l'] = { .run = ALL(-ETIMEDOUT), .run_ns = 599 * S },
	['K'] = { .run = ALL(-ETIMEDOUT), .kind = HR_ERROR_MISSING },
	['1'] = { .run = { 0, -ETIMEDOUT, 0 } },
	['2'] = { .run = { 0, MEDIA, -ETIMEDOUT } },
	['m'] = { .run = { MEDIA, -ETIMEDOUT, 0 } },
	['w'] = { .run = { MEDIA, W, 0 } },
	['v'] = { .run = { -ETIMEDOUT, W, 0 } },
	['n'] = { .run = { 0, 0, -ENOMEDIUM } },
	['S'] = { .run = ALL(-ETIMEDOUT), .stuck = true },
	['u'] = { .up = -ENXIO },
	['U'] = { .up = -EINVAL, .kind = HR_ERROR_USAGE },
	['R'] = { .up = -ENXIO, .refused = true },
	['p'] = { DIES(POST, SIGSEGV) },
	['b'] = { DIES(BRING_UP, SIGABRT) },
	['r'] = { DIES(RUNNING, SIGKILL), .run_ns = S },
	['e'] = { DIES(RUNNING, HR_EXIT_DEVICE << 8), .run_ns = S },
	['c'] = { DIES(RUNNING, SIGSEGV), .run_ns = S, .crash = CRASHES(1) },
	['C'] = { DIES(RUNNING, SIGSEGV), .run_ns = 600 * S, .crash = CRASHES(1) },
	['X'] = { .in = HR_PHASE_RUNNING, .hangs = true, .unkillable = true },
	['H'] = { .in = HR_PHASE_RUNNING, .hangs = true },
	['x'] = { .last = disk_comes },
	['g'] = { .run = ALL(-ETIMEDOUT), .last = disk_leaves },
	['s'] = { .run = ALL(-ETIMEDOUT), .last = stop_at_its_end },
	['T'] = { .up = -ENXIO, .last = stop_at_its_end },
	['Z'] = { .stuck = true, .last = stop_at_its_end },
};

struct row {
	const char *name;
	void (*also)(struct hr_config *c);
	const char *engines;
	int code;
	const char *log;
	double seconds; /* until the end */
	unsigned restarts;
	const char *said; /* the last error; NULL: not compared */
};

static void expect_row(const struct row *r)
{
	struct fake_engine script[12];
	unsigned count = 0;
	double seconds;
	int code;

	set();
	if (r->also)
		r->also(&engine->config);
	for (; r->engines[count]; count++)
		script[count] = engines[(int)r->engines[count]];
	code = supervise(script, count);
	seconds = (double)(hr_now_ns() - start_ns) / 1e9;
	cr_expect_eq(code, r->code, "%s: exit code %d", r->name, code);
	cr_expect_str_eq(log_of_engines, r->log, "%s: %s", r->name, log_of_engines);
	cr_expect(seconds >= r->seconds && seconds < r->seconds + 0.2, "%s: %f s", r->name,
		  seconds);
	cr_expect_eq(s->status.restarts, r->restarts, "%s: %u restarts", r->name,
		     s->status.restarts);
	if (r->said)
		cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), r->said, "%s: %s", r->name,
				 fake_log_last_of(HR_LOG_ERROR));
}

#define EXPECT(rows)                             \
	for (size_t n = 0; n < COUNT(rows); n++) \
	expect_row(&(rows)[n])

static void one_restart(struct hr_config *c)
{
	c->boot.restarts = 1;
}
static void no_restart(struct hr_config *c)
{
	c->boot.restarts = 0;
}
static void nine_restarts(struct hr_config *c)
{
	c->boot.restarts = 9;
}
static void one_restart_that_does_not_heal(struct hr_config *c)
{
	c->boot.restarts = 1;
	c->boot.heal_ns = 0;
}
static void in_memory(struct hr_config *c)
{
	c->ssd[1].in_memory = true;
}
/* Pipeline 2 reads an object with that name of the other ssd. */
static void out0_is_read(struct hr_config *c)
{
	strcpy(c->pipeline[1].source[0].object, "out0");
	strcpy(c->pipeline[2].source[0].object, "out0");
}

#define GIVEN_UP(p)                      \
	"pipeline '" p "' is given up: " \
	"Unrecovered Read Error, which a restart does not change"
#define SUSPECTS "[0?1?2?] "

Test(supervise, restarts)
{
	static const struct row row[] = {
		{ "all done", NULL, "t", HR_EXIT_DONE, "[012] ", 3, 0, NULL },
		{ "pauses of 1 and 2 s, and no third one", NULL, "FFF", HR_EXIT_DEVICE,
		  "[012] " SUSPECTS SUSPECTS, 3, 2, "given up after 2 restarts" },
		{ "without restarts", no_restart, "K", HR_EXIT_MISSING, "[012] ", 0, 0,
		  "given up after 0 restarts" },
		{ "the pause grows to a minute", nine_restarts, "FFFFFFFFFF", HR_EXIT_DEVICE,
		  "[012] " SUSPECTS SUSPECTS SUSPECTS SUSPECTS SUSPECTS SUSPECTS SUSPECTS SUSPECTS
			  SUSPECTS,
		  243, 9, "given up after 9 restarts" },
		{ "two are used; a long run gives them back, with the first pause", NULL, "FFLFF",
		  HR_EXIT_DEVICE, "[012] " SUSPECTS SUSPECTS SUSPECTS SUSPECTS, 606, 4, NULL },
		{ "a shorter run gives none back", NULL, "FlF", HR_EXIT_DEVICE,
		  "[012] " SUSPECTS SUSPECTS, 602, 2, NULL },
		{ "without heal", one_restart_that_does_not_heal, "LL", HR_EXIT_DEVICE,
		  "[012] " SUSPECTS, 1201, 1, NULL },
		{ "a controller that does not stop", one_restart, "SD", HR_EXIT_DONE,
		  "[012] " SUSPECTS, 1, 1, NULL },
		{ "bring-up", NULL, "uuD", HR_EXIT_DONE, "[012] [012] [012] ", 3, 2, NULL },
		{ "bring-up fails, then with a final error", NULL, "uU", HR_EXIT_USAGE,
		  "[012] [012] ", 1, 1, NULL },
		{ "bring-up is refused", NULL, "R", HR_EXIT_DEVICE, "[012] ", 0, 0, NULL },
	};

	EXPECT(row);
}

Test(supervise, pipelines_of_the_next_engine)
{
	static const struct row row[] = {
		{ "what is done does not run again", NULL, "1D", HR_EXIT_DONE, "[012] [1?] ", 1, 1,
		  NULL },
		{ "contents in memory are made again", in_memory, "2D", HR_EXIT_DEVICE,
		  "[012] [02?] ", 1, 1, GIVEN_UP("p1") },
		{ "a final failure stops no other one", NULL, "mD", HR_EXIT_DEVICE, "[012] [1?] ",
		  1, 1, GIVEN_UP("p0") },
		{ "a reader is given up with its writer", out0_is_read, "w", HR_EXIT_DEVICE,
		  "[012] ", 0, 0, GIVEN_UP("p0") },
		{ "a reader is tried again with its writer", out0_is_read, "vD", HR_EXIT_DONE,
		  "[012] [0?1] ", 1, 1, NULL },
		{ "one that waits for another reason is left", NULL, "wD", HR_EXIT_DEVICE,
		  "[012] [1] ", 1, 1, NULL },
	};

	EXPECT(row);
}

/* What ran is suspended for the pause of a restart; what crashed, alone. */
Test(supervise, deaths)
{
	static const struct row row[] = {
		{ "before the run", NULL, "pbD", HR_EXIT_DONE, "[012] [012] [012] ", 3, 2, NULL },
		{ "three times", NULL, "bbb", HR_EXIT_FAILED, "[012] [012] [012] ", 3, 2,
		  "given up after 2 restarts" },
		{ "in the run", NULL, "rD", HR_EXIT_DONE, "[012] " SUSPECTS, 2, 1, NULL },
		{ "the exit code of a device", no_restart, "e", HR_EXIT_DEVICE, "[012] ", 1, 0,
		  "pipeline 'p2' is given up after 0 restarts" },
		{ "a pipeline that crashes lets the others run", NULL, "cDD", HR_EXIT_DONE,
		  "[012] [02] [1?] ", 2, 1, NULL },
		{ "a pipeline that crashes each time", NULL, "cDcc", HR_EXIT_FAILED,
		  "[012] [02] [1?] [1?] ", 6, 2, "pipeline 'p1' is given up after 2 restarts" },
		{ "a long run before a crash", NULL, "cDcCcc", HR_EXIT_FAILED,
		  "[012] [02] [1?] [1?] [1?] [1?] ", 610, 4,
		  "pipeline 'p1' is given up after 2 restarts" },
		{ "a hang is killed", NULL, "HD", HR_EXIT_DONE, "[012] " SUSPECTS, 121, 1, NULL },
		{ "a hang in the kernel ends all", NULL, "X", HR_EXIT_DEVICE, "[012] ", 150, 0,
		  NULL },
	};

	EXPECT(row);
}

/* ---- ssds that are absent */

static void lacks(uint32_t d)
{
	char image[64];

	snprintf(image, sizeof image, "%s/%u.img", folder, d);
	unlink(image);
}
static void ssd_1_lacks(struct hr_config *c)
{
	lacks(1);
}
static void ssd_1_comes(struct hr_config *c)
{
	lacks(1);
	comes_ns = start_ns + 50 * S;
}
static void both_lack(struct hr_config *c)
{
	lacks(0);
	lacks(1);
	no_restart(c);
}
static void ssd_1_is_not_awaited(struct hr_config *c)
{
	lacks(1);
	no_restart(c);
	c->boot.wait_s = 0;
}

Test(supervise, absent_ssds)
{
	static const struct row row[] = {
		{ "it comes while the others run", ssd_1_lacks, "xD", HR_EXIT_DONE, "[01-1] [2] ",
		  0, 0, NULL },
		{ "it comes later", ssd_1_comes, "DD", HR_EXIT_DONE, "[01-1] [2] ", 50, 0, NULL },
		{ "it does not come", ssd_1_lacks, "Dn", HR_EXIT_DEVICE, "[01-1] [2] ", 60, 0,
		  NULL },
		{ "it leaves again, and has its time again", ssd_1_comes, "Dgn", HR_EXIT_DEVICE,
		  "[01-1] [2] [2?] ", 111, 1, NULL },
		{ "none comes", both_lack, "K", HR_EXIT_MISSING, "[012] ", 60, 0, NULL },
		{ "without a wait", ssd_1_is_not_awaited, "K", HR_EXIT_MISSING, "[012] ", 0, 0,
		  NULL },
	};

	EXPECT(row);
	ssd_1_lacks(&engine->config);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "is absent; waiting for it for 60 s"), "%s",
		  fake_log_last_of(HR_LOG_WARN));
}

/* ---- stops */

static void stop_at_half(struct hr_config *c)
{
	stop_ns = start_ns + S / 2;
}
static void stop_in_the_run(struct hr_config *c)
{
	stop_ns = start_ns + 5 * S / 2;
}
static void stop_in_the_wait(struct hr_config *c)
{
	both_lack(c);
	stop_ns = start_ns + 10 * S;
}

/* A clean stop is a success, also when pipelines are left. Each test has one signal. */
#define STOP(name, also, engines, code, log, seconds, restarts)                           \
	Test(supervise, a_stop_##name)                                                    \
	{                                                                                 \
		static const struct row row = { #name, also,	engines,  HR_EXIT_##code, \
						log,   seconds, restarts, NULL };         \
		expect_row(&row);                                                         \
	}

STOP(in_the_self_test, stop_at_half, "t", DONE, "[012] ", 0.5, 0)
STOP(in_the_run, stop_in_the_run, "t", DONE, "[012] ", 2.5, 0)
STOP(in_a_pause, stop_at_half, "F", DONE, "[012] ", 0.5, 1)
STOP(in_the_wait_for_an_ssd, stop_in_the_wait, "", DONE, "", 10, 0)
STOP(after_failures, NULL, "s", DEVICE, "[012] ", 0, 0)
STOP(after_a_bring_up_that_failed, NULL, "T", DEVICE, "[012] ", 0, 0)
STOP(with_a_controller_that_does_not_stop, NULL, "Z", DEVICE, "[012] ", 0, 0)
STOP(in_a_hang, stop_at_half, "H", DONE, "[012] ", 100.5, 0)

/* ---- the watchdog */

static void open_dog(int seconds)
{
	fake_watchdog_open(path, seconds);
	engine->config.boot.watchdog_ns = 30 * S;
}

/* In the self-test, bring-up, a run, a pause and the wait for an ssd; the last feed disarms it. */
Test(supervise, the_watchdog_is_fed_all_the_time)
{
	static const struct fake_engine bad = {
		.post_ns = 100 * S, .up_ns = 100 * S, .run_ns = 100 * S, .run = ALL(-ETIMEDOUT)
	};
	struct fake_engine script[2] = { bad, bad };

	both_lack(&engine->config);
	engine->config.boot.restarts = 1;
	engine->config.boot.backoff_ns = 60 * S;
	memset(script[1].run, 0, sizeof script[1].run);
	open_dog(0);
	cr_expect_eq(supervise(script, 2), HR_EXIT_DONE);
	cr_expect_eq(fake_watchdog.seconds, 30);
	cr_expect_leq(fake_watchdog.longest_ns, 10 * S + S / 10);
	cr_expect(fake_watchdog.bytes >= 70 && fake_watchdog.bytes <= 74, "%u in 720 s",
		  fake_watchdog.bytes);
	cr_expect_eq(fake_watchdog.last, 'V');
}

Test(supervise, the_watchdog_of_an_engine_that_hangs_is_not_fed)
{
	open_dog(0);
	cr_expect_eq(supervise(&engines['X'], 1), HR_EXIT_DEVICE);
	cr_expect(fake_watchdog.bytes >= 12 && fake_watchdog.bytes <= 14, "%u in 150 s",
		  fake_watchdog.bytes);
}

Test(supervise, the_timeout_of_the_watchdog_driver_is_used)
{
	open_dog(6);
	cr_expect_eq(supervise(&(struct fake_engine){ .run_ns = 100 * S }, 1), HR_EXIT_DONE);
	cr_expect_leq(fake_watchdog.longest_ns, 2 * S + S / 10);
	cr_expect(fake_watchdog.bytes >= 50 && fake_watchdog.bytes <= 53, "%u",
		  fake_watchdog.bytes);
}

Test(supervise, the_watchdog_is_fed_while_the_supervisor_stays)
{
	open_dog(0);
	cr_assert_eq(hr_supervise_open(s, engine, false, path), 0);
	stop_ns = start_ns + 100 * S;
	hr_supervise_stay(s);
	cr_expect_leq(hr_now_ns(), start_ns + 101 * S);
	cr_expect(fake_watchdog.bytes >= 10 && fake_watchdog.last != 'V');
	hr_supervise_close(s);
	fake_watchdog_look();
	cr_expect_eq(fake_watchdog.last, 'V');
}

/* A watchdog that does not accept the requested timeout is disarmed at once and not used. */
Test(supervise, a_watchdog_without_a_timeout_is_not_used)
{
	open_dog(0);
	fake_watchdog.error = ENOTTY;
	cr_expect_eq(supervise(&(struct fake_engine){ .run_ns = 100 * S }, 1), HR_EXIT_DONE);
	cr_expect(fake_watchdog.bytes == 1 && fake_watchdog.last == 'V');
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "nothing resets this machine"));
	engine->config.boot.watchdog_ns = 0;
	cr_expect_eq(supervise(&(struct fake_engine){ .run_ns = 100 * S }, 1), HR_EXIT_DONE);
	cr_expect_eq(fake_watchdog.bytes, 1u, "not opened");
}

/* ---- the service manager, and readers of the status */

static int manager;
static unsigned alive;
static char told[4096];

static void hear(void)
{
	char text[256];
	ssize_t n;

	while ((n = recv(manager, text, sizeof text - 1, 0)) > 0) {
		text[n] = '\0';
		if (strcmp(text, "WATCHDOG=1") == 0) {
			alive++;
			continue;
		}
		strcat(told, text);
		strcat(told, ";");
	}
}

Test(supervise, the_service_manager_is_notified_all_the_time)
{
	static const struct fake_engine script = { .post_ns = 300 * S, .run_ns = 300 * S };
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", folder);
	cr_assert_eq(bind(manager, (const struct sockaddr *)&at, sizeof at), 0);
	setenv("NOTIFY_SOCKET", at.sun_path, 1);
	setenv("WATCHDOG_USEC", "200000000", 1);
	unsetenv("WATCHDOG_PID");
	at_step = hear;
	cr_expect_eq(supervise(&script, 1), HR_EXIT_DONE);
	hear();
	close(manager);
	cr_expect_str_eq(told,
			 "STATUS=post;STATUS=bring-up;STATUS=running;READY=1\nSTATUS=running;"
			 "STATUS=going down;STOPPING=1;",
			 "%s", told);
	cr_expect(alive == 6 || alive == 7, "%u", alive);
	cr_expect_not(hr_tick_is_set());
}

Test(supervise, the_status_after_a_death_names_the_failed_pipeline)
{
	static char text[HR_STATUS_MAX];

	no_restart(&engine->config);
	cr_expect_eq(supervise(&engines['r'], 1), HR_EXIT_FAILED);
	cr_expect(history.run[0].ended_it && history.run[0].outcome == HR_RUN_FAILED);
	hr_status_format(&s->status, hr_now_ns(), text, sizeof text);
	cr_expect(strstr(text, "\"engine_pid\": 0, "), "%s", text);
	cr_expect(strstr(text,
			 "\"name\": \"p0\", \"operator\": \"copy\", \"gpu\": \"\", "
			 "\"gpus\": [\"\"], \"outcome\": \"failed\", \"error\": \"Owner died\""),
		  "%s", text);
}

/* Standard output that no engine could write; addresses in use belong to the other kind of memory. */
static void mute(struct hr_record *record)
{
	record->mute = 1;
}

Test(supervise, output_and_memory)
{
	const struct fake_engine script[] = { { .run = ALL(-ETIMEDOUT), .last = mute }, { 0 } };
	struct hr_region memory;

	cr_expect_eq(supervise(script, 2), HR_EXIT_DONE);
	cr_expect(s->mute, "of any engine");
	cr_assert_eq(hr_hostmem_alloc(&memory, "m", HR_PAGE, NULL), 0);
	strcpy(engine->config.ssd[0].device, "pci:0000:01:00.0");
	cr_expect_eq(supervise(NULL, 0), HR_EXIT_USAGE);
	hr_hostmem_free(&memory);
}
