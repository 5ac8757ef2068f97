/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/demo/join.c - the example of the operator join: a hash table of random keys and payloads, half
 * full, and keys to look up, of which half are in the table.
 *
 * Usage: join make DIR BUILD PROBE SEED     write DIR/table and DIR/keys
 *        join check DIR OUTPUT              join by sorting; compare with headrace's output
 *        join staged DIR THREADS            probe with pread() from threads
 */
#include "gpu/ops/random.h"
#include "tests/demo/example.h"

struct bucket {
	uint64_t key, payload; /* key 0: empty */
};

static struct {
	int table, keys;
	uint64_t buckets, count;
	uint32_t threads;
	uint64_t matches, payload_sum; /* of staged(): atomic */
} job;

/* Key i of the build side, in 1 .. 2 * build; every eighth key is also the key of another row. */
static uint64_t build_key(uint64_t i, uint64_t seed)
{
	return 1 + 2 * (hr_random_u64(seed, i) % 8 ? i : i / 8);
}

static int make(const char *dir, uint64_t build, uint64_t probe, uint64_t seed)
{
	const uint64_t buckets = 2 * build + 1;
	struct bucket *table = example_memory(buckets, sizeof *table);
	uint64_t *keys = example_memory(probe, sizeof *keys);

	for (uint64_t i = 0; i < build; i++) {
		const uint64_t key = build_key(i, seed);
		uint64_t at = hr_high_u64(hr_mix_u64(key), buckets);

		while (table[at].key)
			at = at + 1 < buckets ? at + 1 : 0;
		table[at].key = key;
		table[at].payload = hr_random_u64(seed + 1, i);
	}
	for (uint64_t i = 0; i < probe; i++)
		keys[i] = 1 + hr_high_u64(hr_random_u64(seed + 2, i), 2 * build);
	example_save(dir, "table", table, buckets * sizeof *table);
	example_save(dir, "keys", keys, probe * sizeof *keys);
	free(table);
	free(keys);
	return 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = ((const struct bucket *)a)->key, y = ((const struct bucket *)b)->key;

	return x < y ? -1 : x > y;
}

/* The first of the sorted buckets whose key is not below `key`. */
static uint64_t lower(const struct bucket *bucket, uint64_t count, uint64_t key)
{
	uint64_t low = 0;

	while (count) {
		const uint64_t half = count / 2;

		if (bucket[low + half].key < key) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low;
}

/* The result by another method: sort the build side, and search each key, without hashes. */
static int check(const char *dir, const char *output)
{
	uint64_t table_bytes, keys_bytes, matches = 0, sum = 0;
	struct bucket *table = example_load(dir, "table", &table_bytes);
	uint64_t *keys = example_load(dir, "keys", &keys_bytes);
	const uint64_t buckets = table_bytes / sizeof *table, count = keys_bytes / sizeof *keys;
	bool good;

	qsort(table, buckets, sizeof *table, compare);
	for (uint64_t i = 0; i < count; i++)
		for (uint64_t at = lower(table, buckets, keys[i]);
		     at < buckets && table[at].key == keys[i]; at++) {
			matches++;
			sum += table[at].payload;
		}
	free(table);
	free(keys);
	good = example_same(output, "keys", count);
	good &= example_same(output, "matches", matches);
	good &= example_same(output, "payload_sum", sum);
	return good ? 0 : 1;
}

static void *probe(void *thread)
{
	enum { KEYS = 512 };
	uint64_t matches = 0, sum = 0, keys[KEYS];
	const uint64_t step = (uint64_t)job.threads * KEYS;

	for (uint64_t first = (uintptr_t)thread * KEYS; first < job.count; first += step) {
		const uint64_t count = job.count - first < KEYS ? job.count - first : KEYS;

		example_read(job.keys, keys, count * sizeof *keys, first * sizeof *keys);
		for (uint64_t i = 0; i < count; i++) {
			uint64_t at = hr_high_u64(hr_mix_u64(keys[i]), job.buckets);
			struct bucket bucket;

			for (;; at = at + 1 < job.buckets ? at + 1 : 0) {
				example_read(job.table, &bucket, sizeof bucket, at * sizeof bucket);
				if (bucket.key == 0)
					break;
				matches += bucket.key == keys[i];
				sum += bucket.key == keys[i] ? bucket.payload : 0;
			}
		}
	}
	__atomic_fetch_add(&job.matches, matches, __ATOMIC_RELAXED);
	__atomic_fetch_add(&job.payload_sum, sum, __ATOMIC_RELAXED);
	return NULL;
}

static int staged(const char *dir)
{
	uint64_t bytes;

	job.table = example_open(dir, "table", &bytes);
	job.buckets = bytes / sizeof(struct bucket);
	job.keys = example_open(dir, "keys", &bytes);
	job.count = bytes / sizeof(uint64_t);
	example_threads(probe, job.threads);
	printf("    matches %llu\n    payload_sum %llu\n", (unsigned long long)job.matches,
	       (unsigned long long)job.payload_sum);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "make") == 0)
		return make(argv[2], example_number(argv[3]), example_number(argv[4]),
			    example_number(argv[5]));
	if (argc == 4 && strcmp(argv[1], "check") == 0)
		return check(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "staged") == 0) {
		job.threads = example_thread_count(argv[3]);
		return staged(argv[2]);
	}
	fprintf(stderr, "usage: join make DIR BUILD PROBE SEED\n"
			"       join check DIR OUTPUT\n"
			"       join staged DIR THREADS\n");
	return 2;
}
