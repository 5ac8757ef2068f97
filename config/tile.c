/* SPDX-License-Identifier: Apache-2.0 */
#include "config/tile.h"

#include <assert.h>

#include "config/derived.h"

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

uint32_t hr_config_row_bytes(const struct hr_config_pipeline *pipeline, uint32_t s)
{
	const uint32_t bytes = hr_op_row_bytes(pipeline->op, pipeline->op_args, s);

	return bytes ? bytes : 1;
}

uint32_t hr_config_longest_row(const struct hr_config_pipeline *pipeline)
{
	uint32_t longest = 1;

	for (uint32_t s = 0; s < pipeline->sources; s++)
		if (hr_config_row_bytes(pipeline, s) > longest)
			longest = hr_config_row_bytes(pipeline, s);
	return longest;
}

uint32_t hr_config_tile_rows(const struct hr_config_pipeline *pipeline)
{
	return pipeline->tile_bytes / hr_config_longest_row(pipeline);
}

uint32_t hr_config_tile_bytes(const struct hr_config_pipeline *pipeline, uint32_t s)
{
	return hr_config_tile_rows(pipeline) * hr_config_row_bytes(pipeline, s);
}

uint64_t hr_config_output_bytes(const struct hr_config_pipeline *pipeline, uint64_t rows)
{
	const struct hr_operator *op = pipeline->op;

	if (op->output != HR_OUT_DATA)
		return 0;
	return rows * hr_config_row_bytes(pipeline, 0) * op->out_num / op->out_den;
}

uint32_t hr_config_sink_tile_bytes(const struct hr_config_pipeline *pipeline)
{
	return (uint32_t)hr_config_output_bytes(pipeline, hr_config_tile_rows(pipeline));
}

uint64_t hr_config_row_step(const struct hr_config_pipeline *pipeline, uint32_t block)
{
	const struct hr_operator *op = pipeline->op;
	uint64_t step = 1;

	for (uint32_t s = 0; s < pipeline->sources; s++) {
		uint64_t need = block / gcd(block, hr_config_row_bytes(pipeline, s));

		step = step / gcd(step, need) * need;
	}
	if (op->output == HR_OUT_DATA) {
		uint64_t out = (uint64_t)hr_config_row_bytes(pipeline, 0) * op->out_num;
		uint64_t whole = (uint64_t)block * op->out_den;
		uint64_t need = whole / gcd(whole, out);

		step = step / gcd(step, need) * need;
	}
	return step;
}

uint64_t hr_config_tile_step(const struct hr_config_pipeline *pipeline)
{
	return hr_config_row_step(pipeline, HR_BLOCK_MAX) * hr_config_longest_row(pipeline);
}
