/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/tap_clock.h - kernels on a GPU for the program tap_times, and bounds of the difference
 * between its clock and CLOCK_MONOTONIC. Static, because the program is one file.
 *
 * A kernel answers each number that the CPU stores with its clock. It reads the clock after the CPU has
 * stored the number, and before the CPU sees the answer, so each answer bounds the difference on both
 * sides. The narrowest of many bounds leave what the two ways of a word take at least, about 1 us.
 */
#ifndef TESTS_BENCH_TAP_CLOCK_H
#define TESTS_BENCH_TAP_CLOCK_H

#include "tests/bench/tap_bench.h"

#define CLOCK_ROUNDS 4000u

/* add: 64 blocks of 256 threads add all 8-byte words of a tile; a warp makes one sum of its lanes,
 * because additions to one word take their turns. */
static const char tap_gpu_ptx[] =
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
	"END: mov.u32 %a, 16;\n"
	"FOLD: mov.b64 {%b, %c}, %sum;\n"
	"shfl.sync.bfly.b32 %b, %b, %a, 31, -1; shfl.sync.bfly.b32 %c, %c, %a, 31, -1;\n"
	"mov.b64 %v, {%b, %c}; add.u64 %sum, %sum, %v; shr.u32 %a, %a, 1;\n"
	"setp.ne.u32 %p, %a, 0;\n@%p bra FOLD;\n"
	"mov.u32 %a, %tid.x; and.b32 %a, %a, 31; setp.ne.u32 %p, %a, 0;\n@%p ret;\n"
	"red.global.add.u64 [%to], %sum;\nret;\n}\n"
	/* One thread: for each number in words[0], until it is `last`, the clock in words[8], and then
	 * the number in words[16]. */
	".visible .entry answer(.param .u64 words, .param .u64 last)\n{\n"
	".reg .pred %p; .reg .u64 %at, %last, %n, %was, %ns;\n"
	"ld.param.u64 %at, [words]; ld.param.u64 %last, [last]; mov.u64 %was, 0;\n"
	"LOOK: ld.relaxed.sys.u64 %n, [%at]; setp.eq.u64 %p, %n, %was;\n@%p bra LOOK;\n"
	"mov.u64 %ns, %globaltimer; mov.u64 %was, %n;\n"
	"st.relaxed.sys.u64 [%at+64], %ns; st.release.sys.u64 [%at+128], %n;\n"
	"setp.ne.u64 %p, %n, %last;\n@%p bra LOOK;\nret;\n}\n";

struct gpu {
	void *context, *module, *function, *answers, *stream;
	uint64_t sum;		  /* address */
	volatile uint64_t *words; /* of the kernel that answers, in host memory */
	int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		      unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
		      void **extra);
	int (*synchronize)(void *stream);
	int (*to_host)(void *to, uint64_t from, size_t bytes);
	int (*write)(void *stream, uint64_t at, uint32_t value, unsigned flags);
};

static inline int open_gpu(struct gpu *g, int number)
{
	int (*init)(unsigned flags) = NULL;
	int (*retain)(void **context, int device) = NULL;
	int (*enter)(void *context) = NULL;
	int (*load)(void **module, const void *image) = NULL;
	int (*get)(void **function, void *module, const char *name) = NULL;
	int (*create)(void **stream, unsigned flags) = NULL;
	int (*alloc)(uint64_t * at, size_t bytes) = NULL;
	int (*alloc_host)(void **at, size_t bytes) = NULL;
	int (*set)(uint64_t at, unsigned value, size_t count) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return -1;
	find(library, "cuInit", &init);
	find(library, "cuDevicePrimaryCtxRetain", &retain);
	find(library, "cuCtxSetCurrent", &enter);
	find(library, "cuModuleLoadData", &load);
	find(library, "cuModuleGetFunction", &get);
	find(library, "cuStreamCreate", &create);
	find(library, "cuMemAlloc_v2", &alloc);
	find(library, "cuMemAllocHost_v2", &alloc_host);
	find(library, "cuMemsetD32_v2", &set);
	find(library, "cuLaunchKernel", &g->launch);
	find(library, "cuStreamSynchronize", &g->synchronize);
	find(library, "cuMemcpyDtoH_v2", &g->to_host);
	find(library, "cuStreamWriteValue32_v2", &g->write);
	if (!init || !retain || !enter || !load || !get || !create || !alloc || !alloc_host ||
	    !set || !g->launch || !g->synchronize || !g->to_host || !g->write)
		return -1;
	return init(0) || retain(&g->context, number) || enter(g->context) ||
			       load(&g->module, tap_gpu_ptx) ||
			       get(&g->function, g->module, "add") ||
			       get(&g->answers, g->module, "answer") ||
			       alloc_host((void **)(uintptr_t)&g->words, 4096) ||
			       create(&g->stream, 1) || alloc(&g->sum, sizeof g->sum) ||
			       set(g->sum, 0, 2)
		       ? -1
		       : 0;
}

/* The difference CLOCK_MONOTONIC - clock of the GPU, at a time of the former. */
struct clock_bounds {
	int valid;
	uint64_t at;
	int64_t low, high;
};

static inline void clock_round(const struct gpu *g, uint64_t n, struct clock_bounds *b)
{
	const uint64_t before = now_ns();
	uint64_t after;
	int64_t low, high;

	__atomic_store_n(&g->words[0], n, __ATOMIC_RELEASE);
	while (__atomic_load_n(&g->words[16], __ATOMIC_ACQUIRE) != n)
		;
	after = now_ns();
	low = (int64_t)(before - g->words[8]);
	high = (int64_t)(after - g->words[8]);
	b->low = n == 1 || low > b->low ? low : b->low;
	b->high = n == 1 || high < b->high ? high : b->high;
}

/* Without an answer the bounds stay invalid. */
static inline void clock_ask(const struct gpu *g, struct clock_bounds *b)
{
	uint64_t at = (uint64_t)(uintptr_t)g->words, last = CLOCK_ROUNDS;
	void *arguments[] = { &at, &last };

	g->words[0] = g->words[16] = 0;
	if (g->launch(g->answers, 1, 1, 1, 1, 1, 1, 0, g->stream, arguments, NULL) != 0)
		return;
	b->at = now_ns();
	for (uint64_t n = 1; n <= CLOCK_ROUNDS; n++)
		clock_round(g, n, b);
	b->at += (now_ns() - b->at) / 2;
	b->valid = g->synchronize(g->stream) == 0 && b->low <= b->high;
}

static inline int64_t clock_between(int64_t a, int64_t b, double part)
{
	return a + (int64_t)((double)(b - a) * part);
}

/* Narrow the bounds at a time between two that the GPU was asked at: the clocks drift evenly. Returns
 * 0; -1: both bounds exclude each other, and these stay as they are. */
static inline int clock_narrow(const struct clock_bounds *a, const struct clock_bounds *b,
			       uint64_t at, int64_t *low, int64_t *high)
{
	double part;
	int64_t least, most;

	if (!a->valid || !b->valid || b->at <= a->at || at < a->at)
		return 0;
	part = (double)(at - a->at) / (double)(b->at - a->at);
	least = clock_between(a->low, b->low, part);
	most = clock_between(a->high, b->high, part);
	least = least > *low ? least : *low;
	most = most < *high ? most : *high;
	if (least > most)
		return -1;
	*low = least;
	*high = most;
	return 0;
}

#endif
