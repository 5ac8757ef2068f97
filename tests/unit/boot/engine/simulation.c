/*
 * A whole engine in one thread: bring-up, a pipeline on the host backend over software controllers
 * with scripted faults, and the end, under a seeded scheduler and a clock that advances when all
 * wait. The same seed gives the same messages and counters, byte by byte; another seed gives another
 * order of events and the same data.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/appliance/record.h"
#include "boot/engine/names.h"
#include "boot/engine/runner.h"
#include "boot/engine/seal.h"
#include "config/clock.h"
#include "config/log.h"
#include "tests/harness/error.h"
#include "tests/harness/sim.h"

#define OBJECT (2u << 20)
#define LOG_BYTES 65536u

/* The trace of a simulation. */
struct trace {
	char log[LOG_BYTES];
	size_t logged;
	struct hr_record record;
	uint64_t ended_ns, switches, schedule;
	uint8_t data[OBJECT]; /* of the sink */
	int result;
};

#define TRACES 6u

static struct trace *traces, *trace; /* of all simulations of a test; of the current one */
static unsigned used;
static const char *rules;

/*
 * A condition that a simulation needs; it ends without it. Criterion's assertions do not work in
 * the child.
 */
static void must(bool is, const char *what)
{
	if (is)
		return;
	fprintf(stderr, "%s\n%s\n", what, trace->log);
	_exit(1);
}

static void begin(void)
{
	const int flags = MAP_SHARED | MAP_ANONYMOUS;

	traces = mmap(NULL, TRACES * sizeof *traces, PROT_READ | PROT_WRITE, flags, -1, 0);
	cr_assert_neq(traces, MAP_FAILED);
	used = 0;
}

static void end(void)
{
	munmap(traces, TRACES * sizeof *traces);
}

TestSuite(simulation, .init = begin, .fini = end, .timeout = 120, .disabled = SIM_DISABLED);

#define ADDRESS_CHARS 14u /* 0x7f0123456789 */

/* The seed does not determine where Linux maps memory. So each address is replaced by its number in
 * the order of first appearance, and equal addresses of one simulation get equal numbers. */
static void number_addresses(char *text)
{
	static uint64_t known[16]; /* each simulation has a process of its own */
	static unsigned count;

	for (char *at = strstr(text, "0x7"); at; at = strstr(at + 2, "0x7")) {
		const uint64_t address = strtoull(at, NULL, 16);
		unsigned i = 0;

		if (strspn(at + 2, "0123456789abcdef") + 2 != ADDRESS_CHARS)
			continue;
		while (i < count && known[i] != address)
			i++;
		must(i < 16, "too many addresses");
		known[i] = address;
		count = i < count ? count : i + 1;
		snprintf(at, ADDRESS_CHARS, "address %05u", i);
		at[ADDRESS_CHARS - 1] = ' ';
	}
}

/* Replaces the product's function: keeps every message, with its time. */
void hr_log_set_level(enum hr_log_level level)
{
}

void hr_log(enum hr_log_level level, const char *format, ...)
{
	char *to = trace->log + trace->logged;
	const size_t room = LOG_BYTES - trace->logged;
	int head = snprintf(to, room, "%llu %d ", (unsigned long long)hr_now_ns(), (int)level), n;
	va_list args;

	va_start(args, format);
	n = vsnprintf(to + head, room - (size_t)head, format, args);
	va_end(args);
	must((size_t)(head + n) + 1 < room, "the log is full");
	number_addresses(to);
	to[head + n] = '\n';
	trace->logged += (size_t)(head + n) + 1;
}

/* A file of rules without a name in a file system. */
static int write_rules(void)
{
	const int fd = memfd_create("faults", 0);

	must(fd >= 0 && write(fd, rules, strlen(rules)) == (ssize_t)strlen(rules), "rules");
	return fd;
}

static void configure(struct hr_appliance *app, int fd)
{
	char text[2048];
	const int n = snprintf(
		text, sizeof text,
		"ssds = ( { name = \"a\"; timeout_ms = 100; queue_entries = 16;\n"
		"  device = \"soft:memory,size=16M,faults=/proc/self/fd/%d\";\n"
		"  objects = ( { name = \"in\"; bytes = \"2M\"; } ); },\n"
		"  { name = \"b\"; device = \"soft:memory,size=16M,cache=1M\"; } );\n"
		"gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		"pipelines = ( { name = \"p\"; source = { ssd = \"a\"; object = \"in\"; };\n"
		"  operator = \"copy\"; sink = { ssd = \"b\"; object = \"out\"; };\n"
		"  tile = \"64K\"; slots = 4;\n"
		"  blocks = { prefetch = 2; compute = 2; writeback = 2; }; } );\n",
		fd);

	must(n > 0 && (size_t)n < sizeof text, "text");
	must(hr_config_parse(&app->config, &hr_names, "f", text, (size_t)n, test_error()) == 0,
	     test_error_text());
	must(hr_appliance_init(app, NULL) == 0, "init");
}

static void keep_sink(struct hr_appliance *app)
{
	struct hr_ssd *ssd = &app->ssd[1];
	const struct hr_store_object *out = hr_store_find(&ssd->store, "out");

	if (out)
		must(ssd->blk->ops->read(ssd->blk, out->offset, trace->data, OBJECT, NULL) == 0,
		     "sink");
}

static int engine(void *argument)
{
	struct hr_appliance *app = argument;
	const int fd = write_rules();
	int err;

	configure(app, fd);
	must(hr_appliance_up(app, HR_STAGE_QUEUES) == 0, "bring-up");
	err = hr_run_all(app, false, NULL);
	hr_unseal();
	hr_record_take(&trace->record, app);
	keep_sink(app);
	hr_appliance_down(app);
	trace->ended_ns = hr_now_ns();
	close(fd);
	return err;
}

/* Run each simulation in a child of its own, so that all begin with the same memory. */
static struct trace *simulate(uint64_t seed)
{
	int status = 0;
	pid_t pid;

	trace = mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	cr_assert_neq(trace, MAP_FAILED);
	pid = fork();
	if (pid == 0) {
		struct hr_appliance *app = calloc(1, sizeof *app);

		alarm(60); /* ends a simulation that makes no progress */
		trace->result = app ? sim_run(seed, engine, app) : -ENOMEM;
		trace->switches = sim_switches();
		trace->schedule = sim_schedule();
		_exit(0);
	}
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "seed %llu: status %x: %s", (unsigned long long)seed,
		     (unsigned)status, trace->log);
	return trace;
}

static void expect_equal(const struct trace *a, const struct trace *b)
{
	cr_expect_eq(a->result, b->result);
	cr_expect_str_eq(a->log, b->log);
	cr_expect_eq(memcmp(&a->record, &b->record, sizeof a->record), 0);
	cr_expect_eq(a->ended_ns, b->ended_ns);
	cr_expect_eq(a->switches, b->switches);
	cr_expect_eq(a->schedule, b->schedule);
	cr_expect_eq(memcmp(a->data, b->data, OBJECT), 0);
}

/*
 * Faults that a run survives: repeated, late and reordered completions, statuses that are
 * temporary.
 */
#define SURVIVED                       \
	"on read nth 3: status 0x82\n" \
	"on read nth 9: delay 30ms\n"  \
	"on read nth 20: duplicate\n"

Test(simulation, the_same_seed_gives_the_same_log_and_counters)
{
	struct trace *a, *b;

	rules = SURVIVED;
	a = simulate(1);
	b = simulate(1);
	cr_expect_eq(a->result, 0, "%s", a->log);
	cr_expect_gt(a->switches, 1000u);
	expect_equal(a, b);
}

Test(simulation, other_seeds_give_other_schedules_and_the_same_data)
{
	struct trace *first;

	rules = SURVIVED;
	first = simulate(1);
	cr_assert_eq(first->result, 0);
	for (uint64_t seed = 2; seed < 6; seed++) {
		struct trace *other = simulate(seed);

		cr_expect_eq(other->result, 0, "seed %llu: %s", (unsigned long long)seed,
			     other->log);
		cr_expect_neq(other->schedule, first->schedule);
		cr_expect_eq(memcmp(other->data, first->data, OBJECT), 0, "seed %llu",
			     (unsigned long long)seed);
	}
}

/* The deadline passes at once, and the health of that ssd alone is lost. */
Test(simulation, a_lost_command_ends_the_run_the_same_way_each_time)
{
	struct trace *a, *b;

	rules = "on read lba 300-8191 nth 20: drop\n";
	a = simulate(7);
	b = simulate(7);
	cr_expect_eq(a->result, -ETIMEDOUT, "%s", a->log);
	cr_expect(strstr(a->log, "no completion within 100 ms"), "%s", a->log);
	cr_expect_eq(a->record.ssd[0].faults[HR_FAULT_LOST_COMMAND], 1u);
	cr_expect_eq(a->record.ssd[0].health, HR_HEALTH_FAILED);
	cr_expect_eq(a->record.ssd[1].health, HR_HEALTH_UP);
	expect_equal(a, b);
}
