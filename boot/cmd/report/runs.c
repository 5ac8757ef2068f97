#include "boot/cmd/report/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "boot/engine/checksums.h"
#include "boot/engine/failure.h"
#include "boot/cmd/report/json.h"
#include "boot/engine/paths.h"
#include "boot/cmd/report/result.h"
#include "boot/engine/progress.h"
#include "boot/engine/runner.h"
#include "boot/engine/shape.h"
#include "boot/engine/start.h"
#include "nvme/status.h"

static const char *outcome_name(enum hr_outcome outcome)
{
	static const char *const name[] = { "not run", "done", "already complete", "interrupted",
					    "failed" };

	return name[outcome];
}

/* What the operator left behind, as its report() sees it. */
static void gather(const struct hr_appliance *app, const struct hr_run *run, struct hr_op_all *all)
{
	const struct hr_config_pipeline *c = run->config;
	const struct hr_partition *p = &app->partition[c->gpu];

	memset(all, 0, sizeof *all);
	all->args = c->op_args;
	all->tiles = run->tiles;
	all->bytes = run->source[0].bytes;
	all->tile_bytes = run->source[0].tile_bytes;
	all->workers = hr_run_workers(run, HR_ROLE_COMPUTE);
	all->state_bytes = run->pipe->state_bytes;
	all->record_bytes = run->pipe->record_bytes;
	if (run->part.states >= 0)
		all->states = hr_partition_cpu(p, run->part.states);
	if (run->part.records >= 0)
		all->records = hr_partition_cpu(p, run->part.records);
	all->result = hr_partition_cpu(p, run->part.result);
}

static double seconds(const struct hr_run *run)
{
	return (double)(run->ended_ns - run->started_ns) / 1e9;
}

static double rate(const struct hr_run *run)
{
	return run->ended_ns > run->started_ns ? (double)hr_run_bytes_read(run) / seconds(run) : 0;
}

/* Lines of the operator's result, each set in by four. */
static void print_result(const struct hr_operator *op, const struct hr_op_all *all, FILE *out)
{
	char *text = NULL, *rest, *line;
	size_t bytes = 0;
	FILE *memory = open_memstream(&text, &bytes);

	if (!memory)
		return;
	hr_result_print(op, all, memory);
	if (fclose(memory) == 0)
		for (rest = text; (line = strsep(&rest, "\n"));)
			if (*line)
				fprintf(out, "    %s\n", line);
	free(text);
}

static const struct hr_object *sink_object(const struct hr_appliance *app, const struct hr_run *run)
{
	return hr_store_find_id(&app->ssd[run->config->sink.ssd].store, run->sink_id);
}

/* One line for each. */
static void print_sources(const struct hr_appliance *app, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;

	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_run_source *source = &run->source[s];

		fprintf(out, "    %s:%s, ", app->config.ssd[p->source[s].ssd].name,
			p->source[s].object);
		if (source->check == HR_SOURCE_VERIFIED)
			fprintf(out, "verified, CRC-32C %08x\n", source->crc_found);
		else if (source->check == HR_SOURCE_WRONG)
			fprintf(out, "WRONG: CRC-32C %08x, expected %08x\n", source->crc_found,
				source->crc_expected);
		else
			fprintf(out, "not verified: %s\n",
				hr_source_check_reason(run, source->check));
	}
}

static void print_sink(const struct hr_appliance *app, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	const struct hr_object *object = sink_object(app, run);

	fprintf(out, "    %s:%s, %llu of %llu tiles durable", app->config.ssd[p->sink.ssd].name,
		p->sink.object, (unsigned long long)run->durable_tiles,
		(unsigned long long)run->tiles);
	if (object && object->flags & HR_OBJECT_HAS_CRC)
		fprintf(out, ", CRC-32C %08x", object->crc);
	fprintf(out, "\n");
}

static void print_run(const struct hr_appliance *app, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	const char *bounce = hr_run_bounce(app, run);
	char rate_text[24] = "-";
	struct hr_op_all all;

	if (run->ended_ns)
		hr_rate_format(rate_text, sizeof rate_text, rate(run));
	fprintf(out, "%-16s %-14s %-16s %9llu %12llu %9.3f %11s  %s%s%s\n", p->name, p->op->name,
		outcome_name(run->outcome), (unsigned long long)run->tiles,
		(unsigned long long)hr_run_bytes_read(run), seconds(run), rate_text,
		hr_run_path(app, run), bounce ? ", read " : "", bounce ? bounce : "");
	hr_report_paths(app, run, "    ", out);
	if (run->outcome == HR_RUN_DONE) {
		gather(app, run, &all);
		print_result(p->op, &all, out);
	}
	if (run->outcome != HR_RUN_WAITING)
		print_sources(app, run, out);
	if (p->has_sink && run->sink_id)
		print_sink(app, run, out);
}

/* It has no tiles and no path: bring-up has left it out. */
static void print_refused(const struct hr_run *run, FILE *out)
{
	char text[96];

	fprintf(out, "%-16s %-14s %-16s %s\n", run->config->name, run->config->op->name,
		outcome_name(run->outcome), hr_error_name(run->error, text, sizeof text));
}

/* Nothing where the configuration itself says what runs worker blocks. */
static void print_choices(const struct hr_appliance *app, FILE *out)
{
	for (uint32_t g = 0; g < app->config.gpus; g++)
		if (app->gpu_up[g] && strcmp(app->config.gpu[g].device, "auto") == 0)
			fprintf(out, "gpu %s: %s\n", app->config.gpu[g].name, app->gpu_note[g]);
}

void hr_report_runs(const struct hr_appliance *app, uint32_t which, FILE *out)
{
	print_choices(app, out);
	fprintf(out, "%-16s %-14s %-16s %9s %12s %9s %11s  %s\n", "pipeline", "operator", "outcome",
		"tiles", "bytes read", "seconds", "rate", "path");
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if ((which & 1u << i) && app->run[i].selected)
			print_run(app, &app->run[i], out);
		else if ((which & 1u << i) && app->run[i].outcome == HR_RUN_FAILED)
			print_refused(&app->run[i], out);
}

static void crc_json(struct json_object *out, const char *name, uint32_t crc)
{
	char text[9];

	snprintf(text, sizeof text, "%08x", crc);
	hr_json_string(out, name, text);
}

static void sources_json(const struct hr_appliance *app, const struct hr_run *run,
			 struct json_object *list)
{
	const struct hr_config_pipeline *p = run->config;

	for (uint32_t s = 0; s < p->sources; s++) {
		const struct hr_run_source *source = &run->source[s];
		struct json_object *out = hr_json_append(list);
		const char *reason = hr_source_check_reason(run, source->check);

		hr_json_string(out, "ssd", app->config.ssd[p->source[s].ssd].name);
		hr_json_string(out, "object", p->source[s].object);
		hr_json_u64(out, "size_bytes", source->bytes);
		hr_json_bool(out, "verified", source->check == HR_SOURCE_VERIFIED);
		hr_json_string(out, "check", hr_source_check_name(source->check));
		if (reason) {
			hr_json_string(out, "reason", reason);
			continue;
		}
		crc_json(out, "crc32c", source->crc_found);
		crc_json(out, "crc32c_expected", source->crc_expected);
	}
}

/* The first source that is not what was stored; -1: none. */
static int wrong_source(const struct hr_run *run)
{
	for (uint32_t s = 0; s < run->config->sources; s++)
		if (run->source[s].check == HR_SOURCE_WRONG)
			return (int)s;
	return -1;
}

static void failure_json(const struct hr_appliance *app, const struct hr_run *run,
			 struct json_object *out)
{
	const struct hr_failure *f = &run->failure;
	const struct hr_config_object *object = hr_failure_object(run, f);
	const int wrong = wrong_source(run);
	char name[96];

	hr_json_string(out, "status",
		       wrong >= 0 ? "checksum mismatch"
				  : hr_error_name(run->error, name, sizeof name));
	hr_json_i64(out, "error", run->error);
	if (wrong >= 0)
		object = &run->config->source[wrong];
	else if (!f->error)
		return;
	hr_json_string(out, "ssd", app->config.ssd[object->ssd].name);
	hr_json_string(out, "object", object->object);
	if (wrong >= 0) {
		crc_json(out, "crc32c", run->source[wrong].crc_found);
		crc_json(out, "crc32c_expected", run->source[wrong].crc_expected);
		return;
	}
	hr_json_u64(out, "tile", f->tile);
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

static void sink_json(const struct hr_appliance *app, const struct hr_run *run,
		      struct json_object *out)
{
	const struct hr_object *object = sink_object(app, run);
	uint64_t durable = run->durable_tiles * run->sink_tile_bytes;

	hr_json_string(out, "ssd", app->config.ssd[run->config->sink.ssd].name);
	hr_json_string(out, "object", run->config->sink.object);
	hr_json_u64(out, "id", run->sink_id);
	hr_json_u64(out, "size_bytes", run->sink_bytes);
	hr_json_u64(out, "durable_tiles", run->durable_tiles);
	hr_json_u64(out, "durable_bytes", durable < run->sink_bytes ? durable : run->sink_bytes);
	if (object && object->flags & HR_OBJECT_HAS_CRC)
		crc_json(out, "crc32c", object->crc);
}

static void queues_json(const struct hr_nvme_qp *qp, uint32_t count, struct json_object *out)
{
	uint64_t commands = 0, batches = 0, doorbells = 0;

	for (uint32_t i = 0; i < count; i++) {
		commands += qp[i].stats.submitted;
		batches += qp[i].stats.batches;
		doorbells += qp[i].stats.doorbells;
	}
	hr_json_u64(out, "commands", commands);
	hr_json_u64(out, "batches", batches);
	hr_json_u64(out, "fences", batches);
	hr_json_u64(out, "doorbells", doorbells);
}

/* What the workers of a role spent on it, summed; cycles only where they are counted. */
static void cost_json(const struct hr_run *run, enum hr_role role, struct json_object *out)
{
	const uint32_t end = hr_pipe_first_status(run->pipe, (uint32_t)role + 1);
	struct hr_worker_cost sum = { 0 };

	for (uint32_t i = hr_pipe_first_status(run->pipe, role); i < end; i++) {
		const struct hr_worker_cost *cost = &run->status[i].cost;

		sum.cycles += cost->cycles;
		sum.busy_cycles += cost->busy_cycles;
		sum.rounds += cost->rounds;
		sum.busy_rounds += cost->busy_rounds;
	}
	hr_json_u64(out, "blocks", run->blocks[role]);
	hr_json_u64(out, "workers", hr_run_workers(run, role));
	hr_json_u64(out, "rounds", sum.rounds);
	hr_json_u64(out, "busy_rounds", sum.busy_rounds);
	if (sum.cycles) {
		hr_json_u64(out, "cycles", sum.cycles);
		hr_json_u64(out, "busy_cycles", sum.busy_cycles);
	}
	if (role == HR_ROLE_PREFETCH)
		queues_json(run->read_qp, hr_run_workers(run, role) * run->ssds, out);
	else if (role == HR_ROLE_WRITEBACK)
		queues_json(run->write_qp, hr_run_workers(run, role), out);
}

static void costs_json(const struct hr_run *run, struct json_object *out)
{
	cost_json(run, HR_ROLE_PREFETCH, hr_json_object(out, "prefetch"));
	cost_json(run, HR_ROLE_COMPUTE, hr_json_object(out, "compute"));
	if (run->config->has_sink)
		cost_json(run, HR_ROLE_WRITEBACK, hr_json_object(out, "writeback"));
}

static void run_json(const struct hr_appliance *app, const struct hr_run *run,
		     struct json_object *out)
{
	const struct hr_config_pipeline *p = run->config;
	struct hr_op_all all;

	hr_json_string(out, "name", p->name);
	hr_json_string(out, "operator", p->op->name);
	hr_json_string(out, "gpu", app->config.gpu[p->gpu].name);
	hr_json_string(out, "path", hr_run_path(app, run));
	hr_report_paths_json(app, run, out);
	if (hr_run_bounce(app, run))
		hr_json_string(out, "bounce", hr_run_bounce(app, run));
	hr_json_string(out, "outcome", outcome_name(run->outcome));
	hr_json_u64(out, "tiles", run->tiles);
	hr_json_u64(out, "first_tile", run->first_tile);
	hr_json_u64(out, "read_bytes", hr_run_bytes_read(run));
	hr_json_double(out, "duration_ms", seconds(run) * 1e3, 3);
	hr_json_double(out, "read_bytes_per_s", rate(run), 0);
	sources_json(app, run, hr_json_array(out, "sources"));
	if (p->has_sink)
		sink_json(app, run, hr_json_object(out, "sink"));
	if (run->settled)
		costs_json(run, hr_json_object(out, "cost"));
	if (run->outcome == HR_RUN_DONE) {
		gather(app, run, &all);
		hr_result_json(p->op, &all, hr_json_object(out, "result"));
	}
	if (run->error)
		failure_json(app, run, hr_json_object(out, "failure"));
}

/* From exec to the first tile that any pipeline submitted; negative: none was. */
static double first_tile_ms(const struct hr_appliance *app)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++) {
		const struct hr_run *run = &app->run[i];

		if (run->selected && run->first_submit_ns)
			return (double)(run->first_submit_ns - hr_start_ns()) / 1e6;
	}
	return -1;
}

void hr_report_runs_json(const struct hr_appliance *app, struct json_object *report)
{
	double first = first_tile_ms(app);
	struct json_object *list;
	struct rusage usage;

	hr_json_string(report, "appliance", app->config.name);
	hr_json_string(report, "configuration", app->config.file);
	if (first >= 0)
		hr_json_double(report, "first_tile_ms", first, 3);
	if (getrusage(RUSAGE_SELF, &usage) == 0)
		hr_json_u64(report, "resident_max_bytes", (uint64_t)usage.ru_maxrss * 1024);
	hr_report_gpus_json(app, false, report);
	list = hr_json_array(report, "pipelines");
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected)
			run_json(app, &app->run[i], hr_json_append(list));
}
