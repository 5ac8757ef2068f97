/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/repeat_rig.h - the supervisor of pipelines that repeat, with an engine that the test
 * plays: it takes the dispatches from the socket, and changes the record. The clock is the test's.
 */
#ifndef TESTS_HARNESS_REPEAT_RIG_H
#define TESTS_HARNESS_REPEAT_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/appliance/attempt/dispatch.h"
#include "boot/appliance/supervisor/repeat.h"
#include "boot/engine/devices/devices.h"
#include "config/base/process.h"
#include "config/file/file.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/ask.h"
#include "tests/harness/error.h"

#define S HR_NS_PER_S
#define BEGIN (1000 * S)

#define PIPE(name, in, when)                                                                     \
	"{ name = \"" name "\"; operator = \"crc32c\"; source = { object = \"" in "\"; }; " when \
	" }"
#define CONFIG(device, a, b)                                                                 \
	"ssds = ( { name = \"s\"; device = \"" device "\"; } );\n"                           \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } ); boot = { backoff = \"1s\"; };\n" \
	"health = { read_only = \"pause\"; };\n"                                             \
	"pipelines = (\n" PIPE("a", "x", a) ",\n" PIPE("b", "y", b) ");\n"
#define MEMORY "soft:memory,size=16M"

enum { A, B };
#define BIT(i) (1u << (i))

static struct hr_repeat *r;
static struct hr_engine *engine;
static struct hr_child child;
static struct hr_record_page page; /* only its history is used */
static struct hr_record record;
static struct hr_dispatch dispatch;
static int engine_end; /* its end of the socket */

static inline void begin(const char *config)
{
	int pair[2];

	r = calloc(1, sizeof *r);
	engine = calloc(1, sizeof *engine);
	cr_assert(r && engine);
	memset(&record, 0, sizeof record);
	cr_assert_eq(hr_config_parse(&engine->config, &hr_lookup, "f", config, strlen(config),
				     test_error()),
		     0, "%s", test_error_text());
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	engine_end = pair[1];
	memset(&page, 0, sizeof page);
	child = (struct hr_child){ .record = &record, .process = { .page = &page, .phases = -1 } };
	child.process.dispatch = pair[0];
	child.process.pid = fork();
	if (child.process.pid == 0) {
		pause();
		_exit(0);
	}
	fake_clock_start(BEGIN, NULL, NULL);
	cr_assert_eq(hr_repeat_open(r, &child, engine), 0);
	ask_open(engine, r);
}

static inline void end(void)
{
	fake_clock_stop();
	hr_repeat_close(r);
	kill(child.process.pid, SIGKILL);
	waitpid(child.process.pid, NULL, 0);
	close(child.process.dispatch);
	close(engine_end);
	free(engine);
	free(r);
}

/* The engine comes up, with all pipelines. */
static inline void ready(void)
{
	memset(&record, 0, sizeof record);
	record.usable = BIT(A) | BIT(B);
	record.ready = 1;
}

/* One step of the supervisor. Returns the pipelines that it dispatches, and receives the newest
 * dispatch. */
static inline uint32_t look(void)
{
	uint32_t dispatched = 0;

	hr_repeat_poll(r);
	while (recv(engine_end, &dispatch, sizeof dispatch, 0) == (ssize_t)sizeof dispatch)
		if (dispatch.kind == HR_DISPATCH_RUN)
			dispatched |= (uint32_t)dispatch.pipelines;
	return dispatched;
}

/* The engine begins the newest dispatched start of a pipeline; the engine ends it. */
static inline void run(uint32_t i)
{
	record.run[i] = (struct hr_record_run){ .selected = 1, .number = r->number[i] };
}
static inline void over(uint32_t i, enum hr_outcome outcome, int err)
{
	run(i);
	record.run[i].outcome = outcome;
	record.run[i].error.code = err;
	record.run[i].over = 1;
}

static inline const struct hr_start *start_of(uint32_t i)
{
	return &r->timetable.starts.start[i];
}

#endif
