/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/bench/bench.h"
#include "boot/cmd/bench/objects.h"
#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "boot/engine/shape/paths.h"
#include "config/base/error.h"
#include "config/base/process.h"
#include "boot/engine/bringup/stage.h"
#include "config/config.h"
#include "config/base/text.h"
#include "boot/remote/link.h"
#include "nvme/transport/transport.h"

#define SECONDS_DEFAULT 0.5
#define SECONDS_MAX 600
#define DEPTH_DEFAULT 32u

/*
 * Defaults on a GPU: one warp per worker, on few SMs, so that the other SMs stay free for compute.
 */
#define GPU_BLOCKS 4u
#define GPU_WORKERS (HR_BENCH_THREADS / 32)
#define GPU_DEPTH 128u
#define GPU_TIMES 3u
#define GPU_QUEUES_MAX 256u

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static const char help[] =
	"usage: headrace bench [CONFIG] [--json] [--seconds S] [--blocks N] [--workers N]\n"
	"                      [--depth N] [--repeat N] [--object MIB] [--only A:P:SIZE]\n"
	"                      [--baseline FILE] [--bind]\n"
	"       headrace bench --remote ADDR:PORT --key FILE [--tile SIZE] [--slots N]\n"
	"                      [--depth N] [--seconds S | --tiles N] [--json]\n"
	"       headrace bench --remote ADDR:PORT --key FILE --receive [--tile SIZE] [--slots N]\n"
	"                      [--json]\n\n"
	"Measure each ssd of CONFIG through the whole stack. Worker blocks of the first gpu read\n"
	"and write, sequentially and at random, from 4 KiB to the largest size of one command (at\n"
	"most 1 MiB). Then each operator reads an object, and writes one if it has output; on a\n"
	"GPU with tiles read in place and, if they lie in host memory, also with tiles copied to\n"
	"GPU memory. Another run computes checksums of all data read and written, which is the\n"
	"default of pipelines (`verified`, and its ratio to the rate without checksums). Then\n"
	"access operators read pages that are not in their cache: the latency of one, with its\n"
	"parts on a GPU, and the rate of many.\n\n"
	"On a GPU the data end in GPU memory, or come from there. A GPU is also measured without\n"
	"an ssd (registers by role, rates of the link to the host), with commands that move no\n"
	"data, and with random reads by few and by many workers. The end of each ssd's output\n"
	"compares the figures. Without CONFIG the built-in configuration is measured, which needs\n"
	"no hardware. The bench writes only its own objects, 'headrace.bench' and\n"
	"'headrace.bench.*', which it creates first and removes at the end.\n\n"
	"  --json          print one JSON object instead of tables\n"
	"  --seconds S     length of each measurement; 0.5\n"
	"  --blocks N      worker blocks; 1, on a GPU 4\n"
	"  --workers N     workers per block on a GPU, each a warp with its own queue pair; 16\n"
	"  --depth N       commands outstanding per worker; 32, on a GPU 128\n"
	"  --repeat N      repetitions of each measurement, an odd number; the median counts; 1, on\n"
	"                  a GPU 3\n"
	"  --object MIB    length of the object; a quarter of the largest gap, at most 256, on a\n"
	"                  GPU 4096\n"
	"  --only A:P:SIZE only one measurement, like read:random:4K or write:sequential:128K; a\n"
	"                  read returns the data that the ssd holds there. --only misses: only\n"
	"                  random reads of 4 KiB, and reads through the page cache of access\n"
	"                  operators, with --blocks as their number of I/O blocks. --only peers: only\n"
	"                  random reads of 4 KiB, and pages that the first two gpus of CONFIG\n"
	"                  copy from each other\n"
	"  --baseline FILE on a GPU, also measure what a program without headrace reaches: CPU\n"
	"                  threads read this file, which is in the kernel's page cache, into GPU\n"
	"                  memory, with pread and cuMemcpyAsync, and with cuFile if it is\n"
	"                  installed. An existing file is only read (at least 128 MiB); a missing\n"
	"                  one is created with the length of the object, and removed at the\n"
	"                  end\n" HR_BIND_HELP
	"\nWith --remote two commands measure the RDMA connection of two appliances. One, with\n"
	"--receive, listens at ADDR:PORT, an IPv4 address of its machine; the other one sends\n"
	"tiles of its host memory there. Both have the same key and size of tiles. No ssd or gpu\n"
	"takes part. Both print tiles, bytes, the rate in MB/s (10^6 bytes) from the first to the\n"
	"last tile, CPU time, breaks and receiver-not-ready errors. To compare on the same pair:\n"
	"'ib_write_bw -s SIZE -t DEPTH', whose MB are 2^20 bytes.\n\n"
	"  --remote ADDR:PORT  the receiver's address\n"
	"  --key FILE      32 bytes, accessible for its owner only: 'head -c 32 /dev/urandom'\n"
	"  --receive       be the receiver\n"
	"  --tile SIZE     bytes of a tile, like 64K; 1M, at most 64M\n"
	"  --slots N       tiles that the memory of this side holds, at most 1024; twice the depth\n"
	"  --depth N       tiles in flight, of the sender; 8\n"
	"  --seconds S     length of the measurement, of the sender; 5\n"
	"  --tiles N       number of tiles, of the sender, in place of --seconds\n" HR_EXIT_HELP;

/* One ssd being measured. */
struct target {
	struct hr_measure measure;
	struct hr_bench_run *run;
	const char *name;
	uint32_t queues; /* workers of a measurement without a number of queues */
};

static int measure_one(struct target *t, struct hr_measurement r)
{
	struct hr_bench_found *found = &t->run->found;
	int err;

	r.queues = r.queues ? r.queues : t->queues;
	err = hr_measure_median(&t->measure, (uint64_t)(t->run->request->seconds * 1e9),
				t->run->times, &r);
	if (err)
		return err;
	if (found->measured_count < HR_BENCH_MEASURED_MAX)
		found->measured[found->measured_count++] = r;
	hr_bench_report_one(t->name, &r, t->run->gpu, t->run->report);
	return 0;
}

/*
 * Measure commands without data transfer, with increasing numbers of queues, and at the largest
 * size; then single pages into GPU memory, with increasing numbers of workers.
 */
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

/*
 * Measure one direction and pattern from single pages to the largest size; fewer sizes on the host.
 */
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

/* Writes come first, so that reads find data. */
static int measure_all(struct target *t)
{
	int err = 0;

	for (int i = 0; !err && i < 4; i++)
		err = measure_sizes(t, i < 2, i % 2 ? HR_BENCH_RANDOM : HR_BENCH_SEQUENTIAL);
	return !err && t->run->gpu ? measure_gpu(t) : err;
}

static int measure_only(struct target *t)
{
	static const struct hr_measurement page = { .pattern = HR_BENCH_RANDOM,
						    .io_bytes = HR_PAGE,
						    .copied = true };
	const struct hr_measurement *only = &t->run->request->only;
	const uint32_t most = t->measure.shape.io_max;

	if (t->run->request->only_misses || t->run->request->only_peers)
		return measure_one(t, page);
	if (only->io_bytes <= most)
		return measure_one(t, *only);
	return hr_fail(&t->run->engine->error, HR_ERROR_USAGE, -EINVAL,
		       "bench: --only asks for commands of %u bytes; ssd '%s' takes up to %u",
		       only->io_bytes, t->name, most);
}

static uint32_t or_else(uint32_t asked, uint32_t otherwise)
{
	return asked ? asked : otherwise;
}

static struct hr_measure_shape shape_of(struct target *t, uint32_t d)
{
	const struct hr_engine *engine = t->run->engine;
	const struct hr_bench_request *request = t->run->request;
	const bool gpu = t->run->gpu;
	const struct hr_ssd *ssd = &engine->ssd[d];
	struct hr_measure_shape shape = { .ssd = d, .workers = 1 };
	uint32_t most;

	shape.blocks = or_else(request->blocks, gpu ? GPU_BLOCKS : 1);
	shape.depth = or_else(request->depth, gpu ? GPU_DEPTH : DEPTH_DEFAULT);
	if (shape.depth >= ssd->queue_entries)
		shape.depth = ssd->queue_entries - 1;
	shape.io_max = ssd->chunk_bytes < 1u << 20 ? ssd->chunk_bytes : 1u << 20;
	shape.object_bytes = hr_bench_object_bytes(t->run, d);
	if (!gpu) {
		t->queues = shape.blocks;
		return shape;
	}
	shape.workers = or_else(request->workers, GPU_WORKERS);
	t->queues = shape.blocks * shape.workers;
	most = hr_ssd_queues_left(ssd);
	if (most > GPU_QUEUES_MAX)
		most = GPU_QUEUES_MAX;
	if (most / shape.workers > shape.blocks)
		shape.blocks = most / shape.workers;
	return shape;
}

static void json_ssd(const struct target *t, struct hr_json *out)
{
	const struct hr_engine *engine = t->run->engine;
	const struct hr_measure_shape *shape = &t->measure.shape;

	hr_json_string(out, "name", t->name);
	hr_json_string(out, "device", engine->config.ssd[shape->ssd].device);
	hr_json_string(out, "gpu", engine->backend[0].name);
	hr_json_string(out, "path", hr_gpu_path(engine, shape->gpu));
	hr_json_u64(out, "object_bytes", t->measure.extent.bytes);
	hr_json_u64(out, "blocks", t->queues / shape->workers);
	hr_json_u64(out, "workers", shape->workers);
	hr_json_u64(out, "depth", shape->depth);
	hr_json_u64(out, "processors", engine->backend[0].processors);
	hr_json_fixed(out, "seconds", t->run->request->seconds, 3);
	hr_json_u64(out, "repeat", t->run->times);
	hr_json_array(out, "measurements");
}

/*
 * In a full bench a page cache that cannot be built here is a note and no failure: I/O blocks need
 * memory that is contiguous on the bus, and their data need room on the ssd.
 */
static int bench_misses(struct hr_bench_run *run, uint32_t d)
{
	struct hr_engine *engine = run->engine;
	const int err = hr_bench_misses(run, d, run->report);

	if (run->request->only_misses || (err != -ENOTSUP && err != -ENOSPC))
		return err;
	hr_warn("ssd '%s': misses of the page cache are not measured: %s",
		engine->config.ssd[d].name, engine->error.text);
	hr_error_clear(&engine->error);
	hr_engine_down_to(engine, HR_STAGE_STORES);
	return 0;
}

static int bench_ssd(struct hr_bench_run *run, uint32_t d)
{
	struct hr_json *const out = run->report;
	struct hr_engine *engine = run->engine;
	const struct hr_ssd *ssd = &engine->ssd[d];
	struct target t = { .run = run, .name = engine->config.ssd[d].name };
	const bool misses = run->request->only_misses, peers = run->request->only_peers;
	const bool only = run->request->only.io_bytes != 0 || misses || peers;
	struct hr_measure_shape shape;
	uint32_t queues;
	int err;

	if (!ssd->has_store && !ssd->transport.keeps_no_data)
		return hr_fail(&engine->error, HR_ERROR_MISSING, -ENOTSUP,
			       "%s:%u: ssd '%s' has no object store to write in; make one with "
			       "'headrace store format'",
			       engine->config.file, engine->config.ssd[d].line,
			       engine->config.ssd[d].name);
	run->found.measured_count = run->found.op_count = 0;
	do {
		queues = hr_ssd_queues(ssd);
		shape = shape_of(&t, d);
		err = hr_measure_up(&t.measure, engine, &shape);
	} while (err && hr_queues_fewer(engine, d, queues));
	if (err)
		return err;
	if (out)
		json_ssd(&t, out);
	else
		hr_bench_head();
	err = only ? measure_only(&t) : measure_all(&t);
	hr_measure_down(&t.measure);
	if (out)
		hr_json_close(out);
	if (!err && !only && ssd->has_store)
		err = hr_bench_operators(run, d, out);
	if (!err && (!only || misses) && ssd->has_store)
		err = bench_misses(run, d);
	if (!err && peers && ssd->has_store)
		err = hr_bench_peers(run, d, out);
	if (!err && !only)
		hr_bench_ratios(run, t.name, out);
	return err;
}

/* Nothing to measure when workers share the host's memory. */
static int bench_limits(struct hr_bench_run *run)
{
	struct hr_backend *b = &run->engine->backend[0];
	int err;

	if (!b->measuring)
		return 0;
	err = b->measuring->limits(b, run->times, &run->found.limits, &run->engine->error);
	run->found.has_limits = !err;
	if (!err)
		hr_bench_report_limits(&run->found.limits, run->report);
	return err;
}

/* Show the registers that compute blocks can use, which depend on the other roles. */
static int bench_roles(struct hr_bench_run *run)
{
	struct hr_backend *b = &run->engine->backend[0];
	int err = b->measuring ? b->measuring->roles(b, &run->engine->error) : 0;

	if (!err && b->measuring)
		hr_bench_report_roles(b->facts, run->report);
	return err;
}

/* Measure the machine before there are controllers, whose threads use the CPU. */
static int bench_machine(struct hr_bench_run *run)
{
	const uint32_t asked = run->request->times;
	int err = hr_engine_up(run->engine, HR_STAGE_BACKENDS);

	if (err)
		return err;
	run->gpu = run->engine->backend[0].lanes > 1;
	run->times = or_else(asked, run->gpu ? GPU_TIMES : 1);
	err = bench_roles(run);
	if (!err)
		err = bench_limits(run);
	return !err && run->request->baseline ? hr_bench_baseline(run) : err;
}

static int bench_all(struct hr_bench_run *run)
{
	struct hr_json *const out = run->report;
	int err = bench_machine(run);

	if (!err)
		err = hr_engine_up(run->engine, HR_STAGE_STORES);
	if (out)
		hr_json_array(out, "ssds");
	for (uint32_t d = 0; !err && d < run->engine->config.ssds; d++) {
		if (out)
			hr_json_object(out, NULL);
		err = hr_vanished_error(bench_ssd(run, d));
		if (out)
			hr_json_close(out);
	}
	if (out)
		hr_json_close(out);
	return err;
}

static int bench(const struct hr_bench_request *request)
{
	struct hr_bench_run run = { .request = request };
	struct hr_json report;
	int code, err;

	run.engine = hr_load(request->file, NULL, &code);
	if (!run.engine)
		return code;
	run.engine->gpu_used[0] = true;
	if (request->only_peers && run.engine->config.gpus < 2) {
		hr_error("%s: --only peers needs two gpus, and there is %u",
			 run.engine->config.file, run.engine->config.gpus);
		free(run.engine);
		return HR_EXIT_USAGE;
	}
	run.engine->gpu_used[1] = request->only_peers;
	/* I/O blocks and one that computes, or the roles of a stream */
	run.engine->min_blocks = or_else(request->blocks, 1) + 1;
	if (run.engine->min_blocks < HR_ROLES)
		run.engine->min_blocks = HR_ROLES;
	hr_signals_catch();
	hr_signals_announce();
	if (request->json) {
		hr_report_begin(&report, "bench");
		hr_json_string(&report, "configuration", run.engine->config.file);
		run.report = &report;
	}
	err = bench_all(&run);
	hr_engine_down(run.engine);
	code = hr_error_report(&run.engine->error, err);
	if (run.report) {
		hr_json_i64(&report, "exit_code", code);
		code = hr_report_end(&report, code, code ? code : HR_EXIT_FAILED);
	}
	free(run.engine);
	return code;
}

/* A whole number 1..max. */
static bool read_seconds(const char *text, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	return !errno && end != text && !*end && isfinite(*value) && *value >= 0.001 &&
	       *value <= SECONDS_MAX;
}

/* ACCESS:PATTERN:SIZE, SIZE in whole pages. */
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
static bool parse_bench_option(struct hr_bench_request *request, int option)
{
	switch (option) {
	case 'B':
		hr_transport_allow_bind();
		return true;
	case 'j':
		request->json = true;
		return true;
	case 'f':
		request->baseline = optarg;
		return true;
	case 'n':
		request->only_misses = strcmp(optarg, "misses") == 0;
		request->only_peers = strcmp(optarg, "peers") == 0;
		return request->only_misses || request->only_peers ||
		       read_only(optarg, &request->only);
	case 's':
		return read_seconds(optarg, &request->seconds);
	case 'b':
		return hr_option_count(optarg, HR_BLOCKS_MAX, &request->blocks);
	case 'w':
		return hr_option_count(optarg, GPU_WORKERS, &request->workers);
	case 'r':
		return hr_option_count(optarg, HR_MEASURE_TIMES_MAX, &request->times) &&
		       request->times % 2;
	case 'o':
		return hr_option_count(optarg, 1u << 20, &request->object_mib);
	default:
		return hr_option_count(optarg, HR_QUEUE_ENTRIES_MAX - 1, &request->depth);
	}
}

static bool parse_remote_option(struct hr_bench_remote *remote, int option)
{
	uint64_t bytes;

	switch (option) {
	case 'R':
		remote->address = optarg;
		return true;
	case 'k':
		remote->key = optarg;
		return true;
	case 'v':
		remote->receive = true;
		return true;
	case 't':
		if (hr_size_parse(optarg, &bytes) != 0 || bytes == 0 || bytes > HR_TILE_MAX)
			return false;
		remote->tile_bytes = (uint32_t)bytes;
		return true;
	case 'S':
		return hr_option_count(optarg, HR_LINK_SLOTS_MAX, &remote->slots);
	default:
		return hr_option_count(optarg, UINT32_MAX, &remote->tiles);
	}
}

/* Options of measurements of ssds; of these and of --remote; of --remote. */
static const struct option options[] = { { "bind", no_argument, NULL, 'B' },
					 { "blocks", required_argument, NULL, 'b' },
					 { "workers", required_argument, NULL, 'w' },
					 { "repeat", required_argument, NULL, 'r' },
					 { "object", required_argument, NULL, 'o' },
					 { "only", required_argument, NULL, 'n' },
					 { "baseline", required_argument, NULL, 'f' },
					 { "json", no_argument, NULL, 'j' },
					 { "seconds", required_argument, NULL, 's' },
					 { "depth", required_argument, NULL, 'd' },
					 { "remote", required_argument, NULL, 'R' },
					 { "key", required_argument, NULL, 'k' },
					 { "receive", no_argument, NULL, 'v' },
					 { "tile", required_argument, NULL, 't' },
					 { "slots", required_argument, NULL, 'S' },
					 { "tiles", required_argument, NULL, 'T' },
					 { NULL, 0, NULL, 0 } };
#define OPTIONS_SHARED 7
#define OPTIONS_REMOTE 10

/* Bit i of given: options[i]. */
static int check_options(const struct hr_bench_request *request, uint32_t given)
{
	const bool remote = request->remote.address;

	for (int i = 0; options[i].name; i++) {
		if (!(given >> i & 1))
			continue;
		if (remote && i < OPTIONS_SHARED)
			return hr_usage_error("bench", "--remote takes no --%s", options[i].name);
		if (!remote && i >= OPTIONS_REMOTE)
			return hr_usage_error("bench", "--%s needs --remote", options[i].name);
	}
	if (remote && request->file)
		return hr_usage_error("bench", "--remote takes no configuration");
	return 0;
}

static int run_request(struct hr_bench_request *request)
{
	struct hr_bench_remote *remote = &request->remote;

	if (remote->address) {
		remote->json = request->json;
		remote->depth = request->depth;
		remote->seconds = request->seconds;
		return hr_bench_remote(remote);
	}
	if (request->seconds <= 0)
		request->seconds = SECONDS_DEFAULT;
	return bench(request);
}

static int cmd_bench(int argc, char **argv)
{
	struct hr_bench_request request = { 0 };
	int option, which = 0, code;
	uint32_t given = 0;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, &which)) != -1) {
		if (option == ':')
			return hr_usage_error("bench", "option '%s' needs a value",
					      argv[optind - 1]);
		if (option == '?')
			return hr_option_unknown("bench", argv[optind - 1], options);
		if (which < OPTIONS_REMOTE ? !parse_bench_option(&request, option)
					   : !parse_remote_option(&request.remote, option))
			return hr_usage_error("bench", "--%s: '%s' is out of range",
					      options[which].name, optarg);
		given |= 1u << which;
	}
	if (argc - optind > 1)
		return hr_usage_error("bench", "one configuration expected, %d given",
				      argc - optind);
	if (optind < argc)
		request.file = argv[optind];
	code = check_options(&request, given);
	return code ? code : run_request(&request);
}

const struct hr_command hr_cmd_bench = {
	.name = "bench",
	.summary = "measure sequential and random reads and writes",
	.help = help,
	.fn = cmd_bench,
};
