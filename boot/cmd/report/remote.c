/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/report/parts.h"

#include "boot/engine/remote/remote.h"
#include "boot/engine/layout/sizes.h"
#include "config/derived.h"

static const char *name_of(const struct hr_config_pipeline *p)
{
	return hr_config_sends(p) ? p->tap.name : p->feed.name;
}

static const char *address_of(const struct hr_config_pipeline *p)
{
	return hr_config_sends(p) ? p->to.address : p->from.address;
}

void hr_report_remote(const struct hr_engine *engine, const struct hr_run *run,
		      const struct hr_remote_counters *c, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	struct hr_remote_report report;

	hr_remote_snapshot(engine, run, &report);
	fprintf(out, "    remote %s: %s %s: %llu tiles %s, %llu bytes, %llu copied by a CPU\n",
		name_of(p), hr_config_sends(p) ? "to" : "at", address_of(p),
		(unsigned long long)c->tiles, hr_config_sends(p) ? "sent" : "received",
		(unsigned long long)c->bytes, (unsigned long long)c->copies);
	fprintf(out,
		"    remote %s: %llu connections, %llu broken, %llu refused; %llu tiles again, "
		"%llu not ready; last recovery %.1f ms\n",
		name_of(p), (unsigned long long)c->connections, (unsigned long long)c->broken,
		(unsigned long long)c->refused, (unsigned long long)c->again,
		(unsigned long long)c->not_ready, (double)c->recovery_ns / 1e6);
	if (report.described[0])
		fprintf(out, "    remote %s: %s\n", name_of(p), report.described);
}

void hr_report_remote_json(const struct hr_engine *engine, const struct hr_run *run,
			   const struct hr_remote_counters *c, struct hr_json *out)
{
	const struct hr_config_pipeline *p = run->config;
	struct hr_remote_report report;

	hr_remote_snapshot(engine, run, &report);
	hr_json_object(out, "remote");
	hr_json_string(out, "name", name_of(p));
	hr_json_string(out, "side", hr_config_sends(p) ? "sender" : "receiver");
	hr_json_string(out, "address", address_of(p));
	hr_json_string(out, "path", report.described);
	hr_counters_json(out, hr_remote_counters, c, HR_IN_RUN);
	hr_json_close(out);
}

/* ---- before the run */

static uint32_t tile_of(const struct hr_run *run)
{
	return hr_config_sends(run->config) ? run->sink_tile_bytes : run->source[0].tile_bytes;
}

void hr_report_remote_plan(const struct hr_engine *engine, const struct hr_run *run, FILE *out)
{
	const struct hr_config_pipeline *p = run->config;
	const uint32_t bytes = tile_of(run);
	struct hr_remote_report report;

	hr_remote_snapshot(engine, run, &report);
	fprintf(out, "  %-12s %s remote %s %s %s, %llu bytes%s, %u a tile\n", "",
		hr_config_sends(p) ? "sends " : "takes ", name_of(p),
		hr_config_sends(p) ? "to" : "at", address_of(p),
		(unsigned long long)(hr_config_sends(p) ? run->sink_bytes : run->source[0].bytes),
		hr_config_sends(p) ? "" : " at most", bytes);
	fprintf(out, "  %-12s        %u slots of %u bytes, which the network device accesses%s\n",
		"", run->slots, hr_layout_tile_bytes(bytes),
		run->copies ? "; copied before use"
			    : "; a CPU thread of the engine posts and polls");
	if (report.described[0])
		fprintf(out, "  %-12s        %s\n", "", report.described);
}

void hr_report_remote_plan_json(const struct hr_engine *engine, const struct hr_run *run,
				struct hr_json *out)
{
	const struct hr_config_pipeline *p = run->config;
	struct hr_remote_report report;

	hr_remote_snapshot(engine, run, &report);
	hr_json_object(out, "remote");
	hr_json_string(out, "name", name_of(p));
	hr_json_string(out, "side", hr_config_sends(p) ? "sender" : "receiver");
	hr_json_string(out, "address", address_of(p));
	hr_json_u64(out, "size_bytes", hr_config_sends(p) ? run->sink_bytes : run->source[0].bytes);
	hr_json_u64(out, "tile_bytes", tile_of(run));
	hr_json_u64(out, "slots", run->slots);
	hr_json_u64(out, "slot_bytes", hr_layout_tile_bytes(tile_of(run)));
	hr_json_bool(out, "copied", run->copies);
	hr_json_string(out, "path", report.described);
	hr_json_close(out);
}
