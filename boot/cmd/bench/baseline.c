/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/cmd/bench/bench.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "boot/engine/runner/progress.h"
#include "config/base/process.h"

#define PIECE (1u << 20)
#define FILE_BYTES_DEFAULT (1ull << 30)
#define TIMEOUT_NS (10 * HR_NS_PER_S)

struct file {
	const char *name;
	int fd;
	uint64_t bytes;
	bool made; /* created here, so it is removed */
	struct hr_error *e;
};

static int fail_baseline_file(const struct file *f, enum hr_error_kind kind, int err,
			      const char *what)
{
	return hr_fail(f->e, kind, err, "bench: baseline file '%s': %s", f->name, what);
}

static int check_file(struct file *f)
{
	char what[96];
	struct stat st;

	if (fstat(f->fd, &st) != 0)
		return fail_baseline_file(f, HR_ERROR_FAILED, -errno, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail_baseline_file(f, HR_ERROR_USAGE, -EINVAL, "expected a regular file");
	f->bytes = (uint64_t)st.st_size;
	if (f->bytes >= HR_BASELINE_FILE_MIN)
		return 0;
	snprintf(what, sizeof what, "%" PRIu64 " bytes, expected at least %" PRIu64, f->bytes,
		 HR_BASELINE_FILE_MIN);
	return fail_baseline_file(f, HR_ERROR_USAGE, -EINVAL, what);
}

/* Fill the file. The contents do not matter, but a hole would not be read from memory. */
static int fill_file(struct file *f, uint8_t *piece)
{
	for (uint32_t i = 0; i < PIECE; i++)
		piece[i] = (uint8_t)(i * 7 + (i >> 8));
	for (uint64_t at = 0; at < f->bytes; at += PIECE) {
		const ssize_t put = hr_signals_pending() ? -1 : write(f->fd, piece, PIECE);

		if (hr_signals_pending())
			return -EINTR;
		if (put != PIECE)
			return fail_baseline_file(f, HR_ERROR_FAILED, put < 0 ? -errno : -ENOSPC,
						  put < 0 ? strerror(errno)
							  : "no space left for it");
	}
	return 0;
}

/* Read the file, so that the kernel has it in its page cache, if there is room. */
static int read_file(struct file *f, uint8_t *piece)
{
	for (uint64_t at = 0; at < f->bytes; at += PIECE) {
		if (hr_signals_pending())
			return -EINTR;
		if (pread(f->fd, piece, PIECE, (off_t)at) < 0)
			return fail_baseline_file(f, HR_ERROR_DEVICE, -errno, strerror(errno));
	}
	return 0;
}

static int open_file(struct file *f)
{
	int err;

	/* Opening must not block on a FIFO; cuFile refuses blocking files. */
	f->fd = open(f->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (f->fd >= 0) {
		err = check_file(f);
		if (!err && fcntl(f->fd, F_SETFL, 0) != 0)
			err = fail_baseline_file(f, HR_ERROR_FAILED, -errno, strerror(errno));
		return err;
	}
	if (errno != ENOENT)
		return fail_baseline_file(f, HR_ERROR_MISSING, -errno, strerror(errno));
	f->fd = open(f->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->fd < 0)
		return fail_baseline_file(f, HR_ERROR_MISSING, -errno, strerror(errno));
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

/* Reads of the baselines: single pages at random, and sequential ranges in larger pieces. */
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

static const char *method_name(enum hr_baseline_method method)
{
	return method == HR_BASELINE_CUFILE ? "cuFile" : "pread and cuMemcpyAsync";
}

static void json_method(struct hr_json *out, const char *method, const struct hr_baseline_row *row,
			const char *why)
{
	hr_json_object(out, NULL);
	hr_json_string(out, "way", method);
	if (why)
		hr_json_string(out, "not_measured", why);
	hr_json_array(out, "measurements");
	for (uint32_t i = 0; i < HR_BENCH_ROWS; i++) {
		if (row[i].bytes_per_s <= 0)
			continue;
		hr_json_object(out, NULL);
		hr_json_u64(out, "io_bytes", row[i].io_bytes);
		hr_json_u64(out, "threads", row[i].threads);
		hr_json_string(out, "pattern", row[i].random ? "random" : "sequential");
		hr_json_fixed(out, "reads_per_s", row[i].bytes_per_s / row[i].io_bytes, 1);
		hr_json_fixed(out, "bytes_per_s", row[i].bytes_per_s, 0);
		hr_json_close(out);
	}
	hr_json_close(out);
	hr_json_close(out);
}

static void print_method(const char *method, const struct hr_baseline_row *row, const char *why)
{
	char rate[24];

	for (uint32_t i = 0; i < HR_BENCH_ROWS; i++) {
		if (row[i].bytes_per_s <= 0)
			continue;
		hr_rate_format(rate, sizeof rate, row[i].bytes_per_s);
		printf("%-24s %-11s %9u %7u %11.0f %11s\n", method,
		       row[i].random ? "random" : "sequential", row[i].io_bytes, row[i].threads,
		       row[i].bytes_per_s / row[i].io_bytes, rate);
	}
	if (why)
		printf("%-24s not measured: %s\n", method, why);
	fflush(stdout);
}

/* A baseline that this machine does not support is reported; any other error ends the bench. */
static int measure_method(struct hr_bench_run *run, const struct file *f,
			  enum hr_baseline_method method)
{
	struct hr_backend *b = &run->engine->backend[0];
	struct hr_baseline_plan plan = {
		.method = method,
		.fd = f->fd,
		.file_bytes = f->bytes,
		.duration_ns = (uint64_t)(run->request->seconds * 1e9),
		.timeout_ns = TIMEOUT_NS,
		.times = run->times,
		.stopped = hr_signals_pending,
		.row = run->found.baseline[method],
		.rows = HR_BENCH_ROWS,
	};
	struct hr_error e = { 0 };
	int err;

	set_rows(plan.row);
	err = b->measuring->baseline(b, &plan, &e);
	if (err && err != -ENOENT && err != -ENOTSUP) {
		if (err != -EINTR)
			hr_fail(&run->engine->error, e.kind, err, "bench: baseline by %s: %s",
				method_name(method), e.text);
		return err;
	}
	if (run->report)
		json_method(run->report, method_name(method), plan.row, err ? e.text : NULL);
	else
		print_method(method_name(method), plan.row, err ? e.text : NULL);
	return 0;
}

static int measure_methods(struct hr_bench_run *run, const struct file *f)
{
	struct hr_json *out = run->report;
	int err = 0;

	if (out) {
		hr_json_object(out, "baseline");
		hr_json_string(out, "file", f->name);
		hr_json_u64(out, "file_bytes", f->bytes);
		hr_json_array(out, "ways");
	} else {
		printf("%-24s %-11s %9s %7s %11s %11s\n", "in place of headrace", "pattern",
		       "io bytes", "threads", "reads/s", "rate");
	}
	for (enum hr_baseline_method method = 0; !err && method < HR_BASELINE_METHODS; method++)
		err = measure_method(run, f, method);
	if (out) {
		hr_json_close(out);
		hr_json_close(out);
	} else if (!err) {
		printf("\n");
	}
	return err;
}

int hr_bench_baseline(struct hr_bench_run *run)
{
	const uint64_t asked = (uint64_t)run->request->object_mib << 20;
	struct hr_error *e = &run->engine->error;
	struct file f = { .name = run->request->baseline, .fd = -1, .e = e };
	uint8_t *piece;
	int err;

	if (!run->engine->backend[0].measuring)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "bench: --baseline needs a GPU, but gpu '%s' is %s",
			       run->engine->config.gpu[0].name, run->engine->backend[0].name);
	piece = malloc(PIECE);
	if (!piece)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "bench: out of memory for the baseline file: %u bytes", PIECE);
	err = open_file(&f);
	if (!err && f.made) {
		f.bytes = asked ? asked : FILE_BYTES_DEFAULT;
		f.bytes = f.bytes < HR_BASELINE_FILE_MIN ? HR_BASELINE_FILE_MIN : f.bytes;
		err = fill_file(&f, piece);
	}
	if (!err)
		err = read_file(&f, piece);
	if (!err)
		err = measure_methods(run, &f);
	close_file(&f);
	free(piece);
	return err;
}
