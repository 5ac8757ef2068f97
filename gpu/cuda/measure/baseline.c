/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/measure/measure.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "gpu/cuda/measure/cufile.h"

#define JOIN_PAUSE_NS 20000ull

struct sweep;

/* A reader thread. While it runs, no other thread accesses this. */
struct reader {
	struct sweep *sweep;
	/* the function table, with an error buffer of this thread */
	struct hr_cuda_driver cu;
	pthread_t thread;
	CUstream stream;
	CUevent copied[2];
	uint8_t *host;	 /* pinned memory for two reads */
	CUdeviceptr gpu; /* GPU memory for two reads */
	uint64_t first, chunks, next, random;
	uint64_t reads, ended_ns;
	bool registered;
	int err;
};

struct sweep {
	struct hr_cuda_gpu *gpu;
	struct hr_baseline_plan plan; /* a copy, because threads may outlive the call */
	struct hr_baseline_row row;   /* the current row */
	struct hr_cufile cufile;
	void *host;
	CUdeviceptr memory;
	uint32_t threads; /* maximum of all rows */
	uint32_t io_max;  /* maximum of all rows */
	uint64_t began_ns, end_ns;
	_Atomic bool go;
	bool lost; /* a thread has not returned: nothing of this may be freed */
	struct sweep *next_lost;
	struct reader reader[HR_BASELINE_THREADS_MAX];
};

/* Until the process ends. */
static struct sweep *all_lost;

static uint64_t next_place(struct reader *r)
{
	if (r->sweep->row.random) {
		const uint64_t all = r->sweep->plan.file_bytes / r->sweep->row.io_bytes;

		r->random ^= r->random << 13;
		r->random ^= r->random >> 7;
		r->random ^= r->random << 17;
		return (uint64_t)((unsigned __int128)r->random * all >> 64);
	}
	return r->first + r->next++ % r->chunks;
}

static int pread_whole(struct reader *r, uint8_t *to, uint64_t at)
{
	const uint32_t bytes = r->sweep->row.io_bytes;

	for (uint32_t done = 0; done < bytes;) {
		const ssize_t got =
			pread(r->sweep->plan.fd, to + done, bytes - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return hr_cuda_fail(&r->cu, -errno, "pread: %s", strerror(errno));
		if (got == 0)
			return hr_cuda_fail(&r->cu, -EIO, "pread: the file has been truncated");
		done += (uint32_t)got;
	}
	return 0;
}

static int wait_copied(struct reader *r, uint32_t half)
{
	const uint64_t limit = hr_now_ns() + HR_CUDA_WAIT_NS;
	CUresult result;

	while ((result = r->cu.EventQuery(r->copied[half])) == CUDA_ERROR_NOT_READY)
		if (hr_now_ns() > limit)
			return hr_cuda_fail(&r->cu, -ETIMEDOUT, "a copy does not end");
	return hr_cuda_check(&r->cu, "cuEventQuery (copy)", result);
}

static int read_and_copy(struct reader *r, uint32_t half, uint64_t at)
{
	const uint32_t bytes = r->sweep->row.io_bytes;
	uint8_t *const host = r->host + (size_t)half * bytes;
	int err = r->reads > 1 ? wait_copied(r, half) : 0;

	if (!err)
		err = pread_whole(r, host, at);
	if (!err)
		err = HR_CU(&r->cu, MemcpyAsync, r->gpu + (size_t)half * bytes,
			    (CUdeviceptr)(uintptr_t)host, bytes, r->stream);
	if (!err)
		err = HR_CU(&r->cu, EventRecord, r->copied[half], r->stream);
	return err;
}

static int read_straight(struct reader *r, uint32_t half, uint64_t at)
{
	const struct hr_cufile *f = &r->sweep->cufile;
	const uint32_t bytes = r->sweep->row.io_bytes;
	const ssize_t got =
		f->read(f->file, (void *)(uintptr_t)r->gpu, bytes, (off_t)at, (off_t)half * bytes);

	if (got == (ssize_t)bytes)
		return 0;
	if (got == -1)
		return hr_cuda_fail(&r->cu, -ENOTSUP, "cuFileRead: %s", strerror(errno));
	if (got < 0)
		return hr_cuda_fail(&r->cu, -ENOTSUP, "cuFileRead: error %zd", -got);
	return hr_cuda_fail(&r->cu, -ENOTSUP, "cuFileRead: %zd of %u bytes", got, bytes);
}

/* Wait for the copies, so that all counted bytes are in GPU memory when the thread ends. */
static void *read_until_end(void *to)
{
	struct reader *r = to;
	const struct sweep *s = r->sweep;
	uint64_t now;

	r->err = HR_CU(&r->cu, CtxSetCurrent, s->gpu->context);
	while (!atomic_load(&s->go))
		sched_yield();
	for (now = s->began_ns; !r->err && now < s->end_ns; now = hr_now_ns()) {
		const uint32_t half = r->reads & 1;
		const uint64_t at = next_place(r) * s->row.io_bytes;

		r->err = s->plan.method == HR_BASELINE_PREAD ? read_and_copy(r, half, at)
							     : read_straight(r, half, at);
		r->reads += !r->err;
	}
	for (uint32_t half = 0; s->plan.method == HR_BASELINE_PREAD && half < 2; half++)
		if (!r->err && r->reads > half)
			r->err = wait_copied(r, half);
	r->ended_ns = hr_now_ns();
	return NULL;
}

static void set_reader(struct sweep *s, uint32_t i)
{
	struct reader *r = &s->reader[i];
	const uint64_t all = s->plan.file_bytes / s->row.io_bytes;

	r->chunks = all / s->row.threads;
	r->first = r->chunks * i;
	r->next = 0;
	r->random = (i + 1) * 0x9e3779b97f4a7c15u;
	r->reads = r->ended_ns = 0;
	r->err = 0;
}

/* A read in the kernel or in a library cannot be ended from outside, so the wait has a limit. */
static int join_readers(struct sweep *s, uint32_t started)
{
	const uint64_t limit = s->end_ns + s->plan.timeout_ns;

	for (uint32_t i = 0; i < started; i++) {
		while (!s->lost && pthread_tryjoin_np(s->reader[i].thread, NULL) != 0) {
			s->lost = hr_now_ns() > limit;
			hr_wait_ns(JOIN_PAUSE_NS);
		}
		if (s->lost)
			pthread_detach(s->reader[i].thread);
	}
	if (s->lost)
		return hr_cuda_fail(&s->gpu->cu, -ETIMEDOUT,
				    "a read of the file has not ended after %llu ms",
				    (unsigned long long)(s->plan.timeout_ns / HR_NS_PER_MS));
	for (uint32_t i = 0; i < started; i++)
		if (s->reader[i].err)
			return hr_cuda_fail(&s->gpu->cu, s->reader[i].err, "%s",
					    s->reader[i].cu.error.text);
	return 0;
}

static int measure_reads(struct sweep *s, double *bytes_per_s)
{
	uint64_t reads = 0, ended = 0;
	uint32_t started = 0;
	int err = 0, failed;

	atomic_store(&s->go, false);
	s->began_ns = s->end_ns = 0;
	while (!err && started < s->row.threads) {
		set_reader(s, started);
		err = -pthread_create(&s->reader[started].thread, NULL, read_until_end,
				      &s->reader[started]);
		started += !err;
	}
	s->began_ns = hr_now_ns();
	s->end_ns = s->began_ns + (err ? 0 : s->plan.duration_ns);
	atomic_store(&s->go, true);
	if (err)
		hr_cuda_fail(&s->gpu->cu, err, "thread %u: %s", started, strerror(-err));
	failed = join_readers(s, started);
	if (err || failed)
		return err ? err : failed;
	for (uint32_t i = 0; i < started; i++) {
		reads += s->reader[i].reads;
		ended = s->reader[i].ended_ns > ended ? s->reader[i].ended_ns : ended;
	}
	*bytes_per_s = (double)(reads * s->row.io_bytes) / (double)(ended - s->began_ns) * 1e9;
	return 0;
}

static int compare_rates(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int measure_row(struct sweep *s, struct hr_baseline_row *row)
{
	double value[HR_BASELINE_TIMES_MAX] = { 0 };

	s->row = *row;
	assert(s->plan.times > 0);
	for (uint32_t i = 0; i < s->plan.times; i++) {
		const int err = s->plan.stopped && s->plan.stopped()
					? hr_cuda_fail(&s->gpu->cu, -EINTR, "stopped")
					: measure_reads(s, &value[i]);

		if (err)
			return err;
	}
	qsort(value, s->plan.times, sizeof *value, compare_rates);
	row->bytes_per_s = value[s->plan.times / 2];
	return 0;
}

static int prepare_reader(struct sweep *s, uint32_t i)
{
	const size_t each = 2 * (size_t)s->io_max;
	struct reader *r = &s->reader[i];
	struct hr_cufile_error error = { 0 };
	int err = 0;

	r->sweep = s;
	r->cu = s->gpu->cu;
	r->gpu = s->memory + i * each;
	if (s->plan.method == HR_BASELINE_CUFILE) {
		error = s->cufile.buf_register((void *)(uintptr_t)r->gpu, each, 0);
		r->registered = !error.err;
		return error.err ? hr_cuda_fail(&s->gpu->cu, -ENOTSUP,
						"cuFileBufRegister: error %d, CUDA error %d",
						error.err, error.cu_err)
				 : 0;
	}
	r->host = (uint8_t *)s->host + i * each;
	err = HR_CU(&s->gpu->cu, StreamCreate, &r->stream, CU_STREAM_NON_BLOCKING);
	for (int half = 0; !err && half < 2; half++)
		err = HR_CU(&s->gpu->cu, EventCreate, &r->copied[half], CU_EVENT_DISABLE_TIMING);
	return err;
}

static int prepare_sweep(struct sweep *s)
{
	const size_t bytes = 2 * (size_t)s->io_max * s->threads;
	int err;

	hr_error_clear(&s->gpu->cu.error);
	err = hr_cuda_gpu_enter(s->gpu);
	if (!err && s->plan.method == HR_BASELINE_CUFILE)
		err = hr_cufile_open(&s->cufile, s->plan.fd, &s->gpu->cu.error);
	if (!err)
		err = HR_CU(&s->gpu->cu, MemAlloc, &s->memory, bytes);
	if (!err && s->plan.method == HR_BASELINE_PREAD)
		err = HR_CU(&s->gpu->cu, MemHostAlloc, &s->host, bytes, 0);
	for (uint32_t i = 0; !err && i < s->threads; i++)
		err = prepare_reader(s, i);
	return err;
}

static void release_sweep(struct sweep *s)
{
	const struct hr_cuda_driver *cu = &s->gpu->cu;

	for (uint32_t i = 0; i < s->threads; i++) {
		const struct reader *r = &s->reader[i];

		for (int half = 0; half < 2; half++)
			if (r->copied[half])
				cu->EventDestroy(r->copied[half]);
		if (r->stream)
			cu->StreamDestroy(r->stream);
		if (r->registered)
			s->cufile.buf_deregister((void *)(uintptr_t)r->gpu);
	}
	if (s->host)
		cu->MemFreeHost(s->host);
	if (s->memory)
		cu->MemFree(s->memory);
	hr_cufile_close(&s->cufile);
}

static int check_baseline_plan(struct hr_cuda_gpu *gpu, const struct hr_baseline_plan *plan)
{
	bool bad = plan->times % 2 == 0 || plan->times > HR_BASELINE_TIMES_MAX ||
		   plan->file_bytes < HR_BASELINE_FILE_MIN;

	for (uint32_t i = 0; i < plan->rows; i++)
		bad |= plan->row[i].threads < 1 || plan->row[i].io_bytes < 1 ||
		       plan->row[i].threads > HR_BASELINE_THREADS_MAX ||
		       plan->row[i].io_bytes > HR_BASELINE_IO_MAX;
	return bad ? hr_cuda_fail(&gpu->cu, -EINVAL, "a baseline that is out of range") : 0;
}

static int measure_all(struct sweep *s, const struct hr_baseline_plan *plan)
{
	int err;

	s->plan = *plan;
	for (uint32_t i = 0; i < plan->rows; i++) {
		s->threads = plan->row[i].threads > s->threads ? plan->row[i].threads : s->threads;
		s->io_max = plan->row[i].io_bytes > s->io_max ? plan->row[i].io_bytes : s->io_max;
	}
	err = prepare_sweep(s);
	for (uint32_t i = 0; !err && i < plan->rows; i++)
		err = measure_row(s, &plan->row[i]);
	return err;
}

int hr_cuda_baseline(struct hr_cuda_gpu *gpu, const struct hr_baseline_plan *plan)
{
	struct sweep *s;
	int err = check_baseline_plan(gpu, plan);

	if (err)
		return err;
	s = calloc(1, sizeof *s);
	if (!s)
		return hr_cuda_fail(&gpu->cu, -ENOMEM, "out of memory");
	s->gpu = gpu;
	err = measure_all(s, plan);
	if (s->lost) {
		s->next_lost = all_lost;
		all_lost = s;
		return err;
	}
	release_sweep(s);
	free(s);
	return err;
}
