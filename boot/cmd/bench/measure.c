#include "boot/cmd/bench/measure.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/stage_memory.h"
#include "config/clock.h"
#include "config/log.h"
#include "boot/engine/rings.h"
#include "boot/engine/signals.h"
#include "nvme/status.h"

#define OBJECT_BYTES_DEFAULT (256ull << 20)
#define OBJECT_TAG 0x68636e65622e7268u /* "hr.bench": what an earlier bench may have left */
#define POLL_NS 200000ull	       /* once workers may end any time; before that, seldom: */
#define LOOK_NS 5000000ull /* where there is one CPU for all, each look is taken from the workers */
#define GRACE_NS (10 * HR_NS_PER_S)

static uint32_t workers(const struct hr_measure *m)
{
	return m->shape.blocks * m->shape.workers;
}

static bool on_gpu(const struct hr_measure *m)
{
	return m->app->backend[m->shape.gpu].lanes > 1;
}

/* Commands of io_bytes that each of `count` workers has buffers for. */
static uint32_t depth_of(const struct hr_measure *m, uint32_t count, uint32_t io_bytes)
{
	const uint64_t fit = HR_MEASURE_BYTES / count / hr_plan_tile_bytes(io_bytes);

	return fit >= m->shape.depth ? m->shape.depth : (fit ? (uint32_t)fit : 1);
}

/* Bytes of all buffers: what the budget allows, or one large I/O for each worker. */
static uint64_t tile_bytes(const struct hr_measure *m)
{
	const uint64_t all = (uint64_t)workers(m) * m->shape.depth * m->shape.io_max;
	const uint64_t least = (uint64_t)workers(m) * m->shape.io_max;
	const uint64_t budget = least > HR_MEASURE_BYTES ? least : HR_MEASURE_BYTES;

	return all < budget ? all : budget;
}

/* Histograms: each lane of a worker has one of its own. */
static uint32_t histograms(const struct hr_measure *m)
{
	return workers(m) * m->app->backend[m->shape.gpu].lanes;
}

static size_t histogram_bytes(const struct hr_measure *m)
{
	return histograms(m) * HR_BENCH_BUCKETS * sizeof(uint64_t);
}

/* As the CPU sees what the description names for workers. */
static uint32_t *cpu_stop(const struct hr_measure *m)
{
	return hr_partition_cpu(m->partition, m->part_stop);
}

static struct hr_worker_status *cpu_status(const struct hr_measure *m)
{
	return hr_partition_cpu(m->partition, m->part_status);
}

static uint64_t *cpu_latency(const struct hr_measure *m)
{
	return hr_partition_cpu(m->partition, m->part_latency);
}

static struct hr_bench_cost *cpu_cost(const struct hr_measure *m)
{
	return hr_partition_cpu(m->partition, m->part_costs);
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

static int add(struct hr_measure *m, enum hr_place place, uint64_t bytes, uint32_t align,
	       const char *purpose, int *err)
{
	int part = hr_partition_add(m->partition, place, bytes, align, "bench", purpose);

	if (part < 0)
		*err = part;
	return part;
}

static int lay_out(struct hr_measure *m)
{
	const struct hr_ssd *ssd = &m->app->ssd[m->shape.ssd];
	uint64_t buffers = (uint64_t)workers(m) * m->shape.depth;
	uint64_t limit[HR_PLACES] = { 0 };
	int err = 0;

	hr_partition_init(m->partition, limit);
	m->part_bench = add(m, HR_PLACE_WORKER, sizeof(struct hr_bench), HR_CACHE_LINE,
			    "description", &err);
	m->part_qps = add(m, HR_PLACE_WORKER, workers(m) * sizeof(struct hr_nvme_qp), HR_CACHE_LINE,
			  "queue pairs", &err);
	m->part_tables =
		add(m, HR_PLACE_WORKER, workers(m) * hr_plan_table_bytes(ssd->queue_entries),
		    HR_CACHE_LINE, "commands in flight", &err);
	m->part_stop = add(m, HR_PLACE_CONTROL, sizeof(uint32_t), HR_CACHE_LINE, "stop flag", &err);
	m->part_status = add(m, HR_PLACE_CONTROL, workers(m) * sizeof(struct hr_worker_status),
			     HR_CACHE_LINE, "status of workers", &err);
	m->part_latency =
		add(m, HR_PLACE_WORKER, histogram_bytes(m), HR_CACHE_LINE, "latencies", &err);
	m->part_sent = add(m, HR_PLACE_WORKER, buffers * sizeof(struct hr_bench_sent),
			   HR_CACHE_LINE, "commands sent", &err);
	m->part_buffers = add(m, HR_PLACE_WORKER, buffers * sizeof(struct hr_buffer), HR_CACHE_LINE,
			      "buffers", &err);
	m->part_chunks = add(m, HR_PLACE_WORKER, buffers * sizeof(struct hr_prp), HR_CACHE_LINE,
			     "PRP entries", &err);
	m->part_rings =
		add(m, HR_PLACE_HOST, (uint64_t)workers(m) * hr_plan_ring_bytes(ssd->queue_entries),
		    hr_plan_ring_bytes(ssd->queue_entries), "rings", &err);
	m->part_costs = add(m, HR_PLACE_WORKER, workers(m) * sizeof(struct hr_bench_cost),
			    HR_CACHE_LINE, "costs", &err);
	m->part_tiles = add(m, HR_PLACE_HOST, tile_bytes(m), HR_PAGE, "data", &err);
	m->part_landing = on_gpu(m) ? add(m, HR_PLACE_GPU, tile_bytes(m), HR_PAGE,
					  "data, copied to and from there", &err)
				    : -1;
	/* At least a page, so that there is a part. */
	m->part_prps =
		add(m, HR_PLACE_HOST,
		    buffers * hr_buffer_prp_bytes(m->shape.io_max, ssd->chunk_bytes) + HR_PAGE,
		    HR_PAGE, "PRP lists", &err);
	if (err)
		hr_error("bench: its memory cannot be laid out");
	return err;
}

static int take_memory(struct hr_measure *m)
{
	struct hr_transport *t = &m->app->ssd[m->shape.ssd].transport;
	enum hr_place failed = HR_PLACE_HOST;
	char name[96];
	int err = hr_places_take(&m->memory, &m->app->backend[m->shape.gpu], m->partition->used,
				 &failed);

	if (!err)
		err = t->ops->map(t, &m->memory.region[HR_PLACE_HOST]);
	if (err) {
		hr_error("bench: cannot get or map %llu bytes of %s memory: %s",
			 (unsigned long long)m->partition->used[failed], hr_place_name(failed),
			 hr_error_name(err, name, sizeof name));
		return err;
	}
	m->mapped = true;
	hr_partition_bind(m->partition, m->memory.region);
	return hr_attach_bar(m->app, m->shape.gpu, m->shape.ssd);
}

/* What an earlier bench that was killed has left behind. */
static int remove_leftover(struct hr_store *store)
{
	struct hr_object *old = hr_store_find_pending(store, HR_MEASURE_OBJECT);

	if (old && old->tag == OBJECT_TAG)
		return hr_store_remove(store, old->id);
	return 0;
}

static void use_extent(struct hr_measure *m, uint64_t offset, uint64_t bytes)
{
	const struct hr_ssd *ssd = &m->app->ssd[m->shape.ssd];

	m->extent.lba = offset >> ssd->ns.lba_shift;
	m->extent.bytes = bytes;
	m->extent.nsid = ssd->ns.nsid;
	m->extent.lba_shift = ssd->ns.lba_shift;
	m->extent.ssd = m->shape.ssd;
	m->extent.chunk_bytes = ssd->chunk_bytes;
}

static bool keeps_data(const struct hr_measure *m)
{
	return !m->app->ssd[m->shape.ssd].transport.keeps_no_data;
}

/* An ssd that keeps no data has no objects, and nothing that could be spoiled. */
static int use_namespace(struct hr_measure *m)
{
	const struct hr_ssd *ssd = &m->app->ssd[m->shape.ssd];
	const uint64_t whole = ssd->ns.blocks << ssd->ns.lba_shift;
	const uint64_t bytes = whole - whole % m->shape.io_max;
	const uint64_t least = (uint64_t)m->shape.io_max * workers(m);

	if (bytes < least) {
		hr_error("bench: '%s' has %llu bytes; %u workers need %llu", ssd->transport.name,
			 (unsigned long long)whole, workers(m), (unsigned long long)least);
		return -ENOSPC;
	}
	use_extent(m, 0, bytes);
	m->extent.capacity = bytes;
	return 0;
}

static int create_object(struct hr_measure *m)
{
	struct hr_ssd *ssd = &m->app->ssd[m->shape.ssd];
	uint64_t bytes = m->shape.object_bytes;
	struct hr_store_space space;
	struct hr_object *object;
	char name[96];
	int err = remove_leftover(&ssd->store);

	hr_store_space(&ssd->store, &space);
	if (bytes == 0)
		bytes = space.largest_gap / 4 < OBJECT_BYTES_DEFAULT ? space.largest_gap / 4
								     : OBJECT_BYTES_DEFAULT;
	bytes -= bytes % m->shape.io_max;
	if (!err && bytes < (uint64_t)m->shape.io_max * workers(m))
		err = -ENOSPC;
	if (!err)
		err = hr_store_create(&ssd->store, HR_MEASURE_OBJECT, bytes, OBJECT_TAG, false,
				      &object);
	if (err) {
		hr_error(
			"bench: object '%s' cannot be created on '%s' (largest gap %llu bytes): %s",
			HR_MEASURE_OBJECT, ssd->transport.name,
			(unsigned long long)space.largest_gap,
			hr_error_name(err, name, sizeof name));
		return err;
	}
	use_extent(m, object->offset, object->bytes);
	m->extent.id = object->id;
	m->extent.capacity = object->capacity;
	return 0;
}

static int create_queues(struct hr_measure *m)
{
	struct hr_ssd *ssd = &m->app->ssd[m->shape.ssd];
	struct hr_nvme_qp *qp = hr_partition_cpu(m->partition, m->part_qps);
	struct hr_ssd_qp_place place = {
		.rings = &m->memory.region[HR_PLACE_HOST],
		.ring_at = m->partition->part[m->part_rings].offset,
		.tables = &m->memory.region[HR_PLACE_WORKER],
		.table_at = m->partition->part[m->part_tables].offset,
		.bar = m->app->bar[m->shape.gpu][m->shape.ssd],
	};
	int err = 0;

	for (uint32_t w = 0; !err && w < workers(m); w++) {
		err = hr_ssd_create_qp(ssd, &qp[w], &place);
		place.table_at += hr_plan_table_bytes(ssd->queue_entries);
		place.ring_at += hr_plan_ring_bytes(ssd->queue_entries);
	}
	return err;
}

int hr_measure_up(struct hr_measure *m, struct hr_appliance *app,
		  const struct hr_measure_shape *shape)
{
	int err;

	memset(m, 0, sizeof *m);
	m->app = app;
	m->shape = *shape;
	m->partition = calloc(1, sizeof *m->partition);
	if (!m->partition)
		return -ENOMEM;
	err = lay_out(m);
	if (!err)
		err = take_memory(m);
	if (!err)
		err = create_queues(m);
	if (!err)
		err = keeps_data(m) ? create_object(m) : use_namespace(m);
	if (err)
		hr_measure_down(m);
	else
		m->bench = hr_partition_cpu(m->partition, m->part_bench);
	return err;
}

/* Buffers for this size of I/O, one behind the other. */
static void make_buffers(struct hr_measure *m, const struct hr_measurement *r)
{
	const uint32_t count = r->queues * r->depth, bytes = hr_plan_tile_bytes(r->io_bytes);
	const struct hr_region *region = &m->memory.region[HR_PLACE_HOST];
	struct hr_buffer *buffer = hr_partition_cpu(m->partition, m->part_buffers);
	struct hr_prp *entry = hr_partition_cpu(m->partition, m->part_chunks);
	struct hr_prp *worker_entry = hr_partition_worker(m->partition, m->part_chunks);
	size_t data = m->partition->part[m->part_tiles].offset;
	size_t prps = m->partition->part[m->part_prps].offset;

	for (uint32_t i = 0; i < count; i++) {
		hr_buffer_init(&buffer[i], region, data, bytes, m->extent.chunk_bytes, region, prps,
			       &entry[i]);
		buffer[i].chunk = &worker_entry[i];
		data += bytes;
		prps += hr_buffer_prp_bytes(bytes, m->extent.chunk_bytes);
	}
}

/* How many blocks, and workers in each, make that many: full blocks, or one that is not. */
static void spread(const struct hr_measure *m, const struct hr_measurement *r, uint32_t *blocks,
		   uint32_t *per_block)
{
	assert(m->shape.workers > 0 && r->queues > 0);
	*per_block = r->queues < m->shape.workers ? r->queues : m->shape.workers;
	*blocks = r->queues / *per_block;
}

static void describe(struct hr_measure *m, uint64_t duration_ns, struct hr_measurement *wanted)
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
	b->qp = hr_partition_worker(m->partition, m->part_qps);
	b->buffer = hr_partition_worker(m->partition, m->part_buffers);
	b->stop = hr_partition_worker(m->partition, m->part_stop);
	b->status = hr_partition_worker(m->partition, m->part_status);
	b->sent = hr_partition_worker(m->partition, m->part_sent);
	b->latency = hr_partition_worker(m->partition, m->part_latency);
	if (on_gpu(m))
		b->cost = hr_partition_worker(m->partition, m->part_costs);
	if (wanted->copied)
		b->landing = hr_partition_worker(m->partition, m->part_landing);
	memset(cpu_stop(m), 0, sizeof(uint32_t));
	memset(cpu_status(m), 0, workers(m) * sizeof(struct hr_worker_status));
	memset(cpu_latency(m), 0, histogram_bytes(m));
	memset(cpu_cost(m), 0, workers(m) * sizeof(struct hr_bench_cost));
	make_buffers(m, wanted);
}

/* Counters of all queue pairs together; they are never reset. */
static struct hr_qp_stats counters(const struct hr_measure *m)
{
	const struct hr_nvme_qp *qp = hr_partition_cpu(m->partition, m->part_qps);
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
	for (uint32_t w = 0; w < workers(m); w++) {
		sum.commands += cpu_cost(m)[w].commands;
		sum.send_cycles += cpu_cost(m)[w].send_cycles;
		sum.reap_cycles += cpu_cost(m)[w].reap_cycles;
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
			count[i] += cpu_latency(m)[(size_t)h * HR_BENCH_BUCKETS + i];
	for (uint32_t i = 0; i < HR_BENCH_BUCKETS; i++)
		r->commands += count[i];
	r->iops = s > 0 ? (double)r->commands / s : 0;
	r->bytes_per_s = r->iops * r->io_bytes;
	for (size_t i = 0; i < sizeof share / sizeof *share; i++)
		r->latency_us[i] = hr_latency_us(count, share[i]);
}

/* The first failing block's error, logged; marks the ssd when its queue is no longer sound. */
static int find_failure(struct hr_measure *m)
{
	struct hr_ssd *ssd = &m->app->ssd[m->shape.ssd];
	const struct hr_nvme_qp *qp = hr_partition_cpu(m->partition, m->part_qps);
	char name[96];
	int err = 0;

	for (uint32_t w = 0; w < workers(m); w++)
		if (qp[w].broken || qp[w].stats.lost)
			hr_ssd_fail(ssd);
	for (uint32_t w = 0; !err && w < workers(m); w++) {
		const struct hr_worker_status *status = &cpu_status(m)[w];
		const struct hr_failure *f = &status->failure;

		if (!hr_acquire_sys_u32(&status->failed))
			continue;
		err = f->error;
		hr_error("bench: '%s', LBA %llu: queue %u command 0x%04x (%s): %s",
			 ssd->transport.name, (unsigned long long)f->lba, f->qid, f->cid,
			 hr_opcode_name(f->opcode, false), hr_error_name(err, name, sizeof name));
	}
	return err;
}

/* Blocks end by themselves: at the end of the time, or with a failure. */
static int wait_ended(struct hr_measure *m, uint64_t duration_ns)
{
	struct hr_backend *backend = &m->app->backend[m->shape.gpu];
	const uint64_t end = hr_now_ns() + duration_ns;
	const uint64_t limit = end + 2 * m->app->ssd[m->shape.ssd].timeout_ns;
	bool stopped = false;
	int ended;

	while ((ended = backend->ops->poll(backend)) == 0) {
		if (!stopped && (hr_signals_pending() || hr_now_ns() > limit)) {
			hr_release_sys_u32(cpu_stop(m), 1);
			stopped = true;
		}
		if (hr_now_ns() > limit + GRACE_NS) {
			hr_error("bench: worker blocks do not end");
			hr_ssd_disable(&m->app->ssd[m->shape.ssd]);
			exit(1);
		}
		hr_wait_ns(hr_now_ns() + LOOK_NS < end ? LOOK_NS : POLL_NS);
	}
	return ended < 0 ? ended : 0;
}

int hr_measure(struct hr_measure *m, uint64_t duration_ns, struct hr_measurement *result)
{
	struct hr_backend *backend = &m->app->backend[m->shape.gpu];
	const struct hr_qp_stats before = counters(m);
	uint64_t began;
	int err;

	describe(m, duration_ns, result);
	err = hr_places_upload(&m->memory);
	began = hr_now_ns();
	if (!err)
		err = backend->ops->launch(backend, HR_KERNEL_BENCH,
					   hr_partition_worker(m->partition, m->part_bench),
					   m->bench->blocks, m->bench->workers * backend->lanes, 0);
	if (!err)
		err = wait_ended(m, duration_ns);
	result->elapsed_ns = hr_now_ns() - began;
	if (!err)
		err = hr_places_download(&m->memory);
	if (err)
		hr_ssd_fail(&m->app->ssd[m->shape.ssd]);
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
	struct hr_ssd *ssd = &m->app->ssd[m->shape.ssd];

	if (m->extent.id && !ssd->failed)
		hr_store_remove(&ssd->store, m->extent.id);
	if (hr_ssd_delete_qps(ssd) != 0) {
		hr_warn("%s: does not stop; the bench's memory stays allocated",
			ssd->transport.name);
		return;
	}
	hr_detach_bar(m->app, m->shape.gpu, m->shape.ssd);
	if (m->mapped)
		ssd->transport.ops->unmap(&ssd->transport, &m->memory.region[HR_PLACE_HOST]);
	hr_places_give(&m->memory);
	free(m->partition);
	memset(m, 0, sizeof *m);
}
