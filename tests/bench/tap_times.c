/*
 * tests/bench/tap_times.c - how long the steps of a hand-over take, the rate with a kernel on each
 * tile, and how soon tiles of a killed consumer come.
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
 * (given back - freed) and the least (taken - lent). The figures assume the middle; the greatest error
 * of it, half of the interval, is printed with them.
 */
#include <sys/resource.h>

#include "tests/bench/tap_bench.h"

#define WINDOW 256u
#define SLOTS 1024u

/* ---- steps */

/* Times of one tile: lent, computed and freed by the clock of the tap. */
struct times {
	uint64_t lent, ready, taken; /* ready: 0, not known */
	uint64_t given, freed;	     /* of the tile before it in the same memory; 0: none */
};

struct steps {
	uint64_t *next, *free; /* samples */
	uint32_t nexts, frees;
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
	middle = low + (high - low) / 2;
	s->error = (high - low) / 2 > s->error ? (high - low) / 2 : s->error;
	for (uint32_t i = 0; i < count; i++) {
		if (t[i].ready && s->nexts < SAMPLES_MAX)
			s->next[s->nexts++] = t[i].taken - add(t[i].ready, middle);
		if (t[i].freed && s->frees < SAMPLES_MAX)
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

static int take_steps(struct hr_tap *tap, struct steps *s)
{
	static uint64_t given[SLOTS];
	struct times window[WINDOW] = { 0 };
	struct hr_tap_tile tile;
	uint32_t count = 0;
	int n;

	while ((n = next(tap, &tile)) == 1) {
		struct times *t = &window[count++];

		t->taken = now_ns();
		t->lent = tile.lent_ns;
		t->ready = tile.ready_ns;
		t->given = tile.slot < SLOTS ? given[tile.slot] : 0;
		t->freed = t->given ? tile.freed_ns : 0;
		if (tile.slot < SLOTS)
			given[tile.slot] = now_ns();
		hr_tap_done(tap, &tile);
		if (count == WINDOW) {
			count_window(s, window, count);
			count = 0;
		}
	}
	return end_of(tap, n);
}

static int steps(struct hr_tap *tap)
{
	struct steps s = { .next = calloc(SAMPLES_MAX, sizeof(uint64_t)),
			   .free = calloc(SAMPLES_MAX, sizeof(uint64_t)) };
	const int code = s.next && s.free ? take_steps(tap, &s) : 1;

	if (s.next && s.free) {
		print_samples("computed -> next returns", s.next, s.nexts);
		print_samples("given back -> free", s.free, s.frees);
		printf("clocks: at most %lld ns of error\n", (long long)s.error);
	}
	free(s.next);
	free(s.free);
	return code;
}

/* ---- a kernel */

/* 64 blocks of 256 threads add all 8-byte words of a tile. */
static const char adds[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry add(.param .u64 data, .param .u64 words, .param .u64 to)\n{\n"
	".reg .pred %p; .reg .u32 %a, %b, %c, %d; .reg .u64 %i, %n, %step, %at, %v, %sum, %to;\n"
	"ld.param.u64 %at, [data]; ld.param.u64 %n, [words]; ld.param.u64 %to, [to];\n"
	"mov.u32 %a, %ctaid.x; mov.u32 %b, %ntid.x; mov.u32 %c, %tid.x; mov.u32 %d, %nctaid.x;\n"
	"mad.lo.u32 %c, %a, %b, %c; cvt.u64.u32 %i, %c;\n"
	"mul.lo.u32 %d, %d, %b; cvt.u64.u32 %step, %d;\n"
	"mad.lo.u64 %at, %i, 8, %at; mov.u64 %sum, 0;\n"
	"LOOP: setp.ge.u64 %p, %i, %n;\n@%p bra END;\n"
	"ld.global.u64 %v, [%at]; add.u64 %sum, %sum, %v;\n"
	"add.u64 %i, %i, %step; mad.lo.u64 %at, %step, 8, %at;\nbra LOOP;\n"
	"END: red.global.add.u64 [%to], %sum;\nret;\n}\n";

struct gpu {
	void *context, *module, *function, *stream;
	uint64_t sum; /* address */
	int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		      unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
		      void **extra);
	int (*synchronize)(void *stream);
	int (*to_host)(void *to, uint64_t from, size_t bytes);
};

static int open_gpu(struct gpu *g, int number)
{
	int (*retain)(void **context, int device) = NULL;
	int (*enter)(void *context) = NULL;
	int (*load)(void **module, const void *image) = NULL;
	int (*get)(void **function, void *module, const char *name) = NULL;
	int (*create)(void **stream, unsigned flags) = NULL;
	int (*alloc)(uint64_t * at, size_t bytes) = NULL;
	int (*set)(uint64_t at, unsigned value, size_t count) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return -1;
	find(library, "cuDevicePrimaryCtxRetain", &retain);
	find(library, "cuCtxSetCurrent", &enter);
	find(library, "cuModuleLoadData", &load);
	find(library, "cuModuleGetFunction", &get);
	find(library, "cuStreamCreate", &create);
	find(library, "cuMemAlloc_v2", &alloc);
	find(library, "cuMemsetD32_v2", &set);
	find(library, "cuLaunchKernel", &g->launch);
	find(library, "cuStreamSynchronize", &g->synchronize);
	find(library, "cuMemcpyDtoH_v2", &g->to_host);
	if (!retain || !enter || !load || !get || !create || !alloc || !set || !g->launch ||
	    !g->synchronize || !g->to_host)
		return -1;
	return retain(&g->context, number) || enter(g->context) || load(&g->module, adds) ||
			       get(&g->function, g->module, "add") || create(&g->stream, 1) ||
			       alloc(&g->sum, sizeof g->sum) || set(g->sum, 0, 2)
		       ? -1
		       : 0;
}

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

static int run_kernels(struct hr_tap *tap, const struct gpu *g)
{
	const uint64_t ready = hr_tap_info(tap)->memory_bytes;
	uint64_t began = 0, cpu = 0, tiles = 0, bytes = 0, sum = 0;
	struct hr_tap_tile tile;
	int n;

	while ((n = hr_tap_next(tap, &tile, 1, -1)) == 1) {
		if (!began) {
			began = now_ns();
			cpu = cpu_ns();
		}
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
	return end_of(tap, n);
}

static int kernel(struct hr_tap *tap)
{
	struct gpu g = { 0 };

	if (hr_tap_info(tap)->gpu < 0 || open_gpu(&g, hr_tap_info(tap)->gpu) != 0) {
		fprintf(stderr, "the tiles are in no GPU's memory, or its driver cannot be used\n");
		return 3;
	}
	return run_kernels(tap, &g);
}

/* ---- tiles of another consumer */

static int inherit(struct hr_tap *tap)
{
	uint64_t first = 0, last = 0, count = 0;
	struct hr_tap_tile tile;
	int n;

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
		int (*run)(struct hr_tap *tap);
	} mode[] = { { "steps", steps }, { "kernel", kernel }, { "inherit", inherit } };
	struct hr_tap *tap;

	for (size_t i = 0; argc == 3 && i < sizeof mode / sizeof *mode; i++) {
		if (strcmp(argv[2], mode[i].name) != 0)
			continue;
		tap = attach(argv[1], 0);
		return tap ? mode[i].run(tap) : 3;
	}
	fprintf(stderr, "Usage: tap_times TAP steps | kernel | inherit\n");
	return 2;
}
