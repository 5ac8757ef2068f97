#include "gpu/cuda/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "gpu/cuda/baseline.h"
#include "gpu/cuda/host.h"
#include "gpu/cuda/image.h"
#include "gpu/cuda/link_rates.h"
#include "gpu/cuda/link.h"
#include "gpu/cuda/memory.h"
#include "config/operator.h"
#include "gpu/worker/pipeline.h"

#define ARENAS_MAX 32u
#define WARP 32u
#define CLOSE_NS (10 * HR_NS_PER_S)
#define PAUSE_NS 100000ull
#define THREADS_PER_PROCESSOR 2048u /* resident at once, at most */

/* Embedded by gpu/cuda/embed.S. */
extern const uint8_t hr_worker_image[], hr_worker_roles_image[];
extern const uint8_t hr_worker_user_image[], hr_worker_user_image_end[];

static const char *const kernel_name[] = {
	[HR_KERNEL_PIPE] = "hr_kernel_pipe",
	[HR_KERNEL_BENCH] = "hr_kernel_bench",
	[HR_KERNEL_PROBE] = "hr_kernel_probe",
};

#define KERNELS (sizeof kernel_name / sizeof *kernel_name)

static const struct {
	const char *kernel, *name;
} role[] = {
	[HR_ROLE_PREFETCH] = { "hr_role_prefetch", "prefetch" },
	[HR_ROLE_COMPUTE] = { "hr_role_compute", "compute" },
	[HR_ROLE_WRITEBACK] = { "hr_role_writeback", "writeback" },
};

_Static_assert(sizeof role / sizeof *role == HR_GPU_ROLES_MAX, "facts have room for all roles");

/* A user operator, linked. */
struct linked {
	const struct hr_operator *op;
	struct hr_cuda_image image;
	struct hr_cuda_kernel kernel;
};

struct cuda {
	struct hr_cuda_gpu gpu;
	struct hr_cuda_host host;
	struct hr_cuda_image image;
	struct hr_cuda_kernel kernel[KERNELS];
	struct linked linked[HR_OPERATORS_MAX];
	uint32_t linked_count;
	struct hr_cuda_launch launch;
	struct hr_cuda_arena arena[ARENAS_MAX];
	struct hr_window_driver window;
	bool compressible;
};

/* An operation's end: what is wrong is told here, where the driver's words are known. */
static int tell(const struct hr_backend *b, int err)
{
	const struct cuda *cuda = b->impl;

	if (err)
		hr_error("%s: %s", b->name, cuda->gpu.cu.error);
	return err;
}

static int cuda_attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker)
{
	struct cuda *cuda = b->impl;

	return tell(b, hr_cuda_attach(&cuda->gpu, &cuda->host, cpu, bytes, io, worker));
}

static void cuda_detach(struct hr_backend *b, void *cpu)
{
	struct cuda *cuda = b->impl;

	/* A GPU that has failed has told so already, and its context takes all mappings with it. */
	if (hr_cuda_detach(&cuda->gpu, &cuda->host, cpu) != 0 && !cuda->launch.failed)
		hr_warn("%s: %s", b->name, cuda->gpu.cu.error);
}

static void report_arena(const struct hr_backend *b, const struct hr_cuda_arena *arena)
{
	if (arena->want_compressible && !arena->compressible)
		hr_warn("%s: the driver gave %zu bytes of memory that is not compressible", b->name,
			arena->bytes);
	hr_info("%s: %zu bytes of GPU memory at 0x%llx%s%s%s, room to grow to %zu", b->name,
		arena->bytes, (unsigned long long)arena->base,
		arena->compressible ? ", compressible" : "",
		arena->rdma ? ", reachable by other devices" : "",
		arena->exportable ? ", exportable" : "", arena->reserved);
}

static int cuda_alloc(struct hr_backend *b, size_t bytes, struct hr_region *region)
{
	struct cuda *cuda = b->impl;
	struct hr_cuda_arena *arena = NULL;
	int err;

	for (unsigned i = 0; i < ARENAS_MAX && !arena; i++)
		if (!cuda->arena[i].base)
			arena = &cuda->arena[i];
	if (!arena)
		err = hr_cuda_say(&cuda->gpu.cu, -ENOMEM,
				  "%u pieces of GPU memory are in use, that is all", ARENAS_MAX);
	else
		err = hr_cuda_arena_open(&cuda->gpu, arena, bytes, cuda->gpu.facts.memory_bytes,
					 cuda->compressible);
	if (err)
		return tell(b, err);
	report_arena(b, arena);
	memset(region, 0, sizeof *region);
	region->kind = HR_REGION_GPU;
	region->worker = (void *)(uintptr_t)arena->base;
	region->bytes = arena->bytes;
	return 0;
}

static void cuda_free(struct hr_backend *b, struct hr_region *region)
{
	struct cuda *cuda = b->impl;

	for (unsigned i = 0; i < ARENAS_MAX; i++)
		if (cuda->arena[i].base && cuda->arena[i].base == (CUdeviceptr)region->worker)
			hr_cuda_arena_close(&cuda->gpu, &cuda->arena[i]);
	memset(region, 0, sizeof *region);
}

static int cuda_upload(struct hr_backend *b, void *worker, const void *cpu, size_t bytes)
{
	struct cuda *cuda = b->impl;

	if (worker == cpu)
		return 0;
	return tell(b, hr_cuda_upload(&cuda->gpu, &cuda->host, worker, cpu, bytes));
}

static int cuda_download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes)
{
	struct cuda *cuda = b->impl;

	if (worker == cpu)
		return 0;
	return tell(b, hr_cuda_download(&cuda->gpu, &cuda->host, cpu, worker, bytes));
}

static const struct hr_cuda_kernel *kernel_of(const struct cuda *cuda, enum hr_kernel kernel)
{
	return kernel < HR_KERNEL_USER ? &cuda->kernel[kernel]
				       : &cuda->linked[kernel - HR_KERNEL_USER].kernel;
}

/* What all its threads keep in local memory, when the GPU is full of them, comes out of its memory. */
static int check_local(struct cuda *cuda, const struct hr_kernel_facts *kernel)
{
	struct hr_cuda_gpu *gpu = &cuda->gpu;
	const uint64_t threads = (uint64_t)gpu->facts.processors * THREADS_PER_PROCESSOR;
	const uint64_t local = kernel->local_bytes * threads;
	size_t left = 0, all = 0;
	int err = HR_CU(&gpu->cu, MemGetInfo, &left, &all);

	if (err || local <= left)
		return err;
	return hr_cuda_say(
		&gpu->cu, -EINVAL,
		"%s: %u bytes of local memory per thread, %llu on the whole GPU, but %zu are free",
		kernel->name, kernel->local_bytes, (unsigned long long)local, left);
}

static int link_user(struct cuda *cuda, struct linked *linked, const struct hr_operator *op)
{
	struct hr_kernel_facts *facts = &linked->kernel.facts;
	char name[2 * HR_NAME_MAX];
	const struct hr_cuda_part part[] = {
		{ hr_worker_user_image,
		  (uintptr_t)hr_worker_user_image_end - (uintptr_t)hr_worker_user_image,
		  "worker image" },
		{ op->gpu, (size_t)(op->gpu_end - op->gpu), name },
	};
	int err;

	snprintf(name, sizeof name, "operator %s", op->name);
	if (!part[1].bytes)
		return hr_cuda_say(
			&cuda->gpu.cu, -ENOTSUP,
			"its file has no GPU part; build it where nvcc is, with 'make op'");
	err = hr_cuda_image_link(&cuda->gpu, &linked->image, part, 2, name);
	if (err)
		return err;
	err = hr_cuda_kernel_find(&cuda->gpu, &linked->image, &linked->kernel,
				  kernel_name[HR_KERNEL_PIPE]);
	snprintf(facts->name, sizeof facts->name, "%.*s", (int)sizeof facts->name - 1, name);
	if (!err)
		err = check_local(cuda, facts);
	if (err)
		hr_cuda_image_unload(&cuda->gpu, &linked->image);
	return err;
}

static int cuda_link(struct hr_backend *b, const struct hr_operator *op, enum hr_kernel *kernel,
		     uint32_t *max_threads, char *message)
{
	struct cuda *cuda = b->impl;
	uint32_t i = 0;
	int err = 0;

	while (i < cuda->linked_count && cuda->linked[i].op != op)
		i++;
	if (i == HR_OPERATORS_MAX)
		err = hr_cuda_say(&cuda->gpu.cu, -ENOSPC, "%u operators are linked, that is all",
				  HR_OPERATORS_MAX);
	else if (i == cuda->linked_count)
		err = link_user(cuda, &cuda->linked[i], op);
	if (err) {
		memcpy(message, cuda->gpu.cu.error, HR_LOG_LINE_MAX);
		return err;
	}
	if (i == cuda->linked_count) {
		const struct hr_kernel_facts *facts = &cuda->linked[i].kernel.facts;

		cuda->linked[i].op = op;
		cuda->linked_count++;
		hr_info("%s: %s: linked; %u registers, %u bytes shared, %u bytes local, blocks of "
			"up to %u threads",
			b->name, facts->name, facts->registers, facts->shared_bytes,
			facts->local_bytes, facts->max_threads);
	}
	*kernel = (enum hr_kernel)(HR_KERNEL_USER + i);
	*max_threads = cuda->linked[i].kernel.facts.max_threads;
	return 0;
}

static uint32_t cuda_resident(struct hr_backend *b, enum hr_kernel kernel, uint32_t threads,
			      uint32_t shared_bytes)
{
	struct cuda *cuda = b->impl;
	uint32_t blocks = 0;

	tell(b, hr_cuda_kernel_resident(&cuda->gpu, kernel_of(cuda, kernel), threads, shared_bytes,
					&blocks));
	return blocks;
}

static int cuda_launch(struct hr_backend *b, enum hr_kernel kernel, void *argument, uint32_t blocks,
		       uint32_t threads, uint32_t shared_bytes)
{
	struct cuda *cuda = b->impl;

	return tell(b, hr_cuda_launch_start(&cuda->gpu, &cuda->launch, kernel_of(cuda, kernel),
					    argument, blocks, threads, shared_bytes));
}

static int cuda_poll(struct hr_backend *b)
{
	struct cuda *cuda = b->impl;
	const bool told = cuda->launch.failed != 0;
	const int state = hr_cuda_launch_poll(&cuda->gpu, &cuda->launch);

	return state < 0 && !told ? tell(b, state) : state;
}

static int cuda_roles(struct hr_backend *b)
{
	struct cuda *cuda = b->impl;
	struct hr_gpu_facts *facts = &cuda->gpu.facts;
	struct hr_cuda_image image;
	struct hr_cuda_kernel kernel;
	int err = hr_cuda_image_load(&cuda->gpu, &image, hr_worker_roles_image, "role image");

	facts->roles = 0;
	for (size_t r = 0; !err && r < HR_GPU_ROLES_MAX; r++) {
		err = hr_cuda_kernel_find(&cuda->gpu, &image, &kernel, role[r].kernel);
		facts->role[r] = kernel.facts;
		snprintf(facts->role[r].name, HR_NAME_MAX, "%s", role[r].name);
	}
	hr_cuda_image_unload(&cuda->gpu, &image);
	if (!err)
		facts->roles = HR_GPU_ROLES_MAX;
	return tell(b, err);
}

static int cuda_limits(struct hr_backend *b, uint32_t times, struct hr_link_rates *limits)
{
	struct cuda *cuda = b->impl;

	return tell(b,
		    hr_cuda_link_rates(b, &cuda->gpu, &cuda->image, &cuda->launch, times, limits));
}

static int cuda_baseline(struct hr_backend *b, const struct hr_baseline_plan *plan, char *message)
{
	struct cuda *cuda = b->impl;
	const int err = hr_cuda_baseline(&cuda->gpu, plan);

	memcpy(message, err ? cuda->gpu.cu.error : "", err ? HR_LOG_LINE_MAX : 1);
	return err;
}

static bool window_mappable(void *to)
{
	struct cuda *cuda = to;

	return hr_cuda_dmabuf_mappable(&cuda->gpu);
}

static int window_export(void *to, uint64_t gpu, size_t bytes, int *fd)
{
	struct cuda *cuda = to;
	const int err = hr_cuda_dmabuf_export(&cuda->gpu, gpu, bytes, fd);

	if (err)
		hr_error("cuda:%d %s: %s", cuda->gpu.ordinal, cuda->gpu.facts.model,
			 cuda->gpu.cu.error);
	return err;
}

/* Everything down. The driver may take its time, or never come back. */
static void *take_down(void *argument)
{
	struct cuda *cuda = argument;

	hr_cuda_launch_close(&cuda->gpu, &cuda->launch);
	while (cuda->linked_count)
		hr_cuda_image_unload(&cuda->gpu, &cuda->linked[--cuda->linked_count].image);
	hr_cuda_image_unload(&cuda->gpu, &cuda->image);
	hr_cuda_host_close(&cuda->gpu, &cuda->host);
	for (unsigned i = 0; i < ARENAS_MAX; i++)
		if (cuda->arena[i].base)
			hr_cuda_arena_close(&cuda->gpu, &cuda->arena[i]);
	hr_cuda_gpu_close(&cuda->gpu);
	return NULL;
}

static bool ended_in_time(struct cuda *cuda)
{
	const uint64_t end = hr_now_ns() + CLOSE_NS;

	while (hr_cuda_launch_poll(&cuda->gpu, &cuda->launch) == 0) {
		if (hr_now_ns() > end)
			return false;
		hr_wait_ns(PAUSE_NS);
	}
	return true;
}

static bool taken_down_in_time(struct cuda *cuda)
{
	const uint64_t end = hr_now_ns() + CLOSE_NS;
	pthread_t thread;

	if (pthread_create(&thread, NULL, take_down, cuda) != 0) {
		take_down(cuda);
		return true;
	}
	while (pthread_tryjoin_np(thread, NULL) != 0) {
		if (hr_now_ns() > end) {
			pthread_detach(thread);
			return false;
		}
		hr_wait_ns(PAUSE_NS);
	}
	return true;
}

static void cuda_close(struct hr_backend *b)
{
	struct cuda *cuda = b->impl;

	if (!ended_in_time(cuda)) {
		hr_error("%s: worker blocks still run after %llu s; the GPU's memory stays in use "
			 "until this process ends",
			 b->name, CLOSE_NS / HR_NS_PER_S);
	} else {
		cuda->gpu.cu.CtxSetCurrent(NULL);
		if (taken_down_in_time(cuda))
			free(cuda);
		else
			hr_error(
				"%s: the driver has not let go of the GPU after %llu s; its memory "
				"stays in use until this process ends",
				b->name, CLOSE_NS / HR_NS_PER_S);
	}
	memset(b, 0, sizeof *b);
}

static const struct hr_backend_ops cuda_ops = {
	.attach = cuda_attach,
	.detach = cuda_detach,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.upload = cuda_upload,
	.download = cuda_download,
	.link = cuda_link,
	.resident = cuda_resident,
	.launch = cuda_launch,
	.poll = cuda_poll,
	.roles = cuda_roles,
	.limits = cuda_limits,
	.baseline = cuda_baseline,
	.close = cuda_close,
};

static int load_image(struct cuda *cuda)
{
	struct hr_gpu_facts *facts = &cuda->gpu.facts;
	int err = hr_cuda_image_load(&cuda->gpu, &cuda->image, hr_worker_image, "worker image");

	for (size_t i = 0; !err && i < KERNELS; i++) {
		err = hr_cuda_kernel_find(&cuda->gpu, &cuda->image, &cuda->kernel[i],
					  kernel_name[i]);
		facts->kernel[i] = cuda->kernel[i].facts;
	}
	facts->kernels = KERNELS;
	return err;
}

static int open_all(struct cuda *cuda, int ordinal, uint32_t *max_blocks)
{
	struct hr_cuda_gpu *gpu = &cuda->gpu;
	int err = hr_cuda_gpu_open(gpu, ordinal);

	if (!err && cuda->compressible && !gpu->facts.compressible)
		err = hr_cuda_say(&gpu->cu, -ENOTSUP, "%s %s: no compressible memory",
				  gpu->facts.pci, gpu->facts.model);
	if (!err)
		err = hr_cuda_host_open(gpu, &cuda->host);
	if (!err)
		err = hr_cuda_launch_open(gpu, &cuda->launch);
	if (!err)
		err = load_image(cuda);
	if (!err)
		err = hr_cuda_kernel_resident(gpu, &cuda->kernel[HR_KERNEL_PIPE], WARP, 0,
					      max_blocks);
	return err;
}

static void describe(struct hr_backend *b, struct cuda *cuda, uint32_t max_blocks)
{
	const struct hr_gpu_facts *facts = &cuda->gpu.facts;

	memset(b, 0, sizeof *b);
	b->ops = &cuda_ops;
	snprintf(b->name, sizeof b->name, "cuda:%d %.48s", cuda->gpu.ordinal, facts->model);
	b->lanes = WARP;
	b->max_blocks = max_blocks;
	b->processors = facts->processors;
	b->max_threads = cuda->kernel[HR_KERNEL_PIPE].facts.max_threads;
	b->facts = facts;
	cuda->window = (struct hr_window_driver){ window_mappable, window_export, cuda };
	if (facts->rdma && facts->rdma_virtual_memory && !cuda->compressible)
		b->window = &cuda->window;
	b->impl = cuda;
}

int hr_cuda_open(struct hr_backend *b, int ordinal, bool compressible, char *message)
{
	struct cuda *cuda = calloc(1, sizeof *cuda);
	uint32_t max_blocks = 0;
	int err;

	if (!cuda) {
		snprintf(message, HR_LOG_LINE_MAX, "out of memory");
		return -ENOMEM;
	}
	cuda->compressible = compressible;
	err = open_all(cuda, ordinal, &max_blocks);
	if (err) {
		memcpy(message, cuda->gpu.cu.error, HR_LOG_LINE_MAX);
		if (!cuda->gpu.context || taken_down_in_time(cuda))
			free(cuda);
		return err;
	}
	describe(b, cuda, max_blocks);
	if (b->facts->time_limit)
		hr_warn("%s: a display hangs on this GPU, and the driver ends what runs there for "
			"some seconds; pipelines need another GPU, or no display",
			b->name);
	return 0;
}
