/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/bench/measure.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/bringup/stage.h"
#include "boot/engine/run.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/error.h"
#include "boot/engine/layout/sizes.h"
#include "config/base/process.h"
#include "gpu/backend.h"
#include "nvme/queue/status.h"

#define OBJECT_BYTES_DEFAULT (256ull << 20)
/* "hr.bench": tag that identifies objects of an earlier bench. */
#define OBJECT_TAG 0x68636e65622e7268u
/* Interval of polls near the end; before it polls are rarer. */
#define POLL_NS 200000ull
#define LOOK_NS 5000000ull /* with one CPU for everything, each poll takes time from the workers */
#define AT(member) .pointer = offsetof(struct hr_bench, member)

static uint32_t workers(const struct hr_measure *m)
{
	return m->shape.blocks * m->shape.workers;
}

static bool on_gpu(const struct hr_measure *m)
{
	return m->engine->backend[m->shape.gpu].lanes > 1;
}

/* Number of commands of io_bytes for which each of `count` workers has buffers. */
static uint32_t depth_of(const struct hr_measure *m, uint32_t count, uint32_t io_bytes)
{
	const uint64_t fit = HR_MEASURE_BYTES / count / hr_layout_tile_bytes(io_bytes);

	return fit >= m->shape.depth ? m->shape.depth : (fit ? (uint32_t)fit : 1);
}

/* Bytes of all buffers: the budget, or one large I/O for each worker. */
static uint64_t tile_bytes(const struct hr_measure *m)
{
	const uint64_t all = (uint64_t)workers(m) * m->shape.depth * m->shape.io_max;
	const uint64_t least = (uint64_t)workers(m) * m->shape.io_max;
	const uint64_t budget = least > HR_MEASURE_BYTES ? least : HR_MEASURE_BYTES;

	return all < budget ? all : budget;
}

/* Number of histograms: one per lane of a worker. */
static uint32_t histograms(const struct hr_measure *m)
{
	return workers(m) * m->engine->backend[m->shape.gpu].lanes;
}

static size_t histogram_bytes(const struct hr_measure *m)
{
	return histograms(m) * HR_BENCH_BUCKETS * sizeof(uint64_t);
}

double hr_latency_us(const uint64_t count[HR_BENCH_BUCKETS], double share)
{
	uint64_t total = 0, reached = 0;

	for (uint32_t i = 0; i < HR_BENCH_BUCKETS; i++)
		total += count[i];
	if (total == 0)
		return 0;
	for (uint32_t i = 0; i < HR_BENCH_BUCKETS; i++) {
		reached += count[i];
		if ((double)reached >= share * (double)total)
			return (double)hr_bench_bucket_ns(i + 1) / 1000;
	}
	return (double)hr_bench_bucket_ns(HR_BENCH_BUCKETS) / 1000;
}

static int lay_out(struct hr_measure *m)
{
	const struct hr_ssd *ssd = &m->engine->ssd[m->shape.ssd];
	const uint32_t ring_bytes = hr_layout_ring_bytes(ssd->queue_entries);
	const uint64_t buffers = (uint64_t)workers(m) * m->shape.depth;
	const uint64_t prp_bytes = hr_buffer_prp_bytes(m->shape.io_max, ssd->chunk_bytes);
	const uint64_t limit[HR_PLACES] = { 0 };
	const struct hr_layout_row row[] = {
		{ "description", HR_PLACE_WORKER, 1, sizeof(struct hr_bench),
		  .part = &m->descriptor },
		{ "queue pairs", HR_PLACE_WORKER, workers(m), sizeof *m->cpu.qp, AT(qp) },
		{ "commands in flight", HR_PLACE_WORKER, workers(m),
		  hr_layout_table_bytes(ssd->queue_entries), .part = &m->tables },
		{ "stop flag", HR_PLACE_CONTROL, 1, sizeof *m->cpu.stop, AT(stop) },
		{ "status of workers", HR_PLACE_CONTROL, workers(m), sizeof *m->cpu.status,
		  AT(status) },
		{ "latencies", HR_PLACE_WORKER, 1, histogram_bytes(m), AT(latency) },
		{ "commands sent", HR_PLACE_WORKER, buffers, sizeof *m->cpu.sent, AT(sent) },
		{ "buffers", HR_PLACE_WORKER, buffers, sizeof *m->cpu.buffer, AT(buffer) },
		{ "PRP entries", HR_PLACE_WORKER, buffers, sizeof(struct hr_prp),
		  .part = &m->chunks },
		{ "rings", HR_PLACE_HOST, workers(m), ring_bytes, .align = ring_bytes,
		  .part = &m->rings },
		{ "costs", HR_PLACE_WORKER, on_gpu(m) ? workers(m) : 0, sizeof *m->cpu.cost,
		  AT(cost) },
		{ "data", HR_PLACE_HOST, 1, tile_bytes(m), .align = HR_PAGE, .part = &m->tiles },
		{ "data, copied to and from there", HR_PLACE_GPU, on_gpu(m), tile_bytes(m),
		  AT(landing), .align = HR_PAGE },
		/* At least one page, so that the part exists. */
		{ "PRP lists", HR_PLACE_HOST, 1, buffers * prp_bytes + HR_PAGE, .align = HR_PAGE,
		  .part = &m->prps },
	};
	int err;

	hr_partition_init(m->partition, limit);
	hr_layout_begin(&m->parts, m->partition, "bench");
	err = hr_layout_add(&m->parts, row, sizeof row / sizeof *row);
	return err ? hr_fail(&m->engine->error, HR_ERROR_FAILED, err,
			     "bench: the layout of its memory failed")
		   : 0;
}

static int allocate_measure(struct hr_measure *m)
{
	struct hr_transport *t = &m->engine->ssd[m->shape.ssd].transport;
	int err = hr_places_alloc(&m->memory, &m->engine->backend[m->shape.gpu], m->partition->used,
				  &m->engine->error);

	hr_error_context(&m->engine->error, "bench");
	if (err)
		return err;
	err = t->ops->map(t, &m->memory.region[HR_PLACE_HOST], &m->engine->error);
	if (err) {
		hr_error_context(&m->engine->error,
				 "bench: cannot map %zu bytes of host memory for %s",
				 m->memory.region[HR_PLACE_HOST].bytes, t->name);
		return err;
	}
	m->mapped = true;
	hr_partition_bind(m->partition, m->memory.region);
	hr_layout_point_cpu(&m->parts, &m->cpu);
	return hr_attach_bar(m->engine, m->shape.gpu, m->shape.ssd);
}

/* Remove the object of an earlier bench that was killed. */
static int remove_leftover(struct hr_store *store, struct hr_error *e)
{
	struct hr_store_object *old = hr_store_find_pending(store, HR_MEASURE_OBJECT);

	if (old && old->tag == OBJECT_TAG)
		return hr_store_remove(store, old->id, e);
	return 0;
}

static void use_extent(struct hr_measure *m, uint64_t offset, uint64_t bytes)
{
	const struct hr_ssd *ssd = &m->engine->ssd[m->shape.ssd];

	m->extent.lba = offset >> ssd->ns.lba_shift;
	m->extent.bytes = bytes;
	m->extent.nsid = ssd->ns.nsid;
	m->extent.lba_shift = ssd->ns.lba_shift;
	m->extent.ssd = m->shape.ssd;
	m->extent.chunk_bytes = ssd->chunk_bytes;
}

static bool keeps_data(const struct hr_measure *m)
{
	return !m->engine->ssd[m->shape.ssd].transport.keeps_no_data;
}

/* An ssd that keeps no data has no objects and no data that could be overwritten. */
static int use_namespace(struct hr_measure *m)
{
	const struct hr_ssd *ssd = &m->engine->ssd[m->shape.ssd];
	const uint64_t whole = ssd->ns.blocks << ssd->ns.lba_shift;
	const uint64_t bytes = whole - whole % m->shape.io_max;
	const uint64_t least = (uint64_t)m->shape.io_max * workers(m);

	if (bytes < least)
		return hr_fail(&m->engine->error, HR_ERROR_FAILED, -ENOSPC,
			       "bench: '%s' has %llu bytes; %u workers need %llu",
			       ssd->transport.name, (unsigned long long)whole, workers(m),
			       (unsigned long long)least);
	use_extent(m, 0, bytes);
	m->extent.capacity = bytes;
	return 0;
}

static int create_object(struct hr_measure *m)
{
	struct hr_ssd *ssd = &m->engine->ssd[m->shape.ssd];
	uint64_t bytes = m->shape.object_bytes;
	struct hr_store_space space;
	struct hr_store_object *object;
	char name[96];
	int err = remove_leftover(&ssd->store, &m->engine->error);

	hr_store_space(&ssd->store, &space);
	if (bytes == 0)
		bytes = space.largest_gap / 4 < OBJECT_BYTES_DEFAULT ? space.largest_gap / 4
								     : OBJECT_BYTES_DEFAULT;
	bytes -= bytes % m->shape.io_max;
	if (!err && bytes < (uint64_t)m->shape.io_max * workers(m))
		err = -ENOSPC;
	if (!err)
		err = hr_store_create(&ssd->store, HR_MEASURE_OBJECT, bytes, OBJECT_TAG, false,
				      &object, &m->engine->error);
	if (err) {
		hr_fail(&m->engine->error, HR_ERROR_FAILED, err, "%s",
			hr_store_error_name(err, name, sizeof name));
		hr_error_context(&m->engine->error,
				 "bench: object '%s' cannot be created on '%s' (largest gap %llu "
				 "bytes)",
				 HR_MEASURE_OBJECT, ssd->transport.name,
				 (unsigned long long)space.largest_gap);
		return err;
	}
	use_extent(m, object->offset, object->bytes);
	m->extent.id = object->id;
	m->extent.capacity = object->capacity;
	return 0;
}

static int create_queues(struct hr_measure *m)
{
	struct hr_ssd *ssd = &m->engine->ssd[m->shape.ssd];
	struct hr_ssd_qp_memory memory = {
		.rings = &m->memory.region[HR_PLACE_HOST],
		.ring_at = m->partition->part[m->rings].offset,
		.tables = &m->memory.region[HR_PLACE_WORKER],
		.table_at = m->partition->part[m->tables].offset,
		.bar = m->engine->bar[m->shape.gpu][m->shape.ssd],
	};
	int err = 0;

	for (uint32_t w = 0; !err && w < workers(m); w++) {
		err = hr_ssd_create_qp(ssd, &m->cpu.qp[w], &memory, &m->engine->error);
		memory.table_at += hr_layout_table_bytes(ssd->queue_entries);
		memory.ring_at += hr_layout_ring_bytes(ssd->queue_entries);
	}
	return err;
}

int hr_measure_up(struct hr_measure *m, struct hr_engine *engine,
		  const struct hr_measure_shape *shape)
{
	int err;

	memset(m, 0, sizeof *m);
	m->engine = engine;
	m->shape = *shape;
	m->partition = calloc(1, sizeof *m->partition);
	if (!m->partition)
		return hr_fail(&engine->error, HR_ERROR_MISSING, -ENOMEM,
			       "bench: out of memory for the layout: %zu bytes",
			       sizeof *m->partition);
	err = lay_out(m);
	if (!err)
		err = allocate_measure(m);
	if (!err)
		err = create_queues(m);
	if (!err)
		err = keeps_data(m) ? create_object(m) : use_namespace(m);
	if (err)
		hr_measure_down(m);
	else
		m->bench = hr_partition_cpu(m->partition, m->descriptor);
	return err;
}

/* Set up consecutive buffers for this I/O size. */
static void make_buffers(struct hr_measure *m, const struct hr_measurement *r)
{
	const uint32_t count = r->queues * r->depth, bytes = hr_layout_tile_bytes(r->io_bytes);
	const struct hr_region *region = &m->memory.region[HR_PLACE_HOST];
	struct hr_buffer *buffer = m->cpu.buffer;
	struct hr_prp *entry = hr_partition_cpu(m->partition, m->chunks);
	struct hr_prp *worker_entry = hr_partition_worker(m->partition, m->chunks);
	size_t data = m->partition->part[m->tiles].offset;
	size_t prps = m->partition->part[m->prps].offset;

	for (uint32_t i = 0; i < count; i++) {
		hr_buffer_init(&buffer[i], region, data, bytes, m->extent.chunk_bytes, region, prps,
			       &entry[i]);
		buffer[i].chunk = &worker_entry[i];
		data += bytes;
		prps += hr_buffer_prp_bytes(bytes, m->extent.chunk_bytes);
	}
}

/* Split the workers into blocks: full blocks, or one block that is not full. */
static void spread(const struct hr_measure *m, const struct hr_measurement *r, uint32_t *blocks,
		   uint32_t *per_block)
{
	assert(m->shape.workers > 0 && r->queues > 0);
	*per_block = r->queues < m->shape.workers ? r->queues : m->shape.workers;
	*blocks = r->queues / *per_block;
}

static void describe_bench(struct hr_measure *m, uint64_t duration_ns,
			   struct hr_measurement *wanted)
{
	struct hr_bench *b = m->bench;

	memset(b, 0, sizeof *b);
	if (wanted->queues == 0 || wanted->queues > workers(m))
		wanted->queues = workers(m);
	spread(m, wanted, &b->blocks, &b->workers);
	wanted->queues = b->blocks * b->workers;
	wanted->blocks = b->blocks;
	wanted->depth = depth_of(m, wanted->queues, wanted->io_bytes);
	wanted->copied &= on_gpu(m);
	b->extent = m->extent;
	b->write = wanted->write;
	b->pattern = wanted->pattern;
	b->io_bytes = wanted->io_bytes;
	b->depth = wanted->depth;
	b->duration_ns = duration_ns;
	b->seed = 1;
	hr_layout_point_workers(&m->parts, b);
	if (!wanted->copied)
		b->landing = NULL;
	*m->cpu.stop = 0;
	memset(m->cpu.status, 0, workers(m) * sizeof *m->cpu.status);
	memset(m->cpu.latency, 0, histogram_bytes(m));
	if (m->cpu.cost)
		memset(m->cpu.cost, 0, workers(m) * sizeof *m->cpu.cost);
	make_buffers(m, wanted);
}

/* Sum of the counters of all queue pairs; counters are never reset. */
static struct hr_qp_stats counters(const struct hr_measure *m)
{
	const struct hr_nvme_qp *qp = m->cpu.qp;
	struct hr_qp_stats sum = { 0 };

	for (uint32_t w = 0; w < workers(m); w++) {
		sum.submitted += qp[w].stats.submitted;
		sum.doorbells += qp[w].stats.doorbells;
		sum.batches += qp[w].stats.batches;
		sum.releases += qp[w].stats.releases;
	}
	return sum;
}

static void sum_up_costs(const struct hr_measure *m, const struct hr_qp_stats *before,
			 struct hr_measurement *r)
{
	const struct hr_qp_stats after = counters(m);
	const double batches = (double)(after.batches - before->batches);
	struct hr_bench_cost sum = { 0 };

	if (batches > 0) {
		r->batch_commands = (double)(after.submitted - before->submitted) / batches;
		r->doorbells_per_batch = (double)(after.doorbells - before->doorbells) / batches;
		r->fences_per_batch = 1 + (double)(after.releases - before->releases) / batches;
	}
	for (uint32_t w = 0; m->cpu.cost && w < workers(m); w++) {
		sum.commands += m->cpu.cost[w].commands;
		sum.send_cycles += m->cpu.cost[w].send_cycles;
		sum.reap_cycles += m->cpu.cost[w].reap_cycles;
	}
	if (sum.commands) {
		r->send_cycles = (double)sum.send_cycles / (double)sum.commands;
		r->reap_cycles = (double)sum.reap_cycles / (double)sum.commands;
	}
}

static void sum_up(const struct hr_measure *m, struct hr_measurement *r)
{
	static const double share[] = { 0.5, 0.99, 0.999, 1 };
	uint64_t count[HR_BENCH_BUCKETS] = { 0 };
	double s = (double)r->elapsed_ns / 1e9;

	r->commands = 0;
	for (uint32_t h = 0; h < histograms(m); h++)
		for (uint32_t i = 0; i < HR_BENCH_BUCKETS; i++)
			count[i] += m->cpu.latency[(size_t)h * HR_BENCH_BUCKETS + i];
	for (uint32_t i = 0; i < HR_BENCH_BUCKETS; i++)
		r->commands += count[i];
	r->iops = s > 0 ? (double)r->commands / s : 0;
	r->bytes_per_s = r->iops * r->io_bytes;
	for (size_t i = 0; i < sizeof share / sizeof *share; i++)
		r->latency_us[i] = hr_latency_us(count, share[i]);
}

/* Keep the error of the first failed block, and mark the ssd when its queue is no longer usable. */
static int find_failure(struct hr_measure *m)
{
	struct hr_ssd *ssd = &m->engine->ssd[m->shape.ssd];
	const struct hr_nvme_qp *qp = m->cpu.qp;
	char name[96];
	int err = 0;

	for (uint32_t w = 0; w < workers(m); w++)
		hr_health_take_qp(&ssd->health, &qp[w]);
	for (uint32_t w = 0; !err && w < workers(m); w++) {
		const struct hr_worker_status *status = &m->cpu.status[w];
		const struct hr_failure *f = &status->failure;

		if (!hr_acquire_sys_u32(&status->failed))
			continue;
		err = f->error;
		hr_fail(&m->engine->error, HR_ERROR_DEVICE, err,
			"bench: '%s', LBA %llu: queue %u command 0x%04x (%s): %s",
			ssd->transport.name, (unsigned long long)f->lba, f->qid, f->cid,
			hr_opcode_name(f->opcode, false), hr_error_name(err, name, sizeof name));
	}
	return err;
}

/* Limit for workers that do not start, or do not end, in ms; the same as for pipelines. */
static unsigned long long limit_ms(const struct hr_measure *m)
{
	return (m->engine->timeout_ns ? m->engine->timeout_ns : HR_STALL_TIMEOUT_NS) / HR_NS_PER_MS;
}

/* Workers whose block does not run yet. */
static uint32_t absent(const struct hr_measure *m)
{
	const uint32_t all = m->bench->blocks * m->bench->workers;
	uint32_t count = 0;

	for (uint32_t w = 0; w < all; w++)
		count += !hr_acquire_sys_u64(&m->cpu.status[w].heartbeat);
	return count;
}

/*
 * Blocks cannot be ended from outside, so the process ends. A block that has not started would run
 * after the others, and the rates would be wrong.
 */
static void abandon_blocks(struct hr_measure *m, uint32_t missing)
{
	const char *gpu = m->engine->backend[m->shape.gpu].name;

	if (missing)
		hr_error("bench: %u of %u workers have not started after %llu ms: %s does not hold "
			 "all blocks at once; controllers are disabled",
			 missing, m->bench->blocks * m->bench->workers, limit_ms(m), gpu);
	else
		hr_error(
			"bench: worker blocks of %s have not ended %llu ms after their time limit; "
			"controllers are disabled",
			gpu, limit_ms(m));
	for (uint32_t d = 0; d < m->engine->config.ssds; d++)
		hr_ssd_disable(&m->engine->ssd[d]);
	_exit(HR_EXIT_DEVICE);
}

/* Blocks end by themselves, at the end of the time or after a failure. */
static int wait_ended(struct hr_measure *m, struct hr_launch *launch, uint64_t duration_ns)
{
	const uint64_t began = hr_now_ns(), end = began + duration_ns;
	const uint64_t limit = end + 2 * m->engine->ssd[m->shape.ssd].timeout_ns;
	const uint64_t grace = limit_ms(m) * HR_NS_PER_MS;
	bool stopped = false;
	int ended;

	while ((ended = hr_launch_poll(launch, &m->engine->error)) == 0) {
		const uint64_t now = hr_now_ns();
		const uint32_t missing = now > began + grace ? absent(m) : 0;

		if (!stopped && (hr_signals_pending() || now > limit)) {
			hr_launch_stop(launch, 1);
			stopped = true;
		}
		if (missing || now > limit + grace)
			abandon_blocks(m, missing);
		hr_wait_ns(hr_now_ns() + LOOK_NS < end ? LOOK_NS : POLL_NS);
	}
	return ended < 0 ? ended : 0;
}

static int launch_and_wait(struct hr_measure *m, uint64_t duration_ns)
{
	struct hr_backend *backend = &m->engine->backend[m->shape.gpu];
	const struct hr_launch_args args = {
		.entry = HR_ENTRY_BENCH,
		.argument = hr_partition_worker(m->partition, m->descriptor),
		.blocks = m->bench->blocks,
		.threads = m->bench->workers * backend->lanes,
		.stop = m->cpu.stop,
	};
	struct hr_launch *launch;
	int err = backend->ops->launch(backend, &args, &launch, &m->engine->error);

	if (err)
		return err;
	err = wait_ended(m, launch, duration_ns);
	hr_launch_free(launch);
	return err;
}

int hr_measure(struct hr_measure *m, uint64_t duration_ns, struct hr_measurement *result)
{
	const struct hr_qp_stats before = counters(m);
	uint64_t began;
	int err;

	describe_bench(m, duration_ns, result);
	err = hr_layout_upload(&m->parts, &m->memory, &m->engine->error);
	began = hr_now_ns();
	if (!err)
		err = launch_and_wait(m, duration_ns);
	result->elapsed_ns = hr_now_ns() - began;
	if (!err)
		err = hr_layout_download(&m->parts, &m->memory, &m->engine->error);
	if (err)
		hr_health_fault(&m->engine->ssd[m->shape.ssd].health, HR_FAULT_UNKNOWN_QUEUES, NULL,
				err, NULL);
	else
		err = find_failure(m);
	sum_up(m, result);
	sum_up_costs(m, &before, result);
	if (!err && hr_signals_pending())
		err = -EINTR;
	return err;
}

static int by_rate(const void *a, const void *b)
{
	const struct hr_measurement *x = a, *y = b;

	return (x->iops > y->iops) - (x->iops < y->iops);
}

int hr_measure_median(struct hr_measure *m, uint64_t duration_ns, uint32_t times,
		      struct hr_measurement *result)
{
	struct hr_measurement each[HR_MEASURE_TIMES_MAX];

	if (times % 2 == 0 || times > HR_MEASURE_TIMES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < times; i++) {
		int err;

		each[i] = *result;
		err = hr_measure(m, duration_ns, &each[i]);
		if (err)
			return err;
	}
	qsort(each, times, sizeof *each, by_rate);
	*result = each[times / 2];
	result->worst_iops = each[0].iops;
	result->best_iops = each[times - 1].iops;
	return 0;
}

void hr_measure_down(struct hr_measure *m)
{
	struct hr_error e = { 0 };
	struct hr_ssd *ssd = &m->engine->ssd[m->shape.ssd];

	if (m->extent.id && !hr_health_failed(&ssd->health))
		hr_store_remove(&ssd->store, m->extent.id, &e);
	hr_error_log(&e, HR_LOG_WARN);
	if (hr_ssd_delete_qps(ssd) != 0) {
		hr_warn("%s: does not stop; the bench's memory stays allocated",
			ssd->transport.name);
		return;
	}
	hr_detach_bar(m->engine, m->shape.gpu, m->shape.ssd);
	if (m->mapped)
		ssd->transport.ops->unmap(&ssd->transport, &m->memory.region[HR_PLACE_HOST]);
	hr_places_free(&m->memory);
	free(m->partition);
	memset(m, 0, sizeof *m);
}
