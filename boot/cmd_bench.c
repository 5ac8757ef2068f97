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
#define BLOCKS_DEFAULT 1u
#define DEPTH_DEFAULT 32u

static const char help[] =
	"usage: headrace bench [CONFIG] [--json] [--seconds S] [--blocks N] [--depth N]\n"
	"                      [--bind]\n\n"
	"Measure each ssd of CONFIG through the whole stack: worker blocks of the first gpu read "
	"and\n"
	"write, sequentially and at random, 4 KiB, 64 KiB and the largest size one command may "
	"have\n"
	"(at most 1 MiB). Without CONFIG the built-in configuration is measured, which needs no\n"
	"hardware. Only an object of its own is written, 'headrace.bench', which is created first\n"
	"and removed at the end.\n\n"
	"  --json       print one JSON object instead of the table\n"
	"  --seconds S  length of each measurement; 0.5\n"
	"  --blocks N   worker blocks, each with a queue pair of its own; 1\n"
	"  --depth N    commands outstanding per block; 32\n" HR_BIND_HELP HR_EXIT_HELP;

struct wishes {
	const char *file;
	bool json;
	double seconds;
	uint32_t blocks, depth;
};

static const char *pattern_name(enum hr_bench_pattern pattern)
{
	return pattern == HR_BENCH_RANDOM ? "random" : "sequential";
}

static void print_head(void)
{
	printf("%-10s %-6s %-11s %9s %11s %11s %9s %9s %9s %9s\n", "ssd", "access", "pattern",
	       "io bytes", "IOPS", "rate", "p50 us", "p99 us", "p99.9 us", "max us");
}

static void print_one(const char *ssd, const struct hr_measurement *r)
{
	char rate[24];

	hr_rate_format(rate, sizeof rate, r->bytes_per_s);
	printf("%-10s %-6s %-11s %9u %11.0f %11s %9.1f %9.1f %9.1f %9.1f\n", ssd,
	       r->write ? "write" : "read", pattern_name(r->pattern), r->io_bytes, r->iops, rate,
	       r->latency_us[0], r->latency_us[1], r->latency_us[2], r->latency_us[3]);
	fflush(stdout);
}

static void json_one(struct json_object *out, const struct hr_measurement *r)
{
	hr_json_string(out, "access", r->write ? "write" : "read");
	hr_json_string(out, "pattern", pattern_name(r->pattern));
	hr_json_u64(out, "io_bytes", r->io_bytes);
	hr_json_double(out, "duration_ms", (double)r->elapsed_ns / 1e6, 3);
	hr_json_u64(out, "commands", r->commands);
	hr_json_double(out, "commands_per_s", r->iops, 1);
	hr_json_double(out, "bytes_per_s", r->bytes_per_s, 0);
	hr_json_double(out, "latency_p50_us", r->latency_us[0], 3);
	hr_json_double(out, "latency_p99_us", r->latency_us[1], 3);
	hr_json_double(out, "latency_p999_us", r->latency_us[2], 3);
	hr_json_double(out, "latency_max_us", r->latency_us[3], 3);
}

/* All measurements over one ssd; writes first, so that reads find data. */
static int measure_all(struct hr_measure *m, const struct wishes *wishes, const char *ssd,
		       struct json_object *list)
{
	const uint32_t size[] = { HR_PAGE, 64u << 10, m->shape.io_max };
	uint64_t duration_ns = (uint64_t)(wishes->seconds * 1e9);

	for (int write = 1; write >= 0; write--) {
		for (int pattern = HR_BENCH_SEQUENTIAL; pattern <= HR_BENCH_RANDOM; pattern++) {
			for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
				struct hr_measurement r = { .write = write != 0,
							    .pattern =
								    (enum hr_bench_pattern)pattern,
							    .io_bytes = size[i] };
				int err;

				if (i > 0 && size[i] <= size[i - 1])
					continue;
				if (size[i] > m->shape.io_max)
					continue;
				err = hr_measure(m, duration_ns, &r);
				if (err)
					return err;
				if (list)
					json_one(hr_json_append(list), &r);
				else
					print_one(ssd, &r);
			}
		}
	}
	return 0;
}

static int bench_ssd(struct hr_appliance *app, uint32_t d, const struct wishes *wishes,
		     struct json_object *ssds)
{
	const struct hr_ssd *ssd = &app->ssd[d];
	struct hr_measure_shape shape = { .ssd = d, .blocks = wishes->blocks };
	struct json_object *out = NULL, *list = NULL;
	struct hr_measure measure;
	int err;

	if (!ssd->has_store && !ssd->transport.keeps_no_data) {
		hr_error("%s:%u: ssd '%s' has no object store to write in; make one with 'headrace "
			 "store format'",
			 app->config.file, app->config.ssd[d].line, app->config.ssd[d].name);
		return -ENODEV;
	}
	shape.depth = wishes->depth < ssd->queue_entries ? wishes->depth : ssd->queue_entries - 1;
	shape.io_max = ssd->chunk_bytes < 1u << 20 ? ssd->chunk_bytes : 1u << 20;
	err = hr_measure_up(&measure, app, &shape);
	if (err)
		return err;
	if (ssds) {
		out = hr_json_append(ssds);
		hr_json_string(out, "name", app->config.ssd[d].name);
		hr_json_string(out, "device", app->config.ssd[d].device);
		hr_json_string(out, "path", hr_gpu_path(app, shape.gpu));
		hr_json_u64(out, "object_bytes", measure.extent.bytes);
		hr_json_u64(out, "blocks", shape.blocks);
		hr_json_u64(out, "depth", shape.depth);
		list = hr_json_array(out, "measurements");
	}
	err = measure_all(&measure, wishes, app->config.ssd[d].name, list);
	hr_measure_down(&measure);
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
	app->min_blocks = wishes->blocks;
	hr_signals_catch();
	err = hr_appliance_up(app, HR_STAGE_STORES);
	if (!err && wishes->json) {
		report = hr_json_new();
		hr_json_string(report, "configuration", app->config.file);
		ssds = hr_json_array(report, "ssds");
	} else if (!err) {
		print_head();
	}
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

static int cmd_bench(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "bind", no_argument, NULL, 'B' },
						 { "seconds", required_argument, NULL, 's' },
						 { "blocks", required_argument, NULL, 'b' },
						 { "depth", required_argument, NULL, 'd' },
						 { NULL, 0, NULL, 0 } };
	struct wishes wishes = { NULL, false, SECONDS_DEFAULT, BLOCKS_DEFAULT, DEPTH_DEFAULT };
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		bool good = true;

		switch (option) {
		case 'B':
			hr_transport_allow_bind();
			break;
		case 'j':
			wishes.json = true;
			break;
		case 's':
			good = read_seconds(optarg, &wishes.seconds);
			break;
		case 'b':
			good = read_count(optarg, HR_BLOCKS_MAX, &wishes.blocks);
			break;
		case 'd':
			good = read_count(optarg, HR_QUEUE_ENTRIES_MAX - 1, &wishes.depth);
			break;
		case ':':
			return hr_usage_error("bench", "option '%s' needs a value",
					      argv[optind - 1]);
		default:
			return hr_usage_error("bench", "unknown option '%s'", argv[optind - 1]);
		}
		if (!good)
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
