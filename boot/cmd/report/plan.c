#include "boot/cmd/report/report.h"

#include "boot/cmd/report/json.h"
#include "boot/engine/paths.h"
#include "boot/engine/shape.h"
#include "boot/engine/stage_sinks.h"

#define MIB (1024.0 * 1024.0)

/* Where it is not the only one of the controller in use, or not the first. */
static const char *namespace_text(const struct hr_ssd *ssd, char *text, size_t bytes)
{
	text[0] = '\0';
	if (ssd->ns.nsid != 1 || (ssd->controller && ssd->controller->users > 1))
		snprintf(text, bytes, " namespace %u", ssd->ns.nsid);
	return text;
}

static void print_ssds(const struct hr_appliance *app, FILE *out)
{
	fprintf(out, "ssds\n");
	for (uint32_t d = 0; d < app->config.ssds; d++) {
		const struct hr_ssd *ssd = &app->ssd[d];
		uint64_t bytes = ssd->ns.blocks << ssd->ns.lba_shift;
		char text[32];

		fprintf(out,
			"  %-12s %s%s: %s, serial %s, %.0f MiB in blocks of %u, commands up to %u "
			"KiB, %u queue pairs%s\n",
			app->config.ssd[d].name, ssd->transport.name,
			namespace_text(ssd, text, sizeof text), ssd->ctrl->model, ssd->ctrl->serial,
			(double)bytes / MIB, 1u << ssd->ns.lba_shift, ssd->chunk_bytes >> 10,
			hr_ssd_queues(ssd), ssd->ctrl->volatile_cache ? ", volatile cache" : "");
		fprintf(out,
			"  %-12s host memory: %zu bytes for queues and disk, %zu for the object "
			"map\n",
			"", hr_ssd_dma_bytes(ssd), hr_ssd_map_bytes(ssd));
	}
}

static void print_gpus(const struct hr_appliance *app, FILE *out)
{
	fprintf(out, "\ngpus\n");
	for (uint32_t g = 0; g < app->config.gpus; g++) {
		const struct hr_backend *b = &app->backend[g];
		char text[HR_LOG_LINE_MAX];

		if (!app->gpu_up[g]) {
			fprintf(out, "  %-12s %s, which no pipeline uses\n",
				app->config.gpu[g].name, app->config.gpu[g].device);
			continue;
		}
		fprintf(out, "  %-12s %s\n", app->config.gpu[g].name, b->name);
		if (*app->gpu_note[g])
			fprintf(out, "  %-12s %s\n", "", app->gpu_note[g]);
		if (!b->facts)
			continue;
		hr_gpu_facts_text(b->facts, text, sizeof text);
		fprintf(out, "  %-12s %s\n", "", text);
		for (unsigned k = 0; k < b->facts->kernels; k++)
			fprintf(out,
				"  %-12s %s: %u registers, %u bytes shared, %u bytes local, up to "
				"%u threads\n",
				"", b->facts->kernel[k].name, b->facts->kernel[k].registers,
				b->facts->kernel[k].shared_bytes, b->facts->kernel[k].local_bytes,
				b->facts->kernel[k].max_threads);
		hr_gpu_roles_text(b->facts, text, sizeof text);
		if (*text)
			fprintf(out, "  %-12s registers by role: %s\n", "", text);
	}
}

static void print_pipeline(const struct hr_appliance *app, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	const char *bounce = hr_run_bounce(app, run);

	fprintf(out, "  %-12s %s on %s: %llu tiles, %u slots, blocks %u + %u + %u", p->name,
		p->op->name, app->config.gpu[p->gpu].name, (unsigned long long)run->tiles,
		run->slots, run->blocks[HR_ROLE_PREFETCH], run->blocks[HR_ROLE_COMPUTE],
		run->blocks[HR_ROLE_WRITEBACK]);
	if (app->backend[p->gpu].lanes > 1)
		fprintf(out, " of %u threads, %u + %u workers drive queues", run->threads,
			hr_run_workers(run, HR_ROLE_PREFETCH),
			hr_run_workers(run, HR_ROLE_WRITEBACK));
	fprintf(out, "\n");
	for (uint32_t s = 0; s < p->sources; s++)
		fprintf(out, "  %-12s reads  %s:%s, %llu bytes, %u a tile%s\n", "",
			app->config.ssd[p->source[s].ssd].name, p->source[s].object,
			(unsigned long long)run->source[s].bytes, run->source[s].tile_bytes,
			run->source[s].verifiable ? "; compared with its checksum" : "");
	if (p->has_sink)
		fprintf(out, "  %-12s writes %s:%s, %llu bytes, %u a tile%s\n", "",
			app->config.ssd[p->sink.ssd].name, p->sink.object,
			(unsigned long long)run->sink_bytes, run->sink_tile_bytes,
			hr_sink_prospect(run));
	fprintf(out, "  %-12s path: %s%s%s\n", "", hr_run_path(app, run), bounce ? ", read " : "",
		bounce ? bounce : "");
	hr_report_paths(app, run, "               ", out);
}

void hr_report_map(const struct hr_appliance *app, FILE *out)
{
	const char *before = "";

	for (uint32_t g = 0; g < app->config.gpus; g++) {
		if (!app->gpu_up[g])
			continue;
		fprintf(out, "%spartition of gpu %s (%s)\n", before, app->config.gpu[g].name,
			app->backend[g].name);
		hr_partition_print(&app->partition[g], out);
		before = "\n";
	}
}

void hr_report_plan(const struct hr_appliance *app, FILE *out)
{
	print_ssds(app, out);
	print_gpus(app, out);
	fprintf(out, "\npipelines\n");
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected)
			print_pipeline(app, &app->run[i], out);
	fprintf(out, "\n");
	hr_report_map(app, out);
}

static void ssds_json(const struct hr_appliance *app, struct json_object *report)
{
	struct json_object *list = hr_json_array(report, "ssds");

	for (uint32_t d = 0; d < app->config.ssds; d++) {
		const struct hr_ssd *ssd = &app->ssd[d];
		struct json_object *one = hr_json_append(list);

		hr_json_string(one, "name", app->config.ssd[d].name);
		hr_json_string(one, "device", app->config.ssd[d].device);
		hr_json_string(one, "model", ssd->ctrl->model);
		hr_json_string(one, "serial", ssd->ctrl->serial);
		hr_json_u64(one, "namespace", ssd->ns.nsid);
		hr_json_u64(one, "size_bytes", ssd->ns.blocks << ssd->ns.lba_shift);
		hr_json_u64(one, "block_bytes", 1u << ssd->ns.lba_shift);
		hr_json_u64(one, "command_max_bytes", ssd->chunk_bytes);
		hr_json_u64(one, "queue_pairs", hr_ssd_queues(ssd));
		hr_json_bool(one, "volatile_cache", ssd->ctrl->volatile_cache);
		hr_json_bool(one, "store", ssd->has_store);
		hr_json_u64(one, "queue_memory_bytes", hr_ssd_dma_bytes(ssd));
		hr_json_u64(one, "map_memory_bytes", hr_ssd_map_bytes(ssd));
	}
}

static void kernels_json(const struct hr_kernel_facts *kernel, unsigned count,
			 struct json_object *list)
{
	for (unsigned k = 0; k < count; k++) {
		struct json_object *one = hr_json_append(list);

		hr_json_string(one, "name", kernel[k].name);
		hr_json_u64(one, "registers", kernel[k].registers);
		hr_json_u64(one, "shared_bytes", kernel[k].shared_bytes);
		hr_json_u64(one, "local_bytes", kernel[k].local_bytes);
		hr_json_u64(one, "max_threads", kernel[k].max_threads);
	}
}

static void facts_json(const struct hr_gpu_facts *f, struct json_object *out)
{
	struct json_object *list = hr_json_object(out, "supports");
	const char *name;
	bool supported;

	hr_json_string(out, "model", f->model);
	hr_json_string(out, "pci", f->pci);
	hr_json_string(out, "driver", f->driver);
	hr_json_u64(out, "cuda_version", f->interface);
	hr_json_u64(out, "compute_capability", f->capability);
	hr_json_u64(out, "processors", f->processors);
	hr_json_u64(out, "memory_bytes", f->memory_bytes);
	for (unsigned i = 0; (name = hr_gpu_feature(f, i, &supported)); i++)
		hr_json_bool(list, name, supported);
	hr_json_u64(out, "block_registers", f->block_registers);
	kernels_json(f->kernel, f->kernels, hr_json_array(out, "kernels"));
	if (f->roles)
		kernels_json(f->role, f->roles, hr_json_array(out, "roles"));
}

void hr_report_gpus_json(const struct hr_appliance *app, bool facts, struct json_object *report)
{
	struct json_object *list = hr_json_array(report, "gpus");

	for (uint32_t g = 0; g < app->config.gpus; g++) {
		const struct hr_backend *b = &app->backend[g];
		struct json_object *one;

		if (!app->gpu_up[g])
			continue;
		one = hr_json_append(list);
		hr_json_string(one, "name", app->config.gpu[g].name);
		hr_json_string(one, "device", app->config.gpu[g].device);
		hr_json_string(one, "backend", b->name);
		if (*app->gpu_note[g])
			hr_json_string(one, "note", app->gpu_note[g]);
		if (facts && b->facts)
			facts_json(b->facts, one);
	}
}

/* checksum: a source is compared with its own; a sink gets one. */
static void object_json(const struct hr_appliance *app, const struct hr_config_object *object,
			uint64_t bytes, uint32_t tile_bytes, bool checksum, struct json_object *out)
{
	hr_json_string(out, "ssd", app->config.ssd[object->ssd].name);
	hr_json_string(out, "object", object->object);
	hr_json_u64(out, "size_bytes", bytes);
	hr_json_u64(out, "tile_bytes", tile_bytes);
	hr_json_bool(out, "checksum", checksum);
}

static void pipeline_json(const struct hr_appliance *app, const struct hr_run *run,
			  struct json_object *out)
{
	const struct hr_config_pipeline *p = run->config;
	struct json_object *sources, *blocks;

	hr_json_string(out, "name", p->name);
	hr_json_string(out, "operator", p->op->name);
	hr_json_string(out, "gpu", app->config.gpu[p->gpu].name);
	hr_json_string(out, "path", hr_run_path(app, run));
	hr_report_paths_json(app, run, out);
	hr_json_u64(out, "tiles", run->tiles);
	if (hr_run_bounce(app, run))
		hr_json_string(out, "bounce", hr_run_bounce(app, run));
	hr_json_u64(out, "slots", run->slots);
	blocks = hr_json_object(out, "blocks");
	hr_json_u64(blocks, "prefetch", run->blocks[HR_ROLE_PREFETCH]);
	hr_json_u64(blocks, "compute", run->blocks[HR_ROLE_COMPUTE]);
	hr_json_u64(blocks, "writeback", run->blocks[HR_ROLE_WRITEBACK]);
	hr_json_u64(blocks, "threads", run->threads);
	hr_json_u64(blocks, "prefetch_workers", hr_run_workers(run, HR_ROLE_PREFETCH));
	hr_json_u64(blocks, "writeback_workers", hr_run_workers(run, HR_ROLE_WRITEBACK));
	sources = hr_json_array(out, "sources");
	for (uint32_t s = 0; s < p->sources; s++)
		object_json(app, &p->source[s], run->source[s].bytes, run->source[s].tile_bytes,
			    run->source[s].verifiable, hr_json_append(sources));
	if (p->has_sink)
		object_json(app, &p->sink, run->sink_bytes, run->sink_tile_bytes, p->sink.checksum,
			    hr_json_object(out, "sink"));
}

/* An address that is not there is no address. */
static void address_json(struct json_object *out, const char *name, uint64_t base, uint64_t offset)
{
	if (base)
		hr_json_u64(out, name, base + offset);
}

static void part_json(const struct hr_partition *p, const struct hr_part *part,
		      struct json_object *out)
{
	const struct hr_region *r = &p->region[part->place];

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
}

static void partition_json(const struct hr_appliance *app, uint32_t g, struct json_object *out)
{
	const struct hr_partition *p = &app->partition[g];
	struct json_object *places, *parts;

	hr_json_string(out, "gpu", app->config.gpu[g].name);
	hr_json_string(out, "backend", app->backend[g].name);
	places = hr_json_array(out, "places");
	for (int i = 0; i < HR_PLACES; i++) {
		struct json_object *place = hr_json_append(places);

		hr_json_string(place, "name", hr_place_name((enum hr_place)i));
		hr_json_u64(place, "used_bytes", p->used[i]);
		hr_json_u64(place, "limit_bytes", p->limit[i]);
	}
	parts = hr_json_array(out, "parts");
	for (uint32_t i = 0; i < p->count; i++)
		part_json(p, &p->part[i], hr_json_append(parts));
}

void hr_report_map_json(const struct hr_appliance *app, struct json_object *report)
{
	struct json_object *list = hr_json_array(report, "partitions");

	for (uint32_t g = 0; g < app->config.gpus; g++)
		if (app->gpu_up[g])
			partition_json(app, g, hr_json_append(list));
}

void hr_report_plan_json(const struct hr_appliance *app, struct json_object *report)
{
	struct json_object *list;

	hr_json_string(report, "appliance", app->config.name);
	hr_json_string(report, "configuration", app->config.file);
	ssds_json(app, report);
	hr_report_gpus_json(app, true, report);
	list = hr_json_array(report, "pipelines");
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->run[i].selected)
			pipeline_json(app, &app->run[i], hr_json_append(list));
	hr_report_map_json(app, report);
}
