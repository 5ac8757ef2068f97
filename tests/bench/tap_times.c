/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/tap_times.c - how long the steps of a hand-over take, the rate with a kernel on each
 * tile, where its time goes, and how soon tiles of a killed consumer come.
 *
 * Usage: tap_times TAP steps       all tiles, given back at once: computed -> next, given back -> free
 *        tap_times TAP kernel      a kernel reads each tile on the GPU; its stream gives it back
 *        tap_times TAP inherit     all tiles, given back at once; prints when redelivered ones come
 * Exit code 0; 1: the pipeline failed; 2: usage; 3: the tap, or the GPU is missing.
 *
 * Steps: the tap stamps a tile when it was computed, lent, and when its memory was freed before; the
 * consumer when it takes and gives back. On a GPU these are two clocks, whose difference is not known.
 * Bounds follow from what cannot be: memory is free after it was given back, and a tile is taken after
 * it was lent. So in each window of tiles (clocks drift) the difference lies between the greatest
 * (given back - freed) and the least (taken - lent). Narrower bounds come from a kernel that answers
 * the CPU, before the tap is opened and after its end (tap_clock.h). The figures assume the middle of
 * what both leave; the greatest error of it, half of the interval, is printed with them, and the number
 * of windows in which both exclude each other, because the clocks did not drift evenly.
 *
 * Steps and kernel print the life of the tiles' memory too: stamps of the tap only, of one clock.
 */
#include <sys/resource.h>

#include "tests/bench/tap_bench.h"
#include "tests/bench/tap_clock.h"

#define WINDOW 256u
#define SLOTS 1024u
#define TILES_MAX (1u << 18)
#define ALONE 2000u

/* ---- the life of the memory of tiles */

enum { TO_COMPUTED, TO_LENT, TO_FREED, LIVES };

struct life {
	uint64_t ns[LIVES][SAMPLES_MAX]; /* samples */
	uint32_t count[LIVES];
	uint64_t lent[SLOTS]; /* of the tile before; 0: none */
};

static void add_life(struct life *l, int step, uint64_t from, uint64_t to)
{
	if (from && to >= from && l->count[step] < SAMPLES_MAX)
		l->ns[step][l->count[step]++] = to - from;
}

static void count_life(struct life *l, const struct hr_tap_tile *tile)
{
	if (tile->slot >= SLOTS)
		return;
	add_life(l, TO_FREED, l->lent[tile->slot], tile->freed_ns);
	add_life(l, TO_COMPUTED, tile->freed_ns, tile->ready_ns);
	add_life(l, TO_LENT, tile->ready_ns, tile->lent_ns);
	l->lent[tile->slot] = tile->lent_ns;
}

static void print_life(struct life *l)
{
	print_samples("life: free -> computed", l->ns[TO_COMPUTED], l->count[TO_COMPUTED]);
	print_samples("life: computed -> lent", l->ns[TO_LENT], l->count[TO_LENT]);
	print_samples("life: lent -> free", l->ns[TO_FREED], l->count[TO_FREED]);
}

/* ---- steps */

/* Times of one tile: lent, computed and freed by the clock of the tap. */
struct times {
	uint64_t lent, ready, taken; /* ready: 0, not known */
	uint64_t given, freed;	     /* of the tile before it in the same memory; 0: none */
};

struct steps {
	struct times tile[TILES_MAX];
	uint64_t next[TILES_MAX], free[TILES_MAX]; /* samples */
	uint32_t tiles, nexts, frees, windows, excluded;
	struct clock_bounds before, after;
	int64_t error; /* the greatest of a window */
};

static uint64_t add(uint64_t tap, int64_t difference)
{
	return (uint64_t)((int64_t)tap + difference);
}

/* Samples of a window, with the difference of the clocks in it. */
static void count_window(struct steps *s, const struct times *t, uint32_t count)
{
	int64_t low = INT64_MIN, high = INT64_MAX, middle;

	for (uint32_t i = 0; i < count; i++) {
		const int64_t taken = (int64_t)(t[i].taken - t[i].lent);
		const int64_t given = (int64_t)(t[i].given - t[i].freed);

		high = taken < high ? taken : high;
		if (t[i].freed && given > low)
			low = given;
	}
	if (low == INT64_MIN)
		return;
	s->windows++;
	s->excluded += clock_narrow(&s->before, &s->after, t[count / 2].taken, &low, &high) != 0;
	middle = low + (high - low) / 2;
	s->error = (high - low) / 2 > s->error ? (high - low) / 2 : s->error;
	for (uint32_t i = 0; i < count; i++) {
		/* the tiles that were there before the consumer came have waited for it */
		if (t[i].ready && t[i].freed)
			s->next[s->nexts++] = t[i].taken - add(t[i].ready, middle);
		if (t[i].freed)
			s->free[s->frees++] = add(t[i].freed, middle) - t[i].given;
	}
}

/* Looks at the memory all the time. */
static int next(struct hr_tap *tap, struct hr_tap_tile *tile)
{
	int n;

	do
		n = hr_tap_next(tap, tile, 1, 0);
	while (n == -ETIMEDOUT);
	return n;
}

static int take_steps(struct hr_tap *tap, struct steps *s, struct life *life)
{
	static uint64_t given[SLOTS];
	struct hr_tap_tile tile;
	int n;

	while ((n = next(tap, &tile)) == 1) {
		struct times t = { .taken = now_ns(),
				   .lent = tile.lent_ns,
				   .ready = tile.ready_ns };

		t.given = tile.slot < SLOTS ? given[tile.slot] : 0;
		t.freed = t.given ? tile.freed_ns : 0;
		if (s->tiles < TILES_MAX)
			s->tile[s->tiles++] = t;
		count_life(life, &tile);
		if (tile.slot < SLOTS)
			given[tile.slot] = now_ns();
		hr_tap_done(tap, &tile);
	}
	return end_of(tap, n);
}

static void print_steps(struct steps *s)
{
	for (uint32_t i = 0; i + WINDOW <= s->tiles; i += WINDOW)
		count_window(s, s->tile + i, WINDOW);
	print_samples("computed -> next returns", s->next, s->nexts);
	print_samples("given back -> free", s->free, s->frees);
	printf("clocks: at most %lld ns of error; %u of %u windows excluded%s\n",
	       (long long)s->error, s->excluded, s->windows,
	       s->before.valid && s->after.valid ? "" : "; without the answers of a kernel");
}

static int steps(const char *name)
{
	static struct steps s;
	static struct life life;
	struct gpu g = { 0 };
	/* the first GPU of this process: the tap's, when the process sees one */
	const int has_gpu = open_gpu(&g, 0) == 0;
	struct hr_tap *tap;
	int code;

	if (has_gpu)
		clock_ask(&g, &s.before);
	tap = attach(name, 0);
	if (!tap)
		return 3;
	code = take_steps(tap, &s, &life);
	if (has_gpu && hr_tap_info(tap)->gpu == 0)
		clock_ask(&g, &s.after);
	print_steps(&s);
	print_life(&life);
	return code;
}

/* ---- a kernel */

static int work(const struct gpu *g, const struct hr_tap_tile *tile)
{
	uint64_t data = (uint64_t)(uintptr_t)tile->data, words = tile->bytes / 8, sum = g->sum;
	void *arguments[] = { &data, &words, &sum };

	return g->launch(g->function, 64, 1, 1, 256, 1, 1, 0, g->stream, arguments, NULL);
}

static uint64_t cpu_ns(void)
{
	struct rusage used;

	getrusage(RUSAGE_THREAD, &used);
	return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000ull +
	       (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

/* The same kernels, and the same writes, without a tap: what the consumer takes by itself. */
static void run_alone(const struct gpu *g, const struct hr_tap_tile *tile)
{
	const uint64_t word = (uint64_t)(uintptr_t)&g->words[24], began = now_ns();
	uint32_t n;

	for (n = 0; n < ALONE; n++)
		if (work(g, tile) != 0 || g->write(g->stream, word, n, 0) != 0)
			return;
	if (g->synchronize(g->stream) == 0)
		printf("kernel and write without a tap: %llu ns a tile\n",
		       (unsigned long long)((now_ns() - began) / n));
}

static int run_kernels(struct hr_tap *tap, const struct gpu *g, struct life *life)
{
	const uint64_t ready = hr_tap_info(tap)->memory_bytes;
	uint64_t began = 0, cpu = 0, tiles = 0, bytes = 0, sum = 0;
	struct hr_tap_tile tile = { 0 };
	int n;

	while ((n = hr_tap_next(tap, &tile, 1, -1)) == 1) {
		if (!began) {
			began = now_ns();
			cpu = cpu_ns();
		}
		count_life(life, &tile);
		if (work(g, &tile) != 0 || hr_tap_done_stream(tap, &tile, g->stream) != 0)
			return 1;
		tiles++;
		bytes += tile.bytes;
	}
	if (g->synchronize(g->stream) != 0 || g->to_host(&sum, g->sum, sizeof sum) != 0 || !tiles)
		return 1;
	began = now_ns() - began;
	/* the first tiles were there when it came */
	bytes -= bytes < ready ? bytes : ready;
	printf("kernel: %llu tiles, %.2f GB/s, %llu ns of CPU time a tile, sum %llx\n",
	       (unsigned long long)tiles, (double)bytes / (double)began,
	       (unsigned long long)((cpu_ns() - cpu) / tiles), (unsigned long long)sum);
	if (n == 0)
		run_alone(g, &tile); /* its memory stays mapped */
	return end_of(tap, n);
}

static int kernel(const char *name)
{
	struct hr_tap *tap = attach(name, 0);
	static struct life life;
	struct gpu g = { 0 };
	int code;

	if (!tap)
		return 3;
	if (hr_tap_info(tap)->gpu < 0 || open_gpu(&g, hr_tap_info(tap)->gpu) != 0) {
		fprintf(stderr, "the tiles are in no GPU's memory, or its driver cannot be used\n");
		return 3;
	}
	code = run_kernels(tap, &g, &life);
	print_life(&life);
	return code;
}

/* ---- tiles of another consumer */

static int inherit(const char *name)
{
	struct hr_tap *tap = attach(name, 0);
	uint64_t first = 0, last = 0, count = 0;
	struct hr_tap_tile tile;
	int n;

	if (!tap)
		return 3;
	printf("attached\n");
	fflush(stdout);
	/* no further tile comes, until the other consumer ends */
	while ((n = hr_tap_next(tap, &tile, 1, -1)) == 1 || (n == 0 && !count)) {
		if (n == 0)
			continue;
		if (tile.redelivered) {
			last = now_ns();
			first = first ? first : last;
			count++;
		}
		hr_tap_done(tap, &tile);
	}
	printf("redelivered: %llu tiles from %llu to %llu\n", (unsigned long long)count,
	       (unsigned long long)first, (unsigned long long)last);
	return end_of(tap, n);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const char *tap);
	} mode[] = { { "steps", steps }, { "kernel", kernel }, { "inherit", inherit } };

	for (size_t i = 0; argc == 3 && i < sizeof mode / sizeof *mode; i++) {
		if (strcmp(argv[2], mode[i].name) == 0)
			return mode[i].run(argv[1]);
	}
	fprintf(stderr, "Usage: tap_times TAP steps | kernel | inherit\n");
	return 2;
}
