/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/ranks/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/objects/shards.h"
#include "boot/engine/objects/checksums.h"
#include "boot/engine/runner/conclude.h"
#include "cache/crc32c.h"

/* The run of a rank, as it travels to rank 0. */
struct part {
	uint64_t outcome, code;				   /* exit code of the run */
	uint64_t begin, end;				   /* its tiles */
	uint64_t workers, state_bytes, record_bytes, sums; /* sums: bit per source */
	uint64_t tiles_done, durable_tiles, read_bytes, duration_ns;
	/* of shards, and of the sink: length, and checksum when it was verified, or is stored */
	uint64_t held[HR_SOURCES_MAX], crc[HR_SOURCES_MAX], verified, sink_held, sink_crc;
	/* Of the objects of an access operator: bits, and checksums before and after the run. */
	uint64_t objects_verified, objects_summed;
	struct {
		uint64_t held;
		uint32_t crc, written_crc;
	} object[HR_OBJECTS_MAX];
};

/* What is merged for one pipeline. */
struct merge {
	struct hr_job *job;
	struct hr_engine *engine;
	struct hr_run *run;
	struct part mine;
	uint64_t durable_tiles;		   /* of all ranks, on rank 0 */
	struct hr_collected parts, states; /* on rank 0 */
};

/* Bit per source whose compute blocks have checksums of tiles. */
static uint64_t sums_of(const struct hr_run *run)
{
	uint64_t sums = 0;

	for (uint32_t s = 0; s < run->config->sources; s++)
		sums |= (uint64_t)run->layout.source[s].summed << s;
	return sums;
}

/* A part whose sink an earlier job has completed counts as done. */
static bool has_succeeded(uint64_t outcome)
{
	return outcome == HR_RUN_DONE || outcome == HR_RUN_COMPLETE;
}

static void describe_accessed(const struct hr_run *run, struct part *to)
{
	for (uint32_t k = 0; k < run->config->objects; k++) {
		const struct hr_run_object *object = &run->object[k];

		to->object[k].held = object->bytes;
		to->object[k].crc = object->verify.found;
		to->object[k].written_crc = object->crc;
		to->objects_verified |= (uint64_t)(object->verify.check == HR_SOURCE_VERIFIED) << k;
		to->objects_summed |= (uint64_t)object->summed << k;
	}
}

static void describe_objects(const struct hr_engine *engine, struct hr_run *run, struct part *to)
{
	const struct hr_config_object *sink = &run->config->sink;
	const struct hr_store_object *object;

	for (uint32_t s = 0; run->of_shards && s < run->config->sources; s++) {
		to->held[s] = run->source[s].held;
		to->crc[s] = run->source[s].verify.found;
		to->verified |= (uint64_t)(run->source[s].verify.check == HR_SOURCE_VERIFIED) << s;
	}
	if (!run->config->has_sink || !has_succeeded(run->outcome))
		return;
	to->durable_tiles = run->durable_tiles - to->begin;
	to->sink_held = hr_run_sink_held(run);
	object = hr_store_find_id(&engine->ssd[sink->ssd].store, run->sink_id);
	if (object)
		to->sink_crc = object->flags & HR_OBJECT_HAS_CRC
				       ? object->crc
				       : hr_checksums_sink(engine, run, to->end);
}

static void describe_part(const struct hr_engine *engine, struct hr_run *run, struct part *to)
{
	memset(to, 0, sizeof *to);
	to->outcome = run->outcome;
	if (!has_succeeded(run->outcome))
		to->code = run->cause.kind ? run->cause.kind : HR_ERROR_FAILED;
	to->begin = hr_run_first_tile(run);
	to->end = hr_run_end_tile(run);
	to->tiles_done = run->done_tiles;
	to->read_bytes = run->read_bytes;
	to->duration_ns = run->ended_ns - run->started_ns;
	describe_objects(engine, run, to);
	describe_accessed(run, to);
	if (run->gpu[0].access) {
		/* gpu 0 has the states of all gpus */
		to->workers = (uint64_t)hr_run_gpus(run) * hr_access_computers(&run->gpu[0].cpu);
		to->state_bytes = run->gpu[0].cpu.state_bytes;
	}
	if (!run->pipe)
		return;
	to->workers = hr_run_workers(run, HR_ROLE_COMPUTE);
	to->state_bytes = run->pipe->state_bytes;
	to->record_bytes = run->pipe->record_bytes;
	to->sums = run->of_shards ? 0 : sums_of(run); /* shards are verified already */
}

/* The run of rank 0 ends as that of the first rank whose run has not succeeded. Its cause is not
 * printed: that rank has printed it. */
static void merge_outcome(const struct merge *m, const struct part *parts)
{
	struct hr_run *run = m->run;

	for (uint32_t r = 0; r < m->job->ranks.size && has_succeeded(run->outcome); r++) {
		const struct part *p = &parts[r];

		if (has_succeeded(p->outcome))
			continue;
		run->outcome =
			p->outcome == HR_RUN_INTERRUPTED ? HR_RUN_INTERRUPTED : HR_RUN_FAILED;
		run->error = p->outcome == HR_RUN_INTERRUPTED ? -EINTR : -ECANCELED;
		hr_fail_known(&run->cause, HR_ERROR_FAILED, -ECANCELED,
			      "pipeline '%s' has not succeeded on rank %u", run->config->name, r);
	}
}

static void merge_counts(struct merge *m, const struct part *parts)
{
	uint64_t tiles = 0, durable = 0, bytes = 0, longest = 0;

	for (uint32_t r = 0; r < m->job->ranks.size; r++) {
		tiles += parts[r].tiles_done;
		durable += parts[r].durable_tiles;
		bytes += parts[r].read_bytes;
		if (parts[r].duration_ns > longest)
			longest = parts[r].duration_ns;
	}
	m->run->done_tiles = tiles;
	m->durable_tiles = durable;
	m->run->read_bytes = bytes;
	if (m->run->started_ns)
		m->run->ended_ns = m->run->started_ns + longest;
}

/* finish() has nothing to do for an operator that only writes its sink, or when an earlier job has
 * completed the sinks of all ranks. */
static bool has_result(const struct hr_run *run)
{
	return run->config->op->report && run->outcome != HR_RUN_COMPLETE;
}

/* Rank 0: the parts fit together, and are of the same operator. */
static int check_parts(const struct merge *m, struct hr_error *e)
{
	const struct part *parts = (const struct part *)(const void *)m->parts.data;
	uint64_t next = 0;

	if (!parts)
		return hr_fail(e, HR_ERROR_FAILED, -EPROTO,
			       "pipeline '%s': no rank has sent its part", m->run->config->name);
	for (uint32_t r = 0; r < m->job->ranks.size; r++) {
		const struct part *p = &parts[r];

		if (p->begin != next || p->end < next ||
		    (has_result(m->run) && (p->state_bytes != m->mine.state_bytes ||
					    p->record_bytes != m->mine.record_bytes)))
			return hr_fail(e, HR_ERROR_FAILED, -EPROTO,
				       "pipeline '%s': rank %u has tiles %llu to %llu, expected "
				       "the tiles after %llu with the same states and records",
				       m->run->config->name, r, (unsigned long long)p->begin,
				       (unsigned long long)p->end, (unsigned long long)next);
		next = p->end;
	}
	return 0;
}

/* Collect the data, and check the length of that of each rank: `unit` bytes for each tile, or each
 * worker. */
static int collect_parts(const struct merge *m, const void *from, uint64_t unit, bool of_workers,
			 struct hr_collected *to, struct hr_error *e)
{
	const struct part *parts = (const struct part *)(const void *)m->parts.data;
	const uint64_t mine = of_workers ? m->mine.workers : m->mine.end - m->mine.begin;
	int err = hr_job_collect(m->job, from, mine * unit, to, e);

	for (uint32_t r = 0; !err && parts && m->job->ranks.rank == 0 && r < m->job->ranks.size;
	     r++) {
		const uint64_t count =
			of_workers ? parts[r].workers : parts[r].end - parts[r].begin;

		if (to->lengths[r] != count * unit)
			err = hr_fail(e, HR_ERROR_FAILED, -EPROTO,
				      "pipeline '%s': rank %u has sent %llu bytes, expected %llu",
				      m->run->config->name, r, (unsigned long long)to->lengths[r],
				      (unsigned long long)(count * unit));
	}
	return err;
}

static void merge_state(void *to, void *into, const void *from)
{
	const struct hr_config_pipeline *p = to;

	p->op->merge(p->op_args, into, from);
}

/* With merge(): the states of this rank become one, then those of all ranks. */
static int reduce_states(struct merge *m, uint8_t *states, struct hr_error *e)
{
	const struct hr_config_pipeline *p = m->run->config;
	const uint64_t bytes = m->mine.state_bytes;
	int err;

	for (uint64_t w = 1; w < m->mine.workers; w++)
		p->op->merge(p->op_args, states, states + w * bytes);
	err = hr_job_reduce(m->job, states, bytes, merge_state, (void *)(uintptr_t)p, e);
	if (!err && m->job->ranks.rank == 0)
		m->states = (struct hr_collected){ .data = states, .bytes = bytes };
	return err;
}

static bool reduces(const struct merge *m)
{
	return m->run->config->op->merge && m->mine.state_bytes;
}

/* The states lie in memory of the gpu. */
static int collect_states(struct merge *m, struct hr_error *e)
{
	struct hr_backend *b = &m->engine->backend[m->run->config->gpu];
	const uint8_t *states =
		m->run->pipe ? m->run->pipe->op_states : m->run->gpu[0].access->op_states;
	const uint64_t bytes = m->mine.workers * m->mine.state_bytes;
	uint8_t *copy = bytes ? malloc(bytes) : NULL;
	int err = 0;

	if (bytes && !copy)
		err = hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			      "out of memory for the states of an operator: %llu bytes",
			      (unsigned long long)bytes);
	if (copy)
		err = b->ops->download(b, copy, states, bytes, e);
	err = hr_job_agree(m->job, err, e);
	if (!err && reduces(m))
		err = reduce_states(m, copy, e);
	else if (!err)
		err = collect_parts(m, copy, m->mine.state_bytes, true, &m->states, e);
	if (m->states.data != copy) /* else hr_collected_free() frees it */
		free(copy);
	return err;
}

static int collect_all(struct merge *m, struct hr_merged *merged, struct hr_error *e)
{
	const uint32_t i = (uint32_t)(m->run - m->engine->run);
	const uint64_t begin = m->mine.begin, unit = m->mine.record_bytes;
	const uint8_t *records = m->run->cpu.op_records; /* NULL: no records, or no tiles */
	int err = has_result(m->run) ? collect_states(m, e) : 0;

	if (!err && has_result(m->run))
		err = collect_parts(m, records ? records + begin * unit : NULL, unit, false,
				    &merged->pipeline[i].records, e);
	for (uint32_t s = 0; !err && s < m->run->config->sources; s++) {
		const uint32_t *words = m->run->cpu.source[s].crc;

		bool missing;

		err = hr_job_any(m->job, !(m->mine.sums >> s & 1), &missing, e);
		if (!err && !missing)
			err = collect_parts(m, words ? words + begin : NULL, sizeof *words, false,
					    &merged->pipeline[i].words[s], e);
		if (!err && missing && m->run->outcome == HR_RUN_DONE &&
		    m->run->source[s].verify.check == HR_SOURCE_UNREAD &&
		    !m->run->config->op->records_checksum)
			m->run->source[s].verify.check = HR_SOURCE_RESUMED;
	}
	return err;
}

/* Call finish() with the states and records of all ranks. init() comes before, because finish() may
 * use what init() puts into the block's memory. */
static int finish_operator(const struct merge *m, struct hr_error *e)
{
	const struct part *parts = (const struct part *)(const void *)m->parts.data;
	const struct hr_run *run = m->run;
	const struct hr_operator *op = run->config->op;
	const size_t state_bytes = (size_t)m->mine.state_bytes;
	void *state = calloc(1, state_bytes + 1);
	struct hr_op_all all = {
		.args = run->config->op_args,
		.tiles = run->tiles,
		.bytes = run->source[0].bytes,
		.tile_bytes = run->source[0].tile_bytes,
		.state_bytes = (uint32_t)state_bytes,
		.states = m->states.data,
		.record_bytes = (uint32_t)m->mine.record_bytes,
		.records = run->cpu.op_records,
		.result = run->gpu[0].access ? run->gpu[0].cpu.op_result : run->cpu.op_result,
	};

	if (!state)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "out of memory for the state of an operator: %zu bytes",
			       state_bytes);
	for (uint32_t r = 0; r < m->job->ranks.size; r++)
		all.workers += (uint32_t)parts[r].workers;
	if (reduces(m))
		all.workers = 1;
	for (uint32_t k = 0; k < run->config->objects; k++)
		all.object_bytes[k] = hr_run_object_all(&run->object[k]);
	if (run->config->objects)
		all.bytes = all.object_bytes[0];
	memset(all.result, 0, HR_OP_RESULT_MAX);
	if (op->init)
		op->init(all.args, state_bytes ? state : NULL);
	op->finish(&all);
	free(state);
	return 0;
}

/* The checksums of shards, one after another, are those of the data sets. */
static void join_checksums(const struct merge *m, uint32_t *sink)
{
	const struct part *parts = (const struct part *)(const void *)m->parts.data;
	uint64_t verified = UINT64_MAX;

	*sink = 0;
	for (uint32_t r = 0; r < m->job->ranks.size; r++) {
		verified &= parts[r].verified;
		*sink = hr_crc32c_combine(*sink, (uint32_t)parts[r].sink_crc, parts[r].sink_held);
	}
	for (uint32_t s = 0; m->run->of_shards && s < m->run->config->sources; s++) {
		struct hr_run_source *source = &m->run->source[s];
		uint32_t crc = 0;

		for (uint32_t r = 0; r < m->job->ranks.size; r++)
			crc = hr_crc32c_combine(crc, (uint32_t)parts[r].crc[s], parts[r].held[s]);
		if (verified >> s & 1)
			source->verify.found = source->verify.expected = crc;
	}
}

/* An object counts as verified when that of every rank is; the checksums of shards are joined. */
static void join_accessed(const struct merge *m)
{
	const struct part *parts = (const struct part *)(const void *)m->parts.data;

	for (uint32_t k = 0; k < m->run->config->objects; k++) {
		struct hr_run_object *object = &m->run->object[k];
		uint32_t crc = 0, written = 0;
		bool summed = true, verified = true;

		for (uint32_t r = 0; r < m->job->ranks.size; r++) {
			verified &= parts[r].objects_verified >> k & 1;
			summed &= parts[r].objects_summed >> k & 1;
			crc = hr_crc32c_combine(crc, parts[r].object[k].crc,
						parts[r].object[k].held);
			written = hr_crc32c_combine(written, parts[r].object[k].written_crc,
						    parts[r].object[k].held);
		}
		if (object->verify.check == HR_SOURCE_VERIFIED && !verified)
			object->verify.check = HR_SOURCE_NO_CHECKSUM;
		object->summed = summed;
		if (!object->is_shard)
			continue;
		object->verify.found = object->verify.expected = crc;
		object->crc = written;
	}
}

/* Rank 0 has everything: the run refers to it. */
static int keep_merged(const struct merge *m, const struct hr_merged *merged, struct hr_error *e)
{
	const uint32_t i = (uint32_t)(m->run - m->engine->run);
	struct hr_run *run = m->run;
	int err;

	if (merged->pipeline[i].records.data)
		run->cpu.op_records = merged->pipeline[i].records.data;
	for (uint32_t s = 0; s < run->config->sources; s++)
		if (merged->pipeline[i].words[s].data)
			run->cpu.source[s].crc =
				(uint32_t *)(void *)merged->pipeline[i].words[s].data;
	if (run->outcome != HR_RUN_DONE) /* complete: nothing was read */
		return 0;
	err = hr_checksums_verify(m->engine, run, e);
	return err || !has_result(run) ? err : finish_operator(m, e);
}

/* A run of rank 0 that has no result of all ranks. */
static void mark_failed(struct hr_run *run, int err, const struct hr_error *e)
{
	if (run->outcome != HR_RUN_DONE)
		return;
	run->outcome = HR_RUN_FAILED;
	run->error = err;
	run->cause = *e;
}

/* The sinks of all ranks become whole together; or those that were made from damaged data are removed,
 * which only rank 0 has found. */
static int finish_sinks(struct merge *m, int err, struct hr_error *e)
{
	bool damaged;
	int failed = hr_job_any(m->job, err == -EBADMSG, &damaged, e);

	if (!failed && damaged && m->run->outcome == HR_RUN_DONE) {
		hr_run_drop_part(m->engine, m->run, -EBADMSG);
		m->run->cause = *e;
	}
	err = hr_job_agree(m->job, err ? err : failed, e);
	if (err)
		return err;
	failed = hr_run_finish_part(m->engine, m->run);
	if (failed)
		*e = m->run->cause;
	return hr_job_agree(m->job, failed, e);
}

/* The run has succeeded on all ranks. */
static int merge_results(struct merge *m, struct hr_merged *merged, struct hr_error *e)
{
	const bool root = m->job->ranks.rank == 0;
	int err = hr_job_agree(m->job, root ? check_parts(m, e) : 0, e);

	if (!err)
		err = collect_all(m, merged, e);
	if (!err && root)
		err = keep_merged(m, merged, e);
	err = finish_sinks(m, err, e);
	merged->pipeline[m->run - m->engine->run].whole = root && !err;
	return err;
}

static int merge_run(struct merge *m, struct hr_merged *merged, struct hr_error *e)
{
	const struct part *parts; /* NULL on other ranks than 0 */
	int code, err;

	describe_part(m->engine, m->run, &m->mine);
	err = hr_job_collect_same(m->job, &m->mine, sizeof m->mine, &m->parts, e);
	if (err)
		return err;
	parts = (const struct part *)(const void *)m->parts.data;
	if (parts)
		merge_counts(m, parts);
	code = hr_job_code(m->job, (int)m->mine.code);
	if (parts)
		merge_outcome(m, parts);
	if (m->job->broken)
		err = hr_fail_known(e, HR_ERROR_FAILED, -EIO, "--mpi: the job is broken");
	else if (!code)
		err = merge_results(m, merged, e);
	if (parts && m->run->config->has_sink)
		m->run->durable_tiles = m->durable_tiles;
	if (parts && !code && !err && hr_run_is_divided(m->run)) {
		join_checksums(m, &m->run->sink_crc);
		m->run->sink_merged = true;
	}
	if (parts && !code && !err)
		join_accessed(m);
	hr_collected_free(&m->parts);
	hr_collected_free(&m->states);
	return err;
}

/* Remove the sink that was made from a sink which was removed, because its data is damaged. */
static void drop_dependent(struct hr_engine *engine, struct hr_run *run)
{
	bool depends = false;

	for (uint32_t s = 0; run->selected && s < run->config->sources; s++)
		depends |= run->source[s].writer >= 0 &&
			   engine->run[run->source[s].writer].error == -EBADMSG;
	if (depends)
		hr_run_drop_part(engine, run, -EBADMSG);
}

int hr_ranks_merge(struct hr_job *job, struct hr_engine *engine, struct hr_merged *merged,
		   struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++) {
		struct merge m = { .job = job, .engine = engine, .run = &engine->run[i] };

		if (engine->run[i].selected)
			err = merge_run(&m, merged, e);
	}
	for (uint32_t i = 0; err && i < engine->config.pipelines; i++)
		drop_dependent(engine, &engine->run[i]);
	for (uint32_t i = 0; err && i < engine->config.pipelines; i++)
		if (engine->run[i].selected && !merged->pipeline[i].whole)
			mark_failed(&engine->run[i], err, e);
	return err;
}

void hr_merged_free(struct hr_merged *merged)
{
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++) {
		hr_collected_free(&merged->pipeline[i].records);
		for (uint32_t s = 0; s < HR_SOURCES_MAX; s++)
			hr_collected_free(&merged->pipeline[i].words[s]);
	}
}
