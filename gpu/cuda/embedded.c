/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/embedded.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "config/base/log.h"
#include "gpu/worker/pipeline.h"

/* Embedded by gpu/cuda/image/embed.S. */
extern const uint8_t hr_worker_image[], hr_worker_objects_image[], hr_worker_objects_wide_image[];
extern const uint8_t hr_worker_tools_image[], hr_worker_roles_image[];
extern const uint8_t hr_worker_user_image[], hr_worker_user_image_end[];
extern const uint8_t hr_worker_access_image[], hr_worker_access_image_end[];

static const uint8_t *const image_data[HR_CUDA_IMAGES] = {
	[HR_CUDA_STREAMS] = hr_worker_image,
	[HR_CUDA_OBJECTS] = hr_worker_objects_image,
	[HR_CUDA_OBJECTS_WIDE] = hr_worker_objects_wide_image,
	[HR_CUDA_TOOLS] = hr_worker_tools_image,
};

static const struct {
	const char *name;
	enum hr_cuda_images image;
} entry_at[] = {
	[HR_ENTRY_PIPE] = { "hr_entry_pipe", HR_CUDA_STREAMS },
	[HR_ENTRY_BENCH] = { "hr_entry_bench", HR_CUDA_TOOLS },
	[HR_ENTRY_PROBE] = { "hr_entry_probe", HR_CUDA_TOOLS },
	[HR_ENTRY_ACCESS] = { "hr_entry_access", HR_CUDA_OBJECTS },
	[HR_ENTRY_TAP] = { "hr_entry_tap", HR_CUDA_STREAMS },
	[HR_ENTRY_FEED] = { "hr_entry_feed", HR_CUDA_STREAMS },
	[HR_ENTRY_ACCESS_WIDE] = { "hr_entry_access_wide", HR_CUDA_OBJECTS_WIDE },
};

#define ENTRIES (sizeof entry_at / sizeof *entry_at)

static const struct {
	const char *entry, *name;
} role[] = {
	[HR_ROLE_PREFETCH] = { "hr_role_prefetch", "prefetch" },
	[HR_ROLE_COMPUTE] = { "hr_role_compute", "compute" },
	[HR_ROLE_WRITEBACK] = { "hr_role_writeback", "writeback" },
};

_Static_assert(sizeof role / sizeof *role == HR_GPU_ROLES_MAX, "facts have room for all roles");

struct hr_cuda_input hr_cuda_user_image(const struct hr_operator *op)
{
	const bool accesses = hr_op_accesses(op);
	const uint8_t *image = accesses ? hr_worker_access_image : hr_worker_user_image;
	const uint8_t *end = accesses ? hr_worker_access_image_end : hr_worker_user_image_end;

	return (struct hr_cuda_input){ image, (uintptr_t)end - (uintptr_t)image, "worker image" };
}

const char *hr_cuda_entry_name(enum hr_entry entry)
{
	return entry_at[entry].name;
}

/* Most builds have machine code for the GPUs of one machine (ARCHS in gpu/cuda/cuda.mk). */
static int load_image(struct hr_cuda_gpu *gpu, struct hr_cuda_image *image, const uint8_t *data)
{
	static const char what[] = "worker image";
	const int err = hr_cuda_image_load(gpu, image, data, what);

	if (err == -ENOTSUP)
		hr_cuda_fail(
			&gpu->cu, err,
			"%s: no code in it runs on compute capability %u.%u; build headrace on "
			"this machine, or with ARCHS=all; %s",
			what, gpu->facts.capability / 10, gpu->facts.capability % 10,
			gpu->cu.error.text);
	return err;
}

int hr_cuda_load_images(struct hr_cuda *cuda)
{
	struct hr_gpu_facts *facts = &cuda->gpu.facts;
	int err = 0;

	for (size_t i = 0; !err && i < HR_CUDA_IMAGES; i++)
		err = load_image(&cuda->gpu, &cuda->image[i], image_data[i]);
	for (size_t i = 0; !err && i < ENTRIES; i++) {
		err = hr_cuda_entry_find(&cuda->gpu, &cuda->image[entry_at[i].image],
					 &cuda->entry[i], entry_at[i].name);
		facts->entry[i] = cuda->entry[i].facts;
	}
	facts->entries = ENTRIES;
	return err;
}

int hr_cuda_read_roles(struct hr_cuda *cuda)
{
	struct hr_gpu_facts *facts = &cuda->gpu.facts;
	struct hr_cuda_image image;
	struct hr_cuda_entry entry;
	int err = hr_cuda_image_load(&cuda->gpu, &image, hr_worker_roles_image, "role image");

	facts->roles = 0;
	for (size_t r = 0; !err && r < HR_GPU_ROLES_MAX; r++) {
		err = hr_cuda_entry_find(&cuda->gpu, &image, &entry, role[r].entry);
		facts->role[r] = entry.facts;
		snprintf(facts->role[r].name, HR_NAME_MAX, "%s", role[r].name);
	}
	hr_cuda_image_unload(&cuda->gpu, &image);
	if (!err)
		facts->roles = HR_GPU_ROLES_MAX;
	return err;
}
