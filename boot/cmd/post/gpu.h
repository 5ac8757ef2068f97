/*
 * boot/cmd/post/gpu.h - steps of the self-test of a gpu (boot/cmd/post/step.h).
 */
#ifndef BOOT_CMD_POST_GPU_H
#define BOOT_CMD_POST_GPU_H

#include "gpu/backend.h"
#include "gpu/facts.h"

/*
 * Workers: read, write and copy host memory and GPU memory with the largest number
 * of blocks, and exchange words with the CPU. Entries: resources that the gpu's entry points need.
 */
int hr_post_workers(struct hr_backend *backend, char *detail, struct hr_error *e);
void hr_post_entries(const struct hr_gpu_facts *facts, char *detail);

#endif
