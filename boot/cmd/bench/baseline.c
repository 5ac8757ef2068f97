#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/cmd/bench/bench.h"
#include "config/clock.h"
#include "boot/cmd/report/json.h"
#include "config/log.h"
#include "boot/engine/progress.h"
#include "boot/engine/signals.h"

#define PIECE (1u << 20)
#define FILE_BYTES_DEFAULT (1ull << 30)
#define PATIENCE_NS (10 * HR_NS_PER_S)

struct file {
	const char *name;
	int fd;
	uint64_t bytes;
	bool made; /* here, so it is removed */
};

static int complain(const struct file *f, int err, const char *what)
{
	hr_error("bench: baseline file '%s': %s", f->name, what);
	return err;
}

static int check_file(struct file *f)
{
	char what[96];
	struct stat st;

	if (fstat(f->fd, &st) != 0)
		return complain(f, -errno, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return complain(f, -EINVAL, "expected a regular file");
	f->bytes = (uint64_t)st.st_size;
	if (f->bytes >= HR_BASELINE_FILE_MIN)
		return 0;
	snprintf(what, sizeof what, "%" PRIu64 " bytes, expected at least %" PRIu64, f->bytes,
		 HR_BASELINE_FILE_MIN);
	return complain(f, -EINVAL, what);
}

/* Its contents do not matter, but that it has some: a hole is not read from memory. */
static int fill_file(struct file *f, uint8_t *piece)
{
	for (uint32_t i = 0; i < PIECE; i++)
		piece[i] = (uint8_t)(i * 7 + (i >> 8));
	for (uint64_t at = 0; at < f->bytes; at += PIECE) {
		const ssize_t put = hr_signals_pending() ? -1 : write(f->fd, piece, PIECE);

		if (hr_signals_pending())
			return -EINTR;
		if (put != PIECE)
			return complain(f, put < 0 ? -errno : -ENOSPC,
					put < 0 ? strerror(errno) : "no space left for it");
	}
	return 0;
}

/* So that the kernel has it in its page cache, as far as there is room. */
static int read_file(struct file *f, uint8_t *piece)
{
	for (uint64_t at = 0; at < f->bytes; at += PIECE) {
		if (hr_signals_pending())
			return -EINTR;
		if (pread(f->fd, piece, PIECE, (off_t)at) < 0)
			return complain(f, -errno, strerror(errno));
	}
	return 0;
}

static int open_file(struct file *f)
{
	int err;

	/* A FIFO must not hold us up, and cuFile refuses files that do not block. */
	f->fd = open(f->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (f->fd >= 0) {
		err = check_file(f);
		return !err && fcntl(f->fd, F_SETFL, 0) != 0 ? complain(f, -errno, strerror(errno))
							     : err;
	}
	if (errno != ENOENT)
		return complain(f, -errno, strerror(errno));
	f->fd = open(f->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->fd < 0)
		return complain(f, -errno, strerror(errno));
	f->made = true;
	return 0;
}

static void close_file(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->made && unlink(f->name) != 0)
		hr_warn("bench: baseline file '%s' stays: %s", f->name, strerror(errno));
}

/* What the ways read: single pages anywhere, and stretches by larger pieces. */
static void set_rows(struct hr_baseline_row row[HR_BENCH_ROWS])
{
	static const uint32_t size[] = { HR_PAGE, 64u << 10, 1u << 20, HR_BASELINE_IO_MAX };
	static const uint32_t threads[] = { 1, 4, HR_BASELINE_THREADS_MAX };

	_Static_assert(sizeof size / sizeof *size * (sizeof threads / sizeof *threads) ==
			       HR_BENCH_ROWS,
		       "one row for each size and number of threads");
	for (uint32_t i = 0; i < HR_BENCH_ROWS; i++)
		row[i] = (struct hr_baseline_row){ .threads = threads[i % 3],
						   .io_bytes = size[i / 3],
						   .random = i / 3 == 0 };
}

static const char *way_name(enum hr_baseline_way way)
{
	return way == HR_BASELINE_CUFILE ? "cuFile" : "pread and cuMemcpyAsync";
}

static void json_way(struct json_object *out, const char *way, const struct hr_baseline_row *row,
		     const char *why)
{
	struct json_object *list;

	hr_json_string(out, "way", way);
	if (why)
		hr_json_string(out, "not_measured", why);
	list = hr_json_array(out, "measurements");
	for (uint32_t i = 0; i < HR_BENCH_ROWS; i++) {
		struct json_object *one;

		if (row[i].bytes_per_s <= 0)
			continue;
		one = hr_json_append(list);
		hr_json_u64(one, "io_bytes", row[i].io_bytes);
		hr_json_u64(one, "threads", row[i].threads);
		hr_json_string(one, "pattern", row[i].random ? "random" : "sequential");
		hr_json_double(one, "reads_per_s", row[i].bytes_per_s / row[i].io_bytes, 1);
		hr_json_double(one, "bytes_per_s", row[i].bytes_per_s, 0);
	}
}

static void print_way(const char *way, const struct hr_baseline_row *row, const char *why)
{
	char rate[24];

	for (uint32_t i = 0; i < HR_BENCH_ROWS; i++) {
		if (row[i].bytes_per_s <= 0)
			continue;
		hr_rate_format(rate, sizeof rate, row[i].bytes_per_s);
		printf("%-24s %-11s %9u %7u %11.0f %11s\n", way,
		       row[i].random ? "random" : "sequential", row[i].io_bytes, row[i].threads,
		       row[i].bytes_per_s / row[i].io_bytes, rate);
	}
	if (why)
		printf("%-24s not measured: %s\n", way, why);
	fflush(stdout);
}

/* A way that is not there is told of; all else that goes wrong ends the bench. */
static int measure_way(struct hr_bench_run *run, const struct file *f, enum hr_baseline_way way,
		       struct json_object *ways)
{
	struct hr_backend *b = &run->app->backend[0];
	struct hr_baseline_plan plan = {
		.way = way,
		.fd = f->fd,
		.file_bytes = f->bytes,
		.duration_ns = (uint64_t)(run->wishes->seconds * 1e9),
		.patience_ns = PATIENCE_NS,
		.times = run->times,
		.stopped = hr_signals_pending,
		.row = run->found.baseline[way],
		.rows = HR_BENCH_ROWS,
	};
	char why[HR_LOG_LINE_MAX] = "";
	int err;

	set_rows(plan.row);
	err = b->ops->baseline(b, &plan, why);
	if (err && err != -ENOENT && err != -ENOTSUP) {
		if (err != -EINTR)
			hr_error("bench: baseline by %s: %s", way_name(way), why);
		return err;
	}
	if (ways)
		json_way(hr_json_append(ways), way_name(way), plan.row, err ? why : NULL);
	else
		print_way(way_name(way), plan.row, err ? why : NULL);
	return 0;
}

static int measure_ways(struct hr_bench_run *run, const struct file *f)
{
	struct json_object *out = NULL, *ways = NULL;
	int err = 0;

	if (run->report) {
		out = hr_json_object(run->report, "baseline");
		hr_json_string(out, "file", f->name);
		hr_json_u64(out, "file_bytes", f->bytes);
		ways = hr_json_array(out, "ways");
	} else {
		printf("%-24s %-11s %9s %7s %11s %11s\n", "in place of headrace", "pattern",
		       "io bytes", "threads", "reads/s", "rate");
	}
	for (enum hr_baseline_way way = 0; !err && way < HR_BASELINE_WAYS; way++)
		err = measure_way(run, f, way, ways);
	if (!out && !err)
		printf("\n");
	return err;
}

int hr_bench_baseline(struct hr_bench_run *run)
{
	const uint64_t wish = (uint64_t)run->wishes->object_mib << 20;
	struct file f = { .name = run->wishes->baseline, .fd = -1 };
	uint8_t *piece;
	int err;

	if (!run->app->backend[0].ops->baseline) {
		hr_error("bench: --baseline needs a GPU, but gpu '%s' is %s",
			 run->app->config.gpu[0].name, run->app->backend[0].name);
		return -ENOTSUP;
	}
	piece = malloc(PIECE);
	if (!piece)
		return -ENOMEM;
	err = open_file(&f);
	if (!err && f.made) {
		f.bytes = wish ? wish : FILE_BYTES_DEFAULT;
		f.bytes = f.bytes < HR_BASELINE_FILE_MIN ? HR_BASELINE_FILE_MIN : f.bytes;
		err = fill_file(&f, piece);
	}
	if (!err)
		err = read_file(&f, piece);
	if (!err)
		err = measure_ways(run, &f);
	close_file(&f);
	free(piece);
	return err;
}
