/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `headrace store ls`, `df` and `verify`: the contents of the disk, as text or JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "config/base/clock.h"
#include "config/base/error.h"
#include "boot/cmd/report/output.h"
#include "boot/engine/runner/progress.h"
#include "config/base/process.h"
#include "boot/cmd/store/store.h"

static void time_format(char *text, size_t bytes, uint64_t ns)
{
	const time_t seconds = (time_t)(ns / HR_NS_PER_S);
	struct tm tm;

	if (!ns || !gmtime_r(&seconds, &tm) ||
	    strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		snprintf(text, bytes, "?");
}

/* ---- ls */

static void list_one(const struct hr_store_object *o)
{
	char when[32], crc[16] = "-", state[48] = "whole";

	time_format(when, sizeof when, o->created_ns);
	if (o->flags & HR_OBJECT_HAS_CRC)
		snprintf(crc, sizeof crc, "%08x", o->crc);
	if (o->flags & HR_OBJECT_PENDING)
		snprintf(state, sizeof state, "incomplete");
	printf("%16" PRIu64 "  %-8s  %-20s  %-10s  %s", o->bytes, crc, when, state, o->name);
	if (o->flags & HR_OBJECT_SHARD)
		printf("  (shard %u/%u: %" PRIu64 " of %" PRIu64 " rows from row %" PRIu64 ")",
		       o->shard.index, o->shard.last + 1u, o->bytes / o->shard.row_bytes,
		       o->shard.rows, o->shard.first_row);
	printf("\n");
}

static void list_shard_json(struct hr_json *out, const struct hr_store_object *o)
{
	char set[24];

	snprintf(set, sizeof set, "%016" PRIx64, o->shard.set);
	hr_json_object(out, "shard");
	hr_json_u64(out, "index", o->shard.index);
	hr_json_u64(out, "count", o->shard.last + 1u);
	hr_json_u64(out, "first_row", o->shard.first_row);
	hr_json_u64(out, "rows", o->bytes / o->shard.row_bytes);
	hr_json_u64(out, "all_rows", o->shard.rows);
	hr_json_u64(out, "row_bytes", o->shard.row_bytes);
	hr_json_string(out, "set", set);
	hr_json_close(out);
}

static void list_one_json(struct hr_json *out, const struct hr_store_object *o)
{
	char text[32];

	hr_json_object(out, NULL);
	hr_json_string(out, "name", o->name);
	hr_json_u64(out, "id", o->id);
	hr_json_u64(out, "bytes", o->bytes);
	hr_json_u64(out, "capacity_bytes", o->capacity);
	hr_json_u64(out, "offset_bytes", o->offset);
	hr_json_u64(out, "durable_bytes", o->durable_bytes);
	hr_json_bool(out, "pending", (o->flags & HR_OBJECT_PENDING) != 0);
	if (o->flags & HR_OBJECT_HAS_CRC) {
		snprintf(text, sizeof text, "%08x", o->crc);
		hr_json_string(out, "crc32c", text);
	}
	time_format(text, sizeof text, o->created_ns);
	hr_json_string(out, "created", text);
	if (o->flags & HR_OBJECT_SHARD)
		list_shard_json(out, o);
	hr_json_close(out);
}

int hr_store_cmd_ls(struct hr_store_backend *access, const struct hr_store_request *request)
{
	const struct hr_store_object *object;
	struct hr_json report;
	uint32_t count;
	const int code = access->map(access->to, &object, &count, NULL);

	if (code)
		return code;
	if (!request->json) {
		printf("%16s  %-8s  %-20s  %-10s  %s\n", "bytes", "CRC-32C", "created (UTC)",
		       "state", "name");
		for (uint32_t i = 0; i < count; i++)
			list_one(&object[i]);
		return HR_EXIT_DONE;
	}
	hr_report_begin(&report, "store.ls");
	hr_json_string(&report, "ssd", access->disk);
	hr_json_array(&report, "objects");
	for (uint32_t i = 0; i < count; i++)
		list_one_json(&report, &object[i]);
	hr_json_close(&report);
	return hr_report_end(&report, HR_EXIT_DONE, HR_EXIT_FAILED);
}

/* ---- df */

int hr_store_cmd_df(struct hr_store_backend *access, const struct hr_store_request *request)
{
	struct hr_store_space space;
	struct hr_json report;
	const int code = access->map(access->to, NULL, NULL, &space);

	if (code)
		return code;
	if (!request->json) {
		printf("%-14s %20s\n", "", "bytes");
		printf("%-14s %20" PRIu64 "\n", "total", space.total);
		printf("%-14s %20" PRIu64 "\n", "used", space.used);
		printf("%-14s %20" PRIu64 " in %u object%s\n", "  incomplete", space.pending,
		       space.pending_objects, space.pending_objects == 1 ? "" : "s");
		printf("%-14s %20" PRIu64 "\n", "free", space.total - space.used);
		printf("%-14s %20" PRIu64 "\n", "largest gap", space.largest_gap);
		printf("%-14s %20u of %u\n", "objects", space.objects, space.capacity);
		return HR_EXIT_DONE;
	}
	hr_report_begin(&report, "store.df");
	hr_json_string(&report, "ssd", access->disk);
	hr_json_u64(&report, "total_bytes", space.total);
	hr_json_u64(&report, "used_bytes", space.used);
	hr_json_u64(&report, "pending_bytes", space.pending);
	hr_json_u64(&report, "pending_objects", space.pending_objects);
	hr_json_u64(&report, "free_bytes", space.total - space.used);
	hr_json_u64(&report, "largest_gap_bytes", space.largest_gap);
	hr_json_u64(&report, "objects", space.objects);
	hr_json_u64(&report, "objects_max", space.capacity);
	return hr_report_end(&report, HR_EXIT_DONE, HR_EXIT_FAILED);
}

/* ---- verify */

struct verification {
	bool quiet, begun;
	struct hr_progress progress;
	struct hr_json *findings; /* an array is open for them; NULL: text */
};

static void print_finding(void *arg, bool fault, const char *line)
{
	struct verification *v = arg;
	struct hr_json *out = v->findings;

	if (!out) {
		hr_progress_end(&v->progress);
		printf("%s  %s\n", fault ? "FAULT" : "ok   ", line);
		return;
	}
	hr_json_object(out, NULL);
	hr_json_bool(out, "fault", fault);
	hr_json_string(out, "text", line);
	hr_json_close(out);
}

static bool advance(void *arg, uint64_t done, uint64_t total)
{
	struct verification *v = arg;

	if (!v->begun)
		hr_progress_begin(&v->progress, !v->quiet, "verify", 0, total, hr_now_ns());
	v->begun = true;
	hr_progress_update(&v->progress, done, hr_now_ns());
	return !hr_signals_pending();
}

int hr_store_cmd_verify(struct hr_store_backend *access, const struct hr_store_request *request)
{
	struct hr_json report = { 0 };
	struct verification v = { .quiet = request->quiet,
				  .findings = request->json ? &report : NULL };
	const struct hr_store_listener listener = { print_finding, advance, &v };
	uint32_t faults = 0;
	bool complete = false;
	int code;

	if (request->json) {
		hr_report_begin(&report, "store.verify");
		hr_json_array(&report, "findings");
	}
	code = access->verify(access->to, request->map_only, &listener, &faults, &complete);
	hr_progress_end(&v.progress);
	if (!code && faults)
		code = HR_EXIT_FAILED;
	if (!request->json) {
		printf("%s: %u fault%s%s\n", access->disk, faults, faults == 1 ? "" : "s",
		       complete ? "" : "; not checked to the end");
		return code;
	}
	hr_json_close(&report);
	hr_json_string(&report, "ssd", access->disk);
	hr_json_u64(&report, "faults", faults);
	hr_json_bool(&report, "complete", complete);
	return hr_report_end(&report, code, HR_EXIT_FAILED);
}
