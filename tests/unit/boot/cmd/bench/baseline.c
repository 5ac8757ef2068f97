/* SPDX-License-Identifier: Apache-2.0 */
/* The file that baselines read, their results, and the ratios of the figures. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/cmd/bench/bench.h"
#include "tests/fakes/log.h"
#include "tests/harness/json.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_bench_run run;
static struct hr_bench_request request;
static struct hr_json json;
static struct json_object *report;
static char document[16384];
static char folder[] = "/dev/shm/headrace.XXXXXX", path[64];
static struct {
	int answer[HR_BASELINE_METHODS];
	unsigned calls;
	uint64_t bytes;
	bool has_holes;
	int flags; /* flags of the open file */
} seen;

static int baseline(struct hr_backend *b, const struct hr_baseline_plan *plan, struct hr_error *e)
{
	struct stat st;

	cr_assert_eq(fstat(plan->fd, &st), 0);
	seen.calls++;
	seen.flags = fcntl(plan->fd, F_GETFL) & (O_NONBLOCK | O_DIRECT | O_APPEND);
	seen.bytes = plan->file_bytes;
	seen.has_holes = (uint64_t)st.st_blocks * 512 < plan->file_bytes;
	for (uint32_t i = 0; i < plan->rows && !seen.answer[plan->method]; i++)
		plan->row[i].bytes_per_s = 1e9 * (plan->method + 1) + plan->row[i].io_bytes;
	hr_fail(e, HR_ERROR_DEVICE, -EIO, "in this test");
	return seen.answer[plan->method];
}

static const struct hr_gpu_measuring measuring = { .baseline = baseline };

static void begin(void)
{
	hr_error_clear(&run.engine->error);
	json_object_put(report);
	report = NULL;
	hr_json_to_text(&json, HR_JSON_LINE, document, sizeof document);
}

static void up(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/file", folder);
	memset(&run, 0, sizeof run);
	memset(&seen, 0, sizeof seen);
	request = (struct hr_bench_request){ .baseline = path, .seconds = 0.01, .object_mib = 1 };
	run.request = &request;
	run.times = 1;
	run.engine = calloc(1, sizeof *run.engine);
	cr_assert_not_null(run.engine);
	run.engine->backend[0].measuring = &measuring;
	report = NULL;
	begin();
	run.report = &json;
}

static void down(void)
{
	json_object_put(report);
	free(run.engine);
	unlink(path);
	cr_expect_eq(rmdir(folder), 0);
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
}

TestSuite(bench_baseline, .timeout = 60, .init = up, .fini = down);

static struct json_object *member(struct json_object *in, const char *key)
{
	struct json_object *value = NULL;

	cr_assert(json_object_object_get_ex(in, key, &value), "no member %s", key);
	return value;
}

static struct json_object *way(size_t i)
{
	return json_object_array_get_idx(member(member(report, "baseline"), "ways"), i);
}

Test(bench_baseline, a_missing_file_is_created_whole_and_removed)
{
	static const struct {
		uint32_t object_mib;
		int answer;
		uint64_t bytes;
	} row[] = {
		{ 200, 0, 200ull << 20 },
		{ 1, 0, HR_BASELINE_FILE_MIN },
		{ 130, -EIO, 130ull << 20 },
		{ 130, -EINTR, 130ull << 20 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		request.object_mib = row[i].object_mib;
		seen.answer[0] = row[i].answer;
		begin();
		cr_expect_eq(hr_bench_baseline(&run), row[i].answer);
		cr_expect_eq(seen.bytes, row[i].bytes, "row %zu", i);
		cr_expect_not(seen.has_holes);
		cr_expect_neq(access(path, F_OK), 0, "row %zu", i);
	}
}

Test(bench_baseline, an_existing_file_is_only_read)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	struct stat before, after;

	cr_assert_eq(ftruncate(fd, (off_t)HR_BASELINE_FILE_MIN + 5), 0);
	cr_assert_eq(fstat(fd, &before), 0);
	cr_expect_eq(hr_bench_baseline(&run), 0);
	cr_expect_eq(seen.bytes, HR_BASELINE_FILE_MIN + 5);
	cr_expect_eq(seen.flags, 0, "cuFile knows few");
	cr_assert_eq(stat(path, &after), 0);
	cr_expect_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	cr_expect_eq(before.st_ino, after.st_ino);
	close(fd);
}

/* The command prints the error once, and exits with the kind of the error. */
static void expect_refusal(const char *file, int err, enum hr_error_kind kind, const char *says)
{
	request.baseline = file;
	hr_error_clear(&run.engine->error);
	cr_expect_eq(hr_bench_baseline(&run), err, "%s", file);
	cr_expect_eq(run.engine->error.kind, kind, "%s", file);
	cr_expect(strstr(run.engine->error.text, says), "%s", run.engine->error.text);
	cr_expect_eq(fake_log_count(), 0, "%s", fake_log_last());
}

Test(bench_baseline, other_kinds_of_files_are_refused)
{
	int fd;

	expect_refusal(folder, -EINVAL, HR_ERROR_USAGE, "expected a regular file");
	expect_refusal("/dev/null", -EINVAL, HR_ERROR_USAGE, "'/dev/null': expected a regular");
	cr_assert_eq(mkfifo(path, 0600), 0); /* opening must not wait for a writer */
	expect_refusal(path, -EINVAL, HR_ERROR_USAGE, "expected a regular file");
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	cr_assert_eq(ftruncate(fd, (off_t)HR_BASELINE_FILE_MIN - 1), 0);
	close(fd);
	expect_refusal(path, -EINVAL, HR_ERROR_USAGE,
		       "134217727 bytes, expected at least 134217728");
	cr_expect_eq(access(path, F_OK), 0, "it is not ours");
	expect_refusal("/dev/shm/headrace.nowhere/file", -ENOENT, HR_ERROR_MISSING,
		       "/file': No such file or directory");
	cr_expect_eq(seen.calls, 0);
}

Test(bench_baseline, a_machine_without_a_gpu_is_reported)
{
	run.engine->backend[0].measuring = NULL;
	expect_refusal(path, -ENOTSUP, HR_ERROR_MISSING, "--baseline needs a GPU");
}

Test(bench_baseline, an_unsupported_baseline_is_reported_and_not_an_error)
{
	static const int row[] = { -ENOENT, -ENOTSUP };

	for (size_t i = 0; i < ROWS(row); i++) {
		seen.answer[HR_BASELINE_CUFILE] = row[i];
		begin();
		cr_expect_eq(hr_bench_baseline(&run), 0);
		report = json_parsed(&json);
		cr_expect_eq(json_object_array_length(member(way(0), "measurements")),
			     HR_BENCH_ROWS);
		cr_expect_eq(json_object_array_length(member(way(1), "measurements")), 0);
		cr_expect_str_eq(json_object_get_string(member(way(1), "not_measured")),
				 "in this test");
		cr_expect_eq(run.engine->error.kind, HR_ERROR_NONE, "%s", run.engine->error.text);
	}
	cr_expect_eq(seen.calls, 4);
	begin();
	seen.answer[HR_BASELINE_CUFILE] = -EIO;
	expect_refusal(path, -EIO, HR_ERROR_DEVICE, "bench: baseline by cuFile: in this test");
}

Test(bench_baseline, the_best_of_a_size_or_of_all_is_found)
{
	cr_expect_null(hr_bench_best_baseline(&run.found, 0));
	cr_assert_eq(hr_bench_baseline(&run), 0);
	cr_expect_eq(hr_bench_best_baseline(&run.found, HR_PAGE)->bytes_per_s, 2e9 + HR_PAGE);
	cr_expect_eq(hr_bench_best_baseline(&run.found, 0)->io_bytes, HR_BASELINE_IO_MAX);
	cr_expect_null(hr_bench_best_baseline(&run.found, 8192));
}

static void found(bool write, bool copied, uint32_t queues, uint32_t io_bytes, double bytes_per_s)
{
	run.found.measured[run.found.measured_count++] =
		(struct hr_measurement){ .write = write,
					 .copied = copied,
					 .queues = queues,
					 .io_bytes = io_bytes,
					 .bytes_per_s = bytes_per_s };
}

static struct json_object *ratio(const char *what, int64_t io_bytes, const char *limit)
{
	struct json_object *list = member(report, "ratios"), *size;

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *one = json_object_array_get_idx(list, i);

		if (strcmp(json_object_get_string(member(one, "what")), what) == 0 &&
		    strcmp(json_object_get_string(member(one, "limit")), limit) == 0 &&
		    (!io_bytes || (json_object_object_get_ex(one, "io_bytes", &size) &&
				   json_object_get_int64(size) == io_bytes)))
			return one;
	}
	cr_assert_fail("no ratio of %s", what);
	return NULL;
}

static double number(struct json_object *in, const char *key)
{
	return json_object_get_double(member(in, key));
}

Test(bench_baseline, ratios_are_of_the_fastest_of_at_most_64_workers)
{
	cr_assert_eq(hr_bench_baseline(&run), 0);
	run.found.has_limits = true;
	run.found.limits.load = 50e9;
	run.found.limits.store = 40e9;
	run.found.limits.load_store = 30e9;
	found(false, true, 16, HR_PAGE, 20e9);
	found(false, true, 64, HR_PAGE, 40e9);
	found(false, true, 128, HR_PAGE, 49e9);
	found(true, true, 64, HR_PAGE, 10e9);
	found(false, false, 64, HR_PAGE, 99e9); /* this command moves no data */
	found(false, true, 64, 1u << 20, 50e9);
	found(false, false, 64, 1u << 20, 100e9);
	found(true, false, 64, 1u << 20, 25e9);
	run.found.op[run.found.op_count++] =
		(struct hr_bench_operator){ .name = "crc32c", .bytes_per_s = 25e9 };
	run.found.op[run.found.op_count++] =
		(struct hr_bench_operator){ .name = "copy", .writes = true, .bytes_per_s = 15e9 };
	hr_bench_ratios(&run, "s", &json);
	report = json_parsed(&json);
	cr_expect_eq(number(ratio("read", HR_PAGE, "loads from host memory"), "of_limit"), 0.8);
	cr_expect_float_eq(number(ratio("read", HR_PAGE, "loads from host memory"), "of_baseline"),
			   40e9 / (2e9 + HR_PAGE), 1e-3);
	cr_expect_eq(number(ratio("write", HR_PAGE, "stores to host memory"), "of_limit"), 0.25);
	cr_expect_eq(number(ratio("read", 1u << 20, "loads from host memory"), "of_limit"), 1);
	cr_expect_eq(number(ratio("crc32c", 0, "loads from host memory"), "of_limit"), 0.5);
	cr_expect_eq(number(ratio("crc32c", 0, "loads from host memory"), "baseline_io_bytes"),
		     HR_BASELINE_IO_MAX);
	cr_expect_eq(number(ratio("copy", 0, "loads and stores"), "of_limit"), 0.5);
	/* Rates of 100 and 25, one after the other, give 20 in each direction. */
	cr_expect_eq(number(ratio("copy", 0, "controller, both ways"), "of_limit"), 0.75);
}

Test(bench_baseline, without_limits_there_are_no_ratios)
{
	struct json_object *list;

	found(false, true, 16, HR_PAGE, 20e9);
	hr_bench_ratios(&run, "s", &json);
	report = json_parsed(&json);
	cr_expect_not(json_object_object_get_ex(report, "ratios", &list));
}
