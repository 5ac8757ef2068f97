/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/report/parts.h"
#include "boot/cmd/report/reports.h"

#include "boot/engine/devices/stand_in.h"
#include "boot/engine/objects/shards.h"
#include "boot/engine/shape/paths.h"
#include "boot/engine/concurrency.h"
#include "boot/engine/shape/shape.h"
#include "boot/engine/shape/gpu_sharing.h"
#include "boot/engine/bringup/sinks.h"
#include "config/derived.h"

#define MIB (1024.0 * 1024.0)

/* Text about the namespace; empty for namespace 1 of a controller without other used namespaces. */
static const char *namespace_text(const struct hr_ssd *ssd, char *text, size_t bytes)
{
	text[0] = '\0';
	if (ssd->ns.nsid != 1 || (ssd->controller && ssd->controller->users > 1))
		snprintf(text, bytes, " namespace %u", ssd->ns.nsid);
	return text;
}

static void print_ssds(const struct hr_engine *engine, FILE *out)
{
	fprintf(out, "ssds\n");
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		const struct hr_ssd *ssd = &engine->ssd[d];
		uint64_t bytes = ssd->ns.blocks << ssd->ns.lba_shift;
		char text[32];

		fprintf(out,
			"  %-12s %s%s: %s, serial %s, %.0f MiB in blocks of %u, commands up to %u "
			"KiB, %u queue pairs%s\n",
			engine->config.ssd[d].name, ssd->transport.name,
			namespace_text(ssd, text, sizeof text), ssd->ctrl->model, ssd->ctrl->serial,
			(double)bytes / MIB, 1u << ssd->ns.lba_shift, ssd->chunk_bytes >> 10,
			hr_ssd_queues(ssd), ssd->ctrl->volatile_cache ? ", volatile cache" : "");
		if (hr_stand_in_by(ssd))
			fprintf(out,
				"  %-12s appliance '%s' drives it: properties, objects and space "
				"are as it reports them\n",
				"", hr_stand_in_by(ssd));
		fprintf(out,
			"  %-12s host memory: %zu bytes for queues and disk, %zu for the object "
			"map\n",
			"", hr_ssd_dma_bytes(ssd), hr_ssd_map_bytes(ssd));
	}
}

static void print_gpus(const struct hr_engine *engine, FILE *out)
{
	fprintf(out, "\ngpus\n");
	for (uint32_t g = 0; g < engine->config.gpus; g++) {
		const struct hr_backend *b = &engine->backend[g];
		char text[HR_LOG_LINE_MAX];

		if (!engine->gpu_up[g]) {
			fprintf(out, "  %-12s %s, not used by any pipeline\n",
				engine->config.gpu[g].name, engine->config.gpu[g].device);
			continue;
		}
		fprintf(out, "  %-12s %s\n", engine->config.gpu[g].name, b->name);
		if (*engine->backend[g].note)
			fprintf(out, "  %-12s %s\n", "", engine->backend[g].note);
		if (!b->facts)
			continue;
		hr_gpu_facts_text(b->facts, text, sizeof text);
		fprintf(out, "  %-12s %s\n", "", text);
		for (unsigned k = 0; k < b->facts->entries; k++)
			fprintf(out,
				"  %-12s %s: %u registers, %u bytes shared, %u bytes local, up to "
				"%u threads\n",
				"", b->facts->entry[k].name, b->facts->entry[k].registers,
				b->facts->entry[k].shared_bytes, b->facts->entry[k].local_bytes,
				b->facts->entry[k].max_threads);
		hr_gpu_roles_text(b->facts, text, sizeof text);
		if (*text)
			fprintf(out, "  %-12s registers by role: %s\n", "", text);
	}
}

/* The objects of an access operator, and its page cache. */
static void print_access(const struct hr_engine *engine, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	const struct hr_access *a = &run->gpu[0].cpu;
	char gpus[HR_GPUS_MAX * HR_NAME_MAX];

	fprintf(out, "  %-12s %s on %s: %llu frames of %u KiB, %s; blocks %u I/O + %u compute",
		p->name, p->op->name, hr_config_gpu_names(&engine->config, p, gpus, sizeof gpus),
		(unsigned long long)hr_page_frames(&a->cache.shape), p->cache.page_bytes >> 10,
		hr_config_policies[p->cache.policy], run->blocks[HR_ROLE_IO],
		run->blocks[HR_ROLE_ACCESS]);
	if (engine->backend[p->gpu].lanes > 1)
		fprintf(out, " of %u threads, %u workers drive queues", run->threads,
			hr_run_workers(run, HR_ROLE_IO));
	fprintf(out, "%s\n", hr_run_gpus(run) > 1 ? ", on each gpu" : "");
	for (uint32_t i = 0; i < p->objects; i++) {
		if (!run->object[i].used)
			continue;
		fprintf(out, "  %-12s %s %s:%s as %s, %llu bytes%s", "",
			p->object[i].writes ? "writes" : "reads ",
			engine->config.ssd[p->object[i].ssd].name, p->object[i].object,
			p->op->object[i].name,
			(unsigned long long)hr_run_object_all(&run->object[i]),
			hr_sink_plan_text(run->object[i].plan));
		if (!p->object[i].bytes)
			hr_report_verify_plan(run, &run->object[i].verify, out);
		fprintf(out, "%s\n",
			p->object[i].writes && p->object[i].checksum ? "; gets a checksum" : "");
	}
	fprintf(out, "  %-12s path: %s%s\n", "", hr_run_path(engine, run),
		run->gpu[0].layout.stages ? ", copied to frames" : "");
	hr_report_paths(engine, run, "               ", out);
}

static void print_tap(const struct hr_engine *engine, const struct hr_run *run, FILE *out)
{
	const struct hr_config_tap *tap = &run->config->tap;
	const char *why;
	const enum hr_tap_sharing share = hr_run_gpu_sharing(engine, run, &why);

	fprintf(out,
		"  %-12s lends  tap %s, %llu bytes, %u a tile; each tile to %s, %s, up to %u "
		"credits a consumer\n",
		"", tap->name, (unsigned long long)run->sink_bytes, run->sink_tile_bytes,
		tap->deliver == HR_TAP_EACH ? "each consumer" : "one consumer",
		tap->lag == HR_TAP_DROP ? "dropped without a credit" : "waits for a credit",
		hr_run_tap_credits(run));
	fprintf(out, "  %-12s shares the gpu: %s (%s)\n", "", hr_gpu_sharing_name(share), why);
	if (hr_run_gpu_sharing_is_small(engine, run))
		fprintf(out,
			"  %-12s %u tiles are %llu MiB: the turns of processes cost much of the rate "
			"below %llu MiB\n",
			"", run->slots, (unsigned long long)run->slots * run->sink_tile_bytes >> 20,
			(unsigned long long)HR_GPU_SHARING_PARK_BYTES >> 20);
}

static void print_pipeline(const struct hr_engine *engine, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	const char *bounce = hr_run_bounce(engine, run);

	if (p->objects) {
		print_access(engine, run, out);
		return;
	}
	fprintf(out, "  %-12s %s on %s: %llu tiles, %u slots, blocks %u + %u + %u", p->name,
		p->op->name, engine->config.gpu[p->gpu].name, (unsigned long long)run->tiles,
		run->slots, run->blocks[HR_ROLE_PREFETCH], run->blocks[HR_ROLE_COMPUTE],
		run->blocks[HR_ROLE_WRITEBACK]);
	if (engine->backend[p->gpu].lanes > 1)
		fprintf(out, " of %u threads, %u + %u workers drive queues", run->threads,
			hr_run_workers(run, HR_ROLE_PREFETCH),
			hr_run_workers(run, HR_ROLE_WRITEBACK));
	fprintf(out, "\n");
	if (hr_config_is_remote(p))
		hr_report_remote_plan(engine, run, out);
	if (hr_config_has_feed(p) && !hr_config_receives(p))
		fprintf(out,
			"  %-12s takes  feed %s, %llu bytes at most, %u a tile; up to %u credits%s\n",
			"", p->feed.name, (unsigned long long)run->source[0].bytes,
			run->source[0].tile_bytes, hr_run_feed_credits(run),
			run->copies ? "; copied before use" : "");
	for (uint32_t s = 0; s < hr_config_source_objects(p); s++) {
		fprintf(out, "  %-12s reads  %s:%s, %llu bytes, %u a tile", "",
			engine->config.ssd[p->source[s].ssd].name, p->source[s].object,
			(unsigned long long)run->source[s].bytes, run->source[s].tile_bytes);
		hr_report_verify_plan(run, &run->source[s].verify, out);
		fprintf(out, "\n");
	}
	if (p->has_sink)
		fprintf(out, "  %-12s writes %s:%s, %llu bytes, %u a tile%s\n", "",
			engine->config.ssd[p->sink.ssd].name, p->sink.object,
			(unsigned long long)run->sink_bytes, run->sink_tile_bytes,
			hr_sink_plan_text(run->sink_plan));
	if (hr_config_has_tap(p) && !hr_config_sends(p))
		print_tap(engine, run, out);
	fprintf(out, "  %-12s path: %s%s%s\n", "", hr_run_path(engine, run),
		bounce ? ", read " : "", bounce ? bounce : "");
	hr_report_paths(engine, run, "               ", out);
}

static void print_waits(const struct hr_engine *engine, uint32_t i, FILE *out)
{
	const hr_pipeline_set before = hr_concurrency_before(engine, i);
	const char *comma = "";

	if (engine->config.parallel == 1 || !before)
		return;
	fprintf(out, "  %-12s waits for: ", "");
	for (uint32_t j = 0; j < i; j++) {
		if (!(before >> j & 1))
			continue;
		fprintf(out, "%s%s", comma, engine->config.pipeline[j].name);
		comma = ", ";
	}
	fprintf(out, "\n");
}

static void waits_json(const struct hr_engine *engine, uint32_t i, struct hr_json *out)
{
	const hr_pipeline_set before = hr_concurrency_before(engine, i);

	hr_json_array(out, "waits_for");
	for (uint32_t j = 0; j < i; j++)
		if (before >> j & 1)
			hr_json_string(out, NULL, engine->config.pipeline[j].name);
	hr_json_close(out);
}

void hr_report_map(const struct hr_engine *engine, FILE *out)
{
	const char *before = "";

	for (uint32_t g = 0; g < engine->config.gpus; g++) {
		if (!engine->gpu_up[g])
			continue;
		fprintf(out, "%spartition of gpu %s (%s)\n", before, engine->config.gpu[g].name,
			engine->backend[g].name);
		hr_partition_print(&engine->partition[g], out);
		before = "\n";
	}
}

void hr_report_plan(const struct hr_engine *engine, FILE *out)
{
	print_ssds(engine, out);
	print_gpus(engine, out);
	fprintf(out, "\npipelines");
	if (engine->config.parallel > 1)
		fprintf(out, ", up to %u at the same time", engine->config.parallel);
	fprintf(out, "\n");
	for (uint32_t i = 0; i < engine->config.pipelines; i++) {
		if (!engine->run[i].selected)
			continue;
		print_pipeline(engine, &engine->run[i], out);
		print_waits(engine, i, out);
	}
	fprintf(out, "\n");
	hr_report_map(engine, out);
}

static void ssds_json(const struct hr_engine *engine, struct hr_json *report)
{
	hr_json_array(report, "ssds");
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		const struct hr_ssd *ssd = &engine->ssd[d];

		hr_json_object(report, NULL);
		hr_json_string(report, "name", engine->config.ssd[d].name);
		hr_json_string(report, "device", engine->config.ssd[d].device);
		hr_json_string(report, "model", ssd->ctrl->model);
		hr_json_string(report, "serial", ssd->ctrl->serial);
		hr_json_u64(report, "namespace", ssd->ns.nsid);
		hr_json_u64(report, "size_bytes", ssd->ns.blocks << ssd->ns.lba_shift);
		hr_json_u64(report, "block_bytes", 1u << ssd->ns.lba_shift);
		hr_json_u64(report, "command_max_bytes", ssd->chunk_bytes);
		hr_json_u64(report, "queue_pairs", hr_ssd_queues(ssd));
		hr_json_bool(report, "volatile_cache", ssd->ctrl->volatile_cache);
		hr_json_bool(report, "store", ssd->has_store);
		if (hr_stand_in_by(ssd))
			hr_json_string(report, "driven_by_appliance", hr_stand_in_by(ssd));
		hr_json_u64(report, "queue_memory_bytes", hr_ssd_dma_bytes(ssd));
		hr_json_u64(report, "map_memory_bytes", hr_ssd_map_bytes(ssd));
		hr_json_close(report);
	}
	hr_json_close(report);
}

static void entries_json(struct hr_json *out, const char *key, const struct hr_entry_facts *entry,
			 unsigned count)
{
	hr_json_array(out, key);
	for (unsigned k = 0; k < count; k++) {
		hr_json_object(out, NULL);
		hr_json_string(out, "name", entry[k].name);
		hr_json_u64(out, "registers", entry[k].registers);
		hr_json_u64(out, "shared_bytes", entry[k].shared_bytes);
		hr_json_u64(out, "local_bytes", entry[k].local_bytes);
		hr_json_u64(out, "max_threads", entry[k].max_threads);
		hr_json_close(out);
	}
	hr_json_close(out);
}

static void facts_json(const struct hr_gpu_facts *f, struct hr_json *out)
{
	const char *name;
	bool supported;

	hr_json_object(out, "supports");
	for (unsigned i = 0; (name = hr_gpu_feature(f, i, &supported)); i++)
		hr_json_bool(out, name, supported);
	hr_json_close(out);
	hr_json_string(out, "model", f->model);
	hr_json_string(out, "pci", f->pci);
	hr_json_string(out, "driver", f->driver);
	hr_json_u64(out, "cuda_version", f->interface);
	hr_json_u64(out, "compute_capability", f->capability);
	hr_json_u64(out, "processors", f->processors);
	hr_json_u64(out, "memory_bytes", f->memory_bytes);
	hr_json_u64(out, "block_registers", f->block_registers);
	entries_json(out, "entry_points", f->entry, f->entries);
	if (f->roles)
		entries_json(out, "roles", f->role, f->roles);
}

void hr_report_objects_json(const struct hr_engine *engine, const struct hr_run *run,
			    struct hr_json *out)
{
	const struct hr_config_pipeline *p = run->config;

	hr_json_array(out, "objects");
	for (uint32_t i = 0; i < p->objects; i++) {
		if (!run->object[i].used)
			continue;
		hr_json_object(out, NULL);
		hr_json_string(out, "name", p->op->object[i].name);
		hr_json_string(out, "ssd", engine->config.ssd[p->object[i].ssd].name);
		hr_json_string(out, "object", p->object[i].object);
		hr_json_u64(out, "size_bytes", hr_run_object_all(&run->object[i]));
		hr_json_bool(out, "written", p->object[i].writes);
		hr_json_bool(out, "new", p->object[i].bytes != 0);
		if (p->object[i].writes)
			hr_json_bool(out, "checksum", p->object[i].checksum);
		if (!p->object[i].bytes)
			hr_report_verify_json(run, &run->object[i].verify, out);
		if (run->object[i].summed)
			hr_report_crc_json(out, "written_crc32c", run->object[i].crc);
		hr_json_close(out);
	}
	hr_json_close(out);
}

void hr_report_gpus_json(const struct hr_engine *engine, bool facts, struct hr_json *report)
{
	hr_json_array(report, "gpus");
	for (uint32_t g = 0; g < engine->config.gpus; g++) {
		const struct hr_backend *b = &engine->backend[g];

		if (!engine->gpu_up[g])
			continue;
		hr_json_object(report, NULL);
		hr_json_string(report, "name", engine->config.gpu[g].name);
		hr_json_string(report, "device", engine->config.gpu[g].device);
		hr_json_string(report, "backend", b->name);
		if (*engine->backend[g].note)
			hr_json_string(report, "note", engine->backend[g].note);
		if (facts && b->facts)
			facts_json(b->facts, report);
		hr_json_close(report);
	}
	hr_json_close(report);
}

/* checksum: of a source: the run compares it; of a sink: the run computes one. */
static void object_json(struct hr_json *out, const char *key, const struct hr_engine *engine,
			const struct hr_config_object *object, uint64_t bytes, uint32_t tile_bytes,
			bool checksum)
{
	hr_json_object(out, key);
	hr_json_string(out, "ssd", engine->config.ssd[object->ssd].name);
	hr_json_string(out, "object", object->object);
	hr_json_u64(out, "size_bytes", bytes);
	hr_json_u64(out, "tile_bytes", tile_bytes);
	hr_json_bool(out, "checksum", checksum);
	hr_json_close(out);
}

static void access_json(const struct hr_engine *engine, const struct hr_run *run,
			struct hr_json *out)
{
	const struct hr_config_pipeline *p = run->config;
	const struct hr_access *a = &run->gpu[0].cpu;

	hr_json_object(out, "cache");
	hr_json_u64(out, "frames", hr_page_frames(&a->cache.shape));
	hr_json_u64(out, "page_bytes", p->cache.page_bytes);
	hr_json_string(out, "policy", hr_config_policies[p->cache.policy]);
	hr_json_u64(out, "command_pages", a->merge_pages);
	hr_json_u64(out, "commands", a->commands);
	hr_json_bool(out, "staging", run->gpu[0].layout.stages);
	hr_json_close(out);
	hr_json_object(out, "blocks");
	hr_json_u64(out, "io", run->blocks[HR_ROLE_IO]);
	hr_json_u64(out, "compute", run->blocks[HR_ROLE_ACCESS]);
	hr_json_u64(out, "threads", run->threads);
	hr_json_u64(out, "io_workers", hr_run_workers(run, HR_ROLE_IO));
	hr_json_close(out);
	hr_report_objects_json(engine, run, out);
}

static void tap_json(const struct hr_engine *engine, const struct hr_run *run, struct hr_json *out)
{
	const struct hr_config_tap *tap = &run->config->tap;
	const char *why;

	hr_json_object(out, "tap");
	hr_json_string(out, "name", tap->name);
	hr_json_string(out, "deliver", tap->deliver == HR_TAP_EACH ? "each" : "one");
	hr_json_string(out, "lag", tap->lag == HR_TAP_DROP ? "drop" : "block");
	hr_json_string(out, "share", hr_gpu_sharing_name(hr_run_gpu_sharing(engine, run, &why)));
	hr_json_string(out, "share_reason", why);
	hr_json_u64(out, "consumers", tap->consumers);
	hr_json_u64(out, "credits", hr_run_tap_credits(run));
	hr_json_u64(out, "size_bytes", run->sink_bytes);
	hr_json_u64(out, "tile_bytes", run->sink_tile_bytes);
	hr_json_string(out, "dtype", tap->dtype);
	hr_json_u64(out, "columns", tap->columns);
	hr_json_close(out);
}

static void feed_json(const struct hr_run *run, struct hr_json *out)
{
	const struct hr_config_feed *feed = &run->config->feed;

	hr_json_object(out, "feed");
	hr_json_string(out, "name", feed->name);
	hr_json_u64(out, "credits", hr_run_feed_credits(run));
	hr_json_u64(out, "size_bytes", run->source[0].bytes);
	hr_json_u64(out, "tile_bytes", run->source[0].tile_bytes);
	hr_json_bool(out, "copied", run->copies);
	hr_json_string(out, "dtype", feed->dtype);
	hr_json_u64(out, "columns", feed->columns);
	hr_json_close(out);
}

static void stream_json(const struct hr_engine *engine, const struct hr_run *run,
			struct hr_json *out)
{
	const struct hr_config_pipeline *p = run->config;

	hr_json_u64(out, "tiles", run->tiles);
	if (hr_run_bounce(engine, run))
		hr_json_string(out, "bounce", hr_run_bounce(engine, run));
	hr_json_u64(out, "slots", run->slots);
	hr_json_object(out, "blocks");
	hr_json_u64(out, "prefetch", run->blocks[HR_ROLE_PREFETCH]);
	hr_json_u64(out, "compute", run->blocks[HR_ROLE_COMPUTE]);
	hr_json_u64(out, "writeback", run->blocks[HR_ROLE_WRITEBACK]);
	hr_json_u64(out, "threads", run->threads);
	hr_json_u64(out, "prefetch_workers", hr_run_workers(run, HR_ROLE_PREFETCH));
	hr_json_u64(out, "writeback_workers", hr_run_workers(run, HR_ROLE_WRITEBACK));
	hr_json_close(out);
	hr_json_array(out, "sources");
	for (uint32_t s = 0; s < hr_config_source_objects(p); s++)
		object_json(out, NULL, engine, &p->source[s], run->source[s].bytes,
			    run->source[s].tile_bytes, run->source[s].verify.wanted);
	hr_json_close(out);
	if (hr_config_has_feed(p) && !hr_config_receives(p))
		feed_json(run, out);
	if (hr_config_is_remote(p))
		hr_report_remote_plan_json(engine, run, out);
	if (hr_config_has_tap(p) && !hr_config_sends(p))
		tap_json(engine, run, out);
	if (p->has_sink)
		object_json(out, "sink", engine, &p->sink, run->sink_bytes, run->sink_tile_bytes,
			    p->sink.checksum);
}

static void pipeline_json(const struct hr_engine *engine, const struct hr_run *run,
			  struct hr_json *out)
{
	const struct hr_config_pipeline *p = run->config;

	hr_json_object(out, NULL);
	hr_report_head_json(engine, run, out);
	if (p->objects)
		access_json(engine, run, out);
	else
		stream_json(engine, run, out);
	waits_json(engine, (uint32_t)(run - engine->run), out);
	hr_json_close(out);
}

/* Print an address unless there is none. */
static void address_json(struct hr_json *out, const char *name, uint64_t base, uint64_t offset)
{
	if (base)
		hr_json_u64(out, name, base + offset);
}

static void part_json(const struct hr_partition *p, const struct hr_part *part, struct hr_json *out)
{
	const struct hr_region *r = &p->region[part->place];

	hr_json_object(out, NULL);
	hr_json_string(out, "place", hr_place_name(part->place));
	hr_json_u64(out, "offset_bytes", part->offset);
	hr_json_u64(out, "size_bytes", part->bytes);
	if (hr_partition_bound(p)) {
		address_json(out, "worker_address", (uintptr_t)r->worker, part->offset);
		address_json(out, "cpu_address", (uintptr_t)r->cpu, part->offset);
		address_json(out, "ssd_address", hr_partition_ssd(p, part->place, part->offset), 0);
	}
	hr_json_string(out, "owner", part->owner);
	hr_json_string(out, "purpose", part->purpose);
	hr_json_close(out);
}

static void partition_json(const struct hr_engine *engine, uint32_t g, struct hr_json *out)
{
	const struct hr_partition *p = &engine->partition[g];

	hr_json_object(out, NULL);
	hr_json_string(out, "gpu", engine->config.gpu[g].name);
	hr_json_string(out, "backend", engine->backend[g].name);
	hr_json_array(out, "places");
	for (int i = 0; i < HR_PLACES; i++) {
		hr_json_object(out, NULL);
		hr_json_string(out, "name", hr_place_name((enum hr_place)i));
		hr_json_u64(out, "used_bytes", p->used[i]);
		hr_json_u64(out, "limit_bytes", p->limit[i]);
		hr_json_close(out);
	}
	hr_json_close(out);
	hr_json_array(out, "parts");
	for (uint32_t i = 0; i < p->count; i++)
		part_json(p, &p->part[i], out);
	hr_json_close(out);
	hr_json_close(out);
}

void hr_report_map_json(const struct hr_engine *engine, struct hr_json *report)
{
	hr_json_array(report, "partitions");
	for (uint32_t g = 0; g < engine->config.gpus; g++)
		if (engine->gpu_up[g])
			partition_json(engine, g, report);
	hr_json_close(report);
}

void hr_report_plan_json(const struct hr_engine *engine, struct hr_json *report)
{
	hr_json_string(report, "appliance", engine->config.name);
	hr_json_string(report, "configuration", engine->config.file);
	ssds_json(engine, report);
	hr_json_u64(report, "parallel", engine->config.parallel);
	hr_report_gpus_json(engine, true, report);
	hr_json_array(report, "pipelines");
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->run[i].selected)
			pipeline_json(engine, &engine->run[i], report);
	hr_json_close(report);
	hr_report_map_json(engine, report);
}
