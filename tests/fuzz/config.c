/*
 * The configuration file: whatever the bytes are, the parser returns, with reports when it refuses,
 * and what it accepts keeps the promises that bring-up relies on.
 */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
const char *__lsan_default_suppressions(void);

/* libconfig 1.5 forgets the string it was reading when a syntax error ends the parse. */
const char *__lsan_default_suppressions(void)
{
	return "leak:strbuf_append\nleak:libconfig_yylex\n";
}

static void demand(int promise)
{
	if (!promise)
		abort();
}

static void count(void *to, const char *line)
{
	unsigned *reports = to;

	demand(strlen(line) > 0);
	++*reports;
}

static void check_pipeline(const struct hr_config *config, const struct hr_config_pipeline *p)
{
	demand(p->name[0] && p->op != NULL && p->gpu < config->gpus);
	demand(p->sources >= p->op->sources_min && p->sources <= p->op->sources_max);
	demand(p->slots <= HR_SLOTS_MAX);
	demand(!p->slots || p->prefetch_blocks <= p->slots);
	demand(!p->slots || p->compute_blocks <= p->slots);
	demand(p->has_sink || p->writeback_blocks == 0);
	demand(p->threads % 32 == 0 && p->threads <= HR_THREADS_MAX);
	demand(p->has_sink == (p->op->output == HR_OUT_DATA));
	demand(p->op_args_bytes <= HR_OP_ARGS_MAX);
	demand(p->tile_bytes >= 512 && p->tile_bytes <= HR_TILE_MAX);
	demand(hr_config_tile_rows(p) > 0);
	for (uint32_t s = 0; s < p->sources; s++) {
		demand(p->source[s].ssd < config->ssds && p->source[s].object[0]);
		demand(hr_config_tile_bytes(p, s) % 512 == 0);
		demand(hr_config_tile_bytes(p, s) <= p->tile_bytes);
	}
	demand(hr_config_sink_tile_bytes(p) % 512 == 0);
	demand(hr_config_sink_tile_bytes(p) <= HR_TILE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct hr_config config;
	unsigned reports = 0;
	int err = hr_config_parse(&config, "fuzz", (const char *)data, bytes, count, &reports);

	demand((err == 0) == (reports == 0));
	if (err)
		return 0;
	demand(config.ssds >= 1 && config.gpus >= 1);
	for (uint32_t i = 0; i < config.ssds; i++)
		demand(config.ssd[i].name[0] && config.ssd[i].device[0] &&
		       config.ssd[i].queue_entries >= HR_QUEUE_ENTRIES_MIN &&
		       config.ssd[i].queue_entries <= HR_QUEUE_ENTRIES_MAX);
	for (uint32_t i = 0; i < config.pipelines; i++)
		check_pipeline(&config, &config.pipeline[i]);
	return 0;
}
