/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/queue/worker.h"

__thread uint8_t hr_host_block[HR_BLOCK_MEMORY] __attribute__((aligned(16)));

void *hr_host_block_memory(void)
{
	return hr_host_block;
}
