/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/beside.h"
#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "boot/cmd/report/reports.h"
#include "boot/engine/remote/remote.h"
#include "boot/engine/bringup/sinks.h"
#include "gpu/measuring.h"
#include "gpu/ops/operators.h"
#include "nvme/transport/transport.h"
#include "config/derived.h"
#include "config/base/log.h"
#include "boot/appliance/schedule/local_time.h"
#include "boot/appliance/schedule/timetable.h"
#include "config/base/text.h"
#include "boot/appliance/schedule/starts.h"
#include "config/base/clock.h"
#include "boot/engine/bringup/stages.h"
#include "config/base/json.h"

/*
 * ---- the next starts of pipelines that repeat, as they would be if `headrace boot` started now, from
 * the starts that the ssds hold. The stores are open.
 */

/* The timetable at a boot now. */
static void begin_timetable(struct hr_engine *engine, struct hr_timetable *t,
			    const struct hr_moment *at)
{
	struct hr_starts starts;
	struct hr_error e = { 0 };
	const int err = hr_starts_read(engine, &starts, &e);

	if (err && err != -ENOENT)
		hr_error_log(&e, HR_LOG_WARN);
	hr_timetable_begin(t, &engine->config, starts.sequence ? &starts : NULL, at);
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_config_when *when = &engine->config.pipeline[i].when;
		const struct hr_ssd *ssd = &engine->ssd[when->object_ssd];
		const struct hr_store_object *object =
			when->kind == HR_WHEN_OBJECT && ssd->has_store
				? hr_store_find(&ssd->store, when->text)
				: NULL;

		hr_timetable_object(t, i, object ? object->id : 0, at);
	}
	hr_timetable_advance(t, at);
}

static const char *next(const struct hr_timetable *t, uint32_t i, const struct hr_moment *at,
			char *text, size_t bytes)
{
	char in[48], when[64] = "";
	uint64_t in_ns;
	const enum hr_wait_for what = hr_timetable_wait(t, i, at, &in_ns);

	if (what == HR_WAIT_NOTHING) {
		snprintf(text, bytes, "at boot");
	} else if (in_ns == UINT64_MAX) {
		snprintf(text, bytes, "waits for: %s", hr_wait_text(what));
	} else {
		if (hr_wall_is_set(at))
			hr_local_text(at->wall_ns + in_ns, when, sizeof when);
		snprintf(text, bytes, "%s%sin %s", when, when[0] ? ", " : "",
			 hr_span_format(in, sizeof in, in_ns));
	}
	return text;
}

/* Without its objects, the size of a pipeline's memory and sink is not known. */
static void note_awaited(const struct hr_engine *engine, FILE *out)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_config_object *object = engine->run[i].awaits;

		if (object)
			fprintf(out,
				"note: pipeline '%s' waits for object '%s' on ssd '%s', which does "
				"not exist yet; its memory and sink are not checked\n",
				engine->config.pipeline[i].name, object->object,
				engine->config.ssd[object->ssd].name);
	}
}

static void print_starts(struct hr_engine *engine, FILE *out)
{
	const struct hr_moment at = hr_moment_now();
	char when[HR_NAME_MAX + 16], last[64], text[160];
	struct hr_timetable t;

	if (!hr_config_repeats(&engine->config))
		return;
	begin_timetable(engine, &t, &at);
	fprintf(out, "\n%-16s %-20s %-26s %-12s next start, if boot began now\n", "pipeline",
		"starts", "last start", "outcome");
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_start *start = &t.starts.start[i];

		fprintf(out, "%-16s %-20s %-26s %-12s %s\n", start->name,
			hr_when_text(&engine->config.pipeline[i].when, when, sizeof when),
			start->started_ns ? hr_local_text(start->started_ns, last, sizeof last)
					  : "-",
			hr_start_outcome_name(start), next(&t, i, &at, text, sizeof text));
	}
	note_awaited(engine, out);
}

static void report_starts(struct hr_engine *engine, struct hr_json *report)
{
	const struct hr_moment at = hr_moment_now();
	struct hr_timetable t;

	if (!hr_config_repeats(&engine->config))
		return;
	begin_timetable(engine, &t, &at);
	hr_json_array(report, "starts");
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		hr_json_object(report, NULL);
		hr_json_string(report, "name", engine->config.pipeline[i].name);
		hr_timetable_json(report, &t, i, &at);
		if (engine->run[i].awaits)
			hr_json_string(report, "awaits_object", engine->run[i].awaits->object);
		hr_json_close(report);
	}
	hr_json_close(report);
}

static const char help[] =
	"usage: headrace check [CONFIG] [--operators] [--json] [--bind]\n\n"
	"Read and check a configuration, bring up its ssds and gpus, find the objects, and print\n"
	"the resources of `run`: ssds, the path of each pipeline, and the static partition of\n"
	"memory as a map. Sinks and their space are checked as in `run`, on a copy of the object\n"
	"map; errors have the same exit code. For remote sinks and sources the key file is read, and\n"
	"the network device proves that it reaches memory. Nothing is run, written or created. A\n"
	"pipeline that waits for an object (on = \"object NAME\", or the sink of another pipeline\n"
	"that repeats) is only noted until the object exists. An ssd that a running appliance\n"
	"drives is not opened: its properties and objects come from that appliance, which the\n"
	"report names. Without CONFIG the built-in configuration is checked, which needs no\n"
	"hardware; '-' is standard input.\n\n"
	"  --json         print one JSON object instead\n"
	"  --operators    list the operators instead, with their sources or objects, and their\n"
	"                 arguments: the built-in operators, and those of CONFIG\n" HR_BIND_HELP
		HR_EXIT_HELP;

/* One line for each object of an access operator. */
static void print_objects(const struct hr_operator *op)
{
	for (uint32_t i = 0; i < op->objects; i++) {
		const struct hr_op_object *object = &op->object[i];

		printf("  object %s (%s%s%s): %s\n", object->name,
		       object->writes ? "read and written" : "read",
		       object->optional ? ", optional" : "",
		       object->columns ? ", ranks may divide it" : "", object->help);
	}
	if (op->several_gpus)
		printf("  runs on one gpu, or on several\n");
	if (op->several_ranks)
		printf("  runs on one rank, or on several\n");
}

static void print_operators(const struct hr_config *config)
{
	for (uint32_t id = 0; id < HR_OP_COUNT; id++) {
		const struct hr_operator *op = hr_op_get(id);

		printf("%s%s\n  %s\n", id ? "\n" : "", op->name, op->help);
		print_objects(op);
	}
	for (uint32_t i = 0; config && i < config->ops; i++) {
		const struct hr_operator *op = config->op[i].op;

		printf("\n%s (%s: %s)\n  %s\n", op->name, config->op[i].file,
		       op->gpu == op->gpu_end ? "for the host backend only" : "for both backends",
		       op->help);
		print_objects(op);
	}
}

static void objects_json(struct hr_json *out, const struct hr_operator *op)
{
	hr_json_array(out, "objects");
	for (uint32_t i = 0; i < op->objects; i++) {
		const struct hr_op_object *object = &op->object[i];

		hr_json_object(out, NULL);
		hr_json_string(out, "name", object->name);
		hr_json_string(out, "help", object->help);
		hr_json_bool(out, "written", object->writes);
		hr_json_bool(out, "optional", object->optional);
		hr_json_u64(out, "columns", object->columns);
		hr_json_close(out);
	}
	hr_json_close(out);
}

static void operator_json(struct hr_json *out, const struct hr_operator *op, const char *file)
{
	hr_json_object(out, NULL);
	hr_json_string(out, "name", op->name);
	hr_json_string(out, "help", op->help);
	hr_json_string(out, "shape", hr_op_accesses(op) ? "access" : "stream");
	if (hr_op_accesses(op)) {
		objects_json(out, op);
		hr_json_bool(out, "several_gpus", op->several_gpus);
		hr_json_bool(out, "several_ranks", op->several_ranks);
	} else {
		hr_json_u64(out, "sources_min", hr_op_sources_min(op));
		hr_json_u64(out, "sources_max", hr_op_sources_max(op));
		hr_json_bool(out, "produces_data", op->output == HR_OUT_DATA);
	}
	hr_json_bool(out, "built_in", !file);
	if (file) {
		hr_json_string(out, "file", file);
		hr_json_u64(out, "gpu_bytes", (uint64_t)(op->gpu_end - op->gpu));
	}
	hr_json_close(out);
}

static int print_operators_json(const struct hr_config *config)
{
	struct hr_json report;

	hr_report_begin(&report, "operators");
	hr_json_array(&report, "operators");
	for (uint32_t id = 0; id < HR_OP_COUNT; id++)
		operator_json(&report, hr_op_get(id), NULL);
	for (uint32_t i = 0; config && i < config->ops; i++)
		operator_json(&report, config->op[i].op, config->op[i].file);
	hr_json_close(&report);
	return hr_report_end(&report, HR_EXIT_DONE, HR_EXIT_FAILED);
}

/* List the operators of a configuration, or without one the built-in operators. Opens no device. */
static int list_operators(const char *file, bool json)
{
	struct hr_engine *engine = NULL;
	int code = HR_EXIT_DONE;

	if (file) {
		engine = hr_load(file, NULL, &code);
		if (!engine)
			return code;
	}
	code = HR_EXIT_DONE;
	if (json)
		code = print_operators_json(engine ? &engine->config : NULL);
	else
		print_operators(engine ? &engine->config : NULL);
	free(engine);
	return code;
}

/* Ask for facts of GPUs that the report shows and bring-up does not need. */
static int ask_roles(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < engine->config.gpus; g++)
		if (engine->gpu_up[g] && engine->backend[g].measuring)
			err = engine->backend[g].measuring->roles(&engine->backend[g],
								  &engine->error);
	return err;
}

/* A new object which the pipeline reads, and an earlier pipeline makes again in each run; or NULL. */
static const struct hr_config_object *find_renewed(const struct hr_engine *engine, uint32_t i)
{
	const struct hr_config_pipeline *p = &engine->config.pipeline[i];
	const struct hr_config_object *read, *made;

	for (uint32_t k = 0; (read = hr_config_reads(p, k)) != NULL; k++)
		for (uint32_t j = 0; j < i; j++)
			for (uint32_t m = 0;
			     engine->run[j].selected &&
			     (made = hr_config_creates(&engine->config.pipeline[j], m));
			     m++)
				if (made->replace && made->ssd == read->ssd &&
				    strcmp(made->object, read->object) == 0)
					return made;
	return NULL;
}

/* The next run of the configuration would refuse a sink, because its source is another object then. */
static void warn_of_chains(const struct hr_engine *engine)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		const struct hr_config_pipeline *p = &engine->config.pipeline[i];
		const struct hr_config_object *source = find_renewed(engine, i), *made;

		for (uint32_t k = 0;
		     engine->run[i].selected && source && (made = hr_config_creates(p, k)) != NULL;
		     k++)
			if (!made->replace)
				hr_warn("%s:%u: the next run refuses object '%s': pipeline '%s' "
					"makes it from '%s', which each run makes again (replace, "
					"line %u); set replace = true here, too",
					engine->config.file, made->line, made->object, p->name,
					source->object, source->line);
	}
}

static int check_configuration(const char *file, bool json)
{
	struct hr_engine *engine;
	int code, err;

	engine = hr_load(file, NULL, &code);
	if (!engine)
		return code;
	engine->only_checks = true;
	engine->elsewhere = &hr_beside;
	err = hr_engine_up(engine, HR_STAGE_PARTITION);
	if (!err)
		err = hr_sinks_check(engine);
	if (!err)
		err = hr_remote_probe_all(engine);
	if (!err)
		err = ask_roles(engine);
	code = hr_error_report(&engine->error, err);
	if (!err)
		warn_of_chains(engine);
	if (!err && json) {
		struct hr_json report;

		hr_report_begin(&report, "check");
		hr_report_plan_json(engine, &report);
		report_starts(engine, &report);
		code = hr_report_end(&report, code, HR_EXIT_FAILED);
	} else if (!err) {
		hr_report_plan(engine, stdout);
		print_starts(engine, stdout);
	}
	hr_engine_down(engine);
	free(engine);
	return code;
}

static int cmd_check(int argc, char **argv)
{
	bool json = false, operators = false;
	const struct hr_option options[] = { { "json", .flag = &json },
					     { "bind", .call = hr_transport_allow_bind },
					     { "operators", .flag = &operators },
					     { NULL } };
	const char *file = NULL;
	const int code = hr_options_parse(argc, argv, options, "one configuration", &file);

	if (code)
		return code;
	return operators ? list_operators(file, json) : check_configuration(file, json);
}

const struct hr_command hr_cmd_check = {
	.name = "check",
	.summary = "check a configuration; print partition map and paths",
	.help = help,
	.fn = cmd_check,
};
