/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_hits - the cost of a hit of the page cache on a GPU: the calls of
 * cache/objects/objects.h against loads of the same frames by their address, in turns, in one
 * process. All pages are cached, so no I/O worker runs. `make gpu-tests` builds
 * build/tests/gpu/cache-hits.
 *
 *	cache_hits [GIB ...]	frames of 7/8 of so many GiB (16 and 64)
 *
 * Direct and cached accesses choose frames by the same arithmetic, which gives a set, a way, and the
 * page that lies there.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cache/objects/objects.h"

#define PAGE_SHIFT 12u
#define PAGE_BYTES (1u << PAGE_SHIFT)
#define THREADS 512u
#define TURNS 5

struct job {
	struct hr_page_cache cache;
	uint32_t sets; /* a power of two: tags of a set are 0..7, ways hold 0..6 */
	uint32_t rounds;
	uint64_t *sum;
};

#define CHECK(call)                                                                    \
	do {                                                                           \
		const cudaError_t error = (call);                                      \
		if (error != cudaSuccess) {                                            \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
			exit(1);                                                       \
		}                                                                      \
	} while (0)

struct target {
	uint32_t set, way, page;
};

static __device__ __forceinline__ uint32_t draw(uint32_t *state)
{
	uint32_t x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*state = x;
	return x * 0x9e3779b1u;
}

static __device__ __forceinline__ struct target choose(const struct job *job, uint32_t number)
{
	const struct hr_page_shape *shape = &job->cache.shape;
	const uint32_t way = number & 7, set = number >> 3 & (job->sets - 1);
	const uint32_t row = set >> shape->group_shift, in_row = set & 31;
	struct target t;
	uint32_t mixed;

	t.way = way == 7 ? 6 : way;
	t.set = set;
	mixed = row << 3 | t.way;
	t.page = hr_page_unmix(mixed, shape->group_bits) << shape->group_shift |
		 ((in_row - mixed) & 31);
	return t;
}

static __global__ void fill(struct job *job)
{
	const uint32_t all = job->sets * HR_WAYS;

	for (uint32_t f = blockIdx.x * blockDim.x + threadIdx.x; f < all;
	     f += gridDim.x * blockDim.x) {
		const uint32_t set = f / HR_WAYS, way = f % HR_WAYS;
		const struct target t = choose(job, set << 3 | way);
		const struct hr_page_position position =
			hr_page_position_of(&job->cache.shape, t.page);

		if (position.set != set)
			__trap();
		job->cache.set[set].tag[way] = HR_PAGE_WORD(position.tag, HR_PAGE_READY);
		job->cache.set[set].recency = hr_policy_init(HR_POLICY_CLOCK) | 0x7f;
		*(uint64_t *)hr_cache_frame(&job->cache, set, way) = t.page;
	}
}

static __device__ __forceinline__ struct hr_objects begin(const struct job *job)
{
	struct hr_objects objects = {};

	objects.cache = &job->cache;
	objects.worker = (blockIdx.x * blockDim.x + threadIdx.x) / HR_LANES;
	objects.workers = job->cache.computers;
	return objects;
}

/* The same address, of which the compiler knows nothing, as an operator's argument. */
static __device__ __forceinline__ struct hr_objects *opaque(struct hr_objects *objects)
{
	asm volatile("" : "+l"(objects) : : "memory");
	return objects;
}

static __device__ __forceinline__ uint64_t add_page(const uint8_t *frame)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < PAGE_BYTES / (16 * HR_LANES); i++) {
		uint32_t a, b, c, d;

		asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
			     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
			     : "l"(frame + (i * HR_LANES + hr_lane()) * 16));
		sum += a ^ b ^ c ^ d;
	}
	return sum;
}

static __global__ void pages_direct(const struct job *job)
{
	uint32_t state = (blockIdx.x * blockDim.x + threadIdx.x) / HR_LANES * 2654435761u + 1;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < job->rounds; i++) {
		const struct target t = choose(job, draw(&state));

		sum += t.page + add_page(hr_cache_frame(&job->cache, t.set, t.way));
	}
	job->sum[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/* hr_pread() of a page to block memory, against the same copy by address. */
static __global__ void copies_direct(const struct job *job)
{
	extern __shared__ uint4 memory[];
	uint4 *to = memory + hr_warp() * (PAGE_BYTES / 16);
	uint32_t state = (blockIdx.x * blockDim.x + threadIdx.x) / HR_LANES * 2654435761u + 1;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < job->rounds; i++) {
		const struct target t = choose(job, draw(&state));
		const uint8_t *frame = hr_cache_frame(&job->cache, t.set, t.way);

		for (uint32_t k = hr_lane(); k < PAGE_BYTES / 16; k += HR_LANES)
			asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
				     : "=r"(to[k].x), "=r"(to[k].y), "=r"(to[k].z), "=r"(to[k].w)
				     : "l"(frame + k * 16));
		sum += t.page;
	}
	job->sum[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

static __device__ __forceinline__ void copy_pages(const struct job *job)
{
	extern __shared__ uint4 memory[];
	uint4 *to = memory + hr_warp() * (PAGE_BYTES / 16);
	struct hr_objects own = begin(job), *objects = opaque(&own);
	const struct hr_object *object = hr_get_object_map(objects, 0);
	uint32_t state = objects->worker * 2654435761u + 1;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < job->rounds; i++) {
		const struct target t = choose(job, draw(&state));

		sum += (uint64_t)hr_pread(objects, object, (uint64_t)t.page << PAGE_SHIFT, to,
					  PAGE_BYTES);
	}
	job->sum[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

static __global__ void copies_cached(const struct job *job)
{
	copy_pages(job);
}

/* With the registers that a worker has in each of its entry points: gpu/cuda/image/image.cu. */
static __global__ void __launch_bounds__(512) copies_cached_512(const struct job *job)
{
	copy_pages(job);
}

static __global__ void __launch_bounds__(1024) copies_cached_1024(const struct job *job)
{
	copy_pages(job);
}

/* hr_page() in place. */
static __global__ void pages_cached(const struct job *job)
{
	struct hr_objects objects = begin(job);
	const struct hr_object *object = hr_get_object_map(&objects, 0);
	uint32_t state = objects.worker * 2654435761u + 1;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < job->rounds; i++) {
		const struct target t = choose(job, draw(&state));
		const uint8_t *page = (const uint8_t *)hr_page(&objects, object, t.page);

		sum += t.page + add_page(page);
		if (i % 16 == 15)
			hr_quiescent(&objects);
	}
	job->sum[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

static __global__ void words_direct(const struct job *job)
{
	uint32_t state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 1;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < job->rounds; i++) {
		const uint32_t number = draw(&state);
		const struct target t = choose(job, number);
		uint64_t v;

		asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
			     : "=l"(v)
			     : "l"(hr_cache_frame(&job->cache, t.set, t.way) +
				   (number >> 20 & 511) * 8));
		sum += v + t.page;
	}
	job->sum[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

static __device__ __forceinline__ void get_words(const struct job *job)
{
	struct hr_objects objects = begin(job);
	const struct hr_object *object = hr_get_object_map(&objects, 0);
	uint32_t state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 1;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < job->rounds; i++) {
		const uint32_t number = draw(&state);
		const struct target t = choose(job, number);

		sum += hr_get_u64(&objects, object, (uint64_t)t.page * 512 + (number >> 20 & 511));
	}
	job->sum[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

static __global__ void words_cached(const struct job *job)
{
	get_words(job);
}

/* With the registers that a worker has: its blocks have up to 1024 threads. */
static __global__ void __launch_bounds__(1024) words_cached_1024(const struct job *job)
{
	get_words(job);
}

static double seconds(void (*entry)(const struct job *), const struct job *job, int blocks,
		      uint32_t threads, uint32_t shared)
{
	cudaEvent_t from, to;
	float ms;

	CHECK(cudaEventCreate(&from));
	CHECK(cudaEventCreate(&to));
	CHECK(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
				   (int)shared));
	CHECK(cudaEventRecord(from));
	entry<<<blocks, threads, shared>>>(job);
	CHECK(cudaGetLastError());
	CHECK(cudaEventRecord(to));
	CHECK(cudaEventSynchronize(to));
	CHECK(cudaEventElapsedTime(&ms, from, to));
	return ms / 1e3;
}

static int by_value(const void *a, const void *b)
{
	return *(const double *)a > *(const double *)b ? 1 : -1;
}

/* Both entry points get as many blocks as the cached one has resident. amount: accesses of one
 * thread. */
static void report(const char *what, const char *unit, double amount, struct job *job,
		   uint32_t threads, uint32_t shared, void (*direct)(const struct job *),
		   void (*cached)(const struct job *))
{
	double rate[2][TURNS];
	int processors, blocks;

	CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaFuncSetAttribute(cached, cudaFuncAttributeMaxDynamicSharedMemorySize,
				   (int)shared));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, cached, (int)threads, shared));
	blocks *= processors;
	amount *= (double)blocks * threads;

	seconds(direct, job, blocks, threads, shared);
	seconds(cached, job, blocks, threads, shared);
	for (int i = 0; i < TURNS; i++) {
		rate[0][i] = amount / seconds(direct, job, blocks, threads, shared);
		rate[1][i] = amount / seconds(cached, job, blocks, threads, shared);
	}
	qsort(rate[0], TURNS, sizeof(double), by_value);
	qsort(rate[1], TURNS, sizeof(double), by_value);
	printf("  %-42s %4d blocks of %u: direct %8.1f, cached %8.1f %s, ratio %.3f\n", what,
	       blocks, threads, rate[0][TURNS / 2], rate[1][TURNS / 2], unit,
	       rate[1][TURNS / 2] / rate[0][TURNS / 2]);
}

static uint32_t log2_of(uint64_t v)
{
	uint32_t bits = 0;

	while (v >> (bits + 1))
		bits++;
	return bits;
}

static void measure(double gib)
{
	const uint32_t sets = 1u << log2_of((uint64_t)(gib * (1 << 30)) / (8 * PAGE_BYTES));
	struct job *job;
	int processors, blocks;
	double workers;

	CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
	blocks = processors * 4;
	workers = (double)blocks * 2048 / HR_LANES;
	CHECK(cudaMallocManaged(&job, sizeof *job));
	*job = {};
	job->sets = sets;
	job->cache.shape = { PAGE_SHIFT, 5, sets >> 5, log2_of(sets >> 5) + 3, 7 };
	job->cache.policy = HR_POLICY_CLOCK;
	job->cache.objects = 1;
	job->cache.object[0].bytes = (uint64_t)sets * 8 * PAGE_BYTES;
	job->cache.object[0].pages = sets * 8;
	job->cache.computers = (uint32_t)workers;
	hr_cache_set_io_workers(&job->cache, 1);
	CHECK(cudaMalloc(&job->cache.set, sizeof(struct hr_page_set) * sets));
	CHECK(cudaMalloc(&job->cache.frame, (uint64_t)sets * HR_WAYS * PAGE_BYTES));
	CHECK(cudaMalloc(&job->cache.worker, sizeof(struct hr_cache_worker) * (size_t)workers));
	CHECK(cudaMalloc(&job->cache.words, sizeof(struct hr_cache_words)));
	CHECK(cudaMemset(job->cache.words, 0, sizeof(struct hr_cache_words)));
	CHECK(cudaMalloc(&job->sum, sizeof(uint64_t) * blocks * 2048));
	fill<<<blocks, THREADS>>>(job);
	CHECK(cudaDeviceSynchronize());
	printf("%.1f GiB of frames, %u sets\n", (double)sets * HR_WAYS * PAGE_BYTES / (1 << 30),
	       sets);
	job->rounds = 400;
	report("4 KiB by a warp, hr_page()", "GB/s", job->rounds * PAGE_BYTES / 1e9 / HR_LANES, job,
	       THREADS, 0, pages_direct, pages_cached);
	report("4 KiB by a warp, hr_pread() to block memory", "GB/s",
	       job->rounds * PAGE_BYTES / 1e9 / HR_LANES, job, THREADS / 2,
	       THREADS / 2 / HR_LANES * PAGE_BYTES, copies_direct, copies_cached);
	report("the same, a worker of a block of up to 512", "GB/s",
	       job->rounds * PAGE_BYTES / 1e9 / HR_LANES, job, THREADS / 2,
	       THREADS / 2 / HR_LANES * PAGE_BYTES, copies_direct, copies_cached_512);
	report("the same, a worker of a block of up to 1024", "GB/s",
	       job->rounds * PAGE_BYTES / 1e9 / HR_LANES, job, THREADS / 2,
	       THREADS / 2 / HR_LANES * PAGE_BYTES, copies_direct, copies_cached_1024);
	job->rounds = 1000;
	report("8 bytes by each lane, hr_get_u64()", "G/s", job->rounds / 1e9, job, THREADS, 0,
	       words_direct, words_cached);
	report("8 bytes by each lane, 1024 threads", "G/s", job->rounds / 1e9, job, 1024, 0,
	       words_direct, words_cached_1024);
	CHECK(cudaFree(job->cache.set));
	CHECK(cudaFree(job->cache.frame));
	CHECK(cudaFree(job->cache.worker));
	CHECK(cudaFree(job->cache.words));
	CHECK(cudaFree(job->sum));
	CHECK(cudaFree(job));
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		measure(16);
		measure(64);
	}
	for (int i = 1; i < argc; i++)
		measure(atof(argv[i]));
	return 0;
}
