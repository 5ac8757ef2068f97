/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole appliances by seed. Exit code 0: every invariant held in every world.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/command.h"
#include "tests/sim/life.h"
#include "tests/sim/plan.h"
#include "tests/sim/schedule.h"

#define JOBS_MAX 64u

static const char usage[] =
	"usage: sim [--seeds N] [--first S] [--seed S] [--events N] [--jobs N] [--folder FOLDER]\n"
	"           [--seconds N] [--twice] [--verbose] [--tap] [--keep] [--stop]\n";

struct request {
	uint64_t first, count;
	const char *folder;
	unsigned events; /* of each plan at most so many happen */
	unsigned jobs, job;
	unsigned seconds; /* of real time, for one world */
	bool keep, twice, verbose, tap;
	bool stop; /* at the first failure of a job, which is not shortened */
};

/* The libibverbs of the tests, which is built beside this program. */
static void find_fakes(void)
{
	char path[512] = "";
	char *end;

	if (readlink("/proc/self/exe", path, sizeof path - 32) < 0)
		return;
	end = strstr(path, "/sim/sim");
	if (!end)
		return;
	snprintf(end, 32, "/fakes/ibverbs");
	setenv("LD_LIBRARY_PATH", path, 1);
}

/* Worlds at the same time have different addresses, of which connections cannot meet. */
static void choose_address(void)
{
	char text[32];

	snprintf(text, sizeof text, "127.%u.%u.%u", 100 + (unsigned)getpid() / 40000,
		 1 + (unsigned)getpid() / 200 % 200, 1 + (unsigned)getpid() % 200);
	setenv("SIM_ADDRESS", text, 1);
}

/* The same addresses in each run. */
static void fix_addresses(char **argv)
{
	const int now = personality(0xffffffff);

	if (now < 0 || getenv("SIM_FIXED"))
		return;
	setenv("SIM_FIXED", "1", 1);
	find_fakes();
	if (personality((unsigned long)now | ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
}

static void empty(const char *folder)
{
	char text[512];

	snprintf(text, sizeof text, "rm -rf '%s'", folder);
	if (system(text) != 0 || mkdir(folder, 0700) != 0 || chdir(folder) != 0) {
		fprintf(stderr, "sim: %s: %s\n", folder, strerror(errno));
		exit(2);
	}
}

static struct sim_result *share_result(void)
{
	struct sim_result *result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (result == MAP_FAILED)
		exit(2);
	return result;
}

/* One world. True: an invariant does not hold; sim_result says which. */
static bool fails(const struct request *request, uint64_t seed, unsigned events)
{
	static struct sim_plan plan;
	unsigned left;
	int status;

	memset(sim_result, 0, sizeof *sim_result);
	sim_plan_draw(&plan, seed);
	plan.events = plan.events < events ? plan.events : events;
	empty(request->folder);
	status = sim_run_world(seed, sim_live, &plan, request->seconds, &left);
	if (sim_world->dead_end[0])
		snprintf(sim_result->fault, sizeof sim_result->fault, "%s", sim_world->dead_end);
	else if (status != 0 && !sim_result->fault[0])
		snprintf(sim_result->fault, sizeof sim_result->fault,
			 "the director has ended: status 0x%x", (unsigned)status);
	else if (left && !sim_result->fault[0])
		snprintf(sim_result->fault, sizeof sim_result->fault,
			 "%u processes live on after the end of the appliance", left);
	return sim_result->fault[0] != '\0';
}

/* The smallest number of events with which the seed still fails. */
static unsigned shorten(const struct request *request, uint64_t seed)
{
	unsigned low = 0, high = sim_result->events;

	while (low < high) {
		const unsigned middle = (low + high) / 2;

		if (fails(request, seed, middle))
			high = middle;
		else
			low = middle + 1;
	}
	return high;
}

static void print_world(uint64_t seed, bool failed)
{
	printf("seed %llu: %s (%s); %llu turns, %.3f s, hash %016llx\n", (unsigned long long)seed,
	       failed ? "FAILED" : "ok", sim_result->told, (unsigned long long)sim_world->switches,
	       (double)(sim_world->now_ns - SIM_START_NS) / 1e9,
	       (unsigned long long)sim_world->hash);
	if (failed)
		printf("#   %s\n", sim_result->fault);
	fflush(stdout);
}

/* The same seed gives the same world, turn by turn. */
static bool differs(const struct request *request, uint64_t seed)
{
	const uint64_t hash = sim_world->hash, turns = sim_world->switches, end = sim_world->now_ns;

	if (fails(request, seed, request->events))
		return true;
	if (sim_world->hash == hash && sim_world->switches == turns && sim_world->now_ns == end)
		return false;
	snprintf(sim_result->fault, sizeof sim_result->fault, "the second world differs");
	return true;
}

static bool try_seed(const struct request *request, uint64_t seed)
{
	bool failed = fails(request, seed, request->events);
	unsigned events;

	if (!failed && request->twice)
		failed = differs(request, seed);
	if (request->tap)
		printf("%sok %llu - seed %llu\n%s", failed ? "not " : "",
		       (unsigned long long)seed - request->first + 1, (unsigned long long)seed,
		       failed ? "# " : "");
	fflush(stdout);
	if (failed || request->verbose)
		print_world(seed, failed);
	if (failed && request->count > 1 && !request->stop) {
		events = shorten(request, seed);
		printf("#   repeat: --seed %llu --events %u --keep\n", (unsigned long long)seed,
		       events);
		fflush(stdout);
	}
	return failed;
}

/* Every jobs-th seed. The number of those that fail. */
static unsigned try_seeds(const struct request *r)
{
	struct request own = *r;
	char folder[256];
	unsigned failed = 0;

	choose_address();
	snprintf(folder, sizeof folder, "%s-%u", r->folder, r->job);
	if (r->jobs > 1)
		own.folder = folder;
	for (uint64_t i = r->job; i < r->count && !(failed && r->stop); i += r->jobs)
		failed += try_seed(&own, r->first + i);
	if (!r->keep) {
		empty(own.folder);
		rmdir(own.folder);
	}
	return failed;
}

/* All processes of a world on one CPU: one of them runs at a time, and its turn comes several times
 * faster from a process of the same CPU. */
static void pin(unsigned job)
{
	cpu_set_t all, one;
	unsigned left;

	if (sched_getaffinity(0, sizeof all, &all) != 0)
		return;
	left = job % (unsigned)CPU_COUNT(&all);
	CPU_ZERO(&one);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && left-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

static unsigned in_jobs(struct request *r)
{
	unsigned failed = 0;
	int status;

	for (r->job = 0; r->job < r->jobs; r->job++) {
		const pid_t pid = fork();

		if (pid == 0) {
			pin(r->job);
			sim_result = share_result();
			status = (int)try_seeds(r);
			_exit(status < 255 ? status : 255);
		}
	}
	while (wait(&status) > 0)
		failed += WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : 1;
	return failed;
}

static bool parse_flag(struct request *r, const char *word)
{
	bool *const flag = strcmp(word, "--keep") == 0	    ? &r->keep
			   : strcmp(word, "--twice") == 0   ? &r->twice
			   : strcmp(word, "--verbose") == 0 ? &r->verbose
			   : strcmp(word, "--tap") == 0	    ? &r->tap
			   : strcmp(word, "--stop") == 0    ? &r->stop
							    : NULL;

	if (flag)
		*flag = true;
	return flag;
}

static bool parse(struct request *r, int argc, char **argv)
{
	/* not by getopt(), whose state the commands of a world would inherit */
	for (int i = 1; i < argc; i++) {
		const char *value = argv[i + 1];

		if (parse_flag(r, argv[i]))
			continue;
		if (!value)
			return false;
		if (strcmp(argv[i], "--seeds") == 0)
			r->count = strtoull(value, NULL, 0);
		else if (strcmp(argv[i], "--first") == 0)
			r->first = strtoull(value, NULL, 0);
		else if (strcmp(argv[i], "--events") == 0)
			r->events = (unsigned)strtoul(value, NULL, 0);
		else if (strcmp(argv[i], "--seconds") == 0)
			r->seconds = (unsigned)strtoul(value, NULL, 0);
		else if (strcmp(argv[i], "--folder") == 0)
			r->folder = value;
		else if (strcmp(argv[i], "--jobs") == 0)
			r->jobs = (unsigned)strtoul(value, NULL, 0);
		else if (strcmp(argv[i], "--seed") == 0)
			r->first = strtoull(value, NULL, 0), r->count = 1;
		else
			return false;
		i++;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct request r = { .first = 1,
			     .count = 300,
			     .folder = "/dev/shm/headrace-sim",
			     .events = SIM_EVENTS,
			     .seconds = 300,
			     .jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) };
	unsigned failed;

	fix_addresses(argv);
	if (!parse(&r, argc, argv) || r.jobs == 0 || r.jobs > JOBS_MAX) {
		fputs(usage, stderr);
		return 2;
	}
	if (r.count == 1) {
		r.jobs = 1;
		r.verbose = true;
	}
	signal(SIGPIPE, SIG_IGN);
	sim_result = share_result();
	if (r.jobs == 1)
		pin((unsigned)getpid());
	failed = r.jobs > 1 ? in_jobs(&r) : try_seeds(&r);
	if (r.tap)
		printf("1..%llu\n", (unsigned long long)r.count);
	else
		printf("%llu seeds, %u failed\n", (unsigned long long)r.count, failed);
	return failed != 0;
}
