/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/demo/gather.c - the example of the operator gather: rows of random f32, lookups by a Zipf
 * distribution.
 *
 * Usage: gather make DIR ROWS ROW_BYTES SEED                      write DIR/table
 *        gather check DIR OUTPUT ROW_BYTES LOOKUPS ZIPF SEED      compare with headrace's output, and
 *                                                                 with DIR/rows if it is there
 *        gather staged DIR THREADS ROW_BYTES LOOKUPS ZIPF SEED    sum with pread() from threads
 */
#include "gpu/ops/random.h"
#include "tests/demo/example.h"

static struct {
	int fd;
	uint64_t row_bytes, rows, lookups, seed;
	uint32_t threads;
	uint64_t sum; /* of staged(): atomic */
	struct hr_zipf zipf;
} job;

/* Numbers k / 2^20 with |k| < 2^20: whole in the operator's fixed point. */
static int make(const char *dir, uint64_t rows, uint64_t row_bytes, uint64_t seed)
{
	const uint64_t count = rows * row_bytes / sizeof(float);
	float *table = example_memory(count, sizeof *table);

	for (uint64_t i = 0; i < count; i++)
		table[i] = (float)((int32_t)(hr_random_u64(seed, i) >> 43) - (1 << 20)) / (1 << 20);
	example_save(dir, "table", table, count * sizeof *table);
	free(table);
	return 0;
}

static uint64_t row_of(uint64_t lookup)
{
	return hr_zipf_row(hr_zipf_rank(&job.zipf, job.rows, job.seed, lookup), job.rows);
}

/* The sum of a row in units of 2^-20. */
static int64_t sum_of(const float *row)
{
	int64_t sum = 0;

	for (uint64_t i = 0; i < job.row_bytes / sizeof *row; i++)
		sum += (int64_t)(row[i] * (1 << 20));
	return sum;
}

/* Rows that the operator has kept, in the order of lookups. */
static bool check_rows(const char *dir, const char *table)
{
	uint64_t bytes;
	char *rows = example_load(dir, "rows", &bytes);
	bool good = bytes == job.lookups * job.row_bytes;

	for (uint64_t i = 0; good && i < job.lookups; i++)
		good = memcmp(rows + i * job.row_bytes, table + row_of(i) * job.row_bytes,
			      job.row_bytes) == 0;
	free(rows);
	if (!good)
		fprintf(stderr, "%s/rows does not hold the rows of the lookups\n", dir);
	return good;
}

/* The result is a signed number. The check compares its text. */
static bool same_sum(const char *output, int64_t sum)
{
	FILE *f = fopen(output, "r");
	char line[512];
	long long found = 0;
	bool same = false;

	if (!f)
		example_die(output);
	while (!same && fgets(line, sizeof line, f))
		same = sscanf(line, " sum_fixed %lld", &found) == 1 && found == sum;
	fclose(f);
	if (!same)
		fprintf(stderr, "%s: sum_fixed is %lld, expected %lld\n", output, found,
			(long long)sum);
	return same;
}

static int check(const char *dir, const char *output)
{
	uint64_t bytes;
	char *table = example_load(dir, "table", &bytes);
	int64_t sum = 0;
	bool good;

	job.rows = bytes / job.row_bytes;
	if (!job.rows) {
		fprintf(stderr, "%s/table is shorter than a row\n", dir);
		exit(1);
	}
	for (uint64_t i = 0; i < job.lookups; i++)
		sum += sum_of((const float *)(const void *)(table + row_of(i) * job.row_bytes));
	good = same_sum(output, sum);
	good &= example_same(output, "lookups", job.lookups);
	good &= example_same(output, "skipped", 0);
	if (access(example_path(dir, "rows"), F_OK) == 0)
		good &= check_rows(dir, table);
	free(table);
	return good ? 0 : 1;
}

static void *gather(void *thread)
{
	float *row = example_memory(job.row_bytes, 1);
	int64_t sum = 0;

	for (uint64_t i = (uintptr_t)thread; i < job.lookups; i += job.threads) {
		example_read(job.fd, row, job.row_bytes, row_of(i) * job.row_bytes);
		sum += sum_of(row);
	}
	__atomic_fetch_add(&job.sum, (uint64_t)sum, __ATOMIC_RELAXED);
	free(row);
	return NULL;
}

static int staged(const char *dir)
{
	uint64_t bytes;

	job.fd = example_open(dir, "table", &bytes);
	job.rows = bytes / job.row_bytes;
	example_threads(gather, job.threads);
	printf("    sum_fixed %lld\n", (long long)job.sum);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "make") == 0)
		return make(argv[2], example_number(argv[3]), example_number(argv[4]),
			    example_number(argv[5]));
	if (argc == 8) {
		job.row_bytes = example_number(argv[4]);
		job.lookups = example_number(argv[5]);
		hr_zipf_init(&job.zipf, atof(argv[6]));
		job.seed = example_number(argv[7]);
		if (strcmp(argv[1], "check") == 0)
			return check(argv[2], argv[3]);
		job.threads = example_thread_count(argv[3]);
		if (strcmp(argv[1], "staged") == 0)
			return staged(argv[2]);
	}
	fprintf(stderr, "usage: gather make DIR ROWS ROW_BYTES SEED\n"
			"       gather check DIR OUTPUT ROW_BYTES LOOKUPS ZIPF SEED\n"
			"       gather staged DIR THREADS ROW_BYTES LOOKUPS ZIPF SEED\n");
	return 2;
}
