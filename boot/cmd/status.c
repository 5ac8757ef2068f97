/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace status: requests the counters of a running appliance.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "boot/appliance/control/status.h"
#include "boot/cmd/client.h"
#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "boot/engine/runner/counters.h"
#include "boot/engine/runner/progress.h"
#include "config/base/text.h"
#include "config/base/clock.h"
#include "config/base/log.h"

static const char help[] =
	"usage: headrace status [NAME] [--json] [--history PIPELINE]\n"
	"       headrace status --counters\n\n"
	"Live counters of an appliance that `headrace boot` or `headrace run` runs on this machine:\n"
	"stage, pipelines, tiles, rates, heartbeats of the worker blocks, the consumers of taps,\n"
	"the producers of feeds,\n"
	"and the `headrace store` requests that it serves, with their clients. NAME is the\n"
	"appliance's name in its configuration; it is optional when only one appliance runs. Run\n"
	"this as the user of the appliance, or as one that `control` in its configuration\n"
	"permits.\n\n"
	"  --json       print the document as the appliance sends it\n"
	"  --history PIPELINE\n"
	"               the last 16 runs of a pipeline of `headrace boot`, the newest one first:\n"
	"               outcome, time, duration, and the result or the reason of the failure;\n"
	"               they survive restarts and power cuts\n"
	"  --counters   list the counters of a pipeline, its roles, a tap and an ssd instead: name\n"
	"               in JSON, unit, meaning, and whether status or the result of a run\n"
	"               prints it\n" HR_EXIT_HELP;

static const char *text_of(struct json_object *o, const char *key)
{
	const char *text = json_object_get_string(json_object_object_get(o, key));

	return text ? text : "?";
}

static uint64_t number_of(struct json_object *o, const char *key)
{
	return json_object_get_uint64(json_object_object_get(o, key));
}

static void read_counters(struct json_object *p, struct hr_counters *c)
{
	memset(c, 0, sizeof *c);
	for (const struct hr_counter *row = hr_pipeline_counters; row->name; row++)
		if (row->in & HR_IN_STATUS && row->type == HR_COUNTER_U64)
			*(uint64_t *)((char *)c + row->at) = number_of(p, row->name);
}

/* An access operator has no tiles, but a page cache as long as its engine runs. */
static void put_progress(struct json_object *p, const struct hr_counters *c, char *text,
			 size_t bytes)
{
	const uint64_t done = c->tiles_done + c->first_tile;
	struct json_object *cache;

	if (json_object_object_get_ex(p, "cache", &cache))
		snprintf(text, bytes, "%12llu pages read",
			 (unsigned long long)number_of(cache, "pages_read"));
	else if (!c->tiles)
		snprintf(text, bytes, "%12llu bytes read", (unsigned long long)c->read_bytes);
	else
		snprintf(text, bytes, "%12llu of %llu tiles  %3.0f%%", (unsigned long long)done,
			 (unsigned long long)c->tiles, 100.0 * (double)done / (double)c->tiles);
}

/* "    every 10m: 6 starts, 1 failed, last done 2026-11-22T17:28:00Z; next in 517 ms" */
static void print_starts(struct json_object *p)
{
	struct json_object *next;
	char span[32];

	printf("    %s: %llu starts, %llu failed, %llu skipped; last %s%s%s; ", text_of(p, "when"),
	       (unsigned long long)number_of(p, "starts_count"),
	       (unsigned long long)number_of(p, "failures_count"),
	       (unsigned long long)number_of(p, "skipped_count"), text_of(p, "last_outcome"),
	       json_object_object_get_ex(p, "last_start_utc", &next) ? " " : "",
	       json_object_object_get_ex(p, "last_start_utc", &next) ? text_of(p, "last_start_utc")
								     : "");
	if (json_object_object_get_ex(p, "next_start_in_ms", &next))
		printf("next in %s\n",
		       hr_span_format(span, sizeof span,
				      number_of(p, "next_start_in_ms") * HR_NS_PER_MS));
	else
		printf("waits for: %s\n", text_of(p, "waits_for"));
}

static void print_each(struct json_object *list, void (*print)(struct json_object *))
{
	for (size_t i = 0;
	     json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++)
		print(json_object_array_get_idx(list, i));
}

/* "loader.py (pid 4242, uid 1000): holds 3 of 14 tiles, lag 5, oldest 2 ms; hold 1 ms, 9 ms at
 * most; 640 given back, 0 failed, 2 redelivered" */
static void print_consumer(struct json_object *c)
{
	printf("      %s (pid %llu, uid %llu): holds %llu of %llu tiles, lag %llu, oldest %llu ms; "
	       "hold %llu ms, at most %llu ms; %llu given back, %llu failed, %llu redelivered\n",
	       text_of(c, "name"), (unsigned long long)number_of(c, "pid"),
	       (unsigned long long)number_of(c, "uid"),
	       (unsigned long long)number_of(c, "tiles_held"),
	       (unsigned long long)number_of(c, "credits"),
	       (unsigned long long)number_of(c, "lag_tiles"),
	       (unsigned long long)number_of(c, "oldest_held_ms"),
	       (unsigned long long)number_of(c, "hold_ms"),
	       (unsigned long long)number_of(c, "hold_max_ms"),
	       (unsigned long long)number_of(c, "tiles_returned"),
	       (unsigned long long)number_of(c, "tiles_failed"),
	       (unsigned long long)number_of(c, "tiles_redelivered"));
}

static void print_tap(struct json_object *t)
{
	printf("    tap %s, deliver %s, lag %s, share %s: %llu consumers; tiles: %llu wait, %llu "
	       "given back, %llu dropped, %llu failed, %llu redelivered; %llu consumers dropped, %llu "
	       "clients refused\n",
	       text_of(t, "name"), text_of(t, "deliver"), text_of(t, "lag"), text_of(t, "share"),
	       (unsigned long long)number_of(t, "consumers"),
	       (unsigned long long)number_of(t, "tiles_waiting"),
	       (unsigned long long)number_of(t, "tiles_returned"),
	       (unsigned long long)number_of(t, "tiles_dropped"),
	       (unsigned long long)number_of(t, "tiles_failed"),
	       (unsigned long long)number_of(t, "tiles_redelivered"),
	       (unsigned long long)number_of(t, "consumers_dropped"),
	       (unsigned long long)number_of(t, "clients_refused"));
	print_each(json_object_object_get(t, "attached"), print_consumer);
}

static void print_remote(struct json_object *r)
{
	printf("    remote %s, %s, %s, %s: %llu tiles, %llu bytes; broken %llu times, last recovery "
	       "%llu ms; %llu connections refused; %llu not ready\n",
	       text_of(r, "name"), text_of(r, "side"), text_of(r, "address"),
	       number_of(r, "connected") ? "connected" : "not connected",
	       (unsigned long long)number_of(r, "tiles"), (unsigned long long)number_of(r, "bytes"),
	       (unsigned long long)number_of(r, "broken"),
	       (unsigned long long)number_of(r, "last_recovery_ms"),
	       (unsigned long long)number_of(r, "connections_refused"),
	       (unsigned long long)number_of(r, "not_ready"));
}

/* "camera.py (pid 4242, uid 1000): holds 3 of 16 tiles, lag 5, idle 2 ms; 640 committed" */
static void print_producer(struct json_object *p)
{
	printf("      %s (pid %llu, uid %llu): holds %llu of %llu tiles, lag %llu, idle %llu ms; %llu "
	       "committed; lease exceeded %llu times\n",
	       text_of(p, "name"), (unsigned long long)number_of(p, "pid"),
	       (unsigned long long)number_of(p, "uid"),
	       (unsigned long long)number_of(p, "tiles_held"),
	       (unsigned long long)number_of(p, "credits"),
	       (unsigned long long)number_of(p, "lag_tiles"),
	       (unsigned long long)number_of(p, "idle_ms"),
	       (unsigned long long)number_of(p, "tiles_committed"),
	       (unsigned long long)number_of(p, "leases_exceeded"));
}

static void print_feed(struct json_object *f)
{
	printf("    feed %s: %llu tiles committed, %llu discarded; producers: %llu attached now, %llu "
	       "since the run began, %llu dropped; %llu clients refused\n",
	       text_of(f, "name"), (unsigned long long)number_of(f, "tiles_committed"),
	       (unsigned long long)number_of(f, "tiles_discarded"),
	       (unsigned long long)number_of(f, "producers"),
	       (unsigned long long)number_of(f, "producers_attached"),
	       (unsigned long long)number_of(f, "producers_dropped"),
	       (unsigned long long)number_of(f, "clients_refused"));
	print_each(json_object_object_get(f, "attached"), print_producer);
}

/* The reason of a failure, unless the line of the last run has it. */
static void print_error(struct json_object *p)
{
	struct json_object *error, *said, *last = json_object_object_get(p, "last");

	if (!json_object_object_get_ex(p, "message", &error) &&
	    !json_object_object_get_ex(p, "error", &error))
		return;
	if ((json_object_object_get_ex(last, "message", &said) ||
	     json_object_object_get_ex(last, "error", &said)) &&
	    json_object_equal(said, error))
		return;
	printf("    %s\n", json_object_get_string(error));
}

static void print_pipeline(struct json_object *p)
{
	struct json_object *error;
	struct hr_counters c;
	char rate[24], progress[80], span[32];

	read_counters(p, &c);
	put_progress(p, &c, progress, sizeof progress);
	hr_rate_format(rate, sizeof rate, (double)c.read_bytes_per_s);
	printf("  %-20s %-14s %-11s %s  %s\n", text_of(p, "name"), text_of(p, "operator"),
	       text_of(p, "outcome"), progress, rate);
	if (json_object_object_get_ex(p, "when", &error))
		print_starts(p);
	if (json_object_get_boolean(json_object_object_get(p, "suspended")))
		printf("    suspended for %s: the engine ended in its run, %llu in a row\n",
		       hr_span_format(span, sizeof span,
				      number_of(p, "suspended_for_ms") * HR_NS_PER_MS),
		       (unsigned long long)number_of(p, "engine_deaths_in_row"));
	if (json_object_object_get_ex(p, "last", &error))
		hr_client_print_run(error);
	if (json_object_object_get_ex(p, "tap", &error))
		print_tap(error);
	if (json_object_object_get_ex(p, "remote", &error))
		print_remote(error);
	if (json_object_object_get_ex(p, "feed", &error))
		print_feed(error);
	print_error(p);
}

#define KELVIN 273

static void print_warning(struct json_object *name)
{
	printf("; warning: %s", json_object_get_string(name));
}

/* The health log has been read when the ssd has been used. */
static void print_ssd(struct json_object *s)
{
	struct json_object *smart;

	printf("  %-20s %-14s", text_of(s, "name"), text_of(s, "health"));
	if (json_object_object_get_ex(s, "smart", &smart)) {
		printf(" %d C, spare %d %%, used %d %%, %llu media errors",
		       (int)number_of(smart, "temperature_k") - KELVIN,
		       (int)number_of(smart, "spare_percent"),
		       (int)number_of(smart, "used_percent"),
		       (unsigned long long)number_of(smart, "media_errors"));
		print_each(json_object_object_get(smart, "warnings"), print_warning);
	}
	printf("\n");
}

/* "  store get            weights        1048576 of 4194304 bytes   25%  uid 1000, pid 4242" */
static void print_store_job(struct json_object *r)
{
	const uint64_t done = number_of(r, "done_bytes"), total = number_of(r, "total_bytes");
	struct json_object *object;
	const bool named = json_object_object_get_ex(r, "object", &object);

	printf("  %-20s %-14s %s%s%12llu of %llu bytes  %3.0f%%  uid %llu, pid %llu\n",
	       text_of(r, "request"), text_of(r, "ssd"), named ? text_of(r, "object") : "",
	       named ? " " : "", (unsigned long long)done, (unsigned long long)total,
	       total ? 100.0 * (double)done / (double)total : 0.0,
	       (unsigned long long)number_of(r, "client_uid"),
	       (unsigned long long)number_of(r, "client_pid"));
}

static void print_store(struct json_object *store)
{
	if (!number_of(store, "requests_count"))
		return;
	printf("  store: %llu requests, %llu refused, %llu dropped\n",
	       (unsigned long long)number_of(store, "requests_count"),
	       (unsigned long long)number_of(store, "refused_count"),
	       (unsigned long long)number_of(store, "dropped_count"));
	print_each(json_object_object_get(store, "requests"), print_store_job);
}

/* "box: running, stage queues, up 20 h 29 min, progress 3 ms ago, 0 restarts (pid 4242, box.conf)" */
static void print_head(struct json_object *o)
{
	struct json_object *age;
	char span[32];

	printf("%s: %s, stage %s, up %s, ", text_of(o, "appliance"), text_of(o, "phase"),
	       text_of(o, "stage"),
	       hr_span_format(span, sizeof span, number_of(o, "uptime_ms") * HR_NS_PER_MS));
	if (json_object_object_get_ex(o, "progress_age_ms", &age))
		printf("progress %s ago, ",
		       hr_span_format(span, sizeof span,
				      number_of(o, "progress_age_ms") * HR_NS_PER_MS));
	printf("%llu restarts (pid %llu, %s)\n", (unsigned long long)number_of(o, "restarts"),
	       (unsigned long long)number_of(o, "pid"), text_of(o, "configuration"));
}

static int print_text(const char *text)
{
	struct json_object *o = json_tokener_parse(text), *failure;

	if (!o || strcmp(text_of(o, "schema"), "headrace.status") != 0 ||
	    number_of(o, "version") != HR_STATUS_SCHEMA) {
		hr_error("the answer does not come from an appliance of this version");
		json_object_put(o);
		return HR_EXIT_FAILED;
	}
	if (json_object_object_get_ex(o, "failure", &failure)) {
		hr_error("appliance '%s': %s", text_of(o, "appliance"),
			 json_object_get_string(failure));
		json_object_put(o);
		return HR_EXIT_FAILED;
	}
	print_head(o);
	print_each(json_object_object_get(o, "ssds"), print_ssd);
	print_each(json_object_object_get(o, "pipelines"), print_pipeline);
	print_store(json_object_object_get(o, "store"));
	json_object_put(o);
	return HR_EXIT_DONE;
}

static int status(const char *wanted, bool json)
{
	static char text[HR_MESSAGE_REPLY_MAX];
	const struct hr_request request = { .kind = HR_REQUEST_STATUS };
	const int code = hr_client_request(&request, wanted, text, sizeof text);

	if (*text && json) {
		fputs(text, stdout);
		hr_report_begun();
	} else if (*text && code == HR_EXIT_DONE) {
		return print_text(text);
	}
	return code;
}

static int history(const char *pipeline, const char *wanted, bool json)
{
	static char text[HR_MESSAGE_REPLY_MAX];
	struct hr_request request = { .kind = HR_REQUEST_HISTORY };
	struct json_object *o;
	int code;

	if (strlen(pipeline) >= sizeof request.pipeline)
		return hr_usage_error("status", "there is no pipeline '%.100s'", pipeline);
	snprintf(request.pipeline, sizeof request.pipeline, "%s", pipeline);
	code = hr_client_request(&request, wanted, text, sizeof text);
	if (*text && json) {
		fputs(text, stdout);
		hr_report_begun();
	} else if (*text && code == HR_EXIT_DONE) {
		o = json_tokener_parse(text);
		printf("%s: pipeline '%s'\n", text_of(o, "appliance"), text_of(o, "pipeline"));
		print_each(json_object_object_get(o, "runs"), hr_client_print_run);
		json_object_put(o);
	}
	return code;
}

static void list_counters(const char *of, const struct hr_counter *row)
{
	static const struct {
		unsigned in;
		const char *name;
	} output[] = { { HR_IN_STATUS, "status" }, { HR_IN_RUN | HR_IN_SINK, "run" } };

	printf("%s\n", of);
	for (; row->name; row++) {
		printf("  %-20s %-9s", row->name, row->unit);
		for (size_t i = 0; i < sizeof output / sizeof *output; i++)
			printf(" %-6s", row->in & output[i].in ? output[i].name : "");
		printf(" %s\n", row->help);
	}
}

static int cmd_status(int argc, char **argv)
{
	const char *pipeline = NULL;
	bool json = false, counters = false;
	const struct hr_option options[] = { { "json", .flag = &json },
					     { "counters", .flag = &counters },
					     { "history", .text = &pipeline },
					     { NULL } };
	const char *name = NULL;
	const int code = hr_options_parse(argc, argv, options, "one name", &name);

	if (code)
		return code;
	if (!counters)
		return pipeline ? history(pipeline, name, json) : status(name, json);
	if (json || name || pipeline)
		return hr_usage_error("status", "--counters stands alone");
	list_counters("pipeline", hr_pipeline_counters);
	list_counters("prefetch, compute, writeback, io", hr_role_counters);
	list_counters("cache", hr_cache_counters);
	list_counters("tap", hr_tap_counters);
	list_counters("consumer of a tap", hr_consumer_counters);
	list_counters("remote", hr_remote_counters);
	list_counters("feed", hr_feed_counters);
	list_counters("producer of a feed", hr_producer_counters);
	list_counters("ssd", hr_ssd_counters);
	return HR_EXIT_DONE;
}

const struct hr_command hr_cmd_status = {
	.name = "status",
	.summary = "live counters of a running appliance",
	.help = help,
	.fn = cmd_status,
};
