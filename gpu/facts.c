/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/facts.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	size_t at;
} feature[] = {
	{ "virtual memory management", offsetof(struct hr_gpu_facts, virtual_memory) },
	{ "cooperative launch", offsetof(struct hr_gpu_facts, cooperative) },
	{ "host memory registration", offsetof(struct hr_gpu_facts, host_register) },
	{ "host pointers", offsetof(struct hr_gpu_facts, host_pointer) },
	{ "file descriptor handles", offsetof(struct hr_gpu_facts, fd_handles) },
	{ "DMA-BUF", offsetof(struct hr_gpu_facts, dma_buf) },
	{ "GPUDirect RDMA", offsetof(struct hr_gpu_facts, rdma) },
	{ "GPUDirect RDMA of mapped memory", offsetof(struct hr_gpu_facts, rdma_virtual_memory) },
	{ "compressible memory", offsetof(struct hr_gpu_facts, compressible) },
	{ "flush of device writes by the host", offsetof(struct hr_gpu_facts, flush_from_host) },
	{ "flush of device writes by streams", offsetof(struct hr_gpu_facts, flush_from_stream) },
	{ "device writes in order for this GPU", offsetof(struct hr_gpu_facts, ordered_for_owner) },
	{ "device writes in order for all GPUs", offsetof(struct hr_gpu_facts, ordered_for_all) },
};

const char *hr_gpu_feature(const struct hr_gpu_facts *facts, unsigned i, bool *supported)
{
	if (i >= sizeof feature / sizeof *feature)
		return NULL;
	*supported = *(const bool *)((const char *)facts + feature[i].at);
	return feature[i].name;
}

void hr_gpu_facts_text(const struct hr_gpu_facts *facts, char *text, size_t bytes)
{
	const char *name, *before = "; supports ";
	bool supported;

	snprintf(text, bytes, "%s, driver %s%s(CUDA %u.%u), capability %u.%u, %u SMs, %.1f GiB",
		 facts->pci, facts->driver, facts->driver[0] ? " " : "", facts->interface / 1000,
		 facts->interface % 1000 / 10, facts->capability / 10, facts->capability % 10,
		 facts->processors, (double)facts->memory_bytes / (double)(1u << 30));
	for (unsigned i = 0; (name = hr_gpu_feature(facts, i, &supported)); i++) {
		const size_t n = strlen(text);

		if (!supported)
			continue;
		snprintf(text + n, bytes - n, "%s%s", before, name);
		before = ", ";
	}
}

void hr_gpu_roles_text(const struct hr_gpu_facts *facts, char *text, size_t bytes)
{
	const struct hr_entry_facts *pipe = &facts->entry[0];
	size_t n = 0;

	text[0] = '\0';
	if (!facts->roles || !pipe->max_threads)
		return;
	for (unsigned r = 0; r < facts->roles && n < bytes; r++)
		n += (size_t)snprintf(text + n, bytes - n, "%s%s %u", r ? ", " : "",
				      facts->role[r].name, facts->role[r].registers);
	if (n < bytes)
		snprintf(text + n, bytes - n,
			 ", all in one launch %u; a block of %u threads can have %u each",
			 pipe->registers, pipe->max_threads,
			 facts->block_registers / pipe->max_threads);
}
