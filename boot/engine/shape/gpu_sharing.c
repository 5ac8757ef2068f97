/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/shape/gpu_sharing.h"

#include <errno.h>

#include "config/derived.h"

const char *hr_gpu_sharing_name(enum hr_tap_sharing share)
{
	static const char *const name[] = { "auto", "mps", "park", "slice" };

	return name[share];
}

enum hr_tap_sharing hr_run_gpu_sharing(const struct hr_engine *engine, const struct hr_run *run,
				       const char **why)
{
	const struct hr_gpu_facts *facts = engine->backend[run->config->gpu].facts;
	const enum hr_tap_sharing wanted = run->config->tap.share;

	if (!facts) {
		*why = "worker blocks are CPU threads, which the kernel schedules";
		return wanted == HR_SHARE_PARK ? HR_SHARE_PARK : HR_SHARE_SLICE;
	}
	if (wanted == HR_SHARE_AUTO && !facts->mps && hr_config_has_feed(run->config)) {
		*why = "no MPS server runs, and the worker of a feed does not leave the GPU";
		return HR_SHARE_SLICE;
	}
	*why = "the configuration says so";
	if (wanted != HR_SHARE_AUTO)
		return wanted;
	*why = facts->mps ? "an MPS server runs, so processes use the GPU at the same time"
			  : "no MPS server runs, so processes use the GPU in turns";
	return facts->mps ? HR_SHARE_MPS : HR_SHARE_PARK;
}

bool hr_run_gpu_sharing_is_small(const struct hr_engine *engine, const struct hr_run *run)
{
	const char *why;

	return engine->backend[run->config->gpu].facts &&
	       hr_run_gpu_sharing(engine, run, &why) == HR_SHARE_PARK &&
	       (uint64_t)run->slots * run->sink_tile_bytes < HR_GPU_SHARING_PARK_BYTES;
}

int hr_run_gpu_sharing_check(struct hr_engine *engine, const struct hr_run *run)
{
	const struct hr_config_tap *tap = &run->config->tap;
	const struct hr_backend *b = &engine->backend[run->config->gpu];

	if (tap->share == HR_SHARE_PARK && hr_config_has_feed(run->config))
		return hr_fail(
			&engine->error, HR_ERROR_USAGE, -EINVAL,
			"%s:%u: pipeline '%s': share is \"park\", but the worker of a feed does "
			"not leave the gpu; expected \"auto\", \"mps\" or \"slice\"",
			engine->config.file, tap->line, run->config->name);
	if (tap->share != HR_SHARE_MPS || (b->facts && b->facts->mps))
		return 0;
	return hr_fail(
		&engine->error, HR_ERROR_MISSING, -ENOTSUP,
		"%s:%u: pipeline '%s': share is \"mps\", but %s; expected \"auto\", \"park\" or "
		"\"slice\", or a running nvidia-cuda-mps-control whose folder "
		"CUDA_MPS_PIPE_DIRECTORY names",
		engine->config.file, tap->line, run->config->name,
		b->facts ? "this process is no client of an MPS server"
			 : "its worker blocks are CPU threads");
}
