/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/demo/chase.c - the example of the operator chase: one cycle over all elements.
 *
 * Usage: chase make DIR ELEMENTS SEED                 write DIR/next
 *        chase check DIR OUTPUT HOPS CHAINS SEED      follow the chains; compare with headrace's output
 *        chase staged DIR THREADS HOPS CHAINS SEED    follow them with pread() from threads
 */
#include "gpu/ops/random.h"
#include "tests/demo/example.h"

static struct {
	int fd;
	uint64_t count, hops, chains, seed;
	uint32_t threads;
	uint64_t checksum; /* of staged(): atomic */
} job;

/* One random cycle through all elements (Sattolo's algorithm). */
static int make(const char *dir, uint64_t count, uint64_t seed)
{
	uint64_t *next = example_memory(count, sizeof *next);

	for (uint64_t i = 0; i < count; i++)
		next[i] = i;
	for (uint64_t i = count - 1; i > 0; i--) {
		const uint64_t j = hr_high_u64(hr_random_u64(seed, i), i), other = next[i];

		next[i] = next[j];
		next[j] = other;
	}
	example_save(dir, "next", next, count * sizeof *next);
	free(next);
	return 0;
}

static uint64_t start_of(uint64_t chain)
{
	return hr_high_u64(hr_random_u64(job.seed, chain), job.count);
}

static int check(const char *dir, const char *output)
{
	uint64_t bytes, checksum = 0;
	uint64_t *next = example_load(dir, "next", &bytes);
	bool good;

	job.count = bytes / sizeof *next;
	for (uint64_t chain = 0; chain < job.chains; chain++) {
		uint64_t at = start_of(chain);

		for (uint64_t hop = 0; hop < job.hops; hop++)
			at = next[at];
		checksum += hr_mix_u64(hr_mix_u64(chain) + at);
	}
	free(next);
	good = example_same(output, "checksum", checksum);
	good &= example_same(output, "hops", job.hops * job.chains);
	return good ? 0 : 1;
}

static void *follow(void *thread)
{
	uint64_t checksum = 0;

	for (uint64_t chain = (uintptr_t)thread; chain < job.chains; chain += job.threads) {
		uint64_t at = start_of(chain);

		for (uint64_t hop = 0; hop < job.hops; hop++)
			example_read(job.fd, &at, sizeof at, at * sizeof at);
		checksum += hr_mix_u64(hr_mix_u64(chain) + at);
	}
	__atomic_fetch_add(&job.checksum, checksum, __ATOMIC_RELAXED);
	return NULL;
}

static int staged(const char *dir)
{
	uint64_t bytes;

	job.fd = example_open(dir, "next", &bytes);
	job.count = bytes / sizeof(uint64_t);
	example_threads(follow, job.threads);
	printf("    checksum %llu\n", (unsigned long long)job.checksum);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "make") == 0)
		return make(argv[2], example_number(argv[3]), example_number(argv[4]));
	if (argc == 7) {
		job.hops = example_number(argv[4]);
		job.chains = example_number(argv[5]);
		job.seed = example_number(argv[6]);
		if (strcmp(argv[1], "check") == 0)
			return check(argv[2], argv[3]);
		job.threads = example_thread_count(argv[3]);
		if (strcmp(argv[1], "staged") == 0)
			return staged(argv[2]);
	}
	fprintf(stderr, "usage: chase make DIR ELEMENTS SEED\n"
			"       chase check DIR OUTPUT HOPS CHAINS SEED\n"
			"       chase staged DIR THREADS HOPS CHAINS SEED\n");
	return 2;
}
