/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job of several ranks costs beside its pipelines: agreement, gather and merge of states, and
 * the check of shards.
 *
 *	mpirun -n N ranks_cost PLUGIN	measured by rank 0, through MPI, in ROUNDS rounds
 *	ranks_cost simulate RANKS	a SIMULATION without MPI and network: this process does the
 *					work of rank 0, and adds the time of a network
 *
 * One line of text for each figure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "boot/ranks/agree.h"
#include "boot/ranks/job.h"
#include "boot/ranks/plugin.h"

#define ROUNDS 201u
#define STATE (64u << 10)
#define WORK 9864u /* of a rank, compared before a job: struct work of boot/ranks/agree.c */

/* The network of the simulation. */
#define LATENCY_US 5.0	      /* of one message */
#define NETWORK_GB_S 10.0     /* of one link */
#define RANKS_SIMULATED 65536 /* at most */

static struct hr_job job;
static struct hr_error error;

static double us_of(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double now_us(void)
{
	return us_of(CLOCK_MONOTONIC);
}

/* What this thread has run: other processes do not count. */
static double ran_us(void)
{
	return us_of(CLOCK_THREAD_CPUTIME_ID);
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void add(void *to, void *into, const void *from)
{
	uint64_t *a = into;
	const uint64_t *b = from;

	for (size_t i = 0; i < STATE / sizeof *a; i++)
		a[i] += b[i];
}

static int agree(void)
{
	bool any;

	return hr_job_any(&job, false, &any, &error);
}

static int collect(void)
{
	static uint8_t state[STATE];
	struct hr_collected all;
	const int err = hr_job_collect(&job, state, sizeof state, &all, &error);

	hr_collected_free(&all);
	return err;
}

static int reduce(void)
{
	static uint64_t state[STATE / sizeof(uint64_t)];

	return hr_job_reduce(&job, state, sizeof state, add, NULL, &error);
}

/* Ranks begin a round together. */
static void measure(const char *what, int (*call)(void))
{
	static double took[ROUNDS];
	uint32_t most;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		double began;

		if (job.ranks.ops->max(&job.ranks, 0, &most) != 0)
			exit(1);
		began = now_us();
		if (call() != 0) {
			fprintf(stderr, "ranks_cost: %s\n", error.text);
			exit(1);
		}
		took[i] = now_us() - began;
	}
	qsort(took, ROUNDS, sizeof *took, by_size);
	if (job.ranks.rank == 0)
		printf("%u ranks: %s: p10 %.0f us, p50 %.0f us, p90 %.0f us\n", job.ranks.size,
		       what, took[ROUNDS / 10], took[ROUNDS / 2], took[ROUNDS * 9 / 10]);
}

static int measure_all(const char *plugin)
{
	const double began = now_us();
	int err = hr_ranks_load_file(plugin, &job.ranks, &error);

	if (err) {
		fprintf(stderr, "ranks_cost: %s\n", error.text);
		return 1;
	}
	if (job.ranks.rank == 0)
		printf("%u ranks: MPI_Init and all else of open(): %.0f ms\n", job.ranks.size,
		       (now_us() - began) / 1e3);
	measure("an agreement", agree);
	measure("states of 64 KiB gathered to rank 0", collect);
	measure("states of 64 KiB merged pairwise", reduce);
	return hr_job_close(&job, 0);
}

/* ---- simulation */

static void *reserve(size_t count, size_t bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory) {
		fprintf(stderr, "ranks_cost: no memory for %zu times %zu bytes\n", count, bytes);
		exit(1);
	}
	return memory;
}

/* Rank 0 receives `bytes` of each rank, one after another. */
static double gather_us(uint32_t ranks, size_t bytes)
{
	uint8_t *from = reserve(1, bytes), *to = reserve(ranks, bytes);
	const double began = ran_us();
	double took;

	for (uint32_t r = 0; r < ranks; r++)
		memcpy(to + r * bytes, from, bytes);
	took = ran_us() - began;
	free(from);
	free(to);
	return took + (ranks - 1) * (LATENCY_US + (double)bytes / NETWORK_GB_S / 1e3);
}

/* A tree: rank 0 receives and merges in each round. */
static double reduce_us(uint32_t ranks)
{
	uint64_t *a = reserve(1, STATE), *b = reserve(1, STATE);
	double took = 0;

	for (uint64_t step = 1; step < ranks; step *= 2) {
		const double began = ran_us();

		add(NULL, a, b);
		took += ran_us() - began + LATENCY_US + STATE / NETWORK_GB_S / 1e3;
	}
	free(a);
	free(b);
	return took;
}

/* The shards of one object, of all ranks. */
static double cover_us(uint32_t ranks)
{
	struct hr_shard_of *of = reserve(ranks, sizeof *of);
	double began;

	for (uint32_t r = 0; r < ranks; r++)
		of[r] = (struct hr_shard_of){
			.is_shard = 1,
			.bytes = 1 << 20,
			.tile_bytes = 1 << 20,
			.shard = { .first_row = (uint64_t)r << 16,
				   .rows = (uint64_t)ranks << 16,
				   .row_bytes = 16,
				   .index = (uint16_t)r,
				   .last = (uint16_t)(ranks - 1) },
		};
	began = ran_us();
	if (hr_shards_cover(of, sizeof *of, ranks, "object", &error) != 0) {
		fprintf(stderr, "ranks_cost: %s\n", error.text);
		exit(1);
	}
	began = ran_us() - began;
	free(of);
	return began;
}

static int simulate(uint32_t ranks)
{
	uint32_t rounds = 0;

	while (UINT64_C(1) << rounds < ranks)
		rounds++;
	printf("SIMULATION of %u ranks: %.0f us a message, %.0f GB/s a link; memory and merge of this "
	       "machine\n",
	       ranks, LATENCY_US, NETWORK_GB_S);
	printf("  an agreement, %u rounds there and back: %.0f us\n", rounds,
	       2 * rounds * LATENCY_US);
	printf("  work of all ranks gathered, %u bytes each: %.1f ms\n", WORK,
	       gather_us(ranks, WORK) / 1e3);
	printf("  shards of one object checked: %.0f us\n", cover_us(ranks));
	printf("  states of 64 KiB gathered to rank 0: %.1f ms, %.0f MiB there\n",
	       gather_us(ranks, STATE) / 1e3, (double)ranks * STATE / (1 << 20));
	printf("  states of 64 KiB merged pairwise: %.2f ms\n", reduce_us(ranks) / 1e3);
	return 0;
}

int main(int argc, char **argv)
{
	const long ranks = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

	if (argc == 3 && strcmp(argv[1], "simulate") == 0 && ranks >= 2 && ranks <= RANKS_SIMULATED)
		return simulate((uint32_t)ranks);
	if (argc == 2)
		return measure_all(argv[1]);
	fprintf(stderr, "usage: mpirun -n N ranks_cost PLUGIN\n"
			"       ranks_cost simulate RANKS\n");
	return 2;
}
