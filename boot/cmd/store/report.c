/*
 * `headrace store ls`, `df` and `verify`: what is on the disk, as text or JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config/clock.h"
#include "boot/engine/exit.h"
#include "boot/cmd/report/json.h"
#include "boot/engine/progress.h"
#include "boot/engine/signals.h"
#include "boot/cmd/store/store.h"

#define BUFFER_BYTES (4u << 20)

static void time_format(char *text, size_t bytes, uint64_t ns)
{
	const time_t seconds = (time_t)(ns / HR_NS_PER_S);
	struct tm tm;

	if (!ns || !gmtime_r(&seconds, &tm) ||
	    strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		snprintf(text, bytes, "?");
}

static int print_json(struct json_object *report)
{
	return hr_json_print(report) ? HR_EXIT_FAILED : HR_EXIT_DONE;
}

/* ---- ls */

static void list_one(const struct hr_object *o)
{
	char when[32], crc[16] = "-", state[48] = "whole";

	time_format(when, sizeof when, o->created_ns);
	if (o->flags & HR_OBJECT_HAS_CRC)
		snprintf(crc, sizeof crc, "%08x", o->crc);
	if (o->flags & HR_OBJECT_PENDING)
		snprintf(state, sizeof state, "incomplete");
	printf("%16" PRIu64 "  %-8s  %-20s  %-10s  %s\n", o->bytes, crc, when, state, o->name);
}

static void list_one_json(struct json_object *out, const struct hr_object *o)
{
	char text[32];

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
}

int hr_store_cmd_ls(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	const struct hr_store *store = &ssd->store;
	struct json_object *report, *list;

	if (!wishes->json) {
		printf("%16s  %-8s  %-20s  %-10s  %s\n", "bytes", "CRC-32C", "created (UTC)",
		       "state", "name");
		for (uint32_t i = 0; i < store->count; i++)
			list_one(&store->object[i]);
		return HR_EXIT_DONE;
	}
	report = hr_json_new();
	hr_json_string(report, "ssd", ssd->transport.name);
	list = hr_json_array(report, "objects");
	for (uint32_t i = 0; i < store->count; i++)
		list_one_json(hr_json_append(list), &store->object[i]);
	return print_json(report);
}

/* ---- df */

int hr_store_cmd_df(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	struct hr_store_space space;
	struct json_object *report;

	hr_store_space(&ssd->store, &space);
	if (!wishes->json) {
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
	report = hr_json_new();
	hr_json_string(report, "ssd", ssd->transport.name);
	hr_json_u64(report, "total_bytes", space.total);
	hr_json_u64(report, "used_bytes", space.used);
	hr_json_u64(report, "pending_bytes", space.pending);
	hr_json_u64(report, "pending_objects", space.pending_objects);
	hr_json_u64(report, "free_bytes", space.total - space.used);
	hr_json_u64(report, "largest_gap_bytes", space.largest_gap);
	hr_json_u64(report, "objects", space.objects);
	hr_json_u64(report, "objects_max", space.capacity);
	return print_json(report);
}

/* ---- verify */

struct verification {
	struct hr_progress progress;
	uint64_t done;
	struct json_object *findings; /* NULL: text */
};

static void found(void *arg, bool fault, const char *line)
{
	struct verification *v = arg;
	struct json_object *out;

	if (!v->findings) {
		hr_progress_end(&v->progress);
		printf("%s  %s\n", fault ? "FAULT" : "ok   ", line);
		return;
	}
	out = hr_json_append(v->findings);
	hr_json_bool(out, "fault", fault);
	hr_json_string(out, "text", line);
}

static bool advance(void *arg, uint64_t bytes)
{
	struct verification *v = arg;

	v->done += bytes;
	hr_progress_update(&v->progress, v->done, hr_now_ns());
	return !hr_signals_pending();
}

static uint64_t bytes_to_check(const struct hr_store *store)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < store->count; i++)
		if (store->object[i].flags & HR_OBJECT_HAS_CRC)
			sum += store->object[i].bytes;
	return sum;
}

static int verify(struct hr_ssd *ssd, const struct hr_store_wishes *wishes, uint8_t *buffer)
{
	struct json_object *report = wishes->json ? hr_json_new() : NULL;
	struct verification v = { .findings = report ? hr_json_array(report, "findings") : NULL };
	const struct hr_store_check check = { .report = found,
					      .progress = advance,
					      .arg = &v,
					      .data = !wishes->map_only,
					      .buffer = buffer,
					      .buffer_bytes = BUFFER_BYTES };
	uint32_t faults = 0;
	int err, code;

	hr_progress_begin(&v.progress, !wishes->quiet, "verify", 0, bytes_to_check(&ssd->store),
			  hr_now_ns());
	err = hr_store_verify(&ssd->store, &check, &faults);
	hr_progress_end(&v.progress);
	code = err == -EINTR ? HR_EXIT_FAILED : hr_exit_code_up(err);
	if (!code && faults)
		code = HR_EXIT_FAILED;
	if (!report) {
		printf("%s: %u fault%s%s\n", ssd->transport.name, faults, faults == 1 ? "" : "s",
		       err ? "; not checked to the end" : "");
		return code;
	}
	hr_json_string(report, "ssd", ssd->transport.name);
	hr_json_u64(report, "faults", faults);
	hr_json_bool(report, "complete", err == 0);
	return print_json(report) ? HR_EXIT_FAILED : code;
}

int hr_store_cmd_verify(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	uint8_t *buffer = aligned_alloc(HR_PAGE, BUFFER_BYTES);
	int code;

	if (!buffer)
		return hr_store_failed(ssd, NULL, -ENOMEM);
	code = verify(ssd, wishes, buffer);
	free(buffer);
	return code;
}
