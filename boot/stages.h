/*
 * boot/stages.h - the appliance as one struct, brought up stage by stage and down in reverse.
 *
 *   config -> backends -> controllers -> stores -> partition -> pipelines
 *
 * Each stage prints one line at the log level it is asked for. After the last one the appliance is
 * sealed: nothing is allocated until it is unsealed by the way down (a test build traps malloc).
 */
#ifndef BOOT_STAGES_H
#define BOOT_STAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/ssd.h"
#include "config/config.h"
#include "gpu/arena.h"
#include "gpu/backend.h"
#include "gpu/pipeline.h"

/* How far bring-up goes. */
enum hr_stage {
	HR_STAGE_CONFIG,
	HR_STAGE_BACKENDS,
	HR_STAGE_CONTROLLERS,
	HR_STAGE_STORES,
	HR_STAGE_PARTITION, /* laid out and checked, nothing allocated: `headrace check` */
	HR_STAGE_MEMORY,    /* allocated and mapped */
	HR_STAGE_PIPELINES, /* queue pairs created, pipelines ready to launch */
	HR_STAGES,
};

/* A pipeline between configuration and worker code. */
struct hr_run {
	const struct hr_config_pipeline *config;
	struct hr_pipe *pipe; /* in control memory, as the CPU sees it */
	struct hr_object *source[HR_SOURCES_MAX];
	struct hr_object *sink;
	uint32_t ssds[HR_SOURCES_MAX]; /* distinct ssds of the sources */
	uint32_t ssd_count;
	uint64_t tiles;
	int part_pipe, part_slots, part_args, part_states, part_records, part_result, part_status;
	int part_qps, part_tiles_in, part_tiles_out, part_prps, part_chunks, part_rings,
		part_tables;
};

struct hr_appliance {
	struct hr_config config;
	struct hr_ssd ssd[HR_SSDS_MAX];
	struct hr_backend backend[HR_GPUS_MAX];
	struct hr_partition partition[HR_GPUS_MAX]; /* one per gpu */
	struct hr_run run[HR_PIPELINES_MAX];
	enum hr_stage up; /* stages that are up; way down starts here */
	int exit_code;	  /* of the first failure */
};

#endif
