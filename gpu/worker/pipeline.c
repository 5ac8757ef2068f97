/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/worker/pipeline.h"

#include "gpu/worker/role.h"

HR_DEVICE void hr_pipe_block(struct hr_pipe *pipe, uint32_t block)
{
	const uint32_t readers = pipe->blocks[HR_ROLE_PREFETCH];
	const uint32_t computers = pipe->blocks[HR_ROLE_COMPUTE];

	if (block < readers)
		hr_prefetch_block(pipe, block);
	else if (block < readers + computers)
		hr_compute_block(pipe, block - readers);
	else
		hr_writeback_block(pipe, block - readers - computers);
}
