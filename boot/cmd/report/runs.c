/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/report/parts.h"
#include "boot/cmd/report/reports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "boot/engine/objects/shards.h"
#include "boot/engine/objects/checksums.h"
#include "boot/engine/runner/counters.h"
#include "boot/engine/runner/conclude.h"
#include "boot/engine/shape/paths.h"
#include "boot/cmd/report/result.h"
#include "boot/engine/runner/progress.h"
#include "boot/engine/shared_memory.h"
#include "config/derived.h"
#include "config/base/work.h"
#include "boot/engine/shape/shape.h"
#include "boot/engine/shape/gpu_sharing.h"
#include "config/base/process.h"
#include "nvme/queue/status.h"

static const char *outcome_name(enum hr_outcome outcome)
{
	static const char *const name[] = { "not run", "done", "already complete", "interrupted",
					    "failed" };

	return name[outcome];
}

static void gather_access(const struct hr_run *run, struct hr_op_all *all)
{
	const struct hr_access *a = &run->gpu[0].cpu; /* it has the states of all gpus */

	all->bytes = hr_run_object_all(&run->object[0]);
	all->workers = hr_access_computers(a) * hr_run_gpus(run);
	all->state_bytes = a->state_bytes;
	all->states = a->op_states;
	all->result = a->op_result;
	for (uint32_t i = 0; i < run->config->objects; i++)
		all->object_bytes[i] = hr_run_object_all(&run->object[i]);
}

/* The states and records of the operator, as arguments for its report(). */
static void gather_states(const struct hr_run *run, struct hr_op_all *all)
{
	memset(all, 0, sizeof *all);
	all->args = run->config->op_args;
	if (run->config->objects) {
		gather_access(run, all);
		return;
	}
	all->tiles = run->tiles;
	all->bytes = run->source[0].bytes;
	all->tile_bytes = run->source[0].tile_bytes;
	all->workers = hr_run_workers(run, HR_ROLE_COMPUTE);
	all->state_bytes = run->pipe->state_bytes;
	all->record_bytes = run->pipe->record_bytes;
	all->states = run->cpu.op_states;
	all->records = run->cpu.op_records;
	all->result = run->cpu.op_result;
}

static void count_run(const struct hr_engine *engine, const struct hr_run *run,
		      struct hr_counters *c)
{
	hr_counters_snapshot(c, engine, run);
	hr_counters_time(c, run->started_ns, run->ended_ns, run->ended_ns);
}

/* The operator's report() is called. */
static void begin_report(const struct hr_run *run)
{
	hr_work_now.of = run->config;
	hr_work_begin(HR_WORK_REPORT, 0);
}
static void end_report(void)
{
	hr_work_end();
	hr_work_now.of = NULL;
}

/* Print the lines of the operator's result, indented by four columns. */
static void print_result(const struct hr_run *run, const struct hr_op_all *all, FILE *out)
{
	char *text = NULL, *rest, *line;
	size_t bytes = 0;
	FILE *memory = open_memstream(&text, &bytes);

	if (!memory)
		return;
	begin_report(run);
	hr_result_print(run->config->op, all, memory);
	end_report();
	if (fclose(memory) == 0)
		for (rest = text; (line = strsep(&rest, "\n"));)
			if (*line)
				fprintf(out, "    %s\n", line);
	free(text);
}

static const struct hr_store_object *sink_object(const struct hr_engine *engine,
						 const struct hr_run *run)
{
	return hr_store_find_id(&engine->ssd[run->config->sink.ssd].store, run->sink_id);
}

static void print_feed(const struct hr_run *run, FILE *out)
{
	const struct hr_feed_words *words = hr_run_feed_words(run);
	char end[64] = "not ended";

	if (hr_fresh_u64(&words->total) != HR_NO_TILE)
		snprintf(end, sizeof end, "ended after %llu bytes",
			 (unsigned long long)run->source[0].bytes);
	fprintf(out,
		"    feed %s: %llu tiles committed, %s; %llu discarded; producers: %llu attached, "
		"%llu dropped, %llu refused\n",
		run->config->feed.name, (unsigned long long)hr_fresh_u64(&words->next), end,
		(unsigned long long)hr_fresh_u64(&words->discarded),
		(unsigned long long)run->feed.attached, (unsigned long long)run->feed.revoked,
		(unsigned long long)run->feed.refused);
}

static void feed_json(const struct hr_run *run, const struct hr_feed_counters *c,
		      struct hr_json *out)
{
	hr_json_object(out, "feed");
	hr_json_string(out, "name", run->config->feed.name);
	hr_json_u64(out, "size_bytes", run->source[0].bytes);
	hr_json_bool(out, "ended", hr_fresh_u64(&hr_run_feed_words(run)->total) != HR_NO_TILE);
	hr_counters_json(out, hr_feed_counters, c, HR_IN_RUN);
	hr_json_close(out);
}

/* Print one line for each source. */
static void print_sources(const struct hr_engine *engine, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;

	for (uint32_t s = 0; s < hr_config_source_objects(p); s++) {
		const struct hr_run_source *source = &run->source[s];

		fprintf(out, "    %s:%s, ", engine->config.ssd[p->source[s].ssd].name,
			p->source[s].object);
		hr_report_verify(run, &source->verify, out);
		fprintf(out, "\n");
	}
}

static void print_sink(const struct hr_engine *engine, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	const struct hr_store_object *object = sink_object(engine, run);

	fprintf(out, "    %s:%s, %llu of %llu tiles durable", engine->config.ssd[p->sink.ssd].name,
		p->sink.object, (unsigned long long)run->durable_tiles,
		(unsigned long long)run->tiles);
	if (object && object->flags & HR_OBJECT_HAS_CRC)
		fprintf(out, ", CRC-32C %08x", run->sink_merged ? run->sink_crc : object->crc);
	fprintf(out, "\n");
}

static void print_tap(const struct hr_engine *engine, const struct hr_run *run,
		      const struct hr_tap_counters *c, FILE *out)
{
	const char *why;
	const enum hr_tap_sharing share = hr_run_gpu_sharing(engine, run, &why);

	fprintf(out,
		"    tap %s: %llu tiles given back, %llu dropped, %llu failed, %llu handed to a second "
		"consumer; consumers: %llu attached, %llu dropped, %llu refused\n",
		run->config->tap.name, (unsigned long long)c->returned,
		(unsigned long long)c->dropped, (unsigned long long)c->failed,
		(unsigned long long)c->redelivered, (unsigned long long)c->attached,
		(unsigned long long)c->revoked, (unsigned long long)c->refused);
	fprintf(out, "    tap %s: shares the gpu: %s (%s); %u launches\n", run->config->tap.name,
		hr_gpu_sharing_name(share), why, run->cpu.control->launch_number);
}

static void tap_json(const struct hr_engine *engine, const struct hr_run *run,
		     const struct hr_tap_counters *c, struct hr_json *out)
{
	const char *why;

	hr_json_object(out, "tap");
	hr_json_string(out, "name", run->config->tap.name);
	hr_counters_json(out, hr_tap_counters, c, HR_IN_RUN);
	hr_json_string(out, "share", hr_gpu_sharing_name(hr_run_gpu_sharing(engine, run, &why)));
	hr_json_string(out, "share_reason", why);
	hr_json_u64(out, "launches", run->cpu.control->launch_number);
	hr_json_close(out);
}

/* What is known of the data of an object before the run, and after it. */
static void print_object(const struct hr_run *run, uint32_t i, FILE *out)
{
	const struct hr_config_object *config = &run->config->object[i];
	const struct hr_run_object *object = &run->object[i];

	fprintf(out, "%s",
		!config->writes ? "read, "
		: config->bytes ? "written, new"
				: "written, ");
	if (!config->bytes)
		hr_report_verify(run, &object->verify, out);
	if (config->writes && run->outcome == HR_RUN_DONE && !object->summed)
		fprintf(out, "%s without checksum", config->bytes ? "," : "; now");
	else if (config->writes && object->summed)
		fprintf(out, "%s CRC-32C %08x", config->bytes ? "," : "; now", object->crc);
	fprintf(out, "\n");
}

/* One line for each object, and one for the page cache. */
static void print_access(const struct hr_engine *engine, const struct hr_run *run,
			 const struct hr_cache_counters *c, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;

	for (uint32_t i = 0; i < p->objects; i++) {
		if (!run->object[i].used)
			continue;
		fprintf(out, "    %s:%s as %s, %llu bytes, ",
			engine->config.ssd[p->object[i].ssd].name, p->object[i].object,
			p->op->object[i].name,
			(unsigned long long)hr_run_object_all(&run->object[i]));
		print_object(run, i, out);
	}
	fprintf(out,
		"    pages: %llu accesses, %.2f%% hits, %llu read by %llu commands, %llu evicted, "
		"%llu written by %llu commands\n",
		(unsigned long long)c->accesses, (double)c->hits_ppm / 1e4,
		(unsigned long long)c->pages_read, (unsigned long long)c->read_commands,
		(unsigned long long)c->evictions, (unsigned long long)c->pages_written,
		(unsigned long long)c->write_commands);
}

static void print_run(const struct hr_engine *engine, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	const char *bounce = hr_run_bounce(engine, run);
	char rate_text[24] = "-", tiles[24] = "-";
	struct hr_counters c;
	struct hr_op_all all;

	count_run(engine, run, &c);
	if (run->ended_ns)
		hr_rate_format(rate_text, sizeof rate_text, (double)c.read_bytes_per_s);
	if (!p->objects)
		snprintf(tiles, sizeof tiles, "%llu", (unsigned long long)c.tiles);
	fprintf(out, "%-16s %-14s %-16s %9s %12llu %9.3f %11s  %s%s%s\n", p->name, p->op->name,
		outcome_name(run->outcome), tiles, (unsigned long long)c.read_bytes,
		(double)c.duration_ns / 1e9, rate_text, hr_run_path(engine, run),
		bounce ? ", read " : "", bounce ? bounce : "");
	hr_report_paths(engine, run, "    ", out);
	if (run->outcome == HR_RUN_DONE) {
		gather_states(run, &all);
		print_result(run, &all, out);
	}
	if (run->outcome != HR_RUN_WAITING && p->objects)
		print_access(engine, run, &c.cache, out);
	else if (run->outcome != HR_RUN_WAITING)
		print_sources(engine, run, out);
	if (run->outcome != HR_RUN_WAITING && run->cpu.feed && !hr_config_receives(p))
		print_feed(run, out);
	if (run->outcome != HR_RUN_WAITING && hr_config_has_tap(p) && !hr_config_sends(p))
		print_tap(engine, run, &c.tap, out);
	if (run->outcome != HR_RUN_WAITING && hr_config_is_remote(p))
		hr_report_remote(engine, run, &c.remote, out);
	if (p->has_sink && run->sink_id)
		print_sink(engine, run, out);
}

/* Print a pipeline that bring-up left out; it has no tiles and no path. */
static void print_refused(const struct hr_run *run, FILE *out)
{
	char text[96];

	fprintf(out, "%-16s %-14s %-16s %s\n", run->config->name, run->config->op->name,
		outcome_name(run->outcome), hr_error_name(run->error, text, sizeof text));
}

/* Print the chosen devices; nothing when the configuration names them itself. */
static void print_choices(const struct hr_engine *engine, FILE *out)
{
	for (uint32_t g = 0; g < engine->config.gpus; g++)
		if (engine->gpu_up[g] && strcmp(engine->config.gpu[g].device, "auto") == 0)
			fprintf(out, "gpu %s: %s\n", engine->config.gpu[g].name,
				engine->backend[g].note);
}

void hr_report_runs(const struct hr_engine *engine, uint32_t which, FILE *out)
{
	print_choices(engine, out);
	fprintf(out, "%-16s %-14s %-16s %9s %12s %9s %11s  %s\n", "pipeline", "operator", "outcome",
		"tiles", "bytes read", "seconds", "rate", "path");
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if ((which & 1u << i) && engine->run[i].selected)
			print_run(engine, &engine->run[i], out);
		else if ((which & 1u << i) && engine->run[i].outcome == HR_RUN_FAILED)
			print_refused(&engine->run[i], out);
}

static void sources_json(const struct hr_engine *engine, const struct hr_run *run,
			 struct hr_json *out)
{
	const struct hr_config_pipeline *p = run->config;

	hr_json_array(out, "sources");
	for (uint32_t s = 0; s < hr_config_source_objects(p); s++) {
		const struct hr_run_source *source = &run->source[s];

		hr_json_object(out, NULL);
		hr_json_string(out, "ssd", engine->config.ssd[p->source[s].ssd].name);
		hr_json_string(out, "object", p->source[s].object);
		hr_json_u64(out, "size_bytes", source->bytes);
		hr_report_verify_json(run, &source->verify, out);
		hr_json_close(out);
	}
	hr_json_close(out);
}

/* The first source, or object of an access operator, whose checksum does not match; NULL: none. */
static const struct hr_run_verify *find_wrong(const struct hr_run *run,
					      const struct hr_config_object **object)
{
	const struct hr_config_pipeline *p = run->config;

	for (uint32_t i = 0; i < p->sources + p->objects; i++) {
		const struct hr_run_verify *verify =
			p->objects ? &run->object[i].verify : &run->source[i].verify;

		*object = p->objects ? &p->object[i] : &p->source[i];
		if (verify->check == HR_SOURCE_WRONG)
			return verify;
	}
	return NULL;
}

static void failure_json(const struct hr_engine *engine, const struct hr_run *run,
			 struct hr_json *out)
{
	const struct hr_failure *f = &run->failure;
	const struct hr_config_object *object;
	const struct hr_run_verify *wrong = find_wrong(run, &object);
	char name[96];

	hr_json_string(out, "status",
		       wrong ? "checksum mismatch" : hr_error_name(run->error, name, sizeof name));
	hr_json_i64(out, "error", run->error);
	if (run->cause.kind)
		hr_json_string(out, "message", run->cause.text);
	if (!wrong && !f->error)
		return;
	object = wrong ? object : hr_failure_object(run, f);
	hr_json_string(out, "ssd", engine->config.ssd[object->ssd].name);
	hr_json_string(out, "object", object->object);
	if (wrong) {
		hr_report_crc_json(out, "crc32c", wrong->found);
		hr_report_crc_json(out, "crc32c_expected", wrong->expected);
		return;
	}
	if (f->role == HR_ROLE_ACCESS)
		return;
	if (f->tile != HR_NO_TILE || !run->config->objects)
		hr_json_u64(out, run->config->objects ? "page" : "tile", f->tile);
	if (f->role == HR_ROLE_COMPUTE) {
		hr_json_u64(out, "output_bytes", f->out_bytes);
		hr_json_u64(out, "promised_bytes", f->out_promised);
		return;
	}
	hr_json_u64(out, "lba", f->lba);
	hr_json_u64(out, "queue", f->qid);
	hr_json_u64(out, "command", f->cid);
	hr_json_string(out, "opcode", hr_opcode_name(f->opcode, false));
}

static void sink_json(const struct hr_engine *engine, const struct hr_run *run,
		      const struct hr_counters *c, struct hr_json *out)
{
	const struct hr_store_object *object = sink_object(engine, run);

	hr_json_object(out, "sink");
	hr_json_string(out, "ssd", engine->config.ssd[run->config->sink.ssd].name);
	hr_json_string(out, "object", run->config->sink.object);
	hr_json_u64(out, "id", run->sink_id);
	hr_json_u64(out, "size_bytes", run->sink_bytes);
	hr_counters_json(out, hr_pipeline_counters, c, HR_IN_SINK);
	if (object && object->flags & HR_OBJECT_HAS_CRC)
		hr_report_crc_json(out, "crc32c", run->sink_merged ? run->sink_crc : object->crc);
	hr_json_close(out);
}

static void run_json(const struct hr_engine *engine, const struct hr_run *run, struct hr_json *out)
{
	const struct hr_config_pipeline *p = run->config;
	struct hr_counters c;
	struct hr_op_all all;

	hr_json_object(out, NULL);
	hr_report_head_json(engine, run, out);
	if (hr_run_bounce(engine, run))
		hr_json_string(out, "bounce", hr_run_bounce(engine, run));
	hr_json_string(out, "outcome", outcome_name(run->outcome));
	count_run(engine, run, &c);
	hr_counters_json(out, hr_pipeline_counters, &c, HR_IN_RUN);
	if (p->objects)
		hr_report_objects_json(engine, run, out);
	else
		sources_json(engine, run, out);
	if (run->outcome != HR_RUN_WAITING && run->cpu.feed && !hr_config_receives(p))
		feed_json(run, &c.feed, out);
	if (run->outcome != HR_RUN_WAITING && hr_config_has_tap(p) && !hr_config_sends(p))
		tap_json(engine, run, &c.tap, out);
	if (run->outcome != HR_RUN_WAITING && hr_config_is_remote(p))
		hr_report_remote_json(engine, run, &c.remote, out);
	if (p->has_sink)
		sink_json(engine, run, &c, out);
	if (run->workers_ended) {
		hr_json_object(out, "cost");
		hr_role_counters_json(out, &c, HR_IN_RUN);
		hr_json_close(out);
	}
	if (run->outcome == HR_RUN_DONE) {
		gather_states(run, &all);
		hr_json_object(out, "result");
		begin_report(run);
		hr_result_json(p->op, &all, true, out);
		end_report();
		hr_json_close(out);
	}
	if (run->error) {
		hr_json_object(out, "failure");
		failure_json(engine, run, out);
		hr_json_close(out);
	}
	hr_json_close(out);
}

/* Time from exec to the first tile that any pipeline submitted; negative: none was submitted. */
static double first_tile_ms(const struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];

		if (run->selected && run->first_submit_ns)
			return (double)(run->first_submit_ns - hr_exec_ns()) / 1e6;
	}
	return -1;
}

void hr_report_runs_json(const struct hr_engine *engine, struct hr_json *report)
{
	double first = first_tile_ms(engine);
	struct rusage usage;

	hr_json_string(report, "appliance", engine->config.name);
	hr_json_string(report, "configuration", engine->config.file);
	if (first >= 0)
		hr_json_fixed(report, "first_tile_ms", first, 3);
	if (getrusage(RUSAGE_SELF, &usage) == 0)
		hr_json_u64(report, "resident_max_bytes", (uint64_t)usage.ru_maxrss * 1024);
	hr_report_gpus_json(engine, false, report);
	hr_json_array(report, "pipelines");
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].selected)
			run_json(engine, &engine->run[i], report);
	hr_json_close(report);
}

static int result_text(const struct hr_run *run, bool lists, char *text, size_t bytes)
{
	struct hr_op_all all;
	struct hr_json j;
	int err;

	hr_json_to_text(&j, HR_JSON_LINE, text, bytes);
	gather_states(run, &all);
	begin_report(run);
	hr_result_json(run->config->op, &all, lists, &j);
	end_report();
	err = hr_json_done(&j);
	text[strcspn(text, "\n")] = '\0';
	if (err || strcmp(text, "{}") == 0)
		text[0] = '\0';
	return err;
}

int hr_report_result(const struct hr_run *run, char *text, size_t bytes)
{
	const int err = result_text(run, true, text, bytes);

	if (err == -ENOBUFS)
		result_text(run, false, text, bytes);
	return err;
}
