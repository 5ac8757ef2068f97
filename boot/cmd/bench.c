#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/bench/bench.h"
#include "boot/cmd/cmd.h"
#include "boot/cmd/report/json.h"
#include "boot/cmd/load.h"
#include "boot/engine/paths.h"
#include "config/log.h"
#include "boot/engine/signals.h"
#include "config/config.h"
#include "nvme/transport.h"

#define SECONDS_DEFAULT 0.5
#define SECONDS_MAX 600
#define DEPTH_DEFAULT 32u

/* On a GPU: a warp of each worker, so few SMs that the others are left to compute. */
#define GPU_BLOCKS 4u
#define GPU_WORKERS (HR_BENCH_THREADS / 32)
#define GPU_DEPTH 128u
#define GPU_TIMES 3u
#define GPU_QUEUES_MAX 256u

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static const char help[] =
	"usage: headrace bench [CONFIG] [--json] [--seconds S] [--blocks N] [--workers N]\n"
	"                      [--depth N] [--repeat N] [--object MIB] [--only A:P:SIZE]\n"
	"                      [--baseline FILE] [--bind]\n\n"
	"Measure each ssd of CONFIG through the whole stack: worker blocks of the first gpu read\n"
	"and write, sequentially and at random, from 4 KiB to the largest size one command may\n"
	"have (at most 1 MiB); then each operator reads an object, and writes one where it has\n"
	"something to write, on a GPU with tiles read in place and, where they lie in host\n"
	"memory, copied to the GPU's first; and once more with checksums of all that is read and\n"
	"written, as pipelines have them unless told otherwise (`verified`, and how many times "
	"the\n"
	"rate without). On a GPU the data end in its memory, or come from\n"
	"there; before it registers by role and what the link to the host gives, and after it\n"
	"commands alone, without moving their data,\n"
	"and random reads by few and by many workers. At the end of each ssd figures are set\n"
	"beside each other. Without CONFIG the built-in configuration is measured, which needs no\n"
	"hardware. Only objects of its own are written, 'headrace.bench' and 'headrace.bench.*',\n"
	"which are created first and removed at the end.\n\n"
	"  --json          print one JSON object instead of tables\n"
	"  --seconds S     length of each measurement; 0.5\n"
	"  --blocks N      worker blocks; 1, on a GPU 4\n"
	"  --workers N     of a block on a GPU, each a warp with a queue pair of its own; 16\n"
	"  --depth N       commands outstanding per worker; 32, on a GPU 128\n"
	"  --repeat N      an odd number of times each, of which the median counts; 1, on a GPU 3\n"
	"  --object MIB    length of the object; a quarter of the largest gap, at most 256, on a\n"
	"                  GPU 4096\n"
	"  --only A:P:SIZE one measurement alone, like read:random:4K or write:sequential:128K; a\n"
	"                  read finds what lies on the ssd where the object is\n"
	"  --baseline FILE also what a program would do instead, on a GPU: threads of the CPU "
	"read\n"
	"                  this file, which the kernel then has in memory, into GPU memory; with\n"
	"                  pread and cuMemcpyAsync, and with cuFile where that is installed. A "
	"file\n"
	"                  that is there is only read (128 MiB at least); one that is not is "
	"made,\n"
	"                  as long as the object, and removed at the end\n" HR_BIND_HELP
		HR_EXIT_HELP;

/* One ssd being measured. */
struct target {
	struct hr_measure measure;
	struct hr_bench_run *run;
	const char *name;
	struct json_object *list; /* NULL: the table */
	uint32_t queues;	  /* workers of a measurement that does not say how many */
};

static int measure_one(struct target *t, struct hr_measurement r)
{
	struct hr_bench_found *found = &t->run->found;
	int err;

	r.queues = r.queues ? r.queues : t->queues;
	err = hr_measure_median(&t->measure, (uint64_t)(t->run->wishes->seconds * 1e9),
				t->run->times, &r);
	if (err)
		return err;
	if (found->measured_count < HR_BENCH_MEASURED_MAX)
		found->measured[found->measured_count++] = r;
	hr_bench_report_one(t->name, &r, t->run->gpu, t->list ? hr_json_append(t->list) : NULL);
	return 0;
}

/* Commands alone, by more and more queues, and of the largest size; then single pages into GPU
 * memory, by more and more workers. */
static int measure_gpu(struct target *t)
{
	static const uint32_t commands[] = { 16, 64, 256 };
	static const uint32_t workers[] = { 1, 2, 4, 8, 16, 32, 48, 64 };
	struct hr_measurement r = { .pattern = HR_BENCH_RANDOM, .io_bytes = HR_PAGE };
	int err = 0;

	for (size_t i = 0; !err && i < 2 * ROWS(commands); i++) {
		r.write = i % 2 != 0;
		r.queues = commands[i / 2];
		err = measure_one(t, r);
	}
	r.queues = 0;
	r.io_bytes = t->measure.shape.io_max;
	for (int i = 0; !err && i < 2; i++) {
		r.write = i != 0;
		err = measure_one(t, r);
	}
	r.write = false;
	r.copied = true;
	r.io_bytes = HR_PAGE;
	for (size_t i = 0; !err && i < ROWS(workers); i++) {
		r.queues = workers[i];
		err = measure_one(t, r);
	}
	return err;
}

/* One direction and pattern, from single pages to the largest size; fewer sizes on the host. */
static int measure_sizes(struct target *t, bool write, enum hr_bench_pattern pattern)
{
	const uint32_t step = t->run->gpu ? 4 : 16, most = t->measure.shape.io_max;
	struct hr_measurement r = { .write = write, .pattern = pattern, .copied = true };
	int err = 0;

	for (r.io_bytes = HR_PAGE; !err && r.io_bytes < most; r.io_bytes *= step)
		err = measure_one(t, r);
	r.io_bytes = most;
	return err ? err : measure_one(t, r);
}

/* Writes first, so that reads find data. */
static int measure_all(struct target *t)
{
	int err = 0;

	for (int i = 0; !err && i < 4; i++)
		err = measure_sizes(t, i < 2, i % 2 ? HR_BENCH_RANDOM : HR_BENCH_SEQUENTIAL);
	return !err && t->run->gpu ? measure_gpu(t) : err;
}

static int measure_only(struct target *t)
{
	const struct hr_measurement *only = &t->run->wishes->only;
	const uint32_t most = t->measure.shape.io_max;

	if (only->io_bytes <= most)
		return measure_one(t, *only);
	hr_error("bench: --only asks for commands of %u bytes; ssd '%s' takes up to %u",
		 only->io_bytes, t->name, most);
	return -EINVAL;
}

static uint32_t or_else(uint32_t wish, uint32_t otherwise)
{
	return wish ? wish : otherwise;
}

static struct hr_measure_shape shape_of(struct target *t, uint32_t d)
{
	const struct hr_appliance *app = t->run->app;
	const struct hr_bench_wishes *wishes = t->run->wishes;
	const bool gpu = t->run->gpu;
	const struct hr_ssd *ssd = &app->ssd[d];
	struct hr_measure_shape shape = { .ssd = d, .workers = 1 };
	uint32_t most;

	shape.blocks = or_else(wishes->blocks, gpu ? GPU_BLOCKS : 1);
	shape.depth = or_else(wishes->depth, gpu ? GPU_DEPTH : DEPTH_DEFAULT);
	if (shape.depth >= ssd->queue_entries)
		shape.depth = ssd->queue_entries - 1;
	shape.io_max = ssd->chunk_bytes < 1u << 20 ? ssd->chunk_bytes : 1u << 20;
	shape.object_bytes = hr_bench_object_bytes(t->run, d);
	if (!gpu) {
		t->queues = shape.blocks;
		return shape;
	}
	shape.workers = or_else(wishes->workers, GPU_WORKERS);
	t->queues = shape.blocks * shape.workers;
	most = hr_ssd_queues_left(ssd);
	if (most > GPU_QUEUES_MAX)
		most = GPU_QUEUES_MAX;
	if (most / shape.workers > shape.blocks)
		shape.blocks = most / shape.workers;
	return shape;
}

static struct json_object *json_ssd(const struct target *t, struct json_object *out)
{
	const struct hr_appliance *app = t->run->app;
	const struct hr_measure_shape *shape = &t->measure.shape;

	hr_json_string(out, "name", t->name);
	hr_json_string(out, "device", app->config.ssd[shape->ssd].device);
	hr_json_string(out, "gpu", app->backend[0].name);
	hr_json_string(out, "path", hr_gpu_path(app, shape->gpu));
	hr_json_u64(out, "object_bytes", t->measure.extent.bytes);
	hr_json_u64(out, "blocks", t->queues / shape->workers);
	hr_json_u64(out, "workers", shape->workers);
	hr_json_u64(out, "depth", shape->depth);
	hr_json_u64(out, "processors", app->backend[0].processors);
	hr_json_double(out, "seconds", t->run->wishes->seconds, 3);
	hr_json_u64(out, "repeat", t->run->times);
	return hr_json_array(out, "measurements");
}

static int bench_ssd(struct hr_bench_run *run, uint32_t d, struct json_object *out)
{
	struct hr_appliance *app = run->app;
	const struct hr_ssd *ssd = &app->ssd[d];
	struct target t = { .run = run, .name = app->config.ssd[d].name };
	const bool only = run->wishes->only.io_bytes != 0;
	struct hr_measure_shape shape;
	int err;

	if (!ssd->has_store && !ssd->transport.keeps_no_data) {
		hr_error("%s:%u: ssd '%s' has no object store to write in; make one with 'headrace "
			 "store format'",
			 app->config.file, app->config.ssd[d].line, app->config.ssd[d].name);
		return -ENOTSUP;
	}
	run->found.measured_count = run->found.op_count = 0;
	shape = shape_of(&t, d);
	err = hr_measure_up(&t.measure, app, &shape);
	if (err)
		return err;
	if (out)
		t.list = json_ssd(&t, out);
	else
		hr_bench_head();
	err = only ? measure_only(&t) : measure_all(&t);
	hr_measure_down(&t.measure);
	if (!err && !only && ssd->has_store)
		err = hr_bench_operators(run, d, out);
	if (!err && !only)
		hr_bench_ratios(run, t.name, out);
	return err;
}

/* Nothing where workers share the memory of the host. */
static int bench_limits(struct hr_bench_run *run)
{
	struct hr_backend *b = &run->app->backend[0];
	int err;

	if (!b->ops->limits)
		return 0;
	err = b->ops->limits(b, run->times, &run->found.limits);
	run->found.has_limits = !err;
	if (!err)
		hr_bench_report_limits(&run->found.limits,
				       run->report ? hr_json_object(run->report, "limits") : NULL);
	return err;
}

/* Registers are what compute blocks have to work with, whatever the other roles take. */
static int bench_roles(struct hr_bench_run *run)
{
	struct hr_backend *b = &run->app->backend[0];
	int err = b->ops->roles ? b->ops->roles(b) : 0;

	if (!err && b->ops->roles)
		hr_bench_report_roles(
			b->facts, run->report ? hr_json_object(run->report, "registers") : NULL);
	return err;
}

/* What the machine gives before controllers, whose threads may be busy, are there. */
static int bench_machine(struct hr_bench_run *run)
{
	const uint32_t wish = run->wishes->times;
	int err = hr_appliance_up(run->app, HR_STAGE_BACKENDS);

	if (err)
		return err;
	run->gpu = run->app->backend[0].lanes > 1;
	run->times = or_else(wish, run->gpu ? GPU_TIMES : 1);
	err = bench_roles(run);
	if (!err)
		err = bench_limits(run);
	return !err && run->wishes->baseline ? hr_bench_baseline(run) : err;
}

static int bench_all(struct hr_bench_run *run)
{
	struct json_object *ssds = NULL;
	int err = bench_machine(run);

	if (!err)
		err = hr_appliance_up(run->app, HR_STAGE_STORES);
	if (run->report)
		ssds = hr_json_array(run->report, "ssds");
	for (uint32_t d = 0; !err && d < run->app->config.ssds; d++)
		err = hr_gone(bench_ssd(run, d, ssds ? hr_json_append(ssds) : NULL));
	return err;
}

static int bench(const struct hr_bench_wishes *wishes)
{
	struct hr_bench_run run = { .wishes = wishes };
	int code, err;

	run.app = hr_load(wishes->file, NULL, &code);
	if (!run.app)
		return code;
	run.app->gpu_used[0] = true;
	run.app->min_blocks = or_else(wishes->blocks, 1);
	if (run.app->min_blocks < HR_ROLES) /* of a pipeline */
		run.app->min_blocks = HR_ROLES;
	hr_signals_catch();
	if (wishes->json) {
		run.report = hr_json_new();
		hr_json_string(run.report, "configuration", run.app->config.file);
	}
	err = bench_all(&run);
	hr_appliance_down(run.app);
	code = err == -EINTR ? HR_EXIT_FAILED : hr_exit_code(err);
	if (run.report) {
		hr_json_i64(run.report, "exit_code", code);
		if (hr_json_print(run.report) != 0 && code == HR_EXIT_DONE)
			code = HR_EXIT_FAILED;
	}
	free(run.app);
	return code;
}

/* A whole number 1..max. */
static bool read_count(const char *text, uint32_t max, uint32_t *value)
{
	char *end;
	long got;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	got = strtol(text, &end, 10);
	if (errno || *end || got < 1 || got > (long)max)
		return false;
	*value = (uint32_t)got;
	return true;
}

static bool read_seconds(const char *text, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	return !errno && end != text && !*end && isfinite(*value) && *value >= 0.001 &&
	       *value <= SECONDS_MAX;
}

/* ACCESS:PATTERN:SIZE, of whole pages. */
static bool read_only(const char *text, struct hr_measurement *only)
{
	static const char *const kind[] = { "read:sequential:", "read:random:", "write:sequential:",
					    "write:random:" };
	uint64_t bytes;

	for (uint32_t i = 0; i < ROWS(kind); i++) {
		if (strncmp(text, kind[i], strlen(kind[i])) != 0)
			continue;
		if (hr_size_parse(text + strlen(kind[i]), &bytes) != 0 || bytes == 0 ||
		    bytes % HR_PAGE != 0 || bytes > UINT32_MAX)
			return false;
		only->write = i / 2 != 0;
		only->pattern = i % 2 ? HR_BENCH_RANDOM : HR_BENCH_SEQUENTIAL;
		only->io_bytes = (uint32_t)bytes;
		only->copied = true;
		return true;
	}
	return false;
}

/* False: the value is out of range. */
static bool take_option(struct hr_bench_wishes *wishes, int option)
{
	switch (option) {
	case 'B':
		hr_transport_allow_bind();
		return true;
	case 'j':
		wishes->json = true;
		return true;
	case 'f':
		wishes->baseline = optarg;
		return true;
	case 'n':
		return read_only(optarg, &wishes->only);
	case 's':
		return read_seconds(optarg, &wishes->seconds);
	case 'b':
		return read_count(optarg, HR_BLOCKS_MAX, &wishes->blocks);
	case 'w':
		return read_count(optarg, GPU_WORKERS, &wishes->workers);
	case 'r':
		return read_count(optarg, HR_MEASURE_TIMES_MAX, &wishes->times) &&
		       wishes->times % 2;
	case 'o':
		return read_count(optarg, 1u << 20, &wishes->object_mib);
	default:
		return read_count(optarg, HR_QUEUE_ENTRIES_MAX - 1, &wishes->depth);
	}
}

static int cmd_bench(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "bind", no_argument, NULL, 'B' },
						 { "seconds", required_argument, NULL, 's' },
						 { "blocks", required_argument, NULL, 'b' },
						 { "workers", required_argument, NULL, 'w' },
						 { "depth", required_argument, NULL, 'd' },
						 { "repeat", required_argument, NULL, 'r' },
						 { "object", required_argument, NULL, 'o' },
						 { "only", required_argument, NULL, 'n' },
						 { "baseline", required_argument, NULL, 'f' },
						 { NULL, 0, NULL, 0 } };
	struct hr_bench_wishes wishes = { .seconds = SECONDS_DEFAULT };
	int option, which = 0;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, &which)) != -1) {
		if (option == ':')
			return hr_usage_error("bench", "option '%s' needs a value",
					      argv[optind - 1]);
		if (option == '?')
			return hr_usage_error("bench", "unknown option '%s'", argv[optind - 1]);
		if (!take_option(&wishes, option))
			return hr_usage_error("bench", "--%s: '%s' is out of range",
					      options[which].name, optarg);
	}
	if (argc - optind > 1)
		return hr_usage_error("bench", "one configuration expected, %d given",
				      argc - optind);
	if (optind < argc)
		wishes.file = argv[optind];
	return bench(&wishes);
}

const struct hr_command hr_cmd_bench = {
	.name = "bench",
	.summary = "measure sequential and random reads and writes",
	.help = help,
	.fn = cmd_bench,
};
