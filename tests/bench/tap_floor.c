/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/tap_floor.c - what the parts of a hand-over take at least, without a tap: loads,
 * stores and fences of one GPU thread, a word that goes to the GPU and back, and the turns of
 * two processes.
 *
 * Usage: tap_floor           prints one line a figure
 * Exit code 0; 1: the driver has failed; 3: there is no GPU, or its driver cannot be used.
 *
 * Turns: two processes launch a kernel of one thread by turns, and each waits for its end before
 * the other one launches. The same by one process is what a launch takes without a change of the
 * process.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/tap_bench.h"

#define ROUNDS 2000u
#define TURNS 400u

enum part { CLOCKS, TIMER, NEAR, FAR, FENCE, FENCE_STORES, FENCE_ALIAS, FENCE_GPU, STORES, PARTS };

static const char *const part_name[PARTS] = { "two reads of the cycle counter",
					      "a read of the clock",
					      "a load of GPU memory",
					      "a load of host memory",
					      "a fence of system scope",
					      "8 stores to host memory, and that fence",
					      "a fence for aliases, and that fence",
					      "a fence of GPU scope",
					      "8 stores to host memory" };

/* A part: the cycles of `what` to out[part]; then nothing is outstanding. */
#define PART(at, what)                                                               \
	"mov.u64 %c, %clock64;\n" what "mov.u64 %d, %clock64; sub.u64 %d, %d, %c;\n" \
	"st.relaxed.gpu.u64 [%out+" at "], %d; fence.acq_rel.sys;\n"
#define SCRATCH "st.relaxed.gpu.u64 [%out+72], %v;\n" /* waits for %v */
#define FENCE_SYS "fence.acq_rel.sys;\n"
#define STORES8                                                                   \
	"st.relaxed.sys.u64 [%host], %n; st.relaxed.sys.u64 [%host+8], %n;\n"     \
	"st.relaxed.sys.u64 [%host+16], %n; st.relaxed.sys.u64 [%host+24], %n;\n" \
	"st.relaxed.sys.u64 [%host+32], %n; st.relaxed.sys.u64 [%host+40], %n;\n" \
	"st.relaxed.sys.u64 [%host+48], %n; st.relaxed.sys.u64 [%host+56], %n;\n"
#define ALL_PARTS                                                   \
	PART("0", "")                                               \
	PART("8", "mov.u64 %v, %globaltimer;\n" SCRATCH)            \
	PART("16", "ld.relaxed.gpu.u64 %v, [%out+72];\n" SCRATCH)   \
	PART("24", "ld.relaxed.sys.u64 %v, [%host+128];\n" SCRATCH) \
	PART("32", FENCE_SYS)                                       \
	PART("40", STORES8 FENCE_SYS)                               \
	PART("48", "fence.proxy.alias;\n" FENCE_SYS)                \
	PART("56", "fence.acq_rel.gpu;\n")                          \
	PART("64", STORES8)

static const char floor_ptx[] =
	".version 7.8\n.target sm_80\n.address_size 64\n"
	/* One thread: the parts of each round, which has 80 bytes at out. */
	".visible .entry measure(.param .u64 out, .param .u64 host, .param .u64 rounds)\n{\n"
	".reg .pred %p; .reg .u64 %out, %host, %rounds, %n, %c, %d, %v;\n"
	"ld.param.u64 %out, [out]; ld.param.u64 %host, [host]; ld.param.u64 %rounds, [rounds];\n"
	"mov.u64 %n, 0;\nROUND:\n" ALL_PARTS
	"add.u64 %out, %out, 80; add.u64 %n, %n, 1; setp.lt.u64 %p, %n, %rounds;\n"
	"@%p bra ROUND;\nret;\n}\n"
	/* For each number in host[0], until it is `last`: the number in host[16]. */
	".visible .entry answer(.param .u64 host, .param .u64 last)\n{\n"
	".reg .pred %p; .reg .u64 %at, %last, %n, %was;\n"
	"ld.param.u64 %at, [host]; ld.param.u64 %last, [last]; mov.u64 %was, 0;\n"
	"LOOK: ld.relaxed.sys.u64 %n, [%at]; setp.eq.u64 %p, %n, %was;\n@%p bra LOOK;\n"
	"mov.u64 %was, %n; st.relaxed.sys.u64 [%at+128], %n;\n"
	"setp.ne.u64 %p, %n, %last;\n@%p bra LOOK;\nret;\n}\n"
	".visible .entry nothing(.param .u64 host)\n{\nret;\n}\n";

#define ROW (PARTS + 1) /* words of a round: the last one is scratch */

struct driver {
	int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		      unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
		      void **extra);
	int (*synchronize)(void);
	int (*to_host)(void *to, uint64_t from, size_t bytes);
	void *measure, *answer, *nothing;
	uint64_t out;
	volatile uint64_t *host;
};

static int open_driver(struct driver *d)
{
	int (*init)(unsigned flags) = NULL;
	int (*retain)(void **context, int device) = NULL;
	int (*enter)(void *context) = NULL;
	int (*load)(void **module, const void *image) = NULL;
	int (*get)(void **function, void *module, const char *name) = NULL;
	int (*alloc)(uint64_t * at, size_t bytes) = NULL;
	int (*alloc_host)(void **at, size_t bytes) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;

	if (!library)
		return -1;
	find(library, "cuInit", &init);
	find(library, "cuDevicePrimaryCtxRetain", &retain);
	find(library, "cuCtxSetCurrent", &enter);
	find(library, "cuModuleLoadData", &load);
	find(library, "cuModuleGetFunction", &get);
	find(library, "cuMemAlloc_v2", &alloc);
	find(library, "cuMemAllocHost_v2", &alloc_host);
	find(library, "cuLaunchKernel", &d->launch);
	find(library, "cuCtxSynchronize", &d->synchronize);
	find(library, "cuMemcpyDtoH_v2", &d->to_host);
	if (!init || !retain || !enter || !load || !get || !alloc || !alloc_host || !d->launch ||
	    !d->synchronize || !d->to_host)
		return -1;
	return init(0) || retain(&context, 0) || enter(context) || load(&module, floor_ptx) ||
			       get(&d->measure, module, "measure") ||
			       get(&d->answer, module, "answer") ||
			       get(&d->nothing, module, "nothing") ||
			       alloc(&d->out, sizeof(uint64_t) * ROUNDS * ROW) ||
			       alloc_host((void **)(uintptr_t)&d->host, 4096)
		       ? -1
		       : 0;
}

static int launch(const struct driver *d, void *function, uint64_t a, uint64_t b, uint64_t c)
{
	void *arguments[] = { &a, &b, &c };

	return d->launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
}

/* ---- one thread of the GPU */

static int parts(const struct driver *d)
{
	static uint64_t out[ROUNDS][ROW], sample[ROUNDS];
	const uint64_t host = (uint64_t)(uintptr_t)d->host;

	if (launch(d, d->measure, d->out, host, ROUNDS) || d->synchronize() ||
	    d->to_host(out, d->out, sizeof out))
		return -1;
	for (int part = 0; part < PARTS; part++) {
		for (uint32_t i = 0; i < ROUNDS; i++)
			sample[i] = out[i][part];
		qsort(sample, ROUNDS, sizeof *sample, by_size);
		printf("%s: p50 %llu cycles, p99 %llu\n", part_name[part],
		       (unsigned long long)sample[ROUNDS / 2],
		       (unsigned long long)sample[ROUNDS / 100 * 99]);
	}
	return 0;
}

static int round_trips(const struct driver *d)
{
	static uint64_t sample[ROUNDS];

	d->host[0] = d->host[16] = 0;
	if (launch(d, d->answer, (uint64_t)(uintptr_t)d->host, ROUNDS, 0))
		return -1;
	for (uint64_t n = 1; n <= ROUNDS; n++) {
		const uint64_t began = now_ns();

		__atomic_store_n(&d->host[0], n, __ATOMIC_RELEASE);
		while (__atomic_load_n(&d->host[16], __ATOMIC_ACQUIRE) != n)
			;
		sample[n - 1] = now_ns() - began;
	}
	print_samples("a word to a kernel that polls, and back", sample, ROUNDS);
	return d->synchronize();
}

/* ---- two processes */

struct turns {
	uint32_t turn; /* whose: 0, 1; 2: over */
	uint64_t ns[TURNS];
};

static int take_turns(const struct driver *d, struct turns *t, uint32_t me, uint32_t other)
{
	uint64_t began = now_ns();

	for (uint32_t n = 0; n < TURNS; n++) {
		while (__atomic_load_n(&t->turn, __ATOMIC_ACQUIRE) != me)
			;
		if (launch(d, d->nothing, 0, 0, 0) || d->synchronize())
			return 1;
		if (!me) {
			t->ns[n] = now_ns() - began;
			began = now_ns();
		}
		__atomic_store_n(&t->turn, other, __ATOMIC_RELEASE);
	}
	return 0;
}

/* The driver of a process is opened after the fork. */
static int turns(uint32_t processes)
{
	struct turns *t =
		mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct driver d = { 0 };
	int status, bad = 0;

	if (t == MAP_FAILED)
		return -1;
	t->turn = 2;
	for (uint32_t me = 0; me < processes; me++)
		if (fork() == 0) {
			const int err = open_driver(&d) || launch(&d, d.nothing, 0, 0, 0) ||
					d.synchronize();

			__atomic_add_fetch(&t->turn, 1, __ATOMIC_ACQ_REL);
			while (__atomic_load_n(&t->turn, __ATOMIC_ACQUIRE) >= 2 &&
			       __atomic_load_n(&t->turn, __ATOMIC_ACQUIRE) < 2 + processes)
				;
			if (me == 0)
				__atomic_store_n(&t->turn, 0, __ATOMIC_RELEASE);
			_exit(err || take_turns(&d, t, me, (me + 1) % processes));
		}
	while (wait(&status) > 0)
		bad |= status;
	if (!bad)
		print_samples(processes == 1 ? "a kernel of one process, after its last one"
					     : "a kernel each of two processes by turns",
			      t->ns, TURNS);
	munmap(t, sizeof *t);
	return bad;
}

int main(void)
{
	struct driver d = { 0 };

	/* before this process opens the driver */
	if (turns(1) || turns(2) || open_driver(&d)) {
		fprintf(stderr, "there is no GPU, or its driver cannot be used\n");
		return 3;
	}
	return parts(&d) || round_trips(&d) ? 1 : 0;
}
