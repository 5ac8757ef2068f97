#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot/clock.h"
#include "boot/cmd.h"
#include "boot/json.h"
#include "boot/load.h"
#include "boot/log.h"
#include "boot/measure.h"
#include "boot/progress.h"
#include "boot/signals.h"
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

static const char help[] =
	"usage: headrace bench [CONFIG] [--json] [--seconds S] [--blocks N] [--workers N]\n"
	"                      [--depth N] [--repeat N] [--object MIB] [--bind]\n\n"
	"Measure each ssd of CONFIG through the whole stack: worker blocks of the first gpu read "
	"and\n"
	"write, sequentially and at random, 4 KiB, 64 KiB and the largest size one command may "
	"have\n"
	"(at most 1 MiB). On a GPU the data end in its memory, or come from there; then also "
	"commands\n"
	"alone, without moving their data, and random reads by few and by many workers. Without\n"
	"CONFIG the built-in configuration is measured, which needs no hardware. Only an object "
	"of\n"
	"its own is written, 'headrace.bench', which is created first and removed at the end.\n\n"
	"  --json       print one JSON object instead of the table\n"
	"  --seconds S  length of each measurement; 0.5\n"
	"  --blocks N   worker blocks; 1, on a GPU 4\n"
	"  --workers N  of a block on a GPU, each a warp with a queue pair of its own; 16\n"
	"  --depth N    commands outstanding per worker; 32, on a GPU 128\n"
	"  --repeat N   an odd number of times each, of which the median counts; 1, on a GPU 3\n"
	"  --object MIB length of the object; 256, or a quarter of the largest gap\n" HR_BIND_HELP
		HR_EXIT_HELP;

struct wishes {
	const char *file;
	bool json;
	double seconds;
	uint32_t blocks, workers, depth, times, object_mib; /* 0: as the backend wants it */
};

static const char *pattern_name(enum hr_bench_pattern pattern)
{
	return pattern == HR_BENCH_RANDOM ? "random" : "sequential";
}

static void print_head(void)
{
	printf("%-10s %-6s %-11s %-5s %9s %6s %11s %11s %9s %9s %9s %9s %8s\n", "ssd", "access",
	       "pattern", "data", "io bytes", "queues", "IOPS", "rate", "p50 us", "p99 us",
	       "p99.9 us", "max us", "cycles");
}

/* Where the data are in the end: nowhere when a GPU's workers leave them in host memory. */
static const char *data_name(const struct hr_measurement *r, bool gpu)
{
	return gpu ? (r->copied ? "gpu" : "none") : "host";
}

static void print_one(const char *ssd, const struct hr_measurement *r, bool gpu)
{
	char rate[24];

	hr_rate_format(rate, sizeof rate, r->bytes_per_s);
	printf("%-10s %-6s %-11s %-5s %9u %6u %11.0f %11s %9.1f %9.1f %9.1f %9.1f %8.0f\n", ssd,
	       r->write ? "write" : "read", pattern_name(r->pattern), data_name(r, gpu),
	       r->io_bytes, r->queues, r->iops, rate, r->latency_us[0], r->latency_us[1],
	       r->latency_us[2], r->latency_us[3], r->send_cycles + r->reap_cycles);
	fflush(stdout);
}

static void json_one(struct json_object *out, const struct hr_measurement *r, bool gpu)
{
	hr_json_string(out, "access", r->write ? "write" : "read");
	hr_json_string(out, "pattern", pattern_name(r->pattern));
	hr_json_string(out, "data", data_name(r, gpu));
	hr_json_u64(out, "io_bytes", r->io_bytes);
	hr_json_u64(out, "queues", r->queues);
	hr_json_u64(out, "blocks", r->blocks);
	hr_json_u64(out, "depth", r->depth);
	hr_json_double(out, "duration_ms", (double)r->elapsed_ns / 1e6, 3);
	hr_json_u64(out, "commands", r->commands);
	hr_json_double(out, "commands_per_s", r->iops, 1);
	hr_json_double(out, "commands_per_s_worst", r->worst_iops, 1);
	hr_json_double(out, "commands_per_s_best", r->best_iops, 1);
	hr_json_double(out, "bytes_per_s", r->bytes_per_s, 0);
	hr_json_double(out, "latency_p50_us", r->latency_us[0], 3);
	hr_json_double(out, "latency_p99_us", r->latency_us[1], 3);
	hr_json_double(out, "latency_p999_us", r->latency_us[2], 3);
	hr_json_double(out, "latency_max_us", r->latency_us[3], 3);
	hr_json_double(out, "batch_commands", r->batch_commands, 2);
	hr_json_double(out, "fences_per_batch", r->fences_per_batch, 3);
	hr_json_double(out, "doorbells_per_batch", r->doorbells_per_batch, 3);
	if (gpu) {
		hr_json_double(out, "send_cycles", r->send_cycles, 1);
		hr_json_double(out, "reap_cycles", r->reap_cycles, 1);
	}
}

/* One ssd being measured, and where its results go. */
struct target {
	struct hr_measure measure;
	const struct wishes *wishes;
	const char *name;
	struct json_object *list; /* NULL: the table */
	uint32_t queues;	  /* workers of a measurement that does not say how many */
	uint32_t times;
	bool gpu;
};

static int measure_one(struct target *t, struct hr_measurement r)
{
	int err;

	r.queues = r.queues ? r.queues : t->queues;
	err = hr_measure_median(&t->measure, (uint64_t)(t->wishes->seconds * 1e9), t->times, &r);
	if (err)
		return err;
	if (t->list)
		json_one(hr_json_append(t->list), &r, t->gpu);
	else
		print_one(t->name, &r, t->gpu);
	return 0;
}

/* Commands alone, by more and more queues; then single pages into GPU memory, by more and more
 * workers; then what lies between the sizes of measure_all(). */
static int measure_gpu(struct target *t)
{
	static const uint32_t commands[] = { 16, 64, 256 };
	static const uint32_t workers[] = { 1, 2, 4, 8, 16, 32, 48, 64 };
	static const uint32_t size[] = { 16u << 10, 256u << 10 };
	struct hr_measurement r = { .pattern = HR_BENCH_RANDOM, .io_bytes = HR_PAGE };
	int err = 0;

	for (size_t i = 0; !err && i < 2 * (sizeof commands / sizeof *commands); i++) {
		r.write = i % 2 != 0;
		r.queues = commands[i / 2];
		err = measure_one(t, r);
	}
	r.write = false;
	r.copied = true;
	for (size_t i = 0; !err && i < sizeof workers / sizeof *workers; i++) {
		r.queues = workers[i];
		err = measure_one(t, r);
	}
	r.queues = 0;
	for (size_t i = 0; !err && i < sizeof size / sizeof *size; i++) {
		r.io_bytes = size[i];
		if (size[i] <= t->measure.shape.io_max)
			err = measure_one(t, r);
	}
	return err;
}

/* Writes first, so that reads find data. */
static int measure_all(struct target *t)
{
	const uint32_t size[] = { HR_PAGE, 64u << 10, t->measure.shape.io_max };
	int err = 0;

	for (uint32_t i = 0; !err && i < 12; i++) {
		const uint32_t s = i % 3;
		const struct hr_measurement r = { .write = i < 6,
						  .pattern = i / 3 % 2 ? HR_BENCH_RANDOM
								       : HR_BENCH_SEQUENTIAL,
						  .io_bytes = size[s],
						  .copied = true };

		if (size[s] <= t->measure.shape.io_max && (s == 0 || size[s] > size[s - 1]))
			err = measure_one(t, r);
	}
	return !err && t->gpu ? measure_gpu(t) : err;
}

static uint32_t or_else(uint32_t wish, uint32_t otherwise)
{
	return wish ? wish : otherwise;
}

static struct hr_measure_shape shape_of(const struct hr_appliance *app, uint32_t d,
					const struct wishes *wishes, struct target *t)
{
	const struct hr_ssd *ssd = &app->ssd[d];
	struct hr_measure_shape shape = { .ssd = d, .workers = 1 };
	uint32_t most;

	t->gpu = app->backend[0].lanes > 1;
	t->times = or_else(wishes->times, t->gpu ? GPU_TIMES : 1);
	shape.blocks = or_else(wishes->blocks, t->gpu ? GPU_BLOCKS : 1);
	shape.depth = or_else(wishes->depth, t->gpu ? GPU_DEPTH : DEPTH_DEFAULT);
	if (shape.depth >= ssd->queue_entries)
		shape.depth = ssd->queue_entries - 1;
	shape.io_max = ssd->chunk_bytes < 1u << 20 ? ssd->chunk_bytes : 1u << 20;
	shape.object_bytes = (uint64_t)wishes->object_mib << 20;
	if (!t->gpu) {
		t->queues = shape.blocks;
		return shape;
	}
	shape.workers = or_else(wishes->workers, GPU_WORKERS);
	t->queues = shape.blocks * shape.workers;
	most = ssd->queues + 1 - ssd->next_queue;
	if (most > GPU_QUEUES_MAX)
		most = GPU_QUEUES_MAX;
	if (most / shape.workers > shape.blocks)
		shape.blocks = most / shape.workers;
	return shape;
}

static struct json_object *json_ssd(const struct hr_appliance *app, const struct target *t,
				    struct json_object *ssds)
{
	const struct hr_measure_shape *shape = &t->measure.shape;
	const struct hr_config_ssd *ssd = &app->config.ssd[shape->ssd];
	struct json_object *out = hr_json_append(ssds);

	hr_json_string(out, "name", ssd->name);
	hr_json_string(out, "device", ssd->device);
	hr_json_string(out, "gpu", app->backend[0].name);
	hr_json_string(out, "path", hr_gpu_path(app, shape->gpu));
	hr_json_u64(out, "object_bytes", t->measure.extent.bytes);
	hr_json_u64(out, "blocks", t->queues / shape->workers);
	hr_json_u64(out, "workers", shape->workers);
	hr_json_u64(out, "depth", shape->depth);
	hr_json_u64(out, "processors", app->backend[0].processors);
	hr_json_double(out, "seconds", t->wishes->seconds, 3);
	hr_json_u64(out, "repeat", t->times);
	return hr_json_array(out, "measurements");
}

static int bench_ssd(struct hr_appliance *app, uint32_t d, const struct wishes *wishes,
		     struct json_object *ssds)
{
	const struct hr_ssd *ssd = &app->ssd[d];
	struct target t = { .wishes = wishes, .name = app->config.ssd[d].name };
	struct hr_measure_shape shape;
	int err;

	if (!ssd->has_store && !ssd->transport.keeps_no_data) {
		hr_error("%s:%u: ssd '%s' has no object store to write in; make one with 'headrace "
			 "store format'",
			 app->config.file, app->config.ssd[d].line, app->config.ssd[d].name);
		return -ENODEV;
	}
	shape = shape_of(app, d, wishes, &t);
	err = hr_measure_up(&t.measure, app, &shape);
	if (err)
		return err;
	if (ssds)
		t.list = json_ssd(app, &t, ssds);
	err = measure_all(&t);
	hr_measure_down(&t.measure);
	return err;
}

/* One line of the table of limits: what, and what both directions do at once; or one member. */
static void limit_row(struct json_object *out, const char *name, const char *what, double value,
		      double both)
{
	char rate[24], rate_both[24] = "";

	if (out) {
		hr_json_double(out, name, value, 0);
		return;
	}
	hr_rate_format(rate, sizeof rate, value);
	if (both > 0)
		hr_rate_format(rate_both, sizeof rate_both, both);
	printf("%-58s %11s %11s\n", what, rate, rate_both);
}

static void report_limits(const struct hr_limits *l, struct json_object *out)
{
	char name[48], what[80];

	if (!out)
		printf("%-58s %11s %11s\n", "link between host and GPU", "rate", "both");
	limit_row(out, "copy_in_bytes_per_s", "copy engine, host to GPU memory", l->copy_in,
		  l->copy_both);
	limit_row(out, "copy_out_bytes_per_s", "copy engine, GPU memory to host", l->copy_out,
		  l->copy_both);
	limit_row(out, "load_bytes_per_s", "loads from host memory", l->load, l->load_store);
	limit_row(out, "store_bytes_per_s", "stores to host memory", l->store, l->load_store);
	for (uint32_t i = 0; i < HR_LIMIT_WARPS; i++) {
		snprintf(name, sizeof name, "page_%u_warps_bytes_per_s", hr_limit_warps(i));
		snprintf(what, sizeof what, "random 4 KiB pages into GPU memory, %u warps",
			 hr_limit_warps(i));
		limit_row(out, name, what, l->page[i], 0);
	}
	limit_row(out, "bulk_bytes_per_s", "the same, bulk copy engine of SMs, 16 warps", l->bulk,
		  0);
	if (out) {
		limit_row(out, "copy_both_bytes_per_s", "", l->copy_both, 0);
		limit_row(out, "load_store_bytes_per_s", "", l->load_store, 0);
		hr_json_double(out, "round_trip_ns", l->round_trip_ns, 0);
	} else {
		printf("%-58s %8.0f ns\n\n", "round trip GPU, CPU, GPU", l->round_trip_ns);
	}
}

/* Nothing where workers share the memory of the host. */
static int bench_limits(struct hr_appliance *app, const struct wishes *wishes,
			struct json_object *report)
{
	struct hr_backend *b = &app->backend[0];
	struct hr_limits limits;
	int err;

	if (!b->ops->limits)
		return 0;
	err = b->ops->limits(b, or_else(wishes->times, GPU_TIMES), &limits);
	if (!err)
		report_limits(&limits, report ? hr_json_object(report, "limits") : NULL);
	return err;
}

static int bench(const struct wishes *wishes)
{
	struct json_object *report = NULL, *ssds = NULL;
	struct hr_appliance *app;
	int code, err;

	app = hr_load(wishes->file, NULL, &code);
	if (!app)
		return code;
	app->gpu_used[0] = true;
	app->min_blocks = or_else(wishes->blocks, 1);
	hr_signals_catch();
	err = hr_appliance_up(app, HR_STAGE_STORES);
	if (!err && wishes->json) {
		report = hr_json_new();
		hr_json_string(report, "configuration", app->config.file);
	}
	if (!err)
		err = bench_limits(app, wishes, report);
	if (report)
		ssds = hr_json_array(report, "ssds");
	else if (!err)
		print_head();
	for (uint32_t d = 0; !err && d < app->config.ssds; d++)
		err = bench_ssd(app, d, wishes, ssds);
	hr_appliance_down(app);
	code = err == -EINTR ? HR_EXIT_FAILED : hr_exit_code(err);
	if (report) {
		hr_json_i64(report, "exit_code", code);
		if (hr_json_print(report) != 0 && code == HR_EXIT_DONE)
			code = HR_EXIT_FAILED;
	}
	free(app);
	return code;
}

/* A whole number 1..max. */
static bool read_count(const char *text, uint32_t max, uint32_t *value)
{
	char *end;
	long got;

	errno = 0;
	got = strtol(text, &end, 10);
	if (errno || end == text || *end || got < 1 || got > (long)max)
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

/* False: the value is out of range. */
static bool take_option(struct wishes *wishes, int option)
{
	switch (option) {
	case 'B':
		hr_transport_allow_bind();
		return true;
	case 'j':
		wishes->json = true;
		return true;
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
						 { NULL, 0, NULL, 0 } };
	struct wishes wishes = { .seconds = SECONDS_DEFAULT };
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (option == ':')
			return hr_usage_error("bench", "option '%s' needs a value",
					      argv[optind - 1]);
		if (option == '?')
			return hr_usage_error("bench", "unknown option '%s'", argv[optind - 1]);
		if (!take_option(&wishes, option))
			return hr_usage_error("bench", "'%s' is out of range", optarg);
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
