/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/counters.h"

#include <string.h>

#include "boot/engine/remote/remote.h"
#include "boot/engine/shared_memory.h"
#include "boot/engine/run.h"
#include "config/base/clock.h"
#include "config/derived.h"

#define PIPELINE_ROW(field, text, unit, kind, where, what) \
	HR_COUNTER_ROW(struct hr_counters, field, text, unit, kind, 0, where, what),
#define ROLE_ROW(field, text, unit, kind, where, what) \
	HR_COUNTER_ROW(struct hr_role_counters, field, text, unit, kind, 0, where, what),
#define CACHE_ROW(field, text, unit, kind, where, what) \
	HR_COUNTER_ROW(struct hr_cache_counters, field, text, unit, kind, 0, where, what),
#define TAP_ROW(field, text, unit, kind, where, what) \
	HR_COUNTER_ROW(struct hr_tap_counters, field, text, unit, kind, 0, where, what),
#define REMOTE_ROW(field, text, unit, kind, where, what) \
	HR_COUNTER_ROW(struct hr_remote_counters, field, text, unit, kind, 0, where, what),
#define CONSUMER_ROW(field, text, unit, kind, where, what) \
	HR_COUNTER_ROW(struct hr_consumer_counters, field, text, unit, kind, 0, where, what),
#define FEED_ROW(field, text, unit, kind, where, what) \
	HR_COUNTER_ROW(struct hr_feed_counters, field, text, unit, kind, 0, where, what),
#define PRODUCER_ROW(field, text, unit, kind, where, what) \
	HR_COUNTER_ROW(struct hr_producer_counters, field, text, unit, kind, 0, where, what),
#define SSD_ROW(fault, text, what)                                                             \
	HR_COUNTER_ROW(struct faults, count[HR_FAULT_##fault], text, "", U64, 0, HR_IN_STATUS, \
		       what),

struct faults {
	uint64_t count[HR_FAULTS];
};

const struct hr_counter hr_pipeline_counters[] = { HR_PIPELINE_COUNTERS(PIPELINE_ROW){ 0 } };
const struct hr_counter hr_role_counters[] = { HR_ROLE_COUNTERS(ROLE_ROW){ 0 } };
const struct hr_counter hr_cache_counters[] = { HR_CACHE_COUNTERS(CACHE_ROW){ 0 } };
const struct hr_counter hr_tap_counters[] = { HR_TAP_COUNTERS(TAP_ROW){ 0 } };
const struct hr_counter hr_remote_counters[] = { HR_REMOTE_COUNTERS(REMOTE_ROW){ 0 } };
const struct hr_counter hr_consumer_counters[] = { HR_CONSUMER_COUNTERS(CONSUMER_ROW){ 0 } };
const struct hr_counter hr_feed_counters[] = { HR_FEED_COUNTERS(FEED_ROW){ 0 } };
const struct hr_counter hr_producer_counters[] = { HR_PRODUCER_COUNTERS(PRODUCER_ROW){ 0 } };
const struct hr_counter hr_ssd_counters[] = { HR_SSD_COUNTERS(SSD_ROW){ 0 } };

_Static_assert(sizeof hr_ssd_counters / sizeof *hr_ssd_counters == HR_FAULTS + 1,
	       "each fault has a row");

/* ---- counting */

static bool is_wired(const struct hr_engine *engine, const struct hr_run *run)
{
	return (engine->up >= HR_STAGE_QUEUES || run->started_ns) && hr_run_wired(run);
}

static void add_queue_counts(struct hr_role_counters *c, const struct hr_nvme_qp *qp,
			     uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		c->commands += qp[i].stats.submitted;
		c->batches += qp[i].stats.batches;
		c->fences += qp[i].stats.batches;
		c->doorbells += qp[i].stats.doorbells;
		c->odd_heads += qp[i].stats.odd;
	}
}

/* Add up the costs of the workers of a role. */
static void add_worker_costs(struct hr_role_counters *c, const struct hr_run *run, uint32_t role,
			     uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i < last; i++) {
		const struct hr_worker_cost *cost = &hr_run_status(run, i)->cost;

		c->cycles += cost->cycles;
		c->busy_cycles += cost->busy_cycles;
		c->rounds += cost->rounds;
		c->busy_rounds += cost->busy_rounds;
	}
	if (role == HR_ROLE_PREFETCH)
		add_queue_counts(c, run->cpu.read_qp, hr_run_workers(run, role) * run->ssds);
	else if (role == HR_ROLE_WRITEBACK && run->config->has_sink)
		add_queue_counts(c, run->cpu.write_qp, hr_run_workers(run, role));
	for (uint32_t p = 0; role == HR_ROLE_IO && p < hr_run_gpus(run); p++)
		add_queue_counts(c, run->gpu[p].cpu.qp, hr_run_workers(run, role) * run->ssds);
}

static void add_role_counts(struct hr_role_counters *c, const struct hr_run *run, uint32_t role)
{
	const uint32_t first = hr_run_first_status(run, role);
	const uint32_t last = first + hr_run_role_statuses(run, role);

	c->blocks = run->blocks[role] * hr_run_gpus(run);
	c->workers = last - first;
	for (uint32_t i = first; i < last; i++) {
		const struct hr_worker_status *status = hr_run_status(run, i);

		c->heartbeat += hr_acquire_sys_u64(&status->heartbeat);
		c->tiles += hr_acquire_sys_u64(&status->tiles);
		c->bytes += hr_acquire_sys_u64(&status->bytes);
		c->failed += hr_acquire_sys_u32(&status->failed);
		c->ended += hr_acquire_sys_u32(&status->ended);
	}
	if (run->workers_ended)
		add_worker_costs(c, run, role, first, last);
}

/* Counts of compute workers lie in the memory of workers, so they are known only at the end. */
static void add_hit_counts(struct hr_cache_counters *c, const struct hr_page_cache *cache)
{
	for (uint32_t w = 0; w < cache->computers; w++) {
		c->accesses += cache->worker[w].accesses;
		c->misses += cache->worker[w].misses;
		c->peer_reads += cache->worker[w].peer_reads;
		c->waits_ns += cache->worker[w].waits_ns;
	}
}

static void add_page_counts(struct hr_cache_counters *c, const struct hr_access *access)
{
	for (uint32_t w = 0; w < hr_access_io_workers(access); w++) {
		const struct hr_io_counters *from = &access->counters[w];

		c->requests += hr_acquire_sys_u64(&from->requests);
		c->merges += hr_acquire_sys_u64(&from->merges);
		c->pages_read += hr_acquire_sys_u64(&from->reads);
		c->read_commands += hr_acquire_sys_u64(&from->read_commands);
		c->pages_whole += hr_acquire_sys_u64(&from->whole);
		c->evictions += hr_acquire_sys_u64(&from->evictions);
		c->pages_written += hr_acquire_sys_u64(&from->write_backs);
		c->write_commands += hr_acquire_sys_u64(&from->write_commands);
		c->copies += hr_acquire_sys_u64(&from->copies);
		c->invalidations += hr_acquire_sys_u64(&from->invalidations);
		c->page_errors += hr_acquire_sys_u64(&from->errors);
	}
}

/* The sum over all gpus. */
static void add_cache_counts(struct hr_cache_counters *c, const struct hr_run *run)
{
	for (uint32_t p = 0; p < hr_run_gpus(run); p++) {
		add_page_counts(c, &run->gpu[p].cpu);
		if (run->workers_ended)
			add_hit_counts(c, &run->gpu[p].cpu.cache);
	}
	if (c->accesses && c->misses <= c->accesses)
		c->hits_ppm =
			(uint64_t)((double)(c->accesses - c->misses) * 1e6 / (double)c->accesses +
				   0.5);
}

static void read_tap_counts(struct hr_tap_counters *c, const struct hr_run *run, uint64_t done)
{
	const struct hr_tap_words *words = hr_run_tap_words(run);
	uint64_t others;

	c->dropped = hr_acquire_sys_u64(&words->dropped);
	c->failed = hr_acquire_sys_u64(&words->failed);
	c->redelivered = hr_acquire_sys_u64(&words->redelivered);
	c->waiting = run->ended_ns ? 0 : hr_acquire_sys_u64(&words->waiting);
	c->present = run->tap.present;
	c->attached = run->tap.attached;
	c->revoked = run->tap.revoked;
	c->refused = run->tap.refused;
	c->late = run->tap.late;
	others = c->dropped + c->failed; /* which may be newer than `done` */
	c->returned = done > others ? done - others : 0;
}

static void read_remote_counts(struct hr_remote_counters *c, const struct hr_engine *engine,
			       const struct hr_run *run)
{
	struct hr_remote_report report;

	hr_remote_snapshot(engine, run, &report);
	c->up = report.up;
	c->tiles = report.link.tiles;
	c->bytes = report.link.bytes;
	c->copies = report.copies;
	c->connections = report.link.connections;
	c->broken = report.link.broken;
	c->again = report.link.repeated;
	c->not_ready = report.link.not_ready;
	c->refused = report.link.refused;
	c->flushes = report.link.flushes;
	c->up_ns = report.link.up_ns;
	c->down_ns = report.link.down_ns;
	c->recovery_ns = report.link.last_recovery_ns;
}

static void read_feed_counts(struct hr_feed_counters *c, const struct hr_run *run)
{
	const struct hr_feed_words *words = hr_run_feed_words(run);

	c->next = hr_acquire_sys_u64(&words->next);
	c->discarded = hr_acquire_sys_u64(&words->discarded);
	c->present = run->feed.present;
	c->attached = run->feed.attached;
	c->revoked = run->feed.revoked;
	c->refused = run->feed.refused;
	c->late = run->feed.late;
}

void hr_counters_snapshot(struct hr_counters *c, const struct hr_engine *engine,
			  const struct hr_run *run)
{
	const bool wired = is_wired(engine, run);

	memset(c, 0, sizeof *c);
	c->tiles = run->tiles;
	c->first_tile = run->first_tile;
	c->durable_tiles = run->durable_tiles;
	c->durable_bytes = run->durable_tiles * run->sink_tile_bytes;
	if (c->durable_bytes > run->sink_bytes)
		c->durable_bytes = run->sink_bytes;
	c->read_bytes = hr_run_bytes_read(run);
	if (run->ended_ns)
		c->tiles_done = run->done_tiles;
	else if (wired && run->started_ns)
		c->tiles_done = hr_run_tiles_done(run);
	for (uint32_t role = 0; wired && role < HR_RUN_ROLES; role++)
		if (run->blocks[role])
			add_role_counts(&c->role[role], run, role);
	if (wired && run->gpu[0].access)
		add_cache_counts(&c->cache, run);
	if (wired && hr_config_has_tap(run->config))
		read_tap_counts(&c->tap, run, c->tiles_done);
	if (run->config && hr_config_is_remote(run->config))
		read_remote_counts(&c->remote, engine, run);
	if (wired && hr_config_has_feed(run->config) && !hr_config_receives(run->config))
		read_feed_counts(&c->feed, run);
}

void hr_counters_time(struct hr_counters *c, uint64_t started_ns, uint64_t ended_ns,
		      uint64_t now_ns)
{
	c->duration_ns = started_ns ? (ended_ns ? ended_ns : now_ns) - started_ns : 0;
	c->read_bytes_per_s = 0;
	if (c->duration_ns)
		c->read_bytes_per_s =
			(uint64_t)((double)c->read_bytes * HR_NS_PER_S / (double)c->duration_ns +
				   0.5);
}

/* ---- output */

static void json_counter(struct hr_json *out, const struct hr_counter *row, const void *at,
			 bool whole)
{
	switch ((enum hr_counter_type)row->type) {
	case HR_COUNTER_U64:
		hr_json_u64(out, row->name, *(const uint64_t *)at);
		break;
	case HR_COUNTER_U32:
		hr_json_u64(out, row->name, *(const uint32_t *)at);
		break;
	case HR_COUNTER_NS:
		if (whole)
			hr_json_u64(out, row->name, *(const uint64_t *)at / HR_NS_PER_MS);
		else
			hr_json_fixed(out, row->name, (double)*(const uint64_t *)at / HR_NS_PER_MS,
				      3);
		break;
	case HR_COUNTER_REAL:
		hr_json_fixed(out, row->name, *(const double *)at, row->decimals);
		break;
	}
}

void hr_counters_json(struct hr_json *out, const struct hr_counter *row, const void *of,
		      unsigned in)
{
	for (; row->name; row++)
		if ((row->in & in & HR_IN_ANY) && !(row->in & ~in & ~(unsigned)HR_IN_ANY))
			json_counter(out, row, (const char *)of + row->at, in & HR_IN_STATUS);
}

void hr_role_counters_json(struct hr_json *out, const struct hr_counters *c, unsigned in)
{
	static const char *const name[HR_RUN_ROLES] = { "prefetch", "compute", "writeback", "io",
							"compute" };

	for (uint32_t role = 0; role < HR_RUN_ROLES; role++) {
		const struct hr_role_counters *of = &c->role[role];
		const unsigned queues =
			role == HR_ROLE_COMPUTE || role == HR_ROLE_ACCESS ? 0 : HR_IF_QUEUES;

		if (!of->blocks)
			continue;
		hr_json_object(out, name[role]);
		hr_counters_json(out, hr_role_counters, of,
				 in | queues | (of->cycles ? HR_IF_CYCLES : 0));
		hr_json_close(out);
	}
	if (c->role[HR_ROLE_IO].blocks) {
		hr_json_object(out, "cache");
		hr_counters_json(out, hr_cache_counters, &c->cache, in);
		hr_json_close(out);
	}
}
